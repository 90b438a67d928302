"""A raw line is passed over only when no text that it can have matches."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bs4_agent.detect.sieve import Sieve
from bs4_agent.detect.signatures import Expression
from bs4_agent.trainers import registry
from bs4_console.core.patterns import literals, relaxed
from bs4_console.core.playbooks import lint

PATTERNS = (
    r"^Step \d+ \|", r"needle$", r"(?i)^needle \w+", r"^(?:needle|[\w.]{0,9}thread): .{0,5}eye", r"needle[^a—]{2,3}thread",
    r"needle — \S+é", r"needle.thread(?=x)", r'"needle \S{0,4}" 200', r"^\s{1,3}needle\b", r"needle(?: \(.{1,4}\))?: thread\b",
    r"^[nN]eedle (?<!x)\D{2}thread",
)  # fmt: skip
WORD = st.sampled_from(
    ["needle", "Needle", "NEEDLE", "thread", " thread", ": ", "eye", "Step 4 |", "—", "é", "😀", '"', "\\", "\t", "a", "x", " ", "200", "("]
)
TEXT = st.lists(WORD, max_size=7).map("".join)
HEADS = st.sampled_from(
    ["", "12:00:01   ERROR ", "12:00:01 ", "[rank0]: ", "[default1]:", "(EngineCore_0 pid=7) ERROR 11-18 07:11:40 [core.py:1512] ",
     "2026-11-20 21:25:48,123 - a.b - ERROR - ", "ERROR:a.b:", "50%|##  | 3/6 [00:01<00:02, 1.0s/it]", "INFO:     ", "(APIServer pid=7) "]
)  # fmt: skip


def _seen(pattern: str, raw: bytes) -> bool:
    sieve = Sieve([("key", literals(pattern), relaxed(pattern))])
    return sieve.next_line(raw, 0) < len(raw)


def _matches(pattern: str, source: str, raw: bytes) -> bool:
    line = registry.get("prime-rl").parse_line(source, raw)
    return any(Expression(pattern).search(part) is not None for part in line.text.split("\n"))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATTERNS), HEADS, TEXT, st.sampled_from(["trainer", "inference", "kernel"]))
def test_no_plain_line_that_matches_is_passed_over(pattern, head, text, source):
    raw = (head + text).encode()
    assert _seen(pattern, raw) or not _matches(pattern, source, raw)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATTERNS), TEXT, TEXT, st.booleans(), st.booleans())
def test_no_json_line_that_matches_is_passed_over(pattern, text, second, ascii_only, exception):
    row = {"timestamp": "2026-08-21T12:00:01+00:00", "level": "ERROR", "message": text if exception else f"{text}\n{second}"}
    raw = json.dumps({**row, **({"exception": second} if exception else {})}, ensure_ascii=ascii_only).encode()
    assert _seen(pattern, raw) or not _matches(pattern, "trainer", raw)


def test_a_progress_record_is_always_taken_apart():
    raw = b'{"timestamp": "2026-08-21T12:00:01+00:00", "level": "INFO", "type": "progress", "desc": "needle", "percent": 50, "current": 3}'
    assert _matches(r"^needle: 50% 3/None", "trainer", raw)
    assert _seen(r"^needle: 50% 3/None", raw)


@pytest.mark.parametrize(
    ("raw", "worth"),
    [
        (b"12:00:00 INFO needle: thread", True),
        (b"12:00:00 INFO needle (x): thread", True),
        (b"12:00:00 INFO needle: threads", False),
        (b"12:00:00 INFO needle and thread", False),
        (b"12:00:00 INFO a needle", False),
    ],
)
def test_near_misses_are_passed_over(raw, worth):
    assert _seen(r"^needle(?: \(.{1,4}\))?: thread\b", raw) is worth


def test_a_key_that_is_done_needs_no_line():
    sieve: Sieve[str] = Sieve([("one", ["needle"], ""), ("two", ["thread"], "")])
    view = b"a needle\na thread\n"
    assert sieve.next_line(view, 0) == 0
    sieve.skip({"one"})
    assert sieve.next_line(view, 0) == 9
    assert sieve.idle == 1
    sieve.skip(())
    assert sieve.next_line(view, 0) == 0


def test_every_shipped_pattern_can_be_looked_for_in_bytes():
    patterns = [s["pattern"] for entry in lint()[0] for s in entry.get("detect", {}).get("logs", ())]
    loose = [pattern for pattern in patterns if not relaxed(pattern)]
    assert len(patterns) > 300
    assert not loose, "these would take every line apart that holds one of their words"
    for pattern in patterns:
        re.compile(relaxed(pattern).encode("ascii"))
