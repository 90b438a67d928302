"""Records of a pod: journal, telemetry and steps, from the check at the gate to
the fold, the verdict and the rows of the screen.

An input is a list of lines `j`, `t` or `s` (journal, telemetry, steps of run "r") and a record. A
record is refused with a reason, or everything that is made of it works.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from bs4_common.streams.segments import parse
from bs4_console.checks import formats, verdict
from bs4_console.pods.reader import PodReader
from bs4_console.pods.state import PodState
from bs4_console.tui.clock import Clock
from bs4_console.tui.overview import Overview
from tests.fuzz import healthy
from tests.fuzz.nesting import check_nesting

_STREAMS = {"journal": b"j", "telemetry": b"t", "steps/r": b"s"}

SEEDS = [
    b"".join(b"j" + line for line in healthy.JOURNAL),
    b"".join(b"j" + line for line in healthy.JOURNAL[:9])
    + b"t"
    + healthy.TELEMETRY
    + b"".join(b"s" + line for line in healthy.STEPS),
    b"j" + healthy.JOURNAL[1] + b"t" + healthy.TELEMETRY,
    b"j" + healthy.JOURNAL[1] + b"j" + healthy.JOURNAL[7] + b"j" + healthy.JOURNAL[8],
    b"j" + healthy.JOURNAL[3] + b"j" + healthy.JOURNAL[4] + b"j" + healthy.JOURNAL[5],
    b"j" + healthy.JOURNAL[1] + b"".join(b"s" + line for line in healthy.STEPS),
]


class _Given:
    """What a mirror gives to the reader, out of the lines of an input."""

    def __init__(self, data: bytes) -> None:
        self._lines = data.split(b"\n")

    def records(self, stream: str) -> Iterator[dict[str, Any]]:
        for line in self._lines:
            if not line.startswith(_STREAMS.get(stream, b"-")):
                continue
            record = parse(line[1:])
            if record is not None:
                check_nesting(record)
                yield record

    def tail(self, stream: str, count: int) -> list[dict[str, Any]]:
        return list(self.records(stream))[-count:]


def feed(data: bytes) -> None:
    """Fold the records, judge the pod, and make its row and the outputs of `check`."""
    state = PodState(name="pod")
    PodReader(state, _Given(data)).replay()  # type: ignore[arg-type]
    judged = verdict.judge(state)
    for output in (formats.text, formats.prom, formats.github, formats.junit):
        output([judged])
    json.dumps(judged.perfdata, allow_nan=False)
    Overview().rows([state], Clock())
    for run in state.runs.values():
        assert isinstance(run.word, str)
        run.series("loss")
        run.eta_seconds()
    for action in state.ledger.actions.values():
        assert len(action.steps) <= 1_000
    for note in state.notes.values():
        note.encode()
