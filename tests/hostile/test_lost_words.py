"""The journal has a marker in place of a secret, and the whole record lies in a file of its own.
When that file is lost, the agent must not act on the marker, as if a person had written it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.checkpoints.sync import Syncs
from bs4_agent.checkpoints.sync_order import SyncOrder, order_fields
from bs4_agent.credentials.held import HeldSecrets
from bs4_agent.paths import Home
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.errors import Refused
from bs4_common.failures.compiled import Library
from bs4_common.journal import Journal
from bs4_common.streams.segments import SegmentStream
from bs4_common.withheld import Withheld
from tests.agent.setup.places import RECIPE

SECRET = "hf_cAnAry" + "a1B2c3D4e5" * 3
PLACE = f"b2://bucket/{SECRET}"
SHOWN = "b2://bucket/[redacted: a Hugging Face token]"


class Life:
    """One life of an agent: its journal, what it withholds, its actions and its orders."""

    def __init__(self, home: Home, journal_bytes: int = 1 << 22) -> None:
        self.home = home
        self.stream = SegmentStream(home.state / "journal", journal_bytes, journal_bytes // 4)
        self.book = Book(
            Journal(self.stream, Withheld(home.withheld, HeldSecrets(home).redacted_values))
        )
        scope = Scope.from_environment()
        runs = Runs(home, scope, self.book, ProcessTable(scope))
        pod: Any = SimpleNamespace(runs=runs, book=self.book, hard_nofile=lambda: 1024)
        self.actions = Actions(
            pod, Library(b'{"playbooks": []}'), self.book, self.stream, lambda body: None
        )
        self.syncs = Syncs(pod, self.book)

    def close(self) -> None:
        self.actions.executor.join(30.0)
        self.stream.close()


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    home = Home(tmp_path / "home")
    home.create()
    made = Life(home)
    yield made
    made.close()


def after_the_loss(life: Life) -> Life:
    """The next life of an agent whose withheld records were lost."""
    assert list(life.home.withheld.iterdir()) != []
    life.close()
    shutil.rmtree(life.home.withheld)
    return Life(life.home)


def test_nothing_is_copied_to_a_place_whose_words_were_lost(life: Life) -> None:
    life.book.append(
        "sync", run="demo", event="ordered", who="alice", **order_fields({"to": PLACE})
    )
    heir = after_the_loss(life)
    assert heir.book.ledger.syncs["demo"].order["to"] == SHOWN
    heir.syncs.round()
    heir.syncs.round()
    assert heir.syncs._jobs == {}
    failed = [record for record in heir.book.records() if record.get("event") == "failed"]
    assert [record["error"] for record in failed] == ["refused"]
    assert "give the order again, with the secret itself" in failed[0]["detail"]
    heir.close()


def test_an_order_with_what_a_screen_shows_in_place_of_a_secret_is_refused() -> None:
    with pytest.raises(Refused, match="give the order again"):
        order_fields({"to": SHOWN})
    with pytest.raises(Refused, match="give the order again"):
        SyncOrder.of({"to": SHOWN})
    assert SyncOrder.of(order_fields({"to": PLACE})) == SyncOrder(to=PLACE)
    assert SyncOrder.of(order_fields({"off": True, "to": SHOWN})) is None


ASKED = {"run": "demo", "source": PLACE, "step": None}
PLANS: dict[str, dict[str, Any]] = {
    "setup": {"recipe": {**RECIPE, "repository": f"https://{SECRET}@example.org/x"}, "steps": []},
    "restore": {
        "asked": ASKED,
        "resume": 5,
        "identity": "x",
        "steps": [],
        **{key: [] for key in ("skipped", "notes", "launch")},
        **dict.fromkeys(("bytes", "missing", "free"), 1),
    },
    "merge": {
        "playbook": "merge",
        "asked": {"run": "demo", "step": 5, "target": f"/data/{SECRET}"},
        "step": 5,
        "source": f"/data/{SECRET}",
        "target": f"/data/{SECRET}",
        "cwd": "/data",
        "commands": [["merge", SECRET]],
        "inside": False,
        "files": {},
        "bytes": 1,
        "needed": 1,
        "notes": [],
    },
}
PLANS["backup"] = {**PLANS["merge"], "playbook": "backup"}


@pytest.mark.parametrize("kind", list(PLANS))
def test_what_was_under_way_does_not_go_on_with_lost_words(life: Life, kind: str) -> None:
    life.book.append(
        "action",
        action="K1",
        kind=kind,
        who="alice",
        run="" if kind == "setup" else "demo",
        event="accepted",
        body={"kind": kind, "plan": PLANS[kind]},
    )
    heir = after_the_loss(life)
    heir.actions.resume()
    action = heir.book.ledger.actions["K1"]
    assert action.state == "interrupted", action.detail
    assert "stands in place of a secret that is not on the pod any more" in action.detail
    heir.close()


def test_what_is_withheld_goes_when_its_record_leaves_the_journal(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    life = Life(home, 64 * 1024)
    life.book.append("plan", action="K1", playbook="setup", plan={"words": [SECRET]})
    (kept,) = home.withheld.iterdir()
    text = "x" * 2000
    while life.stream.oldest == 1:
        assert kept.exists()
        life.book.append("note", run="demo", text=text, who="alice")
    assert not kept.exists()
    life.book.append("plan", action="K2", playbook="setup", plan={"words": [SECRET]})
    for _ in range(3):
        life.book.append("note", run="demo", text=text, who="alice")
    assert len(list(home.withheld.iterdir())) == 1, "what the journal has stays"
    life.close()


def test_nothing_is_withheld_of_a_record_that_the_disk_did_not_take(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(line: bytes, *, sync: bool = False) -> str:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(life.stream, "append_line", broken)
        with pytest.raises(OSError, match="Input/output error"):
            life.book.append("plan", action="K1", playbook="setup", plan={"words": [SECRET]})
    assert list(life.home.withheld.iterdir()) == []


def test_a_record_that_is_on_disk_is_no_error_because_nothing_could_be_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller would take back what the journal says, and a restart would carry it out."""
    home = Home(tmp_path / "home")
    home.create()
    life = Life(home, 64 * 1024)

    def lines() -> Iterator[tuple[str, bytes]]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(life.stream, "lines", lines)
    while life.stream.oldest == 1:
        life.book.append("note", run="demo", text="x" * 2000, who="alice")
    assert life.stream.oldest > 1
    life.close()
