"""A plain log's record of several lines: what a completion quotes is not the program's own, what a
dying program says is.
"""

from __future__ import annotations

import time

import pytest

from bs4_common.failures import quoted_output
from bs4_common.failures.facts import Facts
from bs4_common.trainers import registry
from tests.agent.detect.compiled import engine, playbook
from tests.agent.detect.test_signatures import found

OOM = playbook(
    "x",
    {
        "pattern": "^torch.OutOfMemoryError: CUDA out of memory",
        "levels": ["ERROR", ""],
        "source": ["orchestrator", "inference"],
    },
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 3\ntorch.OutOfMemoryError: CUDA '
    "out of memory\n"
)
STEP = "12:00:09 SUCCESS Step 4 | 31.2s | Reward 0.1234\n"
COMPLETION = "12:00:01   DEBUG Completion: I ran it, and it said:\n"


def fires(log: str, source: str = "orchestrator") -> bool:
    plain, thorough = (found(log, OOM, source=source, thorough=way) for way in (False, True))
    assert plain == thorough
    return bool(plain)


@pytest.mark.parametrize(
    "header",
    [
        COMPLETION,
        "12:00:01    INFO Prompt #3: x\n",
        "12:00:01    INFO This is what it wrote:\n",
        "12:00:01 SUCCESS Sample rollout 7: ok\n",
        "12:00:01   DEBUG Model response for step_3: x\n",
    ],
)
def test_a_quoted_traceback_is_the_records(header):
    assert not fires(header + TRACEBACK + STEP)
    assert not fires(
        header
        + "So I tried this.\n"
        + TRACEBACK
        + "It failed.\n\n"
        + STEP
        + header
        + TRACEBACK
        + STEP
    )
    assert not fires(
        header
        + TRACEBACK
        + "12:00:09 WARNING Cancelled 4 train episodes past max_off_policy_steps=8.\n"
    )


def test_who_dies_after_it_says_nothing_more():
    assert fires(COMPLETION + TRACEBACK)
    assert fires(COMPLETION + "So I tried this.\n" + STEP + COMPLETION + TRACEBACK), (
        "the last record decides over its own lines only"
    )
    assert fires(COMPLETION + TRACEBACK + "12:00:09   ERROR Fatal error in run_orchestrator\n")


@pytest.mark.parametrize(
    "header",
    [
        "12:00:01    INFO Saving checkpoint at step 4\n",
        "12:00:01   ERROR Completion: none\n",
        "12:00:01 WARNING it said:\n",
        "",
    ],
)
def test_who_announces_nothing_or_reports_a_failure_is_believed(header):
    assert fires(header + TRACEBACK + STEP)


@pytest.mark.parametrize(
    "line",
    [
        "```",
        "```text",
        "   ```python",
        "~~~",
        "<|im_start|>user",
        "<tool_response>",
        "<think>",
        "User: what does this mean?",
        "Assistant:",
        "<|start_header_id|>user",
    ],
)
def test_what_shows_by_its_own_lines_that_it_is_a_transcript_is_one(line):
    """Below a header that announces nothing."""
    header = "12:00:01    INFO Rollout 7 done\n"
    assert not fires(header + f"{line}\n" + TRACEBACK + STEP)
    assert not fires(
        header
        + "So be it.\n"
        + TRACEBACK[:10]
        + f"\n{line}\n"
        + "and\n" * 50
        + TRACEBACK
        + "```\n"
        + STEP
    )
    assert not fires(
        header + "x\n" + f"{line}\n" + TRACEBACK + "y\n" + f"{line}\n" + TRACEBACK + STEP
    )
    assert fires(header + f"{line}\n" + TRACEBACK), "who dies after it was not quoting"
    assert fires(
        header + f"{line}\n" + TRACEBACK + "12:00:09   ERROR Fatal error in run_orchestrator\n"
    )
    assert fires(header + f"{line}\n" + STEP + TRACEBACK + STEP), (
        "a mark counts for its own record only"
    )
    assert fires("12:00:01   ERROR Rollout 7 failed\n" + f"{line}\n" + TRACEBACK + STEP), (
        "a record that reports a failure is believed"
    )
    assert fires(header + TRACEBACK + f"{line}\n" + STEP), (
        "what stands above the mark is no part of it"
    )


def test_a_mark_in_the_header_itself():
    assert not fires("12:00:01    INFO Rollout 7 <|im_start|>user\n" + TRACEBACK + STEP)


SAMPLE = (
    "(TaskRunner pid=9) [prompt] user\n(TaskRunner pid=9) Why does it stop?\n(TaskRunner pid=9) "
    "[response] I ran it:\n"
)
ENDED = "(TaskRunner pid=9) [ground_truth] 72\n(TaskRunner pid=9) [score] 0.0\n"
BY_RAY = "".join(f"(TaskRunner pid=9) {line}\n" for line in TRACEBACK.splitlines())
VERL_STEP = "(TaskRunner pid=9) step:4 - actor/pg_loss:0.1\n"


def verl_fires(log: str) -> bool:
    rules = playbook(
        "x",
        {
            "pattern": "^torch.OutOfMemoryError: CUDA out of memory",
            "levels": ["ERROR", ""],
            "source": "trainer",
        },
    )
    plain, thorough = (found(log, rules, source="trainer", thorough=way) for way in (False, True))
    assert plain == thorough
    return bool(plain)


@pytest.mark.parametrize("colour", ["", "\x1b[36m"])
def test_a_sample_that_verl_prints_is_somebodys_words(colour):
    def shown(log: str) -> str:
        return (
            log.replace("(TaskRunner pid=9)", f"{colour}(TaskRunner pid=9)\x1b[0m")
            if colour
            else log
        )

    assert not verl_fires(shown(SAMPLE + BY_RAY + ENDED + VERL_STEP))
    assert not verl_fires(
        shown(
            SAMPLE
            + "and\n" * 20
            + BY_RAY
            + "(TaskRunner pid=9) [score] 1.0\n"
            + (SAMPLE + BY_RAY + ENDED) * 3
        )
    )
    assert verl_fires(shown(SAMPLE + BY_RAY)), "who dies while it prints one was not quoting"
    assert verl_fires(shown(SAMPLE + "no\n" + ENDED + BY_RAY + VERL_STEP)), (
        "what stands below the sample is no part of it"
    )
    assert verl_fires(shown(SAMPLE + "x\n" * 250 + BY_RAY + ENDED)), "no sample is that long"
    assert verl_fires(shown(BY_RAY + SAMPLE + ENDED)), "what stands above it neither"


@pytest.mark.parametrize(
    "above", ["Exception in thread Thread-3 (pull):\n", "Task exception was never retrieved\n", ""]
)
def test_the_limit_a_bare_traceback_below_a_line_that_announces_nothing_is_believed(above):
    """It may be quoted, and a thread that dies while the others go on looks the same: docs/check.md
    says so.
    """
    assert fires("12:00:01    INFO Rollout 7 done\n" + above + TRACEBACK + STEP)


def test_an_evaluations_figures_announce_nothing():
    assert fires(
        "12:00:01 SUCCESS Evaluated aime in 3.4s (Avg@4=0.31, Completion Length: 1200.50)\n"
        + TRACEBACK
        + STEP
    )


def test_a_line_that_names_its_writer_is_that_writers():
    assert fires(COMPLETION + "[rank0]: torch.OutOfMemoryError: CUDA out of memory\n" + STEP)


def test_a_servers_next_header_may_be_anybodys():
    assert fires(COMPLETION + TRACEBACK + STEP, source="inference")


def test_no_record_goes_on_for_ever():
    assert fires(COMPLETION + "and\n" * quoted_output.MOST_LINES + TRACEBACK + STEP)


@pytest.mark.parametrize("lines", [1, 20])
def test_across_blocks(monkeypatch, lines):
    monkeypatch.setattr("bs4_common.failures.reading._BLOCK", 200)
    assert not fires(COMPLETION + "and so on\n" * lines + TRACEBACK + "and so on\n" * lines + STEP)
    assert fires(COMPLETION + "and so on\n" * lines + TRACEBACK + "and so on\n" * lines)


def test_a_live_log_is_waited_for(monkeypatch):
    """Nothing is told while it may be a quotation; who says nothing more for so long was not
    quoting.
    """
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    trainer, watch = registry.get("prime-rl"), engine(OOM, live=True)

    def feed(text: str, first: int) -> None:
        for number, line in enumerate(text.encode().splitlines(), first):
            place = {
                "source": "orchestrator",
                "stream": "s",
                "cursor": str(number),
                "file": "x",
                "offset": 0,
                "line": number,
            }
            watch.feed(
                "r", 1, "prime-rl", "orchestrator", trainer.parse_line("orchestrator", line), place
            )

    def told() -> list[str]:
        return [t.event for t in watch.evaluate(Facts(now_m=clock[0], now_t=0.0))]

    feed(COMPLETION + TRACEBACK, 1)
    clock[0] += 5
    assert told() == []
    feed(STEP + COMPLETION + TRACEBACK, 10)
    clock[0] += quoted_output.WAIT_S - 1
    assert told() == []
    clock[0] += 1
    assert told() == ["opened"]
