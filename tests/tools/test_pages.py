"""The generated pages: what is out of date is written, and no released failure is taken out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bs4_console.assets import find
from tools import pages

PLAYBOOK = Path("playbooks") / "disk" / "disk-full.yaml"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one known failure whose pages were never written."""
    (tmp_path / PLAYBOOK).parent.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    text = (find("playbooks") / "disk" / "disk-full.yaml").read_text()
    (tmp_path / PLAYBOOK).write_text(text)
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    return tmp_path


def test_what_is_out_of_date_is_named_in_one_sentence_and_then_written(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pages.main(["--check"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert "docs/failures.md" in line
    assert line.endswith("Run `make format`, it writes them.")
    assert not (root / "docs" / "failures.md").exists()
    assert pages.main([]) == 0
    assert "### disk-full" in (root / "docs" / "failures.md").read_text()
    assert (root / "playbooks" / "released.txt").read_text() == "disk disk-full root\n"
    assert pages.main(["--check"]) == 0


def test_a_new_failure_is_added_to_the_list(root: Path) -> None:
    pages.main([])
    other = root / PLAYBOOK.with_name("disk-fuller.yaml")
    other.write_text((root / PLAYBOOK).read_text().replace("id: disk-full\n", "id: disk-fuller\n"))
    assert set(pages.outdated(root)) == {"docs/failures.md", "playbooks/released.txt"}
    pages.main([])
    assert (root / "playbooks" / "released.txt").read_text() == (
        "disk disk-full root\ndisk disk-fuller root\n"
    )


def test_a_failure_that_is_gone_stays_on_the_list(root: Path) -> None:
    pages.main([])
    shutil.rmtree((root / PLAYBOOK).parent)
    pages.main([])
    assert (root / "playbooks" / "released.txt").read_text() == "disk disk-full root\n"


def test_the_released_list_is_not_forgotten() -> None:
    """Without its lines nothing would say that a failure is missing."""
    assert len((find("playbooks") / "released.txt").read_text().splitlines()) > 170
