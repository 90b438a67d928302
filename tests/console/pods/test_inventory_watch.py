"""A change of the inventory's file is noticed once, and only when nobody is writing it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bs4_console.errors import UsageError
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.inventory_watch import InventoryWatch


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    made = Inventory(tmp_path / "pods.toml")
    made.add(Pod(name="first", host="127.0.0.1"))
    return made


def names(watch: InventoryWatch) -> list[str] | None:
    pods = watch.poll()
    return None if pods is None else [pod.name for pod in pods]


def test_a_file_that_an_editor_has_emptied_does_not_count(inventory: Inventory) -> None:
    watch = InventoryWatch(inventory)
    whole = inventory.path.read_text()
    inventory.path.write_text("")
    assert names(watch) is None
    inventory.path.write_text(whole)
    # Written in the tick of the kernel's clock in which it was made, it would look untouched.
    os.utime(inventory.path, (1, 1))
    assert names(watch) is None
    assert names(watch) == ["first"]


def test_a_change_is_given_once(inventory: Inventory) -> None:
    watch = InventoryWatch(inventory)
    assert names(watch) is None
    inventory.add(Pod(name="second", host="127.0.0.1"))
    assert [names(watch) for _ in range(4)] == [None, ["first", "second"], None, None]


def test_a_file_that_stays_removed_has_no_pods(inventory: Inventory) -> None:
    watch = InventoryWatch(inventory)
    inventory.path.unlink()
    assert [names(watch) for _ in range(3)] == [None, [], None]


def test_a_broken_file_raises_once(inventory: Inventory) -> None:
    watch = InventoryWatch(inventory)
    inventory.path.write_text("[pods.second\n")
    assert names(watch) is None
    with pytest.raises(UsageError):
        names(watch)
    assert names(watch) is None
