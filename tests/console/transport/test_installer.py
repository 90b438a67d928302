"""What the installer makes on a pod."""

from __future__ import annotations

import marshal
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from bs4_console.transport import installer

MODULE = '''"""What this module is for."""


def answer():
    """Return it."""
    return 42
'''


def docstring(source: Path) -> str | None:
    """The docstring in the compiled code that an interpreter takes for a source."""
    compiled = Path(cache_from_source(str(source))).read_bytes()
    code = marshal.loads(compiled[16:])  # noqa: S302  (made by this test)
    (function,) = [part for part in code.co_consts if isinstance(part, CodeType)]
    return next((part for part in function.co_consts if isinstance(part, str)), None)


@pytest.mark.parametrize(
    ("part", "kept"), [("bs4_agent", None), ("bs4_common", None), ("lib", "Return it.")]
)
def test_only_the_agents_own_code_is_without_its_docstrings(
    tmp_path: Path, part: str, kept: str | None
) -> None:
    source = tmp_path / part / "deep" / "module.py"
    source.parent.mkdir(parents=True)
    source.write_text(MODULE)
    installer._compile(tmp_path)
    assert docstring(source) == kept


def test_nothing_of_the_agent_depends_on_what_compiling_leaves_out() -> None:
    agents = Path(__file__).resolve().parents[3] / "agents"
    for source in agents.rglob("*.py"):
        for line in source.read_text().splitlines():
            assert not line.lstrip().startswith("assert "), source
            assert "__doc__" not in line, source


def test_a_half_made_bundle_that_another_console_has_just_put_in_its_place_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "older.tar.gz").touch()
    listed = [tmp_path / ".new.7", tmp_path / "older.tar.gz"]
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(listed))
    installer._prune(tmp_path, {"new"}, ModuleType("bootstrap"))
    assert not (tmp_path / "older.tar.gz").exists()


@pytest.mark.parametrize("there", ["nothing", "an empty directory", "half of it", "all of it"])
def test_a_bundle_takes_its_place_unless_a_whole_one_is_there(tmp_path: Path, there: str) -> None:
    half, target = tmp_path / ".new.7", tmp_path / "new"
    half.mkdir()
    (half / "ok").write_text("mine")
    if there != "nothing":
        target.mkdir()
    if there in ("half of it", "all of it"):
        (target / "module.py").write_text("theirs")
    if there == "all of it":
        (target / "ok").write_text("theirs")
    installer._move(half, target)
    assert (target / "ok").read_text() == "mine"
    assert (target / "module.py").exists() == (there == "all of it")
