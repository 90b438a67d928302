"""What is offered for a name that is not there."""

from __future__ import annotations

from bs4_console.suggest import did_you_mean


def test_the_nearest_name_is_offered() -> None:
    assert (
        did_you_mean("step-desnyc", ["disk-full", "step-desync"]) == "Did you mean 'step-desync'?"
    )


def test_a_name_like_none_gets_a_few_and_no_wall_of_them() -> None:
    names = [f"failure-{n}" for n in range(100)]
    assert did_you_mean("xyz", names) == "Known: " + ", ".join(names[:8]) + ", ..."
    assert did_you_mean("xyz", names[:2]) == "Known: failure-0, failure-1."
