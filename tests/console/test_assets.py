"""The one function that finds playbooks and configs, from the checkout and from an installed
wheel.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console import assets
from bs4_console.errors import ConsoleError

ROOT = Path(__file__).resolve().parents[2]


def test_a_checkout_uses_its_own_files() -> None:
    assert assets.checkout() == ROOT
    assert assets.find("playbooks") == ROOT / "playbooks"
    assert assets.find("configs") == ROOT / "configs"
    assert assets.pages() == [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_an_installed_console_has_its_pages_as_package_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path)
    docs = tmp_path / "_data" / "docs"
    docs.mkdir(parents=True)
    with pytest.raises(ConsoleError, match="no pages of documentation"):
        assets.pages()
    for name in ("cli.md", "README.md"):
        (docs / name).write_text("# Title\n")
    (docs / "picture.svg").write_text("")
    assert assets.pages() == [docs / "README.md", docs / "cli.md"]


def test_without_either_the_answer_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path / "a")
    monkeypatch.setattr(assets, "_CHECKOUT", tmp_path / "b")
    with pytest.raises(ConsoleError, match="no playbooks"):
        assets.find("playbooks")
