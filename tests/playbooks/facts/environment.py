"""What a run stands on: versions of environments, caches of datasets."""

from __future__ import annotations

from pathlib import Path

from bs4_common.failures.environment import DatasetCache, EnvironmentVersion
from bs4_common.failures.facts import Facts
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import WALL, around, look, run, starting


def pinned(wanted: str, installed: str | None) -> Facts:
    version = EnvironmentVersion("owner/reverse-text", wanted, installed, Path("/x/.venv"))
    return look(run(environment=around(environments=[version])))


@positive("env-version-drift")
def another_version() -> Facts:
    return pinned("0.1.1", "0.2.0")


@negative("env-version-drift")
def the_version_that_is_named() -> Facts:
    return pinned("0.1.1", "0.1.1")


@negative("env-version-drift")
def a_package_that_is_not_found() -> Facts:
    return pinned("0.1.1", None)


HALF = DatasetCache(Path("/c/abc.incomplete"), ready=False, changed=WALL - 600)


@positive("dataset-cache-partial")
def left_half_written() -> Facts:
    return look(starting(environment=around(caches=[HALF])))


@negative("dataset-cache-partial")
def somebody_writes_it() -> Facts:
    return look(
        starting(
            environment=around(caches=[DatasetCache(HALF.path, ready=False, changed=WALL - 60)])
        )
    )


@negative("dataset-cache-partial")
def the_run_trains_all_the_same() -> Facts:
    return look(run(environment=around(caches=[HALF])))


@negative("dataset-cache-partial")
def a_whole_one() -> Facts:
    return look(
        starting(
            environment=around(
                caches=[DatasetCache(Path("/c/abc"), ready=True, changed=WALL - 600)]
            )
        )
    )
