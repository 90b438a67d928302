"""Finding 11: the lines of a private key look like nothing; what is around them tells."""

from __future__ import annotations

import json

import pytest

from bs4_console.logs.detail import entry
from bs4_console.logs.private_keys import AROUND, shown_line
from bs4_console.logs.store import MARK, LogStore, Row
from bs4_console.logs.text import present

#: Lines as openssl writes them; the last one is shorter.
LINES = [*(f"cAnAry{number:02}" + "aB3/" * 14 for number in range(5)), "cAnAryEnd9=="]
KEY = ["-----BEGIN PRIVATE KEY-----", *LINES, "-----END PRIVATE KEY-----"]
LOG = ["step 3", *KEY, "loss", "step 4"]


def rows(lines: list[str], source: int = 0, at: int = 500) -> list[Row]:
    """Return the lines as rows of a log, whose first one begins at byte `at`."""
    found = []
    for line in lines:
        found.append((source, 1, at, line.encode()))
        at += len(line) + 1
    return found


def shown(store: LogStore) -> list[str]:
    return [shown_line(store, n)[1].decode() for n in range(store.first, store.end)]


def held(lines: list[str]) -> list[str]:
    """Return how a window that holds these lines shows them."""
    store = LogStore()
    store.extend(rows(lines))
    return shown(store)


@pytest.mark.parametrize("first", range(len(KEY)))
def test_wherever_the_window_begins(first: int) -> None:
    told = held(LOG[1 + first :])
    assert "cAnAry" not in "".join(told)
    assert told[-2:] == ["loss", "step 4"]


def test_a_key_that_is_still_being_written() -> None:
    store = LogStore()
    store.extend(rows(LOG[:4]))
    assert "cAnAry" not in "".join(shown(store))
    store.append(LINES[3].encode(), 0, "1:900")
    (number,) = range(store.end, store.end + len(store.open_sources))
    assert "cAnAry" not in shown_line(store, number)[1].decode()


def test_lines_of_other_logs_in_between() -> None:
    mixed: list[Row] = []
    for row in rows(LOG):
        mixed += [row, (1, 1, row[2], b"INFO step 9 of the orchestrator")]
    store = LogStore()
    store.extend(mixed)
    store.mark("a gap")
    told = shown(store)
    assert "cAnAry" not in "".join(told)
    assert told.count("INFO step 9 of the orchestrator") == len(LOG)
    assert shown_line(store, store.end - 1) == (MARK, b"a gap")


def test_a_filter_that_finds_the_lines_of_a_key() -> None:
    store = LogStore()
    store.extend(rows(LINES[:5]), passed="cAnAry")
    assert "cAnAry" not in "".join(shown(store))


def test_what_is_no_key_is_shown() -> None:
    words = ["ready", "done", "abc", "", "0f" * 32, "WORLD", "a" * 64]
    for lines in (words, [*KEY, *words], ["step 1", *words, "step 2"]):
        assert held(lines)[-len(words) :] == lines[-len(words) :]
    long = ["-----BEGIN PRIVATE KEY-----", *["ab"] * (AROUND + 5)]
    assert held(long)[-1] == "ab"


def test_the_whole_entry_of_a_line() -> None:
    store = LogStore()
    store.extend(rows(["12:00:00 ERROR cannot load", *KEY, "12:00:01 INFO step 4"]))
    for number in range(store.first, store.end):
        assert b"cAnAry" not in b"".join(entry(store, number))


def test_a_key_in_the_message_of_a_json_line() -> None:
    record = {"timestamp": "2026-01-01T12:00:00", "level": "INFO", "message": "\n".join(KEY)}
    told = present(json.dumps(record).encode()).text
    assert "cAnAry" not in told
    assert "[redacted: a private key]" in told
