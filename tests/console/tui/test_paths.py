"""Paths of a pod under Tab: asked from its agent while a person types, never in the way, and what
is against it is said above the line.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bs4_console.errors import ConsoleError, RemoteError, Unreachable
from bs4_console.pods.paths import ask_paths
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens.log import FileScreen
from bs4_console.tui.styled_text import text_of
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until, write

FILES = (
    "/root/out/logs/trainer.log",
    "/root/out/logs/trainer.log.1",
    "/root/out/logs/env logs/math.log",
    "~/judge/server.log",
)


def pod_with(*files: str) -> Any:
    """A pod that lists these files, and what it was asked."""
    session: Any = fixtures.healthy()
    for path in files:
        session.logs[f"file/{path}"] = bytearray(b"12:00:00 INFO one\n12:00:01 INFO two\n")
    ask = session.query
    session.asked = []

    async def query(stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        if stream != "files":
            return dict(await ask(stream, op, **parameters))
        path = str(parameters["path"])
        session.asked.append(path)
        await session.may_answer.wait()
        if session.against is not None:
            raise session.against
        directory = path[: path.rindex("/") + 1]
        rest = [
            file.removeprefix(directory).partition("/") for file in files if file.startswith(path)
        ]
        return {
            "directory": directory,
            "names": sorted({name + slash for name, slash, _ in rest}),
            "more": False,
            "next": None,
        }

    session.query, session.against, session.may_answer = query, None, asyncio.Event()
    session.may_answer.set()
    return session


def offered(app: Any) -> str:
    return text_of(app.screen.prompt.query_one("#offers").lines[0])


async def typed(pilot: Any, text: str) -> None:
    await pilot.press("colon")
    await pilot.pause()
    await write(pilot, text)


async def test_tab_goes_down_to_a_file_and_enter_opens_it() -> None:
    session = pod_with(*FILES)
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], ("l",))
        await typed(pilot, "open /ro")
        field = app.screen.prompt.field
        await until(pilot, lambda: "root/" in offered(app))
        for line in ("open /root/", "open /root/out/", "open /root/out/logs/"):
            await pilot.press("tab")
            await until(pilot, lambda line=line: field.value == line)  # type: ignore[misc]
        await until(pilot, lambda: "env logs/" in offered(app))
        assert "trainer.log  trainer.log.1" in offered(app), "only the names in the directory"
        await write(pilot, "e")
        await pilot.press("tab")
        await until(pilot, lambda: field.value == "open /root/out/logs/env logs/")
        await pilot.press("tab")
        await until(pilot, lambda: field.value == "open /root/out/logs/env logs/math.log ")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, FileScreen))
        assert app.screen.path == "/root/out/logs/env logs/math.log"
        assert not app.messages


@pytest.mark.parametrize("screen", ["l", "enter"])
async def test_tab_before_the_answer_is_carried_out_with_it(screen: str) -> None:
    session = pod_with(*FILES)
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], (screen,))
        session.may_answer.clear()
        await typed(pilot, "logs ~/judge/")
        await pilot.press("tab")
        await until(pilot, lambda: bool(session.asked))
        assert app.screen.prompt.field.value == "logs ~/judge/"
        session.may_answer.set()
        await until(pilot, lambda: app.screen.prompt.field.value == "logs ~/judge/server.log ")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, FileScreen))


async def test_a_directory_is_asked_for_once_while_one_types_on() -> None:
    session = pod_with(*FILES)
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], ("O",))
        assert app.screen.prompt.field.value == "file "
        assert "~/" in offered(app)
        await write(pilot, "/root/out/logs/")
        await until(pilot, lambda: "trainer.log" in offered(app))
        for letter in "trainer":
            await pilot.press(letter)
        assert session.asked == ["/root/out/logs/"]
        assert "env logs" not in offered(app)
        await pilot.press("escape")
        assert session.asked == ["/root/out/logs/"]


@pytest.mark.parametrize(
    ("against", "says"),
    [
        (
            RemoteError("bad-request", "/no/ cannot be listed (No such file or directory); look."),
            "/no/ cannot be listed (No such file",
        ),
        (
            RemoteError("unknown-stream", "There is no stream 'files'."),
            "does not list its files: type the whole path.",
        ),
        (
            Unreachable("h100-a did not answer within 5 s.", "Check it."),
            "h100-a did not answer within 5 s. Check it.",
        ),
    ],
)
async def test_what_is_against_it_stands_above_the_line(against: Exception, says: str) -> None:
    session = pod_with()
    session.against = against
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], ("enter",))
        await typed(pilot, "open /no/")
        await until(pilot, lambda: says in offered(app))
        assert app.screen.prompt.is_open
        assert not app.messages, "no toast while one types"


@pytest.mark.parametrize(
    "answer",
    [{}, {"directory": "/etc/", "names": ["x"]}, {"directory": "/a/", "names": "x"}],
)
async def test_a_pod_that_answers_otherwise_is_not_believed(answer: dict[str, Any]) -> None:
    session = pod_with()

    async def query(stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        return answer

    session.query = query
    with pytest.raises(ConsoleError, match="type the whole path"):
        await ask_paths(session, "/a/b")


async def test_names_that_are_none_are_left_out() -> None:
    session = pod_with()

    async def query(stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        return {"directory": "/a/", "names": ["bc", "b/../../etc", 7, "bd/", "x"], "more": 1}

    session.query = query
    found = await ask_paths(session, "/a/b")
    assert found.names == ("/a/bc", "/a/bd/")
    assert found.more
