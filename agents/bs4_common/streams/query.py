"""Queries of one stream: stat, seek-line, seek-time, search and others. They change nothing, are
limited in time and size, and can be cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from bs4_common.errors import BadRequest
from bs4_common.streams import seek
from bs4_common.streams.budget import Budget
from bs4_common.streams.cursor import END, START, Cursor
from bs4_common.streams.lines import LineIndex
from bs4_common.streams.stream import Stream

#: Longest search text; a regular expression of this size compiles in milliseconds.
PATTERN_LIMIT = 1000
#: The most terms of one filter.
TERMS = 16
#: Seconds of one answer to a count or a search for a text. Other threads run during most of it, and
#: over a link with a round trip of 150 ms the number of answers makes a count long.
TEXT_SLICE_S = 0.25


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
    ) -> dict[str, Any]:
        """Answer the query with the name `op` and return the answer as a dictionary. Another thread
        can cancel the query by setting `stop`. Raises BadRequest for an unknown query or wrong
        arguments, and BadCursor if the stream does not have the place that a cursor names. The
        queries, with their `arguments` and answers, are:

        * `stat`: the answer is that of the stream's method `stat`.
        * `seek-line`: finds a line by its number. `line` is 0-based, or negative to count back from
          the end or from `cursor`. The answer has `cursor`, where that line begins, or the place
          reached so far. With `room`, at most about that number of bytes is read on the way back
          from the end; `cut` is then True if the line is further away, and `within` is True if
          `cursor` is inside a line.
        * `seek-time`: finds a line by its time. `t` is a Unix time in seconds. The answer has
          `cursor` of the first line not before it, the line's `t`, and `exact`, True. If lines have
          no times, `cursor` is about where the stream ended at `t`, `t` is None, and `exact` is
          False.
        * `seek-clock`: moves by `seconds` from the clock HH:MM:SS of the line at `cursor`, over
          midnights. The answer has `cursor` of the first line not before that, or None if no line
          near has a clock.
        * `where`: finds the number of a line. The answer has `line`, the number of the line that
          contains `cursor`, and `lines`, the number of whole lines of the stream.
        * `search`: finds lines that match `pattern`. It takes `pattern`, `cursor`, `limit`, and the
          flags `regex`, `ignore_case`, `backwards`. The answer has `hits` [{"cursor", "text",
          "at"}], one for each line; the match begins `at` bytes after the line's begin.
        * `count`: counts the lines that match `pattern`. It takes `pattern`, `cursor`, and the
          flags `regex`, `ignore_case`. The answer has `stretches` [[generation, begin, end,
          lines]], the parts of files with matching lines, and `cursor`, where counting continues
          when the log has grown.
        * `sift`: filters lines. It takes `terms` [{"pattern" (regular expression), "ignore_case",
          "out"}], `floor` (the lowest level, 0 to 50), `backwards`, `cursor`, `limit`. The answer
          has `lines` [[cursor, text, bytes]], which match every term without `out` and no term with
          `out`, and `cursor`, the place up to which lines were tested.
        """
        answers = {
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
        return answers[op](arguments, Budget(stop))

    def _stat(self, _arguments: Mapping[str, Any], _budget: Budget) -> dict[str, Any]:
        """Answer `stat`."""
        return {**self._stream.stat(), "next": None}

    def _seek_line(self, arguments: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
        """Answer `seek-line`."""
        line = arguments.get("line")
        if type(line) is not int:
            raise BadRequest(
                "seek-line needs `line`, an integer; 0 is the first line, -1 the last."
            )
        if line < 0:
            end, room = self._place(arguments.get("cursor", END)), arguments.get("room")
            if room is not None and (type(room) is not int or room < 1):
                raise BadRequest("seek-line needs `room` to be a positive integer, bytes.")
            found = seek.line_from_end(self._stream.pieces(), end, -line, budget, room)
        else:
            # An index is extended by one query at a time. A second query waits for at most one
            # slice.
            with self._lock:
                found = seek.line_from_start(self._stream.pieces(), self._index, line, budget)
        answer: dict[str, Any] = {"cursor": str(found.place), "next": found.ask_again}
        if found.cut:
            return {**answer, "cut": True, "within": found.within}
        return answer

    def _seek_time(self, arguments: Mapping[str, Any], _budget: Budget) -> dict[str, Any]:
        """Answer `seek-time`."""
        t = arguments.get("t")
        if isinstance(t, bool) or not isinstance(t, (int, float)):
            raise BadRequest("seek-time needs `t`, wall seconds since 1970.")
        timestamp = self._stream.timestamp
        if timestamp and (found := seek.first_at(self._stream.pieces(), timestamp, float(t))):
            return {"cursor": str(found[0]), "t": found[1], "exact": True, "next": None}
        place = self._stream.place_at(float(t)) or str(self._stream.stat()["end"])
        return {"cursor": place, "t": None, "exact": False, "next": None}

    def _seek_clock(self, arguments: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
        """Answer `seek-clock`."""
        from bs4_common.streams import clockseek

        seconds = arguments.get("seconds")
        if (
            isinstance(seconds, bool)
            or not isinstance(seconds, (int, float))
            or abs(seconds) > clockseek.FURTHEST_S
        ):
            raise BadRequest("seek-clock needs `seconds`, a number of at most a year.")
        place = clockseek.shift(
            self._stream.pieces(), self._place(arguments.get("cursor", END)), int(seconds), budget
        )
        return {"cursor": str(place) if place else None, "next": None}

    def _where(self, arguments: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
        """Answer `where`."""
        place = self._place(arguments.get("cursor", END))
        with self._lock:
            found = seek.count_lines(self._stream.pieces(), self._index, place, budget)
        if found is None:
            return {"line": None, "lines": None, "next": {"cursor": str(place)}}
        return {"line": found[0], "lines": found[1], "next": None}

    def _search(self, arguments: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
        """Answer `search`."""
        from bs4_common.streams import search

        pattern, ignore_case, backwards = (
            _pattern(arguments),
            bool(arguments.get("ignore_case")),
            bool(arguments.get("backwards")),
        )
        pieces, limit = self._stream.pieces(), min(_limit(arguments), search.MAX_HITS)
        start = self._place(arguments.get("cursor", END if backwards else START))
        if arguments.get("regex"):
            hits, place = search.regex(
                pieces, start, pattern, limit, budget, ignore_case=ignore_case, backwards=backwards
            )
        else:
            needle = search.Needle(pattern.encode("utf-8", "surrogatepass"), ignore_case)
            hits, place = search.literal(
                pieces, start, needle, limit, Budget(budget.stop, TEXT_SLICE_S), backwards=backwards
            )
        return {
            "hits": [{"cursor": str(cursor), "text": text, "at": at} for cursor, text, at in hits],
            "next": _next(place),
        }

    def _count(self, arguments: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
        """Answer `count`."""
        from bs4_common.streams import search

        pattern, ignore_case = _pattern(arguments), bool(arguments.get("ignore_case"))
        pieces, start = (
            search.whole_lines(self._stream.pieces()),
            self._place(arguments.get("cursor", START)),
        )
        if arguments.get("regex"):
            request = {
                "op": "count",
                "terms": [{"pattern": pattern, "ignore_case": ignore_case}],
                "limit": search.STRETCHES,
            }
            answer, following = search.scan(pieces, start, request, budget)
            stretches, finished = answer["stretches"], following is None
            reached = Cursor(*answer["reached"]) if answer.get("reached") else start
            place = following or max(reached, start)
        else:
            needle = search.Needle(pattern.encode("utf-8", "surrogatepass"), ignore_case)
            stretches, place, finished = search.count(
                pieces, start, needle, Budget(budget.stop, TEXT_SLICE_S)
            )
        return {
            "stretches": stretches,
            "cursor": str(place),
            "next": _next(None if finished else place),
        }

    def _sift(self, arguments: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
        """Answer `sift`."""
        from bs4_common.streams import search

        terms, floor, backwards = (
            arguments.get("terms", []),
            arguments.get("floor", 0),
            bool(arguments.get("backwards")),
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
        checked = []
        for t in terms:
            checked.append(
                {
                    "pattern": _pattern(t),
                    "ignore_case": bool(t.get("ignore_case")),
                    "out": bool(t.get("out")),
                }
            )
        pieces = search.whole_lines(self._stream.pieces())
        start = self._place(arguments.get("cursor", END if backwards else START))
        request = {
            "op": "sift",
            "terms": checked,
            "floor": floor,
            "limit": min(_limit(arguments), search.MAX_HITS),
        }
        answer, place = search.scan(pieces, start, request, budget, backwards=backwards)
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


def _pattern(arguments: Mapping[str, Any]) -> str:
    """Return the checked argument `pattern`. Raises BadRequest."""
    pattern = arguments.get("pattern")
    if not isinstance(pattern, str) or not 0 < len(pattern) <= PATTERN_LIMIT:
        raise BadRequest(f"A search needs `pattern`, a text of 1 to {PATTERN_LIMIT} characters.")
    return pattern


def _limit(arguments: Mapping[str, Any]) -> int:
    """Return the checked argument `limit`, 100 by default. Raises BadRequest."""
    limit = arguments.get("limit", 100)
    if type(limit) is not int or limit < 1:
        raise BadRequest("A search needs `limit` to be a positive integer.")
    return limit
