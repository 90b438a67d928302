"""A launch from the screen: the form, the look before the start, the plan, and a confirmation as
strong as what it moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from textual import events

from bs4_console.errors import RefusedError
from bs4_console.launch import guide
from bs4_console.launch.guide import LaunchRequest, Looked
from bs4_console.preflight.checks import Check
from bs4_console.preflight.examine import Preflight
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens.launch import LaunchScreen
from bs4_console.tui.styled_text import text_of, width_of
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until

HASH = "ab" * 32
#: As `config estimate` writes it.
MEMORY = (
    "trainer (2 GPUs)",
    "      16.3 GiB  weights: 8.76B x 4 bytes / 2 GPU",
    "       4.2 GiB  activations: 20 GiB x 8.76/7 x 8192/4096 x 0.1 (checkpointed)",
    "      33.4 GiB  of 80 a GPU: fits",
    "inference (6 GPUs)",
    "      16.3 GiB  weights: 8.76B x 2 bytes / tp 1",
    "      19.9 GiB  of 80 a GPU: fits",
    "A checkpoint is about 33 GiB; keep_last + 1 of them have to fit the disk.",
)


WARNED = Check(
    "R09",
    "new.toml, line 14",
    "warning",
    "Every checkpoint is kept: 500 steps with interval 10 are 50 checkpoints of 33 GiB, and "
    "the disk has 1180 GiB.",
    "Set keep_last = 2 under [trainer.ckpt].",
)
UNSEEN = Check(
    "schema",
    "the trainer's own schema",
    "unknown",
    "Judged by the schema that is shipped here alone: no environment in prime-rl.",
)
FULL = Check("disk-full", "Disk", "blocking", "3 GiB are free, 60 are needed.", "Free some.")


def planned(session: fixtures.RecordedSession, *, typed: bool = False, refused: str = "") -> None:
    """The agent's answers to a plan of a launch."""

    def answer(key: str, kind: str, body: dict[str, Any]) -> None:
        if kind != "plan":
            return
        asked = body["launch"]
        steps = [
            {
                "kind": "start",
                "title": f"Start {asked['run']}",
                "command": "uv run rl @ c.toml",
                "shown": {"cwd": "/p", "environment": {}},
            }
        ]
        if typed:
            shown = {"directories": [{"path": "/data/outputs/checkpoints", "bytes": 5}]}
            steps.insert(
                0,
                {
                    "kind": "move_aside",
                    "title": "Move 1 directory",
                    "command": "mv /data/outputs/checkpoints <trash>/",
                    "shown": shown,
                },
            )
        plan = {
            "title": f"Start {asked['run']} afresh",
            "typed_name": typed,
            "danger": "move" if typed else "none",
            "steps": steps,
            "why": "it was asked for",
        }
        common = {"action": key, "run": asked["run"], "playbook": "launch"}
        fixtures.journal(
            session.state, "action", 0, **common, kind="plan", event="accepted", body=body
        )
        if refused:
            fixtures.journal(
                session.state,
                "action",
                0,
                **common,
                event="failed",
                detail=refused,
                result={"error": "refused"},
            )
            return
        fixtures.journal(
            session.state,
            "plan",
            0,
            **common,
            attempt=0,
            plan_hash=HASH,
            expires_m=fixtures.POD_M + 900,
            expires_t=fixtures.NOW + 900,
            plan=plan,
        )
        fixtures.journal(
            session.state, "action", 0, **common, event="done", result={"plan_hash": HASH}
        )

    session.on_submit = answer


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Check]:
    """What the look before the start finds."""
    checks = [Check("clock", "Clock", "ok", "it is right")]

    async def look(live: Any, asked: LaunchRequest) -> Looked:
        return Looked(Preflight(tuple(checks), memory=MEMORY))

    monkeypatch.setattr(guide, "prepare", look)
    monkeypatch.setattr(guide, "price_of", lambda pod: 2.5)
    return checks


def shown(app: ConsoleApp) -> str:
    return "\n".join(
        text_of(line) for panel in app.screen.query(Panel) if panel.display for line in panel.lines
    )


def of(session: fixtures.RecordedSession, kind: str) -> Sequence[dict[str, Any]]:
    return [body for name, body in session.submitted if name == kind]


async def test_from_the_form_to_a_start_with_one_confirmation(looked: list[Check]) -> None:
    session = fixtures.desync()
    planned(session)
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], (":launch configs/new.toml fresh-1",))
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        assert "config on the pod" in shown(app)
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: screen.plan is not None)
        asked = of(session, "plan")[0]
        assert (asked["launch"]["run"], asked["launch"]["config"], asked["launch"]["resume"]) == (
            "fresh-1",
            "configs/new.toml",
            "auto",
        )
        assert asked["record"]["price"] == 2.5
        assert asked["record"]["hardware"]["gpus"] == "8 x NVIDIA H100 80GB HBM3"
        for text in (
            "Start fresh-1 afresh on h100-a?",
            "uv run rl @ c.toml",
            "because it was asked for",
            HASH[:16],
            "y start it",
        ):
            assert text in shown(app)
        assert of(session, "launch") == []
        await drive(pilot, [session], ("y",))
        await until(pilot, lambda: app.screen is not screen)
        (body,) = of(session, "launch")
        assert (body["plan_hash"], body["key"], body["confirm_run"]) == (
            HASH,
            guide.key_of(HASH, "fresh-1"),
            "",
        )
        assert "being started" in app.messages[-1].text


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("done", "fresh-1 trains: step 1 is done."),
        ("failed", "fresh-1 was not started well: uv is gone"),
    ],
)
async def test_a_new_run_is_opened_when_there_is_one_and_how_its_start_ends_is_told(
    looked: list[Check], end: str, told: str, gone: bool
) -> None:
    """The first run of a pod is not yet there when its launch was accepted. Who has gone elsewhere
    by then is left there.
    """
    session = fixtures.idle()
    session.configs["c.toml"] = PRIME
    planned(session)
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], (":launch c.toml fresh-1", "enter"))
        await until(pilot, lambda: getattr(app.screen, "plan", None) is not None)
        await drive(pilot, [session], ("y",))
        await until(pilot, lambda: bool(of(session, "launch")))
        key = f"01J{len(session.submitted):023}"
        common = {"action": key, "run": "fresh-1"}
        fixtures.journal(
            session.state, "action", 0, **common, kind="launch", event="accepted", body={}, steps=[]
        )
        await drive(pilot, [session], ("J",) if gone else ())
        place = app.screen
        assert not session.state.runs
        fixtures.start_run(session.state, "fresh-1", "prime-rl", 500, 0)
        await until(pilot, lambda: (app.screen is place) == gone)
        fixtures.journal(
            session.state, "action", 0, **common, event=end, detail="uv is gone", result={"step": 1}
        )
        await until(pilot, lambda: app.messages[-1].text == told)
        assert type(app.screen).__name__ == ("JournalScreen" if gone else "RunScreen")


async def test_a_start_that_goes_wrong_is_told_with_how_it_can_be_stopped(
    looked: list[Check],
) -> None:
    session = fixtures.idle()
    session.configs["c.toml"] = PRIME
    planned(session)
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], (":launch c.toml fresh-1", "enter"))
        await until(pilot, lambda: getattr(app.screen, "plan", None) is not None)
        await drive(pilot, [session], ("y",))
        await until(pilot, lambda: bool(of(session, "launch")))
        common = {"action": f"01J{len(session.submitted):023}", "run": "fresh-1"}
        fixtures.journal(
            session.state,
            "action",
            9,
            **common,
            kind="launch",
            who="alice",
            event="accepted",
            body={},
            steps=[],
        )
        fixtures.start_run(session.state, "fresh-1", "prime-rl", 500, 8)
        await until(pilot, lambda: type(app.screen).__name__ == "RunScreen")
        for severity in ("critical", "warning"):
            told = {
                "incident": severity,
                "failure": "f",
                "run": "fresh-1",
                "attempt": 1,
                "severity": severity,
            }
            fixtures.journal(
                session.state, "incident", 5, event="opened", title=f"A {severity} thing", **told
            )
        session.state.changed()
        said = [
            message.text
            for message in app.messages
            if message.text.startswith("fresh-1 does not start well")
        ]
        assert said == [
            (
                "fresh-1 does not start well: A critical thing. i shows what is known of it, K "
                "ends the run."
            )
        ]
        await drive(pilot, [session], ("K",))
        assert "The launch by alice is under way; it ends first" in shown(app)


async def test_where_checkpoints_are_moved_the_name_is_typed(looked: list[Check]) -> None:
    session = fixtures.desync()
    planned(session, typed=True)
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], (":launch c.toml again-1", "enter"))
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        await until(pilot, lambda: screen.plan is not None)
        assert "/data/outputs/checkpoints" in shown(app)
        await drive(pilot, [session], ("y", "enter"))
        assert of(session, "launch") == []
        assert "That is not again-1" in shown(app)
        screen.query_one("#typed").value = "again-1"  # type: ignore[attr-defined]
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: bool(of(session, "launch")))
        assert of(session, "launch")[0]["confirm_run"] == "again-1"


async def test_the_size_of_each_directory_that_is_moved_is_read_on_a_small_terminal(
    looked: list[Check],
) -> None:
    session = fixtures.desync()
    planned(session, typed=True)
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], (":launch c.toml again-1", "enter"))
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        await until(pilot, lambda: screen.plan is not None)
        assert screen.plan is not None
        below = "/home/somebody/a/rather/long/way/down/prime-rl/outputs/run_default"
        screen.plan.plan["steps"][0]["shown"]["directories"] = [
            {"path": f"{below}/{name}", "bytes": size}
            for name, size in (("rollouts", 507 << 10), ("broadcasts", 3 << 20))
        ]
        screen.tell()
        lines = shown(app).splitlines()
        for size, name in (("507 KiB", "rollouts"), ("3.0 MiB", "broadcasts")):
            assert any(size in line and name in line for line in lines)
        told = screen.query_one("#plan", Panel).lines
        assert all(width_of(line) <= 80 - 8 for line in told), "nothing is cut by the edge"


async def test_why_it_starts_there_does_not_hang_below_the_last_step(looked: list[Check]) -> None:
    session = fixtures.desync()
    planned(session)
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], (":launch c.toml again-1", "enter"))
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        await until(pilot, lambda: screen.plan is not None)
        lines = [line.strip() for line in shown(app).splitlines()]
        at = lines.index("afresh, because it was asked for")
        assert lines[at - 1] == ""
        assert screen.plan is not None
        screen.plan.plan["resume"] = 390
        screen.tell()
        assert "from step 390, because it was asked for" in shown(app)


async def test_what_forbids_the_start_stops_it_before_a_plan(looked: list[Check]) -> None:
    session = fixtures.desync()
    planned(session)
    looked.append(
        Check("disk-full", "Disk", "blocking", "3 GiB are free, 60 are needed.", "Free some.")
    )
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], (":launch c.toml x", "enter"))
        await until(pilot, lambda: "3 GiB are free" in shown(app))
        assert of(session, "plan") == []
        assert "Nothing was started" in shown(app)


async def test_findings_stand_in_the_plan_with_rule_file_and_line_and_memory_with_arithmetic(
    looked: list[Check],
) -> None:
    session = fixtures.desync()
    planned(session)
    looked += [WARNED, UNSEEN]
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 60)) as pilot:
        await drive(pilot, [session], (":launch configs/new.toml fresh-1", "enter"))
        await until(pilot, lambda: getattr(app.screen, "plan", None) is not None)
        await drive(pilot, [session], ())
        text = shown(app)
        for part in (
            "▲ 1 warning   ? 1 not known   ✔ 1 ok   ✔ memory fits",
            "▲ R09  new.toml, line 14",
            "→ Set keep_last = 2",
            "1 of 3 checks ok",
            "33.4 GiB  of 80 a GPU: fits",
            "16.3 GiB  weights: 8.76B x 4 bytes / 2 GPU",
        ):
            assert part in text
        assert (
            text.index("uv run rl")
            < text.index("R09")
            < text.index("MEMORY")
            < text.index("y start it")
        ), "what is done comes first"


async def test_all_that_forbids_the_start_is_listed_with_its_lines(looked: list[Check]) -> None:
    session = fixtures.desync()
    planned(session)
    looked += [
        WARNED,
        Check("R31", "c.toml, line 3", "blocking", "The sides name two models.", "Name one."),
        FULL,
    ]
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 40)) as pilot:
        await drive(pilot, [session], (":launch c.toml x", "enter"))
        await until(pilot, lambda: "The sides name two models" in shown(app))
        text = shown(app)
        assert "✖ R31  c.toml, line 3" in text
        assert "✖ disk-full" in text
        assert text.index("R31") < text.index("R09"), (
            "what forbids it stands before what only warns"
        )
        assert of(session, "plan") == []


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 40)])
async def test_the_question_is_never_pushed_off_the_screen(
    looked: list[Check], size: tuple[int, int]
) -> None:
    session = fixtures.desync()
    planned(session, typed=True)
    looked += [WARNED] * 12
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=size) as pilot:
        await drive(pilot, [session], (":launch c.toml again-1", "enter"))
        await until(pilot, lambda: getattr(app.screen, "plan", None) is not None)
        await drive(pilot, [session], ())
        answer, scroll = app.screen.query_one("#answer"), app.screen.query_one("#shown")
        assert answer.region.bottom < size[1]
        assert answer.region.height == len(answer.lines)  # type: ignore[attr-defined]
        assert "PgDn the rest" in shown(app)
        await drive(pilot, [session], ("pagedown",))
        assert scroll.scroll_y > 0, "also from the field for the name"


@pytest.mark.parametrize("how", ["refused by the agent", "no link"])
async def test_a_plan_that_cannot_be_made_leaves_the_form_as_it_was(
    looked: list[Check], how: str
) -> None:
    session = fixtures.desync()
    planned(session, refused="The name x is taken.")
    session.refuse = RefusedError("It is read-only.", "Do not.") if how == "no link" else None
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], (":launch c.toml x", "enter"))
        await until(
            pilot, lambda: ("is taken" if session.refuse is None else "read-only") in shown(app)
        )
        assert app.screen.query_one("#config").value == "c.toml"  # type: ignore[attr-defined]
        await drive(pilot, [session], ("escape",))
        assert not isinstance(app.screen, LaunchScreen)


async def test_a_form_that_says_too_little_asks_for_it(looked: list[Check]) -> None:
    session = fixtures.desync()
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], ("W",))
        for name, value, says in (
            ("config", "", "Say the config"),
            ("run", "", "Say the name"),
            ("resume", "soon", "From which step"),
            ("trainer", "x", "The trainer is"),
            ("overrides", "a='b", "Quote them"),
        ):
            good = {
                "config": "c.toml",
                "run": "x",
                "resume": "auto",
                "trainer": "prime-rl",
                "overrides": "",
            }
            for field, text in (good | {name: value}).items():
                app.screen.query_one(f"#{field}").value = text  # type: ignore[attr-defined]
            await drive(pilot, [session], ("enter",))
            assert says in shown(app)
        assert session.submitted == []


PRIME, VERL = "[orchestrator]\nbatch_size = 8\n", "[actor_rollout_ref.rollout]\nn = 4\n"


@pytest.mark.parametrize(
    ("text", "asked"), [(PRIME, ("prime-rl", "prime-rl", "rl")), (VERL, ("verl", "prime-rl", "rl"))]
)
async def test_on_an_empty_pod_nothing_of_the_trainer_has_to_be_said(
    looked: list[Check], text: str, asked: tuple[str, str, str]
) -> None:
    """The fixture's pod has its config wherever one looks; where it is not in the one place, the
    next one is tried.
    """
    session = fixtures.idle()
    session.configs["c.toml"] = text
    planned(session)
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], (":launch c.toml fresh-1",))
        assert [app.screen.query_one(f"#{name}").value for name in ("trainer", "cwd")] == ["", ""]  # type: ignore[attr-defined]
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: bool(of(session, "plan")))
        made = of(session, "plan")[0]["launch"]
        assert (made["trainer"], made["cwd"], made["component"]) == asked


async def test_on_an_empty_pod_a_config_that_is_not_there_is_said(looked: list[Check]) -> None:
    session = fixtures.idle()
    planned(session)
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], (":launch typo.toml fresh-1", "enter"))
        await until(
            pilot,
            lambda: "typo.toml cannot be read in prime-rl or verl" in " ".join(shown(app).split()),
        )
        assert of(session, "plan") == []


async def test_arguments_are_taken_apart_as_by_a_shell_and_given_again_as_they_were(
    looked: list[Check],
) -> None:
    """A word of Hydra's has quotes, brackets and blanks of its own."""
    words = ['++data.cases=["hex(board_size=5)", "go"]', "trainer.save_freq=20"]
    session = fixtures.desync()
    planned(session)
    (run,) = session.state.runs.values()
    assert run.view.attempt is not None
    journalled = {
        "attempt": run.view.attempt.number,
        "started_t": run.view.attempt.started_t,
        "overrides": words,
    }
    fixtures.journal(session.state, "run", 0, run=run.name, event="attempt-started", **journalled)
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(140, 40)) as pilot:
        await drive(pilot, [session], ("enter", "W"))
        assert isinstance(app.screen, LaunchScreen)
        app.screen.query_one("#run").value = "again-1"  # type: ignore[attr-defined]
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: bool(of(session, "plan")))
        assert of(session, "plan")[0]["launch"]["overrides"] == words


@pytest.mark.parametrize("said", ["verl", ""])
async def test_a_config_of_verl_is_known_by_its_keys(looked: list[Check], said: str) -> None:
    session = fixtures.desync()
    session.configs["sft.toml"] = "[trainer]\nsave_freq = 5\n[model]\npartial_pretrain = 'a/b'\n"
    planned(session)
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], (":launch sft.toml fresh-1", "enter"))
        await until(pilot, lambda: "a config of verl, not of" in " ".join(shown(app).split()))
        app.screen.query_one("#trainer").value = said  # type: ignore[attr-defined]
        await drive(pilot, [session], ("enter",))
        await until(pilot, lambda: bool(of(session, "plan")))
        asked = of(session, "plan")[0]["launch"]
        assert (asked["trainer"], asked["component"], asked["cwd"]) == (
            "verl",
            "sft",
            "/root/prime-rl",
        )


async def test_what_is_typed_behind_a_tab_lands_in_the_next_field(looked: list[Check]) -> None:
    """As a quick hand or a paste does it, and a slow link that brings several keys at once: nobody
    waits for a cursor.
    """
    app = ConsoleApp(fixtures.fleet(fixtures.idle()), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [], ("W",))
        for key in ("a", "tab", "b", "tab", "tab", "c", "shift+tab", "d"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await drive(pilot, [], ())
        values = {
            name: app.screen.query_one(f"#{name}").value
            for name in ("config", "run", "trainer", "cwd")
        }  # type: ignore[attr-defined]
        assert values == {"config": "a", "run": "b", "trainer": "d", "cwd": "c"}


async def test_a_look_at_a_form_that_is_not_all_there_ends_nothing(looked: list[Check]) -> None:
    """The second may come while its rows are still being mounted, or are taken down: on a busy
    machine that is not rare.
    """
    app = ConsoleApp(fixtures.fleet(fixtures.idle()), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [], ("W",))
        await app.screen.query_one("#label-config").remove()
        app._dirty = True
        app.tick()
        await pilot.resize_terminal(120, 40)
        await drive(pilot, [], ())
        assert isinstance(app.screen, LaunchScreen)
