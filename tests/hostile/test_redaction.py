"""Finding 11: secrets that a trainer prints or that the console was given leave by no exit."""

from __future__ import annotations

import base64
import io
import json
import sys
import urllib.parse
from typing import Any

import pytest

from bs4_console.checks import delivery
from bs4_console.checks.recipients import Channel
from bs4_console.checks.transitions import Notice
from bs4_console.checks.verdict import CRITICAL, OK
from bs4_console.cli.logs import _Bytes, _Lines, _Redacted
from bs4_console.cli.output import emit
from bs4_console.cli.setup import _print_log
from bs4_console.logs.text import present
from bs4_console.pods.session import Chunk
from bs4_console.printable import only_printable
from bs4_console.secret import Secret, know_environment, redacted
from bs4_console.tui.styled_text import DARK, RoleStyles
from tests.console.checks.receiver import receiving
from tests.hostile.trainer_secrets import PRINTED, TEXT

GIVEN = 'cAnAry"given\\+/%&=3?end'
SECRETS = [secret for _, secret in PRINTED.values()]


def clean(text: str) -> bool:
    return not any(secret in text for secret in SECRETS)


def test_a_value_that_was_given_is_known_in_each_form() -> None:
    Secret(GIVEN)
    encoded = [
        GIVEN,
        json.dumps(GIVEN),
        urllib.parse.quote(GIVEN, safe=""),
        *(base64.b64encode(b"x" * shift + GIVEN.encode() + b"yz").decode() for shift in range(3)),
    ]
    for text in encoded:
        assert "[redacted: a key of this console]" in redacted(f"a {text} b"), text


def test_variables_with_the_names_of_secrets_are_known() -> None:
    know_environment({"MY_SERVICE_TOKEN": "plain-cAnAry-words", "HOME": "/home/somebody"})
    assert "cAnAry" not in redacted("x plain-cAnAry-words")
    assert redacted("/home/somebody") == "/home/somebody"


def test_commands_print_none_on_either_stream_and_in_no_json() -> None:
    out, err = io.StringIO(), io.StringIO()
    with only_printable(out, err):
        for at in range(0, len(TEXT), 7):
            print(TEXT[at : at + 7], end="")
        emit("x", text=TEXT, inner=[{"api_key": "cAnAry-under-a-name-1"}])
        for line in io.StringIO(TEXT):
            print(line, end="", file=sys.stderr)
    said = out.getvalue()
    assert clean(said)
    assert clean(err.getvalue())
    assert "cAnAry-under" not in said
    assert json.loads(said.splitlines()[-1].partition("step 4")[2])["schema"] == "bs4.x/1"


@pytest.mark.parametrize("size", [1, 5, 64, 4000])
def test_logs_are_redacted_over_chunks_and_raw_ones_are_not(
    size: int, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    data = TEXT.encode() + b"\xff\n"
    for printer in (_Redacted(), _Bytes()):
        for at in range(0, len(data), size):
            part = data[at : at + size]
            printer.write(Chunk(f"1:{at}", f"1:{at + len(part)}", part), 0)
        printer.end()
    both = capfdbinary.readouterr().out
    assert both.endswith(data)
    shown = both[: -len(data)].decode("latin-1")
    assert clean(shown)
    assert "step 4" in shown
    lines = _Lines("log/r/trainer")
    lines.write(Chunk("1:0", f"1:{len(data)}", data), 0)
    assert clean(capfdbinary.readouterr().out.decode())


class SetUpLog:
    """What `pods setup --log` asks of a pod, with a log that comes in pieces of `size` bytes."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size = data, size

    async def streams(self) -> list[str]:
        return ["setup"]

    async def read_log(
        self, stream: str, cursor: str, *, seen: int = 0, ahead: bool = False
    ) -> Chunk:
        at = 0 if cursor == "start" else int(cursor.partition(":")[2])
        end = min(at + self._size, len(self._data))
        more = end < len(self._data)
        return Chunk(f"1:{at}", f"1:{end}", self._data[at:end], more=more)


@pytest.mark.parametrize("size", [7, 64, 4000])
async def test_the_log_of_set_ups_is_redacted(
    size: int, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    live: Any = SetUpLog(TEXT.encode(), size)
    assert await _print_log(live) == 0
    shown = capfdbinary.readouterr().out.decode()
    assert clean(shown)
    assert "cAnAry" not in shown
    assert shown.endswith("step 4")


def test_notices_hold_none() -> None:
    with receiving() as at:
        notice = Notice("pod-a", CRITICAL, OK, TEXT, [{"title": TEXT}], t=5.0)
        delivery.send(Channel("webhook", "my webhook", Secret(at.url("/x"))), notice)
        delivery.send(Channel("ntfy", "my ntfy", Secret(at.url("/y"))), notice)
    assert len(at.got) == 2
    for got in at.got:
        assert clean(str(vars(got)))


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_the_screen_draws_none(name: str) -> None:
    line, secret = PRINTED[name]
    assert secret not in present(line.encode()).text
    assert secret not in RoleStyles(DARK).strip([(line, "")], 200).text
