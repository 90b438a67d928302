"""Notices over real HTTP to real servers: what arrives, what happens when nobody takes it, and that
no address is ever shown.
"""

from __future__ import annotations

import base64
import json
import logging
import socket
from collections.abc import Iterator

import pytest

from bs4_console.checks import delivery
from bs4_console.checks.delivery import Notifier, NotSent, send
from bs4_console.checks.recipients import Channel
from bs4_console.checks.transitions import Notice
from bs4_console.checks.verdict import CRITICAL, OK, WARNING
from bs4_console.errors import UsageError
from bs4_console.secret import Secret
from tests.console.checks.receiver import receiving

TOKEN = "s3cr3t-T0ken"  # noqa: S105 (what must not be shown)
BAD = Notice(
    "pod-a",
    CRITICAL,
    OK,
    "vllm-silent-death: the engine is gone",
    [{"failure": "vllm-silent-death"}],
    t=5.0,
)
GOOD = Notice("pod-a", OK, CRITICAL, "demo running, step 9")


def channel(kind: str, url: str, **more: object) -> Channel:
    return Channel(kind, f"my {kind}", Secret(url), **more)  # type: ignore[arg-type]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which nobody listens. It is bound, so that no other process gets it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_a_webhook_gets_one_object_with_its_token() -> None:
    with receiving() as at:
        send(channel("webhook", at.url(f"/{TOKEN}"), token=Secret("t0k")), BAD)
    (got,) = at.got
    assert (got.path, got.headers["authorization"], got.headers["content-type"]) == (
        f"/{TOKEN}",
        "Bearer t0k",
        "application/json",
    )
    said = "CRITICAL: pod-a - vllm-silent-death: the engine is gone"
    assert got.json == {
        "schema": "bs4.notice/1",
        "pod": "pod-a",
        "status": "CRITICAL",
        "was": "OK",
        "text": said,
        "content": said,
        "incidents": [{"failure": "vllm-silent-death"}],
        "t": 5.0,
    }


def test_ntfy_gets_title_priority_and_tag() -> None:
    with receiving() as at:
        send(channel("ntfy", at.url("/topic")), BAD)
        send(channel("ntfy", at.url("/topic")), GOOD)
        send(channel("ntfy", at.url("/topic")), Notice("läufe\n", WARNING, OK, "ü"))
    bad, good, odd = at.got
    assert (bad.headers["title"], bad.headers["priority"], bad.headers["tags"]) == (
        "CRITICAL: pod-a",
        "urgent",
        "rotating_light",
    )
    assert bad.body.decode() == BAD.text
    assert (good.headers["title"], good.headers["tags"]) == ("RECOVERED: pod-a", "white_check_mark")
    assert (
        base64.b64decode(
            odd.headers["title"].removeprefix("=?UTF-8?B?").removesuffix("?=")
        ).decode()
        == "WARNING: läufe"
    )
    assert odd.body.decode() == "ü"


async def test_the_dead_mans_ping_comes_each_cycle_and_says_fail_while_something_is_critical() -> (
    None
):
    with receiving() as at:
        plain, telling = (
            channel("healthchecks", at.url("/ping/x")),
            channel("healthchecks", at.url("/ping/y/"), fail=True),
        )
        notifier = Notifier(
            [plain, Channel("healthchecks", "second", telling.url, fail=True)], pytest.fail
        )
        await notifier.tell([], OK, "1 OK")
        await notifier.tell([BAD], CRITICAL, "1 CRITICAL: pod-a")
    assert sorted((got.path, got.body.decode()) for got in at.got) == [
        ("/ping/x", "CRITICAL - 1 CRITICAL: pod-a"),
        ("/ping/x", "OK - 1 OK"),
        ("/ping/y/", "OK - 1 OK"),
        ("/ping/y/fail", "CRITICAL - 1 CRITICAL: pod-a"),
    ]


async def test_a_receiver_that_was_away_gets_everything_in_order_and_is_complained_of_once() -> (
    None
):
    said: list[str] = []
    with receiving() as at:
        notifier = Notifier([channel("webhook", at.url(f"/{TOKEN}"))], said.append)
        at.status = 503
        await notifier.tell([BAD], CRITICAL, "")
        await notifier.tell([GOOD], OK, "")
        assert len(at.got) == 2
        at.status, before = 200, len(at.got)
        await notifier.tell([], OK, "")
        assert [got.json["status"] for got in at.got[before:]] == ["CRITICAL", "OK"]
        await notifier.tell([], OK, "")
        assert len(at.got) == before + 2
    assert said == [
        (
            "The channel my webhook (webhook) was not told: it answered with HTTP 503. It is "
            "tried again; see notify.toml."
        ),
        "The channel my webhook takes notices again.",
    ]


async def test_one_receiver_that_fails_does_not_keep_the_others_waiting_or_silent(
    closed_port: int,
) -> None:
    said: list[str] = []
    with receiving() as at:
        notifier = Notifier(
            [
                channel("ntfy", f"http://127.0.0.1:{closed_port}/{TOKEN}"),
                channel("webhook", at.url("/")),
            ],
            said.append,
        )
        await notifier.tell([BAD], CRITICAL, "")
    assert len(at.got) == 1
    assert "my ntfy" in said[0]
    assert "refused" in said[0]


async def test_what_waits_is_bounded_and_the_loss_is_said(
    closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "KEPT", 2)
    said: list[str] = []
    notifier = Notifier([channel("webhook", f"http://127.0.0.1:{closed_port}/")], said.append)
    await notifier.tell([BAD, BAD, GOOD], OK, "")
    assert sum("is dropped" in line for line in said) == 1


def test_a_redirect_is_not_followed() -> None:
    with receiving() as thief, receiving() as at:
        at.status, at.location = 302, thief.url("/")
        with pytest.raises(NotSent, match="HTTP 302"):
            send(channel("webhook", at.url("/"), token=Secret(TOKEN)), BAD)
    assert thief.got == []


def test_a_receiver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "TIMEOUT_S", 0.2)
    with receiving(hanging=True) as at, pytest.raises(NotSent, match="did not answer within"):
        send(channel("webhook", at.url("/")), BAD)


@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:1/{TOKEN}",
        f"http://{TOKEN}.invalid/",
        f"http://user:{TOKEN}@127.0.0.1:1/",
        f"http://127.0.0.1:1/{TOKEN}/ü",
        f"http://127.0.0.1:1/{TOKEN} x",
        f"http://127.0.0.1:x{TOKEN}/",
        f"http://[{TOKEN}/",
    ],
)
def test_no_failure_shows_the_address(
    url: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(NotSent) as raised:
        send(channel("webhook", url), BAD)
    everything = str(raised.value) + repr(raised.value) + caplog.text + "".join(capfd.readouterr())
    assert TOKEN not in everything
    assert raised.value.__suppress_context__


def test_apprise_that_is_not_installed_is_said_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "apprise", None)
    with pytest.raises(UsageError, match=r"bs4-console\[apprise\]"):
        Notifier([channel("apprise", f"json://{TOKEN}")], pytest.fail)


def test_apprise_delivers_and_keeps_addresses_to_itself(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("apprise", reason="the extra `apprise` is not installed")
    with receiving() as at:
        send(channel("apprise", f"json://127.0.0.1:{at.port}/{TOKEN}"), BAD)
        (got,) = at.got
        assert json.loads(got.body)["message"] == BAD.text
        at.status = 500
        with pytest.raises(NotSent, match="could not deliver"):
            send(channel("apprise", f"json://127.0.0.1:{at.port}/{TOKEN}"), BAD)
    with pytest.raises(NotSent, match="does not know"):
        send(channel("apprise", f"nosuch://{TOKEN}"), BAD)
    assert TOKEN not in caplog.text + "".join(capfd.readouterr())
