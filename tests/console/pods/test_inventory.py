"""The inventory file: what is written, what a person's own edits survive, and what each mistake
says.
"""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import pytest

from bs4_console import locations
from bs4_console.errors import UsageError
from bs4_console.pods.inventory import Inventory, Pod


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    return Inventory(tmp_path / "conf" / "pods.toml")


def test_a_pod_comes_back_as_it_was_added(inventory: Inventory) -> None:
    pod = Pod(
        name="h100.a",
        host="192.0.2.7",
        port=22022,
        user="root",
        identity_file="~/.ssh/id_ed25519",
        jump="ops@203.0.113.1:2222",
        ssh_config=False,
        read_only=True,
        tags=("exp-7", "eu"),
        provider="runpod",
        instance="abc123",
        notes='says "hi"',
    )
    inventory.add(pod)
    inventory.add(Pod(name="plain", host="198.51.100.4"))
    assert inventory.get("h100.a") == pod
    assert [entry.name for entry in inventory.list()] == ["h100.a", "plain"]


def test_the_file_is_private_and_an_empty_inventory_needs_none(inventory: Inventory) -> None:
    assert inventory.list() == ()
    assert not inventory.path.exists()
    inventory.add(Pod(name="a", host="192.0.2.1"))
    assert stat.S_IMODE(inventory.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(inventory.path.parent.stat().st_mode) == 0o700


def test_comments_and_order_of_the_person_stay(inventory: Inventory) -> None:
    inventory.path.parent.mkdir()
    inventory.path.write_text(
        '# my pods\n[pods.one]\nhost = "192.0.2.1"  # paid until Friday\n\n[pods.two]\nhost = '
        '"192.0.2.2"\n\n'
        '[pods.three]\nhost = "192.0.2.3"\n'
    )
    inventory.add(Pod(name="four", host="192.0.2.4"))
    removed = inventory.remove("two")
    text = inventory.path.read_text()
    assert removed.host == "192.0.2.2"
    assert "# my pods" in text
    assert "# paid until Friday" in text
    assert [pod.name for pod in inventory.list()] == ["one", "three", "four"]


def test_a_linked_file_stays_a_link(inventory: Inventory, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text("")
    inventory.path.parent.mkdir()
    inventory.path.symlink_to(target)
    inventory.add(Pod(name="a", host="192.0.2.1"))
    assert inventory.path.is_symlink()
    assert "192.0.2.1" in target.read_text()


def test_an_unknown_pod_names_the_nearest(inventory: Inventory) -> None:
    with pytest.raises(UsageError, match="inventory is empty"):
        inventory.get("a100")
    inventory.add(Pod(name="a100-eu", host="192.0.2.1"))
    with pytest.raises(UsageError, match="Did you mean 'a100-eu'"):
        inventory.get("a100eu")
    with pytest.raises(UsageError, match="no pod named"):
        inventory.remove("zzz")


def test_a_name_is_taken_once(inventory: Inventory) -> None:
    inventory.add(Pod(name="a", host="192.0.2.1"))
    with pytest.raises(UsageError, match="already there"):
        inventory.add(Pod(name="a", host="192.0.2.2"))
    assert inventory.get("a").host == "192.0.2.1"


@pytest.mark.parametrize("name", ["", "-rf", "a b", "a/b", "$(id)", "a\n", "x" * 64, ".hidden"])
def test_names_that_could_be_something_else_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a pod"):
        Pod(name=name, host="192.0.2.1")


@pytest.mark.parametrize(
    "values",
    [
        {"host": "-oProxyCommand=x"},
        {"host": "a b"},
        {"host": "h", "user": "$(id)"},
        {"host": "h", "jump": "-J"},
        {"host": "h", "port": 0},
    ],
)
def test_values_that_ssh_would_misread_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="Pod a:"):
        Pod(name="a", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pods = [", "not valid TOML"),
        ("pods = 3", "not a table"),
        ("[pods]\na = 1", "pods.a is not a table"),
        ("[pods.a]\nprot = 22", "Did you mean 'port'"),
        ("[pods.a]\nport = 22", "has no host"),
        ('[pods.a]\nhost = "h"\nport = "22"', "not of type int"),
        ('[pods.a]\nhost = "h"\nport = true', "not of type int"),
        ('[pods.a]\nhost = "h"\nhost = "i"', "not valid TOML"),
        ('[pods.a]\nhost = "h"\nprice = 1' + "0" * 400, "not of type float"),
        ("a = " + "[" * 3_000, "not valid TOML"),
        ("a = 1" + "0" * 5_000, "not valid TOML"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(
    inventory: Inventory, text: str, says: str
) -> None:
    inventory.path.parent.mkdir()
    inventory.path.write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        inventory.list()
    assert str(inventory.path) in caught.value.message
    assert caught.value.next_step
    assert inventory.path.read_text() == text


@pytest.mark.parametrize("price", ["nan", "inf", "-inf"])
def test_a_price_is_a_finite_number(inventory: Inventory, price: str) -> None:
    inventory.path.parent.mkdir()
    inventory.path.write_text(f'[pods.a]\nhost = "h"\nprice = {price}')
    with pytest.raises(UsageError, match=f"Pod a: {price} is not a price"):
        inventory.list()


def _add(path: Path, name: str) -> None:
    Inventory(path).add(Pod(name=name, host="192.0.2.1"))


def test_consoles_that_add_at_the_same_moment_lose_nothing(inventory: Inventory) -> None:
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=_add, args=(inventory.path, f"pod{number}")) for number in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
    assert sorted(pod.name for pod in inventory.list()) == [f"pod{number}" for number in range(8)]


def test_places_can_be_moved_and_are_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path / "c"))
    monkeypatch.setenv("BS4_DATA_DIR", str(tmp_path / "d"))
    assert Inventory().path == tmp_path / "c" / "pods.toml"
    assert locations.data_dir() == tmp_path / "d"
    monkeypatch.delenv("BS4_CONFIG_DIR")
    monkeypatch.delenv("BS4_DATA_DIR")
    assert locations.config_dir().name == "bs4-console"
