"""How well a pod's own version of the trainer is understood: its files come from the agent's own
reader, through the gate, and are parsed here. A pod that wants to do harm makes it unknown.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import time
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.preflight import source as agents
from bs4_common.wire import Frame
from bs4_console.errors import ChannelLost, ConsoleError, RemoteError
from bs4_console.pods.gate import replies
from bs4_console.pods.reading.greeting import query_call
from bs4_console.preflight import source
from bs4_console.preflight.checks import Check, Wanted
from bs4_console.trainers import known
from tests.console.trainers import acme

RUN = "src/acme/run.py"
START = Wanted(trainer="acme", config="rl.toml", pod="far")


@pytest.fixture(autouse=True)
def acme_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(known.BELIEVED, "acme", acme.BELIEVED)


class Agent:
    """Answers as the agent of a pod does that has these packages installed."""

    def __init__(self, *packages: Path) -> None:
        self.packages = packages
        self.asked: list[dict[str, Any]] = []

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        assert (stream, op) == ("preflight", "source")
        self.asked.append(parameters)
        header = {"result": json.loads(json.dumps(self.answer(parameters)))}
        request = query_call(stream, op, **parameters)
        result: dict[str, Any] = replies.check(request, Frame(header, b"")).header["result"]
        return result

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        return agents.read(Path(asked["cwd"]), self.packages, asked["files"], asked["after"])


async def understood(agent: Agent, cwd: Path) -> Check:
    (check,) = await source.understood(agent, dataclasses.replace(START, cwd=str(cwd)))
    assert check.id == "trainer-source"
    return check


async def test_a_version_of_which_everything_holds_is_well_understood(tmp_path: Path) -> None:
    check = await understood(agent := Agent(), acme.write(tmp_path))
    assert (check.state, check.fix) == ("ok", "")
    assert check.why == f"{tmp_path} is acme: 18 of 18 beliefs hold."
    assert agent.asked[0]["files"] == known.files([acme.BELIEVED])
    assert len(agent.asked) == 1


async def test_what_differs_is_a_warning_with_what_is_weaker_and_where_to_read_more(
    tmp_path: Path,
) -> None:
    check = await understood(Agent(), acme.write(tmp_path, run=("is done here", "is over here")))
    assert check.state == "warning"
    assert "17 of 18 beliefs hold, 1 moved. Weaker with it: what acme is good for." in check.why
    command = f"bs4-console trainers check --pod far --trainer acme --cwd {tmp_path}"
    assert check.fix == f"See what differs: `{command}`."


async def test_what_is_gone_from_its_place_may_be_in_a_file_that_was_not_read(
    tmp_path: Path,
) -> None:
    """The whole checkout would tell. What is read from the pod cannot."""
    root = acme.write(tmp_path, run=('    logger.success("Everything is done here")\n', ""))
    (root / "src/acme/other.py").write_text("logger.success('Everything is done here')\n")
    check = await understood(Agent(), root)
    assert (check.state, "17 of 18 beliefs hold, 1 unknown." in check.why) == ("warning", True)
    assert known.checked(root, "acme").counts["moved"] == 1


async def test_an_installed_package_is_found_where_it_is(tmp_path: Path) -> None:
    acme.write(tmp_path / "made")
    (tmp_path / "made" / "src").rename(tmp_path / "site-packages")
    check = await understood(Agent(tmp_path / "site-packages"), tmp_path / "mine")
    assert check.why.startswith(f"{tmp_path / 'site-packages'} is acme: 17 of 18 beliefs hold")
    assert check.state == "warning", "its pyproject.toml is not installed"


async def test_where_nothing_of_the_trainer_is_seen_it_is_unknown(tmp_path: Path) -> None:
    (check,) = await source.understood(Agent(), START)
    assert check.why.startswith("~/prime-rl is no checkout of acme")
    check = await understood(Agent(), tmp_path)
    assert check.state == "unknown"
    assert check.why.startswith(f"{tmp_path} is no checkout of acme: none of its files")
    acme.write(tmp_path)
    for name in known.files([acme.BELIEVED]):
        (tmp_path / name).write_text("(((\n")
    check = await understood(Agent(), tmp_path)
    assert (check.state, "0 of 18 beliefs hold" in check.why) == ("unknown", True)


async def test_without_a_trainer_nothing_is_asked() -> None:
    agent = Agent()
    assert await source.understood(agent, Wanted()) == []
    assert agent.asked == []


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RemoteError("bad-request", "'source' is no question of a preflight"), "is older than"),
        (RemoteError("refused", "It is not to be had."), "not to be had"),
        (ChannelLost("The connection ended.", "Connect again."), "The connection ended"),
    ],
)
async def test_what_cannot_be_asked_is_unknown(error: ConsoleError, why: str) -> None:
    class Refusing(Agent):
        def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
            raise error

    check = await understood(Refusing(), Path("acme"))
    assert (check.state, why in check.why) == ("unknown", True)


async def test_a_pod_that_never_answers_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Agent):
        async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(source, "_PREFLIGHT_S", 0.01)
    check = await asyncio.wait_for(understood(Silent(), Path("acme")), 60)
    assert (check.state, "did not come from the pod" in check.why) == ("unknown", True)


def packed(data: bytes) -> str:
    """Return contents as an agent sends them."""
    return base64.b64encode(zlib.compress(data)).decode()


LITTLE_BOMB = packed(b"#" * (2 << 20))
BOMB = packed(b"#" * (32 << 20))
ANSWERS = {
    "a bomb": {"files": [[RUN, BOMB]]},
    "no base64": {"files": [[RUN, "***"]]},
    "no zlib": {"files": [[RUN, "eHh4eHh4"]]},
    "zlib without its end": {"files": [[RUN, packed(b"x" * 999)[:8]]]},
    "no UTF-8": {"files": [[RUN, packed(b"\xff\xfe")]]},
    "so deep that a parser fails": {"files": [[RUN, packed(b"x = " + b"(" * 90_000)]]},
    "files that nobody asked for": {"files": [["../../etc/x.py", packed(b"x")]]},
    "always another part": {"files": [], "next": 0},
    "a part before the first": {"files": [], "next": -5},
    "a part behind the last": {"files": [], "next": 10**9},
    "a reason that acts on a terminal": {"files": [], "refused": [[RUN, "\x1b]0;x\x07" * 99]]},
    "a directory that acts on a terminal": {"root": "\x1b[2J", "files": [[RUN, packed(b"(")]]},
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_hostile_answer_is_unknown_soon(name: str) -> None:
    class Hostile(Agent):
        def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
            return {"root": "/a", "refused": [], "next": None, **ANSWERS[name]}

    began = time.monotonic()
    check = await understood(agent := Hostile(), Path("acme"))
    assert check.state == "unknown"
    assert "\x1b" not in check.why
    assert len(agent.asked) == 1
    assert time.monotonic() - began < 15


async def test_a_bomb_takes_no_memory_and_what_nobody_asked_for_is_not_taken() -> None:
    other = "src/acme/other.py"

    class Hostile(Agent):
        def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
            files = [[RUN, BOMB], [other, packed(b"x = 1")]]
            return {"root": "/a", "files": files, "refused": [], "next": None}

    tracemalloc.start()
    try:
        got = await source.received(Hostile(), [RUN], cwd="acme", container="", env={})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
    assert (got.code.has(RUN), got.code.has(other)) == (True, False)


async def test_a_bomb_takes_no_memory_wherever_the_limit_is_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A limit of 0 means none to zlib. Reasons are no part of what is counted."""

    class Hostile(Agent):
        def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
            files = [["a.py", packed(b"#" * 99)], ["b.py", LITTLE_BOMB]]
            return {"root": "/a", "files": files, "refused": [], "next": None}

    tracemalloc.start()
    try:
        for room in range(60):
            monkeypatch.setattr(source, "TOTAL_MOST", room)
            await source.received(Hostile(), ["a.py", "b.py"], cwd="acme", container="", env={})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


async def test_a_pod_can_lengthen_its_answer_only_by_what_was_asked_for() -> None:
    class Slow(Agent):
        def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
            return {"root": "/a", "files": [], "refused": [], "next": asked["after"] + 1}

    agent = Slow()
    await understood(agent, Path("acme"))
    assert len(agent.asked) == len(known.files([acme.BELIEVED]))


async def test_all_files_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Large(Agent):
        def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
            files = [[name, packed(b"#" * 600)] for name in asked["files"]]
            return {"root": "/a", "files": files, "refused": [], "next": None}

    monkeypatch.setattr(source, "TOTAL_MOST", 1000)
    names = known.files([acme.BELIEVED])
    got = await source.received(Large(), names, cwd="acme", container="", env={})
    verdicts = known.held(got.code, "acme", "acme").verdicts
    notes = {verdict.note.removeprefix(verdict.belief.place.file) for verdict in verdicts}
    assert " is too large to be read from the pod" in notes
