"""Every scenario in every generation where it applies: broken by a mechanism, named, planned,
fixed, proved by the witness.
"""

from __future__ import annotations

import pytest

from bs4_console.errors import NotApplicableError, UsageError
from bs4_practice.play import play
from bs4_practice.scenarios import SCENARIOS, choose

pytestmark = pytest.mark.beside


def cases():
    """Return the parameters of every scenario in every generation. The long suite plays each
    scenario once, in turn with one generation and the other; the others are rounds.
    """
    return [
        pytest.param(
            scenario,
            trainer,
            id=f"{scenario.name}-{trainer}",
            marks=pytest.mark.long
            if trainer == scenario.trainers[number % len(scenario.trainers)]
            else pytest.mark.rounds,
        )
        for number, scenario in enumerate(SCENARIOS.values())
        for trainer in scenario.trainers
    ]


async def recovered(scenario, trainer):
    said: list[str] = []
    report = await play(scenario, trainer, say=said.append)
    story = "\n".join([*said, str(report)])
    assert report["failure_id"] == scenario.failure, story
    assert report["recovered"] is True, story
    assert report["data_lost"] == 0, story
    assert len(report["plan_hash"]) == 64, story
    return report


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("scenario", "trainer"), cases())
async def test_every_scenario_is_recovered(scenario, trainer):
    report = await recovered(scenario, trainer)
    if scenario.name == "step-desync/resume-ahead":
        assert report["steps_after"] > 5, "training goes on above the step that was resumed"


@pytest.mark.rounds
@pytest.mark.timeout(400)
async def test_without_the_fix_it_stays_broken():
    report = await play(SCENARIOS["vllm-silent-death"], "prime-rl-2026-01", fix=False)
    assert report["recovered"] is False


def test_what_does_not_apply_says_so():
    with pytest.raises(NotApplicableError, match="prime-rl-2026-01"):
        choose("step-desync", "prime-rl")
    with pytest.raises(UsageError, match="demo --list"):
        choose("no-such-thing", "prime-rl")


def test_random_is_repeatable_and_fits_the_trainer():
    picked = [choose("random", "prime-rl", seed).name for seed in range(20)]
    assert picked == [choose("random", "prime-rl", seed).name for seed in range(20)]
    assert len(set(picked)) > 2
    assert all("prime-rl" in SCENARIOS[name].trainers for name in picked)
