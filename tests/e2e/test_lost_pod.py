"""A rented pod is destroyed in mid-step: another is rented, the newest synced step restored, and
the run goes on there as the same run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_practice import bare
from tests.e2e import rented
from tests.e2e.rented import INTERVAL, STORE, until

pytestmark = [
    pytest.mark.beside,
    pytest.mark.skipif(not bare.usable(), reason="a bare practice pod needs git"),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "trainer",
    [
        pytest.param("prime-rl-2026-01", marks=pytest.mark.rounds),
        pytest.param("prime-rl", marks=pytest.mark.long),
    ],
)
def test_destroyed_in_mid_step_and_goes_on_elsewhere(trainer: str) -> None:
    """What is in the store was brought there by the pod's own sync, and nothing else is left of the
    run.
    """
    with rented.rig(trainer) as at:
        at.meet()
        at.train()
        at.sync("--limit-mib", "64", "--keep-remote", "3", "--milestones", "10")
        looked = at.recover("--once")
        assert looked.code == 0, looked

        reached = at.stand_still()
        step = until(
            lambda: at.pointed() == at.complete() and at.pointed(),
            240,
            "the newest complete set in the store",
        )
        lost, config = at.pod, at.pod.config_path.read_text()
        ids, tracked, orders = rented.given(lost), rented.tracked(lost), rented.ordered(lost)
        assert rented.rates(lost) == {rented.RATE}
        assert set(ids.values()) == tracked
        at.destroy()
        assert not lost.root.exists()

        done = at.recover("--once", "--patience", "240")
        assert done.code == 0, done
        assert done.lines[-1]["outcome"] == "recovered", (done.out[-3000:], done.err[-3000:])
        (machine,) = at.living()
        assert machine.label is not None
        assert machine.label.startswith("bs4-demo-")
        assert at.spent() == ["vast create"]
        new = at.metal.pods[machine.id]
        # The current generation counts steps from 1: the set of step N holds it. January's is named
        # by the next one.
        following = step if trainer == "prime-rl-2026-01" else step + 1
        assert at.steps(new)[0] == following, "it goes on right behind what was restored"
        assert 0 < reached - step <= INTERVAL

        assert rented.given(new) == ids, "trainer and orchestrator are the same W&B runs"
        assert rented.tracked(new) == tracked
        used = Path(rented.launched(new)["config"])
        kept = new.project / ".bs4" / "demo" / "restored" / f"step_{step}" / ".bs4" / "config"
        assert used == kept / "rl.toml"
        assert used.read_text() == config, "the run's own config, as it was when the step was saved"
        assert new.config_path.read_text() != config

        part = kept / "parts" / "trainer.toml"
        named = [str(part) if word == rented.PART else word for word in rented.ARGUMENTS]
        assert rented.launched(new)["overrides"][: len(named)] == named, "and its further arguments"
        assert not (new.project / rented.PART).exists(), (
            "this machine never had the file that they name"
        )
        assert rented.rates(new) == {rented.RATE}, "the trainer has read it"
        assert rented.WORD.items() <= rented.environment(new).items()

        # It is saved again, to the same place and in the same way.
        assert (
            rented.ordered(new)
            == orders
            == [
                {
                    "run": "demo",
                    "to": STORE,
                    "every": 0,
                    "milestones": 10,
                    "keep_remote": 3,
                    "limit_mib": 64.0,
                    "weights": False,
                }
            ]
        )
        until(lambda: at.pointed() > step, 240, "a step of the new machine in the store")
        again = at.recover("--once")
        assert again.code == 0, again
        assert again.lines[-1]["verdict"]["verdict"] == "fine"
        assert len(at.living()) == 1
