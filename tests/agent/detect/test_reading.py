"""Finished logs are read in one pass and constant memory, and looking only at lines with the right
words changes nothing.
"""

from __future__ import annotations

import dataclasses
import io
import random
import re
import time
import tracemalloc
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bs4_common.failures import offline, reading
from bs4_common.failures.clothing import learnt
from bs4_common.failures.compiled import Library
from bs4_common.failures.engine import Engine
from bs4_common.failures.matcher import Rules
from bs4_common.failures.tracks import MANY
from bs4_common.trainers import registry
from bs4_console.failures.playbooks import compile_all
from tests.agent.detect.compiled import engine, library, playbook
from tests.playbooks.library import cases_in, playbook_files

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus" / "incidents"

SIGNATURES = (
    playbook("plain", {"pattern": "^alpha failed"}),
    playbook("levels", {"pattern": "beta failed", "levels": ["ERROR"]}),
    playbook(
        "near-above", {"pattern": "gamma failed", "near": {"pattern": "neighbour", "before": 3}}
    ),
    playbook(
        "near-below", {"pattern": "gamma failed", "near": {"pattern": "neighbour", "after": 2}}
    ),
    playbook(
        "lonely",
        {
            "pattern": "gamma failed",
            "near": {"pattern": "neighbour", "before": 2, "after": 2, "absent": True},
        },
    ),
    playbook("counted", {"pattern": "delta failed", "count": 3, "within": "5m"}),
    playbook("cleared", {"pattern": "alpha failed", "cleared_by": "recovered"}),
    playbook("counted-cleared", {"pattern": "delta failed", "count": 2, "cleared_by": "recovered"}),
    playbook("after", {"pattern": "beta failed", "only_after": "neighbour"}),
    playbook("not-after", {"pattern": "beta failed", "not_after": "recovered"}),
    playbook("last", {"pattern": "alpha failed", "last": True}),
    playbook("anycase", {"pattern": "(?i)epsilon failed"}),
    playbook(
        "headless",
        {
            "pattern": "alpha failed",
            "levels": ["ERROR", ""],
            "near": {"pattern": "gamma failed", "before": 9},
        },
    ),
    playbook("either", {"pattern": "zeta (?:failed|broke down) twice|eta failed"}),
)
for _entry in SIGNATURES:
    _entry["detect"]["logs"] = [
        {**log, "source": ["trainer", "orchestrator"]} for log in _entry["detect"]["logs"]
    ]
LIBRARY = library(*SIGNATURES)
RULES = Rules(LIBRARY)


def fresh(live=False):
    return Engine(LIBRARY, live=live, rules=RULES)


WORDS = [
    "alpha failed",
    "beta failed",
    "gamma failed",
    "delta failed",
    "neighbour",
    "recovered",
    "EPSILON Failed",
    "zeta broke down twice",
    "Completion: x",
    "and so:",
    "alpha",
    "failed",
    "",
    " ",
    "Step 4 | and so on",
    "Traceback (most recent call last):",
]
TEXT = st.one_of(st.sampled_from(WORDS), st.text('abé\\"{}\t\x00', max_size=6))
#: A log in which a record may quote, and one in which none does.
SOURCE = st.sampled_from(["trainer", "orchestrator"])
#: Seconds to the next line; -1: a clock that is none.
CLOCK = st.builds("@{}@".format, st.sampled_from([0, 1, 59, 200, 3600, 20_000, -1]))
LEVEL = st.sampled_from(["INFO", "ERROR", "WARNING"])
LINE = st.one_of(
    TEXT,
    st.builds("{} {} {}".format, CLOCK, LEVEL, TEXT),
    st.builds("\x1b[31m{} {} \x1b[0m{}\x1b[1m".format, CLOCK, LEVEL, TEXT),
    st.builds(
        '{{"timestamp": "2026-08-21T{}", "level": "{}", "message": "x {}\\nalpha failed"}}'.format,
        CLOCK,
        LEVEL,
        st.sampled_from(WORDS),
    ),
    st.builds("10%|#  | 1/10 [00:01<00:09]\r{}".format, TEXT),
    st.builds("[rank{}]: {}".format, st.integers(0, 9), TEXT),
)


def timed(lines):
    """The lines with clocks that go on as clocks do, over midnights too."""
    now = 80_000

    def clock(match):
        nonlocal now
        step = int(match.group(1))
        now += max(step, 0)
        return (
            "24:00:00" if step < 0 else f"{now // 3600 % 24:02}:{now // 60 % 60:02}:{now % 60:02}"
        )

    return [re.sub("@(-?[0-9]+)@", clock, line) for line in lines]


def _read(watch, data, source="trainer", thorough=False):
    facts = offline.log_facts(
        io.BytesIO(data), "x.log", source, "prime-rl", watch, thorough=thorough
    )
    made = watch.evaluate(offline.as_facts([facts], watch), complete=True)
    return [dataclasses.asdict(t.finding) for t in made], facts


@pytest.fixture(scope="module")
def shipped():
    """Makes engines with all shipped rules; the words are put together once."""
    playbooks = list(Library(compile_all()))
    rules = Rules(playbooks)

    def make():
        return Engine(playbooks, live=False, rules=rules)

    return make


@settings(max_examples=250)
@given(
    st.lists(LINE, max_size=40),
    st.booleans(),
    st.sampled_from([64, 300, 1 << 20]),
    st.sampled_from([1, 2, 10_000]),
    SOURCE,
)
def test_the_shortcut_finds_the_same(lines, ends, block, many, source):
    """`many` small: signatures are done, or end again and again, within these few lines."""
    data = ("\n".join(timed(lines)) + ("\n" if ends else "")).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bs4_common.failures.reading._BLOCK", block)
        patch.setattr("bs4_common.failures.reading._IDLE", many)
        patch.setattr("bs4_common.failures.reading._TRIES", 2)
        patch.setattr("bs4_common.failures.tracks.MANY", many)
        patch.setattr("bs4_common.failures.matcher._FLAPS", min(many, 3))
        quick, facts = _read(fresh(), data, source)
        thorough, same = _read(fresh(), data, source, thorough=True)
    assert quick == thorough
    assert facts.events == same.events


@settings(max_examples=150)
@given(st.lists(LINE, max_size=40), SOURCE)
def test_live_and_finished_give_the_same(lines, source):
    """The same lines fed one by one as they are written; places differ (streams have cursors), all
    else is equal.
    """
    data = "".join(line + "\n" for line in timed(lines)).encode()
    offline_found, facts = _read(fresh(), data, source)
    trainer, live = registry.get("prime-rl"), fresh(live=True)
    wants = live.matcher("", 1, "prime-rl", source).wants
    worn = learnt(data, partial(trainer.parse_line, source), wants, kernel=source == "kernel")
    offset = 0
    for number, raw in enumerate(re.findall(rb"[^\n]*\n", data), 1):
        place = {
            "source": source,
            "stream": "",
            "cursor": "",
            "file": "x.log",
            "offset": offset,
            "line": number,
            "text": "",
        }
        inner = raw if worn is None else worn.inner(raw)
        live.feed("", 1, "prime-rl", source, trainer.parse_line(source, inner), place)
        offset += len(raw)
    now = dataclasses.replace(offline.as_facts([facts]), now_m=time.monotonic())
    found = [dataclasses.asdict(t.finding) for t in live.evaluate(now, complete=True)]
    key = lambda item: item["failure"]  # noqa: E731
    assert sorted(found, key=key) == sorted(offline_found, key=key)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the shared corpus")
def test_the_shortcut_finds_the_same_in_real_logs(shipped):
    sources = dict(
        line.split("\t")[0:4:3] for line in (CORPUS / "labels.tsv").read_text().splitlines()[1:]
    )
    for name, source in sources.items():
        data = (CORPUS / name).read_bytes()
        quick, _ = _read(shipped(), data, source)
        thorough, _ = _read(shipped(), data, source, thorough=True)
        assert quick == thorough, name


def test_the_shortcut_finds_the_same_with_every_shipped_rule(shipped):
    """Lines made of the words that the shipped rules need, in every source."""
    rng = random.Random(5)
    words = sorted(
        {
            w.removeprefix("(?i)")
            for p in Library(compile_all())
            for s in p.signatures
            for needs in s["needs"].values()
            for w in needs
        }
    )
    for source in (
        "trainer",
        "orchestrator",
        "inference",
        "launcher",
        "env-x",
        "kernel",
        "ssh",
        "sync",
        "wandb",
    ):
        lines = []
        for number in range(1200):
            text = (
                " ".join(rng.sample(words, 2))
                if number % 2
                else rng.choice(words) + rng.choice(["", ": 7", " (x)"])
            )
            lines.append(
                rng.choice(["", f"12:{number // 60:02}:{number % 60:02} ERROR ", "12:00:00 INFO "])
                + text
            )
        data = "\n".join(lines).encode()
        assert _read(shipped(), data, source)[0] == _read(shipped(), data, source, thorough=True)[0]


def _cases(source):
    """The cases of every shipped failure in one source's log, in turn: what must fire, what must
    not, and a healthy run between them.
    """
    logs = []
    for path in playbook_files():
        given = cases_in(path)
        logs += [
            case["log"]
            for side in ("positive", "negative")
            for case in given.get(side, ())
            if case["source"] == source
        ]
    for number, log in enumerate(logs * 4):
        clock = f"{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}"
        # One clock for all, and no zones: the cases bring dates of many years.
        log = re.sub(
            r"(?<=\d)(?:Z|[+-]\d\d:?\d\d)(?=[\" ])", "", re.sub(r"\d\d:\d\d:\d\d", clock, log)
        )
        yield from log.splitlines()
        yield f"{clock} SUCCESS Step {number} | 31.2s | Reward 0.1234"
        yield from [
            f"{clock}    INFO Train batch 7/128 (5.0%) (+3 buffered); 4 inflight episodes"
        ] * (number % 4)


@pytest.mark.parametrize(
    ("source", "errors"),
    [("orchestrator", "strict"), ("orchestrator", "ignore"), ("trainer", ""), ("inference", "")],
)
def test_the_shortcut_finds_the_same_where_everything_fails(shipped, source, errors):
    """Dense: nearly every line is a failure or a near miss, and steps end between them what can
    end; in small blocks, counted to three. Also in pure ASCII, which is looked through without
    another copy of each line.
    """
    data = "\n".join(_cases(source)).encode(
        "ascii" if errors == "ignore" else "utf-8", errors or "strict"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bs4_common.failures.reading._BLOCK", 20_000)
        patch.setattr("bs4_common.failures.reading._IDLE", 100)
        patch.setattr("bs4_common.failures.tracks.MANY", 3)
        quick, facts = _read(shipped(), data, source)
        thorough, same = _read(shipped(), data, source, thorough=True)
    assert len(quick) > 10
    assert quick == thorough
    assert [(e.event, e.line) for e in facts.events] == [(e.event, e.line) for e in same.events]


def test_what_ends_again_and_again_is_passed_over_and_found_at_the_end(monkeypatch):
    """Errors between steps: of a block only what stands behind its last step is looked at, and
    counted.
    """
    monkeypatch.setattr("bs4_common.failures.reading._BLOCK", 100_000)
    looked = []
    whole = reading.Reader._line
    monkeypatch.setattr(reading.Reader, "_line", lambda *args: looked.append(args) or whole(*args))
    pairs = b"12:00:00 ERROR alpha failed\n12:00:00 INFO all has recovered\n" * 20_000
    for rest, expected in ((b"", []), (b"12:00:00 ERROR alpha failed\n" * 7, [7])):
        watch = engine(playbook("cleared", {"pattern": "alpha failed", "cleared_by": "recovered"}))
        looked.clear()
        found, _ = _read(watch, pairs + rest)
        assert [item["count"] for item in found] == expected
        assert len(looked) < 5_000, "of 40,000 lines that hold a word"


ODD = {
    "ten megabytes without a newline": b"x" * 10_000_000,
    "and a failure behind them": b"12:00:00 INFO "
    + b"y" * 10_000_000
    + b"\n12:00:01 ERROR alpha failed\n",
    "nothing but zeros": b"\0" * 300_000 + b"\nalpha failed\n",
    "no UTF-8": b"\xff\xfe\xc3(" * 50_000 + b"\nalpha failed\xff\n",
    "escapes without end": b"\x1b]0;" + b"\x1b[" * 50_000 + b"\nalpha failed\n",
    "ten thousand braces": b"{" * 10_000 + b"\nalpha failed\n",
    "carriage returns": b"50%|##\r" * 50_000 + b"\ralpha failed\n",
    "blank lines": b"\n" * 200_000 + b"alpha failed\n",
    "a rule's words a hundred thousand times": b"alpha failed " * 100_000 + b"\n",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_bytes_do_no_harm(name):
    started = time.process_time()
    found, _ = _read(fresh(), ODD[name])
    assert time.process_time() - started < 10
    expected = [] if name.startswith("ten megabytes") else ["alpha"]
    assert [
        item["summary"][:5].strip("\ufffd") for item in found if item["failure"] == "levels"
    ] == []
    assert [item["evidence"][0]["text"][:5] for item in found if item["failure"] == "plain"][
        : len(expected)
    ] == expected


def test_places_are_exact_behind_an_endless_line():
    data = ODD["and a failure behind them"]
    (place,) = [
        item["evidence"][0]
        for item in _read(engine(playbook("p", {"pattern": "alpha failed"})), data)[0]
    ]
    assert (place["offset"], place["line"]) == (data.index(b"12:00:01"), 2)


@pytest.mark.long
@pytest.mark.beside
def test_memory_stays_what_it_is():
    """A pipe of 12 MB of which every other line is a finding, and a block is one."""

    class Pipe(io.RawIOBase):
        left = 13

        def read(self, size=-1):
            self.left -= 1
            return (
                (b"12:00:00   ERROR alpha failed\n" * 200 + b"12:00:01 INFO all is well\n" * 38_000)
                if self.left
                else b""
            )

    watch = fresh()
    tracemalloc.start()
    facts = offline.log_facts(Pipe(), "-", "trainer", "prime-rl", watch)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    found = watch.evaluate(offline.as_facts([facts], watch), complete=True)
    assert [t.finding.count for t in found if t.finding.failure == "plain"] == [MANY]
    assert peak < 9_000_000
