"""The headline of an exit is the exception that caused it, with its innermost own frame."""

from __future__ import annotations

import io
import json
import tracemalloc

import pytest

from bs4_common.failures import offline
from bs4_common.failures.compiled import Library
from bs4_common.failures.engine import Engine, Transition
from bs4_common.failures.reasons import Raised
from bs4_common.trainers.lines import parse
from bs4_console.failures.playbooks import compile_all
from tests.agent.facts import NOW, facts, healthy

WHY = "ValueError: 3 bytes are pinned twice (prime_rl/trainer/offload.py:123 in offload)"
TRACE = (
    "Traceback (most recent call last):\n"
    '  File "/root/prime-rl/src/prime_rl/utils/utils.py", line 70, in sync_wrapper\n'
    "    ret = func(*args, **kwargs)\n"
    '  File "/root/prime-rl/src/prime_rl/trainer/offload.py", line 123, in offload\n'
    "    pin(tensor)\n"
    "    ^^^^^^^^^^^\n"
    '  File "/root/prime-rl/.venv/lib/python3.12/site-packages/torch/cuda/pin.py", line 9, in pin\n'
    "    raise ValueError(size)\n"
    "ValueError: 3 bytes are pinned twice\n"
)
RECORD = (
    json.dumps(
        {
            "timestamp": "2026-11-28T17:46:21.690210+00:00",
            "level": "ERROR",
            "message": "Fatal error in train",
            "module": "utils",
            "function": "sync_wrapper",
            "line": 75,
            "exception": TRACE,
        }
    )
    + "\n"
)
#: The terminal's form, with colours, what the values were, and a mark at the catching frame.
DRAWN = (
    "\x1b[2m17:46:22\x1b[0m \x1b[31m\x1b[1m  ERROR\x1b[0m \x1b[1mFatal error in train\x1b[0m\n"
    "\x1b[33m\x1b[1mTraceback (most recent call last):\x1b[0m\n\n"
    '> File "\x1b[32m/root/prime-rl/src/prime_rl/utils/\x1b[0m\x1b[32m\x1b[1mutils.py\x1b[0m", '
    "line \x1b[33m70\x1b[0m, in \x1b[35msync_wrapper\x1b[0m\n"
    "    \x1b[1mret\x1b[0m = func(*args, **kwargs)\n"
    "    \x1b[36m└ \x1b[0m\x1b[36m\x1b[1m<function train at 0x7f778a1e94e0>\x1b[0m\n\n"
    '  File "\x1b[32m/root/prime-rl/src/prime_rl/trainer/\x1b[0m\x1b[32m\x1b[1moffload.py\x1b[0m", '
    "line \x1b[33m123\x1b[0m, in \x1b[35moffload\x1b[0m\n"
    "    pin(tensor)\n\n"
    "\x1b[31m\x1b[1mValueError\x1b[0m:\x1b[1m 3 bytes are pinned twice\x1b[0m\n"
)
TORCHRUN = (
    "E1128 17:46:39.250680 32196 torch/distributed/elastic/multiprocessing/api.py:986] failed "
    "(exitcode: 1) local_rank: 0 (pid: 32203) of binary: /root/prime-rl/.venv/bin/python3\n"
    "Traceback (most recent call last):\n"
    '  File "/root/prime-rl/.venv/bin/torchrun", line 8, in <module>\n'
    "    sys.exit(main())\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
)
STEP = "17:46:30 SUCCESS Step 3 | Time: 1.2s\n"
DEATHS = {
    "json": RECORD,
    "json behind a rank": "[trainer0]:" + RECORD,
    "loguru": DRAWN,
    "loguru behind a rank": "".join(f"[default0]:{line}\n" for line in DRAWN.splitlines()),
    "bare": TRACE,
    "torch's prefix": "".join(f"[rank0]: {line}\n" for line in TRACE.splitlines()),
}


def offline_summary(text: str, source: str = "trainer", *, thorough: bool = False) -> str:
    engine = Engine(list(Library(compile_all())), live=False)
    log = io.BytesIO(text.encode())
    run = offline.log_facts(log, "x.log", source, "prime-rl", engine, thorough=thorough)
    (one,) = engine.evaluate(offline.as_facts([run], engine), complete=True)
    assert one.finding.failure in ("trainer-exited", "orchestrator-fatal")
    return one.finding.summary


def live(engine: Engine, source: str, text: str, at: int = 0) -> list[Transition]:
    for number, line in enumerate(text.encode().splitlines(), at + 1):
        place = {"source": source, "stream": f"log/demo/{source}", "cursor": f"1:{number}"}
        place |= {"file": source, "offset": number, "line": number}
        engine.feed("demo", 1, "prime-rl", source, parse(source, line), place)
    return engine.evaluate(facts(healthy("prime-rl"), now=NOW + at))


@pytest.mark.parametrize("form", DEATHS)
def test_an_exit_is_named_by_its_exception(form: str) -> None:
    text = STEP + DEATHS[form] + TORCHRUN
    assert offline_summary(text) == WHY
    assert offline_summary(text, thorough=True) == WHY
    engine = Engine(list(Library(compile_all())))
    live(engine, "launcher", "17:46:40   ERROR Error: Trainer failed with exit code 1\n")
    (told,) = live(engine, "trainer", text)
    assert (told.event, told.finding.summary) == ("updated", WHY)
    assert told.finding.evidence[0]["text"] == "Error: Trainer failed with exit code 1"
    assert told.finding.evidence[-1]["text"] == "ValueError: 3 bytes are pinned twice"


def test_the_exception_outlives_the_agent() -> None:
    first = Engine(list(Library(compile_all())))
    (opened,) = live(first, "trainer", TRACE + TORCHRUN)
    again = Engine(list(Library(compile_all())))
    again.adopt(opened.incident, opened.finding, NOW)
    told = live(again, "trainer", "one more line\n", 20)
    same = [one.finding.summary for one in told if one.incident == opened.incident]
    assert same == [WHY]


def test_ranks_that_fail_because_another_did_do_not_replace_it() -> None:
    other = TRACE.replace("ValueError: 3 bytes are pinned twice", "RuntimeError: peer is gone")
    text = DEATHS["torch's prefix"] + "".join(f"[rank1]: {x}\n" for x in other.splitlines())
    assert offline_summary(text + TORCHRUN) == WHY


def test_ray_shows_the_workers_exception_below_its_own() -> None:
    rays = (
        "ray.exceptions.RayTaskError(ValueError): ray::run()\n"
        '  File "/root/verl/trainer/main.py", line 5, in run\nValueError: 3'
    )
    said = offline_summary(TRACE.replace("ValueError: 3", rays) + TORCHRUN)
    assert said == "ValueError: 3 bytes are pinned twice (verl/trainer/main.py:5 in run)"


@pytest.mark.parametrize(
    "before",
    [
        "",
        TRACE + STEP * 20,
        "17:46:22 WARNING Retrying\n" + TRACE + STEP,
        RECORD.replace("ERROR", "WARNING").replace("Fatal error in train", "Retrying"),
    ],
)
def test_an_exception_that_was_survived_is_not_the_reason(before: str) -> None:
    assert offline_summary(before + TORCHRUN).startswith("failed (exitcode: 1)")


def test_the_orchestrators_own_exception_not_the_one_that_a_model_wrote() -> None:
    quoted = "17:46:22    INFO Completion: I would write\n" + TRACE.replace(
        "ValueError", "KeyError"
    )
    text = quoted + "17:46:23   ERROR Fatal error in run_orchestrator\n" + TRACE
    assert offline_summary(text, "orchestrator") == WHY


def test_a_log_that_names_ever_more_ranks_takes_no_more_memory() -> None:
    raised = Raised()
    tracemalloc.start()
    try:
        for rank in range(30_000):
            line = parse("trainer", f"[rank{rank}]: Traceback (most recent call last):".encode())
            raised.feed(line, {"source": "trainer", "offset": 0})
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
