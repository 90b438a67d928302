"""A window over logs that stay on their pod: filtered, merged and moved there, against the plain
lines of the same files.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bs4_console.errors import UsageError
from bs4_console.logs.feed import LogFeed
from bs4_console.logs.filter import Lens, LogFilter
from bs4_console.logs.jump import Target, parse, resolve
from bs4_console.logs.merge import Side, keyed, rows_of, take_newer, take_older
from bs4_console.logs.pages import LogPages
from bs4_console.logs.search import LogSearch
from bs4_console.logs.store import LogStore, Repeats
from tests.console.logs.pods_logs import PodsLogs, cursor_of, texts

ONE, TWO = "log/r/one", "log/r/two"


def log(name: str, count: int, start: int, every: int) -> bytes:
    """`count` lines, `every` seconds apart, over midnight when they come there; every tenth an
    error with a traceback.
    """
    lines = []
    for n in range(count):
        t = (start + n * every) % 86400
        level = "ERROR" if n % 10 == 0 else "INFO"
        lines.append(
            f"{t // 3600:02}:{t // 60 % 60:02}:{t % 60:02} {level:>7} {name} line {n} of it"
        )
        if n % 10 == 0:
            lines += ["Traceback (most recent call last):", f"  cause {name} {n}"]
    return "\n".join(lines).encode() + b"\n"


async def until(condition: object) -> None:
    async with asyncio.timeout(60):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.001)


@asynccontextmanager
async def at_work(work: object) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)  # type: ignore[type-var]
    try:
        yield
        if task.done():
            task.result()  # type: ignore[attr-defined]
    finally:
        task.cancel()  # type: ignore[attr-defined]
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"IDLE_S": 0.001, "COUNT_S": 0.0, "DISCOVER_S": 0.005}.items():
        monkeypatch.setattr(f"bs4_console.logs.feed.{name}", value)


async def test_a_filter_fetches_only_what_passes(tmp_path: Path) -> None:
    data = log("one", 30_000, 0, 1)
    pod, store = PodsLogs(tmp_path, {ONE: data}), LogStore()
    feed = LogFeed(pod, store, lambda: None)
    async with at_work(feed.run([ONE])):
        await until(lambda: feed.loaded)
        held = pod.read_bytes
        feed.filter = LogFilter.parse("line 12[0-9]* of && !7 of")
        while await feed.older():
            pass
        assert pod.read_bytes - held < 1000, "the lines that do not pass were transferred"
        lens = Lens(store)
        lens.set(feed.filter)
        while lens.step():
            pass
        shown = [store.line(lens.number(n))[1].decode() for n in range(len(lens))]
        assert shown == [
            line for line in data.decode().splitlines() if " line 12" in line and "7 of" not in line
        ]
        assert feed.at_start
        assert feed.sifted


async def test_lines_that_waited_when_the_filter_was_set_have_to_pass_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is written faster than another has lines that wait for the other's next page."""
    monkeypatch.setattr("bs4_console.logs.feed.MERGED_TAIL_LINES", 50)
    data = {ONE: log("one", 700, 0, 7), TWO: log("two", 4900, 0, 1)}
    pod, store = PodsLogs(tmp_path, data), LogStore()
    feed = LogFeed(pod, store, lambda: None)
    async with at_work(feed.run([ONE, TWO])):
        await until(lambda: feed.loaded)
        assert await feed.older()
        assert any(side.waiting for side in feed._before)
        feed.filter = LogFilter.parse("foozz")
        while await feed.older():
            pass
        lens = Lens(store)
        lens.set(feed.filter)
        while lens.step():
            pass
        assert [store.line(lens.number(n))[1] for n in range(len(lens))] == []


async def test_a_level_floor_keeps_tracebacks_also_over_the_edges_of_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bs4_console.logs.pages.SIFTED_LINES", 7)
    data = log("one", 200, 0, 1)
    pod, store = PodsLogs(tmp_path, {ONE: data}), LogStore()
    feed = LogFeed(pod, store, lambda: None)
    feed.filter = LogFilter.parse("", 40)
    await feed.go_to({ONE: str(pod.streams[ONE].stat()["end"])})
    while await feed.older():
        pass
    lens = Lens(store)
    lens.set(feed.filter)
    while lens.step():
        pass
    assert [store.line(lens.number(n))[1].decode() for n in range(len(lens))] == [
        line for line in data.decode().splitlines() if "INFO" not in line
    ]


async def test_the_merged_whole_is_paged_back_to_its_start_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bs4_console.logs.feed.MERGED_TAIL_LINES", 50)
    data = {ONE: log("one", 700, 85_000, 7), TWO: log("two", 300, 85_003, 16)}
    pod, store = PodsLogs(tmp_path, data), LogStore(repeats=Repeats())
    feed = LogFeed(pod, store, lambda: None)
    async with at_work(feed.run([ONE, TWO])):
        await until(lambda: feed.loaded)
        assert store.end < 150
        while await feed.older():
            pass
        seconds = {f"one line {n} of it": n * 7 for n in range(700)} | {
            f"two line {n} of it": 3 + n * 16 for n in range(300)
        }
        shown = [line.split(maxsplit=2)[2] for line in texts(store) if " line " in line]
        assert len(shown) == 1000
        assert [seconds[line] for line in shown] == sorted(seconds.values())
        # A traceback stays behind its own line.
        lines = texts(store)
        assert all(
            lines[i - 2].endswith(f"{line.split()[1]} line {line.split()[2]} of it")
            for i, line in enumerate(lines)
            if "cause" in line
        )


async def test_a_merged_window_in_the_middle_grows_to_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bs4_console.logs.feed.MERGED_TAIL_LINES", 40)
    monkeypatch.setattr("bs4_console.logs.pages.PAGE_BYTES", 2000)
    data = {ONE: log("one", 700, 85_000, 7), TWO: log("two", 300, 85_003, 16)}
    pod, store = PodsLogs(tmp_path, data), LogStore()
    feed = LogFeed(pod, store, lambda: None)
    places = {
        ONE: cursor_of(data[ONE], b"one line 351 of"),
        TWO: cursor_of(data[TWO], b"two line 154 of"),
    }
    anchor = await feed.go_to(places)
    wanted = 60
    async with at_work(feed.go_on(lambda: store.end - anchor < wanted)):
        await until(lambda: store.end - anchor >= wanted)
        assert store.line(anchor)[1].decode().endswith("one line 351 of it")
        assert store.end - anchor < 200, "it read on although nobody wanted more"
        wanted = 10_000
        await until(lambda: feed.live)
        while await feed.older():
            pass
        assert sorted(line for line in texts(store) if " line " in line) == sorted(
            line
            for part in data.values()
            for line in part.decode().splitlines()
            if " line " in line
        )
        numbers = [int(line.split()[4]) for line in texts(store) if " two line " in line]
        assert numbers == list(range(300))


async def test_a_paused_reader_leaves_the_lines_on_the_pod_and_counts_them(tmp_path: Path) -> None:
    pod, store = PodsLogs(tmp_path, {ONE: log("one", 100, 0, 1)}), LogStore()
    feed, paused = LogFeed(pod, store, lambda: None), False
    async with at_work(feed.run([ONE], wanted=lambda: not paused)):
        await until(lambda: feed.loaded)
        paused = True
        await asyncio.sleep(0.01)
        held = store.end
        pod.write(ONE, b"more\n" * 12_345)
        await until(lambda: feed.unread == 12_345)
        assert store.end == held
        paused = False
        await until(lambda: store.end == held + 12_345)
        assert feed.unread == 0


async def test_who_follows_and_falls_behind_goes_on_at_the_end_without_a_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bs4_console.logs.feed.BEHIND_BYTES", 500_000)
    monkeypatch.setattr("bs4_console.logs.feed.BEHIND_READS", 1)
    monkeypatch.setattr("bs4_console.logs.feed.PAGE_BYTES", 10_000)
    pod, store = PodsLogs(tmp_path, {ONE: log("one", 10, 0, 1)}), LogStore()
    feed = LogFeed(pod, store, lambda: None)
    async with at_work(feed.run([ONE])):
        await until(lambda: feed.loaded)
        before = store.end
        data = b"".join(b"10:00:00 INFO flood %d\n" % n for n in range(100_000))
        pod.write(ONE, data)
        await until(
            lambda: (
                store.end > store.first and store.line(store.end - 1)[1].endswith(b"flood 99999")
            )
        )
        assert feed.left_out > 1_000_000
        assert store.first > before, "numbers go on: anchors and pauses depend on it"
        for _ in range(4):
            await feed.older()
        numbers = [int(line.split()[3]) for line in texts(store)]
        assert numbers == list(range(numbers[0], 100_000))
        assert len(numbers) > 6000


async def test_what_was_paused_is_never_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bs4_console.logs.feed.BEHIND_BYTES", 1000)
    monkeypatch.setattr("bs4_console.logs.feed.BEHIND_READS", 1)
    monkeypatch.setattr("bs4_console.logs.feed.PAGE_BYTES", 1000)
    pod, store = PodsLogs(tmp_path, {ONE: log("one", 10, 0, 1)}), LogStore()
    feed = LogFeed(pod, store, lambda: None, following=lambda: False)
    async with at_work(feed.run([ONE])):
        await until(lambda: feed.loaded)
        pod.write(ONE, b"x\n" * 20_000)
        await until(lambda: store.end >= 20_000)
        assert feed.left_out == 0


async def test_lines_know_their_place_and_are_found_by_it(tmp_path: Path) -> None:
    data = log("one", 3000, 0, 1)
    pod, store = PodsLogs(tmp_path, {ONE: data}), LogStore()
    feed = LogFeed(pod, store, lambda: None)
    async with at_work(feed.run([ONE])):
        await until(lambda: feed.loaded)
        await feed.older()
        pod.write(ONE, b"\x1b[31mcoloured\x1b[0m\nhalf")
        await until(lambda: texts(store)[-1] == "coloured")
        raw = pod.paths[ONE].read_bytes()
        for number in random.Random(3).sample(range(store.first, store.end), 50):
            place = store.place(number)
            assert place is not None
            source, generation, offset = place
            assert (source, generation) == (0, 1)
            assert (
                raw[offset:].split(b"\n")[0].replace(b"\x1b[31m", b"").replace(b"\x1b[0m", b"")
                == store.line(number)[1]
            )
            assert store.number_at(place) == number
    assert store.number_at((0, 1, 3)) is None


# -- searching


async def search(pod: PodsLogs, text: str, wanted: str = "") -> LogSearch:
    return LogSearch(LogPages(pod, lambda: None), list(pod.streams), text, LogFilter.parse(wanted))


async def test_all_matches_are_counted_and_those_that_come_later_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bs4_console.logs.search.AGAIN_S", 0.001)
    pod = PodsLogs(tmp_path, {ONE: log("one", 1000, 0, 1), TWO: log("two", 500, 0, 1)})
    found = await search(pod, "ERROR")
    async with at_work(found.count(lambda: None)):
        await until(lambda: found.finished)
        assert found.total == 150
        pod.write(TWO, b"10:00:00 ERROR another\n")
        await until(lambda: found.total == 151)


@pytest.mark.parametrize(("wanted", "expected"), [("", "line 40 of"), ("!line 40", "line 30 of")])
async def test_the_next_match_is_one_that_is_shown(
    tmp_path: Path, wanted: str, expected: str
) -> None:
    data = log("one", 1000, 0, 1)
    pod = PodsLogs(tmp_path, {ONE: data})
    edge = int(cursor_of(data, b"line 50 of").split(":")[1])
    match = await (await search(pod, "error", wanted)).nearest({0: (0, 1, edge)}, {0: 50}, -1)
    assert match is not None
    assert expected.encode() in data[match.place[2] :].split(b"\n")[0]
    assert await (await search(pod, "nowhere")).nearest({0: (0, 1, edge)}, {0: 50}, -1) is None


async def test_among_several_sources_the_nearest_in_time(tmp_path: Path) -> None:
    data = {ONE: log("one", 500, 0, 1), TWO: log("two", 500, 0, 1)}
    pod = PodsLogs(tmp_path, data)
    edges = {
        0: (0, 1, int(cursor_of(data[ONE], b"line 105 of").split(":")[1])),
        1: (1, 1, int(cursor_of(data[TWO], b"line 119 of").split(":")[1])),
    }
    match = await (await search(pod, "ERROR")).nearest(edges, {0: 105, 1: 119}, 1)
    assert match is not None
    assert match.clock in (110, 120)
    assert match.place[0] == 1, "one second on in two, five in one"


# -- going somewhere


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("1234", Target(line=1234)),
        ("1,234,567", Target(line=1_234_567)),
        ("-5", Target(line=-5)),
        ("50%", Target(share=0.5)),
        ("-5m", Target(seconds=-300)),
        ("+1h30m", Target(seconds=5400)),
        ("21:14", Target(clock=76_440)),
        ("21:14:05", Target(clock=76_445)),
    ],
)
def test_places_as_they_are_typed(text: str, target: Target) -> None:
    assert parse(text) == target


@pytest.mark.parametrize("text", ["", "soon", "25:00", "5 minutes", "%", "+5"])
def test_what_is_no_place_says_what_is(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert "-5m" in caught.value.next_step


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("243", "cause one 200"),
        ("50%", "one line 496 of"),
        ("-100s", "one line 400 of"),
        ("00:03:20", "one line 200 of"),
        ("-2", "cause one 990"),
    ],
)
async def test_going_to_a_place(tmp_path: Path, typed: str, expected: str) -> None:
    data = log("one", 1000, 0, 1)
    data = data[: data.rindex(b"\n", 0, data.index(b"line 991 of")) + 1] + b"the end\n"
    pod = PodsLogs(tmp_path, {ONE: data})
    here = {ONE: cursor_of(data, b"line 500 of")}
    places = await resolve(parse(typed), LogPages(pod, lambda: None), here, 500, at_end=False)
    offset = int(places[ONE].split(":")[1])
    assert expected.encode() in data[offset:].split(b"\n")[0]


async def test_a_time_goes_in_all_sources_and_a_line_number_in_none(tmp_path: Path) -> None:
    data = {ONE: log("one", 1000, 0, 1), TWO: log("two", 100, 0, 10)}
    pod = PodsLogs(tmp_path, data)
    pages, here = (
        LogPages(pod, lambda: None),
        {ONE: cursor_of(data[ONE], b"line 500 of"), TWO: cursor_of(data[TWO], b"line 50 of")},
    )
    places = await resolve(parse("+1m"), pages, here, 500, at_end=False)
    assert places == {
        ONE: cursor_of(data[ONE], b"line 560 of"),
        TWO: cursor_of(data[TWO], b"line 56 of"),
    }
    with pytest.raises(UsageError):
        await resolve(parse("12"), pages, here, 500, at_end=False)


# -- merging


def test_lines_without_a_clock_stay_behind_their_head() -> None:
    rows = rows_of(b"first\n10:00:00 a\n  more\n10:00:05 b\n", 0, "1:0")
    assert [time for time, _ in keyed(rows)] == [36000, 36000, 36000, 36005]
    assert [row[2] for row in rows] == [0, 6, 17, 24]


def test_the_day_is_told_by_the_neighbour() -> None:
    rows = rows_of(b"23:59:00 a\n00:00:10 b\n", 0, "1:0")
    assert [time for time, _ in keyed(rows, before=86400 + 20)] == [86340, 86410]
    assert [time for time, _ in keyed(rows, before=20)] == [-60, 10]
    assert [time for time, _ in keyed(rows, after=86400 + 86000)] == [86400 + 86340, 2 * 86400 + 10]


def test_only_as_far_as_all_sources_have_been_fetched() -> None:
    def side(*times: int, ended: bool = False) -> Side:
        return Side("1:0", waiting=[(time, (0, 1, time, b"")) for time in times], ended=ended)

    assert [row[2] for row in take_older([side(1, 5, 9), side(4, 8)])] == [4, 5, 8, 9]
    assert [row[2] for row in take_newer([side(1, 5, 9), side(4, 8)])] == [1, 4, 5, 8]
    assert [row[2] for row in take_older([side(1, 5, 9, ended=True), side(4, 8)])] == [4, 5, 8, 9]
    assert take_older([side(1, 5), side()]) == []
    assert [row[2] for row in take_older([side(1, 5), side(ended=True)])] == [1, 5]


@pytest.mark.parametrize("sources", [1, 2])
async def test_a_line_of_many_megabytes_is_opened_at_its_end_and_read_back_in_parts(
    tmp_path: Path, sources: int
) -> None:
    data = log("one", 100, 0, 1) + b"x" * 9_000_000 + b" tail\n" + log("one", 3, 200, 1)
    logs = {ONE: data, TWO: log("two", 100, 0, 1)} if sources == 2 else {ONE: data}
    pod, store = PodsLogs(tmp_path, logs), LogStore()
    feed = LogFeed(pod, store, lambda: None)
    async with at_work(feed.run(list(logs))):
        await until(lambda: feed.loaded)
        assert pod.read_bytes < 3_000_000, "more than a screen needs was transferred"
        assert not feed.at_start
        async with asyncio.timeout(30):
            while await feed.older():
                pass
    held = texts(store)
    assert [line for line in held if "two" in line] == [
        line for line in logs.get(TWO, b"").decode().splitlines() if "two" in line
    ]
    assert [line for line in held if " one " in line] == [
        line for line in data.decode().splitlines() if " one " in line
    ]
    assert (
        sum(line.count("x") for line in held if set(line.removesuffix(" tail")) == {"x"})
        == 9_000_000
    )
    assert any("begins further up" in line for line in held)
