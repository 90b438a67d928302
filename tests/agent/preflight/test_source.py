"""The files of a trainer's source that an agent sends: those of a checkout, or of an installed
package, in answers that fit, and nothing else of the machine.
"""

from __future__ import annotations

import base64
import os
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bs4_agent.pod import Pod
from bs4_agent.preflight import source, stack
from bs4_agent.preflight.queries import Preflights
from bs4_common.errors import BadRequest
from bs4_common.failures.compiled import Library

RUN, STOP = "src/acme/run.py", "packages/acme-more/src/acme/more/stop.py"


def write(root: Path, **files: str) -> None:
    """Write files below `root`, with `__` for each slash of a name and without its ending."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def texts(answer: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file that was sent."""
    return {
        name: zlib.decompress(base64.b64decode(data)).decode() for name, data in answer["files"]
    }


def test_a_checkout_is_read_where_it_is(tmp_path: Path) -> None:
    write(tmp_path, src__acme__run="x = 1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    answer = source.read(tmp_path, [], ["pyproject.toml", RUN, STOP])
    assert texts(answer) == {"pyproject.toml": "[project]\n", RUN: "x = 1\n"}
    assert (answer["root"], answer["refused"], answer["next"]) == (str(tmp_path), [], None)


def test_without_a_checkout_it_is_the_installed_package(tmp_path: Path) -> None:
    project, packages = tmp_path / "mine", tmp_path / "site-packages"
    write(packages, acme__run="x = 2\n", acme__more__stop="x = 3\n")
    write(project, other="x = 4\n")
    # A project of one's own has this file too.
    (project / "pyproject.toml").write_text("[project]\n")
    answer = source.read(project, [tmp_path / "none", packages], ["pyproject.toml", RUN, STOP])
    assert texts(answer) == {RUN: "x = 2\n", STOP: "x = 3\n"}
    assert answer["root"] == str(packages)


def test_where_nothing_is_there_is_no_directory(tmp_path: Path) -> None:
    answer = source.read(tmp_path / "none", [tmp_path], [RUN])
    assert answer == {"root": "", "files": [], "refused": [], "next": None}


def test_what_does_not_fit_comes_with_the_next_answer(tmp_path: Path) -> None:
    names = [f"src/acme/part{number}.py" for number in range(5)]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(base64.b64encode(os.urandom(15_000)))
    found: dict[str, str] = {}
    after: int | None = 0
    answers = 0
    while after is not None:
        answer = source.read(tmp_path, [], names, after)
        assert 0 < sum(len(data) for _, data in answer["files"]) <= source.ANSWER_MOST
        found |= texts(answer)
        after = answer["next"]
        answers += 1
    assert (sorted(found), answers) == (names, 3)


def test_what_is_no_plain_file_of_the_checkout_is_refused_with_the_reason(tmp_path: Path) -> None:
    root = tmp_path / "acme"
    write(root, src__acme__run="x = 1\n")
    (tmp_path / "secret.py").write_text("key = 'of somebody'\n")
    (root / "out.py").symlink_to(tmp_path / "secret.py")
    (root / "src" / "inside.py").symlink_to(root / RUN)
    (root / "large.py").write_text("#" * (source.FILE_MOST + 1))
    (root / "noise.py").write_bytes(base64.b64encode(os.urandom(60_000)))
    (root / "folder.py").mkdir()
    os.mkfifo(root / "pipe.py")
    names = ["out.py", "src/inside.py", "large.py", "noise.py", "folder.py", "pipe.py", RUN]
    answer = source.read(root, [], names)
    assert texts(answer) == {RUN: "x = 1\n", "src/inside.py": "x = 1\n"}
    why = dict(answer["refused"])
    assert sorted(why) == ["folder.py", "large.py", "noise.py", "out.py", "pipe.py"]
    assert why["out.py"] == "leads out of the checkout"
    assert why["large.py"] == why["noise.py"] == "is too large to be sent"


@pytest.mark.parametrize(
    "name",
    ["/etc/a.py", "../a.py", "a/../../b.py", "a.txt", "b/pyproject.toml", "a\0.py", "x" * 300, 3],
)
def test_only_python_files_below_the_directory_can_be_asked_for(tmp_path: Path, name: Any) -> None:
    with pytest.raises(BadRequest, match="relative paths"):
        source.read(tmp_path, [], [RUN, name])


def test_so_many_files_are_no_question(tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        source.read(tmp_path, [], [RUN] * 1000)


def test_the_environment_of_the_directory_is_where_the_package_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `uv run` finds it, or as a launch of verl with VIRTUAL_ENV does."""
    monkeypatch.delenv("UV_PROJECT_ENVIRONMENT", raising=False)
    for name, text in (("mine/.venv", "x = 1\n"), ("other", "x = 2\n")):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python3").write_text("")
        write(tmp_path / name / "lib" / "python3.12" / "site-packages", acme__run=text)
    assert len(stack.packages(tmp_path / "other" / "bin" / "python3")) == 1
    assert stack.packages(Path("python3")) == []
    runs = SimpleNamespace(home=SimpleNamespace(variables=lambda cwd: tmp_path / "none"))
    agent = Preflights(cast(Pod, SimpleNamespace(runs=runs)), cast(Library, None))
    question: dict[str, Any] = {"cwd": str(tmp_path / "mine"), "files": [RUN]}
    assert texts(agent.ask("source", question)) == {RUN: "x = 1\n"}
    inner = {"cwd": str(tmp_path / "mine" / "inner"), "files": [RUN]}
    assert texts(agent.ask("source", inner)) == {RUN: "x = 1\n"}
    question["env"] = {"VIRTUAL_ENV": str(tmp_path / "other")}
    assert texts(agent.ask("source", question)) == {RUN: "x = 2\n"}
    with pytest.raises(BadRequest):
        agent.ask("source", {**question, "files": RUN})
    with pytest.raises(BadRequest):
        agent.ask("source", {**question, "after": "1"})
