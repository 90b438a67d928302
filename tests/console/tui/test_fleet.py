"""The fleet: sorted, grouped, folded; hundreds of pods; who is told of what became worse, and what
silences it.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

import pytest

from bs4_console.tui import alerts
from bs4_console.tui.alerts import Alerts
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.clock import Clock
from bs4_console.tui.overview import MANY_RUNS, Overview
from bs4_console.tui.styled_text import Line, text_of
from bs4_console.tui.views import fleet as view
from bs4_console.tui.views.fleet import Row
from bs4_console.tui.widgets.bars import tally
from bs4_console.ui_state import Settings
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, settle


def row(
    pod: str, run: str = "r", rank: int = 0, trouble: str = "", old: bool = False, **values: Any
) -> Row:
    cells: dict[str, Line] = {
        "state": [("✖ critical" if rank == 4 else "● running", "")],
        "wrong": [(trouble, "")],
    }
    return Row(
        key=(pod, run),
        rank=rank,
        cells=cells,
        old=old,
        trouble=trouble,
        values={"pod": pod, "run": run, **values},
    )


def names(rows: list[Row]) -> list[str]:
    return [r.key[0] if r.banner is None else text_of(r.banner) for r in rows]


def many(pods: int = 256, runs: int = 4) -> list[fixtures.RecordedSession]:
    made = []
    for i in range(pods):
        pod = fixtures.connected(f"pod-{i:03}", "root@192.0.2.1:22")
        for n in range(runs):
            fixtures.start_run(pod, f"math-{n}", "prime-rl", 500, 3_000)
            fixtures.steps(pod, f"math-{n}", 1, 20, 14.2, last_ago=6)
        fixtures.telemetry(
            pod,
            devices=[fixtures.gpu(g, 90, 60, "math-0", "engine", 12) for g in range(8)],
            runs=[],
        )
        made.append(fixtures.RecordedSession(pod))
    return made


# -- order


def test_need_is_the_usual_order() -> None:
    rows = [row("a"), row("b", rank=4), row("c", rank=2), row("d", rank=4, old=True)]
    assert names(view.arrange(rows)) == ["b", "c", "a", "d"]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("gpu", ["b", "a", "c"]),
        ("-gpu", ["a", "b", "c"]),
        ("age", ["a", "b", "c"]),
        ("-age", ["b", "a", "c"]),
    ],
)
def test_what_has_no_value_stands_last_either_way(sort: str, order: list[str]) -> None:
    rows = [
        row("a", gpu=90.0, age=9.0),
        row("b", gpu=3.0, age=1.0),
        row("c", gpu=None, age=None, rank=4),
    ]
    assert names(view.arrange(rows, sort)) == order


def test_equals_stand_by_need_and_old_ones_last() -> None:
    rows = [row("a", gpu=1.0), row("b", gpu=1.0, rank=4), row("c", gpu=0.0, old=True)]
    assert names(view.arrange(rows, "gpu")) == ["b", "a", "c"]


def test_the_group_with_the_worst_row_stands_first_and_says_so() -> None:
    rows = [row("a", "x"), row("a", "y"), row("b", "x", rank=2), row("b", "y", rank=4)]
    assert names(view.arrange(rows, group="pod")) == [
        "▾ b  2 rows  ✖ 1  ▲ 1",
        "b",
        "b",
        "▾ a  2 rows",
        "a",
        "a",
    ]
    assert names(view.arrange(rows, group="pod", folded={"b"})) == [
        "▸ b  2 rows  ✖ 1  ▲ 1",
        "▾ a  2 rows",
        "a",
        "a",
    ]


@pytest.mark.parametrize("sort", view.SORTS)
@pytest.mark.parametrize("turned", ["", "-"])
async def test_every_order_can_be_shown(sort: str, turned: str) -> None:
    app = ConsoleApp(
        fixtures.fleet(*fixtures.everything()),
        clock=fixtures.CLOCK,
        settings=Settings(sort=turned + sort, group="state"),
    )
    async with app.run_test(size=(140, 40)) as pilot:
        await drive(pilot, [], ())
        assert len([r for r in app.screen.table.rows if r.banner is None]) == 7  # type: ignore[attr-defined]
        assert not app.messages


async def test_enter_on_a_heading_folds_the_group() -> None:
    app: Any = ConsoleApp(fixtures.fleet(*fixtures.everything()), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [], (":group pod", "home"))
        before = len(app.screen.table.rows)
        await drive(pilot, [], ("enter",))
        assert len(app.screen.table.rows) == before - 1
        assert app.screen.subject().pod.name == "h100-a"
        await drive(pilot, [], ("u",))
        assert app.screen.table.selected.banner is None
        await drive(pilot, [], (":sort nonsense", ":group"))
        assert "'nonsense' cannot be" in app.messages[-1].text
        assert app.settings.group == "state"


def test_the_tally_counts_rows_by_what_they_need() -> None:
    rows = view.rows([session.state for session in fixtures.everything()], fixtures.CLOCK)
    assert text_of(tally(rows)) == "✖ 1 critical  ? 1 unknown  ▲ 1 warning  7 pods · 3 running"
    assert text_of(tally(rows, short=True)) == "✖ 1  ? 1  ▲ 1  7 pods"
    assert (
        text_of(tally(view.rows([fixtures.healthy().state], fixtures.CLOCK)))
        == "✔ all good  1 pod · 1 running"
    )


def test_the_tally_says_connecting_until_it_is_known_what_runs() -> None:
    pod = fixtures.connecting().state

    def said() -> str:
        return text_of(tally(view.rows([pod], fixtures.CLOCK)))

    assert said() == "1 pod · connecting"
    pod.link.state, pod.link.since = "up", fixtures.MONO - 1.0
    assert said() == "1 pod · connecting", "connected, but nothing has come yet"
    pod.link.since = fixtures.MONO - 6.0
    assert said() == "1 pod · 0 running"
    fixtures.telemetry(pod, devices=[])
    pod.link.since = fixtures.MONO
    assert said() == "1 pod · 0 running"
    pod.link.state, pod.telemetry = "unreachable", type(pod.telemetry)(10)
    assert said().endswith("1 pod · 0 running"), "it is not connected to any more"


@pytest.mark.parametrize(
    ("pods", "read_only", "key"),
    [
        ("idle", False, "W launch"),
        ("idle", True, "⏎ pod"),
        ("finished", False, "⏎ curves"),
        ("healthy", False, "⏎ curves"),
    ],
)
async def test_where_nothing_runs_the_key_that_starts_a_run_is_shown(
    pods: str, read_only: bool, key: str
) -> None:
    session = getattr(fixtures, pods)()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK, read_only=read_only)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ())
        assert key in text_of(app.screen.query_one("#detail").lines[0])
        bar = text_of(app.screen.query_one("KeyBar").lines[0])
        assert ("W launch" in bar) == (pods in ("idle", "finished") and not read_only)


# -- hundreds


async def test_256_pods_with_4_runs_stay_fluent() -> None:
    """CPU time beside that of making all rows anew at the same moment, because a crowded machine
    stretches both: a key press takes a thirtieth, a tick in which every pod had news an eighth.
    """
    sessions = many()
    now = [0.0]
    clock = Clock(wall=lambda: fixtures.NOW + now[0], mono=lambda: fixtures.MONO + now[0])
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=clock)
    async with app.run_test(size=(200, 60)) as pilot:
        await drive(pilot, [], ())
        assert len(app.screen.table.rows) == 1024
        pods = [session.state for session in sessions]
        keys, ticks = [], []
        for _ in range(3):
            begin = time.thread_time()
            view.rows(pods, clock)
            anew = time.thread_time() - begin
            begin = time.thread_time()
            for _ in range(20):
                app.screen.table.action_move(1)
                app.screen._moved()
            keys.append((time.thread_time() - begin) / 20 / anew)
            made = app.overview.made
            begin = time.thread_time()
            for _ in range(10):
                now[0] += 0.1
                for session in sessions:
                    session.state.changed()
                app.tick()
            ticks.append((time.thread_time() - begin) / 10 / anew)
            assert app.overview.made - made <= 256 + 26, "each pod is looked at once a second"
        key, tick = min(keys), min(ticks)
        print(f"all rows {anew * 1000:.0f} ms, a key {key:.3f} of it, a tick {tick:.3f} of it")
        assert key < 0.2
        assert tick < 0.5


async def test_a_change_waits_four_times_as_long_as_the_last_drawing_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (session,) = many(1, 1)
    clock = Clock(wall=lambda: fixtures.NOW, mono=lambda: fixtures.MONO)
    app: Any = ConsoleApp(fixtures.fleet(session), clock=clock)
    async with app.run_test(size=(160, 50)) as pilot:
        await drive(pilot, [session], ())
        now = [time.perf_counter() + 60.0]
        drawn: list[float] = []
        monkeypatch.setattr("bs4_console.tui.app.DRAW_REST", 4.0)
        monkeypatch.setattr("bs4_console.tui.app.time.perf_counter", lambda: now[0])
        monkeypatch.setattr(type(app.screen), "draw_safely", lambda screen: drawn.append(now[0]))
        for seconds, draws in (
            (0.0, 1),
            (0.19, 1),
            (0.21, 2),
            (0.22, 3),
            (10.0, 4),
            (10.49, 4),
            (10.51, 5),
        ):
            now[0] = now[0] // 60 * 60 + seconds
            session.state.changed()
            app.tick()
            assert len(drawn) == draws, f"after {seconds} s"
            if seconds == 0.0:
                app.drew(0.05)
            if seconds == 10.0:
                app.drew(7.0)  # the wait has a limit


@pytest.mark.parametrize(
    ("key", "module", "most"), [("J", "journal", 0), ("U", "gpu_table", 64 + 8)]
)
async def test_the_tables_of_hundreds_of_pods_make_only_what_is_new(
    key: str, module: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 pods that all have news of their GPUs ten times a second: nothing of the journal is made
    again, each pod's GPUs once.
    """
    sessions = many(64, 1)
    for session in sessions:
        for number in range(20):
            note = {"action": f"01J{session.state.name}{number}", "run": "math-0"}
            fixtures.journal(
                session.state,
                "action",
                50,
                kind="note",
                who="bob@desk",
                event="accepted",
                body={"text": "x"},
                **note,
            )
    now = [0.0]
    clock = Clock(wall=lambda: fixtures.NOW + now[0], mono=lambda: fixtures.MONO + now[0])
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=clock)
    views = importlib.import_module(f"bs4_console.tui.views.{module}")
    made: list[str] = []
    real = views.pod_rows
    monkeypatch.setattr(
        views,
        "pod_rows",
        lambda pod, *rest, **more: made.append(str(pod)) or real(pod, *rest, **more),
    )
    async with app.run_test(size=(160, 50)) as pilot:
        await drive(pilot, sessions, (key,))
        rows = len(app.screen.table.rows)
        assert rows == (64 * 20 if key == "J" else 64 * 8)
        made.clear()
        for _ in range(10):
            now[0] += 0.1
            for session in sessions:
                session.state.changed()
            app.tick()
            app.screen.table.action_move(1)
            app.screen.moved()
        assert len(made) <= most
        fixtures.journal(
            sessions[0].state,
            "action",
            0,
            action="01JNEW",
            kind="stop",
            who="alice",
            run="math-0",
            event="accepted",
            body={},
        )
        sessions[0].state.changed()
        made.clear()
        app.tick()
        if key == "J":
            assert (len(made), len(app.screen.table.rows)) == (1, rows + 1)
            assert app.screen.table.rows[0].key[1] == "01JNEW"


def test_rows_that_are_as_they_were_are_the_same_objects() -> None:
    overview, pods = Overview(), [session.state for session in many(2, 2)]
    before = overview.rows(pods, fixtures.CLOCK)
    overview.changed(pods[0])
    fixtures.steps(pods[0], "math-1", 21, 21, 14.2, last_ago=1)
    after = overview.rows(pods, fixtures.CLOCK)
    assert [a is b for a, b in zip(before, after, strict=True)] == [True, False, True, True]


def test_a_pod_of_many_runs_is_made_again_once_a_second() -> None:
    now = [0.0]
    clock = Clock(wall=lambda: fixtures.NOW, mono=lambda: fixtures.MONO + now[0])
    overview, pods = Overview(), [many(1, runs)[0].state for runs in (MANY_RUNS, MANY_RUNS + 1)]
    for number, pod in enumerate(pods):
        pod.name = f"pod-{number}"
    overview.rows(pods, clock)
    for _ in range(10):
        for pod in pods:
            overview.changed(pod)
        overview.rows(pods, clock)
    assert overview.made == 2 + 10, "those of the first at each change"
    now[0] = 1.0
    overview.rows(pods, clock)
    assert overview.made == 2 + 10 + 2


async def test_only_a_line_that_looks_other_than_before_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A flood changes what a row says of it ten times a second, behind the edge of the screen. A
    filter and a prompt show other rows or the same rows elsewhere.
    """
    session = many(1, 12)[0]
    pod = session.state
    pod.notes["journal"] = "x" * 300
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [], ())
        table, drawn, painted = app.screen.table, [], []
        draw, repaint = table._cells, table.refresh_lines
        monkeypatch.setattr(table, "refresh_lines", lambda y: (painted.append(y), repaint(y)))
        lines = [table.render_line(y) for y in range(13)]
        for note in ("x" * 299 + "y", "z" * 300):
            pod.notes["journal"] = note
            pod.changed()
            app.tick()
            await settle(pilot)
            assert [table.render_line(y) is lines[y] for y in (1, 12)] == [note[0] == "x"] * 2
        assert painted == list(range(1, 13)), "each once, when the visible part was another"
        table.cursor = ("pod-000", "math-1")
        lines = [table.render_line(y).text for y in range(13)]
        monkeypatch.setattr(table, "_cells", lambda *a, **k: (drawn.append(a), draw(*a, **k))[1])
        app.screen.do_filter("math-1")
        assert [table.render_line(y).text for y in range(1, 4)] == lines[2:5]
        assert drawn == [], "rows that are the same as before are not drawn"


# -- alerts


def told(watch: Alerts, now: float, *rows: Row) -> list[str]:
    return [f"{a.key[0]}: {a.text}" for a in watch.update(rows, now)]


def test_only_what_becomes_worse_is_told() -> None:
    watch = Alerts()
    assert told(watch, 0, row("a", rank=4, trouble="was so"), row("b")) == [], (
        "what was so is on the screen"
    )
    assert told(watch, 20, row("a", rank=4, trouble="was so"), row("b")) == []
    assert told(
        watch, 21, row("a", rank=4, trouble="was so"), row("b", rank=4, trouble="inference is gone")
    ) == ["b: ✖ critical b/r: inference is gone"]
    assert told(
        watch,
        22,
        row("a", rank=4, trouble="disk full"),
        row("b", rank=4, trouble="inference is gone"),
    ) == ["a: ✖ critical a/r: disk full"]
    assert told(watch, 23, row("a"), row("b", rank=2, trouble="x")) == [], "better is no alarm"
    assert (
        len(told(watch, 24, row("a", rank=2, trouble="again"), row("b", rank=2, trouble="x"))) == 1
    )


def test_a_run_that_appears_broken_is_told() -> None:
    watch = Alerts()
    told(watch, 0, row("a", ""))
    assert len(told(watch, 60, row("a", "new", rank=2, trouble="exit code 1"))) == 1


def test_a_link_that_comes_back_soon_is_not_told() -> None:
    watch = Alerts()
    told(watch, 0, row("a"))
    told(watch, 20, row("a"))
    assert told(watch, 21, row("a", rank=3, trouble="unreachable")) == []
    assert told(watch, 40, row("a")) == []
    assert told(watch, 41, row("a", rank=3, trouble="unreachable")) == []
    assert len(told(watch, 72, row("a", rank=3, trouble="unreachable"))) == 1
    assert told(watch, 99, row("a", rank=3, trouble="unreachable")) == []


def test_the_bytes_for_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    one = alerts.Alert(("a", "r"), 4, "✖ critical a/r: \x1b]52;c;x\x07 gone; now")
    assert alerts.sound([one, one]) == "\x07\x1b]9;✖ critical a/r:  ]52,c,x  gone, now (+1)\x07"
    monkeypatch.setenv("TMUX", "/tmp/x")
    assert alerts.sound([one]).startswith("\x07\x1bPtmux;\x1b\x1b]9;")


@pytest.mark.parametrize("silenced", ["", "run", "pod", "all"])
async def test_bell_notification_and_toast_and_what_silences_them(silenced: str) -> None:
    now = [0.0]
    clock = Clock(wall=lambda: fixtures.NOW + now[0], mono=lambda: fixtures.MONO + now[0])
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=clock)
    sent: list[str] = []
    app._to_terminal = sent.append
    async with app.run_test(size=(140, 40)) as pilot:
        await drive(pilot, [session], (f":silence {silenced}",) if silenced else ())
        now[0] = 12.0
        fixtures.telemetry(session.state, ago=-12)
        app.messages.clear()
        app.tick()
        fixtures.journal(
            session.state,
            "incident",
            -13,
            event="opened",
            incident="x",
            failure="vllm-silent-death",
            run="code-14b",
            attempt=1,
            title="Inference is gone",
            severity="critical",
        )
        session.state.changed()
        now[0] = 13.0
        app.tick()
        if silenced:
            assert (sent, list(app.messages)) == ([], [])
            bar = text_of(app.screen.query_one("TopBar").lines[0])
            assert ("alerts off" in bar) == (silenced == "all")
            app.screen.draw_safely()
            facts = text_of(app.screen.query_one("#detail").lines[-1])
            assert ("alerts silenced" in facts) == (silenced != "all")
        else:
            assert sent == ["\x07\x1b]9;✖ critical h100-b/code-14b: Inference is gone\x07"]
            assert app.messages[-1].text == "✖ critical h100-b/code-14b: Inference is gone"


async def test_an_alert_is_a_toast_only_if_it_is_about_something_else() -> None:
    """A toast covers the details below the table, which are those of the row under the cursor."""
    now = [0.0]
    clock = Clock(wall=lambda: fixtures.NOW + now[0], mono=lambda: fixtures.MONO + now[0])
    sessions = [fixtures.healthy(), fixtures.desync(incident=False)]
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=clock)
    async with app.run_test(size=(140, 40)) as pilot:
        await drive(pilot, sessions, ())
        app.screen.point_at("h100-b", "code-14b")
        now[0] = 12.0
        app.tick()
        app.clear_notifications()
        for toasts, session, run in ((0, sessions[0], "code-14b"), (1, sessions[1], "math-7b")):
            known = {"event": "opened", "incident": run, "failure": "vllm-silent-death", "run": run}
            fixtures.journal(session.state, "incident", -13, **known, attempt=1, title="It is gone")
            session.state.changed()
            now[0] += 1.0
            app.tick()
            told = f"✖ critical {session.state.name}/{run}: It is gone"
            assert app.messages[-1].text == told
            await settle(pilot)
            assert len(app._notifications) == toasts


# -- the ten keys


async def test_from_the_fleet_to_root_line_and_fix_in_under_ten_keys() -> None:
    """What a person who knows k9s presses: nothing to find the row (the worst is under the cursor),
    then what the bar shows.

    The failing run is the first row of the first screen. `i` (said beside the row) shows its first
    root line and the fix; `enter` there opens the log at that line; `esc` back; `p` makes the plan
    with the exact commands; `r` runs it after the name was typed.
    """
    sessions = fixtures.everything()
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)
    pressed: list[str] = []

    def page() -> str:
        return "\n".join(strip.text for strip in app.screen._compositor.render_strips())

    async def press(key: str, said: str) -> None:
        """Only what the screen offers: `said` stands on it with the key in front, or it is what
        everybody presses (⏎, esc).
        """
        assert said in page(), f"nobody would know of {key}:\n{page()}"
        pressed.append(key)
        await drive(pilot, sessions, (key,))

    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, sessions, ())
        worst = page().splitlines()[2]
        assert "✖ critical" in worst
        assert "math-7b" in worst, "the failing run is the first row"
        await press("i", "i evidence and fix")
        root = next(
            i
            for i in sessions[0].state.ledger.open_incidents()
            or app.screen.pod.ledger.open_incidents()
            if i.role == "root"
        )
        assert (root.role, root.run) == ("root", "math-7b")
        assert root.evidence[0]["text"][:30] in page(), "its first root line"
        assert "p make plan" in page().splitlines()[-1]
        await press("enter", "⏎")
        assert app.screen.place == "log"
        line = app.screen.pane.view
        assert root.evidence[0]["text"][:30] in line.visible_text()
        assert line.store.line(line.spot)[1].decode().endswith(root.evidence[0]["text"][-30:]), (
            "pointed at, among the lines around it"
        )
        await press("escape", "esc back")
        await press("p", "p make plan")
        session = next(s for s in sessions if s.submitted)
        assert session.submitted == [
            ("plan", {"playbook": root.playbook, "run": root.run, "incident": root.id})
        ]
        fixtures.plan_record(session.state, action="01J00000000000000000000001")
        session.state.changed()
        app.tick()
        await drive(pilot, sessions, ())
        assert "$ " in page(), "the exact commands"
        await press("r", "r runs exactly this plan")
        assert "To confirm, type math-7b" in page()
        assert [kind for kind, _ in session.submitted] == ["plan"], (
            "nothing is done before the name was typed"
        )
    assert len(pressed) < 10, pressed


async def test_before_a_pod_has_answered_nobody_is_told_to_start_a_run_there() -> None:
    """Its runs are not known to be none: they are not known."""
    session = fixtures.connecting()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ())
        detail = "\n".join(text_of(line) for line in app.screen.query_one("#detail").lines)
        assert "What runs here is not known yet." in detail
        assert "W launch" not in detail


async def test_an_error_that_has_no_word_of_its_own_is_told_with_what_to_do() -> None:
    session = fixtures.idle()
    session.state.link.state, session.state.link.since = "error", fixtures.MONO - 9
    session.state.link.detail, session.state.link.next_step = (
        "a.yaml has no title.",
        "`bs4-console playbook lint` shows all of them.",
    )
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ())
        detail = "\n".join(text_of(line) for line in app.screen.query_one("#detail").lines)
        assert "a.yaml has no title. `bs4-console playbook lint` shows all of them." in detail
