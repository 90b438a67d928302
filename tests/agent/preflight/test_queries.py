"""The agent's answers before a start: short questions at once, the long one in slices, and nothing
that never ends.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from bs4_agent.pod import Pod
from bs4_agent.preflight import queries
from bs4_agent.preflight.queries import PodProbe, Preflights
from bs4_common.errors import BadRequest, NotApplicable
from bs4_common.failures.compiled import Library
from bs4_common.trainers.settings import BadConfig


class Staged(Preflights):
    """With parts of one's own instead of a pod's."""

    def __init__(self, parts: dict[str, queries.Part]) -> None:
        super().__init__(cast(Pod, None), cast(Library, None))
        self.made = 0
        self._staged = parts

    def _parts(self, body: Any) -> dict[str, queries.Part]:
        self.made += 1
        return self._staged


def test_a_look_is_asked_for_again_until_all_parts_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queries, "SLICE_S", 0.05)
    gate = threading.Event()

    def slow() -> dict[str, Any]:
        gate.wait(60)
        return {"b": 2}

    preflights = Staged({"quick": lambda: {"a": 1}, "slow": slow})
    body = {"run": "demo", "urls": {}}
    first = preflights.ask("look", body)
    while "quick" not in first["facts"]:
        first = preflights.ask("look", body)
    assert (first["facts"], first["waiting"], first["next"]) == (
        {"quick": {"a": 1}},
        ["slow"],
        body,
    )
    gate.set()
    deadline = time.monotonic() + 60
    while (last := preflights.ask("look", first["next"]))[
        "next"
    ] is not None and time.monotonic() < deadline:
        pass
    assert last["facts"] == {"quick": {"a": 1}, "slow": {"b": 2}}
    assert preflights.made == 1
    preflights.ask("look", body)
    assert preflights.made == 2  # the next preflight looks anew


def test_what_goes_wrong_in_one_part_is_said_there_and_nowhere_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refusing() -> dict[str, Any]:
        raise NotApplicable("there is no such thing here")

    def defective() -> dict[str, Any]:
        raise ZeroDivisionError("of ours")

    look = PodProbe({"good": lambda: {"a": 1}, "refusing": refusing, "defective": defective})
    assert look.wait(60.0, None) == []
    facts = look.facts()
    assert facts["good"] == {"a": 1}
    assert facts["refusing"] == {"unknown": "there is no such thing here"}
    assert "defect" in facts["defective"]["unknown"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_cancelled_question_does_not_wait() -> None:
    gate, stop = threading.Event(), threading.Event()
    stop.set()
    look = PodProbe({"slow": lambda: {"waited": gate.wait(60)}})
    began = time.monotonic()
    assert look.wait(30.0, stop) == ["slow"]
    assert time.monotonic() - began < 20
    gate.set()


def test_only_so_many_looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "SLICE_S", 0.0)
    gate = threading.Event()
    preflights = Staged({"slow": lambda: {"waited": gate.wait(60)}})
    for number in range(4):
        preflights.ask("look", {"run": f"r{number}"})
    with pytest.raises(BadRequest, match="under way"):
        preflights.ask("look", {"run": "one-more"})
    gate.set()


def test_the_config_comes_with_what_it_includes(tmp_path: Path) -> None:
    (tmp_path / "rl.toml").write_text('toml_files = ["base/one.toml"]\nmax_steps = 3\n')
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "one.toml").write_text("seq_len = 2\n")
    answer = Staged({}).ask("config", {"cwd": str(tmp_path), "config": "rl.toml"})
    assert [Path(name).name for name, _ in answer["files"]] == ["rl.toml", "one.toml"]
    assert answer["files"][1][1] == "seq_len = 2\n"


def test_what_the_options_name_comes_behind_the_config(tmp_path: Path) -> None:
    (tmp_path / "rl.toml").write_text('toml_files = ["one.toml"]\n')
    (tmp_path / "one.toml").write_text("seq_len = 2\n")
    (tmp_path / "part.toml").write_text("lr = 1\n")
    answer = Staged({}).ask(
        "config", {"cwd": str(tmp_path), "config": "rl.toml", "named": ["part.toml", "part.json"]}
    )
    assert [Path(name).name for name, _ in answer["files"]] == ["rl.toml", "part.toml", "one.toml"]
    with pytest.raises(BadRequest, match="named"):
        Staged({}).ask("config", {"cwd": str(tmp_path), "config": "rl.toml", "named": "part.toml"})


def test_a_config_that_is_broken_is_sent_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "rl.toml").write_text("max_steps = = 3\n")
    assert (
        Staged({}).ask("config", {"cwd": str(tmp_path), "config": "rl.toml"})["files"][0][1]
        == "max_steps = = 3\n"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("secrets.txt", "x"),
        ("large.toml", "#" * 50_000),
        ("loop.toml", 'toml_files = ["loop.toml"]'),
    ],
)
def test_what_is_no_config_is_not_sent(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadConfig):
        Staged({}).ask("config", {"cwd": str(tmp_path), "config": name})


def test_the_clock_and_what_nobody_asks() -> None:
    before = time.time()
    assert before <= Staged({}).ask("clock", {})["t"] <= time.time()
    with pytest.raises(BadRequest, match="no question"):
        Staged({}).ask("everything", {})
