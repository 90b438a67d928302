"""Playbook files: valid or refused with the place of the mistake, and compiled to what the agent
reads.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bs4_common.failures.compiled import Library
from bs4_console import nested_yaml
from bs4_console.errors import UsageError
from bs4_console.failures.playbooks import compile_all, lint

BASE: dict[str, Any] = {
    "id": "x",
    "title": "T",
    "role": "root",
    "severity": "warning",
    "danger": "move",
    "where": "pod",
    "applies": ["prime-rl"],
    "looks_like": "L",
    "explanation": "E",
    "prevent": "P\n",
    "sources": ["s"],
    "detect": {
        "for": "2m",
        "keep_firing_for": "1.5h",
        "logs": [{"source": "trainer", "levels": ["ERROR"], "pattern": "xxxx"}],
    },
    "fix": [{"stop_run": None}],
    "verify": {"steps_advance": {"count": 2, "within": "30m"}},
}
CASE = {"name": "as seen", "source": "trainer", "log": "12:00:00 ERROR xxxx"}


def library(root: Path, *playbooks: dict[str, Any]) -> Path:
    for number, playbook in enumerate(playbooks):
        path = root / f"family{number}" / f"{playbook['id']}.yaml"
        path.parent.mkdir()
        path.write_text(yaml.safe_dump(playbook))
    return root


def test_what_ships_is_valid_and_the_agent_reads_it() -> None:
    good, problems = lint()
    assert problems == []
    read = Library(compile_all())
    assert sorted(p.id for p in read) == sorted(p["id"] for p in good)


def test_durations_become_seconds_and_what_people_read_stays_here(tmp_path: Path) -> None:
    (made,) = json.loads(compile_all(library(tmp_path, BASE)))["playbooks"]
    assert (made["detect"]["for"], made["detect"]["keep_firing_for"]) == (120.0, 5400.0)
    assert made["verify"] == {"steps_advance": {"count": 2, "within": 1800.0}}
    assert made["family"] == "family0"
    assert not {"looks_like", "explanation", "prevent", "sources"} & set(made)


def test_the_same_files_compile_to_the_same_bytes(tmp_path: Path) -> None:
    """A plan's hash is over them."""
    shuffled = dict(reversed(BASE.items()))
    one, two = tmp_path / "1", tmp_path / "2"
    one.mkdir()
    two.mkdir()
    assert compile_all(library(one, BASE)) == compile_all(library(two, shuffled))


def test_cases_do_not_travel_to_pods(tmp_path: Path) -> None:
    """Bytes and hash of what a pod gets are the same with and without them."""
    one, two = tmp_path / "1", tmp_path / "2"
    one.mkdir()
    two.mkdir()
    with_cases = {**BASE, "cases": {"positive": [CASE], "negative": [{**CASE, "log": "fine"}]}}
    assert compile_all(library(one, with_cases)) == compile_all(library(two, BASE))


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"severity": "bad"}, "severity"),
        ({"surprise": 1}, ""),
        ({"fix": [{"stop_run": None}], "verify": None}, "verify"),
        ({"detect": {"logs": [{"source": "trainer", "pattern": "(("}]}}, "detect/logs/0/pattern"),
        ({"detect": {"logs": [{"pattern": "xxxx"}]}}, "detect/logs/0"),
        ({"detect": {"logs": [{"source": "trainer", "pattern": "ab"}]}}, "detect/logs/0/pattern"),
        (
            {
                "detect": {
                    "logs": [{"source": "trainer", "pattern": "xxxx", "cleared_by": "(a+)+bbbb"}]
                }
            },
            "detect/logs/0/cleared_by",
        ),
        (
            {"detect": {"logs": [{"source": "trainer", "pattern": "xxxx", "where": {"n": "> 1"}}]}},
            "detect/logs/0/where/n",
        ),
        (
            {"detect": {"logs": [{"source": "trainer", "pattern": "xxxx", "within": "5m"}]}},
            "detect/logs/0",
        ),
        (
            {"detect": {"logs": [{"source": ["trainer", "nobody"], "pattern": "xxxx"}]}},
            "detect/logs/0/source",
        ),
        ({"cases": {"positiv": [CASE]}}, "cases"),
        ({"cases": {"positive": [{**CASE, "trainr": "verl"}]}}, "cases/positive/0"),
        ({"cases": {"positive": [{**CASE, "source": "nobody"}]}}, "cases/positive/0/source"),
        ({"family": "elsewhere"}, "family"),
        ({"explains": ["z"]}, "explains"),
        ({"leads_to": "z"}, "leads_to"),
        ({"detect": {"detector": "nobody"}}, "detect/detector"),
        (
            {"detect": {"detector": "disk-full", "with": {"percent": "98"}}},
            "detect/with/percent",
        ),
        ({"detect": {"for": "2 minutes", "logs": []}}, "detect/for"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_no_half_library_is_compiled(
    tmp_path: Path, change: dict[str, Any], where: str
) -> None:
    root = library(tmp_path, BASE, {**BASE, **change, "id": "y"})
    good, problems = lint(root)
    assert [p["id"] for p in good] == ["x"]
    assert any(p.where == where and p.file.name == "y.yaml" for p in problems), problems
    with pytest.raises(UsageError, match="playbook lint"):
        compile_all(root)


def test_a_person_is_told_what_to_do(tmp_path: Path) -> None:
    bare = {key: value for key, value in BASE.items() if key not in ("fix", "verify")}
    bare["danger"] = "none"
    assert lint(library(tmp_path, bare))[0] == []
    for number, (key, value) in enumerate(
        (("advice", ["Look."]), ("leads_to", "save-release-replace"), ("role", "cascade"))
    ):
        (tmp_path / str(number)).mkdir()
        assert [
            entry["id"] for entry in lint(library(tmp_path / str(number), {**bare, key: value}))[0]
        ] == ["x"]


def test_what_a_pattern_needs_is_compiled_with_it(tmp_path: Path) -> None:
    log = {
        "source": "trainer",
        "pattern": "went (?:wrong|astray)",
        "unless": "x",
        "cleared_by": "all is well",
        "within": "5m",
        "count": 2,
    }
    (made,) = json.loads(compile_all(library(tmp_path, {**BASE, "detect": {"logs": [log]}})))[
        "playbooks"
    ]
    (signature,) = made["detect"]["logs"]
    assert signature["source"] == ["trainer"]
    assert signature["within"] == 300.0
    assert signature["needs"] == {
        "pattern": ["went astray", "went wrong"],
        "cleared_by": ["all is well"],
    }


def test_an_id_is_there_once(tmp_path: Path) -> None:
    _, problems = lint(library(tmp_path, BASE, BASE))
    assert [problem.message for problem in problems] == ["is defined twice"]


@pytest.mark.parametrize("piece", ["[", "- ", "{a: ", "? "])
def test_a_file_that_nests_too_deeply_is_refused(tmp_path: Path, piece: str) -> None:
    """libyaml's loader ended Python with a segmentation fault, so another process tries it."""
    root = library(tmp_path, BASE)
    (root / "family" / "deep.yaml").parent.mkdir(exist_ok=True)
    (root / "family" / "deep.yaml").write_text("id: deep\nlooks_like:\n  " + piece * 30_000)
    script = "import sys; from pathlib import Path; from bs4_console.failures.playbooks import lint"
    script += "\nprint(*lint(Path(sys.argv[1]))[1])"
    done = subprocess.run(
        [sys.executable, "-c", script, str(root)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert "deep.yaml: is not YAML: It nests deeper than 64 levels" in done.stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "a0: &a0 [x, x]\n"
            + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
            "Its aliases repeat so much that it has over 100,000 values",
        ),
        ("id: &a [x, *a]\n", "*a stands inside the part that it repeats"),
    ],
)
def test_a_file_that_repeats_itself_without_end_is_refused(
    tmp_path: Path, text: str, why: str
) -> None:
    root = library(tmp_path, BASE)
    (root / "family" / "again.yaml").parent.mkdir(exist_ok=True)
    (root / "family" / "again.yaml").write_text(text)
    _, problems = lint(root)
    assert any(why in problem.message for problem in problems), problems


@pytest.mark.parametrize("value", ["9" * 5000, "2026-13-45", "!!int x", "!!bool x"])
def test_a_value_that_python_cannot_make_is_no_yaml(value: str) -> None:
    with pytest.raises(nested_yaml.NoSuchValue, match="not what it looks like"):
        nested_yaml.load(f"a: {value}\n")


def test_an_alias_that_repeats_little_is_read() -> None:
    assert nested_yaml.load("a: &a {b: [1, &c 2]}\nd: *a\ne: *c\n") == {
        "a": {"b": [1, 2]},
        "d": {"b": [1, 2]},
        "e": 2,
    }
