"""The command `trainers`: what it prints, its exit codes, and that it runs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bs4_console.cli import main
from bs4_console.trainers import known
from tests.console.trainers import acme

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The source of a trainer of our own, which is known. It would leave a file if it were run."""
    monkeypatch.setitem(known.BELIEVED, "acme", acme.BELIEVED)
    root = acme.write(tmp_path / "acme")
    for name in ("src/acme/run.py", "src/acme/__init__.py", "setup.py", "conftest.py"):
        path = root / name
        before = path.read_text() if path.exists() else ""
        path.write_text(f"{before}\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    return root


def asked(capsys: Captured, *words: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the JSON object of `trainers` with these words."""
    code = main.main(["trainers", *words, "--json"])
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, data


def test_list_names_each_trainer_with_commit_version_and_date(capsys: Captured) -> None:
    code, data = asked(capsys, "list")
    assert (code, data["schema"]) == (0, "bs4.trainers/1")
    rows = {row["id"]: row for row in data["trainers"]}
    read = {name: [k for k in row["known"] if k["read"]] for name, row in rows.items()}
    assert read["prime-rl-2026-01"][0]["commit"] == "a24ec986b"
    assert read["prime-rl"][0]["commit"] == "559b44772"
    assert all(row["beliefs"] > 20 for row in rows.values())
    assert main.main(["trainers", "list"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split()[:3] == ["TRAINER", "BELIEFS", "COMMIT"]
    assert "559b44772" in out


def test_a_checkout_in_which_everything_holds_exits_with_0(
    checkout: Path, tmp_path: Path, capsys: Captured
) -> None:
    code, data = asked(capsys, "check", str(checkout))
    assert (code, data["code"], data["trainer"]) == (0, 0, "acme")
    assert data["schema"] == "bs4.trainers-check/1"
    assert data["counts"] == {
        "holds": len(acme.BELIEVED.beliefs),
        "moved": 0,
        "gone": 0,
        "unknown": 0,
    }
    assert data["weaker"] == {}
    assert not (tmp_path / "ran").exists()


def test_what_differs_is_printed_with_what_is_weaker_for_it(
    checkout: Path, capsys: Captured
) -> None:
    acme.write(checkout, run=("is done here", "is over here"), paths=("keep: int = 3", "keep = 3"))
    assert main.main(["trainers", "check", str(checkout), "--trainer", "acme"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "acme: 16 of 18 beliefs hold, 2 moved."
    (row,) = [line for line in lines if line.startswith("moved") and " done " in line]
    assert "src/acme/run.py:" in row
    assert row.endswith("says 'Everything is over here' now")
    assert lines[-1] == f"  {acme.FEATURE} (2)"
    code, data = asked(capsys, "check", str(checkout))
    assert (code, data["weaker"]) == (1, {acme.FEATURE: 2})
    states = {row["id"]: row["state"] for row in data["beliefs"]}
    assert {name for name, state in states.items() if state == "moved"} == {"done", "fields"}


def test_all_prints_what_holds_too(checkout: Path, capsys: Captured) -> None:
    assert main.main(["trainers", "check", str(checkout), "--all"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("holds ")]
    assert len(rows) == len(acme.BELIEVED.beliefs)


@pytest.mark.parametrize("trainer", ["prime-rl", "prime-rl-2026-01", "verl"])
def test_a_directory_without_anything_of_the_named_trainer_is_said_to_be_no_checkout(
    checkout: Path, capsys: Captured, trainer: str
) -> None:
    # Its pyproject.toml is there, and has other scripts.
    assert main.main(["trainers", "check", str(checkout), "--trainer", trainer]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert f"{checkout} is no checkout of {trainer}: none of its files" in line
    assert captured.out == ""


def test_one_file_of_the_named_trainer_makes_it_a_checkout(
    checkout: Path, capsys: Captured
) -> None:
    file = checkout / "src/prime_rl/entrypoints/rl.py"
    file.parent.mkdir(parents=True)
    file.write_text("this is no Python\n")
    code, data = asked(capsys, "check", str(checkout), "--trainer", "prime-rl")
    assert (code, data["counts"]["holds"]) == (2, 0)
    notes = {row["note"] for row in data["beliefs"] if row["file"].endswith("entrypoints/rl.py")}
    assert notes == {"src/prime_rl/entrypoints/rl.py is no Python of this version"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["check", "/nowhere/at/all"], "is no directory"),
        (["check", "."], "no trainer that is known"),
        (["check", ".", "--trainer", "other"], "invalid choice"),
        (["check"], "A checkout is PATH, or --pod NAME"),
        (["check", ".", "--pod", "a"], "A checkout is PATH, or --pod NAME"),
        (["check", ".", "--cwd", "a"], "A checkout is PATH, or --pod NAME"),
        (["check", "--pod", "nobody"], "nobody"),
        ([], "required"),
    ],
)
def test_what_cannot_be_checked_exits_with_3_and_one_sentence(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main.main(["trainers", *words])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line
