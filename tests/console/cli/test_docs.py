"""The command `docs`: what it prints, its exit codes, and that it is fast and needs no network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bs4_console import assets
from bs4_console.cli import main

Captured = pytest.CaptureFixture[str]


def found(capsys: Captured, *topic: str) -> dict[str, Any]:
    code = main.main(["docs", *topic, "--json"])
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert data["schema"] == "bs4.docs/1"
    assert code == (0 if data["hits"] else 1)
    return data


def test_a_parameter_with_type_default_and_generation(capsys: Captured) -> None:
    assert main.main(["docs", "orchestrator.rollouts_per_example"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "parameter  orchestrator.rollouts_per_example"
    assert "prime-rl-2026-01: a whole number, at least 1; default 1." in out
    assert "In prime-rl its name is orchestrator.group_size." in out
    assert "R16 (prime-rl): batch_size is the total" in out
    assert "More: bs4-console docs --full orchestrator.rollouts_per_example" in out
    (head,) = [line for line in out.splitlines() if line.startswith("KIND")]
    assert 0 < len(out.split(head)[1].strip().splitlines()) <= 9


def test_json_has_the_settings(capsys: Captured) -> None:
    hit = found(capsys, "keep_last")["hits"][0]
    assert (hit["kind"], hit["name"], hit["text"]) == ("parameter", "ckpt.keep_last", None)
    assert {"prime-rl-2026-01", "prime-rl"} <= {each["trainer"] for each in hit["settings"]}
    assert hit["settings"][0]["table"] == "ckpt"
    assert hit["settings"][0]["has_default"] is True


def test_a_failure_leads_to_its_playbook(capsys: Captured) -> None:
    hit = found(capsys, "step-desync")["hits"][0]
    assert hit["command"] == "bs4-console playbook show step-desync"
    assert hit["passage"].startswith("Looks like. ")
    assert "Why. " in hit["passage"]
    assert "Seen by." not in hit["passage"]


def test_each_command_that_is_offered_shows_more(capsys: Captured) -> None:
    hits = found(capsys, "time", "and", "money")["hits"]
    page = hits[0]
    assert page["command"] == "bs4-console docs --full 'runs: Time and money'"
    assert main.main(["docs", "--full", page["name"]]) == 0
    out = capsys.readouterr().out
    assert out.startswith("page  runs: Time and money\n")
    assert "the median time of the newest 20 steps" in out
    assert "KIND" not in out
    for hit in hits:
        if hit["command"].startswith("bs4-console docs"):
            again = found(capsys, hit["name"])["hits"][0]
            assert (again["kind"], again["name"]) == (hit["kind"], hit["name"])


def test_a_typo_is_told(capsys: Captured) -> None:
    assert main.main(["docs", "stpe-desync"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("'stpe-desync' occurs nowhere; this is about 'step-desync'.\n")


def test_nothing_is_one_sentence_and_code_1(capsys: Captured) -> None:
    assert main.main(["docs", "R91"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("bs4-console: Nothing is known about 'R91'. Nearest topics: R")
    assert len(told.err.splitlines()) == 1
    assert found(capsys, "R91")["nearest"]


def test_a_topic_without_a_letter_is_a_usage_error(capsys: Captured) -> None:
    assert main.main(["docs", "..."]) == 2
    assert "names no topic" in capsys.readouterr().err


def test_an_installation_without_pages_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path / "a")
    monkeypatch.setattr(assets, "_CHECKOUT", tmp_path / "b")
    assert main.main(["docs", "anything"]) == 1
    assert "has no docs. Install it again" in capsys.readouterr().err


def test_alike_settings_are_told_once(capsys: Captured) -> None:
    assert main.main(["docs", "ckpt.keep_last"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert (
        "prime-rl-2026-01, prime-rl-2026-01 sft, prime-rl, prime-rl sft: a whole number, at least "
        "1; default: none; off unless the config has a table [ckpt]."
    ) in out


def test_it_takes_less_than_a_second_of_a_processor() -> None:
    """Time on the processor, because other tests run beside this one."""
    code = (
        "import sys; from bs4_console.cli.main import main; sys.exit(main(['docs', 'keep_last']))"
    )
    before = os.times()
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    after = os.times()
    spent = after.children_user - before.children_user
    spent += after.children_system - before.children_system
    assert spent < 1.0
