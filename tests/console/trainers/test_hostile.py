"""A checkout that wants to do harm: what is read of it is bounded, and nothing outside is read."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from bs4_console.errors import UsageError
from bs4_console.trainers import checkout as limits
from bs4_console.trainers.checking import check
from bs4_console.trainers.checkout import Checkout, Unreadable
from tests.console.trainers import acme

RUN = "src/acme/run.py"


def why(root: Path, file: str = RUN) -> str:
    """Return why a file is not read."""
    with pytest.raises(Unreadable) as raised:
        Checkout(root).source(file)
    return str(raised.value)


DEEP = {
    "brackets": "x = " + "(" * 5000 + "1" + ")" * 5000,
    "brackets over lines": "x = " + "(\n" * 5000 + "1" + ")\n" * 5000,
    "brackets in an f-string": "x = f'" + "{(" * 90 + "1" + ")}" * 90 + "'",
    "indentation": "\n".join(f"{' ' * depth}if x:" for depth in range(1000)),
    "signs": "x = " + "-" * 5000 + "1",
    "signs over lines": "x = (\n" + "-\n" * 50_000 + "1)",
    "not": "x = " + "not " * 4000 + "y",
    "attributes": "x = a" + ".b" * 5000,
    "attributes over lines": "x = (a\n" + ".b\n" * 100_000 + ")",
    "sums": "x = " + "1+" * 9000 + "1",
    "sums over lines": "x = (1\n" + "+1\n" * 100_000 + ")",
    "comparisons": "x = " + "1<" * 9000 + "1",
    "lambdas": "x = " + "lambda: " * 2000 + "1",
    "conditions": "x = " + "1 if y else " * 1500 + "2",
    "conditions over lines": "x = (\n" + "1 if y else\n" * 20_000 + "2)",
    "elif": "if x:\n    pass\n" + "elif y:\n    pass\n" * 20_000,
    "calls": "x = f" + "()" * 9000,
    "powers": "x = " + "2**" * 5000 + "2",
    "awaits": "async def f():\n    " + "await " * 3000 + "y",
    "strings": "x = (\n" + "'a'\n" * 100_000 + ")",
}


@pytest.mark.parametrize("name", DEEP)
def test_a_deep_file_is_read_or_refused_and_raises_nothing_else(tmp_path: Path, name: str) -> None:
    root = acme.write(tmp_path)
    (root / RUN).write_text(DEEP[name])
    begin = time.monotonic()
    verdicts = check(Checkout(root), acme.BELIEVED)
    assert time.monotonic() - begin < 30
    there = {verdict.belief.id: verdict.state for verdict in verdicts}
    assert there["round"] == "unknown"
    assert there["fields"] == "holds"


@pytest.mark.parametrize("name", ["brackets", "indentation", "signs", "not", "attributes"])
def test_the_parser_is_not_asked_about_what_is_deep(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = acme.write(tmp_path)
    (root / RUN).write_text(DEEP[name])
    parsed: list[str] = []
    monkeypatch.setattr(limits, "ast", SimpleNamespace(parse=parsed.append))
    assert why(root) == "is nested too deep"
    assert parsed == []


def test_a_file_beyond_the_size_is_not_read(tmp_path: Path) -> None:
    root = acme.write(tmp_path)
    with open(root / RUN, "a") as file:
        file.truncate(limits.FILE_MOST + 1)
    assert why(root) == "is larger than 1024 KiB"


def test_a_file_that_is_too_large_in_all_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = acme.write(tmp_path)
    monkeypatch.setattr(limits, "TOTAL_MOST", (root / RUN).stat().st_size)
    checkout = Checkout(root)
    checkout.source(RUN)
    with pytest.raises(Unreadable, match="was not read, after"):
        checkout.source("src/acme/paths.py")


def test_links_that_lead_out_are_not_opened(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "run.py").write_text(acme.FILES[RUN])
    (outside / "pyproject.toml").write_text(acme.FILES["pyproject.toml"])
    root = acme.write(tmp_path / "checkout")
    (root / RUN).unlink()
    (root / RUN).symlink_to(outside / "run.py")
    (root / "pyproject.toml").unlink()
    (root / "pyproject.toml").symlink_to(outside / "pyproject.toml")
    assert why(root) == "leads out of the checkout"
    states = {v.belief.id: v.state for v in check(Checkout(root), acme.BELIEVED)}
    assert states["round"] == states["script"] == "unknown"


def test_folders_that_lead_out_or_in_circles_are_not_searched(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "run.py").write_text(acme.FILES[RUN])
    root = acme.write(tmp_path / "checkout")
    (root / RUN).unlink()
    (root / "src/acme/out").symlink_to(outside)
    (root / "src/acme/round").symlink_to(root / "src")
    found = [source.file for source in Checkout(root).sources(("src/acme", "src/acme/out"))]
    assert found == ["src/acme/paths.py", "src/acme/side/run.py"]
    assert list(Checkout(root).sources(("../outside",))) == []


def test_a_path_of_a_belief_cannot_lead_out(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("pass\n")
    root = acme.write(tmp_path / "checkout")
    assert why(root, "../other.py") == "leads out of the checkout"
    assert why(root, str(tmp_path / "other.py")) == "leads out of the checkout"


def test_what_is_no_plain_file_is_not_waited_for(tmp_path: Path) -> None:
    root = acme.write(tmp_path)
    (root / RUN).unlink()
    os.mkfifo(root / RUN)
    assert why(root) == "is no plain file"
    found = [source.file for source in Checkout(root).sources(("src",))]
    assert found == ["src/acme/paths.py", "src/acme/side/run.py"]
    (root / RUN).unlink()
    (root / RUN).mkdir()
    assert why(root) == "is no plain file"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xff\xfe", "is no UTF-8"),
        (b"def f(:\n", "is no Python of this version"),
        (b"x = 1\x00\n", "is no Python of this version"),
        (b"x = '\\ud800'\n", ""),
        (b"x = " + b"9" * 10_000, ""),
    ],
)
def test_what_is_no_python_is_unknown(tmp_path: Path, data: bytes, text: str) -> None:
    root = acme.write(tmp_path)
    (root / RUN).write_bytes(data)
    states = {v.belief.id: v for v in check(Checkout(root), acme.BELIEVED)}
    assert states["round"].state == "unknown"
    assert text in states["round"].note


@pytest.mark.parametrize("data", [b"[project", b"a = " + b"[" * 5000, b"project = 3", b"\xff"])
def test_a_broken_table_is_unknown_or_gone(tmp_path: Path, data: bytes) -> None:
    root = acme.write(tmp_path)
    (root / "pyproject.toml").write_bytes(data)
    states = {v.belief.id: v.state for v in check(Checkout(root), acme.BELIEVED)}
    assert states["script"] in ("unknown", "gone")


def test_the_number_of_files_and_the_depth_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FILES_MOST", 10)
    monkeypatch.setattr(limits, "DEEPEST", 5)
    root = acme.write(tmp_path)
    deep = root / "src/acme/a/b/c/d/e"
    deep.mkdir(parents=True)
    (deep / "deep.py").write_text("pass\n")
    assert "deep.py" not in " ".join(source.file for source in Checkout(root).sources(("src",)))
    for number in range(40):
        (root / "src" / f"n{number}.py").write_text("pass\n")
    assert len(list(Checkout(root).sources(("src",)))) <= 11


def test_terminal_controls_of_a_trainer_are_not_shown(tmp_path: Path) -> None:
    text = "Everything is done \\x1b[2Jhere\\u202e now"
    root = acme.write(tmp_path, run=("Everything is done here", text))
    notes = " ".join(verdict.note for verdict in check(Checkout(root), acme.BELIEVED))
    assert "Everything is done" in notes
    assert "\x1b" not in notes
    assert "\u202e" not in notes


def test_a_directory_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no directory"):
        Checkout(tmp_path / "nothing")
