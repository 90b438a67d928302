"""Queries of one stream: stat, seek-line, seek-time, search and others. They change nothing, are
limited in time and size, and can be cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from bs4_common.errors import BadRequest
from bs4_common.streams import seek
from bs4_common.streams.budget import Budget
from bs4_common.streams.cursor import END, START, Cursor
from bs4_common.streams.lines import LineIndex
from bs4_common.streams.stream import Stat, Stream

if TYPE_CHECKING:
    from bs4_common.streams.regexscan import ScanRequest, Term

#: Longest search text; a regular expression of this size compiles in milliseconds.
PATTERN_LIMIT = 1000
#: The most terms of one filter.
TERMS = 16
#: Seconds of one answer to a count or a search for a text. Other threads run during most of it, and
#: over a link with a round trip of 150 ms the number of answers makes a count long.
TEXT_SLICE_S = 0.25


if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.

    class Hit(TypedDict):
        """One line that a search has found."""

        cursor: str
        text: str
        at: int
        """Bytes into the line at which the match begins."""

    class StatAnswer(Stat):
        """The answer to the query `stat`."""

        next: None

    class QueryAnswer(TypedDict, total=False):
        """The answer to any other query; see `Queries.run` for the fields of each kind."""

        cursor: str | None
        cut: bool
        within: bool
        t: float | None
        """Wall seconds since 1970."""
        exact: bool
        line: int | None
        lines: int | Sequence[Sequence[str | int]] | None
        hits: Sequence[Hit]
        stretches: Sequence[Sequence[int]]
        next: Mapping[str, Any] | None
        """The arguments of the query that continues this one, or None if the answer is complete."""


@dataclass(frozen=True)
class _Query:
    """The arguments of one query, as a console has sent them, and the time for its answer."""

    arguments: Mapping[str, Any]
    budget: Budget


class Queries:
    """Answers the queries of one stream, such as a search. For each file it keeps an index of the
    line numbers, so that the lines of each part are counted only once.

    Every answer has the key `next`. It is None if the answer is complete. Otherwise the time for
    the query or the room for the answer ended first, and `next` has the arguments with which
    another query of the same kind continues.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._indexes: dict[int, LineIndex] = {}
        self._lock = threading.Lock()

    def run(
        self, op: str, arguments: Mapping[str, Any], stop: threading.Event | None = None
    ) -> StatAnswer | QueryAnswer:
        """Answer the query with the name `op` and return the answer. Another thread can cancel it
        by setting `stop`. Raises BadRequest if the query is unknown or its arguments are wrong, and
        BadCursor if the stream has no such place.

        * `stat`: the answer is that of the stream's `stat`.
        * `seek-line`: `line` is 0-based, or negative to count from the end or from `cursor`. The
          answer has `cursor`, where that line begins, or the place reached so far. With `room`, at
          most about that number of bytes is read on the way back from the end; `cut` then says that
          the line is further away, and `within` that `cursor` is inside a line.
        * `seek-time`: `t` is a Unix time. The answer has `cursor` of the first line not before it,
          the line's `t`, and `exact`, True. If lines have no times, `cursor` is about where the
          stream was at `t`, `t` is None, and `exact` is False.
        * `seek-clock`: moves by `seconds` from the clock HH:MM:SS of the line at `cursor`, over
          midnights. The answer has `cursor` of the first line not before that, or None if no line
          near has a clock.
        * `where`: the answer has `line`, the number of the line that contains `cursor`, and
          `lines`, the number of whole lines of the stream.
        * `search`: takes `pattern`, `cursor`, `limit`, and the flags `regex`, `ignore_case`,
          `backwards`. The answer has `hits` [{"cursor", "text", "at"}], one for each line; the
          match is `at` bytes into it.
        * `count`: takes `pattern`, `cursor`, and the flags `regex`, `ignore_case`. The answer has
          `stretches` [[generation, begin, end, lines]], the parts of files with matching lines, and
          `cursor`, where counting continues when the log has grown.
        * `sift`: takes `terms` [{"pattern" (regular expression), "ignore_case", "out"}], `floor`
          (least level, 0 to 50), `backwards`, `cursor`, `limit`. The answer has `lines` [[cursor,
          text, bytes]], which match every term and none with `out`, and `cursor`, the place up to
          which lines were tested.
        """
        answers: Mapping[str, Callable[[_Query], StatAnswer | QueryAnswer]] = {
            "stat": self._stat,
            "seek-line": self._seek_line,
            "seek-time": self._seek_time,
            "seek-clock": self._seek_clock,
            "where": self._where,
            "search": self._search,
            "count": self._count,
            "sift": self._sift,
        }
        if op not in answers:
            raise BadRequest(
                f"{op[:40]!r} is no query; use list, stat, seek-line, seek-time, seek-clock, "
                "where, search, count or sift."
            )
        return answers[op](_Query(arguments, Budget(stop)))

    def _stat(self, asked: _Query) -> StatAnswer:
        """Answer `stat`."""
        return {**self._stream.stat(), "next": None}

    def _seek_line(self, asked: _Query) -> QueryAnswer:
        """Answer `seek-line`."""
        line = asked.arguments.get("line")
        if type(line) is not int:
            raise BadRequest(
                "seek-line needs `line`, an integer; 0 is the first line, -1 the last."
            )
        if line < 0:
            end, room = self._place(asked.arguments.get("cursor", END)), asked.arguments.get("room")
            if room is not None and (type(room) is not int or room < 1):
                raise BadRequest("seek-line needs `room` to be a positive integer, bytes.")
            found = seek.line_from_end(self._stream.pieces(), end, -line, asked.budget, room)
        else:
            # An index is extended by one query at a time. A second query waits for at most one
            # slice.
            with self._lock:
                found = seek.line_from_start(self._stream.pieces(), self._index, line, asked.budget)
        answer: QueryAnswer = {"cursor": str(found.place), "next": found.ask_again}
        if found.cut:
            return {**answer, "cut": True, "within": found.within}
        return answer

    def _seek_time(self, asked: _Query) -> QueryAnswer:
        """Answer `seek-time`."""
        t = asked.arguments.get("t")
        if isinstance(t, bool) or not isinstance(t, (int, float)):
            raise BadRequest("seek-time needs `t`, wall seconds since 1970.")
        timestamp = self._stream.timestamp
        if timestamp and (found := seek.first_at(self._stream.pieces(), timestamp, float(t))):
            return {"cursor": str(found[0]), "t": found[1], "exact": True, "next": None}
        place = self._stream.place_at(float(t)) or str(self._stream.stat()["end"])
        return {"cursor": place, "t": None, "exact": False, "next": None}

    def _seek_clock(self, asked: _Query) -> QueryAnswer:
        """Answer `seek-clock`."""
        from bs4_common.streams import clockseek

        seconds = asked.arguments.get("seconds")
        if (
            isinstance(seconds, bool)
            or not isinstance(seconds, (int, float))
            or abs(seconds) > clockseek.FURTHEST_S
        ):
            raise BadRequest("seek-clock needs `seconds`, a number of at most a year.")
        place = clockseek.shift(
            self._stream.pieces(),
            self._place(asked.arguments.get("cursor", END)),
            int(seconds),
            asked.budget,
        )
        return {"cursor": str(place) if place else None, "next": None}

    def _where(self, asked: _Query) -> QueryAnswer:
        """Answer `where`."""
        place = self._place(asked.arguments.get("cursor", END))
        with self._lock:
            found = seek.count_lines(self._stream.pieces(), self._index, place, asked.budget)
        if found is None:
            return {"line": None, "lines": None, "next": {"cursor": str(place)}}
        return {"line": found[0], "lines": found[1], "next": None}

    def _search(self, asked: _Query) -> QueryAnswer:
        """Answer `search`."""
        from bs4_common.streams import search

        pattern, ignore_case, backwards = (
            _pattern(asked.arguments.get("pattern")),
            bool(asked.arguments.get("ignore_case")),
            bool(asked.arguments.get("backwards")),
        )
        pieces, limit = self._stream.pieces(), min(_limit(asked), search.MAX_HITS)
        start = self._place(asked.arguments.get("cursor", END if backwards else START))
        if asked.arguments.get("regex"):
            hits, place = search.regex(
                pieces,
                start,
                pattern,
                limit,
                asked.budget,
                ignore_case=ignore_case,
                backwards=backwards,
            )
        else:
            needle = search.Needle(pattern.encode("utf-8", "surrogatepass"), ignore_case)
            hits, place = search.literal(
                pieces,
                start,
                needle,
                limit,
                Budget(asked.budget.stop, TEXT_SLICE_S),
                backwards=backwards,
            )
        return {
            "hits": [{"cursor": str(cursor), "text": text, "at": at} for cursor, text, at in hits],
            "next": _next(place),
        }

    def _count(self, asked: _Query) -> QueryAnswer:
        """Answer `count`."""
        from bs4_common.streams import search

        pattern = _pattern(asked.arguments.get("pattern"))
        ignore_case = bool(asked.arguments.get("ignore_case"))
        pieces, start = (
            search.whole_lines(self._stream.pieces()),
            self._place(asked.arguments.get("cursor", START)),
        )
        if asked.arguments.get("regex"):
            request: ScanRequest = {
                "op": "count",
                "terms": [{"pattern": pattern, "ignore_case": ignore_case}],
                "limit": search.STRETCHES,
            }
            answer, following = search.scan(pieces, start, request, asked.budget)
            stretches, finished = answer["stretches"], following is None
            counted = answer.get("reached")
            reached = Cursor(*counted) if counted else start
            place = following or max(reached, start)
        else:
            needle = search.Needle(pattern.encode("utf-8", "surrogatepass"), ignore_case)
            stretches, place, finished = search.count(
                pieces, start, needle, Budget(asked.budget.stop, TEXT_SLICE_S)
            )
        return {
            "stretches": stretches,
            "cursor": str(place),
            "next": _next(None if finished else place),
        }

    def _sift(self, asked: _Query) -> QueryAnswer:
        """Answer `sift`."""
        from bs4_common.streams import search

        terms, floor, backwards = (
            asked.arguments.get("terms", []),
            asked.arguments.get("floor", 0),
            bool(asked.arguments.get("backwards")),
        )
        if (
            not isinstance(terms, list)
            or len(terms) > TERMS
            or not all(isinstance(term, dict) for term in terms)
            or type(floor) is not int
        ):
            raise BadRequest(
                f"sift needs `terms`, a list of at most {TERMS} objects, and `floor`, an integer."
            )
        checked: list[Term] = []
        for t in terms:
            checked.append(
                {
                    "pattern": _pattern(t.get("pattern")),
                    "ignore_case": bool(t.get("ignore_case")),
                    "out": bool(t.get("out")),
                }
            )
        pieces = search.whole_lines(self._stream.pieces())
        start = self._place(asked.arguments.get("cursor", END if backwards else START))
        request: ScanRequest = {
            "op": "sift",
            "terms": checked,
            "floor": floor,
            "limit": min(_limit(asked), search.MAX_HITS),
        }
        answer, place = search.scan(pieces, start, request, asked.budget, backwards=backwards)
        lines = []
        for generation, offset, text, size in answer["hits"]:
            lines.append([str(Cursor(generation, offset)), text, size])
        reached = place or start
        if place is None and pieces and backwards:
            reached = min(start, Cursor(pieces[0].generation, 0))
        elif place is None and pieces:
            reached = max(start, Cursor(pieces[-1].generation, pieces[-1].size))
        return {
            "lines": lines,
            "cursor": str(reached),
            "next": _next(place),
        }

    def _place(self, cursor: Any) -> Cursor:
        """Return the cursor in an argument, also for "start" and "end". Raises BadRequest or
        BadCursor.
        """
        if not isinstance(cursor, str):
            raise BadRequest("`cursor` is a text; use 'start', 'end' or a cursor that a read gave.")
        if cursor == START:
            return Cursor(0, 0)
        return Cursor.parse(str(self._stream.stat()["end"]) if cursor == END else cursor)

    def _index(self, generation: int) -> LineIndex:
        """Return the line index of one generation."""
        return self._indexes.setdefault(generation, LineIndex())


def _next(place: Cursor | None) -> dict[str, str] | None:
    """Return the arguments that continue a query at `place`, or None if it is finished."""
    if place is not None:
        return {"cursor": str(place)}
    return None


def _pattern(pattern: object) -> str:
    """Return the checked argument `pattern`. Raises BadRequest."""
    if not isinstance(pattern, str) or not 0 < len(pattern) <= PATTERN_LIMIT:
        raise BadRequest(f"A search needs `pattern`, a text of 1 to {PATTERN_LIMIT} characters.")
    return pattern


def _limit(asked: _Query) -> int:
    """Return the checked argument `limit`, 100 by default. Raises BadRequest."""
    limit = asked.arguments.get("limit", 100)
    if type(limit) is not int or limit < 1:
        raise BadRequest("A search needs `limit` to be a positive integer.")
    return limit
