"""The watch goes on, and loses no incident, while the journal has no room."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bs4_agent.daemon import Daemon
from bs4_agent.observe.watcher import Watcher
from bs4_common.errors import SpoolFull
from bs4_common.failures.engine import Transition
from bs4_common.failures.facts import Finding
from bs4_common.states import Transit


def transition(event: Transit) -> Transition:
    found = Finding(
        failure="disk-full",
        run="demo",
        attempt=1,
        summary="No space left on device",
        evidence=[],
        anchor="line 7",
    )
    playbook: Any = SimpleNamespace(
        id="disk-full", title="The disk is full", role="root", severity="critical", where="pod"
    )
    playbook.fix = ["relaunch"]
    return Transition(event, "i1", found, playbook)


class Watched:
    """A watch over a pod on which each scan finds the next of `scans`. `full` says whether the
    journal has no room.
    """

    def __init__(self, *scans: Sequence[Transition]) -> None:
        self.full = True
        self.told: list[str] = []
        self.acted: list[str] = []
        left = iter(scans)
        pod: Any = SimpleNamespace(
            on_resolved=lambda forget: None,
            collect_facts=lambda: SimpleNamespace(coverage=[]),
        )
        engine: Any = SimpleNamespace(evaluate=lambda facts: next(left, ()), faults=())
        book: Any = SimpleNamespace(
            append=self.append, ledger=SimpleNamespace(open_incidents=lambda: ())
        )
        recoveries = SimpleNamespace(opened=lambda incident, run, playbook: self.act(incident))
        actions: Any = SimpleNamespace(recoveries=recoveries)
        self.watcher = Watcher(pod, engine, book, actions)

    def append(self, type_: str, /, *, sync: bool, event: str, **fields: Any) -> None:
        assert (type_, sync) == ("incident", True)
        if self.full:
            raise SpoolFull("The disk is full.")
        self.told.append(event)

    def act(self, incident: str) -> None:
        self.acted.append(incident)


def test_an_incident_that_opens_on_a_full_disk_is_told_and_acted_on_once_there_is_room() -> None:
    demo = Watched([transition("opened")], *[[transition("updated")]] * 100)
    for _ in range(100):
        demo.watcher.poll()
    assert (demo.told, demo.acted) == ([], [])
    demo.full = False
    demo.watcher.poll()
    assert (demo.told, demo.acted) == (["opened", "updated"], ["i1"])


def test_an_incident_that_is_over_before_there_is_room_is_told_and_not_acted_on() -> None:
    demo = Watched([transition("opened")], [transition("cleared")])
    demo.watcher.poll()
    demo.watcher.poll()
    demo.full = False
    demo.watcher.poll()
    assert (demo.told, demo.acted) == (["opened", "cleared"], [])


def test_an_action_that_finds_no_room_takes_no_incident_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demo = Watched([transition("opened"), transition("updated")])
    demo.full = False

    def no_room(incident: str) -> None:
        raise SpoolFull("The disk is full.")

    monkeypatch.setattr(demo, "act", no_room)
    with pytest.raises(SpoolFull):
        demo.watcher.poll()
    demo.watcher.poll()
    assert demo.told == ["opened", "updated"]


def test_a_thread_whose_defect_cannot_be_journalled_is_begun_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bs4_agent.daemon.FAULT_PAUSE_S", 0.0)
    begun = 0

    def work(stop: threading.Event) -> None:
        nonlocal begun
        begun += 1
        if begun == 3:
            stop.set()
            return
        raise SpoolFull("The disk is full.")

    def append(type_: str, /, **fields: Any) -> None:
        raise SpoolFull("The disk is full.")

    daemon = SimpleNamespace(_stop=threading.Event(), book=SimpleNamespace(append=append))
    Daemon._supervised(cast(Daemon, daemon), "watcher", work)
    assert begun == 3


@pytest.mark.parametrize(
    ("due", "rung", "waits"),
    [
        pytest.param(None, False, [3.0], id="nothing"),
        pytest.param(100.2, False, [0.2], id="a hold that ends soon after a scan"),
        pytest.param(100.01, False, [0.05], id="a hold that ends with that scan"),
        pytest.param(99.0, False, [0.4], id="a hold whose end was scanned already"),
        pytest.param(100.2, True, [0.2, 0.2, 0.0], id="a line before the end of a hold"),
        pytest.param(None, True, [3.0, 0.4, 0.0], id="a line and no hold"),
    ],
)
def test_a_hold_ends_on_time_even_if_a_scan_came_just_before(
    monkeypatch: pytest.MonkeyPatch, due: float | None, rung: bool, waits: list[float]
) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> tuple[bool, list[Any]]:
        waited.append(round(seconds, 6))
        return rung, []

    demo = Watched()
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr("bs4_agent.observe.watcher.time", clock)
    monkeypatch.setattr(demo.watcher, "_engine", SimpleNamespace(due=lambda: due))
    monkeypatch.setattr(demo.watcher, "_alarm", SimpleNamespace(wait=wait))
    stop: Any = SimpleNamespace(wait=lambda seconds: waited.append(round(seconds, 6)))
    assert demo.watcher._wait(100.0, stop) == []
    assert waited == waits
