"""What a pattern costs and what it needs: refused before it ships, and found fast where it may
match.
"""

from __future__ import annotations

import random
import re

import pytest

from bs4_common.failures.signatures import FLAGS, LINE_CAP
from bs4_console.failures.patterns import Refused, check_cost, literals


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (r"(a+)+b", "repeat inside a repeat"),
        (r"(?:\w+\.)*Error", "repeat inside a repeat"),
        (r"(?:a|ab|b)+cccc", "begin alike"),
        (r"(?:x?)*yyyy", "may be empty"),
        (r"\w+\d+xxxx", "side by side"),
        (r"a.*.*xxxx", "side by side"),
        (r".*xxxx", "drop it"),
        (r"foo.*bar.*baz", "ways on one line"),
        (r"[a-z ]+x[a-z ]+y[a-z ]+z", "ways on one line"),
        (r"(x)\1", "refers back"),
        (r"x++yyyy", "possessive"),
        (r"((", "no regular expression"),
        ("x" * 70_000, "has 70,000 characters, of which 4,000 are allowed"),
        (r"ab{99999999999}", "no regular expression"),
        ("(" * 1_500 + ")" * 1_500, "no regular expression"),
    ],
)
def test_what_would_hold_the_matcher_up_is_refused(pattern, says):
    with pytest.raises(Refused, match=re.escape(says)):
        check_cost(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^RuntimeError: .*shape.*mismatch",
        r"NVRM: Xid \(PCI:[0-9a-f:.]{1,20}\): (?:48|63|94)\b",
        r"[\w.]*Error: .{0,200}failed",
        r"took (?P<seconds>\d+(?:\.\d+)?) s",
        r"^(?:a|b){3}[^ ]+ end",
    ],
)
def test_what_is_harmless_passes_and_is_fast_on_the_worst_line(pattern):
    check_cost(pattern)
    import time

    literal = "RuntimeError: shape mismatc NVRM: Xid (PCI: Error: took 9 aab "
    for line in (literal * 200, "a" * 5000, " " * 5000, "Error: " * 900):
        started = time.process_time()
        re.compile(pattern, FLAGS).search(line, 0, LINE_CAP)
        assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    ("pattern", "needs"),
    [
        (r"^Error: it failed with -?[1-9]", ["Error: it failed with "]),
        (r"(?:foo bar|baz quxx) \d+", ["baz quxx ", "foo bar "]),
        (r"(?i)out of memory", ["(?i)out of memory"]),
        (r"(?:torch\.)?OutOfMemoryError: CUDA", ["OutOfMemoryError: CUDA"]),
        (r"(?:long enough)?x", []),
        (r"\d+ abc", []),
        (r"say \"hello world\" twice", ["hello world"]),
        (r"50% \(step 3\)", []),
    ],
)
def test_needs(pattern, needs):
    assert literals(pattern) == needs


def test_every_match_holds_one_of_its_needs():
    """Of the shipped patterns, on lines made from their own pieces."""
    from bs4_console.failures.playbooks import lint

    rng = random.Random(3)
    good, _ = lint()
    patterns = [
        signature["pattern"]
        for entry in good
        for signature in entry.get("detect", {}).get("logs", ())
    ]
    pieces = [
        piece for pattern in patterns for piece in re.findall(r"[A-Za-z][A-Za-z ]{2,}", pattern)
    ]
    matched = 0
    for pattern in patterns:
        needs = literals(pattern)
        compiled = re.compile(pattern, FLAGS)
        own = re.findall(r"[\w :.,'-]+", re.sub(r"\\[bdsSwW]|\(\?[:P<\w>]*", " ", pattern))
        for _ in range(30):
            line = "".join(rng.sample(own, min(len(own), 3))) + rng.choice(pieces)
            if compiled.search(line):
                matched += 1
                assert any(
                    n[4:] in line.lower() if n.startswith("(?i)") else n in line for n in needs
                ), (pattern, line)
    assert matched > 20
