"""What changed between two attempts of one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.cli import run_records
from bs4_console.run_log.config_texts import ConfigTexts, digest_of
from bs4_console.run_log.record import Attempt, Incident, RunRecord
from tests.console.cli.test_run_log import Console

ONE, TWO = "lr = 1\n", "lr = 2\n"


def attempt(number: int, text: str, *overrides: str, version: str = "", pod: str = "a") -> Attempt:
    """Return an attempt that was launched with a config, whose text is kept."""
    assert ConfigTexts(pod).keep(digest_of(text), text)
    return Attempt(
        title=f"Attempt {number}",
        number=number,
        pod=pod,
        started_t=number * 3600.0,
        ended_t=number * 3600.0 + 1800,
        config_digest=digest_of(text),
        config_version=version,
        overrides=list(overrides),
    )


@pytest.fixture
def console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Console:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name.lower()))
    run = RunRecord(
        name="exp",
        pod="a",
        price=2.0,
        reward=0.5,
        rewards=[(1, 0.5)],
        attempts=[
            attempt(1, ONE, version="v1"),
            attempt(2, TWO, version="v2"),
            attempt(3, TWO, "--keep", "3", version="v2"),
        ],
        incidents=[Incident("Engine died", t=2 * 3600.0 + 60)],
    )
    known = {"exp": run, "e@1": RunRecord(name="e@1"), "flat": RunRecord(name="flat")}
    known["flat"].attempts = [attempt(1, ONE)]
    monkeypatch.setattr(run_records, "records", lambda: known)
    monkeypatch.setattr(run_records, "record_of", known.__getitem__)
    return Console(tmp_path, capsys)


def test_two_attempts_of_one_run_are_compared(console: Console) -> None:
    told = console.json("runs", "compare", "exp@1", "exp@2")
    assert told["runs"] == ["exp@1", "exp@2"]
    rows = {(row["part"], row["key"]): row for row in told["rows"]}
    assert rows["settings", "lr"]["values"] == [1, 2]
    assert rows["run", "version"]["values"] == ["v1", "v2"]
    assert rows["result", "incidents"]["values"] == [0, 1]
    assert rows["result", "cost"]["values"] == [1.0, 1.0]
    assert rows["result", "reward"]["values"] == [None, None], "which attempt made it is not known"
    named = console.json("runs", "compare", "exp@v1", "exp@v2")["runs"]
    assert named == ["exp@1", "exp@3"], "the newest attempt with that version"
    console("runs", "compare", "exp@1", "exp@9", code=2)
    assert "No launch of exp with config 9 is recorded." in console.err


def test_a_run_alone_is_its_newest_launch_beside_the_one_before(console: Console) -> None:
    told = console.json("runs", "compare", "exp")
    assert told["runs"] == ["exp@2", "exp@3"]
    (row,) = [row for row in told["rows"] if row["key"] == "arguments"]
    assert (row["values"], row["differs"]) == (["", "--keep 3"], True)
    console("runs", "compare", "flat", code=2)
    assert "with one config and the same arguments only" in " ".join(console.err.split())
    console("runs", "compare", "exp", "exp", code=2)
    assert "`runs compare RUN@1 RUN@2`" in " ".join(console.err.split())
    assert console.json("runs", "compare", "exp", "e@1")["runs"] == ["exp", "e@1"], "a run's name"


def test_diff_points_to_compare(console: Console, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        console("runs", "diff", "exp")
    told = capsys.readouterr().err
    assert "runs has no verb 'diff'. Close to it: compare" in told
