"""Values as people write them in a run's section: step times, moments, and configs in fences."""

from __future__ import annotations

import datetime as dt
import math
import re
import tomllib
from collections.abc import Iterable, Sequence
from itertools import pairwise

from bs4_console.run_log.text import Line

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
#: "0.75", ".75", "-1e-05", "\u22120.5"; the minus sign may be that of Unicode.
_NUMBER = re.compile(r"[-+\u2212]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?(?![\w.])")
#: "~3-5 minutes", "~27 min (...)", "287s", "3.5 h". What follows is a remark.
_DURATION = re.compile(
    r"\s*[~\u2248]?\s*(?P<low>\d{1,6}(?:\.\d{1,25})?(?:e-?\d{1,3})?)(?:\s*(?:-|\u2013|to)\s*"
    r"(?P<high>\d{1,6}(?:\.\d{1,25})?))?\s*(?P<unit>s|m|h)(?:ec|econds?|in|inutes?|r|rs|ours?)?\b"
)
_MOMENT = re.compile(r"\s*(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(?::\d\d)?\b")
_SECONDS = re.compile(r"(?<![\d.])(\d{1,6}(?:\.\d{1,3})?)\s?s\b")
#: `path/to/config.toml:v3`
_VERSION = re.compile(r"\.toml:(v\d{1,4}(?:\.\d{1,4})*)\b")
#: `# Based on: v2` in a config, `v2` at the head of a table's column
_BASED = re.compile(r"^#\s*based[ _]on\s*:\s*(v\d{1,4}(?:\.\d{1,4})*)\b", re.IGNORECASE | re.M)
_COLUMN = re.compile(r"v\d{1,4}(?:\.\d{1,4})*")
#: `Config (v4 - Resilient)`, `Working Config (H100 Single GPU - Final v5)`
_TITLED = re.compile(r"\bconfig\b.*?\b(v\d{1,4}(?:\.\d{1,4})*)\b", re.IGNORECASE)


def number(text: str) -> float | None:
    """Return the number with which `text` begins, bold or not. Behind a number with a point there
    may be a remark; behind a whole number a remark would say what it counts. Return None if the
    text begins with no number, or with one that is too large.
    """
    text = text.strip(" *`")
    found = _NUMBER.match(text)
    if found is None or (found[0] != text and "." not in found[0]):
        return None
    value = float(found[0].replace("\u2212", "-"))
    return value if math.isfinite(value) else None


def written_number(value: float) -> str:
    """Return a number as text that reads back as the same number, with 6 digits if they suffice."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def seconds(text: str) -> float | None:
    """Return in seconds the duration with which `text` begins, such as "287s" or "5 minutes". For a
    range ("3-5 minutes"), return the middle. Return None if the text begins with no duration.
    """
    found = _DURATION.match(text)
    if found is None:
        return None
    low = float(found["low"])
    high = float(found["high"] or low)
    return (low + high) / 2 * _UNITS[found["unit"]]


def seconds_within(text: str) -> float | None:
    """Return the first number of seconds that occurs in a text such as "Reward 0.02, 287s, 50
    tokens/s". Return None if there is none.
    """
    found = _SECONDS.search(text)
    if found is None:
        return None
    return float(found[1])


def moment(text: str) -> float | None:
    """Return the moment that a text begins with, such as "2026-01-04 23:50 UTC", as a Unix time in
    seconds, or None if it begins with none. A time without a zone is taken as UTC.
    """
    found = _MOMENT.match(text)
    if found is None:
        return None
    try:
        at = dt.datetime.fromisoformat(f"{found[1]} {found[2]}")
    except ValueError:
        return None
    return at.replace(tzinfo=dt.UTC).timestamp()


def config_version(config: str, titles: Iterable[str]) -> str:
    """Return the version of a run's config, such as "v3", as a person's document states it: in the
    config's path ("a.toml:v3") or in the headings `titles` of the run's section ("Config (v4 -
    Resilient)"). Return "" if neither says it.
    """
    if found := _VERSION.search(config):
        return found[1]
    for title in titles:
        if found := _TITLED.search(title):
            return found[1]
    return ""


def based_on(config: str) -> str:
    """Return the name of the config version on which this config is based, as `config`, its text,
    says. Return "" if the text does not say it.
    """
    found = _BASED.search(config)
    return found[1] if found else ""


def column_before(version: str, heads: Sequence[str]) -> str:
    """Return the heading of the column to the left of the column `version`. `heads` are the
    headings of a table that compares the settings of config versions, as in `| Setting | v2 | v3
    |`; for "v3" the result is "v2". Return "" if there is no such column.
    """
    for before, head in pairwise(heads[1:]):
        if head == version and _COLUMN.fullmatch(before):
            return before
    return ""


def toml_in(body: Iterable[Line]) -> str:
    """Return the text of the first fenced code block among the lines `body` that is marked as TOML.
    Return "" if there is none.
    """
    held: list[str] = []
    inside = False
    for line in body:
        if not inside and line.code and line.bare.strip().endswith("toml"):
            inside = True
        elif inside and line.code and line.bare.strip().strip("`~") == "":
            return "".join(held)
        elif inside:
            held.append(line.text)
    return ""


def max_steps(text: str) -> int | None:
    """Return the number of steps after which a run with this config ends. Return None if the text
    does not say it, or is no TOML, as when a person has shortened it.
    """
    try:
        steps = tomllib.loads(text).get("max_steps")
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return None
    return steps if type(steps) is int and steps > 0 else None
