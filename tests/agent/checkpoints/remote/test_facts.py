"""What the sync itself was told becomes facts, and the detectors name it: with a store over real
HTTP, and real workers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from bs4_agent.checkpoints import sync as module
from bs4_common.failures.detectors import DETECTORS
from bs4_practice.b2.faults import Fault
from tests.agent import facts as examples
from tests.agent.checkpoints.remote.bench import Bench
from tests.agent.checkpoints.remote.syncing import Agent

OURS = (
    "object-store-auth",
    "object-store-throttled",
    "object-store-unreachable",
    "sync-marker-mismatch",
    "remote-checkpoint-partial",
    "retention-deleted-newest",
    "cleanup-upload-race",
)


def named(agent: Agent, *complete: int) -> dict[str, str]:
    """Failure -> what its finding says, of a run with these complete steps."""
    run = examples.healthy(checkpoints=[examples.checkpoint(step) for step in complete])
    facts = examples.facts(run, console=agent.syncs.told())
    return {
        name: str(item.evidence) + item.summary
        for name in OURS
        for item in DETECTORS[name](facts, run, {})
    }


def remove(bench: Bench, part: str) -> None:
    """Every file of the bucket whose name holds `part`, all versions of it, as another program
    would.
    """
    [bucket] = bench.server.shelf.buckets
    for version in bench.server.shelf.versions(bucket):
        if part in version.name:
            bench.server.shelf.remove(version)


def _withdrawn(bench: Bench) -> None:
    bench.server.shelf.keys.clear()
    bench.server.expire_tokens()


def _full(bench: Bench) -> None:
    bench.server.faults.add(Fault("full", call="b2_upload_file", times=None))


@pytest.mark.parametrize(
    ("breaks", "failure", "words"),
    [
        (_withdrawn, "object-store-auth", "refuses this key"),
        (_full, "object-store-auth", "storage cap is reached"),
    ],
)
@pytest.mark.long
@pytest.mark.beside
def test_what_uploads_fail_with_has_its_name(
    agent: Agent, breaks: Callable[[Bench], None], failure: str, words: str
) -> None:
    agent.bench.save(5)
    agent.order()
    agent.until(lambda: agent.view.last["event"] == "finished")
    assert named(agent, 5) == {}
    breaks(agent.bench)
    agent.bench.save(10)
    agent.until(lambda: agent.view.failures)
    found = named(agent, 5, 10)
    assert list(found) == [failure]
    assert words in found[failure]


def test_a_store_that_does_not_answer_is_named_by_the_second_time(agent: Agent) -> None:
    agent.end()
    agent.order()
    for times in (1, 2):
        agent.book(
            "sync",
            run="demo",
            event="failed",
            error="store-unreachable",
            detail="b2://x: no answer; it is tried again.",
            passing=True,
        )
        assert list(named(agent, 5)) == ["object-store-unreachable"] * (times - 1)
    agent.order()
    assert named(agent, 5) == {}


@pytest.mark.long
@pytest.mark.beside
def test_a_file_that_went_from_the_store_is_seen_with_the_next_upload_and_mended(
    agent: Agent,
) -> None:
    agent.bench.save(5)
    agent.order(milestones=5)
    agent.until(lambda: agent.view.last["event"] == "finished")
    remove(agent.bench, "step_5/files/checkpoints/step_5/trainer/__0_0.distcp")
    assert named(agent, 5) == {}, "nobody has looked yet"
    agent.bench.server.faults.add(
        Fault("full", call="b2_upload_file", name="step_5/files", times=None)
    )
    agent.bench.save(10)
    agent.until(lambda: agent.view.listed is not None and agent.view.listed.get(5))
    assert "__0_0.distcp is not there" in named(agent, 5, 10)["remote-checkpoint-partial"]
    assert "remote-checkpoint-partial" not in named(agent, 10), (
        "what is not here cannot be told to be more than what is there"
    )
    agent.bench.server.faults.clear()
    agent.until(lambda: 5 in agent.view.done)
    assert named(agent, 5, 10) == {}
    assert agent.bench.pointed() == 10


@pytest.mark.long
@pytest.mark.beside
def test_a_step_that_the_pointer_names_and_somebody_removed(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention of another program took all of it: nothing new is to be uploaded, and yet it is
    noticed, and mended in its place.
    """
    monkeypatch.setattr(module, "LISTED_S", 0.2)
    agent.bench.save(5)
    agent.order()
    agent.until(lambda: agent.view.last["event"] == "finished")
    agent.bench.server.faults.add(Fault("full", call="b2_upload_file", times=None))
    remove(agent.bench, "/steps/step_5/")
    agent.until(lambda: "retention-deleted-newest" in named(agent, 5))
    agent.bench.server.faults.clear()
    agent.until(lambda: named(agent, 5) == {})
    assert agent.bench.pointed() == 5


def test_a_step_that_looks_complete_and_is_never_taken(agent: Agent) -> None:
    """A shard lost its bytes after the inventory had looked at it; one such step is no mismatch
    while others went up.
    """
    local = agent.bench.save(5)
    then = time.time() - 1000
    for file in local.data:
        os.utime(file.path, (then, then))
    shard = next(file.path for file in local.data if file.name.endswith(".distcp"))
    agent.bench.local(5)  # looked at, and remembered
    os.truncate(shard, 0)
    agent.order()
    agent.until(lambda: agent.view.rounds >= 2)
    assert "__0_0.distcp is empty" in named(agent, 5)["sync-marker-mismatch"]
    assert "sync-marker-mismatch" not in named(agent, 5, 10)
    agent.bench.save(10)
    agent.until(lambda: agent.view.pointer == 10)
    assert named(agent, 5, 10) == {}


@pytest.mark.long
@pytest.mark.beside
def test_a_step_that_is_taken_away_under_its_upload(agent: Agent) -> None:
    local = agent.bench.save(5)

    def rotate() -> None:
        for file in local.data:
            file.path.unlink(missing_ok=True)

    agent.bench.server.faults.add(
        Fault("stop", call="b2_upload_file", name="step_5/manifest.json", on=rotate)
    )
    agent.order()
    agent.until(lambda: agent.view.vanished)
    assert (
        "Step 5 was deleted while it was being uploaded" in named(agent, 5)["cleanup-upload-race"]
    )
    agent.bench.save(10)
    agent.until(lambda: agent.view.pointer == 10)
    assert named(agent, 10) == {}
