"""What a launch command adds to a config: it is judged by the same schema, and what it sets right
or wrong is known.
"""

from __future__ import annotations

import random
import shlex
from pathlib import Path

import pytest

from bs4_console.configs.schema import load
from tests.console.configs.bases import BASES, findings
from tests.console.configs.generator import Maker, Place

OLD, NEW = "prime-rl-2026-01", "prime-rl"


def errors(directory: Path, trainer: str, launch: str) -> list[str]:
    found = findings(directory, trainer, BASES[trainer], launch=f"uv run rl @ config.toml {launch}")
    return [item.message for item in found if item.level == "error"]


@pytest.mark.parametrize(
    ("trainer", "launch"),
    [
        (
            OLD,
            (
                "--ckpt --ckpt.interval 5 --ckpt.keep-last 3 --output-dir outputs "
                "--ckpt.resume-step 10 --no-clean"
            ),
        ),
        (
            OLD,
            (
                "--trainer.optim.lr 2e-6 --inference-gpu-ids 0 --trainer_gpu_ids=[1] "
                "--wandb.project x --no-bench --wandb.offline true"
            ),
        ),
        (
            OLD,
            (
                "--trainer.wandb.id abc --orchestrator.wandb.id def "
                "--orchestrator.buffer.easy-threshold None"
            ),
        ),
        (
            NEW,
            (
                "--ckpt --output-dir outputs --run.name one --log.json-logging --resume.step 10 "
                "--resume.dir None --no-clean"
            ),
        ),
        (
            NEW,
            (
                "--no-monitors.wandb --trainer.optim.type sgd --trainer.optim.momentum 0.9 "
                '--env-vars \'{"A": "b"}\''
            ),
        ),
    ],
)
def test_what_is_right_stays_right(tmp_path: Path, trainer: str, launch: str) -> None:
    assert errors(tmp_path, trainer, launch) == []


@pytest.mark.parametrize(
    ("trainer", "launch", "told"),
    [
        (OLD, "--orchestrator.sampling.top-p 0.9", "orchestrator.sampling.top_p"),
        (OLD, "--trainer.optim.lr fast", "trainer.optim.lr"),
        (OLD, "--max-step 5", "max_step"),
        (OLD, "--inference-gpu-ids zero", "inference_gpu_ids"),
        (NEW, "--orchestrator.rollouts-per-example 4", "orchestrator.rollouts_per_example"),
        (NEW, "--trainer.optim.type adam", "trainer.optim.type"),
        (NEW, "--orchestrator.group-size 0", "orchestrator.group_size"),
        (NEW, "--trainer.optim.type sgd --trainer.optim.betas1 0.9", "trainer.optim.betas1"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(
    tmp_path: Path, trainer: str, launch: str, told: str
) -> None:
    assert any(
        told in message and message.startswith("The launch command")
        for message in errors(tmp_path, trainer, launch)
    )


@pytest.mark.parametrize("trainer", [OLD, NEW])
def test_a_file_for_one_part_is_laid_over_it(tmp_path: Path, trainer: str) -> None:
    (tmp_path / "trainer.toml").write_text("[optim]\nlr = 2e-6\n[model]\nseq_len = 4096\n")
    assert errors(tmp_path, trainer, f"--trainer @ {tmp_path / 'trainer.toml'}") == []
    (tmp_path / "trainer.toml").write_text("[optim]\nlr = -1\n[model]\nno_such = 1\n")
    told = errors(tmp_path, trainer, "--trainer @ trainer.toml")
    wrong = ["trainer.optim.lr", "trainer.model.no_such"]
    assert [place for place in wrong if any(place in message for message in told)] == wrong
    assert any(
        "cannot be read" in message
        for message in errors(tmp_path, trainer, "--trainer @ not-there.toml")
    )


def plain(place: Place) -> bool:
    """Of a value that can be given by one flag, in a table that is there whatever its neighbours
    are.
    """
    tables = ("max_steps", "seq_len", "output_dir", "trainer.model", "orchestrator", "inference")
    name = ".".join(map(str, place.path))
    return (
        isinstance(place.value, int | float | str)
        and not any(isinstance(part, int) for part in place.path)
        and name.startswith(tables)
    )


@pytest.mark.parametrize("trainer", [OLD, NEW])
def test_any_value_of_the_schema_and_any_other_as_a_flag(tmp_path: Path, trainer: str) -> None:
    """By the generator: a flag with a value of its type is not refused by the schema, one of no
    type is.
    """
    dice, tried = random.Random(5), 0
    maker = Maker(load(trainer), dice, 0.6)
    maker.make()
    places = [
        place
        for place in maker.places
        if place.schema.get("type") in ("integer", "number", "boolean") and plain(place)
    ]
    for place in dice.sample(places, min(len(places), 25)):
        if ".".join(map(str, place.path[:-1])) not in (
            "trainer.model",
            "orchestrator",
            "inference",
            "",
        ):
            continue  # a table of a union may need more than one flag
        flag = "--" + ".".join(map(str, place.path)).replace("_", "-")
        good = errors(tmp_path, trainer, f"{flag} {shlex.quote(str(place.value))}")
        assert not [message for message in good if message.startswith("The launch command")], (
            flag,
            place.value,
        )
        assert [
            message
            for message in errors(tmp_path, trainer, f"{flag} nonsense")
            if message.startswith("The launch command")
        ], flag
        tried += 1
    assert tried >= 5
