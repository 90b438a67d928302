"""Search whole logs on their pods: find the next match outside the lines held here, and count all
matches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from bs4_console import ceilings
from bs4_console.errors import EndlessAnswer
from bs4_console.logs.filter import LogFilter, sought
from bs4_console.logs.merge import DAY, HALF
from bs4_console.logs.pages import LogPages, split
from bs4_console.logs.store import LogStore, Place
from bs4_console.logs.text import clock_of

#: Seconds between two counts of the matches in new lines.
AGAIN_S = 2.0


@dataclass(frozen=True)
class Match:
    """A line in which the searched text was found. `place` is its place in the logs on the pod, and
    `clock` its time of day in seconds since midnight (None if the line has no clock).
    """

    place: Place
    clock: int | None


class FindQuery(TypedDict):
    """What the agent's queries "search" and "count" look for."""

    pattern: str
    regex: bool
    """True if `pattern` is a regular expression."""
    ignore_case: bool


class LogSearch:
    """A search for one text in all of the logs `streams` (names such as "log/RUN/trainer") on the
    pod. `total` is the number of matches found so far; it grows while `count` runs. `finished` is
    True once every line was searched.
    """

    def __init__(
        self, pages: LogPages, streams: Sequence[str], text: str, wanted: LogFilter
    ) -> None:
        self.text, self.term, self.filter = text, sought(text), wanted
        self.total = 0
        self.finished = False
        self._pages, self._streams = pages, list(streams)

    @property
    def arguments(self) -> FindQuery:
        """Return the parameters with which the agent's queries "search" and "count" look for the
        searched text.
        """
        literal = self.term.literal
        return {
            "pattern": literal or self.term.text,
            "regex": literal is None,
            "ignore_case": self.term.ignore_case,
        }

    async def count(self, changed: Callable[[], None]) -> None:
        """Let the pod count the matches in all streams, and write the number into `total`.
        Afterwards look for new lines every AGAIN_S (2) seconds and count their matches too, until
        this task is cancelled. The function `changed` is called after each answer of the pod.
        Raises RemoteError if the agent refuses the query, and EndlessAnswer or StandingAnswer if it
        does not come to an end.
        """
        cursors = dict.fromkeys(self._streams, "start")
        while True:
            for stream, cursor in cursors.items():
                cursors[stream] = await self._count(stream, cursor, changed)
            self.finished = True
            changed()
            await asyncio.sleep(AGAIN_S)

    async def _count(self, stream: str, cursor: str, changed: Callable[[], None]) -> str:
        """Count the matches from `cursor` to the stream's end. Return the cursor of the end. Raises
        EndlessAnswer if it does not come.
        """
        for _ in range(ceilings.SEARCH_ANSWERS):
            answer = await self._pages.ask(stream, "count", cursor=cursor, **self.arguments)
            self.total += sum(stretch[3] for stretch in answer["stretches"])
            further = answer["next"]
            cursor = further["cursor"] if further else answer["cursor"]
            changed()
            if further is None:
                return cursor
        raise EndlessAnswer(stream, "count", ceilings.SEARCH_ANSWERS)

    async def nearest(
        self, edges: Mapping[int, Place], clocks: Mapping[int, int | None], direction: int
    ) -> Match | None:
        """Ask the pod for the nearest match outside the lines in the LogStore (those held in
        memory): after them if `direction` is +1, before them if it is -1. Return None if there is
        none. If several logs have a match, return the one that is nearest by the clock.

        `edges` maps the number of each log to the place of its first or last line in the LogStore,
        on the side of `direction`. `clocks` maps the same number to that line's time of day in
        seconds since midnight (None if it has no clock). The function `edges_of` returns both.
        Raises RemoteError if the agent refuses the query, and EndlessAnswer or StandingAnswer if it
        does not come to an end.
        """
        nexts = (self._next(place, direction) for place in edges.values())
        found = [match for match in await asyncio.gather(*nexts) if match is not None]

        def distance(match: Match) -> int:
            here = clocks.get(match.place[0])
            if here is None or match.clock is None:
                return DAY
            return (direction * (match.clock - here)) % DAY

        return min(found, key=distance, default=None)

    async def _next(self, edge: Place, direction: int) -> Match | None:
        """Return the first match of one source beyond `edge` in a direction, or None. Raises
        EndlessAnswer if the pod does not come to an end.
        """
        source, generation, offset = edge
        stream, cursor = self._streams[source], f"{generation}:{offset}"
        here = cursor
        for _ in range(ceilings.SEARCH_ANSWERS):
            hits, cursor, ended = await self._ask(stream, cursor, backwards=direction < 0)
            for place, text in hits:
                if place != here:
                    return Match((source, *split(place)), clock_of(text.encode()))
            if ended:
                return None
        raise EndlessAnswer(stream, "search", ceilings.SEARCH_ANSWERS)

    async def _ask(
        self, stream: str, cursor: str, *, backwards: bool
    ) -> tuple[list[tuple[str, str]], str, bool]:
        """Return up to two hits as (cursor, text), the cursor where to go on, and True if there are
        no more. Under a filter only a line that is shown is a hit.
        """
        # Two hits, because the first may be the current line.
        page = {"cursor": cursor, "backwards": backwards, "limit": 2}
        if self.filter.sifts:
            both = LogFilter((*self.filter.terms, self.term), self.filter.floor).query()
            answer = await self._pages.ask(stream, "sift", **page, **both)
            hits = [(place, text) for place, text, _ in answer["lines"]]
            further = answer["next"]
        else:
            found = await self._pages.ask(stream, "search", **page, **self.arguments)
            hits = [(hit["cursor"], hit["text"]) for hit in found["hits"]]
            further = found["next"]
        return hits, further["cursor"] if further else cursor, further is None


def shortest(clock: int, here: int) -> int:
    """Return the seconds from the time of day `here` to the nearest occurrence of the time of day
    `clock`, at most half a day. Negative means earlier. Both are seconds since midnight.
    """
    return (clock - here + HALF) % DAY - HALF


def edges_of(
    store: LogStore, sources: int, direction: int
) -> tuple[dict[int, Place], dict[int, int | None]]:
    """Return two dictionaries, (edges, clocks), that say where the lines in `store` end. For each
    log, by its number from 0 to `sources` - 1, `edges` has the place of its last line in the store
    if `direction` is +1, or of its first line if it is -1. `clocks` has that line's time of day in
    seconds since midnight, or None if it has no clock. A log without a line in the store is missing
    in both.
    """
    edges, clocks = dict[int, Place](), dict[int, int | None]()
    held = range(store.first, store.end)
    for number in held if direction < 0 else reversed(held):
        place = store.place(number)
        if place is not None and place[0] not in edges:
            edges[place[0]] = place
            clocks[place[0]] = clock_of(store.line(number)[1])
        if len(edges) == sources:
            break
    return edges, clocks


async def beside(
    pages: LogPages,
    streams: Sequence[str],
    match: Match,
    edges: Mapping[int, Place],
    clocks: Mapping[int, int | None],
    direction: int,
) -> dict[str, str]:
    """Return {stream: cursor} with the places in all logs that belong to the moment of `match`: in
    its own log the place of the match, and in each other log the place with the same time by the
    clock. `streams` are the names of the logs. `edges` and `clocks` say at which lines in memory
    the search began (see `edges_of`), and `direction` where it went: +1 forward, -1 backward. A log
    without an entry in `edges` is left out. Raises RemoteError if the agent refuses the query, and
    EndlessAnswer if it does not come to an end.
    """
    source, generation, offset = match.place
    here, places = clocks.get(source), dict[str, str]()
    for other, stream in enumerate(streams):
        if other == source:
            places[stream] = f"{generation}:{offset}"
        elif (edge := edges.get(other)) is not None:
            cursor = f"{edge[1]}:{edge[2]}"
            if here is not None and match.clock is not None:
                seconds = direction * ((direction * (match.clock - here)) % DAY)
                found = (await pages.ask(stream, "seek-clock", cursor=cursor, seconds=seconds))[
                    "cursor"
                ]
                cursor = cursor if found is None else str(found)
            places[stream] = cursor
    return places
