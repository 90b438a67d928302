"""Failures whose severity depends on what the log shows of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_common.failures import matcher
from bs4_common.failures.engine import Engine
from bs4_common.trainers import lines
from bs4_console.checks.diagnose import diagnose
from tests.agent.facts import facts, healthy
from tests.playbooks.library import library

SKIPPED = (
    "[2026-07-15 17:{minute:02}:39,984] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] "
    "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {scale}, reducing to {less}\n"
)
DEEPSPEED_ENDS = (
    "Exception: Current loss scale already at minimum - cannot decrease scale anymore. "
    "Exiting run.\n"
)
FAIRSEQ_ENDS = "FloatingPointError: Minimum loss scale reached (0.0001).\n"


def _skips(*scales: int) -> str:
    """Return the lines of steps that were skipped a minute apart, one for each scale."""
    lines = []
    for minute, scale in enumerate(scales):
        lines.append(SKIPPED.format(minute=minute, scale=scale, less=max(scale // 2, 1)))
    return "".join(lines)


@pytest.mark.parametrize(
    ("text", "severities"),
    [
        pytest.param(_skips(65536, 32768, 16384, 8192), [], id="the first halvings"),
        pytest.param(_skips(64), [], id="one skipped step at a low scale"),
        pytest.param(_skips(64, 32), [], id="two"),
        pytest.param(_skips(64, 32, 16), ["warning"], id="step after step"),
        pytest.param(DEEPSPEED_ENDS, ["critical"], id="DeepSpeed ends"),
        pytest.param(FAIRSEQ_ENDS, ["critical"], id="fairseq ends"),
        pytest.param(
            _skips(64, 32, 16, 8, 4, 2) + DEEPSPEED_ENDS, ["critical"], id="down to the end"
        ),
    ],
)
def test_a_low_loss_scale_is_critical_only_if_it_ends_the_run(
    tmp_path: Path, text: str, severities: list[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text(text)
    found = diagnose([log], "trainer", "prime-rl")["findings"]
    assert [item["severity"] for item in found if item["id"] == "loss-scale-minimum"] == severities


@pytest.mark.parametrize(("apart_s", "named"), [(200.0, True), (1200.0, False)])
def test_steps_that_are_skipped_far_apart_are_no_failure(
    monkeypatch: pytest.MonkeyPatch, apart_s: float, named: bool
) -> None:
    """A scale that a run cannot keep is tried again after 1,000 good steps."""
    engine = Engine([library().get("loss-scale-minimum")])
    for number in range(3):
        monkeypatch.setattr(matcher.time, "monotonic", lambda at=number * apart_s: at)
        raw = SKIPPED.format(minute=number, scale=32, less=16).strip().encode()
        line = lines.parse("trainer", raw)
        place = {
            "source": "trainer",
            "stream": "log/demo/trainer",
            "cursor": f"1:{number}",
            "file": "",
            "offset": number,
            "line": number + 1,
            "text": line.text,
        }
        engine.feed("demo", 1, "prime-rl", "trainer", line, place)
    assert bool(engine.evaluate(facts(healthy("prime-rl")))) is named
