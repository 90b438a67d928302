"""The log on the screen: following, pausing, anchors, filters, searching, and what must never reach
the terminal.
"""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.logs.store import LogStore
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.widgets.log_view import LogView
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, settle, until


def numbered(first: int, last: int) -> bytes:
    return b"".join(b"21:00:00    INFO line %d\n" % i for i in range(first, last))


@pytest.fixture
async def bench() -> Any:
    """An app with nothing but a log view of 20 lines over an empty store."""
    app: Any = ConsoleApp(fixtures.fleet(), clock=fixtures.CLOCK)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        view = LogView(LogStore())
        view.styles.height = 20
        await app.screen.mount(view, before=app.screen.query_one("Prompt"))
        app.screen.table.display = False
        await pilot.pause()
        view.focus()
        vars(view)["pilot"] = pilot
        yield view


def flood(view: LogView, first: int, last: int) -> None:
    """In pieces, as a link brings them."""
    data = numbered(first, last)
    for at in range(0, len(data), 65536):
        view.store.append(data[at : at + 65536])


def rows(view: LogView) -> list[str]:
    """Without the gutter."""
    return [view.render_line(y).text[1:].rstrip() for y in range(view.size.height)]


async def test_it_follows_the_end(bench: LogView) -> None:
    bench.store.append(numbered(0, 100))
    bench.tick()
    assert rows(bench)[-1].endswith("line 99")
    bench.store.append(numbered(100, 103))
    bench.tick()
    assert rows(bench)[-1].endswith("line 102")


async def test_nothing_is_painted_before_the_tick(bench: LogView) -> None:
    bench.store.append(numbered(0, 100))
    assert rows(bench) == [""] * 20


async def test_a_pause_keeps_the_place_and_counts_what_comes(bench: Any) -> None:
    bench.store.append(numbered(0, 100))
    bench.tick()
    await bench.pilot.press("pageup")
    before = rows(bench)
    for i in range(100, 12445, 1000):
        bench.store.append(numbered(i, min(i + 1000, 12445)))
        bench.tick()
    assert rows(bench) == before
    assert bench.unseen == 12345
    assert "paused +12,345 new" in text_of(bench.state())
    await bench.pilot.press("G")
    assert bench.following
    assert rows(bench)[-1].endswith("line 12444")


async def test_scrolling_back_to_the_end_follows_again(bench: Any) -> None:
    bench.store.append(numbered(0, 100))
    bench.tick()
    await bench.pilot.press("up")
    assert not bench.following
    await bench.pilot.press("down")
    assert bench.following


async def test_pruning_does_not_move_what_is_looked_at(bench: Any) -> None:
    bench.store.cap_bytes = 3_400_000
    flood(bench, 0, 60_000)
    bench.tick()
    await bench.pilot.press("pageup")
    before = rows(bench)
    assert bench.store.first == 0
    flood(bench, 60_000, 100_000)
    bench.tick()
    assert bench.store.first > 0, "the test needs lines to be pruned"
    assert rows(bench) == before


@pytest.mark.parametrize("keys", ["k", "j", "kkj"])
async def test_the_pointer_is_on_the_screen_though_lines_were_pruned_since_it_was_painted(
    bench: Any, keys: str
) -> None:
    bench.store.cap_bytes = 3_400_000
    flood(bench, 0, 60_000)
    bench.tick()
    bench.toggle_follow()
    before = rows(bench)
    flood(bench, 60_000, 75_000)  # and no tick
    assert bench.store.first > 0, "the test needs lines to be pruned"
    for key in keys:
        bench.action_scroll(1 if key == "j" else -1)
    assert bench.spot in bench.on_screen
    assert set(rows(bench)) & set(before), "the screen has jumped elsewhere"


async def test_a_page_up_is_from_what_is_on_the_screen_and_not_from_what_came_since(
    bench: Any,
) -> None:
    flood(bench, 0, 1000)
    bench.tick()
    await settle(bench.pilot)
    assert rows(bench)[0].endswith("line 980")
    flood(bench, 1000, 2000)
    bench.action_page(-1)  # before anything could paint what came
    assert rows(bench)[-1].endswith(f"line {980 - 18 + 19}")


async def test_when_the_place_itself_is_pruned_the_oldest_line_is_shown(bench: Any) -> None:
    bench.store.cap_bytes = 3_400_000
    bench.store.append(numbered(0, 1000))
    bench.tick()
    bench.to_first()
    for i in range(1000, 200_000, 20_000):
        flood(bench, i, i + 20_000)
        bench.tick()
    assert rows(bench)[0].endswith(f"line {bench.store.first}")


async def test_a_filter_keeps_the_anchor_line(bench: Any) -> None:
    bench.store.append(numbered(0, 5000))
    bench.tick()
    bench.to_first()
    bench._go(1237)
    bench.set_filter("line [0-9]*5$")
    while bench.lens.pending:
        bench.tick()
    assert rows(bench)[0].endswith("line 1245")
    bench.set_filter("")
    assert rows(bench)[0].endswith("line 1237") or rows(bench)[0].endswith("line 1245")


async def test_the_line_pointed_at_keeps_its_row_when_a_filter_comes_and_goes(bench: Any) -> None:
    bench.store.append(numbered(0, 5000))
    bench.tick()
    bench._go(1237)
    bench.point_at(1245)
    assert rows(bench)[8].endswith("line 1245")
    bench.set_filter("line [0-9]*5$")
    assert rows(bench)[8].endswith("line 1245")
    bench.set_filter("")
    assert rows(bench)[8].endswith("line 1245")
    assert rows(bench)[0].endswith("line 1237")


async def test_a_filter_on_a_flood_stays_at_the_end(bench: LogView) -> None:
    bench.set_filter("line [0-9]*7$")
    for i in range(0, 30_000, 5000):
        bench.store.append(numbered(i, i + 5000))
        bench.tick()
    while bench.lens.pending:
        bench.tick()
    bench.tick()
    assert rows(bench)[-1].endswith("line 29997")


async def test_sideways_and_the_end_of_long_lines(bench: Any) -> None:
    bench.store.append(b"21:00:00 INFO " + b"abcdefghij" * 30 + b"END\n")
    bench.tick()
    assert rows(bench)[0].endswith("›")
    for _ in range(16):
        await bench.pilot.press("right")
    assert rows(bench)[0].rstrip().endswith("END")
    await bench.pilot.press("0")
    assert rows(bench)[0].startswith("21:00:00 INFO abc")


async def test_a_very_long_line_says_how_long_it_is_and_a_match_far_inside_is_brought_into_sight(
    bench: Any,
) -> None:
    bench.store.append(
        b"21:00:00 INFO short\n21:00:01 INFO "
        + b"x" * 1_000_000
        + b" needle "
        + b"y" * 500_000
        + b"\n"
    )
    bench.tick()
    assert rows(bench)[1].endswith("1,500,022 bytes ›")
    assert not rows(bench)[0].endswith("›")
    bench.set_find("needle")
    assert bench.find_back() is True
    row = bench.render_line(1)
    assert " needle " in row.text
    assert any(
        "needle" in segment.text and segment.style != row._segments[0].style for segment in row
    ), "it is not marked"
    await bench.pilot.press("shift+right")
    assert rows(bench)[1].endswith("bytes ›")
    assert "yyy" in rows(bench)[1]


async def test_what_is_copied_of_a_very_long_line_says_that_it_is_cut(bench: Any) -> None:
    bench.store.append(
        b"21:00:00 INFO " + b"a" * 300 + b"\n21:00:01 INFO " + b"x" * 100_000 + b"\n"
    )
    bench.tick()
    short, long = bench.to_copy()
    assert short == "21:00:00 INFO " + "a" * 300
    assert (len(long) < 2100, long.endswith(" … 100,014 bytes in all")) == (True, True)


async def test_wide_characters_do_not_shift_the_line(bench: LogView) -> None:
    bench.store.append("21:00:00 INFO 日本語のログ行です ".encode() * 8 + b"\n")
    bench.tick()
    assert bench.render_line(0).cell_length == bench.size.width


async def test_a_hostile_log_cannot_reach_the_terminal(bench: LogView) -> None:
    bench.store.append(
        b"\x1b]52;c;cm0gLXJmIC8=\x07\x1b[2J\x1b[?1049lboo\x9b31m\xc2\x9b31m\x07\x08\r\n"
        + "a\u202eb\n".encode()
    )
    bench.tick()
    for y in range(3):
        for segment in bench.render_line(y):
            assert not [
                c for c in segment.text if ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F or c == "\u202e"
            ]
            assert segment.control is None


async def test_a_gap_is_a_line(bench: LogView) -> None:
    bench.store.append(numbered(0, 2))
    bench.store.mark("gap: 12.3 MB lost before they were read (truncated)")
    bench.tick()
    assert rows(bench)[2] == "‒‒ gap: 12.3 MB lost before they were read (truncated) ‒‒"


async def test_the_unfinished_line_is_repainted_as_it_grows(bench: LogView) -> None:
    bench.store.append(b"\r 10%|#")
    bench.tick()
    assert rows(bench)[0] == " 10%|#"
    bench.store.append(b"\r 90%|#########")
    bench.tick()
    assert rows(bench)[0] == " 90%|#########"


async def test_a_filter_shows_the_unfinished_line_as_it_grows_and_keeps_what_is_pointed_at(
    bench: Any,
) -> None:
    bench.store.append(numbered(0, 100) + b"\rload 10%")
    bench.set_filter("load|7$")
    bench.tick()
    assert rows(bench)[9:12] == ["21:00:00    INFO line 97", "load 10%", ""]
    await bench.pilot.press("up", "up")  # off the unfinished line, and to the one above it
    pointed = bench.spot
    bench.store.append(b"\rload 90%")
    bench.tick()
    assert rows(bench)[10] == "load 90%"
    bench.store.append(b"\rload 100%\n" + numbered(100, 108))
    bench.tick()
    assert rows(bench)[9:13] == [
        "21:00:00    INFO line 97",
        "load 100%",
        "21:00:00    INFO line 107",
        "",
    ]
    assert bench.spot == pointed
    assert bench.render_line(8).text.startswith("▸")


async def test_folded_lines_of_a_progress_bar_show_how_far_it_is(bench: LogView) -> None:
    bench.store.append(
        b"21:00:00 INFO loading\n"
        + b"".join(b"Loading shards: %d%% Completed | %d/40\n" % (n, n) for n in range(40))
    )
    bench.set_filter(fold="alike")
    bench.tick()
    assert rows(bench)[1] == "×40 Loading shards: 39% Completed | 39/40"
    bench.store.append(
        b"Loading shards: 40% Completed | 40/40\n21:00:01 INFO loaded\n21:00:02 INFO loaded\n"
    )
    bench.tick()
    assert rows(bench)[1:3] == [
        "×41 Loading shards: 40% Completed | 40/40",
        "21:00:01 INFO ×2 loaded",
    ]


async def test_requests_are_one_line_until_something_is_looked_for(bench: LogView) -> None:
    """The cursor stands on the line that stands for the one pointed at."""
    answered = b'INFO:     127.0.0.1:%d - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    bench.store.append(
        b"21:00:00 INFO begin\n"
        + b"".join(answered % port for port in range(40000, 40016))
        + b'INFO:     127.0.0.1:40012 - "POST /update_weights HTTP/1.1" 500 Internal Server Error\n'
    )
    bench.tick()
    assert rows(bench)[:4] == [
        "21:00:00 INFO begin",
        "INFO: ×16     POST /v1/chat/completions 200",
        'INFO:     127.0.0.1:40012 - "POST /update_weights HTTP/1.1" 500 Internal Serve›',
        "",
    ]
    assert text_of(bench.title()) == " · 15 requests folded"
    bench.point_at(9)
    assert [row for row in range(3) if bench.render_line(row).text.startswith("▸")] == [1]
    bench.set_find("40009")
    bench.tick()
    assert rows(bench)[1:4] == [
        "INFO: ×9     POST /v1/chat/completions 200",
        'INFO:     127.0.0.1:40009 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "INFO: ×6     POST /v1/chat/completions 200",
    ], "only what is looked for is a line of its own"
    assert bench.find_back()
    assert bench.spot == 10
    bench.set_find("")
    bench.tick()
    assert rows(bench)[3] == ""


async def test_alternating_requests_are_one_line_with_the_count_of_each(bench: LogView) -> None:
    polled = b'INFO:     127.0.0.1:40000 - "GET /%b HTTP/1.1" 200 OK\n'
    bench.store.append(b"21:00:00 INFO begin\n")
    for _ in range(8):
        bench.store.append(polled % b"health" + polled % b"metrics")
    bench.tick()
    told = "INFO: ×16     GET /health 200 ×8, GET /metrics 200 ×8"
    assert rows(bench)[:3] == ["21:00:00 INFO begin", told, ""]
    bench.store.append(polled % b"health")
    bench.tick()
    assert rows(bench)[1] == "INFO: ×17     GET /health 200 ×9, GET /metrics 200 ×8"


async def test_what_is_found_is_marked(bench: LogView) -> None:
    bench.store.append(numbered(0, 100))
    bench.tick()
    bench.set_find("line")
    assert bench.next_match(-1) is True
    bench.set_find("line 42$")
    assert bench.find_back()
    hit = bench._ink.style("hit")
    marked = [
        segment.text
        for y in range(20)
        for segment in bench.render_line(y)
        if segment.style and segment.style.bgcolor == hit.bgcolor
    ]
    assert marked == ["line 42"]


async def test_a_search_that_finds_nothing_moves_nothing(bench: LogView) -> None:
    bench.store.append(numbered(0, 100))
    bench.tick()
    before = rows(bench)
    bench.set_find("nowhere")
    assert not bench.find_back()
    assert rows(bench) == before


async def test_older_lines_are_fetched_at_the_top() -> None:
    session = fixtures.healthy()
    session.logs["log/code-14b/trainer"] = bytearray(numbered(0, 6000))
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("l", ":source trainer"))
        pane = app.screen.pane
        assert len(pane.view.store) == 2000
        pane.view._go(1)
        await until(pilot, lambda: len(pane.view.store) >= 4000)
        assert pane.view.visible_text().startswith("21:00:00    INFO line 4001\n")
        pane.view.to_first()
        await until(pilot, lambda: len(pane.view.store) == 6000)
        assert "line 2000\n" in pane.view.visible_text()
        await pilot.press("g")
        await until(pilot, lambda: pane.view.visible_text().startswith("21:00:00    INFO line 0\n"))


async def test_the_run_screen_rests_while_the_log_screen_reads() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("enter",))
        run = app.screen

        def reads() -> bool:
            return run.pane._worker is not None

        assert reads()
        await drive(pilot, [session], ("l",))
        assert not reads()
        await drive(pilot, [session], ("escape",))
        assert reads()
        assert len(run.pane.view.store) == 612


async def test_a_source_that_appears_later_joins() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("l",))
        session.write("log/code-14b/env-math", b"21:00:00 INFO the environment speaks\n")
        await until(pilot, lambda: "the environment speaks" in app.screen.pane.view.visible_text())


async def test_nothing_is_left_running_when_the_log_is_closed() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [session], ("l",))
        assert [worker for worker in app.workers if worker.is_running]
        await drive(pilot, [session], ("escape",))
        await until(pilot, lambda: not [worker for worker in app.workers if worker.is_running])


async def test_over_ssh_it_paints_four_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    intervals: list[float] = []
    monkeypatch.setattr(
        ConsoleApp, "set_interval", lambda self, interval, *_: intervals.append(interval)
    )
    for name in ("", "SSH_CONNECTION"):
        if name:
            monkeypatch.setenv(name, "192.0.2.1 1 192.0.2.2 22")
        async with ConsoleApp(fixtures.fleet(), clock=fixtures.CLOCK).run_test():
            pass
    assert intervals[:1] + intervals[-1:] == [0.1, 0.25]
