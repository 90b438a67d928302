"""The status of a run or pod as one sign and one word, never by colour alone."""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bs4_console.pods.state import disk_percent
from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line

if TYPE_CHECKING:
    # Only for types: importing the session would take 12 ms for the channel and its frames.
    from bs4_console.errors import LinkState
    from bs4_console.pods.state import IncidentView, PodState, RunState
    from bs4_console.tui.clock import Clock

#: Errors that drawing raises if a pod's records are malformed. A pod can be newer than this
#: console, or hostile.
MALFORMED = (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError)
#: Longest round trip in seconds of a link with four, three and two bars.
BARS_RTT = (0.06, 0.15, 0.4)
#: States of a link whose reason is what the agent sent, or did not send. A word does not tell that.
_OF_THE_AGENT: tuple[LinkState, ...] = ("agent version", "failed", "lost")
#: Rows of one pod on the fleet's screen. A thousand take half a second to draw, each second.
ROWS_MOST = 100
#: A run is late if its last step is older than this many usual steps and older than LATE_S seconds.
LATE_STEPS = 4
LATE_S = 60.0
#: A disk or /dev/shm is reported if at least this share of it is used.
FULL_PERCENT = 95.0
#: States of a process, as words and as the kernel's letters.
DEAD, STOPPED = ("dead", "zombie", "Z", "X", "gone"), ("stopped", "T", "t")
#: Components without which no step is made. Others, such as rollouts, come and go in a healthy run.
NEEDED = frozenset({"trainer", "rank", "orchestrator", "inference", "engine", "worker"})


@dataclass(frozen=True)
class Status:
    """The status of a run or pod as the screen shows it: `sign` is one character and `word` its
    meaning, such as "✖" and "critical". `rank` is the severity: 4 critical, 3 unknown, 2 warning, 1
    notice, 0 nothing. `role` names the style in which it is drawn (see styled_text.py).
    """

    rank: int
    sign: str
    word: str
    role: str

    def line(self) -> Line:
        """Return the status as a styled line, for example "✖ critical"."""
        return [(f"{self.sign} {self.word}", self.role)]


_RUN = {
    "running": Status(0, "●", "running", "good"),
    "starting": Status(0, "◌", "starting", "accent"),
    "finished": Status(0, "✔", "finished", "good"),
    "stopped": Status(0, "■", "stopped", "dim"),
    "failed": Status(2, "✖", "failed", "bad"),
    "registered": Status(0, "○", "registered", "dim"),
}


_LOST = {
    "reclaimed": Status(4, "✖", "reclaimed", "bad bold"),
    "ended": Status(4, "✖", "pod gone", "bad bold"),
    "hung": Status(3, "?", "hung", "warn bold"),
    "network-only": Status(2, "▲", "link only", "warn"),
    "rebooted": Status(2, "▲", "rebooted", "warn"),
}
_NO_NETWORK = Status(3, "?", "no network", "warn bold")


def lost(pod: PodState) -> Status | None:
    """Return the status that says what became of a pod that does not answer or has rebooted:
    reclaimed by the provider, gone, hung, rebooted, alive with only the link to it lost, or out of
    reach because this machine has no network. Return None if the pod answers, or if it is not known
    what became of it.
    """
    if pod.lost is None:
        return None
    if pod.lost.word == "network-only" and any(
        sign.source == "network" for sign in pod.lost.evidence
    ):
        return _NO_NETWORK
    return _LOST.get(pod.lost.word)


def taken(pod: PodState) -> bool:
    """Return True if the pod is lost for good: the link to it is down, and two independent
    observations (such as by the provider and the lost link) say that the machine is gone.
    """
    return link_down(pod) and pod.lost is not None and pod.lost.lost


def link_down(pod: PodState) -> bool:
    """Return True if the link to the pod is not up, except while the console is connecting for the
    first time. For a recording, which has no link, return True.
    """
    return not pod.link.up and pod.link.state not in ("new", "connecting")


def unknown_yet(pod: PodState, clock: Clock) -> bool:
    """Return True if it is not known yet what runs on the pod: the console is connecting to it for
    the first time, or has been connected for less than FRESH_S (5) seconds without any telemetry.
    """
    if pod.telemetry:
        return False
    if pod.link.up:
        return clock.mono() - pod.link.since < formatting.FRESH_S
    return not link_down(pod)


def recorded(pod: PodState) -> bool:
    """Return True if this is a recording of a pod and not a live pod."""
    return pod.link.state == "recorded"


def fixing(pod: PodState, run: str) -> bool:
    """Return True if an action is under way on the pod that may repair the run with the name `run`.

    The repair of a playbook (a known failure) always counts. Another action counts only if the run
    has an open incident that was opened before the action was accepted. So a launch that was
    accepted before anything went wrong does not count. The making of a plan never counts.
    """
    opened = [incident.opened_t for incident in pod.ledger.open_incidents(run)]
    under_way = [
        action
        for action in pod.ledger.actions.values()
        if action.run == run and not action.ended and action.kind != "plan"
    ]
    return any(
        action.kind == "playbook" or any(t <= action.accepted_t for t in opened)
        for action in under_way
    )


def incidents_of(pod: PodState, run: RunState | None) -> list[IncidentView]:
    """Return the open incidents of the run, root causes first and then the oldest first. If `run`
    is None, return those that belong to no known run of the pod, that is, to the pod itself.
    """
    if run is not None:
        return pod.ledger.open_incidents(run.name)
    return [i for i in pod.ledger.open_incidents() if i.run not in pod.runs]


def status_of(pod: PodState, run: RunState | None) -> Status:
    """Return the status of the run, or of the pod itself if `run` is None. The first of these that
    applies decides: the pod is lost for good, a repair is under way, a critical incident is open,
    the link is down, another incident is open, the run's own state. A run on a pod that cannot be
    reached is therefore unknown, even if it was running.
    """
    incidents, known = incidents_of(pod, run), lost(pod)
    if known is not None and taken(pod):
        # If nothing was training, nothing was lost with the pod.
        if run is not None and run.word not in ("finished", "stopped"):
            return known
        return Status(1, "■", known.word, "dim")
    if incidents and run and fixing(pod, run.name) and not link_down(pod):
        return Status(4, "↻", "fixing", "accent bold")
    if any(i.severity == "critical" for i in incidents):
        return Status(4, "✖", "critical", "bad bold")
    if link_down(pod):
        return known or Status(3, "?", pod.link.state, "warn bold")
    if incidents:
        return Status(2, "▲", "warning", "warn")
    if known is not None:
        return known
    if pod.link.state in ("new", "connecting") and not pod.telemetry:
        return Status(1, "…", "connecting", "accent")
    if run is None:
        return Status(0, "○", "no run", "dim")
    return _RUN.get(run.word, Status(1, "?", run.word, "warn"))


def age(pod: PodState, clock: Clock) -> float | None:
    """Return how many seconds ago telemetry last arrived from the pod, or None if it never has."""
    if pod.telemetry_seen is None:
        return None
    return clock.mono() - pod.telemetry_seen


def is_old(seen: float | None) -> bool:
    """Return True if data of this age is not current any more. `seen` is the age in seconds, or
    None if no data has come, which is old too. Data is current for FRESH_S (5) seconds.
    """
    return seen is None or seen > formatting.FRESH_S


def link_signs(pod: PodState) -> str:
    """Return the quality of the link as four characters: "▂▄▆█" for a short round trip, with dots
    for missing bars if it is longer, and "····" if the link is not up.
    """
    if not pod.link.up:
        return "····"
    if pod.link.rtt is None:
        return "▂···"
    return "▂▄▆█"[: 4 - bisect_left(BARS_RTT, pod.link.rtt)].ljust(4, "·")


def link_line(pod: PodState) -> Line:
    """Return the link to the pod as a styled line: its quality as bars and its round trip time, for
    example "▂▄▆█ 12ms". If the link is not up, the line has "down", "…" (connecting) or "rec." (a
    recording) instead of the time.
    """
    link = pod.link
    if link.up:
        if link.rtt is None:
            return [(link_signs(pod), "good"), ("", "dim")]
        role = "warn" if link.rtt > BARS_RTT[2] else "good"
        return [(link_signs(pod), role), (f" {link.rtt * 1000:.0f}ms", "dim")]
    if link.state in ("new", "connecting"):
        return [("···· ", "dim"), ("…", "accent")]
    return [("····", "warn"), (" rec." if recorded(pod) else " down", "warn")]


def link_words(pod: PodState, clock: Clock) -> str:
    """Return the state of the link to the pod in words, such as "unreachable since 03:12 (1m12s),
    retry in 8s".
    """
    link = pod.link
    if recorded(pod):
        if pod.telemetry_seen is None:
            return "recorded, not live"
        seen = time.localtime(clock.wall_of(pod.telemetry_seen))
        return time.strftime("recorded %Y-%m-%d %H:%M, not live", seen)
    if link.up:
        return f"connected since {formatting.of_day(clock.wall_of(link.since))}"
    if link.state in ("new", "connecting"):
        return pod.progress or "connecting"
    if link.state == "host key?":
        return "waits until you have compared its host key"
    since = (
        f"{link.state} since {formatting.of_day(clock.wall_of(link.since))} "
        f"({formatting.duration(clock.mono() - link.since)})"
    )
    if link.retry_at is None:
        return since + ", not retried by itself"
    return since + f", retry in {formatting.duration(max(0.0, link.retry_at - clock.mono()))}"


def late(pod: PodState, run: RunState, clock: Clock) -> str:
    """Return how late the run's next training step is, for example "no step for 12m (usually
    14.2s)". Return "" if the step is not late. Return "" too if that cannot be known: the link to
    the pod is down, the run is not running, or its usual time for a step is not known.
    """
    usual = run.step_seconds()
    if usual is None or run.step_seen is None or run.word != "running" or not pod.link.up:
        return ""
    waited = clock.mono() - run.step_seen
    if waited < max(LATE_S, LATE_STEPS * usual):
        return ""
    return f"no step for {formatting.duration(waited)} (usually {formatting.pace(usual)})"


def eta(pod: PodState, run: RunState, clock: Clock) -> float | None:
    """Return the seconds until the run reaches its last training step at its present pace. Return
    None if the pace or the last step is not known. Return None too if it is doubtful that the run
    gets that far: it is not running, the link is down, its next step is late, a process that every
    step needs is dead, or a critical incident is open.
    """
    if run.word != "running" or link_down(pod) or late(pod, run, clock):
        return None
    needed = [one for one in run.components if one.get("component") in NEEDED]
    if any(component.get("state") in DEAD for component in needed):
        return None
    if any(incident.severity == "critical" for incident in incidents_of(pod, run)):
        return None
    return run.eta_seconds()


def full_disks(pod: PodState) -> list[str]:
    """Return a phrase like "/ 97% full" for every disk of the pod, and for /dev/shm, that is at
    least FULL_PERCENT (95) percent full. The result is empty if none is.
    """
    host = pod.latest.get("host") or {}
    found = []
    for disk in host.get("disks") or []:
        share = disk_percent(disk)
        if share is not None and share >= FULL_PERCENT:
            found.append(f"{disk.get('path', 'disk')} {share:.0f}% full")
    shm = formatting.percent(host.get("shm_used"), host.get("shm_total"))
    if shm is not None and shm >= FULL_PERCENT:
        found.append(f"/dev/shm {shm:.0f}% full")  # noqa: S108 (a name for the screen)
    return found


def wrong(pod: PodState, run: RunState | None, clock: Clock) -> list[tuple[str, str]]:
    """Return everything that is wrong with the run, or with the pod if `run` is None, as (phrase,
    role), the most important first. The role names the style of the phrase. The result is empty if
    nothing is wrong.
    """
    found: list[tuple[str, str]] = []
    incidents = incidents_of(pod, run)
    roots = [i for i in incidents if i.role == "root"] or incidents
    if roots:
        more = len(incidents) - 1
        found.append(
            (
                roots[0].title + (f" (+{more})" if more else ""),
                "bad" if roots[0].severity == "critical" else "warn",
            )
        )
    if (known := lost(pod)) is not None and pod.lost is not None:
        found.insert(
            0 if taken(pod) else len(found), (pod.lost.sentence, "bad" if taken(pod) else "warn")
        )
    found += [(phrase, "warn") for phrase in pod.notes.values()]
    if len(pod.runs) > ROWS_MOST:
        found.append((f"{ROWS_MOST} of its {len(pod.runs):,} runs are shown here", "warn"))
    if link_down(pod):
        if pod.link.state in _OF_THE_AGENT:
            found.append((pod.link.detail, "warn"))
        found.append((link_words(pod, clock), "dim" if known is not None else "warn"))
        if known is None and (heard := _heard(pod, run, clock)):
            found.append((heard, ""))
    elif not pod.link.up:
        found.append((link_words(pod, clock), "accent"))
    elif age(pod, clock) is None and clock.mono() - pod.link.since > formatting.FRESH_S:
        found.append(("connected, but no telemetry has come", "warn"))
    elif (seen := age(pod, clock)) is not None and seen > formatting.FRESH_S:
        found.append((f"connected, but telemetry is {formatting.duration(seen)} old", "warn"))
    if by_hand := stopped(pod, run):
        found += by_hand
    elif run and run.word in ("failed", "stopped") and run.view.attempt and not incidents:
        attempt = run.view.attempt
        how = f"signal {attempt.signal}" if attempt.signal else f"exit code {attempt.code}"
        detail = attempt.detail or f"attempt {attempt.number} ended with {how}"
        found.append((detail, "bad" if run.word == "failed" else "dim"))
    if run and (phrase := late(pod, run, clock)):
        found.append((phrase, "warn"))
    phrases = full_disks(pod)
    gpus = pod.latest.get("gpus") or {}
    if gpus.get("state") in ("stale", "error"):
        detail = gpus.get("detail") or "the driver does not answer"
        phrases.append(f"GPU data {gpus['state']}: {detail}")
    return found + [(phrase, "warn") for phrase in phrases]


def stopped(pod: PodState, run: RunState | None) -> list[tuple[str, str]]:
    """If the run's newest attempt (a relaunch of a run is its next attempt) was ended by a stop
    that a person confirmed, return [(sentence, style role)], in which the sentence says who stopped
    the run and when. Otherwise return [].
    """
    if run is None or run.word != "stopped" or run.view.attempt is None:
        return []
    begun = run.view.attempt.started_t
    stops = []
    for action in pod.ledger.actions.values():
        mine = action.kind == "stop" and action.run == run.name and action.state == "done"
        if mine and action.updated_t >= begun:
            stops.append(action)
    if not stops:
        return []
    last = max(stops, key=lambda action: action.updated_t)
    at = formatting.of_day(last.updated_t - (pod.link.clock_offset or 0.0))
    return [(f"stopped by {last.who or 'nobody named'} at {at}", "dim")]


def _heard(pod: PodState, run: RunState | None, clock: Clock) -> str:
    """Return what W&B says of a run whose pod does not answer, or "". It is no proof that the run
    is dead.
    """
    if run is None or run.name not in pod.sights:
        return ""
    from bs4_console.pods.observer import without_the_pod

    return without_the_pod(run.name, pod.sights[run.name], clock.wall())
