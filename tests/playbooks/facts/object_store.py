"""The store and its daemon, as the console was told about them."""

from __future__ import annotations

from typing import Any

from bs4_common.failures.environment import ConsoleFacts
from bs4_common.failures.facts import Facts
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import GIB, look, run, saved

STEPS = [saved(5, age=3000), saved(10, age=2000)]


def store(sync: dict[str, Any] | None = None, remote: list[dict[str, Any]] | None = None) -> Facts:
    rows = (
        None
        if remote is None
        else [{"run": "demo", "prefix": "b2://b/demo", **row} for row in remote]
    )
    daemon = [{"run": "demo", "alive": True, "interval_s": 300, **(sync or {})}]
    return look(run(checkpoints=STEPS), console=ConsoleFacts(sync=daemon, remote=rows))


@positive("remote-checkpoint-partial")
def half_the_bytes() -> Facts:
    return store(remote=[{"step": 10, "files": 4, "bytes": GIB // 2}])


@positive("remote-checkpoint-partial")
def fewer_files() -> Facts:
    return store(remote=[{"step": 10, "files": 4, "local_files": 9, "bytes": GIB}])


@negative(
    "remote-checkpoint-partial",
    "retention-deleted-newest",
    "sync-daemon-dead",
    "sync-marker-mismatch",
)
def all_there() -> Facts:
    return store(
        {"pointer": 10},
        [{"step": 5, "bytes": GIB}, {"step": 10, "files": 9, "local_files": 9, "bytes": GIB}],
    )


@negative("remote-checkpoint-partial")
def it_is_being_uploaded() -> Facts:
    return store(remote=[{"step": 10, "files": 4, "bytes": GIB // 2, "uploading": True}])


@negative(
    "remote-checkpoint-partial",
    "retention-deleted-newest",
    "sync-daemon-dead",
    "sync-marker-mismatch",
    "cleanup-upload-race",
)
def nobody_was_asked() -> Facts:
    return look(run(checkpoints=STEPS), console=None)


@positive("sync-daemon-dead")
def no_process() -> Facts:
    return store({"alive": False, "pointer": 5})


@positive("sync-daemon-dead")
def two_intervals_behind() -> Facts:
    return store({"pointer": 5, "interval_s": 300})


@negative("sync-daemon-dead")
def one_interval_behind() -> Facts:
    return store({"pointer": 5, "interval_s": 1800})


@positive("sync-marker-mismatch")
def every_complete_step_is_skipped() -> Facts:
    return store({"skipped": [5, 10], "rounds": 2, "marker": "optimizer.pt"})


@negative("sync-marker-mismatch")
def only_the_newest_is_skipped() -> Facts:
    return store({"skipped": [10], "rounds": 5})


@positive("retention-deleted-newest")
def the_pointer_names_nothing() -> Facts:
    return store({"pointer": 10}, [{"step": 5, "bytes": GIB}])


@positive("retention-deleted-newest")
def newer_ones_were_removed() -> Facts:
    return store({"removed": [95, 100]})


@negative("retention-deleted-newest")
def the_oldest_was_removed() -> Facts:
    return store({"removed": [0], "pointer": 10}, [{"step": 10, "bytes": GIB}])


@positive("remote-checkpoint-partial")
def another_hash() -> Facts:
    """As many files and bytes as there should be, one of them with other bytes."""
    return store(
        remote=[
            {
                "step": 10,
                "files": 9,
                "local_files": 9,
                "missing": "trainer/__0_0.distcp has another SHA-1",
            }
        ]
    )


@negative("remote-checkpoint-partial")
def a_torn_one_that_is_not_here() -> Facts:
    return store(
        remote=[
            {"step": 7, "files": 4, "local_files": 9, "missing": "trainer/.metadata is not there"}
        ]
    )


@negative("retention-deleted-newest")
def another_run_was_listed() -> Facts:
    return store({"pointer": 10, "listed": False}, [])


@positive("object-store-auth")
def a_key_that_is_refused() -> Facts:
    return store(
        {
            "error": "store-auth",
            "failures": 1,
            "detail": "b2://b: the store refuses this key (Unauthorized); check it.",
        }
    )


@positive("object-store-auth")
def a_cap_that_is_reached() -> Facts:
    return store(
        {
            "error": "store-full",
            "failures": 3,
            "detail": "b2://b: the account's storage cap is reached; raise it.",
        }
    )


@positive("object-store-throttled")
def it_gives_up_on_503() -> Facts:
    return store(
        {
            "error": "store-throttled",
            "failures": 1,
            "detail": "b2://b: the store takes no more for now; it is tried again.",
        }
    )


@positive("object-store-unreachable")
def no_answer_twice() -> Facts:
    return store(
        {
            "error": "store-unreachable",
            "failures": 2,
            "detail": "b2://b: no answer from the store; it is tried again.",
        }
    )


@negative("object-store-unreachable", "object-store-throttled", "object-store-auth")
def no_answer_once() -> Facts:
    return store(
        {
            "error": "store-unreachable",
            "failures": 1,
            "detail": "b2://b: no answer from the store; it is tried again.",
        }
    )


@negative("object-store-auth", "object-store-throttled", "object-store-unreachable")
def another_trouble_of_our_own() -> Facts:
    return store(
        {
            "error": "step-failed",
            "failures": 3,
            "detail": "Step 5 is not complete any more; a newer one is taken by itself.",
        }
    )


@negative("object-store-auth", "object-store-throttled", "object-store-unreachable")
def it_went_on() -> Facts:
    return store({"error": "", "failures": 0, "detail": "", "pointer": 10})


@negative("sync-marker-mismatch")
def every_one_is_skipped_once() -> Facts:
    return store({"skipped": [5, 10], "rounds": 1, "why": "trainer: .metadata is empty"})
