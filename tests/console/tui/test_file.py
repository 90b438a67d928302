"""Any file of a pod in the log view: opened by its path, pinned like a log, and what the pod says
against it is said.
"""

from __future__ import annotations

from typing import Any

from bs4_console.errors import RemoteError
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens.fleet import FleetScreen
from bs4_console.tui.screens.log import FileScreen
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until

PATH = "~/judge/server.log"


async def test_a_file_is_opened_filtered_pinned_and_come_back_to() -> None:
    session = fixtures.with_a_file()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], ("enter", f":open {PATH}"))
        await until(pilot, lambda: isinstance(app.screen, FileScreen))
        assert "judge answered 10 of 16" in app.screen.pane.view.visible_text()
        await drive(pilot, [session], ("/WARNING",))
        assert len(app.screen.pane.view.lens) == 20
        await drive(pilot, [session], ("P", ":fleet"))
        assert isinstance(app.screen, FleetScreen)
        await drive(pilot, [session], ("1",))
        await until(pilot, lambda: isinstance(app.screen, FileScreen))
        assert app.screen.path == PATH


async def test_what_is_against_it_is_said() -> None:
    session = fixtures.with_a_file()
    ask = session.query

    async def query(stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        if stream.endswith(".netrc"):
            raise RemoteError(
                "refused",
                "~/.netrc may hold credentials and is never shown; use a shell on the pod if "
                "you must see it.",
            )
        return await ask(stream, op, **parameters)

    session.query = query  # type: ignore[method-assign]
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        for path, says in (
            ("~/.netrc", "may hold credentials"),
            ("logs/a.log", "is no whole path of the pod"),
        ):
            await drive(pilot, [session], (f":file {path}",))
            await until(pilot, lambda says=says: app.messages and says in app.messages[-1].text)  # type: ignore[misc]
            assert isinstance(app.screen, FleetScreen)
        await drive(pilot, [session], (":file",))
        assert app.screen.prompt.field.value == "file "
