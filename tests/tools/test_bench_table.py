"""`make bench`: its rows name what exists, its page is made from the results, and a row over its
goal is not written without its reason.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks import rows, table
from benchmarks.rows import MEASUREMENTS, ROWS, Measurement, Result, Row
from tools.rounds import git

MACHINE = {"cores": 2, "cpu": "Slow CPU", "python": "3.11.7", "kernel": "Linux 6.1"}
MEASURED = {
    "commit": "0123abcd",
    "changed": False,
    "at": "2026-11-29 12:00",
    "seconds": 61,
    "load1": 0.25,
    "command": "python benchmarks/connect.py --pairs 10",
    "machine": MACHINE,
}
CONNECT: dict[str, Any] = {
    "median_s": {"ssh": 0.2, "deploy": 0.5, "attach": 0.1},
    "ratio_to_ssh_true": {"deploy": 1.5, "attach": 0.5},
    "profile": {"deploy": [" 0.400 s  login and attach"], "attach": []},
    "measured": MEASURED,
}


def connected(deploy: float) -> dict[str, Result]:
    """Results in which only connect.py was measured, with this ratio of a deploy."""
    return {"connect": {**CONNECT, "ratio_to_ssh_true": {"deploy": deploy, "attach": 0.5}}}


def line_of(text: str, row: str) -> str:
    (line,) = [line for line in text.splitlines() if f"ONLY={row}`" in line]
    return line


def test_every_row_names_a_measurement_and_every_measurement_a_script_that_writes_json() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert {row.measurement for row in ROWS} == {one.name for one in MEASUREMENTS}
    for one in MEASUREMENTS:
        script = table.ROOT / "benchmarks" / one.script
        assert '"--json"' in script.read_text(), one.script
    assert table.LINK_TESTS.is_file()


def test_every_reason_is_of_a_row() -> None:
    reasons = tomllib.loads(table.REASONS.read_text())
    assert set(reasons) <= {row.id for row in ROWS}
    assert all(reasons.values())


def test_the_page_shows_what_the_results_say_and_what_was_not_measured() -> None:
    text = table.page(connected(1.5), {})
    line = line_of(text, "deploy")
    assert "| `ssh true` | 0.5 s | 0.2 s | 1.5 times | at most 2 | kept |" in line
    assert "0123abcd, 2026-11-29, A" in line
    assert "* Machine A: 2 cores, Slow CPU, Python 3.11.7, Linux 6.1." in text
    assert "| – | – | – | at most 1.3 | not measured | – |" in line_of(text, "first-paint")
    assert f"2 kept, 0 missed, {len(ROWS) - 2} not measured" in text


def test_a_row_over_its_goal_says_missed_and_is_not_written_without_its_reason() -> None:
    results = connected(2.5)
    with pytest.raises(table.NoReason, match=r"^deploy: over the goal"):
        table.page(results, {"attach": "It is another row."})
    text = table.page(results, {"deploy": "The upload takes long."})
    assert "2.5 times | at most 2 | missed |" in line_of(text, "deploy")
    missed = text.partition("## Rows that miss their goals")[2]
    assert "2.5 times, at most 2. The upload takes long." in missed
    assert " 0.400 s  login and attach" in missed


def test_a_goal_may_be_a_least() -> None:
    (row,) = [row for row in ROWS if row.least]
    assert row.kept(1.0)
    assert not row.kept(0.5)
    assert replace(row, least=False).kept(0.5)
    assert replace(row, goal=None).kept(0.5) is None


def test_a_log_that_does_not_come_back_whole_is_counted() -> None:
    pods = {"one": {"whole": True}, "two": {"whole": False}}
    assert rows.torn({"lines": pods}) == 1.0


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with results, reasons and a page of its own. Returns that of the results."""
    results = tmp_path / "results"
    monkeypatch.setattr(table, "RESULTS", results)
    monkeypatch.setattr(table, "REASONS", tmp_path / "reasons.toml")
    monkeypatch.setattr(table, "PAGE", tmp_path / "performance.md")
    table.keep(connected(1.5)["connect"], results / "connect.json")
    table.REASONS.write_text("")
    return results


def test_a_stale_page_is_red_until_it_is_written(kept: Path) -> None:
    check = ["--page", "--check"]
    assert table.main(check) == 1
    assert not table.PAGE.exists()
    assert table.main(["--page"]) == 0
    assert table.main(check) == 0
    table.keep(connected(1.6)["connect"], kept / "connect.json")
    assert table.main(check) == 1


def test_a_row_without_its_reason_leaves_the_page_as_it_was(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table.main(["--page"]) == 0
    before = table.PAGE.read_text()
    table.keep(connected(2.5)["connect"], kept / "connect.json")
    assert table.main(["--page"]) == 1
    assert "benchmarks/reasons.toml" in capsys.readouterr().out
    assert table.PAGE.read_text() == before


def measurement(directory: Path, name: str, code: str) -> Measurement:
    """A measurement whose script is this code; `target` is the file that it is to write."""
    script = directory / f"{name}.py"
    script.write_text(f"import sys\ntarget = sys.argv[sys.argv.index('--json') + 1]\n{code}\n")
    return Measurement(name=name, script=script.name, arguments=("--fast",), minutes=0.1)


def test_a_result_is_kept_with_commit_time_and_machine_although_a_goal_is_missed(
    tmp_path: Path,
) -> None:
    one = measurement(tmp_path, "one", "open(target, 'w').write('{\"figure\": 2}')\nsys.exit(1)")
    assert table.measure(one, tmp_path / "results", tmp_path)
    result: Mapping[str, Any] = json.loads((tmp_path / "results" / "one.json").read_text())
    assert result["figure"] == 2
    measured = result["measured"]
    assert measured["machine"] == table.machine()
    assert git("rev-parse", measured["commit"]) == git("rev-parse", "HEAD")
    assert measured["command"] == "python benchmarks/one.py --fast"


def test_a_script_that_fails_leaves_the_older_result(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "results" / "one.json"
    table.keep({"figure": 1}, place)
    failing = measurement(tmp_path, "one", "sys.exit('no ssh here')")
    assert not table.measure(failing, place.parent, tmp_path)
    assert "no ssh here" in capfd.readouterr().err
    assert json.loads(place.read_text()) == {"figure": 1}


def test_only_what_is_asked_for_is_measured() -> None:
    assert [one.name for one in table.chosen(["deploy", "attach", "sync"])] == ["connect", "sync"]
    assert table.chosen([]) == list(MEASUREMENTS)
    with pytest.raises(SystemExit, match="no row nonsense"):
        table.chosen(["nonsense"])


def test_the_page_in_docs_is_what_the_results_say() -> None:
    assert table.main(["--page", "--check"]) == 0


def test_a_row_without_its_place_in_the_result_is_not_measured() -> None:
    row = Row(id="x", group="g", what="w", measurement="connect", figure="median_s/none", goal=1.0)
    assert table.number(CONNECT, row.figure) is None
    assert table.Shown(row, CONNECT, None, None, None).verdict == "not measured"
