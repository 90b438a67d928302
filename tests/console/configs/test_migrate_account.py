"""Whatever stands in a config that is migrated is in the result, or named in the report."""

from __future__ import annotations

import copy
import random
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from bs4_console.configs.diff import leaves
from bs4_console.configs.findings import dotted, names_of
from bs4_console.configs.migrate import Migrated, migrate
from bs4_console.configs.names import RENAMES
from bs4_console.configs.schema import load
from tests.console.configs.bases import CURRENT, JANUARY
from tests.console.configs.generator import Maker

OLD, NEW = "prime-rl-2026-01", "prime-rl"

#: Where a value that is converted goes, beside the table of renames: January, current.
CONVERTED = (
    ("inference_gpu_ids", "deployment.num_infer_gpus"),
    ("trainer_gpu_ids", "deployment.num_train_gpus"),
    ("ckpt.resume_step", "resume"),
    ("ckpt.resume_step", "resume.step"),
    ("trainer.ckpt.resume_step", "resume"),
    ("orchestrator.ckpt.resume_step", "resume"),
    ("output_dir", "run.name"),
    ("orchestrator.oversampling_factor", "orchestrator.concurrency.initial_inflight"),
    ("orchestrator.client.base_url", "orchestrator.model.client.base_url"),
    ("orchestrator.eval.eval_base_model", "orchestrator.eval.skip_first_step"),
    ("orchestrator.eval.skip_eval_on_resume", "orchestrator.eval.retrigger_on_resume"),
    ("orchestrator.env.id", "orchestrator.train.source.env.taskset.id"),
    ("orchestrator.env.id", "orchestrator.train.source.env.id"),
    ("orchestrator.env.args", "orchestrator.train.source.env.taskset"),
    ("orchestrator.env", "orchestrator.train.source"),
    ("orchestrator.env.name", "orchestrator.train.source.name"),
    ("orchestrator.eval.env.id", "orchestrator.eval.source.env.taskset.id"),
    ("orchestrator.eval.env.id", "orchestrator.eval.source.env.id"),
    ("orchestrator.eval.env.args", "orchestrator.eval.source.env.taskset"),
    ("orchestrator.eval.env", "orchestrator.eval.source"),
    ("orchestrator.eval.env.name", "orchestrator.eval.source.name"),
    ("orchestrator.eval.env.num_examples", "orchestrator.eval.source.num_examples"),
    ("orchestrator.eval.env.rollouts_per_example", "orchestrator.eval.source.group_size"),
    ("orchestrator.rollouts_per_example", "orchestrator.train.source.group_size"),
    (
        "orchestrator.buffer.online_difficulty_filtering",
        "orchestrator.train.source.curriculum.gates",
    ),
    (
        "orchestrator.buffer.online_difficulty_filtering",
        "orchestrator.train.filter_zero_advantages",
    ),
)


def migrated(text: str, to: str) -> Migrated:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "rl.toml"
        file.write_bytes(text.encode())
        return migrate(file, to, "rl")


def unaccounted(text: str, done: Migrated, to: str) -> list[str]:
    """Return the values of a config that are neither in the migrated one nor named."""
    there = {names_of(path) for path, _ in leaves(tomllib.loads(done.text), ())}
    named = {key for key, _ in done.left_out}
    lost = []
    for path, _ in leaves(tomllib.loads(text), ()):
        places = targets(names_of(path), to)
        if dotted(path) not in named and not any(is_in(place, there) for place in places):
            lost.append(dotted(path))
    return lost


def is_in(place: tuple[str, ...], there: set[tuple[str, ...]]) -> bool:
    return any(path[: len(place)] == place for path in there)


def targets(path: tuple[str, ...], to: str) -> list[tuple[str, ...]]:
    """Return the places at which a value may be in the other generation."""
    pairs = [*CONVERTED, *((item.old, item.new) for item in RENAMES if item.moved and item.new)]
    found = [path]
    for january, current in pairs:
        source, target = (january, current) if to == NEW else (current, january)
        start = tuple(source.split("."))
        if path[: len(start)] == start:
            rest = path[len(start) :]
            found.append((*target.split("."), *rest))
            if source in ("orchestrator.env", "orchestrator.eval.env") and not rest:
                found.append(tuple(target.split(".")))
            if source.endswith("curriculum.gates"):
                found.append(tuple(target.split(".")))
    return found


#: Values of every kind, most of them wrong wherever they are put.
VALUES: tuple[Any, ...] = (
    *(1, -1, 0, 1.5, float("inf"), float("nan"), 10**200, True, False),
    *("4", "text", "None", "auto", "multi_node"),
    *([], [1], ["x", "y"], [[1], [{"b": 2}]], [{"a": 1}], [1, {"id": "x"}]),
    *({}, {"a": 1}, {"dir": "/d", "step": 4}),
)


def tables_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    found, pending = [], [data]
    while pending:
        table = pending.pop()
        found.append(table)
        for value in table.values():
            items = value if isinstance(value, list) else [value]
            pending += [item for item in items if isinstance(item, dict)]
    return found


def spoiled(data: dict[str, Any], dice: random.Random) -> None:
    """Give some tables keys that nobody knows, and some keys another value."""
    for table in tables_of(data):
        if dice.random() < 0.2:
            table[dice.choice(["no_such_key", "a.b", "ä", "x", "curriculum_x"])] = copy.deepcopy(
                dice.choice(VALUES)
            )
        for key in list(table):
            if dice.random() < 0.08:
                table[key] = copy.deepcopy(dice.choice(VALUES))


@given(seed=st.integers(0, 2**32), wrong=st.booleans(), to=st.sampled_from([OLD, NEW]))
@settings(max_examples=60)
def test_every_value_is_in_the_result_or_named(seed: int, wrong: bool, to: str) -> None:
    dice = random.Random(seed)
    data = Maker(load(NEW if to == OLD else OLD), dice, keys=0.35).make()
    if wrong:
        spoiled(data, dice)
    text = tomlkit.dumps(data)
    done = migrated(text, to)
    assert unaccounted(text, done, to) == []
    assert not [item for item in done.left if "was not converted" in item.reason]
    assert not [item for item in done.left if "did not arrive" in item.reason]


@pytest.mark.parametrize(("base", "to"), [(JANUARY, NEW), (CURRENT, OLD)])
def test_the_bases_lose_nothing(base: str, to: str) -> None:
    assert unaccounted(base, migrated(base, to), to) == []


#: (to, text, key that is named, line of it, whether the migration is refused)
ODD = {
    "GPUs of several nodes": (
        OLD,
        '[deployment]\ntype = "multi_node"\nnum_infer_gpus = 6\n',
        ("deployment.num_infer_gpus", 3, True),
    ),
    "examples of a train source": (
        OLD,
        '[[orchestrator.train.source]]\nnum_examples = 7\nenv = {taskset = {id = "a"}}\n',
        ("orchestrator.train.source[0].num_examples", 2, True),
    ),
    "group sizes that differ": (
        OLD,
        "[[orchestrator.train.source]]\ngroup_size = 7\n[[orchestrator.train.source]]\n",
        ("orchestrator.train.source[0].group_size", 2, True),
    ),
    "a step beside a directory": (
        OLD,
        'resume = {step = 8, dir = "/d"}\n',
        ("resume.step", 1, True),
    ),
    "resume is true": (OLD, "max_steps = 5\nresume = true\n", ("resume", 2, True)),
    "a curriculum without gates": (
        OLD,
        "[[orchestrator.train.source]]\ncurriculum = {weight = 9}\n",
        ("orchestrator.train.source[0].curriculum.weight", 2, True),
    ),
    "a gate that is another filter": (
        OLD,
        "[[orchestrator.train.source]]\ncurriculum.gates.a = {reject_max = 0.5}\n",
        ("orchestrator.train.source[0].curriculum.gates.a.reject_max", 2, True),
    ),
    "two ids": (
        OLD,
        '[[orchestrator.train.source]]\nenv = {id = "one", taskset = {id = "two"}}\n',
        ("orchestrator.train.source[0].env.id", 2, True),
    ),
    "a run's name that is a number": (OLD, "[run]\nname = 4545\n", ("run.name", 2, True)),
    "GPUs in words": (
        OLD,
        '[deployment]\nnum_infer_gpus = "four"\n',
        ("deployment.num_infer_gpus", 2, True),
    ),
    "more GPUs than there are": (
        OLD,
        f"[deployment]\nnum_infer_gpus = {10**20}\n",
        ("deployment.num_infer_gpus", 2, True),
    ),
    "sources that are numbers": (
        OLD,
        "[orchestrator.train]\nsource = [1, 2]\n",
        ("orchestrator.train.source", 2, True),
    ),
    "an algorithm": (
        OLD,
        '[orchestrator]\nalgo = {type = "opd"}\n',
        ("orchestrator.algo.type", 2, True),
    ),
    "an unknown key of an environment": (
        NEW,
        '[[orchestrator.env]]\nid = "a"\nreward_weight = 5\n',
        ("orchestrator.env[0].reward_weight", 3, False),
    ),
    "curriculum arguments": (
        NEW,
        '[[orchestrator.env]]\nid = "a"\nargs = {curriculum_a = 5}\n',
        ("orchestrator.env[0].args.curriculum_a", 3, False),
    ),
    "an owner and a version": (
        NEW,
        '[[orchestrator.env]]\nid = "owner/a@0.1.9"\n',
        ("orchestrator.env[0].id", 2, False),
    ),
    "an environment that is no list": (
        NEW,
        '[orchestrator.env]\nid = "a"\n',
        ("orchestrator.env.id", 2, True),
    ),
    "environments that are numbers": (
        NEW,
        "[orchestrator]\nenv = [1]\n",
        ("orchestrator.env", 2, True),
    ),
    "a step in words": (NEW, '[ckpt]\nresume_step = "last"\n', ("ckpt.resume_step", 2, True)),
    "GPU ids in words": (
        NEW,
        'inference_gpu_ids = "0"\n',
        ("inference_gpu_ids", 1, True),
    ),
    "a factor in words": (
        NEW,
        '[orchestrator]\noversampling_factor = "two"\n',
        ("orchestrator.oversampling_factor", 2, True),
    ),
    "a factor that is none": (
        NEW,
        "[orchestrator]\noversampling_factor = nan\n",
        ("orchestrator.oversampling_factor", 2, True),
    ),
    "a factor without end": (
        NEW,
        "[orchestrator]\noversampling_factor = inf\n",
        ("orchestrator.oversampling_factor", 2, True),
    ),
    "a model's name that is a list": (
        NEW,
        "[model]\nname = [1]\n[trainer.sentinel]\n",
        ("trainer.sentinel", 3, False),
    ),
    "an evaluation in words": (
        NEW,
        '[orchestrator.eval]\neval_base_model = "perhaps"\n',
        ("orchestrator.eval.eval_base_model", 2, True),
    ),
    "several servers": (
        NEW,
        '[orchestrator.client]\nbase_url = ["http://a", "http://b"]\n',
        ("orchestrator.client.base_url", 2, True),
    ),
    "files that hold the rest": (
        NEW,
        'max_steps = 1\ntoml_files = ["b.toml"]\n',
        ("toml_files", 2, True),
    ),
    "two values for one place": (
        NEW,
        "max_model_len = 5\n[inference.model]\nmax_model_len = 6\n",
        ("max_model_len", 1, True),
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_not_converted_is_named_with_its_line(name: str) -> None:
    to, text, (key, line, refuses) = ODD[name]
    done = migrated(text, to)
    (item,) = [item for item in done.left if item.key == key]
    assert (item.line, item.refuses, done.refused) == (line, refuses, refuses)
    assert len(item.reason) > 10


@pytest.mark.parametrize(
    ("to", "text", "place", "value"),
    [
        (OLD, '[deployment]\nnum_infer_gpus = "2"\n', "inference_gpu_ids", [0, 1]),
        (
            OLD,
            "[[orchestrator.train.source]]\ngroup_size = 7\n",
            "orchestrator.rollouts_per_example",
            7,
        ),
        (
            OLD,
            '[orchestrator.model.client]\nbase_url = ["http://a"]\n',
            "orchestrator.client.base_url",
            ["http://a"],
        ),
        (
            NEW,
            "[orchestrator.buffer]\nonline_difficulty_filtering = true\n",
            "orchestrator.train.filter_zero_advantages",
            True,
        ),
        (
            NEW,
            '[orchestrator.sampling.extra_body]\n"a.b" = 7\n',
            "orchestrator.train.sampling.extra_body",
            {"a.b": 7},
        ),
        (NEW, "[ckpt]\nresume_step = 5\n", "ckpt", {}),
        (NEW, "[trainer.ckpt]\nresume_step = 5\n", "resume.step", 5),
    ],
)
def test_what_can_be_converted_is(to: str, text: str, place: str, value: object) -> None:
    done = migrated(text, to)
    found: Any = tomllib.loads(done.text)
    for name in place.split("."):
        found = found[name]
    assert (found, done.refused) == (value, False)


def test_a_place_is_named_by_the_line_of_a_components_own_file(tmp_path: Path) -> None:
    file = tmp_path / "orch.toml"
    file.write_text("batch_size = 64\nno_such_key = 1\n")
    done = migrate(file, NEW, "orchestrator")
    assert [(item.key, item.line) for item in done.left] == [("no_such_key", 2)]
