"""A session with a real agent on this machine: first contact, a link that goes down, a console that
comes back, a pod made anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from bs4_common.wire import Decoder, encode
from bs4_console.errors import (
    ChannelLost,
    HostKeyChanged,
    NoAgent,
    RefusedError,
    RemoteError,
    Unreachable,
)
from bs4_console.pods import reader
from bs4_console.pods import session as module
from bs4_console.pods.inventory import Pod
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.paths import ask_paths
from bs4_console.pods.port import Completed, Duplex
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.transport import bundle
from bs4_console.transport.local import LocalTransport

pytestmark = [pytest.mark.long, pytest.mark.beside]

LONG_S = 60.0


async def until(condition: Callable[[], Any], what: str = "", timeout: float = LONG_S) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, what or "waited in vain"
        await asyncio.sleep(0.01)


class Agent:
    """The real agent in a home of its own, and the wire to it, which can be cut. Says what went
    over it.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.cut = False
        self.said: list[dict[str, Any]] = []
        self._open: list[Wire] = []
        # Scoped to a subtree without runs: what else this machine runs is none of the test's
        # business.
        self._environment = {"BS4_HOME": str(home), "BS4_DEV": str(home / "dev")}
        self._pids: set[int] = set()

    def transport(self) -> Line:
        return Line(self)

    def unplug(self) -> None:
        self.cut = True
        for wire in self._open:
            wire.lost.set()

    def plug(self) -> None:
        self.cut = False

    def kill(self) -> None:
        """kill -9 of every agent process that was met."""
        for pid in self._pids:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if str(self.home) in (process.environ().get("BS4_HOME") or ""):
                    process.kill()
                    # A zombie is over; whoever is pid 1 here may take seconds to collect it.
                    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                        time.sleep(0.005)
        self._pids.clear()

    @property
    def journal(self) -> list[dict[str, Any]]:
        """Every whole record; the agent may be writing another at this moment."""
        paths = sorted((self.home / "state" / "journal").glob("*.ndjson"))
        return [json.loads(line) for path in paths for line in path.read_bytes().split(b"\n")[:-1]]

    def submitted(self, kind: str) -> list[dict[str, Any]]:
        return [
            header["action"]
            for header in self.said
            if header.get("call") == "submit" and header["action"]["kind"] == kind
        ]


class Line:
    """pods.port.Transport: the local one, unless the wire is cut."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._real = LocalTransport(
            Pod(name="here", host="localhost", provider="local"), environment=agent._environment
        )

    async def open(
        self, progress: Callable[[str], None], *, deploy: bool = True, first: bytes = b""
    ) -> Duplex:
        if self._agent.cut:
            raise Unreachable("The wire is cut.", "Plug it in.")
        wire = Wire(self._agent, await self._real.open(progress, deploy=deploy, first=first))
        self._agent.said += [frame.header for frame in Decoder().feed(first)]
        self._agent._open.append(wire)
        return wire

    async def run(self, argv: Any, *, stdin: bytes = b"", timeout: float = 30.0) -> Completed:
        return await self._real.run(argv, stdin=stdin, timeout=timeout)

    async def close(self) -> None:
        await self._real.close()


class Wire:
    def __init__(self, agent: Agent, real: Duplex) -> None:
        self._agent, self._real = agent, real
        self._decoder = Decoder()
        self._answers = Decoder()
        self.lost = asyncio.Event()

    async def read(self) -> bytes:
        reading, cut = (
            asyncio.ensure_future(self._real.read()),
            asyncio.ensure_future(self.lost.wait()),
        )
        try:
            await asyncio.wait((reading, cut), return_when=asyncio.FIRST_COMPLETED)
            if self.lost.is_set():
                raise ChannelLost("The wire was cut.", "Plug it in.")
            data = reading.result()
        finally:
            reading.cancel()
            cut.cancel()
        for frame in self._answers.feed(data):
            if "hello" in frame.header:
                self._agent._pids.add(frame.header["hello"]["pid"])
        return data

    async def write(self, data: bytes) -> None:
        if self.lost.is_set():
            raise ChannelLost("The wire was cut.", "Plug it in.")
        self._agent.said += [frame.header for frame in self._decoder.feed(data)]
        await self._real.write(data)

    async def close(self) -> None:
        await self._real.close()


@pytest.fixture
def agent() -> Iterator[Agent]:
    """A short path: a unix socket lies below it."""
    with contextlib.suppress(Exception):
        bundle.shipped()
    directory = Path(tempfile.mkdtemp(prefix="bs4-"))
    made = Agent(directory / "h")
    yield made
    made.kill()
    shutil.rmtree(directory)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF", (0.05,))
    monkeypatch.setattr(reader, "BACKFILL_PAUSE_S", 0.001)


@contextlib.asynccontextmanager
async def watching(
    agent: Agent, mirror: Path | None, *, synced: bool = True
) -> AsyncIterator[PodSession]:
    session = PodSession(PodState(name="here"), agent.transport, Mirror(mirror), "tester")
    life = asyncio.create_task(session.run())
    try:
        if synced:
            await session.synced(LONG_S)
        yield session
        assert not life.done(), life
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
        await session.close()


def mirrored(root: Path) -> list[dict[str, Any]]:
    return list(Mirror(root).records("journal"))


async def filled(session: PodSession, count: int, size: int = 40_000) -> None:
    """`count` actions of `size` bytes in the journal; each ends at once, as there is nothing to
    adopt.
    """
    for _ in range(count):
        key = await session.submit("adopt", pid=-1, run="", padding="x" * size)
        async for _action in session.follow_action(key):
            pass


async def test_first_contact_then_a_cut_then_back_everything_once_and_nothing_forgotten(
    agent: Agent, tmp_path: Path
) -> None:
    async with watching(agent, tmp_path) as session:
        state = session.state
        assert state.ledger.agent["event"] == "started"
        assert state.latest["host"]["mem_total"] > 0
        assert not state.stale
        await until(lambda: mirrored(tmp_path) == agent.journal, "the whole journal here")
        agent.unplug()
        await until(lambda: state.link.state == "unreachable")
        assert state.link.detail == "The wire is cut."
        assert state.ledger.agent["event"] == "started"
        assert state.telemetry
        age = state.age() or 0.0
        await until(lambda: state.link.attempts > 3)
        assert (state.age() or 0.0) > age
        with pytest.raises(Unreachable, match=r"The wire is cut\."):
            await session.query("telemetry", "stat")
        agent.plug()
        await until(lambda: state.link.up and (state.age() or 9) < 1)
        await session.synced(LONG_S)
        assert f"{tmp_path}/" in (await ask_paths(session, f"{tmp_path}")).names, (
            "the agent lists its files"
        )
        times = [record["m"] for record in state.telemetry]
        assert times == sorted(set(times))
        await until(lambda: state.ledger.last_seq == agent.journal[-1]["seq"], "the newest record")
        await until(
            lambda: [r["seq"] for r in mirrored(tmp_path)] == [r["seq"] for r in agent.journal],
            "every record once",
        )


async def test_a_console_that_comes_back_shows_what_it_knew_with_its_age(
    agent: Agent, tmp_path: Path
) -> None:
    async with watching(agent, tmp_path) as session:
        known = session.state.ledger.last_seq
    agent.cut = True
    async with watching(agent, tmp_path, synced=False) as session:
        await until(lambda: session.state.link.state == "unreachable")
        assert session.state.ledger.last_seq == known
        assert session.state.telemetry
        age = session.state.age()
        assert age is not None
        assert 0 < age < 60
        agent.plug()
        session.retry_now()
        await session.synced(LONG_S)
        # Nothing was asked for twice: reading went on behind what was held.
        reads = [
            h["cursor"] for h in agent.said if h.get("call") == "read" and h["stream"] == "journal"
        ]
        assert reads.count("start") == 1


async def test_a_pod_made_anew_under_the_same_name_is_another_pod(
    agent: Agent, tmp_path: Path
) -> None:
    async with watching(agent, tmp_path) as session:
        first = session.mirror.home
        await filled(session, 2, 100)
        assert len(session.state.ledger.actions) == 2
        agent.unplug()
        agent.kill()
        shutil.rmtree(agent.home)
        agent.plug()
        await until(lambda: session.state.link.up and session.mirror.home != first, "the new home")
        await session.synced(LONG_S)
        assert session.state.ledger.actions == {}
        await until(
            lambda: session.state.ledger.last_seq == agent.journal[-1]["seq"], "the newest record"
        )
        second = session.mirror.home
        await until(lambda: mirrored(tmp_path) == agent.journal, "the whole journal here")
    assert (tmp_path / "home").read_text() == second
    old = Mirror(tmp_path)
    old.use(first)
    assert (
        sum(
            record["type"] == "action" and record["event"] == "accepted"
            for record in old.records("journal")
        )
        == 2
    )


async def test_an_agent_whose_disk_was_set_back_is_read_anew(agent: Agent, tmp_path: Path) -> None:
    async with watching(agent, tmp_path) as session:
        await session.synced(LONG_S)
        snapshot = agent.home.with_name("snapshot")
        shutil.copytree(agent.home / "state" / "journal", snapshot)
        await filled(session, 3, 5_000)
        agent.unplug()
        agent.kill()
        shutil.rmtree(agent.home / "state" / "journal")
        snapshot.rename(agent.home / "state" / "journal")
        agent.plug()
        await until(
            lambda: session.state.link.up and not session.state.ledger.actions,
            "the journal as it is now",
        )
        await session.synced(LONG_S)
        await until(
            lambda: session.state.ledger.last_seq == agent.journal[-1]["seq"], "the newest record"
        )
        await until(lambda: mirrored(tmp_path) == agent.journal, "the whole journal here")
        assert (tmp_path / f"{session.mirror.home}.1").is_dir()


async def test_the_journal_is_released_as_far_as_it_is_held_and_only_by_who_keeps_it(
    agent: Agent, tmp_path: Path
) -> None:
    async with watching(agent, None) as session:
        await filled(session, 1)
    assert agent.submitted("release") == []
    async with watching(agent, tmp_path) as session:
        assert agent.submitted("release") == []
        await filled(session, 27)
        await until(lambda: agent.submitted("release"))
        (release,) = agent.submitted("release")
        assert (release["stream"], release["cursor"].split(":")[0]) == ("journal", "2")
        held = session.mirror.cursor("journal")
    async with watching(agent, tmp_path) as session:
        await until(lambda: len(agent.submitted("release")) > 1, "the second release")
        assert [r["cursor"] for r in agent.submitted("release")[1:]] == [held]
        assert session.state.link.up
        assert len(session.state.ledger.actions) == 28
        await until(lambda: mirrored(tmp_path) == agent.journal, "the whole journal here")
    assert not any(record.get("kind") == "release" for record in agent.journal)


async def test_telemetry_of_the_time_nobody_watched_is_kept_too(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "FIRST_SAMPLES", 1)
    async with watching(agent, None) as session:
        await until(lambda: len(session.state.telemetry) > 3)
    async with watching(agent, tmp_path) as session:
        path = agent.home / "state/telemetry/00000001.ndjson"
        copy = tmp_path / session.mirror.home / "telemetry/1.data"
        await until(
            lambda: (
                copy.exists()
                and b"\0" not in (held := copy.read_bytes())
                and held.count(b"\n") > max(3, len(session.state.telemetry))
            ),
            "more here than this session has followed",
        )
        held = copy.read_bytes()
        await until(lambda: path.read_bytes().startswith(held), "what the pod has")


async def test_a_full_disk_here_is_noted_and_the_watch_goes_on(
    agent: Agent, tmp_path: Path
) -> None:
    (tmp_path / "pods").write_text("a file where the directory should be")
    async with watching(agent, tmp_path / "pods" / "here") as session:
        assert "no longer kept" in session.state.notes["mirror"]
        assert session.state.ledger.agent
        assert not session.state.stale


async def test_read_only_refuses_to_act(agent: Agent) -> None:
    async with watching(agent, None) as session:
        session.state.read_only = True
        with pytest.raises(RefusedError, match="read-only"):
            await session.submit("adopt")


async def test_an_action_names_the_home_that_was_seen(agent: Agent, tmp_path: Path) -> None:
    """A plan's own home goes first; a plan of an older agent has none, so the present one stands
    for it.
    """
    async with watching(agent, tmp_path) as session:
        home = (agent.home / "id").read_text()
        assert session.home == home
        await session.submit("adopt", pid=-1)
        for plan_hash, named in (("a" * 64, "01ANOTHER"), ("b" * 64, "")):
            record = {"t": 0.0, "b": "boot", "action": "k", "playbook": "launch", "run": "demo"}
            session.state.ledger.apply(
                {**record, "type": "plan", "plan_hash": plan_hash, "home": named}
            )
        for plan_hash, sentence in (("a" * 64, "another pod"), ("b" * 64, "No plan has the hash")):
            with pytest.raises(RemoteError, match=sentence):
                await session.submit("launch", run="demo", plan_hash=plan_hash)
        assert [body["home"] for body in agent.submitted("adopt")] == [home]
        assert [body["home"] for body in agent.submitted("launch")] == ["01ANOTHER", home]


async def test_a_submission_whose_link_is_lost_under_it_is_made_again_and_happens_once(
    agent: Agent, tmp_path: Path
) -> None:
    async with watching(agent, tmp_path) as session:
        channel = await session.connected(1.0)

        async def lost(action: Any) -> Any:
            await type(channel).submit(channel, action)
            agent.unplug()
            await until(lambda: not session.state.link.up)
            agent.plug()
            raise ChannelLost("The answer never came.", "")

        channel.submit = lost  # type: ignore[method-assign]
        key = await session.submit("adopt", pid=-1)
        async for _ in session.follow_action(key):
            pass
        assert [a["key"] for a in agent.submitted("adopt")] == [key, key]
        assert sum(r["type"] == "action" and r["event"] == "accepted" for r in agent.journal) == 1


async def test_a_command_gets_the_first_error_at_once_and_a_lost_link_back_in_time(
    agent: Agent, tmp_path: Path
) -> None:
    never = PodSession(PodState(name="here"), agent.transport, Mirror(None), "tester", deploy=False)
    with pytest.raises(NoAgent):
        await never.run_once(60.0)
    patient = PodSession(PodState(name="here"), agent.transport, Mirror(None), "tester")
    life = asyncio.create_task(patient.run_once(LONG_S))
    await patient.synced(LONG_S)
    agent.unplug()
    await until(lambda: patient.state.link.state == "unreachable")
    agent.plug()
    await until(lambda: patient.state.link.up)
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
    brief = PodSession(PodState(name="here"), agent.transport, Mirror(None), "tester")
    life = asyncio.create_task(brief.run_once(1.0))
    await brief.synced(LONG_S)
    agent.unplug()
    with pytest.raises(Unreachable, match="The wire is cut"):
        await asyncio.wait_for(life, LONG_S)


async def test_waiting_for_the_first_state_outlasts_a_link_that_is_lost_meanwhile(
    agent: Agent,
) -> None:
    """Each of the first wires is cut in the middle of another answer."""
    session = PodSession(PodState(name="here"), agent.transport, Mirror(None), "tester")
    cuts = ["greeting", "telemetry"]

    class Cutting(Line):
        async def open(
            self, progress: Callable[[str], None], *, deploy: bool = True, first: bytes = b""
        ) -> Duplex:
            wire = await super().open(progress, deploy=deploy, first=first)
            if cuts:
                place, read, write = cuts.pop(0), wire.read, wire.write

                async def cut_behind_the_greeting() -> bytes:
                    data = await read()
                    agent._open[-1].lost.set()
                    return data

                async def cut_at_the_telemetry(data: bytes) -> None:
                    await write(data)
                    if any(f.header.get("stream") == place for f in Decoder().feed(data)):
                        agent._open[-1].lost.set()

                if place == "greeting":
                    wire.read = cut_behind_the_greeting  # type: ignore[method-assign]
                else:
                    wire.write = cut_at_the_telemetry  # type: ignore[method-assign]
            return wire

    session._transport = lambda: Cutting(agent)
    life = asyncio.create_task(session.run_once(30.0))
    try:
        await session.synced(LONG_S)
        assert not cuts
        assert session.state.link.up
        await until(
            lambda: session.state.ledger.last_seq == agent.journal[-1]["seq"], "the newest record"
        )
        agent.unplug()
        await until(lambda: session.state.link.state == "unreachable")
        with pytest.raises(Unreachable, match=r"The wire is cut\."):
            await session.synced(0.5)
        assert not life.done()
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


async def test_no_count_of_cancellations_is_left_behind_by_a_lost_link(agent: Agent) -> None:
    """Pythons 3.11.0 to 3.11.3 raise CancelledError instead of TimeoutError in a task that has one:
    the pod would never come back.
    """
    async with watching(agent, None) as session:
        (life,) = [
            task
            for task in asyncio.all_tasks()
            if getattr(task.get_coro(), "__name__", "") == "run"
        ]
        for _ in range(3):
            agent.unplug()
            await until(lambda: session.state.link.state == "unreachable")
            assert life.cancelling() == 0
            agent.plug()
            await until(lambda: session.state.link.up)
        await session.synced(LONG_S)


async def test_what_trying_again_cannot_mend_waits_for_a_person(agent: Agent) -> None:
    wrong = [True]

    class Changed(Line):
        async def open(
            self, progress: Callable[[str], None], *, deploy: bool = True, first: bytes = b""
        ) -> Duplex:
            if wrong[0]:
                raise HostKeyChanged("Another key.", "Ask.", "SHA256:a", "SHA256:b")
            return await super().open(progress, deploy=deploy, first=first)

    session = PodSession(PodState(name="here"), lambda: Changed(agent), Mirror(None), "tester")
    life = asyncio.create_task(session.run())
    try:
        await until(lambda: session.state.link.state == "HOST KEY CHANGED")
        assert session.state.link.retry_at is None
        with pytest.raises(Unreachable, match=r"Another key\."):
            await session.query("*", "list")
        assert session.state.link.attempts == 1
        wrong[0] = False
        session.retry_now()
        await session.synced(LONG_S)
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


class Odd:
    """What a hostile or broken pod may answer: streams with names that are paths, records that are
    none.
    """

    def __init__(self, journal: bytes) -> None:
        self._journal = journal
        self._decoder = Decoder()
        self._out: asyncio.Queue[bytes] = asyncio.Queue()

    async def open(
        self, progress: Callable[[str], None], *, deploy: bool = True, first: bytes = b""
    ) -> Duplex:
        await self.write(first)
        return self

    async def run(self, argv: Any, *, stdin: bytes = b"", timeout: float = 30.0) -> Completed:
        raise NotImplementedError

    async def read(self) -> bytes:
        return await self._out.get()

    async def write(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            header, payload = self._answer(frame.header)
            if header is not None:
                await self._out.put(encode(header, payload))

    async def close(self) -> None:
        return

    def _answer(self, asked: dict[str, Any]) -> tuple[dict[str, Any] | None, bytes]:
        if "hello" in asked:
            return {
                "hello": {
                    "protocol": 1,
                    "agent": "9",
                    "bundle": "x",
                    "python": "3",
                    "pid": 1,
                    "home": "../../x",
                    "t": "soon",
                }
            }, b""
        base = {"id": asked["id"], "ok": True}
        end = f"1:{len(self._journal)}"
        if asked["call"] == "read":
            if asked["stream"] == "journal" and asked["cursor"] == "start":
                return {
                    **base,
                    "start": "1:0",
                    "next": end,
                    "gap": None,
                    "partial": False,
                    "more": False,
                }, self._journal
            at = asked["cursor"] if ":" in asked["cursor"] else "1:0"
            return (None, b"") if asked["wait"] else ({**base, "start": at, "next": at}, b"")
        if asked["call"] == "ping":
            return {**base, "t": 1.0, "m": 1.0}, b""
        if asked["call"] == "query":
            streams = [{"name": "../../etc/passwd"}, {"name": 7}, "x", {"name": "steps/../../x"}]
            return {
                **base,
                "result": {
                    "cursor": "1:0",
                    "start": "1:0",
                    "end": end,
                    "streams": streams,
                    "next": None,
                },
            }, b""
        return base, b""


async def test_what_is_not_understood_is_noted_and_the_rest_is_taken(tmp_path: Path) -> None:
    records: list[Any] = [
        [1, 2],
        {"type": "run", "t": 1.0},
        {"type": "action", "t": 1.0, "event": "accepted"},
        {"type": "incident", "event": "opened", "incident": "i", "t": 1.0},
        {"type": "run", "event": "registered", "run": "../../x", "t": 1.0},
        {"type": "run", "event": "registered", "run": "fine", "t": 1.0, "seq": 5},
    ]
    data = (
        b"{not json\n"
        + b"".join(json.dumps(record).encode() + b"\n" for record in records)
        + b"[" * 5000
        + b"\n"
    )
    odd = Odd(data)
    session = PodSession(PodState(name="odd"), lambda: odd, Mirror(tmp_path / "m"), "tester")
    life = asyncio.create_task(session.run())
    try:
        await until(lambda: "fine" in session.state.runs)
        assert session.state.notes["journal"].startswith(
            "6 records of journal were refused, the first because it is not a JSON object;"
        )
        assert not life.done()
        assert session.state.link.up
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
    assert {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")} == {"m"}
