"""The log of a run as a person uses it, where most of it is not held: sifted, searched and reached
on the pod.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.widgets.log_detail import LogDetail
from bs4_console.tui.widgets.log_paint import PaintBudget, cost
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until

LINES = 30_000


def trainer(n: int) -> str:
    return (
        f"{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02} "
        f"{'ERROR' if n % 1000 == 7 else 'INFO':>7} line {n} of {n % 10}\n"
    )


@asynccontextmanager
async def opened(
    *keys: str, size: tuple[int, int] = (100, 30), log: str = ""
) -> AsyncIterator[tuple[Any, Any]]:
    """(pilot, pane) on the log of one source with 30,000 lines."""
    session = fixtures.healthy()
    session.logs["log/code-14b/trainer"] = bytearray(
        (log or "".join(map(trainer, range(LINES)))).encode()
    )
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=size) as pilot:
        await drive(pilot, [session], ("l", ":source trainer", *keys))
        yield pilot, app.screen.pane


def pointed(pane: Any) -> str:
    return str(pane.view.store.line(pane.view.current)[1].decode())


async def test_a_filter_shows_matches_that_were_never_held() -> None:
    async with opened("/ERROR") as (pilot, pane):
        await until(pilot, lambda: len(pane.view.lens) == 30)
        assert len(pane.view.store) < 2100, "the whole log was fetched for thirty lines"
        assert "30 lines" in "".join(text for text, _ in pane._title())


async def test_lines_that_nobody_sees_any_more_are_given_back_at_once() -> None:
    async with opened() as (pilot, pane):
        first = pane.view.store
        await drive(pilot, [], (":go 50%", "~there"))
        await until(pilot, lambda: pane.view.store is not first and len(pane.view.store) > 0)
        assert not first.blocks, (
            "only the collector would give them back: a cancelled TaskGroup holds them"
        )
        second = pane.view.store
        await drive(pilot, [], ("escape",))
        await until(pilot, lambda: not pane.is_attached)
        assert not second.blocks


@pytest.mark.parametrize("key", ["/Loading|ERROR", ":level error"])
async def test_a_filter_shows_the_line_that_is_still_being_written(key: str) -> None:
    log = "".join(map(trainer, range(LINES))) + "12:00:00 ERROR died here\nLoading: 3%"
    async with opened(key, log=log) as (pilot, pane):
        await until(pilot, lambda: pane.view.visible_text().endswith("died here\nLoading: 3%"))
        stream = pane.stream_of("trainer")
        pane._session.write(stream, b"\rLoading: 99%")
        await until(pilot, lambda: pane.view.visible_text().endswith("died here\nLoading: 99%"))
        pane._session.write(stream, b"\n12:00:01 INFO on\n12:00:02 ERROR again\n")
        await until(
            pilot,
            lambda: pane.view.visible_text().endswith(
                "died here\nLoading: 99%\n12:00:02 ERROR again"
            ),
        )


async def test_a_filter_keeps_its_line_when_it_goes_though_those_around_it_were_not_held() -> None:
    async with opened("/ERROR") as (pilot, pane):
        await until(pilot, lambda: len(pane.view.lens) == 30)
        number = next(n for n in pane.view.on_screen if b"line 5007 " in pane.view.store.line(n)[1])
        pane.view.point_at(number)
        pane.set_filter("")
        await until(
            pilot,
            lambda: (
                "line 5008 of" in pane.view.visible_text()
                and pointed(pane).endswith("line 5007 of 7")
            ),
        )
        assert "line 5006 of" in pane.view.visible_text()


async def test_a_filter_and_a_level_stand_first_in_the_title_at_80_columns() -> None:
    """A log that shows nothing says what hides its lines, beside all else that is set."""
    keys = ("up", ":find line 77 of", "/SUCCESS", ":level error")
    async with opened(*keys, size=(80, 24)) as (_, pane):
        pane.pulse()
        title = text_of(pane._title())
        assert title.startswith(" logs  trainer · error and up · /SUCCESS 0 lines · ‖ paused")


async def test_hide_adds_to_the_filter_and_the_level_to_both() -> None:
    async with opened("/of 7", ":hide line 2", ":level error") as (pilot, pane):
        assert pane.view.filter_text == "of 7 && !line 2"
        await until(pilot, lambda: len(pane.view.lens) == 19)


async def test_find_goes_to_a_match_beyond_what_is_held_and_counts_all() -> None:
    async with opened(":find line 77 of") as (pilot, pane):
        await until(
            pilot, lambda: pane.view.spot is not None and pointed(pane).endswith("line 77 of 7")
        )
        await until(pilot, lambda: pane.search.finished and pane.search.total == 1)
        await drive(pilot, [], (":find ERROR",))
        await until(pilot, lambda: pane.search.finished and pane.search.total == 30)
        for expected in (1007, 2007, 3007):
            await pilot.press("n")
            await until(pilot, lambda expected=expected: f"line {expected} " in pointed(pane))
        await pilot.press("N")
        await until(pilot, lambda: "line 2007 " in pointed(pane))


async def test_find_says_which_match_of_how_many_is_pointed_at() -> None:
    """Of a short log, which is fetched up to its start."""
    log = "".join(map(trainer, range(4_000)))
    async with opened(":find ERROR", log=log) as (pilot, pane):

        def title() -> str:
            return "".join(text for text, _ in pane._title())

        await until(pilot, lambda: "find ERROR 4 of 4" in title())
        await pilot.press("N")
        await until(pilot, lambda: "find ERROR 3 of 4" in title())
        await pilot.press("up")
        await until(pilot, lambda: "find ERROR 4 lines" in title())


async def test_a_count_of_the_pod_says_that_it_knows_no_filter() -> None:
    async with opened("/of 7", ":find line 1", "G") as (pilot, pane):
        await until(pilot, lambda: pane.search is not None and pane.search.finished)
        assert "find line 1 11,111 lines without the filter" in text_of(pane._title())


async def test_of_a_long_log_find_says_only_how_many_lines_match() -> None:
    async with opened(":find ERROR") as (pilot, pane):
        await until(pilot, lambda: pane.search is not None and pane.search.finished)
        assert "find ERROR 30 lines" in "".join(text for text, _ in pane._title())
        assert len(pane.view.store) < LINES


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("12346", "line 12345 of"),
        ("50%", "line 15000 of"),
        ("-1h", "line 26399 of"),
        ("01:00", "line 3600 of"),
    ],
)
async def test_going_anywhere(place: str, expected: str) -> None:
    async with opened(f":go {place}", "~there") as (pilot, pane):
        await until(pilot, lambda: expected in pointed(pane))
        await pilot.press("G")
        await until(
            pilot,
            lambda: f"line {LINES - 1} of" in pane.view.visible_text() and pane.view.following,
        )


async def test_a_log_that_is_paused_at_a_place_counts_what_comes() -> None:
    """And not what was there already between the place and the end."""
    log = "".join(map(trainer, range(4_000)))
    async with opened(":go 3000", "~there", log=log) as (pilot, pane):
        await until(pilot, lambda: pane._feed.live)
        pane.pulse()
        assert "new" not in text_of(pane.view.state(pane._feed.unread))
        pane._session.write(pane.stream_of("trainer"), "".join(map(trainer, range(51))).encode())
        await until(pilot, lambda: "paused +51 new" in text_of(pane.view.state(pane._feed.unread)))


async def test_a_place_that_is_none_is_said() -> None:
    async with opened(":go soon") as (pilot, _):
        assert any("soon" in said.text and "-5m" in said.text for said in pilot.app.messages)


async def test_a_bookmark_is_found_again_from_far_away() -> None:
    async with opened("up", "up", "b", ":go 5", "~there") as (pilot, pane):
        await until(pilot, lambda: "line 4 of" in pointed(pane))
        assert len(pane.view.bookmarks) == 1
        await pilot.press("apostrophe")
        await until(pilot, lambda: f"line {LINES - 3} of" in pointed(pane))
        await until(
            pilot,
            lambda: (
                "◈"
                in "".join(pane.view.render_line(y).text[0] for y in range(pane.view.size.height))
            ),
        )


async def test_a_line_of_any_length_is_paged_and_never_drawn_whole() -> None:
    long = "12:00:00 INFO " + "".join(f"<{n:07}>" for n in range(200_000)) + "\n"
    async with opened(
        "up", log="12:00:00 INFO before\n" + long + "12:00:01 INFO after\n12:00:02 INFO end\n"
    ) as (pilot, pane):
        pane.view.point_at(
            next(n for n in pane.view.on_screen if len(pane.view.store.line(n)[1]) > 1000)
        )
        await pilot.press("shift+right", "shift+right")
        drawn = [pane.view.render_line(y).text for y in range(pane.view.size.height)]
        assert any("<0000020>" in line for line in drawn)
        assert not any("<0000000>" in line for line in drawn)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(pilot.app.screen, LogDetail))
        detail = pilot.app.screen
        assert "<0000000>" in detail.lines[0]
        await pilot.press("n")
        await until(pilot, lambda: detail.begin > 0)
        assert "<0000910>" in detail.lines[0]
        assert "<0000000>" not in detail.lines[0]
        await pilot.press("G")
        await until(pilot, lambda: "<0199999>" in detail.lines[0])
        await pilot.press("n")
        await pilot.pause()
        assert "<0199999>" in detail.lines[0], "behind its end lies the next line"
        await pilot.press("y")
        assert "of 1,800,014 of the line, 8,192 characters" in pilot.app.messages[-1].text


async def test_a_match_far_inside_a_long_line_is_found_and_its_part_opened() -> None:
    """A line of several megabytes, of which its beginning and end are held."""
    long = "12:00:00 INFO " + "x" * 6_000_000 + " needle " + "y" * 1_000_000 + "\n"
    log = "".join(map(trainer, range(5000))) + long + "".join(map(trainer, range(5000, 10_000)))
    async with opened(":find needle", log=log) as (pilot, pane):
        await until(
            pilot,
            lambda: (
                pane.view.spot is not None
                and b"INFO xxx" in pane.view.store.line(pane.view.spot)[1]
            ),
        )
        await until(
            pilot,
            lambda: pane.search is not None and pane.search.finished and pane.search.total == 1,
        )
        await until(
            pilot,
            lambda: any(
                "7,000,022 bytes ›" in pane.view.render_line(y).text
                for y in range(pane.view.size.height)
            ),
        )
        await drive(pilot, [], ("x",))
        await until(
            pilot,
            lambda: (
                isinstance(pilot.app.screen, LogDetail) and "needle" in pilot.app.screen.lines[0]
            ),
        )
        await drive(pilot, [], ("escape", "Y"))
        assert "bytes of it are only on the pod" in pilot.app.messages[-1].text


async def test_a_match_in_the_part_of_a_line_that_is_not_held_is_found() -> None:
    lines = [
        "12:00:00 INFO a\n",
        "12:00:01 INFO " + "x" * 6_000_000 + " needle " + "y" * 1_000_000 + "\n",
        "12:00:02 INFO b\n",
    ]
    async with opened("up", log="".join(map(trainer, range(5))) + "".join(lines)) as (pilot, pane):
        await drive(pilot, [], (":go 1", "~there"))
        await until(
            pilot, lambda: pane._feed.live and pane._feed.at_start and len(pane.view.store) == 8
        )
        await drive(pilot, [], (":find needle",))
        await until(
            pilot,
            lambda: (
                pane.view.spot is not None
                and b"INFO xxx" in pane.view.store.line(pane.view.spot)[1]
            ),
        )
        await until(
            pilot,
            lambda: any("far inside of this line" in said.text for said in pilot.app.messages),
        )
        await drive(pilot, [], ("n",))
        await until(
            pilot,
            lambda: any("needle does not occur below" in said.text for said in pilot.app.messages),
        )


async def test_copying_says_how_much_it_copied() -> None:
    log = "12:00:00 INFO one\n12:00:01 INFO " + "x" * 5000 + "\n12:00:02 INFO three\n"
    async with opened("up", log=log) as (pilot, pane):
        await drive(pilot, [], (":copy",))
        assert "Copied the 3 lines on the screen" in pilot.app.messages[-1].text
        assert "1 of them cut at 2,000, Y copies one whole" in pilot.app.messages[-1].text
        pane.view.point_at(pane.view.store.first + 1)
        await drive(pilot, [], ("Y",))
        assert "Copied the entry, 1 line, 5,014 characters." in pilot.app.messages[-1].text
        assert pilot.app._clipboard == "12:00:01 INFO " + "x" * 5000


async def test_the_line_that_is_being_written_can_be_expanded_and_copied() -> None:
    log = (
        "12:00:00 INFO begun\n12:00:01 ERROR boom\nTraceback (most recent call last):\n  File half"
    )
    async with opened(log=log) as (pilot, _pane):
        await drive(pilot, [], ("Y",))
        assert pilot.app._clipboard.splitlines() == [
            "12:00:01 ERROR boom",
            "Traceback (most recent call last):",
            "  File half",
        ]


async def test_an_entry_is_json_laid_out_or_a_traceback_whole() -> None:
    log = '12:00:00 INFO {"step": 3, "why": "one\\ntwo"}\n'
    log += "12:00:01 ERROR boom\nTraceback (most recent call last):\nKeyError: 1\n12:00:02 INFO z\n"
    async with opened("up", log=log) as (_, pane):
        pane.view.point_at(pane.view.store.first)
        assert pane.entry_text() == ["12:00:00 INFO", "step: 3", "why:", "  one", "  two"]
        pane.view.point_at(pane.view.store.first + 3)
        assert pane.entry_text() == [
            "12:00:01 ERROR boom",
            "Traceback (most recent call last):",
            "KeyError: 1",
        ]


async def test_over_a_link_of_its_own_the_painting_waits_for_its_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")
    async with opened(size=(180, 50)) as (_, pane):
        view, now = pane.view, [100.0]
        view.budget = PaintBudget(72 * 1024, clock=lambda: now[0])
        spent, painted = 0, 0
        for n in range(400):  # ten seconds of forty ticks each
            now[0] += 0.025
            before = view.on_screen
            pane._store.append("".join(trainer(n * 100 + i) for i in range(100)).encode())
            view.tick()
            if view.on_screen != before:
                painted += 1
                spent += sum(cost(view.render_line(y)) for y in range(view.size.height))
        assert spent / 10 < 90 * 1024
        assert painted > 20, "it stands still"
        before = view.on_screen
        view.action_page(-1)
        assert view.on_screen != before, "what a person does is painted at once"


async def test_esc_takes_away_what_was_set_before_the_prompt_was_opened() -> None:
    async with opened("/ERROR") as (pilot, pane):
        await pilot.press("exclamation_mark", "7", "escape")
        await until(pilot, lambda: pane.view.filter_text == "ERROR")
        await pilot.press("slash", "escape")
        await until(pilot, lambda: pane.view.filter_text == "")
        await drive(pilot, [], (":find INFO",))
        await pilot.press("f", "escape")
        await until(pilot, lambda: pane.view.find_text == "")
        assert pane.view.has_focus


async def test_find_turns_round_where_there_is_nothing_above() -> None:
    async with opened(":go 20000", "~there", ":find line 25000 of") as (pilot, pane):
        await until(pilot, lambda: pointed(pane).endswith("line 25000 of 0"))
        await until(
            pilot,
            lambda: pane.search is not None and pane.search.finished and pane.search.total == 1,
        )
        assert "1 line" in "".join(text for text, _ in pane._title())
        await drive(pilot, [], (":find nowhere in it",))
        await until(
            pilot,
            lambda: any("nowhere in it does not occur" in said.text for said in pilot.app.messages),
        )


@pytest.mark.parametrize("key", ["up", "G", "n"])
async def test_what_find_says_of_a_place_goes_with_the_next_key_that_moves(key: str) -> None:
    log = "".join(map(trainer, range(4_000)))
    async with opened(":go 1", "~there", ":find line 100 of|line 200 of", log=log) as (pilot, pane):
        await until(pilot, lambda: "line 100 of" in pointed(pane))
        assert "does not occur above: this is the next one below" in pilot.app.news.text
        pane.pulse()
        assert pilot.app.news is not None, "nobody has moved"
        await pilot.press(key)
        await until(pilot, lambda: pilot.app.news is None)


async def test_of_lines_of_json_it_is_said_that_the_files_own_text_was_searched() -> None:
    line = (
        '{{"timestamp": "2026-11-20T21:37:{:02}+00:00", "level": "INFO", "message": "Step {}"}}\n'
    )
    log = "".join(line.format(n, n) for n in range(40))
    async with opened(":find INFO Step 12", log=log) as (pilot, pane):
        assert "21:37:39    INFO Step 39" in pane.view.visible_text()
        await until(pilot, lambda: pilot.app.news is not None)
        assert "Lines of JSON are searched as the file has them" in pilot.app.news.text
        await drive(pilot, [], ("/INFO Step",))
        assert "/INFO Step 0 lines in the file's JSON" in text_of(pane._title())


async def test_an_entry_keeps_its_indentation_on_the_screen() -> None:
    log = (
        "12:00:01 ERROR boom\nTraceback (most recent call last):\n    raise ValueError(1)\n"
        "ValueError: 1\n12:00:02 INFO z\n"
    )
    async with opened("up", log=log) as (pilot, pane):
        pane.view.point_at(pane.view.store.first + 2)
        await drive(pilot, [], ("x",))
        await until(
            pilot,
            lambda: (
                isinstance(pilot.app.screen, LogDetail) and bool(pilot.app.screen.query("#entry"))
            ),
        )
        entry = pilot.app.screen.query_one("#entry")
        assert [text.rstrip() for text in map(text_of, entry.lines) if "raise" in text] == [
            "    raise ValueError(1)"
        ]


async def test_a_match_beyond_the_edge_is_brought_into_sight_and_one_before_it_back() -> None:
    log = (
        "12:00:00 INFO begin here\n12:00:01 INFO "
        + "x" * 700
        + " 日本語 far away\n12:00:02 INFO end\n"
    )
    async with opened(":find far away", log=log) as (pilot, pane):
        await until(
            pilot, lambda: "far away" in pane.view.visible_text() and pane.view.spot is not None
        )
        row = pane.view.render_line(pane.view.on_screen.index(pane.view.spot)).text
        assert "far away" in row
        await drive(pilot, [], (":find begin",))
        row = pane.view.render_line(pane.view.on_screen.index(pane.view.spot)).text
        assert row.startswith("▸12:00:00 INFO begin")


async def test_a_match_beyond_the_edge_moves_its_own_line_only() -> None:
    log = "12:00:00 INFO short\n" + f"12:00:01 INFO {'x' * 200} needle\n12:00:02 INFO end\n"
    async with opened(":find needle", size=(80, 24), log=log) as (pilot, pane):
        view = pane.view
        await until(pilot, lambda: view.spot is not None)
        rows = [view.render_line(y).text.rstrip() for y in range(3)]
        assert rows[0] == " 12:00:00 INFO short"
        assert rows[1].startswith("▸‹xxx")
        assert rows[1].endswith(" needle")
        await pilot.press("left")
        assert view.render_line(0).text.startswith(" ‹")


async def test_beside_a_find_the_amount_of_lines_is_left_out_where_both_have_no_room() -> None:
    async with opened(":find line 77 of", size=(80, 24)) as (pilot, pane):
        await until(pilot, lambda: pane.search is not None and pane.search.finished)
        pane.pulse()
        title = text_of(pane._title())
        assert "find line 77 of 1 line" in title
        assert "loaded" not in title


async def test_what_is_typed_to_find_is_only_marked_until_enter() -> None:
    """Neither the pod nor the folding of requests has work with half a text."""
    request = '{} - "GET /metrics HTTP/1.1" 200 OK\n'
    requests = "".join(map(request.format, range(40)))
    log = "".join(map(trainer, range(LINES))) + requests
    async with opened(":find ERROR", log=log) as (pilot, pane):
        await until(pilot, lambda: pane.search is not None and pane.search.finished)
        asked: list[str] = []
        query = pane._session.query

        async def noted(stream: str, op: str, **parameters: Any) -> Any:
            if op in ("search", "count"):
                asked.append(op)
            return await query(stream, op, **parameters)

        pane._session.query = noted
        before = pane.view.lens.filter
        assert before.found == "ERROR"
        await pilot.press("f", "3", "7", "space", "minus")
        await until(pilot, lambda: pane.view.find_text == "37 -")
        pane.pulse()
        assert pane.view.marks.find is not None
        assert pane.view.marks.find.pattern == "37 -"
        assert "find 37 -" in "".join(text for text, _ in pane._title())
        assert "30 lines" not in "".join(text for text, _ in pane._title()), "of the text before"
        pane.moved()  # as when the window is filled anew meanwhile
        assert pane.search is None
        assert pane.view.lens.filter is before, "all lines were examined again"
        assert not asked
        await pilot.press("enter")
        await until(pilot, lambda: pane.search is not None and pane.search.finished)
        await until(pilot, lambda: pointed(pane).startswith("37 - "))
        assert pane.view.lens.filter.found == "37 -"
        assert sorted(pane.view.lens.folded.values()) == [1, 36]
        assert asked


async def test_what_is_counted_for_a_log_that_was_closed_is_no_fault() -> None:
    async with opened(":find ERROR") as (pilot, pane):
        await until(pilot, lambda: pane.search is not None)
        await drive(pilot, [], ("escape", "escape"))
        await until(pilot, lambda: not pane.is_attached)
        pane.pulse()


async def test_a_new_text_to_find_takes_the_place_of_the_last_and_an_arrow_goes_on_with_it() -> (
    None
):
    async with opened(":find ERROR") as (pilot, pane):
        await pilot.press("f", "W")
        assert pilot.app.screen.prompt.field.value == "W"
        await pilot.press("escape")
        await drive(pilot, [], (":find ERROR",))
        await pilot.press("f", "right", "S")
        assert pilot.app.screen.prompt.field.value == "ERRORS"
        await pilot.press("escape")
        await until(pilot, lambda: pane.view.find_text == "")


async def test_progress_by_carriage_return_is_one_line_in_its_newest_state_however_it_is_read() -> (
    None
):
    bar = "".join(f"\rLoading: {n:3d}%|{'#' * (n // 10):<10}| {n}/100" for n in range(101))
    log = "12:00:00 INFO before\n" + bar + "\n12:00:01 INFO after\n"
    async with opened(log=log) as (pilot, pane):
        assert pane.view.visible_text().splitlines()[1] == "Loading: 100%|##########| 100/100"
        assert len(pane.view.store) == 3
        await drive(pilot, [], ("/Loading",))
        await until(pilot, lambda: len(pane.view.lens) == 1)
        assert pane.view.visible_text() == "Loading: 100%|##########| 100/100"
        await drive(pilot, [], ("/: +50%",))
        assert not len(pane.view.lens), "a state that was overwritten is no match"
