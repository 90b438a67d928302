"""Where a model comes from: a directory, the hub's cache, or the hub itself; with huggingface_hub's
and transformers' own words.

What stands for the network is BS4_MINIATURE_HUB, the address behind the hub's name on this pod.
Without a listener there the hub is not reachable; with the model in the cache nobody asks.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from . import pace

_HOST = "https://huggingface.co"
_KNOWN_TYPES = ("llama", "mistral", "qwen2", "qwen3")
_RETRIES = 5


class HfHubHTTPError(OSError):
    """Raised when the model hub answers with an HTTP error."""

    __module__ = "huggingface_hub.errors"


class RepositoryNotFoundError(HfHubHTTPError):
    """Raised when the model hub does not have the model."""

    __module__ = "huggingface_hub.errors"


class GatedRepoError(RepositoryNotFoundError):
    """Raised when the model hub lets only chosen accounts have the model."""

    __module__ = "huggingface_hub.errors"


class LocalEntryNotFoundError(FileNotFoundError):
    """Raised when a model is not in the cache and cannot be downloaded."""

    __module__ = "huggingface_hub.errors"


def load_config(model: str) -> dict[str, Any]:
    """Return the `config.json` of a model. `model` is a directory, or a name on the model hub; then
    the file comes from the hub's cache, or from the hub and is cached. Raises OSError, with the
    message of huggingface_hub or transformers, if it cannot be had, and ValueError if the model's
    architecture is not known.
    """
    config: dict[str, Any] = json.loads(_config_file(model).read_text())
    kind = config.get("model_type", "")
    if kind not in _KNOWN_TYPES:
        try:
            raise KeyError(kind)
        except KeyError as error:
            raise ValueError(
                f"The checkpoint you are trying to load has model type `{kind}` but Transformers "
                "does not recognize this architecture. This could be because of an issue with "
                "the checkpoint, or because your version of Transformers is out of date."
            ) from error
    return config


def cache(model: str) -> Path:
    """Return the directory in the hub's cache in which the files of the model with the name `model`
    lie once it was downloaded.
    """
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    return home / "hub" / f"models--{model.replace('/', '--')}" / "snapshots" / "main"


def _config_file(model: str) -> Path:
    if (local := Path(model)).is_dir():
        return local / "config.json"
    if model.count("/") > 1 or model.startswith("/"):
        raise OSError(
            f"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{model}'. "
            "Use `repo_type` argument if needed."
        )
    cached = cache(model) / "config.json"
    if not cached.exists():
        if os.environ.get("HF_HUB_OFFLINE") == "1":
            raise LocalEntryNotFoundError(_NOT_CACHED) from OSError(
                f"Cannot reach {_HOST}/{model}/resolve/main/config.json: offline mode is enabled. "
                "To disable it, please unset the `HF_HUB_OFFLINE` environment variable."
            )
        body = _download(model)
        cached.parent.mkdir(parents=True, exist_ok=True)
        partial = cached.with_name(f"{uuid.uuid4().hex}.incomplete")
        partial.write_bytes(body)
        partial.rename(cached)
    return cached


_NOT_CACHED = (
    "Cannot find an appropriate cached snapshot folder for the specified revision on the local "
    "disk and outgoing traffic has been disabled. To enable repo look-ups and downloads online, "
    "pass 'local_files_only=False' as input."
)
_NO_CONNECTION = (
    "An error happened while trying to locate the file on the Hub and we cannot find the "
    "requested files in the local cache. Please check your connection and try again or make sure "
    "your Internet connection is on."
)


def _download(model: str) -> bytes:
    url = f"{_HOST}/{model}/resolve/main/config.json"
    for attempt in range(1, _RETRIES + 1):
        try:
            status, headers, body = _ask(f"/{model}/resolve/main/config.json")
        except OSError as error:
            raise LocalEntryNotFoundError(_NO_CONNECTION) from error
        if status != 429:
            break
        sys.stderr.write(
            f"HTTP Error 429 thrown while requesting HEAD {url}\nRetrying in {attempt}s "
            f"[Retry {attempt}/{_RETRIES}].\n"
        )
        pace.nap(attempt)
    if status == 200:
        return body
    raise _refusal(model, status, url, headers)


def _refusal(model: str, status: int, url: str, headers: dict[str, str]) -> OSError:
    request = f"(Request ID: Root=1-{uuid.uuid4().hex[:8]}-{uuid.uuid4().hex[:24]})"
    if status == 429:
        error: OSError = LocalEntryNotFoundError(_NO_CONNECTION)
        error.__cause__ = HfHubHTTPError(f"429 Client Error: Too Many Requests for url: {url}")
        return error
    if status == 403:
        return GatedRepoError(
            f"403 Client Error. {request}\n\nCannot access gated repo for url {url}.\nAccess to "
            f"model {model} is restricted and you are not in the authorized list. Visit "
            f"{_HOST}/{model} to ask for access."
        )
    if status == 401:
        words = headers.get("x-error-message", "Invalid credentials in Authorization header")
        return HfHubHTTPError(f"401 Client Error: Unauthorized for url: {url} {request}\n\n{words}")
    missing = RepositoryNotFoundError(
        f"404 Client Error. {request}\n\nRepository Not Found for url: {url}."
    )
    error = OSError(
        f"{model} is not a local folder and is not a valid model identifier listed on "
        f"'{_HOST}/models'\nIf this is a private repository, make sure to pass a token having "
        "permission to this repo either by logging in with `hf auth login` or by passing "
        "`token=<your_token>`"
    )
    error.__cause__ = missing
    return error


def _ask(path: str) -> tuple[int, dict[str, str], bytes]:
    host, _, port = os.environ.get("BS4_MINIATURE_HUB", "127.0.0.1:1").rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        connection.request(
            "GET", path, headers={"Authorization": f"Bearer {token}"} if (token := _token()) else {}
        )
        answer = connection.getresponse()
        return (
            answer.status,
            {key.lower(): value for key, value in answer.getheaders()},
            answer.read(),
        )
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


def _token() -> str:
    """HF_TOKEN, or the file that `hf auth login` writes."""
    stored = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface") / "token"
    return os.environ.get("HF_TOKEN") or (stored.read_text().strip() if stored.exists() else "")
