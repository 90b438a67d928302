from __future__ import annotations

import os
from pathlib import Path

import pytest
import tomlkit

from bs4_agent.config_edit import Change, edit
from bs4_common.trainers.settings import BadConfig

ORIGINAL = """\
# a run of mine
max_steps = 20   # not too long

[trainer.model]
seq_len = 2048  # CRITICAL

[[orchestrator.env]]
id = "reverse-text"
[orchestrator.env.args]
split = "train"

[inference]  # one GPU
gpu_memory_utilization = 0.9
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "rl.toml"
    path.write_text(ORIGINAL)
    return path


def test_values_change_and_everything_else_stays(config: Path) -> None:
    target, changes = edit(
        config, {"trainer.model.seq_len": 1024, "orchestrator.env.0.args.split": "test"}
    )
    assert target == config.with_name("rl.bs4-1.toml")
    assert config.read_text() == ORIGINAL
    assert target.read_text() == ORIGINAL.replace("2048", "1024").replace('"train"', '"test"')
    assert changes == [
        Change("trainer.model.seq_len", 2048, 1024),
        Change("orchestrator.env.0.args.split", "train", "test"),
    ]
    assert str(changes[0]) == "set trainer.model.seq_len = 1024 (was 2048)"


def test_new_keys_and_tables(config: Path) -> None:
    values = {
        "ckpt.interval": 5,
        "seed": 1,
        "trainer.model.ac.freq": 1,
        "a.b.c.d": [1, 2],
        "max_steps": 30,
    }
    target, changes = edit(config, values)
    plain = tomlkit.parse(target.read_text()).unwrap()
    assert plain["ckpt"] == {"interval": 5}
    assert (plain["seed"], plain["max_steps"], plain["a"]["b"]["c"]["d"]) == (1, 30, [1, 2])
    assert plain["trainer"]["model"] == {"seq_len": 2048, "ac": {"freq": 1}}
    assert plain["orchestrator"]["env"][0]["args"] == {"split": "train"}
    assert "# CRITICAL" in target.read_text()
    assert [change.before for change in changes] == [None, None, None, None, 20]


def test_unset(config: Path) -> None:
    target, changes = edit(
        config,
        {},
        ["trainer.model.seq_len", "orchestrator.env.0", "no.such.key", "max_steps.deeper"],
    )
    plain = tomlkit.parse(target.read_text()).unwrap()
    assert "seq_len" not in plain["trainer"]["model"]
    assert plain["orchestrator"]["env"] == []
    assert [change.key for change in changes] == ["trainer.model.seq_len", "orchestrator.env.0"]
    assert str(changes[0]) == "remove trainer.model.seq_len (was 2048)"


def test_the_same_value_is_no_change(config: Path) -> None:
    assert edit(config, {"max_steps": 20})[1] == []


def test_edits_are_numbered_and_never_written_over(config: Path) -> None:
    first, _ = edit(config, {"max_steps": 1})
    second, _ = edit(config, {"max_steps": 2})
    third, _ = edit(second, {"seed": 3})
    assert [path.name for path in (first, second, third)] == [
        "rl.bs4-1.toml",
        "rl.bs4-2.toml",
        "rl.bs4-3.toml",
    ]
    assert tomlkit.parse(first.read_text()).unwrap()["max_steps"] == 1
    assert tomlkit.parse(third.read_text()).unwrap()["max_steps"] == 2


def test_permissions_are_kept(config: Path) -> None:
    config.chmod(0o600)
    assert edit(config, {"seed": 1})[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("max_steps.x", "is a value, not a table"),
        ("orchestrator.env.5.id", "add that entry by hand"),
        ("orchestrator.env.1", "add that entry by hand"),
        ("orchestrator.env.name.x", "add that entry by hand"),
        ("a..b", "write it as table.key"),
        ("", "write it as table.key"),
    ],
)
def test_what_cannot_be_set(config: Path, key: str, advice: str) -> None:
    with pytest.raises(BadConfig, match=advice):
        edit(config, {key: 1})
    assert [path.name for path in config.parent.iterdir()] == ["rl.toml"]


def test_what_is_no_toml(config: Path) -> None:
    config.write_text("[broken")
    with pytest.raises(BadConfig, match="is not TOML"):
        edit(config, {"a": 1})
    assert len(list(config.parent.iterdir())) == 1


def test_dotted_and_inline_tables(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('ckpt.interval = 5 # dotted\nmodel = { name = "m" }\n')
    target, _ = edit(path, {"ckpt.interval": 7, "model.name": "n", "ckpt.keep_last": 2})
    assert tomlkit.parse(target.read_text()).unwrap() == {
        "ckpt": {"interval": 7, "keep_last": 2},
        "model": {"name": "n"},
    }
    assert "# dotted" in target.read_text()


def test_a_full_disk_leaves_nothing_half_done(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(BadConfig, match="free some space"):
        edit(config, {"seed": 1})
    assert [path.name for path in config.parent.iterdir()] == ["rl.toml"]
