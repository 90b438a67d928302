"""`sft` and `eval` of both generations: the lines of their own format strings, and RL's beside them
as before.
"""

from __future__ import annotations

import pytest

from bs4_common.trainers import registry
from bs4_common.trainers.base import Event

OLD, NEW = "prime-rl-2026-01", "prime-rl"


def event(trainer: str, source: str, level: str, text: str) -> Event | None:
    one = registry.get(trainer)
    return one.event(source, one.parse_line(source, f"21:34:37 {level: >7} {text}\n".encode()))


STEPS = {
    OLD: "Step 3 | Time: 31.27s | Loss: 1.2000 | Grad. Norm: 0.1420 | LR: 3.00e-06 | Throughput: "
    "20311 tokens/s | MFU: 12.3%"
    " | Peak Mem.: 41.2/79.1 GiB (52.1%)",
    NEW: "Step 3 |   31.3s | Loss 1.2000 | Grad. Norm 0.1420 | LR 3.00e-06 | Throughput 20311 "
    "tokens/s | MFU 12.3%"
    " | Peak Mem. 41.2/79.1 GiB (52.1%)",
}
MOE = {OLD: " | Max Vio: 0.1234", NEW: " | Max Vio 0.1234 | Routing Conf. 0.7700"}


@pytest.mark.parametrize("trainer", [OLD, NEW])
def test_a_step(trainer: str) -> None:
    for text in (STEPS[trainer], STEPS[trainer] + MOE[trainer]):
        found = event(trainer, "trainer", "SUCCESS", text)
        assert found is not None
        assert (found.kind, found.side, found.step) == ("step", "trainer", 3)
        assert {
            key: found.values[key] for key in ("loss", "grad_norm", "throughput", "peak_mem_gib")
        } == {
            "loss": 1.2,
            "grad_norm": 0.142,
            "throughput": 20311,
            "peak_mem_gib": 41.2,
        }
    # Without clipping the current generation has no norm to tell.
    assert (
        event(NEW, "trainer", "SUCCESS", STEPS[NEW].replace(" | Grad. Norm 0.1420", "")) is not None
    )
    assert event(trainer, "trainer", "SUCCESS", STEPS[trainer].replace("Loss", "Lost")) is None


@pytest.mark.parametrize("trainer", [OLD, NEW])
def test_where_it_begins_and_how_it_ends(trainer: str) -> None:
    text = (
        "Starting from step 20 (total_tokens=400, total_samples=8, dataset_state={'step': 20, "
        "'epoch': 0})"
    )
    begun = event(trainer, "trainer", "INFO", text)
    assert begun is not None
    assert (begun.kind, begun.step, begun.values["what"]) == ("starting", 20, "position")
    ended = event(trainer, "trainer", "SUCCESS", "SFT trainer finished!")
    assert ended is not None
    assert (ended.kind, ended.side) == ("finished", "trainer")


EVALUATED = {
    OLD: "Evaluated reverse-text in 12.40s (Avg@4=0.3100, Pass@1: 0.2000, Pass@4: 0.5000, "
    "Completion Length: 120.50"
    " (±30.25, ∈[10.00, 400.00]), Truncated: 3.1%)",
    NEW: (
        "Evaluated reverse-text (Step 0) |   3m 3s | Reward 0.3750 | Turns 1.0 | Branches 1.0 | "
        "Error 0.8% | Truncation 1.6%"
    ),
}


@pytest.mark.parametrize("trainer", [OLD, NEW])
def test_an_evaluation(trainer: str) -> None:
    found = event(trainer, "eval", "SUCCESS", EVALUATED[trainer])
    assert found is not None
    assert (found.kind, found.side, found.values["env"]) == ("eval", "eval", "reverse-text")
    assert found.values["reward"] in (0.31, 0.375)
    failed = {
        OLD: "An error has been caught in function 'eval', process 'MainProcess' (7), thread",
        NEW: "Fatal error in run_evals",
    }
    fatal = event(trainer, "eval", "ERROR", failed[trainer])
    assert fatal is not None
    assert fatal.kind == "fatal"
