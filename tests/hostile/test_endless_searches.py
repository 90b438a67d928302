"""A search in a far log ends, whatever the pod says about where it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bs4_console import ceilings
from bs4_console.errors import EndlessAnswer, StandingAnswer
from bs4_console.logs.filter import LogFilter, Term
from bs4_console.logs.pages import LogPages
from bs4_console.logs.search import LogSearch

LOG = "log/r/trainer"
FILTER = LogFilter((Term.parse("x"),))


class Endless:
    """A pod that always has more of a log to search, and names `place(asked)` as where it goes on.
    It gives up the test itself behind the ceiling.
    """

    def __init__(self, place: Callable[[str], str]) -> None:
        self.asked = 0
        self._place = place

    async def query(self, stream: str, op: str, **arguments: Any) -> dict[str, Any]:
        self.asked += 1
        assert self.asked < 100, "the console asks without an end"
        place = self._place(arguments["cursor"])
        found = {"hits": [], "lines": [], "stretches": [], "cursor": place}
        return {**found, "next": {"cursor": place}}

    def search(self, wanted: LogFilter | None = None) -> LogSearch:
        pages = LogPages(self, lambda: None)  # type: ignore[arg-type]
        return LogSearch(pages, [LOG], "needle", wanted or LogFilter())


def stands(asked: str) -> str:
    return asked if ":" in asked else "1:0"


def forward(asked: str) -> str:
    return f"1:{int(asked.partition(':')[2] or 0) + 1}"


def backward(asked: str) -> str:
    return f"1:{int(asked.partition(':')[2]) - 1}"


async def nearest(search: LogSearch, direction: int) -> object:
    return await search.nearest({0: (0, 1, 5_000)}, {0: None}, direction)


@pytest.fixture(autouse=True)
def few_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "SEARCH_ANSWERS", 20)


async def test_a_count_that_stands_still_is_given_up() -> None:
    pod = Endless(stands)
    with pytest.raises(StandingAnswer, match=f"count of {LOG} does not get on: .* at 1:0"):
        await pod.search().count(lambda: None)
    assert pod.asked == 2


async def test_a_count_that_goes_on_for_ever_is_given_up() -> None:
    pod = Endless(forward)
    with pytest.raises(EndlessAnswer, match=f"count of {LOG} has no end after 20 answers"):
        await pod.search().count(lambda: None)
    assert pod.asked == 20


@pytest.mark.parametrize("wanted", [LogFilter(), FILTER], ids=["plain", "under a filter"])
@pytest.mark.parametrize(
    ("direction", "place"), [(1, stands), (-1, stands), (1, backward), (-1, forward)]
)
async def test_a_search_that_stands_still_or_turns_back_is_given_up(
    wanted: LogFilter, direction: int, place: Callable[[str], str]
) -> None:
    pod = Endless(place)
    with pytest.raises(StandingAnswer, match="does not get on"):
        await nearest(pod.search(wanted), direction)
    assert pod.asked == 1


@pytest.mark.parametrize("wanted", [LogFilter(), FILTER], ids=["plain", "under a filter"])
@pytest.mark.parametrize(("direction", "place"), [(1, forward), (-1, backward)])
async def test_a_search_that_goes_on_for_ever_is_given_up(
    wanted: LogFilter, direction: int, place: Callable[[str], str]
) -> None:
    pod = Endless(place)
    with pytest.raises(EndlessAnswer, match="has no end after 20 answers"):
        await nearest(pod.search(wanted), direction)
    assert pod.asked == 20


@pytest.mark.parametrize("backwards", [False, True])
async def test_a_filtered_log_that_stands_still_is_given_up(backwards: bool) -> None:
    pages = LogPages(Endless(stands), lambda: None)  # type: ignore[arg-type]
    with pytest.raises(StandingAnswer):
        await pages.filter_lines(LOG, 0, "1:7", FILTER, backwards=backwards)
