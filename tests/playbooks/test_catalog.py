"""No failure that was ever released is lost by accident; and a playbook that names another one
names a real one.
"""

from __future__ import annotations

import pytest
import yaml

from bs4_console.assets import find
from tests.playbooks.library import library, playbook_files

#: (family, id, role) of every failure that was ever released.
RELEASED = [line.split() for line in (find("playbooks") / "released.txt").read_text().splitlines()]


@pytest.mark.parametrize(
    ("family", "failure", "role"), RELEASED, ids=[failure for _, failure, _ in RELEASED]
)
def test_no_released_failure_is_lost(family: str, failure: str, role: str) -> None:
    """Journals and people's modes name a failure by its id; `make format` adds new ones to the
    list and removes none.
    """
    path = find("playbooks") / family / f"{failure}.yaml"
    assert path.is_file(), "put it back; one that is withdrawn is also taken out of released.txt"
    assert yaml.safe_load(path.read_text())["role"] == role


def test_names_of_other_playbooks_are_real() -> None:
    ids = {playbook.id for playbook in library()}
    wrong = [
        f"{playbook.id} explains {other}"
        for playbook in library()
        for other in playbook.explains - ids
    ]
    for path in playbook_files():
        target = yaml.safe_load(path.read_text()).get("leads_to")
        if target is not None and target not in ids:
            wrong.append(f"{path.stem} leads to {target}")
    assert not wrong


def test_nothing_explains_itself_in_a_circle() -> None:
    """Two findings that explain each other would both be hidden."""
    explains = {playbook.id: playbook.explains for playbook in library()}

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            new = explains.get(todo.pop(), frozenset()) - seen
            seen |= new
            todo += new
        return seen

    assert [failure for failure in explains if failure in reach(failure)] == []


def test_every_failure_says_what_to_do() -> None:
    """A fix, advice for a person, or the playbook that it leads to."""
    silent = []
    for path in playbook_files():
        data = yaml.safe_load(path.read_text())
        if data["role"] != "cascade" and not {"fix", "advice", "leads_to"} & set(data):
            silent.append(path.stem)
    assert not silent
