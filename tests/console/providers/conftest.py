"""Practice clouds over real HTTP, and adapters that speak to them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from bs4_console import providers
from bs4_console.providers.base import Provider
from bs4_console.secret import Secret
from bs4_practice import cloud as clouds
from bs4_practice.cloud import Cloud

#: Read once: it takes longer than a test.
CONTEXT = ssl.create_default_context()

PUBLIC_KEY = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPractice0000000000000000000000000000000000 "
    "tester@example.org"
)


def key_of(provider: str, secret: str = Cloud.KEY) -> tuple[Secret, ...]:
    return (Secret("practice-client"), Secret(secret)) if provider == "verda" else (Secret(secret),)


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with clouds.running(boot_s=0.02) as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(verify=CONTEXT) as made:
        yield made


def adapter(
    cloud: Cloud, name: str, client: httpx.AsyncClient, secret: str = Cloud.KEY
) -> Provider:
    made = providers.make(
        name,
        client,
        key=key_of(name, secret),
        environment={f"BS4_{name.upper()}_URL": cloud.url(name)},
    )
    if name == "lambda":
        made._pace_s = 0.0  # type: ignore[attr-defined]
    for api in ("_api", "_open"):
        if hasattr(made, api):
            getattr(made, api)._pauses_s = (0.01, 0.01)
    return made


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A console of its own: no files of the person who runs the tests."""
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name.lower()))
    return tmp_path
