"""The providers that rent out machines. Each has one small adapter over its HTTP API, and all
adapters have the interface of base.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import httpx

from bs4_console.errors import UsageError
from bs4_console.providers import keys
from bs4_console.providers.base import Provider
from bs4_console.providers.lambda_labs import Lambda
from bs4_console.providers.prime import Prime
from bs4_console.providers.runpod import RunPod
from bs4_console.providers.vast import Vast
from bs4_console.providers.verda import Verda
from bs4_console.secret import Secret as Secret

_MAKERS: Mapping[str, Callable[..., Provider]] = {
    "vast": Vast,
    "runpod": RunPod,
    "prime": Prime,
    "lambda": Lambda,
    "verda": Verda,
}
NAMES = tuple(_MAKERS)


def make(
    name: str,
    client: httpx.AsyncClient,
    *,
    key: tuple[Secret, ...] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Provider:
    """Return the adapter for the provider `name`, which sends its requests over `client`. `key`
    holds the fields of the account's key; None means the key that keys.py finds on this machine.

    The environment variable `BS4_<NAME>_URL` replaces the provider's address. Raises UsageError if
    no provider has this name, and NoKey if this machine has no key for it.
    """
    if name not in _MAKERS:
        raise UsageError(f"There is no provider {name!r}.", f"Choose {', '.join(NAMES)}.")
    if key is not None:
        found = key
    else:
        found = keys.find(name, environment)
    url = environment.get(f"BS4_{name.upper()}_URL")
    return _MAKERS[name](client, found, **({"base_url": url} if url else {}))
