"""What the installer makes on a pod."""

from __future__ import annotations

import marshal
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType

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
