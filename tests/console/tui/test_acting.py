"""Acting: what a read-only console refuses, what the journal shows, a shell that comes back,
notes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_console.launch import stopping
from bs4_console.tui import commands, outside
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens import stop
from bs4_console.tui.screens.journal import JournalScreen
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.widgets.bars import TopBar
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until
from tests.console.tui.test_terminal import Terminal, terminal  # noqa: F401 (a fixture)


def open_app(*sessions: fixtures.RecordedSession, **more: Any) -> ConsoleApp:
    return ConsoleApp(fixtures.fleet(*sessions), **{"clock": fixtures.CLOCK, **more})


WRITES = [command for command in commands.COMMANDS if "write" in command.needs]


@pytest.mark.parametrize("where", ["app", "pod"])
@pytest.mark.parametrize("command", WRITES, ids=lambda c: c.id)
async def test_read_only_refuses_every_command_that_acts(
    command: commands.Command, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = fixtures.planned()
    session.state.read_only = where == "pod"
    app = open_app(session, read_only=where == "app")
    monkeypatch.setattr(outside, "here", lambda argv: pytest.fail("a shell was opened"))
    async with app.run_test(size=(120, 40)) as pilot:
        way: tuple[str, ...] = ("i",)
        if commands.FLEET in command.where:
            way = ()
        elif commands.CHECKPOINTS in command.where:
            way = ("D",)
        await drive(pilot, [session], way)
        before = type(app.screen)
        await drive(pilot, [session], (command.keys[0],))
        assert session.submitted == []
        assert type(app.screen) is before
        assert app.messages[-1].text == commands.NEEDS["write"]
        bar = text_of(app.screen.query_one("KeyBar", Panel).lines[0])
        assert command.title.lower() not in bar


async def test_read_only_is_seen_at_once() -> None:
    session = fixtures.healthy()
    session.state.read_only = True
    app = open_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ())
        assert "h100-b ro" in text_of(app.screen.table.rows[0].cells["pod"])  # type: ignore[attr-defined]
        assert "read-only" in text_of(app.screen.query_one("#detail", Panel).lines[-1])
        await drive(pilot, [session], ("enter",))
        assert "read-only" in text_of(app.screen.query_one(TopBar).lines[0])


async def test_the_journal_tells_who_did_what_with_which_commands() -> None:
    session = fixtures.acting()
    fixtures.journal(
        session.state,
        "action",
        30,
        action="01JNOTE",
        kind="note",
        who="bob@desk",
        run="math-7b",
        event="accepted",
        body={"kind": "note", "run": "math-7b", "text": "halved the rate"},
    )
    fixtures.journal(
        session.state,
        "action",
        30,
        action="01JNOTE",
        kind="note",
        who="bob@desk",
        run="math-7b",
        event="done",
    )
    app = open_app(session)
    async with app.run_test(size=(160, 40)) as pilot:
        await drive(pilot, [session], ("J",))
        rows = app.screen.table.rows  # type: ignore[attr-defined]
        assert [text_of(rows[0].cells[c]) for c in ("who", "what", "run", "detail")] == [
            "bob@desk",
            "note",
            "math-7b",
            "halved the rate",
        ]
        times = [session.state.ledger.actions[row.key[1]].accepted_t for row in rows]
        assert times == sorted(times, reverse=True)
        await drive(pilot, [session], ("/playbook",))
        deed = "\n".join(text_of(line) for line in app.screen.query_one("#deed", Panel).lines)
        action = next(a for a in session.state.ledger.actions.values() if a.kind == "playbook")
        assert action.who in deed
        for step in action.steps:
            assert step.title in deed
            assert not step.command or step.command.split()[0] in deed
        await drive(pilot, [session], ("escape", "escape"))
        assert not isinstance(app.screen, JournalScreen)


async def test_what_another_console_does_is_seen_here_with_its_name() -> None:
    """Two consoles, one pod: the first runs the fix, the second has the plan on its screen."""
    session = fixtures.planned()
    app = open_app(session)

    def page() -> str:
        return "\n".join(text_of(line) for panel in app.screen.query(Panel) for line in panel.lines)

    async with app.run_test(size=(120, 50)) as pilot:
        await drive(pilot, [session], ("i",))
        assert "r runs exactly this plan" in page().replace("  ", " ")
        await drive(pilot, [session], ("!acting",))
        assert "ACTION step-desync  by alice@laptop" in page()
        assert "run plan" not in text_of(app.screen.query_one("KeyBar", Panel).lines[0])
        for key in ("r", "p"):
            await drive(pilot, [session], (key,))
            assert (
                app.messages[-1].text
                == "The fix is running already: by alice@laptop since 03:11:59."
            )
        assert session.submitted == []
        await drive(pilot, [session], ("J",))
        assert text_of(app.screen.table.rows[0].cells["who"]) == "alice@laptop"  # type: ignore[attr-defined]


async def test_a_note_is_written_and_shown() -> None:
    session = fixtures.healthy()

    def journalled(key: str, kind: str, body: dict[str, Any]) -> None:
        fixtures.journal(
            session.state, kind, 0, run=body["run"], text=body["text"], who="alice@laptop"
        )

    session.on_submit = journalled
    app = open_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("e",))
        assert app.screen.prompt.is_open  # type: ignore[attr-defined]
        app.screen.prompt.field.insert_text_at_cursor("watch the entropy")  # type: ignore[attr-defined]
        await drive(pilot, [session], ("enter",))
        assert session.submitted == [("note", {"run": "code-14b", "text": "watch the entropy"})]
        assert "watch the entropy  alice@laptop" in "\n".join(
            text_of(line) for line in app.screen.query_one("#detail", Panel).lines
        )
        await drive(pilot, [session], ("e", "escape"))
        assert len(session.submitted) == 1


async def test_the_notes_of_a_run_are_a_page_on_which_one_writes_more() -> None:
    session = fixtures.noted()

    def journalled(key: str, kind: str, body: dict[str, Any]) -> None:
        fixtures.journal(
            session.state, kind, 0, run=body["run"], text=body["text"], who="alice@laptop"
        )

    session.on_submit = journalled
    app = open_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("enter",))
        host = "\n".join(text_of(line) for line in app.screen.query_one("#host", Panel).lines)
        assert "✎ reward plateau since step 150" in host, (
            "the newest note stands on the run's screen"
        )
        await drive(pilot, [session], ("A", "e"))
        app.screen.prompt.field.insert_text_at_cursor("eval set swapped back")  # type: ignore[attr-defined]
        await drive(pilot, [session], ("enter",))
        assert session.submitted == [("note", {"run": "code-14b", "text": "eval set swapped back"})]
        page = [text_of(line).strip() for line in app.screen.query_one("#text", Panel).lines]
        texts = [line for line in page if line.startswith(("eval set", "reward", "halved"))]
        assert [text.split()[0] for text in texts] == ["eval", "reward", "halved"], (
            "the newest first"
        )
        await drive(pilot, [session], ("escape",))
        assert type(app.screen).__name__ == "RunScreen"


async def test_a_run_is_stopped_after_its_name_was_typed() -> None:
    session = fixtures.desync()

    def journalled(key: str, kind: str, body: dict[str, Any]) -> None:
        fixtures.journal(
            session.state,
            "action",
            1,
            action=key,
            kind=kind,
            who="alice@laptop",
            run=body["run"],
            event="accepted",
            body=body,
        )
        fixtures.journal(
            session.state,
            "action",
            0,
            action=key,
            run=body["run"],
            event="done",
            detail="math-7b has ended and nothing of it is left",
        )

    session.on_submit = journalled
    app = open_app(session)

    def asked() -> str:
        return "\n".join(text_of(line) for panel in app.screen.query(Panel) for line in panel.lines)

    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("K",))
        assert "Stop math-7b on h100-a?" in asked()
        said = " ".join(asked().split())
        listed = "12 processes: launcher 1400, inference 1409, engine 1418 1427 1436 1445, orchest"
        assert listed in said
        assert said.count("1409") == said.count("1499") == 1, "each process stands there once"
        assert (
            "First kill -INT to all 12, with at most 30 s to end; then kill -TERM to what is still "
            "alive, at most 20 s; then kill -KILL to what is still alive, at most 5 s."
        ) in said
        await drive(pilot, [session], ("m", "a", "t", "h", "enter"))
        assert "That is not math-7b; nothing was done." in asked()
        await drive(pilot, [session], ("escape",))
        assert session.submitted == []
        await drive(pilot, [session], ("K", *"math", "minus", *"7b", "enter"))
        named = {"home": session.home, "run": "math-7b", "attempt": 2}
        assert session.submitted == [("stop", named)]
        await until(
            pilot,
            lambda: app.messages[-1].text == "math-7b has ended and nothing of it is left",
        )
        await drive(pilot, [session], ("J",))
        assert "stop" in app.screen.table.rows[0].text  # type: ignore[attr-defined]
        assert "alice@laptop" in app.screen.table.rows[0].text  # type: ignore[attr-defined]


@pytest.mark.parametrize("key", ["i", "l"])
async def test_age_and_link_stand_on_the_screens_of_one_pod(key: str) -> None:
    session = fixtures.desync()
    app = open_app(session)

    def bar() -> str:
        app.screen.draw_bars()  # type: ignore[attr-defined]
        return text_of(app.screen.query_one(TopBar).lines[0])

    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], (key,))
        assert "▂▄▆█ 12ms  data now" in bar()
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "▂▄▆█ now  ✖ 1" in bar())
        assert "math-7b" in bar()
        session.state.link.state, session.state.telemetry_seen = "unreachable", fixtures.MONO - 90
        assert "···· 1m old" in bar()


async def test_the_question_before_a_stop_fits_on_a_small_terminal() -> None:
    app = open_app(fixtures.desync())
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [], (":stop",))
        rows = [strip.text for strip in app.screen._compositor.render_strips()]
        assert any("First kill -INT to all 12, with at most 30 s" in row for row in rows)
        assert sum("1499" in row for row in rows) == 1
        assert any("stop it" in row and "cancel" in row for row in rows)


def test_the_question_before_a_stop_names_whom_the_first_signal_goes_to() -> None:
    """January's rules signal all processes; those of the present generation first the launcher."""
    run = fixtures.healthy().state.runs["code-14b"]
    living, steps = stopping.processes(run), stopping.steps(run)
    said = stop._signals(steps, living)
    assert said.startswith(f"First kill -TERM to launcher {living[0]['pid']}, with at most 90 s to")
    alone = living[:1]
    assert stop._signals(steps, alone).startswith("First kill -TERM to it, with at most 90 s")
    assert stop._listed(living, 3).endswith(f", and {len(living) - 3} more")


async def test_a_shell_here_when_there_is_no_tmux(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app(fixtures.desync())
    ran: list[Any] = []

    @contextlib.contextmanager
    def aside() -> Iterator[None]:
        ran.append("aside")
        yield
        ran.append("back")

    monkeypatch.setattr(app, "suspend", aside)
    monkeypatch.setattr(outside, "here", lambda argv: ran.append(argv) or 255)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [], ("s",))
        assert ran == ["aside", ["ssh", "-t", "-p", "2222", "--", "root@192.0.2.41"], "back"]
        assert app.messages[-1].text == "The shell on h100-a ended with 255."


def test_a_shell_in_a_window_of_tmux(terminal: Terminal, tmp_path: Path) -> None:  # noqa: F811
    """A real tmux: `ssh` is a stand-in that says how it was called."""
    stub = tmp_path / "ssh"
    stub.write_text("#!/bin/sh\necho called with $*\nread -r _\nexit 255\n")
    stub.chmod(0o755)
    (tmp_path / "program.py").write_text(
        "import sys\nfrom bs4_console.tui import app\nfrom tests.console.tui import fixtures\n"
        "sys.exit(app.run(fixtures.fleet(fixtures.desync())))\n"
    )
    terminal.type(
        f"cd {Path(__file__).resolve().parents[3]} && PATH={tmp_path}:$PATH {sys.executable} "
        f"{tmp_path / 'program.py'}"
    )
    terminal.press("Enter")
    terminal.until(lambda text: "h100-a" in text and "WHAT'S WRONG" in text)
    terminal._tmux("set-environment", "-g", "PATH", f"{tmp_path}:{os.environ['PATH']}")
    terminal.type("s")
    shown = terminal.until(lambda text: "called with" in text)
    assert "-t -p 2222 -- root@192.0.2.41" in shown
    assert terminal.flag("window_name") == "h100-a"
    terminal.press("Enter")
    terminal.until(lambda text: "ended with 255; Enter closes this window" in text)
    terminal.press("Enter")
    terminal.until(lambda text: "WHAT'S WRONG" in text)
    terminal.type(":q\r")


def test_the_screen_steps_aside_for_a_shell_and_comes_back(
    terminal: Terminal,  # noqa: F811
    tmp_path: Path,
) -> None:
    stub = tmp_path / "ssh"
    stub.write_text(
        "#!/bin/sh\necho called with $*\nstty -a | tr ' ' '\\n' | grep -x -e echo\nread -r _\n"
    )
    stub.chmod(0o755)
    (tmp_path / "program.py").write_text(
        "import sys\nfrom bs4_console.tui import app\nfrom tests.console.tui import fixtures\n"
        "sys.exit(app.run(fixtures.fleet(fixtures.desync())))\n"
    )
    root = Path(__file__).resolve().parents[3]
    terminal.type(
        f"cd {root} && env -u TMUX PATH={tmp_path}:$PATH {sys.executable} "
        f"{tmp_path / 'program.py'}; echo left with $?"
    )
    terminal.press("Enter")
    terminal.until(lambda text: "h100-a" in text and "WHAT'S WRONG" in text)
    terminal.type("s")
    shown = terminal.until(lambda text: "called with" in text and "echo" in text.splitlines())
    assert "WHAT'S WRONG" not in shown
    terminal.press("Enter")
    terminal.until(lambda text: "WHAT'S WRONG" in text)
    terminal.type(":q\r")
    terminal.until(lambda text: "left with 0" in text)


def test_a_program_that_is_not_there_is_said() -> None:
    from bs4_console.errors import ConsoleError

    with pytest.raises(ConsoleError, match="cannot be started"):
        outside.here(["/nonexistent/ssh"])
    assert outside.here([sys.executable, "-c", "raise SystemExit(7)"]) == 7


@pytest.mark.parametrize(
    "words",
    [
        ["stop", "--pod", "a", "--run", "r", "--confirm", "r"],
        ["launch", "c.toml", "--pod", "a", "--run", "r", "--trainer", "prime-rl"],
        ["deploy", "--pod", "a"],
        ["runs", "adopt", "--pod", "a"],
        ["playbook", "run", "vllm-silent-death", "--pod", "a", "--plan", "0" * 64],
    ],
    ids=lambda words: " ".join(words[:2]),
)
@pytest.mark.parametrize("where", ["console", "pod"])
def test_read_only_refuses_headless_before_anything_is_sent(
    words: list[str],
    where: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from bs4_console.cli import main, sessions

    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path))
    monkeypatch.setattr(
        sessions, "transport", lambda pod: pytest.fail("it was tried to reach the pod")
    )
    (tmp_path / "pods.toml").write_text(
        f'[pods.a]\nhost = "192.0.2.1"\n{"read_only = true" if where == "pod" else ""}\n'
    )
    assert main.main([*(["--read-only"] if where == "console" else []), *words]) == 4
    said = capsys.readouterr()
    assert "read-only" in said.err
    assert said.out == ""


def test_no_agent_is_brought_to_a_read_only_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bs4_console.cli import sessions
    from bs4_console.pods.inventory import Pod

    monkeypatch.setenv("BS4_DATA_DIR", str(tmp_path))
    assert sessions.session(Pod(name="a", host="h"))._deploy
    assert not sessions.session(Pod(name="a", host="h", read_only=True))._deploy
    assert not sessions.session(Pod(name="a", host="h"), read_only=True)._deploy
