"""The parameters are those of the trainers' schemas, with their types and defaults."""

from __future__ import annotations

from bs4_console.configs.lint import TRAINERS
from bs4_console.configs.schema import default, tables
from bs4_console.documentation.parameters import Parameter, parameters


def one(name: str, trainer: str, component: str = "rl") -> Parameter:
    (found,) = [
        each
        for each in parameters()[name]
        if (each.trainer, each.component) == (trainer, component)
    ]
    return found


def test_every_key_of_every_schema_is_there() -> None:
    known: dict[tuple[str, str], set[str]] = {}
    for name, several in parameters().items():
        for each in several:
            plain = name.replace("[]", "")
            known.setdefault((each.trainer, each.component), set()).add(plain)
    for trainer in TRAINERS[:2]:
        for component in ("rl", "sft", "eval"):
            for table, keys in tables(trainer, component).items():
                for key in keys:
                    assert ".".join((*table, key)) in known[trainer, component]


def test_type_default_and_generation() -> None:
    found = one("orchestrator.rollouts_per_example", "prime-rl-2026-01")
    assert (found.type, found.default, found.has_default) == ("a whole number, at least 1", 1, True)
    assert found.other_name == "orchestrator.group_size"
    assert {each.trainer for each in parameters()[found.name]} == {"prime-rl-2026-01"}
    assert one("orchestrator.group_size", "prime-rl").other_name == found.name


def test_a_default_is_that_of_the_schema() -> None:
    assert one("orchestrator.batch_size", "prime-rl-2026-01").default == default(
        "prime-rl-2026-01", "orchestrator", "batch_size"
    )


def test_a_table_that_is_off_by_default_is_named() -> None:
    assert one("ckpt.interval", "prime-rl").table == "ckpt"
    assert one("max_steps", "prime-rl").table == ""


def test_a_key_that_only_one_type_has_says_so() -> None:
    assert one("trainer.optim.momentum", "prime-rl-2026-01").when == ('type = "sgd"',)
    assert one("trainer.optim.lr", "prime-rl-2026-01").when == ()
    kind = one("trainer.optim.type", "prime-rl-2026-01")
    assert (kind.type, kind.default) == ("one of adamw, muon, sgd", "adamw")


def test_a_required_key_has_no_default() -> None:
    found = one("trainer", "prime-rl-2026-01")
    assert found.required
    assert not found.has_default


def test_verl_has_what_the_shipped_configs_set_and_nothing_is_made_up() -> None:
    found = one("trainer.save_freq", "verl")
    assert ("qwen3-4b-grpo-4x141gb.toml", 50) in found.set_by
    assert (found.type, found.has_default) == ("unknown", False)
    assert one("optim.lr", "verl", "sft").set_by
