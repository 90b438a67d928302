"""Which start is another attempt of which run: by the run's directory, in every family, whatever it
is called and whoever started it.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.runs import adopt
from bs4_agent.runs.adopt import Candidate
from bs4_agent.runs.places import same_run
from bs4_common.identity import Identity
from bs4_common.runs.model import Attempt, Run
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from tests.agent.facts import identity

VERL = ["python3", "-u", "-m", "verl.trainer.main_ppo"]


def launched(
    trainer: str, cwd: Path, name: str = "demo", out: str = "outputs", **more: Any
) -> LaunchSpec:
    """As the console starts it."""
    (cwd / "rl.toml").write_text(
        "[trainer]\nsave_freq = 5\nlogger = ['console']\n"
        if trainer == "verl"
        else "max_steps = 10\n"
    )
    return LaunchSpec(
        run=name, trainer=trainer, config=Path("rl.toml"), cwd=cwd, output_dir=cwd / out, **more
    )


def by_hand(spec: LaunchSpec, changed: dict[str, str] | None = None) -> LaunchSpec:
    """What is seen of a person who types the run's command again, some of its words changed."""
    words = registry.get(spec.trainer).command(spec)
    # env has become the program
    words = words[
        next(i for i, word in enumerate(words) if word != "env" and not word.startswith("VERL_")) :
    ]
    for old, new in (changed or {}).items():
        assert any(old in word for word in words)
        words = [word.replace(old, new) for word in words]
    found = registry.recognise([word for word in words if word], spec.cwd)
    assert found is not None
    return found


def same(one: LaunchSpec, other: LaunchSpec) -> bool:
    trainer = registry.get(one.trainer)
    return same_run(trainer.layout(one), trainer.layout(other))


@pytest.mark.parametrize("trainer", ["verl", "prime-rl", "prime-rl-2026-01"])
def test_the_same_command_is_the_same_run(trainer: str, tmp_path: Path) -> None:
    spec = launched(trainer, tmp_path)
    assert same(spec, by_hand(spec))
    again = by_hand(dataclasses.replace(spec, resume=5))
    assert again.resume == 5
    assert same(spec, again)


@pytest.mark.parametrize(
    ("trainer", "other"),
    [
        ("verl", {"name": "demo-b"}),
        ("prime-rl", {"name": "demo-b"}),
        ("prime-rl-2026-01", {"out": "outputs-b"}),
        ("verl", {"out": "b"}),
    ],
)
def test_two_runs_below_one_parent_stay_two(
    trainer: str, other: dict[str, str], tmp_path: Path
) -> None:
    spec = launched(trainer, tmp_path)
    second = launched(trainer, tmp_path, **other)
    assert not same(spec, by_hand(second))
    assert not same(by_hand(spec), by_hand(second))
    assert same(second, by_hand(second))


def test_two_of_one_experiments_name_below_one_parent_stay_two(tmp_path: Path) -> None:
    """Both are called demo, and the parent of both is /data."""
    one, other = (
        registry.recognise(
            [*VERL, f"trainer.default_local_dir=/data/{place}", "trainer.experiment_name=demo"],
            tmp_path,
        )
        for place in "ab"
    )
    assert one is not None
    assert other is not None
    assert (one.run, one.output_dir) == (other.run, other.output_dir)
    assert not same(one, other)


def test_where_it_saves_is_enough_to_know_a_run_of_verls(tmp_path: Path) -> None:
    """Without hydra.run.dir, through a link, under another experiment's name."""
    spec = launched("verl", tmp_path)
    (tmp_path / "outputs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "outputs")
    found = registry.recognise(
        [*VERL, "trainer.default_local_dir=link/demo/checkpoints", "trainer.experiment_name=x"],
        tmp_path,
    )
    assert found is not None
    assert same(spec, found)
    elsewhere = launched("verl", tmp_path, overrides=("trainer.default_local_dir=/data/c",))
    assert same(elsewhere, by_hand(elsewhere))
    assert not same(spec, elsewhere)


def run(
    spec: LaunchSpec, launcher: Identity | None = None, state: str = "ended", started_t: float = 1.0
) -> Run:
    return Run(
        spec.run,
        spec,
        False,
        [
            Attempt(
                number=1,
                state=state,
                shim=None,
                launcher=launcher,
                started_t=started_t,
                started_m=1.0,
                resume=None,
                argv=[],
            )
        ],
    )


def known(*runs: Run) -> Any:
    return SimpleNamespace(
        all=lambda: list(runs), trainer=lambda of: registry.get(of.trainer), unreadable={}
    )


def test_of_several_that_had_the_directory_the_one_of_that_name_goes_on(tmp_path: Path) -> None:
    spec = launched("verl", tmp_path)
    hand = by_hand(spec)
    wrong = run(dataclasses.replace(hand, run="demo-2"), started_t=9.0)
    runs = known(run(spec), wrong)
    assert [adopt._same(runs, one, hand) for one in runs.all()] == [True, True]
    assert adopt._next_of(runs.all(), "demo") == "demo"
    assert adopt._next_of(runs.all(), "other") == "demo-2"
    assert adopt._next_of([run(spec, state="running")], "demo") is None
    assert not adopt._same(runs, run(dataclasses.replace(spec, component="sft")), hand)
    assert adopt._free_name(runs, hand) == "demo-3"


def test_what_goes_on_keeps_the_directories_that_it_is_known_by(tmp_path: Path) -> None:
    spec = launched("verl", tmp_path)
    hand = by_hand(spec)
    assert hand.output_dir != spec.output_dir
    moved = adopt._in_the_same_place(known(), hand, run(spec))
    verl = registry.get("verl")
    assert verl.layout(moved) == verl.layout(spec)
    stranger = by_hand(launched("verl", tmp_path, out="elsewhere"))
    assert adopt._in_the_same_place(known(), stranger, run(spec)) == stranger


def test_a_run_whose_launcher_has_just_gone_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = launched("verl", tmp_path)
    monkeypatch.setattr(adopt.time, "time", lambda: 1000.0)
    candidate = Candidate(identity(40), by_hand(spec), VERL, 990.0)
    gone, alive = identity(30), Identity.of(1)
    assert adopt.too_early(known(run(spec, gone, "running")), candidate)
    assert not adopt.too_early(known(run(spec, alive, "running")), candidate), "two at a time"
    assert not adopt.too_early(known(run(spec, gone, "ended")), candidate)
    assert not adopt.too_early(
        known(run(launched("verl", tmp_path, "b"), gone, "running")), candidate
    )
    assert not adopt.too_early(
        known(run(spec, gone, "running")), dataclasses.replace(candidate, started_t=900.0)
    )
