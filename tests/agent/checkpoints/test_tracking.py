"""A run's ids at W&B go into the store and come back from it, whatever its generation, also where
no log says them.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bs4_agent.checkpoints.sync_set import wandb_ids
from bs4_common.checkpoints.tracking import given, with_tracking
from bs4_common.trainers import registry
from tests.agent.checkpoints import trees

IDS = {"trainer": "aaaa1111", "orchestrator": "bbbb2222"}
SAID = b"wandb: \xf0\x9f\x9a\x80 View run at https://wandb.ai/team/demo/runs/cccc3333\n"


def test_january_has_one_for_each_side(tmp_path: Path) -> None:
    spec = trees.old_run(tmp_path, "[wandb]\noffline = true\n")
    assert given(spec) == {}
    launched = with_tracking(spec, IDS)
    assert given(launched) == IDS
    assert with_tracking(launched, {"trainer": "other"}) == launched, "what is given stands"
    named = trees.old_run(tmp_path, '[trainer.wandb]\nid = "mine"\n')
    assert given(with_tracking(named, IDS)) == {"orchestrator": "bbbb2222"}, (
        "the config's own is saved with the config"
    )


def test_the_current_one_has_one_for_both(tmp_path: Path) -> None:
    launched = with_tracking(trees.new_run(tmp_path), {"orchestrator": "bbbb2222"})
    assert launched.env == {"PRL_RUN_ID": "bbbb2222"}
    assert given(launched) == dict.fromkeys(IDS, "bbbb2222")
    assert with_tracking(launched, IDS) == launched


def test_what_a_log_says_counts_more_than_what_was_given(tmp_path: Path) -> None:
    """An offline run's logs say nothing: its sync would have saved it without any id, and the next
    machine begun new runs.
    """
    spec = with_tracking(trees.old_run(tmp_path), IDS)
    trainer = registry.get(spec.trainer)
    assert wandb_ids(trainer, spec) == IDS
    log = next(one.path for one in trainer.log_sources(spec) if one.source == "trainer")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(SAID)
    assert wandb_ids(trainer, spec) == {**IDS, "trainer": "cccc3333"}
    assert wandb_ids(trainer, dataclasses.replace(spec, overrides=())) == {"trainer": "cccc3333"}
