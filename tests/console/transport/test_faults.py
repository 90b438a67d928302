"""What went wrong with a connection, in one sentence with the next thing to do."""

from __future__ import annotations

import errno

import asyncssh
import pytest

from bs4_console.transport import faults
from bs4_console.transport.route import Hop

PROXY = ("false",)


def hop(proxy: tuple[str, ...] | None) -> Hop:
    return Hop(
        entry="p",
        label="pod p",
        jump=False,
        host="ends",
        port=None,
        user=None,
        address="192.0.2.1",
        at=22,
        login="root",
        identities=(),
        required=False,
        certificates=(),
        identities_only=False,
        agent_path=None,
        proxy_command=proxy,
        sets_ciphers=False,
        config=(),
    )


@pytest.mark.parametrize(
    "error",
    [
        asyncssh.ConnectionLost("gone"),
        BrokenPipeError(32, "Broken pipe"),
        ConnectionResetError(104, "reset"),
    ],
)
def test_a_proxy_command_that_ends_is_named_however_early_it_ends(error: Exception) -> None:
    """Before our greeting is written the pipe breaks, after it the connection is lost: which one is
    a matter of microseconds.
    """
    told = faults.connecting(error, hop(PROXY), greeted=False, tried=(), via=None)
    assert "ended without a connection" in str(told)
    assert "Run it by hand: false" in str(told)


def test_without_one_it_is_the_port_that_gave_no_greeting() -> None:
    told = faults.connecting(
        BrokenPipeError(32, "Broken pipe"), hop(None), greeted=False, tried=(), via=None
    )
    assert "gave no SSH greeting" in str(told)


def test_what_the_system_says_is_told_and_not_what_asyncio_makes_of_it() -> None:
    error = OSError(errno.ENETUNREACH, "Connect call failed ('192.0.2.1', 22)")
    told = faults.connecting(error, hop(None), greeted=False, tried=(), via=None)
    assert str(told).startswith("There is no way to pod p (192.0.2.1 port 22): Network is unreach")
