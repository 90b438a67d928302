"""A trainer is added by its packages and one line in each of two registries: a toy one, which is
added by nothing else, is known everywhere.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest

from bs4_agent.preflight import host
from bs4_agent.setup import recipe
from bs4_common.errors import BadRequest
from bs4_common.failures.detectors import DETECTORS
from bs4_common.failures.offline import directory_logs, guess_trainer, spec_of
from bs4_common.failures.phases import activities
from bs4_common.trainers import registry as pods
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.prime_rl import PrimeRl
from bs4_console.checkpoints.listing import of_directory
from bs4_console.cli import checkpoints, diagnose, launch, playbook, preflight, setup
from bs4_console.errors import UsageError
from bs4_console.failures.playbooks import schema
from bs4_console.launch import config
from bs4_console.logs.sources import of_suffix
from bs4_console.preflight.checks import Wanted
from bs4_console.trainers import registry
from tests.agent.facts import facts, healthy

ACME = "acme-rl"


class Acme(PrimeRl):
    """prime-rl under another name, in directories of its own, with a command that stays visible."""

    id = ACME
    title = "Acme RL"
    traits = dataclasses.replace(
        PrimeRl.traits,
        own_directory=False,
        shows_command=True,
        installed=False,
        modules=("acme",),
        wrote=lambda directory: (directory / "acme.log").exists(),
        saved=lambda directory: (directory / "acme_0001").is_dir(),
        log_suffix=".acme",
        attempt_logs=None,
    )

    def recognise(self, cmdline: Sequence[str], cwd: Path) -> LaunchSpec | None:
        if tuple(cmdline[:2]) != ("acme", "train"):
            return None
        return LaunchSpec(
            run="demo", trainer=ACME, config=Path(cmdline[2]), cwd=cwd, output_dir=cwd / "out"
        )


RECORD = dataclasses.replace(
    registry.VERL, id=ACME, home="acme", module="acme", keys=frozenset({"acme."})
)
#: Everything that is changed for the new trainer outside its own packages.
LINES = ((pods._TRAINERS, Acme()), (registry.TRAINERS, RECORD))


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    for table, trainer in LINES:
        monkeypatch.setitem(table, ACME, trainer)  # type: ignore[arg-type]


def test_both_sides_know_the_same_trainers() -> None:
    assert tuple(registry.TRAINERS) == pods.ids()
    assert all(registry.of(id_).id == pods.get(id_).id == id_ for id_ in pods.ids())
    for id_, record in registry.TRAINERS.items():
        traits = pods.get(id_).traits
        assert record.installed == traits.installed
        assert record.has_classes == (traits.classes is not None)
        assert [record.module] == (host.modules(id_) or [""])


def test_two_lines_are_all_that_a_new_trainer_needs_outside_its_packages() -> None:
    assert len(LINES) == 2
    assert pods.find(ACME) is None
    with pytest.raises(BadRequest, match="There is no trainer 'acme-rl'"):
        pods.get(ACME)


@pytest.mark.usefixtures("added")
def test_the_agent_finds_its_runs_and_reads_their_directories(tmp_path: Path) -> None:
    command = ("acme", "train", "acme.toml")
    ((pid, spec),) = pods.recognise_tree([(7, 1, command, tmp_path)])
    assert (pid, spec.trainer) == (7, ACME)
    assert guess_trainer(tmp_path) is None
    (tmp_path / "acme.log").touch()
    assert guess_trainer(tmp_path) == ACME
    assert spec_of(tmp_path, ACME).output_dir == tmp_path
    assert directory_logs(tmp_path, ACME) == {1: []}
    assert host.modules(ACME) == ["acme"]
    with pytest.raises(BadRequest, match="choose prime-rl-2026-01 or prime-rl"):
        recipe.read({"trainer": ACME})


@pytest.mark.usefixtures("added")
def test_its_checkpoints_and_its_logs_are_known_without_anything_else(tmp_path: Path) -> None:
    assert of_suffix(tmp_path / "a.acme") == ACME
    with pytest.raises(UsageError, match="does not look like a run's directory"):
        of_directory(tmp_path)
    (tmp_path / "acme_0001").mkdir()
    [report] = of_directory(tmp_path)
    assert report["checkpoints"] == []


def test_a_suffix_that_no_trainer_has_tells_nothing() -> None:
    assert of_suffix(Path("trainer.stdout")) == "prime-rl-2026-01"
    assert of_suffix(Path("trainer.log")) is None
    assert of_suffix(Path("trainer")) is None


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(
    ("detector", "parameters"),
    [
        ("run-stalled", {"steps": 2.8}),
        ("checkpoints-off", {"steps": 5}),
        ("trainer-exited", {"after": 5}),
        ("step-desync", {}),
    ],
)
def test_detectors_that_ask_for_traits_judge_a_run_of_it(
    detector: str, parameters: dict[str, float]
) -> None:
    run = healthy(ACME)
    assert set(activities(run)) == {"trainer", "orchestrator"}
    assert not list(DETECTORS[detector](facts(run), run, parameters))


@pytest.mark.usefixtures("added")
def test_its_playbooks_name_it() -> None:
    items = schema()["$defs"]
    for name in ("trainer", "applies"):
        jsonschema.validate(ACME, items[name])
    assert pods.named([ACME, "verl"]) == {ACME, "verl"}
    assert ACME in pods.named(["any"])


def test_a_word_of_the_version_before_is_read() -> None:
    assert pods.named(["any"]) == set(pods.ids())
    assert pods.named(["prime-rl"]) == pods.named(["prime-rl-current"]) == {"prime-rl"}


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (launch, ["c.toml", "--pod", "a"]),
        (preflight, ["--pod", "a"]),
        (diagnose, ["run"]),
        (playbook, ["try"]),
        (checkpoints, ["list"]),
        (setup, ["a"]),
    ],
)
def test_commands_take_it(command: ModuleType, words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    assert parser.parse_args([*words, "--trainer", ACME]).trainer == ACME


@pytest.mark.usefixtures("added")
def test_a_start_of_it_is_judged_by_its_own_record() -> None:
    wanted = Wanted(trainer=ACME)
    assert wanted.for_machine
    assert not wanted.needs_ports
    assert wanted.of.home in registry.homes()
    assert config.told("[acme]\nlr = 0.1\n") == (ACME, "rl")
