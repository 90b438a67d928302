"""The file of a new failure says itself what it still lacks, and becomes valid when that is filled
in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from bs4_common.states import Danger
from bs4_console.errors import UsageError
from bs4_console.failures.completeness import (
    DANGERS,
    LEAST_DANGER,
    LOG,
    PATTERN,
    REMEDY,
    REQUIRED,
    wrong_danger,
)
from bs4_console.failures.new_file import create
from bs4_console.failures.playbooks import lint, schema

#: Everything that a person fills in, in the order of the file.
FILLED: dict[str, Any] = {
    "title": "The tokenizer cannot be read",
    "role": "root",
    "severity": "critical",
    "looks_like": "The trainer ends at once.",
    "explanation": "The file is cut off.",
    "prevent": "Fetch it again.",
    "sources": ["a log"],
    "advice": ["Fetch it again."],
}


def write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(data, sort_keys=False))


def gaps(root: Path) -> dict[str, str]:
    _, problems = lint(root, need_cases=True)
    return {problem.where: problem.message for problem in problems}


def test_every_gap_is_named_once_and_in_our_words(tmp_path: Path) -> None:
    create(tmp_path, "disk-made-up", None, "")
    missing = {key: REQUIRED[key] for key in FILLED if key in REQUIRED}
    assert gaps(tmp_path) == {
        **missing,
        "advice": REMEDY,
        "detect/logs/0/pattern": PATTERN,
        "cases/positive/0/log": LOG,
        "cases/negative/0/log": LOG,
    }


def test_filled_in_it_is_valid(tmp_path: Path) -> None:
    path = create(tmp_path, "made-up", "disk", "")
    data = yaml.safe_load(path.read_text()) | FILLED
    data["detect"]["logs"][0]["pattern"] = "^cannot read the tokenizer"
    for kind in ("positive", "negative"):
        data["cases"][kind][0]["log"] = "cannot read the tokenizer"
    write(path, data)
    good, problems = lint(tmp_path, need_cases=True)
    assert problems == []
    assert [(entry["family"], entry["id"]) for entry in good] == [("disk", "made-up")]
    for key in FILLED:
        write(path, {name: value for name, value in data.items() if name != key})
        assert set(gaps(tmp_path)) == {key}
    for kind in ("positive", "negative"):
        write(path, {**data, "cases": {**data["cases"], kind: []}})
        assert set(gaps(tmp_path)) == {f"cases/{kind}"}
    write(path, {name: value for name, value in data.items() if name != "cases"})
    assert set(gaps(tmp_path)) == {"cases/positive", "cases/negative"}
    assert lint(tmp_path)[1] == [], "a bundle is not refused for cases that only tests need"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("ERROR cannot read it", "gets 'ERROR cannot read it' at level \"\" in the log of trainer"),
        ("12:00:00    INFO cannot read it", "gets 'cannot read it' at level \"INFO\" in the log"),
        ("12:00:00   ERROR something else", "gets 'the end' at level \"\" in the log of trainer"),
        ("12:00:00   ERROR cannot read it", ""),
    ],
)
def test_a_positive_case_that_no_pattern_matches_shows_its_line(
    tmp_path: Path, line: str, wanted: str
) -> None:
    """A person sees what a pattern is searched in: the header, the level or a ^ was the reason."""
    path = create(tmp_path, "made-up", "disk", "")
    data = yaml.safe_load(path.read_text()) | FILLED
    signature = data["detect"]["logs"][0]
    signature["pattern"] = "^cannot read it"
    data["cases"]["positive"][0]["log"] = f"{line}\nthe end\n"
    data["cases"]["negative"][0]["log"] = "fine"
    write(path, data)
    assert wanted in gaps(tmp_path).get("cases/positive/0/log", "")
    assert len(gaps(tmp_path)) == bool(wanted)
    signature["source"] = ["orchestrator", "inference"]
    write(path, data)
    assert set(gaps(tmp_path)) == {"cases/positive/0/log"}, "the case is of the trainer's log"


def test_a_sentence_with_a_colon_is_named_for_what_it_is(tmp_path: Path) -> None:
    path = create(tmp_path, "made-up", "disk", "")
    path.write_text(path.read_text().replace('advice:\n  - ""', "advice:\n  - Free space: now."))
    assert "in double quotes" in gaps(tmp_path)["advice/0"]


def test_what_the_schema_requires_has_its_sentence() -> None:
    assert set(schema()["required"]) == set(REQUIRED)


def test_the_title_may_hold_anything(tmp_path: Path) -> None:
    title = 'a: "b" # {c}'
    path = create(tmp_path, "disk-made-up", None, title)
    assert yaml.safe_load(path.read_text())["title"] == title


@pytest.mark.parametrize(
    "name", ["Disk-full", "disk_full", "disk-", "-disk", "a--b", "../disk-x", ""]
)
def test_a_bad_id_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be an id"):
        create(tmp_path, name, "disk", "")
    assert list(tmp_path.iterdir()) == []


def test_an_id_that_exists_is_refused_in_any_family(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"disk-full\.yaml exists already"):
        create(tmp_path, "disk-full", "gpu", "")
    path = create(tmp_path, "made-up", "disk", "")
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        create(tmp_path, "made-up", "gpu", "")
    assert path.read_text() == "mine"


def test_an_unknown_family_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'disk'"):
        create(tmp_path, "made-up", "disks", "")
    with pytest.raises(UsageError, match=r"--family: checkpoint, .*, weight-sync"):
        create(tmp_path, "made-up", None, "")
    with pytest.raises(UsageError, match="is no directory"):
        (tmp_path / "file").write_text("")
        create(tmp_path / "file", "made-up", "disk", "")


def test_the_longest_family_that_the_id_begins_with_is_taken(tmp_path: Path) -> None:
    assert create(tmp_path, "weight-sync-made-up", None, "").parent.name == "weight-sync"
    (tmp_path / "disk-array").mkdir()
    assert create(tmp_path, "disk-array-lost", None, "").parent.name == "disk-array"


@pytest.mark.parametrize(
    ("danger", "steps", "wanted"),
    [
        ("none", ["stop_run", "archive_logs", "move_steps", "relaunch"], "the step move_steps"),
        ("restart", ["stop_run", "move_files"], "the step move_files is more; write move"),
        ("move", ["end_port_holder"], "the step end_port_holder is more; write kill"),
        ("kill", ["stop_run", "move_steps", "relaunch"], ""),
        ("none", ["set_limit", "notify"], ""),
        ("none", [], ""),
        ("move", [], "there is no fix; write none"),
    ],
)
def test_a_fix_is_as_dangerous_as_its_steps(danger: str, steps: list[str], wanted: str) -> None:
    """A person confirms by the danger, and mode auto acts by it."""
    playbook: dict[str, Any] = {"danger": danger}
    if steps:
        playbook["fix"] = [{step: None} for step in steps]
    sentences = [sentence for _, sentence in wrong_danger(playbook)]
    assert bool(sentences) == bool(wanted)
    assert wanted in "".join(sentences)


def test_every_step_that_acts_has_a_least_danger() -> None:
    steps = set(schema()["properties"]["fix"]["items"]["properties"])
    quiet = {"archive_logs", "notify", "probe", "set_limit", "wait_gpu_free", "wait_until"}
    assert steps - quiet == set(LEAST_DANGER) - {"command"}
    assert set(LEAST_DANGER.values()) <= set(DANGERS) == set(get_args(Danger))
