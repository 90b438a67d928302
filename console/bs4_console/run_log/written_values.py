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
#: Digits, with commas between thousands or without: "1200", "1,200".
_WHOLE = r"(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,18})"
#: "0.75", ".75", "-1e-05", "\u22120.5"; the minus sign may be that of Unicode.
_NUMBER = re.compile(
    rf"[-+\u2212]?(?:{_WHOLE}(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{{1,3}})?(?![\w.%]|,\d)"
)
_STEP = re.compile(rf"({_WHOLE})(?![\w%]|[.,]\d)(?:\s*/\s*({_WHOLE})(?![\w%]|[.,]\d))?")
#: "~3-5 minutes", "~27 min (...)", "287s", "3.5 h". What follows is a remark.
_DURATION = re.compile(
    rf"\s*[~\u2248]?\s*(?P<low>{_WHOLE}(?:\.\d{{1,25}})?(?:e[-+]\d{{1,2}})?)"
    rf"(?:\s*(?:-|\u2013|to)\s*(?P<high>{_WHOLE}(?:\.\d{{1,25}})?))?"
    r"\s*(?P<unit>s|m|h)(?:ec|econds?|in|inutes?|r|rs|ours?)?\b"
)
_MOMENT = re.compile(
    r"\s*(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?(?![\d:])(?P<rest>.*)",
    re.DOTALL,
)
#: What stands behind a time: "Z", "UTC", "UTC+2", "+02:00", "EST", and "(EST)".
_ZONE = re.compile(
    r"\s*(?P<word>[A-Za-z][\w/]*)?\s?(?P<offset>[-+\u2212]\d{1,2}(?::?\d\d)?(?!\s*[A-Z]))?"
    r"(?![\w:+-]| ?[-+\u2212]\d)"
)
_IN_BRACKETS = re.compile(r"\s*\((?P<zone>[A-Z]{1,4}T|UTC|Z)\)")
#: Hours ahead of UTC, as RFC 2822 names the zones, and of two more.
_HOURS = {
    "Z": 0,
    "UTC": 0,
    "GMT": 0,
    "EST": -5,
    "EDT": -4,
    "CST": -6,
    "CDT": -5,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
    "CET": 1,
    "CEST": 2,
}
_SECONDS = re.compile(rf"(?<![\d.])(?<!\d,)({_WHOLE}(?:\.\d{{1,3}})?)\s?s\b")
_TOKENS = re.compile(rf"(?<![\d.])(?<!\d,)({_WHOLE}(?:\.\d{{1,3}})?)\s*tokens/s\b")
#: `path/to/config.toml:v3`
_VERSION = re.compile(r"\.toml:(v\d{1,4}(?:\.\d{1,4})*)\b")
#: `# Based on: v2` in a config, `v2` at the head of a table's column
_BASED = re.compile(r"^#\s*based[ _]on\s*:\s*(v\d{1,4}(?:\.\d{1,4})*)\b", re.IGNORECASE | re.M)
_COLUMN = re.compile(r"v\d{1,4}(?:\.\d{1,4})*")
#: `Config (v4 - Resilient)`, `Working Config (H100 Single GPU - Final v5)`
_TITLED = re.compile(r"\bconfig\b.*?\b(v\d{1,4}(?:\.\d{1,4})*)\b", re.IGNORECASE)


def number(text: str) -> float | None:
    """Return the number with which `text` begins, bold or not, "~" before it or not. A remark may
    follow if it has a point; behind a whole number a remark would say what it counts. Return None
    if the text begins with no number, or with one that is too large.
    """
    text = text.strip(" *`~\u2248")
    found = _NUMBER.match(text)
    if found is None or (found[0] != text and "." not in found[0]):
        return None
    value = _float(found[0])
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
    low = _float(found["low"])
    high = _float(found["high"] or found["low"])
    return (low + high) / 2 * _UNITS[found["unit"]]


def seconds_within(text: str) -> float | None:
    """Return the first number of seconds that occurs in a text such as "Reward 0.02, 287s, 50
    tokens/s". Return None if there is none.
    """
    found = _SECONDS.search(text)
    if found is None:
        return None
    return _float(found[1])


def tokens_within(text: str) -> float | None:
    """Return the first number of tokens a second that occurs in a text, or None."""
    found = _TOKENS.search(text)
    if found is None:
        return None
    return _float(found[1])


def steps(text: str) -> tuple[int | None, int | None]:
    """Return the step and the last step with which a text such as "1,200/2,000 (as of noon)"
    begins. Each is None if the text does not say it. "1.2k" and "50%" are no steps.
    """
    found = _STEP.match(text)
    if found is None:
        return None, None
    last = None
    if found[2]:
        last = int(found[2].replace(",", ""))
    return int(found[1].replace(",", "")), last


def moment(text: str) -> float | None:
    """Return the moment that a text begins with, such as "2026-01-04 23:50 UTC", as a Unix time in
    seconds. A time without a zone is taken as UTC. Return None if the text begins with no time, or
    if a word stands behind it that is no zone with one meaning, as "PM", "local" and "IST".
    """
    found = _MOMENT.match(text)
    if found is None:
        return None
    ahead = _ahead(found["rest"])
    if ahead is None:
        return None
    try:
        at = dt.datetime.fromisoformat(found["time"])
    except ValueError:
        return None
    return at.replace(tzinfo=dt.UTC).timestamp() - ahead.total_seconds()


def _ahead(rest: str) -> dt.timedelta | None:
    """Return how far a time is ahead of UTC. `rest` is what stands behind it. Return None if that
    begins with a word or an offset that is not known.
    """
    if bracketed := _IN_BRACKETS.match(rest):
        rest = bracketed["zone"]
    if not re.match(r"\s*[A-Za-z]|\s?[-+\u2212]\d", rest):
        return dt.timedelta()
    found = _ZONE.match(rest)
    if found is None:
        return None
    word = found["word"] or "UTC"
    if word.upper() in ("UTC", "GMT", "Z"):
        word = "UTC"
    if word not in _HOURS or (found["offset"] and word != "UTC"):
        return None
    ahead = dt.timedelta(hours=_HOURS[word])
    if found["offset"]:
        digits = found["offset"][1:].replace(":", "")
        hours, minutes = digits, "0"
        if len(digits) > 2:
            hours, minutes = digits[:-2], digits[-2:]
        ahead = dt.timedelta(hours=int(hours), minutes=int(minutes))
        if not found["offset"].startswith("+"):
            ahead = -ahead
    if not -dt.timedelta(hours=12) <= ahead <= dt.timedelta(hours=14):
        return None
    return ahead


def _float(digits: str) -> float:
    """Return the number that one of the patterns has found."""
    return float(digits.replace("\u2212", "-").replace(",", ""))


def config_version(config: str, titles: Iterable[str]) -> str:
    """Return the version of a run's config, such as "v3", as a person has written it in an imported
    training log: in the config's path ("a.toml:v3"), or else in one of the headings `titles` of the
    run's section ("Config (v4 - Resilient)"). Return "" if neither says it.
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
