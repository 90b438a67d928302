"""Why an attempt ended: a root cause that was open when the run ended by itself stays open as the
reason of the end.

Many detectors judge running runs only, so their findings vanish with the run. That the run is over
does not mean that its failure is.

The exception that ended a process is read from the traceback in its log, with the innermost frame
of the program's own code. A traceback may stand in lines of its own, behind a rank's prefix, as
loguru draws it, or in a JSON record.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bs4_common.failures.compiled import Playbook
from bs4_common.failures.evidence import Evidence, Place
from bs4_common.failures.facts import Facts, Finding
from bs4_common.failures.quoted_output import CALM
from bs4_common.trainers.base import LogLine

#: The failures that say only that a process has ended, with the logs that may tell why, best first.
EXITS: Mapping[str, tuple[str, ...]] = {
    "trainer-exited": ("trainer", "launcher"),
    "orchestrator-fatal": ("orchestrator", "launcher"),
}
#: Lines of work after which an exception did not end its process. A program that cleans up writes a
#: few. Below a warning, an exception was handled as soon as work goes on.
_LIVES_ON, _HANDLED = 20, 1
#: Ranks whose tracebacks are read at the same time. A log that names more is not a trainer's.
_RANKS = 1024
#: Characters of the exception's own line that are shown.
_MESSAGE = 200
_HEAD = re.compile(r"[ |+]*(?:Exception Group )?Traceback \(most recent call last\):")
_FRAME = re.compile(r'(?:> |[ |]+)File "([^"\n]{1,500})", line (\d{1,7})(?:, in (\S{1,120}))?')
_RAISED = re.compile(r"([A-Za-z_][\w.]{0,150})(?:\([\w.]{1,80}\))?(?::(?: |$)|$)")
#: What ends a process because something else did, or because somebody asked.
_FOLLOWS = frozenset({"ChildFailedError", "SignalException", "SystemExit", "KeyboardInterrupt"})
_FOREIGN = re.compile(r"(?:site|dist)-packages/|/lib/python\d|^<")
_OWN = re.compile(r"(?:^|/)(?:prime_rl|verl|verifiers)/")
_ROOT = re.compile(r".*/(?:src|(?:site|dist)-packages)/")

#: What the launcher says before it ends its children.
_ENDING = ("child-failed", "terminating")


class EndReasons:
    """Remembers which incidents explain why their attempt ended, so that they stay open although
    their run is over.
    """

    def __init__(self, playbooks: Sequence[Playbook]) -> None:
        critical = [p for p in playbooks if p.severity == "critical"]
        symptoms = {p.id for p in critical if p.role != "root"}
        self._fatal = frozenset(
            p.id for p in critical if p.role == "root" and p.explains & symptoms
        )
        self._ended: dict[str, int] = {}
        self._kept: set[str] = set()
        self._seen: frozenset[str] = frozenset()

    def of(self, opened: Mapping[str, Finding], found: Collection[str], facts: Facts) -> list[str]:
        """Return the ids of those incidents in `opened` that are to stay open although this scan
        did not find them: root causes that were open when their attempt ended by itself, or when
        its launcher began to end it.

        `opened` has the findings of all open incidents by incident id, `found` the ids of the
        incidents that this scan found, and `facts` what the scan saw of the runs. An incident that
        was still found by a scan after its attempt's end, and is not found now, is over. No
        incident stays for an attempt that ended well or was stopped.
        """
        self._kept &= opened.keys()
        for run in facts.runs:
            # The launcher takes up to a minute to end the others, and no scan finds much in it.
            ending = any(run.last_event(kind, "launcher") for kind in _ENDING)
            if not (run.over or ending):
                continue
            own, fatal = set(), set()
            for key, item in opened.items():
                if (item.run, item.attempt) == (run.name, run.attempt):
                    own.add(key)
                    if item.role == "root" and item.failure in self._fatal:
                        fatal.add(key)
            if run.good_end or run.stop_requested or run.with_pod:
                self._kept -= own
            elif self._ended.get(run.name) != run.attempt:
                self._kept |= fatal
            else:
                self._kept |= fatal.intersection(found)
                self._kept -= (own & self._seen).difference(found)
            if run.over:
                self._ended[run.name] = run.attempt
        # What the last look at a run found is compared with its next look.
        unseen = {key for key, item in opened.items() if item.run in facts.unseen}
        self._seen = frozenset(found) | (self._seen & unseen)
        return [key for key in self._kept if key not in found]


@dataclass
class _Traceback:
    """A traceback that is being read: its innermost frame, and its innermost own frame."""

    frame: str = ""
    own: str = ""

    def add(self, path: str, line: str, function: str) -> None:
        """Note a frame further inside. `line` and `function` are as the traceback shows them."""
        short = _ROOT.sub("", path)
        if short == path:
            short = "/".join(path.split("/")[-3:])
        self.frame = f"{short}:{line}"
        if function:
            self.frame += f" in {function}"
        if _FOREIGN.search(path) is None or _OWN.search(path) is not None:
            self.own = self.frame


class Raised:
    """Remembers the exception that ended the process of one log. Call `feed` for its lines in
    order. `latest` is the line that names the exception, as evidence, or None if the process lives
    on or has raised none. `headline` is the text of that line, followed in brackets by the file,
    line and function that raised the exception, if the traceback shows them.
    """

    def __init__(self, latest: Evidence | None = None, headline: str = "") -> None:
        self.latest, self.headline = latest, headline
        self._rank: int | None = None
        self._works = 0
        """Lines of work since the exception."""
        self._most = _LIVES_ON
        self._level = ""
        """The level of the last header."""
        self._open: dict[int | None, _Traceback] = {}

    def feed(self, line: LogLine, place: Place) -> None:
        """Look at the log's next line, and update `latest` and `headline` if it belongs to a
        traceback or shows that the process works on. `place` is the line's place in the log, for
        the evidence.
        """
        head, *rest = line.text.split("\n")
        if line.level:
            self._open.pop(line.rank, None)
            self._level = line.level
            self._works += line.level in CALM
            if self._works >= self._most:
                self.latest = None
        else:
            self._part(head, line.rank, place)
        if line.level not in CALM and line.level != "WARNING":
            for part in rest:
                self._part(part, line.rank, place)

    def _part(self, text: str, rank: int | None, place: Place) -> None:
        """Take one line without a header, which may belong to a traceback."""
        if len(self._open) >= _RANKS:
            self._open.clear()
        if _HEAD.match(text) is not None:
            self._open[rank] = _Traceback()
        elif (frame := _FRAME.match(text)) is not None:
            self._open.setdefault(rank, _Traceback()).add(frame[1], frame[2], frame[3] or "")
        elif rank in self._open and (raised := _RAISED.match(text)) is not None:
            name = raised[1].rpartition(".")[2]
            trace = self._open.pop(rank)
            if name not in _FOLLOWS and not self._elsewhere(rank):
                self._take(text, trace, rank, place)

    def _elsewhere(self, rank: int | None) -> bool:
        """Return True if another rank has raised before and nothing has worked since."""
        return (
            self.latest is not None
            and not self._works
            and None not in (rank, self._rank)
            and rank != self._rank
        )

    def _take(self, text: str, trace: _Traceback, rank: int | None, place: Place) -> None:
        """Remember an exception."""
        said = text[:_MESSAGE].rstrip()
        self.latest, self.headline = {**place, "text": said}, said
        if frame := trace.own or trace.frame:
            self.headline += f" ({frame})"
        self._rank, self._works = rank, 0
        self._most = _HANDLED if self._level == "WARNING" else _LIVES_ON
