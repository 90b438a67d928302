"""What may be typed for the time cursor."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from bs4_console.errors import UsageError
from bs4_console.logs.moment import Moment, parse

#: 2026-11-20 03:12:41 in the zone of the tests.
END = 1795144361.0
HERE = END - 600


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("now", Moment()),
        ("NOW", Moment()),
        ("187", Moment(step=187)),
        ("03:10", Moment(at=END - 161)),
        ("3:10:55", Moment(at=END - 106)),
        ("03:12:41", Moment(at=END)),
        ("14:32", Moment(at=END - 11_561 - 86_400 + 52_320)),
        ("-15m", Moment(at=HERE - 900)),
        ("+90s", Moment(at=HERE + 90)),
        ("+1h", Moment()),
        ("2026-11-20 01:00", Moment(at=END - 7961)),
    ],
)
def test_a_moment(text: str, found: Moment) -> None:
    assert parse(text, HERE, END) == found


@pytest.mark.parametrize("text", ["noon", "25:00", "50%", "", "-", "14:61", "2026-13-01"])
def test_nonsense_gets_one_sentence(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, HERE, END)
    assert caught.value.message.count("write 187 (a step), 14:32") == 1
    assert caught.value.next_step == ""


def test_what_is_not_yet_is_told_so() -> None:
    with pytest.raises(UsageError, match="lies ahead of what is known"):
        parse("2026-11-20 04:00", HERE, END)


def test_a_day_with_another_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The night in which the clocks go back: 02:30 of that day and 23:00 of the day before are what
    the wall showed.
    """
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    end = time.mktime((2026, 10, 25, 9, 0, 0, 0, 0, -1))
    for text, day in (("02:30", 25), ("23:00", 24)):
        at = parse(text, end, end).at
        assert at is not None
        shown = time.localtime(at)
        assert (shown.tm_mday, f"{shown.tm_hour:02}:{shown.tm_min:02}") == (day, text)
