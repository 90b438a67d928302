"""playbook list, show and lint: what a person reads before there is any pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.cli import playbook
from bs4_console.cli.main import main
from tests.console.cli.conftest import Console

pytestmark = [pytest.mark.long, pytest.mark.beside]

GOOD = """
id: {id}
title: A test
role: root
severity: warning
danger: none
where: pod
applies: [prime-rl]
looks_like: It looks like this.
explanation: Because.
detect:
  logs:
    - source: trainer
      levels: [ERROR]
      pattern: "{pattern}"
advice: [Do this.]
prevent: Do not.
sources: [here]
cases:
  positive: [{{name: one, source: trainer, log: "12:00:00   ERROR it failed"}}]
  negative: [{{name: none, source: trainer, log: all is well}}]
"""


def test_list(console: Console) -> None:
    told = console("playbook", "list", "--json").json
    assert told["schema"] == "bs4.playbooks/1"
    ids = [playbook["id"] for playbook in told["playbooks"]]
    assert {
        "step-desync",
        "resume-latest-partial",
        "stale-gpu-process",
        "vllm-silent-death",
    } <= set(ids)
    assert set(told["playbooks"][0]) == {
        "id",
        "family",
        "title",
        "role",
        "severity",
        "danger",
        "applies",
    }
    text = console("playbook", "list")
    assert text.code == 0
    assert all(name in text.out for name in ids)


def test_show(console: Console) -> None:
    text = console("playbook", "show", "step-desync")
    assert text.code == 0
    for part in (
        "Looks like: ",
        "Why: ",
        "Prevent: ",
        "Found by: step-desync",
        "1. Stop the run",
        "Sources: ",
    ):
        assert part in text.out
    told = console("playbook", "show", "step-desync", "--json").json
    assert (told["schema"], told["id"], told["family"]) == (
        "bs4.playbook/1",
        "step-desync",
        "checkpoint",
    )


def test_show_leaves_the_cases_out(console: Console) -> None:
    assert "cases" not in console("playbook", "show", "disk-full", "--json").json


def test_a_run_without_a_look_is_refused_with_what_to_do_instead(console: Console) -> None:
    asked = ("playbook", "run", "step-desync", "--pod", "alpha", "--yes")
    done = console(*asked)
    assert (done.code, done.out) == (2, "")
    assert "has no --yes" in done.sentence
    assert "`bs4-console playbook plan ID --pod NAME`" in done.sentence
    assert "--plan HASH" in done.sentence
    assert "unrecognized arguments: --sure" in console(*asked[:-1], "--sure").sentence


def test_lint(console: Console, tmp_path: Path) -> None:
    assert console("playbook", "lint").code == 0
    family = tmp_path / "mine" / "family"
    family.mkdir(parents=True)
    (family / "good.yaml").write_text(GOOD.format(id="good", pattern="it failed"))
    fine = console("playbook", "lint", str(tmp_path / "mine"))
    assert fine.code == 0, fine
    (family / "misnamed.yaml").write_text(GOOD.format(id="other", pattern="it failed"))
    (family / "regex.yaml").write_text(GOOD.format(id="regex", pattern="(("))
    (family / "yaml.yaml").write_text("id: [")
    (family / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    (family / "list.yaml").write_text("- 1\n- 2\n")
    (family / "short.yaml").write_text("id: short\n")
    (family / "helpless.yaml").write_text(
        GOOD.format(id="helpless", pattern="it failed").replace("advice: [Do this.]\n", "")
    )
    done = console("playbook", "lint", str(tmp_path / "mine"))
    assert done.code == 1
    assert "Traceback" not in done.err
    for name in ("misnamed", "regex", "yaml", "bytes", "list", "short", "helpless"):
        assert f"{name}.yaml" in done.err
    assert "needs one of fix, advice, leads_to" in done.err
    assert "good.yaml" not in done.err
    told = console("playbook", "lint", str(tmp_path / "mine"), "--json").json
    assert (told["schema"], told["valid"]) == ("bs4.playbook-lint/1", ["good"])
    assert console("playbook", "lint", str(tmp_path / "none")).code == 2


def test_new(console: Console, tmp_path: Path) -> None:
    """The file is written where it was asked for, and `lint` says all that it lacks."""
    mine = str(tmp_path / "mine")
    done = console("playbook", "new", "disk-made-up", "--to", mine, "--title", "It is made up")
    path = tmp_path / "mine" / "disk" / "disk-made-up.yaml"
    assert done.code == 0
    assert str(path) in done.out
    assert f"playbook lint {mine}" in done.out
    lint = console("playbook", "lint", mine)
    assert lint.code == 1
    assert "cases/positive/0/log: is missing" in lint.err
    assert "at title" not in lint.err
    told = console("playbook", "new", "x-made-up", "--to", mine, "--family", "gpu", "--json").json
    assert told == {
        "schema": "bs4.playbook-new/1",
        "id": "x-made-up",
        "family": "gpu",
        "file": str(tmp_path / "mine" / "gpu" / "x-made-up.yaml"),
    }
    again = console("playbook", "new", "disk-made-up", "--to", mine)
    assert again.code == 2
    assert "exists already" in again.sentence


def test_new_writes_into_the_checkout_it_runs_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(playbook, "checkout", lambda: tmp_path)
    assert main(["playbook", "new", "disk-made-up"]) == 0
    assert (tmp_path / "playbooks" / "disk" / "disk-made-up.yaml").is_file()
    assert capsys.readouterr().out.endswith(
        "`bs4-console playbook lint` says what is still missing.\n"
    )
    monkeypatch.setattr(playbook, "checkout", lambda: None)
    assert main(["playbook", "new", "disk-made-up-too"]) == 2
    assert "--to DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("show", "nope"),
        ("plan", "nope", "--pod", "x"),
        ("run", "nope", "--pod", "x", "--plan", "y"),
        (),
    ],
)
def test_an_unknown_playbook(console: Console, words: tuple[str, ...]) -> None:
    done = console("playbook", *words)
    assert done.code == 2
    assert done.sentence
