"""Writes a report about every attempt that crashed, and writes the report again if an incident
follows later.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from bs4_agent.pod import Pod
from bs4_agent.recorder.report import write
from bs4_agent.streams.registry import Streams
from bs4_common.digest import sha256
from bs4_common.streams.whole import WholeFile

#: Seconds between a crash and its report: the incidents of a crash follow within this time.
SETTLE_S = 3.0
#: Seconds after a crash within which a new incident belongs in the report.
LATE_S = 900.0
#: The newest reports that are kept; each has a few hundred KB.
KEPT = 20
_SUFFIX = ".report.tar.gz"


def stream_name(file: Path) -> str:
    """Return the name of the stream by which consoles read the crash report in `file`, for example
    `report/RUN.ATTEMPT`.
    """
    return f"report/{file.name.removesuffix(_SUFFIX)}"


def show_reports(streams: Streams, directory: Path) -> None:
    """Register every crash report in `directory` as a stream that consoles can read. A report that
    is registered already is left as it is.
    """
    for file in sorted(directory.glob(f"*{_SUFFIX}")):
        if stream_name(file) not in streams.names():
            streams.add(stream_name(file), WholeFile(file))


class Recorder:
    """Writes crash reports. Call `crashed` and `found` when the journal (the agent's log of actions
    and incidents) records a crash or an incident; both only schedule a report. `run` writes the
    reports on a thread of its own.
    """

    def __init__(self, pod: Pod, streams: Streams) -> None:
        self._pod, self._streams = pod, streams
        self._changed = threading.Condition()
        self._due: dict[tuple[str, int], float] = {}
        self._crashed: dict[tuple[str, int], float] = {}

    def crashed(self, run: str, attempt: int) -> None:
        """Schedule a crash report, to be written in 3 seconds, about an attempt that ended with an
        error although nobody ordered a stop, or that a playbook stopped to repair it.
        """
        with self._changed:
            self._crashed[run, attempt] = time.monotonic()
            self._ask(run, attempt)

    def found(self, run: str, attempt: int) -> None:
        """Schedule the crash report of an attempt again, because an incident of it was opened.
        Nothing happens unless the attempt crashed within the last 15 minutes.
        """
        with self._changed:
            if time.monotonic() - self._crashed.get((run, attempt), float("-inf")) < LATE_S:
                self._ask(run, attempt)

    def run(self, stop: threading.Event) -> None:
        """Write each scheduled crash report when it is due, until `stop` is set."""
        while not stop.is_set():
            for run, attempt in self._ready():
                self._write(run, attempt)

    def _ask(self, run: str, attempt: int) -> None:
        """Schedule the report of the attempt for `SETTLE_S` seconds from now."""
        self._due[run, attempt] = time.monotonic() + SETTLE_S
        self._changed.notify_all()

    def _ready(self) -> list[tuple[str, int]]:
        """Wait up to one second and return the (run, attempt) pairs whose report is due now."""
        with self._changed:
            due = min(self._due.values(), default=float("inf"))
            self._changed.wait(max(0.0, min(1.0, due - time.monotonic())))
            now = time.monotonic()
            ready = [key for key, at in self._due.items() if at <= now]
            for key in ready:
                del self._due[key]
            return ready

    def _write(self, run: str, attempt: int) -> None:
        """Write the report of one attempt and journal the result."""
        directory = self._pod.runs.home.reports
        file = directory / f"{run}.{attempt}{_SUFFIX}"
        try:
            head = write(self._pod, self._streams, run, attempt, file)
        except OSError as error:
            self._tell(
                run,
                attempt,
                event="failed",
                detail=f"no crash report could be written: {error.strerror or error}",
            )
            return
        self._forget_old(directory)
        show_reports(self._streams, directory)
        raw = file.read_bytes()
        self._tell(
            run,
            attempt,
            event="written",
            report=stream_name(file),
            bytes=len(raw),
            sha256=sha256(raw).hexdigest(),
            missing=head["missing"],
        )

    def _tell(self, run: str, attempt: int, **fields: Any) -> None:
        """Append a `report` record about the attempt to the journal."""
        self._pod.book.append("report", run=run, attempt=attempt, **fields)

    def _forget_old(self, directory: Path) -> None:
        """Delete all reports but the newest `KEPT`. They are our own copies of data that is still
        in streams and archives.
        """
        files = directory.glob(f"*{_SUFFIX}")
        for file in sorted(files, key=lambda file: file.stat().st_mtime)[:-KEPT]:
            self._streams.remove(stream_name(file))
            file.unlink()
