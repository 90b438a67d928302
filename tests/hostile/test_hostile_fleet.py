"""One hostile pod of each kind beside two honest ones in the console of a real terminal, and each
kind of lie alone: what its row says.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

from bs4_console import ceilings
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.ssh import SshTransport
from bs4_console.tui.clock import Clock
from bs4_console.tui.status import wrong
from bs4_console.tui.views.fleet import readable_rows
from tests.hostile import beside, liar
from tests.support import keys
from tests.support.pod import NotHere
from tests.support.transports import describe

#: Those that the quick version leaves out are as likely to be found by the tests of one lie alone.
QUICK = ("endless-frames", "one-line", "many-streams", "no-answers", "odd-types", "another-home")


@pytest.mark.parametrize(
    "kind", ["endless-frames", "giant-frame", "odd-types", "many-streams", "disconnects", "gaps"]
)
async def test_the_row_says_what_is_wrong(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "GAPS_BYTES", 10_000)
    key, ca = keys.private_key(tmp_path / "id_test"), keys.private_key(tmp_path / "ca")
    try:
        pod = beside.HostilePod(kind, tmp_path / "pods", key, ca)
        await asyncio.to_thread(pod.start)
    except NotHere as reason:
        pytest.skip(str(reason))
    known = HostKeys(tmp_path / "known_hosts")
    known.pin(kind, pod.host_key)
    entry = describe(pod, name=kind)
    state = PodState(name=kind, address=entry.address)
    session = PodSession(
        state, lambda: SshTransport(entry, known), Mirror(tmp_path / "mirror"), "tester"
    )
    life = asyncio.create_task(session.run())
    clock = Clock()

    def first_phrase() -> str:
        phrases = wrong(state, None, clock)
        return phrases[0][0] if phrases else ""

    try:
        async with asyncio.timeout(60):
            while not re.search(liar.KINDS[kind], first_phrase()):
                await asyncio.sleep(0.02)
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
        await asyncio.to_thread(pod.close)


def test_a_pod_with_a_thousand_runs_has_a_hundred_rows() -> None:
    """They took half a second to draw, each second, and no key was answered meanwhile."""
    state = PodState(name="many")
    state.link.set("up")
    for number in range(1000):
        state.apply_journal(liar.registered(f"run{number}"))
    state.apply_journal(liar.incident("i") | {"run": "run3"})
    rows = readable_rows(state, Clock())
    assert len(rows) == 100
    assert {"run3", "run999"} <= {row.key[1] for row in rows}
    phrases = [phrase for phrase, _ in wrong(state, state.runs["run3"], Clock())]
    assert "100 of its 1,000 runs are shown here" in phrases


def test_all_homes_of_a_pod_count_for_its_ceiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that names another home at each connection had the whole ceiling for each of them."""
    monkeypatch.setattr(ceilings, "DISK_BYTES", 10_000)
    for number in range(20):
        mirror = Mirror(tmp_path)
        mirror.use(f"home{number}")
        mirror.append("journal", "1:0", "1:1000", b"x" * 999 + b"\n")
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.data")) <= 10_000
    assert "MiB here already" in mirror.over["journal"]


def test_a_past_that_changes_too_often_is_no_longer_kept(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path)
    mirror.use("home1")
    for number in range(1, 1000):
        (tmp_path / f"home1.{number}").mkdir()
    mirror.append("journal", "1:0", "1:2", b"{}\n")
    mirror.start_anew()
    assert "999 earlier states" in mirror.stopped


@pytest.mark.long
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_console_serves_keys_and_honest_pods_beside_hostile_ones() -> None:
    with beside.world(QUICK) as here:
        result = beside.measure(here, 20.0, tries=3)
        screen = here.terminal.shown()
    assert all(beside.claims(result).values()), f"{json.dumps(result, indent=1)}\n{screen}"
