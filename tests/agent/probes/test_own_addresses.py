"""Which names and addresses lead to this machine."""

from __future__ import annotations

import socket

import pytest

from bs4_agent.probes.own_addresses import leads_here, own_addresses

SPELLINGS = (
    "localhost localhost. 127.0.0.1 127.0.0.2 127.1 0 0.0.0.0 0x7f.1 :: ::1 ::ffff:127.0.0.1"
)


@pytest.mark.parametrize("host", SPELLINGS.split())
def test_this_machine_in_every_spelling(host: str) -> None:
    assert leads_here(host)


def test_its_own_addresses_and_the_names_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in own_addresses():
        if "." in address:
            assert leads_here(address)
    own = next(address for address in own_addresses() if "." in address)
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (own, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answer)
    assert leads_here("pod-17.internal")


def unknown(*_: object, **__: object) -> None:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_another_machine_and_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not leads_here("192.0.2.7")
    assert not leads_here("2001:db8::7")
    with pytest.raises(OSError, match="is no name of a host"):
        leads_here("ｌocalhost")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(OSError, match="not known"):
        leads_here("no-such-host")
