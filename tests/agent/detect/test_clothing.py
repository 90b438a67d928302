"""What another program has put around the lines of a log is learnt from the log and taken off."""

from __future__ import annotations

import pytest
from benchmarks.wrappings import WRAPPINGS, named, wrapped
from tools.score import Case

from bs4_agent.detect import offline
from bs4_agent.detect.clothing import learnt, understood
from bs4_agent.detect.engine import Engine
from bs4_agent.detect.matcher import Rules
from bs4_agent.playbooks.compiled import Library
from bs4_agent.trainers.lines import parse
from bs4_console.failures.playbooks import compile_all

FAILING = b"""\
10:12:10    INFO Starting training loop
10:12:11 SUCCESS Step 1 | Time: 3.10s | Loss: 0.0100
plain words of a library
10:12:13   ERROR Fatal error in train
Traceback (most recent call last):
  File "/app/train.py", line 31, in train
    raise OSError(28, "No space left on device")
OSError: [Errno 28] No space left on device
"""
HEALTHY = b"".join(
    b"10:12:%02d    INFO Waiting for the batch of step %d\n" % (n % 60, n) for n in range(40)
)
PLAIN = b"".join(b"Loading shard %d of 40: done\n" % n for n in range(40))


def judge(raw: bytes) -> bool:
    return understood(parse("trainer", raw))


@pytest.fixture(scope="module")
def library():
    return list(Library(compile_all()))


@pytest.fixture(scope="module")
def rules(library):
    return Rules(library)


@pytest.mark.parametrize("name", WRAPPINGS)
def test_a_wrapped_log_shows_what_the_bare_one_shows(name, library, rules):
    full = Case("", ("disk-full",), frozenset(), "trainer", "", "")
    calm = Case("", ("-",), frozenset(), "trainer", "", "")
    assert named(library, rules, full, wrapped(FAILING, WRAPPINGS[name]))
    assert named(library, rules, calm, wrapped(HEALTHY, WRAPPINGS[name]))


@pytest.mark.parametrize("log", [FAILING, HEALTHY, PLAIN, b"", b"ValueError: no\n"])
def test_nothing_is_taken_off_a_bare_log(log):
    assert learnt(log, judge) is None


@pytest.mark.parametrize(
    "name", [name for name in WRAPPINGS if name not in ("srun --label", "docker logs -t", "CRLF")]
)
def test_what_stands_within_is_what_the_program_wrote(name):
    bare = FAILING.splitlines()
    data = wrapped(FAILING * 3, WRAPPINGS[name])
    clothing = learnt(data, judge)  # None for what the parser takes off itself
    inside = data if clothing is None else clothing.block(data)
    inner = [parse("trainer", raw).text for raw in inside.splitlines()]
    assert inner[-len(bare) :] == [parse("trainer", raw).text for raw in bare]


def test_evidence_names_the_place_in_the_file_as_it_is(library, tmp_path):
    path = tmp_path / "trainer.log"
    data = wrapped(FAILING, WRAPPINGS["mpirun"])
    path.write_bytes(data)
    engine = Engine(library, live=False)
    facts = offline.as_facts(
        [offline.loose_facts([offline.Loose("trainer", "trainer.log", path)], "", engine)], engine
    )
    opened = [t.finding for t in engine.evaluate(facts, complete=True) if t.event == "opened"]
    place = opened[0].evidence[0]
    line = data[place["offset"] :].split(b"\n")[0]
    assert line.startswith(b"[1,")
    assert str(place["text"]).encode() in line
