"""What another program has put around the lines of a log is learnt from the log and taken off."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial

import pytest
from benchmarks.wrappings import WRAPPINGS, Wrap, named, wrapped
from tools.score import Case

from bs4_common.failures import offline
from bs4_common.failures.clothing import Clothing, learnt
from bs4_common.failures.compiled import Library
from bs4_common.failures.engine import Engine
from bs4_common.failures.matcher import Rules
from bs4_common.trainers.lines import parse
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


def off(data: bytes, source: str = "trainer") -> Clothing | None:
    """What is learnt of a log of which only headers and tracebacks are known."""
    return learnt(data, partial(parse, source), lambda line: False, kernel=source == "kernel")


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
    assert off(log) is None


@pytest.mark.parametrize(
    "name", [name for name in WRAPPINGS if name not in ("srun --label", "docker logs -t", "CRLF")]
)
def test_what_stands_within_is_what_the_program_wrote(name):
    bare = FAILING.splitlines()
    data = wrapped(FAILING * 3, WRAPPINGS[name])
    clothing = off(data)  # None for what the parser takes off itself
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


#: Lines whose beginning says who wrote them, or that they are quoted, ten of each.
WRITERS = {
    "another program in a kernel log": (
        "kernel",
        "Nov 14 03:11:{n:02} pod7 sampler[812]: NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen",
    ),
    "another program in a kernel log, with an uptime": (
        "kernel",
        "[pod7] sampler: [ 12.0000{n:02}] NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen",
    ),
    "another program in the journal's JSON": (
        "kernel",
        '{{"SYSLOG_IDENTIFIER":"sampler","MESSAGE":"[ 12.0000{n:02}] NVRM: Xid (PCI:0): 79, x"}}',
    ),
    "an answer": ("trainer", "(TaskRunner pid=22370) [response] ValueError: batch {n} is odd"),
    "an answer in a record": ("trainer", '{{"step":{n},"completion":"ValueError: it is odd"}}'),
    "a sample": ("trainer", "[12] answer {n}: ValueError: it is odd"),
    "a table": ("trainer", "| {n} | ValueError: it is odd |"),
    "a table without a frame": ("trainer", "{n} | ValueError: it is odd"),
    "a cell": ("trainer", "error | ValueError: it is odd"),
    "a program": ("trainer", "12 tee: ValueError: it is odd"),
    "a quotation": ("trainer", "> ValueError: batch {n} is odd"),
    "a list": ("trainer", '"ValueError: batch {n} is odd"'),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("count", [1, 2, 10])
def test_what_names_the_writer_of_a_line_stays(name, count):
    source, form = WRITERS[name]
    lines = [form.format(n=n) for n in range(count)]
    if name == "a table without a frame":
        lines.insert(0, "---+--------")
    data = "".join(f"{line}\n" for line in lines).encode()
    worn = off(data, source)
    assert worn is None or worn.block(data) == data


def test_two_lines_of_a_known_form_teach_nothing():
    data = (
        b"12:00:01     INFO Starting\n12:00:03    ERROR Error: Inference failed with exit code 1\n"
    )
    assert off(data[:30]) is None
    assert off(data) is None


RANKS = """\
[2024-12-05 17:27:10 TP1] Capture cuda graph begin.
[2024-12-05 17:27:10 DP0 TP0] Capture cuda graph begin.
INFO 12-05 17:27:24 custom_all_reduce.py:233] Registering 2967 cuda graph addresses
[2024-12-05 17:27:24 TP0] max_total_num_tokens=1058405, context_len=32768
[2024-12-05 17:27:24] INFO:     Started server process [8158]
[2024-12-05 17:27:24] INFO:     Waiting for application startup.
[2024-12-05 17:27:24] ERROR:    [Errno 98] error while attempting to bind on address
"""


def test_the_prefix_of_an_engine_that_names_its_ranks_in_some_lines_is_taken_off():
    worn = off(RANKS.encode(), "inference")
    assert worn is not None
    inner = worn.block(RANKS.encode()).decode().splitlines()
    assert inner[1] == "Capture cuda graph begin."
    assert inner[2] == RANKS.splitlines()[2]
    assert inner[-1].startswith("ERROR:    [Errno 98]")


def test_a_bracketed_time_in_few_lines_is_no_prefix_of_an_engine():
    few = RANKS.replace("[2024-12-05 17:27:24]", "(2024)")
    assert off(few.encode(), "inference") is None


def test_what_a_terminal_overwrites_is_no_header():
    assert off(b"[12] loading\rloaded\n") is None


def strange(rng: random.Random) -> Wrap:
    """A wrapping that nobody has thought of: columns and what stands between them, by chance."""
    hour, joint = rng.randrange(24), rng.choice("T ")
    host = rng.choice(["gpu", "node-", "ip-10-0-", "pod/a-"])
    columns: list[Callable[[int], str]] = [
        lambda i: f"2026-0{1 + i % 9}-11{joint}{hour:02}:{i % 60:02}:07",
        lambda i: f"{hour:02}:{i % 60:02}:07.{i % 1000:03}",
        lambda i: f"{i:0{width}}",
        lambda i: f"{host}{i % hosts}",
        lambda i: rng.choice(["stdout", "stderr"]),
        lambda i: f"{i * 2654435761 % 2**32:08x}",
    ]
    width, hosts = rng.randrange(1, 7), rng.randrange(1, 12)
    chosen = rng.sample(columns, rng.randrange(1, 4))
    around = rng.choice(["[]", "<>", "()", "{}", "  "])
    end = rng.choice(["| ", "> ", ">>> ", "] ", "│ ", "=> ", "# "])
    pair = (around[0].strip(), around[1].strip())

    def wrap(number: int, text: str) -> str:
        shown = " ".join(f"{pair[0]}{column(number)}{pair[1]}" for column in chosen)
        return f"{shown} {end}{text}"

    return wrap


@pytest.mark.parametrize("seed", range(40))
def test_wrappings_that_nobody_thought_of(seed):
    wrap = strange(random.Random(seed))
    data = wrapped(FAILING * 3, wrap)
    worn = off(data)
    assert worn is not None
    read = [parse("trainer", raw).text for raw in worn.block(data).splitlines()]
    assert read == [parse("trainer", raw).text for raw in (FAILING * 3).splitlines()]


def test_colours_around_a_prefix_are_no_part_of_a_line():
    data = wrapped(FAILING * 2, lambda i, t: f"\x1b[36mvllm-server  |\x1b[0m {t}")
    worn = off(data)
    assert worn is not None
    assert worn.block(data) == FAILING * 2


def test_a_record_of_several_lines_is_read_as_all_of_them(library, rules):
    text = FAILING.decode()
    row = {"PRIORITY": "3", "MESSAGE": text}
    data = "".join(f"{json.dumps(row)}\n" for _ in range(5)).encode()
    full = Case("", ("disk-full",), frozenset(), "trainer", "", "")
    assert named(library, rules, full, data)
