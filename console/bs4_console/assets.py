"""Find the product's data: in the installed wheel, or in the checkout that the code runs from."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from bs4_console.errors import ConsoleError

Kind = Literal["playbooks", "configs", "docs", "bundle"]

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[1]


def find(kind: Kind) -> Path:
    """Return the directory on this machine that holds the "playbooks", the "configs", the pages of
    documentation ("docs") or the built agent ("bundle"), as `kind` says.

    An installed console has all four as package data (`bs4_console/_data`). A checkout has
    playbooks, configs and docs at its root and no built agent. Raises ConsoleError if the directory
    does not exist.
    """
    for candidate in (_PACKAGE / "_data" / kind, _CHECKOUT / kind):
        if candidate.is_dir():
            return candidate
    raise ConsoleError(
        f"This installation of bs4-console has no {kind}.",
        "Install it again: `pip install --force-reinstall bs4-console`.",
    )


def pages() -> list[Path]:
    """Return the files of this program's own documentation: the README, and every page of docs, by
    name. Raises ConsoleError if they are not there.
    """
    docs = find("docs")
    found = sorted(docs.glob("*.md"))
    # An installed console has the README among the pages. A checkout has it at its root.
    readme = docs.parent / "README.md"
    if readme.is_file():
        found.insert(0, readme)
    if not found:
        raise ConsoleError(
            "This installation of bs4-console has no pages of documentation.",
            "Install it again: `pip install --force-reinstall bs4-console`.",
        )
    return found


def checkout() -> Path | None:
    """Return the root of the checkout from which this console runs, or None if the console is
    installed as a package.
    """
    if (_PACKAGE / "_data").is_dir() or not (_CHECKOUT / "agents" / "bs4_agent").is_dir():
        return None
    return _CHECKOUT
