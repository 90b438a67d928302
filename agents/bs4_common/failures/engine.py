"""Turning findings into incidents: hold times, keep times, one incident for each cause, and root
causes before their consequences.

The engine receives facts, log lines and a clock, and its only state is what it has seen hold. Live
watching and `diagnose` use the same engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from bs4_common.digest import sha256
from bs4_common.failures.causes import Cause, causes
from bs4_common.failures.compiled import Playbook
from bs4_common.failures.detectors import DETECTORS
from bs4_common.failures.evidence import Evidence, Place
from bs4_common.failures.facts import Facts, Finding, RunFacts
from bs4_common.failures.matcher import Matcher, Rules
from bs4_common.failures.reasons import EXITS, EndReasons, Raised
from bs4_common.failures.tracks import Track
from bs4_common.states import Transit
from bs4_common.trainers.base import LogLine

if TYPE_CHECKING:
    from bs4_common.ledger import JournalRecord

#: Pieces of evidence that one finding shows at most.
_EVIDENCE = 8
_SUMMARY = 300
#: Seconds between two updates of one incident that change only the numbers in its summary.
UPDATE_S = 30.0
#: A kernel log may count seconds from the boot. A larger number is a date.
_UPTIMES = 1e8
_LogKey = tuple[str, int, str]


@dataclass
class _Held:
    """A finding that is held: first seen at `first_m`, last seen at `last_m` (seconds of the
    monotonic clock). `fired` is True once it has become an incident.
    """

    finding: Finding
    first_m: float
    last_m: float
    fired: bool = False
    told: Finding | None = None
    """The finding as it was last reported, at `told_m`."""
    told_m: float = float("-inf")

    def stand_still(self, seconds: float) -> None:
        """Leave out `seconds`, in which nobody could look, of the time for which it is held."""
        self.first_m += seconds
        self.last_m += seconds


@dataclass(frozen=True)
class Transition:
    """A change of one incident (a failure of a run with its evidence): `event` says whether the
    incident was opened, updated or cleared, and `incident` is its id, which stays the same.
    `finding` is what was seen last, and `playbook` describes the failure and its repair.
    """

    event: Transit
    incident: str
    finding: Finding
    playbook: Playbook


@dataclass(frozen=True)
class Fault:
    """A detector that has failed on the facts of one run, so that nobody knows whether the run has
    the failure. `detector` is its name, `failure` the failure that it looks for, `times` how often
    it has failed on this run so far, and `error` what it raised.
    """

    detector: str
    failure: str
    run: str
    times: int
    error: Exception

    @property
    def phrase(self) -> str:
        """Return what was not looked for and why, as a phrase of one line in ASCII."""
        why = f"{type(self.error).__name__}: {self.error}".encode("ascii", "backslashreplace")
        often = f" {self.times} times by now" if self.times > 1 else ""
        named = f"its detector {self.detector} failed{often} on {self.run or 'the logs'}"
        text = " ".join(f"{self.failure} ({named}: {why.decode()}".split())
        return f"{text[:_SUMMARY]})"


def incident_id(item: Finding) -> str:
    """Return the id of the incident that a finding belongs to: a hash of run, attempt, failure and
    first evidence. Two programs that see the same cause compute the same id.
    """
    text = "\0".join((item.run, str(item.attempt), item.failure, item.anchor))
    return sha256(text.encode()).hexdigest()[:16]


def _overtaking(facts: Facts) -> dict[str, int]:
    """Return the newest attempt of each run that makes steps, by run name. Failures of earlier
    attempts are history.
    """
    found = {}
    for run in facts.runs:
        if run.trainer_side.steps > 0:
            found[run.name] = run.attempt
    return found


def _ended_by_themselves(facts: Facts) -> set[tuple[str, int]]:
    """Return the attempts, as (run, attempt), that are over although they were not done, nobody
    stopped them and their pod went on.
    """
    found = set()
    for run in facts.runs:
        if run.over and not (run.good_end or run.stop_requested or run.with_pod):
            found.add((run.name, run.attempt))
    return found


def _going(facts: Facts) -> set[tuple[str, int]]:
    """Return the attempts, as (run, attempt), that start or run."""
    return {(run.name, run.attempt) for run in facts.runs if run.state in ("starting", "running")}


def _rests_on(item: Finding, runs: frozenset[str]) -> bool:
    """Return True if a finding cannot be seen without one of `runs`."""
    return item.run in runs or not runs.isdisjoint(item.others)


def _hidden(item: Finding, facts: Facts) -> bool:
    """Return True if a finding that this scan lacks may only be hidden, because a run was not seen:
    its own, or another one that it needs while its own attempt goes on.
    """
    if item.run in facts.unseen:
        return True
    return _rests_on(item, facts.unseen) and (item.run, item.attempt) in _going(facts)


def _stopped(facts: Facts) -> dict[tuple[str, int], RunFacts]:
    """Return the attempts that we have stopped or are stopping, by (run, attempt), each with the
    facts of its run.
    """
    found = {}
    for run in facts.runs:
        if run.stop_requested:
            found[run.name, run.attempt] = run
        for number in run.stopped_before:
            found[run.name, number] = run
    return found


class Engine:
    """Turns the facts of scans and the lines of logs into incidents (failures of runs with their
    evidence). Call `feed` for every log line and `evaluate` after every scan.
    """

    def __init__(
        self, playbooks: Sequence[Playbook], *, live: bool = True, rules: Rules | None = None
    ) -> None:
        """Prepare the engine. With `live`, lines arrive as they are written, and hold times count
        from when a line was seen. Otherwise they count from the lines' own time. `rules` are the
        prepared log signatures of the same playbooks, if several engines share them; with None,
        this engine prepares its own.
        """
        self._for = {playbook.id: playbook for playbook in playbooks if playbook.detect}
        self._rules = rules or Rules(playbooks)
        self._live = live
        self._held: dict[str, _Held] = {}
        self._matchers: dict[_LogKey, Matcher] = {}
        self._adopted: dict[_LogKey, list[Finding]] = {}
        self._reasons = EndReasons(list(self._for.values()))
        self._unseen: frozenset[str] = frozenset()
        """The runs that the last scan, at `_looked_m`, could not look at."""
        self._looked_m: float | None = None
        self._left_out: frozenset[str] = frozenset()
        """The runs that one of the last two scans could not look at."""
        self._passed = 0.0
        """The seconds between the last two scans."""
        self._unjudged_holds: frozenset[str] = frozenset()
        """The ids of the findings that wait for their hold, and whose detector failed in the last
        scan.
        """
        self.faults: Sequence[Fault] = ()
        """The detectors that failed in the last `evaluate`. The others ran."""
        self._failed: dict[tuple[str, str], int] = {}
        """How often the detector of a failure has failed on a run, by (failure, run)."""

    def matcher(
        self, run: str, attempt: int, trainer: str, source: str, *, anchor: float | None = None
    ) -> Matcher:
        """Return the Matcher of the log `source` of an attempt, which compares its lines with the
        patterns of known failures. It is created at the first call. `trainer` is the id of the
        run's trainer, or "" for the patterns of all trainers. `anchor` is a Unix time in seconds
        within half a day of the log's first line, for lines that show only a time of day (None
        means now). `trainer` and `anchor` are used at the first call only.
        """
        key = (run, attempt, source)
        if key not in self._matchers:
            made = self._matchers[key] = Matcher(
                self._rules.of(trainer, source), live=self._live, anchor=anchor
            )
            for item in self._adopted.pop(key, ()):
                made.restore(item.failure, item.evidence[0])
                for known in item.evidence:
                    if item.failure in EXITS and item.summary.startswith(f"{known['text']} ("):
                        made.raised = Raised(known, item.summary)
        return self._matchers[key]

    def feed(
        self,
        run: str,
        attempt: int,
        trainer: str,
        source: str,
        line: LogLine,
        place: Place,
    ) -> bool:
        """Match one line of the log `source` of an attempt against the log signatures (the patterns
        of known failures). `trainer` is the id of the run's trainer. `place` is where the line
        stands. Return True if a signature has fired by this line (has matched as often as it must),
        so that it is worthwhile to call `evaluate` now. No incident changes before that call.
        """
        matcher = self.matcher(run, attempt, trainer, source)
        matcher.news = False
        matcher.feed(line, place)
        matcher.raised.feed(line, place)
        return matcher.news

    def raised(self) -> list[Raised]:
        """Return the exceptions that have ended the processes of a run, by its logs: those after
        which a log shows no more work.
        """
        sources = {source for logs in EXITS.values() for source in logs}
        found = []
        for (_, _, source), matcher in self._matchers.items():
            if source in sources and matcher.raised.latest is not None:
                found.append(matcher.raised)
        return found

    def due(self) -> float | None:
        """Return the earliest time at which `evaluate` should be called again, in seconds of the
        monotonic clock. At that time a finding will have lasted for its hold time, which is how
        long it must last to become an incident. Return None if no finding waits for that. A finding
        of a run that the last scan could not look at does not count, nor one whose detector failed.
        """
        ends = (
            held.first_m + self._for[held.finding.failure].hold_s
            for key, held in self._held.items()
            if not (
                held.fired or key in self._unjudged_holds or _rests_on(held.finding, self._unseen)
            )
        )
        return min(ends, default=None)

    def seen(self, run: str, attempt: int) -> frozenset[str]:
        """Return the sources of an attempt's logs that have delivered at least one line which is
        not blank, for example "trainer".
        """
        return frozenset(
            key[2]
            for key, matcher in self._matchers.items()
            if key[:2] == (run, attempt) and matcher.last_line
        )

    def evaluate(self, facts: Facts, *, complete: bool = False) -> list[Transition]:
        """Return the incidents that `facts` and the lines fed so far have opened, updated or
        cleared since the last call, sorted so that the likeliest cause comes first.

        A finding becomes an incident only once it has lasted for its hold time. With `complete`,
        which says that the logs are finished, no finding waits for that. A finding that explains
        why a process ended does not wait either once its attempt has ended by itself.

        For a run that could not be looked at (`facts.unseen`), no incident changes and no hold time
        goes on. What its logs show meanwhile is judged by the next scan that sees the run, because
        only its facts show whether it was stopped.

        A detector that raises keeps no other one from running. It is listed in `faults`, its open
        incidents stay as they are, and the hold times of its findings do not go on.
        """
        self._stand_still(facts)
        self._drop_overtaken(facts)
        found: dict[str, Cause] = {}
        for cause in self._found(facts, complete):
            found.setdefault(incident_id(cause.finding), self._explained(cause))
        self._stand_still_where_unjudged(found, facts)
        found.update(self._unjudged(found, facts))
        found.update(self._reasons_of_ends(found, facts))
        found.update(self._seen_once(found, facts))
        return self._transitions(causes(found, facts), facts, complete)

    def _stand_still(self, facts: Facts) -> None:
        """Let no time pass for the findings of runs that this scan or the last one did not see. An
        interval counts only if both its ends were seen.
        """
        self._passed = 0.0 if self._looked_m is None else facts.now_m - self._looked_m
        self._left_out = facts.unseen | self._unseen
        for held in self._held.values():
            if _rests_on(held.finding, self._left_out):
                held.stand_still(self._passed)
        self._unseen, self._looked_m = facts.unseen, facts.now_m

    def _stand_still_where_unjudged(self, found: Mapping[str, Cause], facts: Facts) -> None:
        """Let no time pass for the findings that wait for their hold and whose detector failed in
        this scan or the last one. `found` is what this scan has found.
        """
        blind = {(fault.failure, fault.run) for fault in self.faults}
        unjudged = set()
        for key, held in self._held.items():
            item = held.finding
            if key not in found and not held.fired and (item.failure, item.run) in blind:
                unjudged.add(key)
        for key, held in self._held.items():
            waits = key in unjudged or (key in self._unjudged_holds and not held.fired)
            if waits and not _rests_on(held.finding, self._left_out):
                held.stand_still(self._passed)
        self._unjudged_holds = frozenset(unjudged)

    def _explained(self, cause: Cause) -> Cause:
        """Return `cause` with the exception that its logs show as its summary, if it says only
        that a process has ended.
        """
        item = cause.finding
        for source in EXITS.get(item.failure, ()):
            matcher = self._matchers.get((item.run, item.attempt, source))
            if matcher is not None and (raised := matcher.raised.latest) is not None:
                evidence = list(item.evidence)
                if raised["text"] not in [one["text"] for one in evidence]:
                    evidence[_EVIDENCE - 1 :] = [raised.copy()]
                item = replace(item, summary=matcher.raised.headline, evidence=evidence)
                return replace(cause, finding=item)
        return cause

    def _unjudged(self, found: Mapping[str, Cause], facts: Facts) -> dict[str, Cause]:
        """Return the open incidents whose detector has failed in this scan, as they are. That it
        did not find them says nothing.
        """
        blind = {(fault.failure, fault.run) for fault in self.faults}
        if not blind:
            return {}
        newest = _overtaking(facts)
        kept: dict[str, Cause] = {}
        for key, held in self._held.items():
            item = held.finding
            if key in found or not held.fired or item.attempt < newest.get(item.run, 0):
                continue
            if (item.failure, item.run) in blind:
                kept[key] = Cause(item, self._for[item.failure])
        return kept

    def _reasons_of_ends(self, found: Mapping[str, Cause], facts: Facts) -> dict[str, Cause]:
        """Return the open incidents that stay as the reason why their attempt ended, until a later
        attempt makes steps.
        """
        opened = {key: held.finding for key, held in self._held.items() if held.fired}
        newest = _overtaking(facts)
        kept: dict[str, Cause] = {}
        for key in self._reasons.of(opened, found, facts):
            item = opened[key]
            if item.run not in facts.unseen and item.attempt >= newest.get(item.run, 0):
                kept[key] = Cause(item, self._for[item.failure])
        return kept

    def _seen_once(self, found: Mapping[str, Cause], facts: Facts) -> dict[str, Cause]:
        """Return the open incidents that stay until their attempt ends, as they were last reported.

        An incident that is found again with more evidence than before is left out, because the new
        evidence is to be reported.
        """
        going = _going(facts)
        kept: dict[str, Cause] = {}
        for key, held in self._held.items():
            item, playbook = held.finding, self._for[held.finding.failure]
            again = found.get(key)
            if again is None:
                stays = (item.run, item.attempt) in going
            else:
                stays = len(again.finding.evidence) <= len(item.evidence)
            if held.fired and playbook.until_attempt_ends and stays:
                kept[key] = Cause(item, playbook)
        return kept

    def _found(self, facts: Facts, complete: bool) -> Iterator[Cause]:
        """Yield one finding for each failure and attempt of a run that was seen. If a detector and
        the logs report the same failure, the detector's evidence is added to the finding of the
        logs.
        """
        faults: list[Fault] = []
        self.faults = faults
        stopped = _stopped(facts)
        runs = {run.name: run for run in facts.runs}
        logged = {}
        for cause in list(self._logged(complete)):
            item = cause.finding
            if item.run in facts.unseen:
                continue
            if self._counts(cause, stopped) and not _followed(cause, runs.get(item.run)):
                logged[item.run, item.attempt, item.failure] = cause
        for playbook in self._for.values():
            for item in self._detect(playbook, facts, faults):
                same = logged.get((item.run, item.attempt, item.failure))
                if same is None:
                    yield Cause(item, playbook)
                    continue
                evidence = [*same.finding.evidence, *item.evidence][:_EVIDENCE]
                anchor = item.anchor if incident_id(item) in self._held else same.finding.anchor
                joined = replace(same, finding=replace(item, evidence=evidence, anchor=anchor))
                logged[item.run, item.attempt, item.failure] = joined
        yield from logged.values()

    def _counts(self, cause: Cause, stopped: Mapping[tuple[str, int], RunFacts]) -> bool:
        """Return True if a finding of the logs is to be reported. What an attempt logs while we
        stop it is our own doing, also when the run has been started again since, unless it was held
        before the stop. `stopped` is what `_stopped` returns.

        A start by hand may go on with the log file of the stopped attempt (`>> train.log`), and its
        lines are ascribed to that attempt. So a line counts if it was read, and written as far as
        it shows, after the newest attempt has started.
        """
        item = cause.finding
        run = stopped.get((item.run, item.attempt))
        if not self._live or run is None or incident_id(item) in self._held:
            return True
        if item.attempt == run.attempt:
            return False
        # Logs may show whole seconds.
        written_before = cause.t is not None and cause.t < run.started_t - 1.0
        read_before = cause.read_m is not None and cause.read_m < run.started_m
        return not written_before and not read_before

    def _logged(self, complete: bool) -> Iterator[Cause]:
        """Yield the findings of the logs: incidents from before a restart, then the signatures that
        have fired.
        """
        fired: dict[tuple[str, int, str], list[tuple[Track, str]]] = {}
        for (run, attempt, source), matcher in self._matchers.items():
            for playbook, track in matcher.fired(complete=complete):
                fired.setdefault((run, attempt, playbook.id), []).append((track, source))
        for item in chain.from_iterable(self._adopted.values()):
            yield Cause(item, self._for[item.failure])
        for (run, attempt, failure), tracks in fired.items():
            yield self._cause(run, attempt, self._for[failure], tracks)

    def _cause(
        self, run: str, attempt: int, playbook: Playbook, tracks: Sequence[tuple[Track, str]]
    ) -> Cause:
        """Return one finding for several signatures (or logs) of the same failure. Its anchor is
        the evidence that came first.
        """
        firsts, latests, times, reads, fired = [], [], [], [], []
        for track, _ in tracks:
            if track.first is not None and track.latest is not None:
                firsts.append(track.first.place.copy())
                if track.latest is not track.first:
                    latests.append(track.latest.place.copy())
                if track.first.moment.t is not None:
                    times.append(track.first.moment.t)
                if track.first.moment.m is not None:
                    reads.append(track.first.moment.m)
            if track.fired is not None and track.fired.moment.t is not None:
                fired.append(track.fired.moment.t)
        first = firsts[0]
        severity, role = playbook.severity, playbook.role
        if any(track.signature.ends_run for track, _ in tracks):
            severity, role = "critical", "root"
        finding = Finding(
            failure=playbook.id,
            run=run,
            attempt=attempt,
            summary=str(first["text"])[:_SUMMARY],
            evidence=_each_once(firsts + latests)[:_EVIDENCE],
            anchor=_anchor(first),
            severity=severity,
            role=role,
            count=sum(track.hits for track, _ in tracks),
        )
        since = None if self._live else max(fired, default=0.0)
        return Cause(
            finding,
            playbook,
            t=min(times, default=None),
            since_m=since,
            read_m=min(reads, default=None),
        )

    def _detect(self, playbook: Playbook, facts: Facts, faults: list[Fault]) -> Iterator[Finding]:
        """Yield what the playbook's detector, if it has one, finds in all runs that the playbook
        applies to. A finding without a role takes role and severity from the playbook. If the
        detector raises, that is appended to `faults`.
        """
        if playbook.detector is None:
            return
        detector, given = DETECTORS[playbook.detector], playbook.parameters
        for run in facts.runs:
            if not playbook.applies_to(run.spec.trainer):
                continue
            try:
                items = list(detector(facts, run, given))
            except Exception as error:  # noqa: BLE001
                # Facts come from files and servers of others: what one detector does not expect
                # there must not blind the others.
                failed = playbook.id, run.name
                self._failed[failed] = times = self._failed.get(failed, 0) + 1
                faults.append(Fault(playbook.detector, *failed, times, error))
                continue
            for item in items:
                if item.role is None:
                    item = replace(item, role=playbook.role, severity=playbook.severity)
                yield item

    def _drop_overtaken(self, facts: Facts) -> None:
        """Forget the logs of each attempt that a later attempt has overtaken by making steps."""
        if not self._live:
            return
        newest = _overtaking(facts)
        for key in [
            key for key in (*self._matchers, *self._adopted) if key[1] < newest.get(key[0], 0)
        ]:
            self._matchers.pop(key, None)
            self._adopted.pop(key, None)

    def _transitions(
        self, found: Mapping[str, Cause], facts: Facts, complete: bool
    ) -> list[Transition]:
        """Update the held findings with `found` and return what was opened, updated or cleared."""
        out: list[Transition] = []
        ended = _ended_by_themselves(facts)
        for key, cause in found.items():
            item, playbook = cause.finding, cause.playbook
            held = self._held.get(key)
            if held is None:
                since = facts.now_m if cause.since_m is None else cause.since_m
                held = self._held[key] = _Held(item, since, facts.now_m)
            held.finding, held.last_m = item, facts.now_m
            # It hides the end that it explains, which would otherwise be named at once.
            over = (item.run, item.attempt) in ended and not playbook.explains.isdisjoint(EXITS)
            holds = complete or over or facts.now_m - held.first_m >= playbook.hold_s
            if not held.fired and holds:
                held.fired, held.told, held.told_m = True, item, facts.now_m
                out.append(Transition("opened", key, item, playbook))
            elif held.fired and _worth_telling(held, facts.now_m):
                held.told, held.told_m = item, facts.now_m
                out.append(Transition("updated", key, item, playbook))
        for key in [k for k in self._held if k not in found]:
            held = self._held[key]
            if _hidden(held.finding, facts) or key in self._unjudged_holds:
                continue
            playbook = self._for[held.finding.failure]
            over = held.finding.attempt < _overtaking(facts).get(held.finding.run, 0)
            if not held.fired or over or facts.now_m - held.last_m >= playbook.keep_s:
                del self._held[key]
                if held.fired:
                    out.append(Transition("cleared", key, held.finding, playbook))
        return out

    def forget(self, incident: str) -> None:
        """Forget the incident with the id `incident`, which an action has resolved, and what the
        logs have shown of its failure. If the failure is seen again, it must last for its whole
        hold time again to become an incident. Do nothing for an unknown incident.
        """
        held = self._held.pop(incident, None)
        if held is None:
            return
        item = held.finding
        for (run, attempt, _), matcher in self._matchers.items():
            if (run, attempt) == (item.run, item.attempt):
                matcher.forget(item.failure)
        for items in self._adopted.values():
            items[:] = [other for other in items if incident_id(other) != incident]

    def adopt(self, incident: str, item: Finding, now_m: float) -> None:
        """Take over, at the start of the agent, the incident with the id `incident` that an earlier
        agent had opened. `item` is its finding, and `now_m` the present time in seconds of the
        monotonic clock. The incident counts as open at once, and is reported as cleared when it is
        over. Do nothing if no playbook describes the failure.
        """
        playbook = self._for.get(item.failure)
        if playbook is None:
            return
        self._held[incident] = _Held(item, now_m, now_m, fired=True, told=item)
        if not playbook.signatures or not item.evidence:
            return
        first = item.evidence[0]
        logged = replace(item, anchor=_anchor(first))
        if incident_id(logged) == incident:
            self._adopted.setdefault((item.run, item.attempt, str(first["source"])), []).append(
                logged
            )


def _followed(cause: Cause, run: RunFacts | None) -> bool:
    """Return True if a finding in a finished run's logs is a consequence of a stop: it was logged
    after the stop, or a later attempt has overtaken the stopped one.
    """
    stop = run.stops.get(cause.finding.attempt) if run is not None else None
    if run is None or stop is None:
        return False
    if stop.ordered and cause.finding.attempt < run.attempt:
        return True
    if cause.t is None or stop.t is None:
        return False
    return cause.t > _UPTIMES and cause.t >= stop.t


def _worth_telling(held: _Held, now_m: float) -> bool:
    """Return True if an open incident is to be reported again: at once for new evidence, and at
    most every 30 seconds for a new summary (a disk's percent), because each report is a line of a
    journal that is kept.
    """
    told = held.told
    if told is None or len(told.evidence) != len(held.finding.evidence):
        return True
    return told.summary != held.finding.summary and now_m - held.told_m >= UPDATE_S


def _each_once(places: Sequence[Evidence]) -> list[Evidence]:
    """Return `places` in their order, each once: two signatures may match the same line."""
    return [place for at, place in enumerate(places) if place not in places[:at]]


def _anchor(place: Evidence) -> str:
    """Return the text that names one piece of evidence: stream or file, then cursor or offset."""
    return f"{place['stream'] or place['file']}:{place['cursor'] or place['offset']}"


def transition_fields(transition: Transition, coverage: Sequence[str]) -> JournalRecord:
    """Return the fields of the record that the journal (the agent's log of actions and incidents)
    gets for `transition`, which says that an incident was opened, updated or cleared. `coverage`
    lists, in phrases, what could not be seen in the scan that led to it.
    """
    item, playbook = transition.finding, transition.playbook
    return {
        "event": transition.event,
        "incident": transition.incident,
        "failure": item.failure,
        "title": item.title or playbook.title,
        "run": item.run,
        "attempt": item.attempt,
        "role": item.role or playbook.role,
        "severity": item.severity or playbook.severity,
        "summary": item.summary,
        "evidence": [e.copy() for e in item.evidence],
        "coverage": [*coverage, *item.coverage],
        "playbook": item.playbook or (playbook.id if playbook.fix else None),
        "where": playbook.where,
    }
