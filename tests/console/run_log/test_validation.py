"""The best step by a validation, and whether what it trained is still there."""

from __future__ import annotations

from typing import Any

from bs4_console.run_log import validation


def row(step: int, value: object, metric: str = "math500/acc/mean@1") -> dict[str, Any]:
    return {"side": f"eval:{metric}", "step": step, "val": value}


def kept(**steps: bool) -> dict[str, Any]:
    sets = [(int(name[1:]), whole) for name, whole in steps.items()]
    return {
        "checkpoints": [
            {"step": s, "complete": whole, "missing": {} if whole else {"actor": "no data.pt"}}
            for s, whole in sets
        ]
    }


def test_the_best_step_is_named_with_its_checkpoint_and_the_best_that_is_left() -> None:
    rows = [
        row(0, 0.3),
        row(50, 0.55),
        row(100, 0.604),
        row(150, 0.59),
        {"side": "trainer", "step": 151, "loss": 1.0},
    ]
    (curve,) = validation.curves_of(rows)
    assert curve.points == [[0, 0.3], [50, 0.55], [100, 0.604], [150, 0.59]]
    assert (curve.best_step, curve.best, curve.checkpoint) == (100, 0.604, "unknown")
    validation.add_to_report([curve], kept(s50=True, s150=True))
    assert (curve.checkpoint, curve.saved_step, curve.saved) == ("gone", 150, 0.59)
    assert validation.describe(curve) == [
        (
            "math500/acc/mean@1: best 0.604 at step 100; it has no checkpoint; best with a "
            "checkpoint: 0.59 at step 150"
        ),
        "0:0.3  50:0.55  100:0.604  150:0.59",
    ]
    validation.add_to_report([curve], kept(s100=False, s50=True))
    assert (curve.checkpoint, curve.saved_step) == ("torn", 50)
    assert "no data.pt" in validation.describe(curve)[0]
    validation.add_to_report([curve], kept(s100=True))
    assert (curve.checkpoint, curve.saved_step) == ("complete", 100)
    assert "best with" not in validation.describe(curve)[0]
    validation.add_to_report([curve], None, "the pod cannot be reached")
    assert curve.checkpoint == "unknown"


def test_a_step_that_is_done_again_counts_once_and_what_is_no_number_not_at_all() -> None:
    rows = [row(10, 0.9), row(10, 0.4), row(20, "nan"), row(30, True), row(40, None)]
    (curve,) = validation.curves_of(rows)
    assert curve.points == [[10, 0.4]]


def test_of_a_loss_the_lowest_is_best_and_of_equals_the_earliest() -> None:
    losses = [
        row(step, value, "val/loss")
        for step, value in ((50, 0.9), (100, 0.7), (150, 0.7), (200, 0.8))
    ]
    longest, other = validation.curves_of([row(1, 0.1), *losses])
    assert (longest.metric, longest.best_step) == ("val/loss", 100)
    assert other.best_step == 1
