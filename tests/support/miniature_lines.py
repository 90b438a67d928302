"""The miniature's own log lines, at any time of a simulated day.

The f-strings are taken out of the miniature's source and evaluated with numbers of ours, and its
own Logger writes them: what it prints differently tomorrow, a simulated day prints differently too.
Nothing is started.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_practice import miniature
from bs4_practice.miniature import log as miniature_log

_ROOT = Path(miniature.__file__).parent
_LEVELS = ("debug", "info", "success", "warning", "error")


class Speaker:
    """`line(file, start, **names)`: (level, text) of the miniature's call in `file` whose message
    begins with `start`.
    """

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], tuple[str, Any]] = {}

    def line(self, file: str, start: str, /, **names: Any) -> tuple[str, str]:
        key = (file, start)
        if key not in self._calls:
            self._calls[key] = self._find(file, start)
        level, code = self._calls[key]
        helpers = {"duration": miniature_log.duration, "min": min, "max": max}
        return level, eval(code, helpers, names)  # noqa: S307

    def _find(self, file: str, start: str) -> tuple[str, Any]:
        found = [
            (level, node)
            for level, node in _messages(_ROOT / file)
            if _begin(node).startswith(start)
        ]
        if len(found) != 1:
            raise LookupError(
                f"{file} of the miniature says {start!r} in {len(found)} places; exactly one "
                "is needed"
            )
        level, node = found[0]
        return level, compile(ast.Expression(node), file, "eval")


def _messages(path: Path) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _LEVELS
            and node.args
        ):
            yield node.func.attr, node.args[0]


def _begin(node: ast.expr) -> str:
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


class Pen(miniature_log.Logger):
    """The miniature's Logger at a time of ours, into a buffer instead of a file. `wall`: wall
    seconds of the next lines.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, level: str = "info", *, json_lines: bool = False
    ) -> None:
        super().__init__(level, json_lines=json_lines)
        self.wall = 0.0
        self._written = ""
        monkeypatch.setattr(
            miniature_log,
            "time",
            SimpleNamespace(strftime=self._strftime, monotonic=lambda: self.wall),
        )
        monkeypatch.setattr(miniature_log, "datetime", SimpleNamespace(now=self._now))

    def render(self, level: str, text: str) -> bytes:
        """The raw line or lines, without the last LF."""
        self._written = ""
        getattr(self, level)(text)
        return self._written.encode().rstrip(b"\n")

    def _write(self, text: str) -> None:
        self._written += text

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.wall, UTC)

    def _strftime(self, form: str) -> str:
        return datetime.fromtimestamp(self.wall).strftime(form)
