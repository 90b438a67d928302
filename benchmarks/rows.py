"""What `make bench` measures, as data: the measurements (scripts with their arguments) and the rows
of docs/performance.md, with where each is found in a result.

A place in a result is a path of keys with slashes, such as "round_trip_ms/150/paired/log", or a
function of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Result = Mapping[str, Any]
Where = str | Callable[[Result], float]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A script of this folder with its arguments. Its result is kept in `results/NAME.json`;
    `minutes` is about how long it takes on two slow cores.
    """

    name: str
    script: str
    arguments: Sequence[str] = ()
    minutes: float

    @property
    def command(self) -> str:
        """Return the command that repeats the measurement, as a person would type it."""
        return " ".join(("python", f"benchmarks/{self.script}", *self.arguments))


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the page. `figure` is where the compared number is found: a ratio to the peer
    (`unit` "times"), or a figure by itself. `ours` and `theirs` are the absolute figures behind a
    ratio, in `absolute`. The row is kept if the figure is at most `goal`; with `least`, if it is at
    least that. A row without a goal is only shown. `peer` is what a user would pick instead,
    measured in the same run, and `profile` where the result says where the time goes.
    """

    id: str
    group: str
    what: str
    measurement: str
    figure: Where
    goal: float | None = None
    unit: str = "times"
    least: bool = False
    peer: str = ""
    ours: Where = ""
    theirs: Where = ""
    absolute: str = "s"
    profile: str = ""

    def kept(self, figure: float) -> bool | None:
        """Return whether a figure is within the goal, or None if there is no goal."""
        if self.goal is None:
            return None
        return figure >= self.goal if self.least else figure <= self.goal


FAR = (30, 150, 300)
ALL = (0, *FAR)
LOG, SCREEN, KNOWS, POD, BIG = (
    "A whole log and `check`, at a distance",
    "The screen",
    "Detection and recovery",
    "The agent, the link and the store",
    "A log of five million lines, and `diagnose`",
)


def _far(*words: str) -> tuple[str, ...]:
    return (*words, "--round-trips", *map(str, FAR))


#: In the order in which they run, the short ones first.
MEASUREMENTS = (
    Measurement(name="connect", script="connect.py", arguments=("--pairs", "10"), minutes=1),
    Measurement(
        name="memory", script="distance.py", arguments=("--memory", "30", "300"), minutes=0.5
    ),
    Measurement(
        name="log_loopback",
        script="distance.py",
        arguments=("--programs", "log", "--pairs", "5", "--mb", "300", "--round-trips", "0"),
        minutes=1.5,
    ),
    Measurement(
        name="distance",
        script="distance.py",
        arguments=("--programs", "check", "--pairs", "5", "--mb", "1"),
        minutes=2.5,
    ),
    Measurement(name="diagnose", script="diagnose.py", minutes=4.5),
    Measurement(name="recovery", script="recovery.py", arguments=("--repeats", "1"), minutes=1.5),
    Measurement(name="detection", script="detection.py", arguments=("--repeats", "1"), minutes=3),
    Measurement(name="far_screen", script="far_screen.py", minutes=2),
    Measurement(name="sync", script="sync.py", arguments=("--mib", "512"), minutes=1),
    Measurement(name="agent_whole", script="agent_whole.py", minutes=4.5),
    Measurement(
        name="log_beside",
        script="distance.py",
        arguments=(
            *("--programs", "log", "--beside", "--pairs", "5", "--mb", "30"),
            *("--round-trips", "0", "150"),
        ),
        minutes=2.5,
    ),
    Measurement(
        name="log_500",
        script="distance.py",
        arguments=_far("--programs", "log", "--mbit", "500", "--pairs", "5", "--mb", "60"),
        minutes=5,
    ),
    Measurement(
        name="log_50",
        script="distance.py",
        arguments=_far("--programs", "log", "--mbit", "50", "--pairs", "5", "--mb", "60"),
        minutes=7,
    ),
    Measurement(name="biglog", script="biglog.py", arguments=("--rounds", "1"), minutes=3),
    Measurement(name="screen", script="screen.py", arguments=("--minutes", "2"), minutes=5),
)


def _log(name: str, trip: int, link: str, goal: float) -> Row:
    at = f"round_trip_ms/{trip}"
    return Row(
        id=f"{name}-{trip}",
        group=LOG,
        what=f"a whole log, {trip} ms, {link}",
        measurement=name,
        figure=f"{at}/paired/log",
        goal=goal,
        peer="`ssh cat`",
        ours=f"{at}/median_s/log",
        theirs=f"{at}/median_s/ssh cat",
        profile=f"{at}/profile/log",
    )


def _check(trip: int) -> Row:
    at = f"round_trip_ms/{trip}"
    return Row(
        id=f"check-{trip}",
        group=LOG,
        what=f"`check` of one pod, {trip} ms",
        measurement="distance",
        figure=f"{at}/paired/check",
        goal=1.5 if trip else 2.0,
        peer="`ssh true`",
        ours=f"{at}/median_s/check",
        theirs=f"{at}/median_s/ssh true",
        profile=f"{at}/profile/check",
    )


def _memory(side: str) -> Row:
    return Row(
        id=f"memory-{side}",
        group=LOG,
        what=f"the most that the {side} held resident, of a log of 300 MB",
        measurement="memory",
        figure=f"memory/ratio/{side}_mb",
        goal=1.1,
        peer="the same of 30 MB",
        ours=f"memory/longest/{side}_mb",
        theirs=f"memory/shortest/{side}_mb",
        absolute="MB",
        profile="memory/held",
    )


ASKED = {
    "end": "end of a log of 75 MB",
    "line": "a line of it by its number",
    "first": "first hit of a text at its other end",
    "key": "a key that asks the pod (`g`)",
}


def _looked(asked: str, trip: int) -> Row:
    return Row(
        id=f"far-{asked}-{trip}",
        group=SCREEN,
        what=f"{ASKED[asked]}, {trip} ms",
        measurement="far_screen",
        figure=f"round_trip_ms/{trip}/trips/{asked}",
        goal=1.0,
        unit="round trips more",
        peer="the same at 0 ms",
        ours=f"round_trip_ms/{trip}/median_s/{asked}",
        theirs=f"round_trip_ms/0/median_s/{asked}",
        profile=f"profile/{asked}",
    )


def slowest(part: str, key: str) -> Callable[[Result], float]:
    """Return a function that finds the largest `key` of `part` of all trainers in a result of
    detection.py.
    """

    def found(result: Result) -> float:
        rows = result["trainers"].values()
        return float(max(row[part][key]["max"] for row in rows))

    return found


def torn(result: Result) -> float:
    """Return how many logs of a result of screen.py did not come back whole."""
    return float(sum(not pod["whole"] for pod in result["lines"].values()))


def lines(result: Result) -> float:
    """Return how many lines came back in a result of screen.py."""
    return float(sum(pod["lines_read_back"] for pod in result["lines"].values()))


def written(result: Result) -> float:
    """Return how many lines were written in a result of screen.py."""
    return float(sum(pod["lines"] for pod in result["lines"].values()))


def _counted(name: str, what: str) -> Row:
    return Row(
        id=f"all-{what.split()[0]}",
        group=BIG,
        what=f"all hits of a text, {what}, counted",
        measurement="biglog",
        figure=lambda r: r["seconds"]["bs4-console"][name] / r["seconds"]["grep -c -F"][name],
        goal=1.5,
        peer="`grep -c -F`",
        ours=f"seconds/bs4-console/{name}",
        theirs=f"seconds/grep -c -F/{name}",
        profile="seconds/agent, without a screen",
    )


def _diagnosed(kind: str, goal: float | None) -> Row:
    return Row(
        id=f"diagnose-{kind}",
        group=BIG,
        what=f"`diagnose` of 100 MB, a {kind} log",
        measurement="diagnose",
        figure=f"logs/{kind}/ratio",
        goal=goal,
        peer="`grep -E` of as many alternatives",
        ours=f"logs/{kind}/diagnose_s",
        theirs=f"logs/{kind}/grep_s",
        profile=f"logs/{kind}/profile",
    )


def _recovered(trainer: str) -> Row:
    return Row(
        id=f"recovery-{trainer}",
        group=KNOWS,
        what=f"what is ours in a recovery, {trainer}",
        measurement="recovery",
        figure=f"trainers/{trainer}/ours_s",
        goal=2.0,
        unit="s",
        peer="the run's own ending and start",
        ours=f"trainers/{trainer}/total_s",
        theirs=f"trainers/{trainer}/trainer_s",
        profile=f"trainers/{trainer}/profile",
    )


def _connected(what: str, name: str, goal: float) -> Row:
    return Row(
        id=name,
        group=POD,
        what=what,
        measurement="connect",
        figure=f"ratio_to_ssh_true/{name}",
        goal=goal,
        peer="`ssh true`",
        ours=f"median_s/{name}",
        theirs="median_s/ssh",
        profile=f"profile/{name}",
    )


#: A goal that says "as it is" is what was measured when it was set, and a tenth more.
ROWS = (
    _log("log_loopback", 0, "loopback", 1.25),
    *(_log("log_50", trip, "50 Mbit/s", 1.05) for trip in FAR),
    *(_log("log_500", trip, "500 Mbit/s", 1.05) for trip in FAR),
    *(_log("log_beside", trip, "beside one that follows and a slow one", 1.1) for trip in (0, 150)),
    *(_check(trip) for trip in ALL),
    _memory("console"),
    _memory("agent"),
    *(_looked(asked, trip) for asked in ASKED for trip in FAR),
    Row(
        id="first-paint",
        group=SCREEN,
        what="first paint",
        measurement="screen",
        figure="first_paint/ratio",
        goal=1.3,
        peer="a minimal Textual app",
        ours="first_paint/console_s",
        theirs="first_paint/minimal_s",
        profile="first_paint/profile",
    ),
    Row(
        id="keys",
        group=SCREEN,
        what="95 of 100 keys, under two floods",
        measurement="screen",
        figure="flood/p95_ms",
        goal=50.0,
        unit="ms",
        peer="the same keys on a log at rest",
        ours="flood/p95_ms",
        theirs="idle/p95_ms",
        absolute="ms",
        profile="flood/slowest_keys",
    ),
    Row(
        id="whole",
        group=SCREEN,
        what="logs of the floods that did not come back whole",
        measurement="screen",
        figure=torn,
        goal=0.0,
        unit="logs",
        peer="what was written",
        ours=lines,
        theirs=written,
        absolute="lines",
    ),
    Row(
        id="grown",
        group=SCREEN,
        what="memory that the console gained in the second half of the floods",
        measurement="screen",
        figure="memory/grown_mb",
        goal=1.0,
        unit="MB",
        ours="memory/end_mb",
        theirs="memory/half_mb",
        peer="the middle of the floods",
        absolute="MB",
    ),
    Row(
        id="painted",
        group=SCREEN,
        what="painted in remote mode, the worst second",
        measurement="screen",
        figure="painted_remote/worst_kib_s",
        goal=100.0,
        unit="KiB/s",
    ),
    Row(
        id="end",
        group=BIG,
        what="its newest line, as it is",
        measurement="biglog",
        figure="seconds/bs4-console/end",
        goal=0.12,
        unit="s",
        peer="`less` on the pod itself",
        ours="seconds/bs4-console/end",
        theirs="seconds/less/end",
    ),
    _counted("all, every line", "every line"),
    _counted("all, one line of 97", "one line of 97"),
    _diagnosed("healthy", 3.0),
    _diagnosed("mixed", 3.0),
    _diagnosed("failing", None),
    _diagnosed("noise", None),
    Row(
        id="fact-line",
        group=KNOWS,
        what="a line's fact, the slower trainer",
        measurement="detection",
        figure=slowest("line_written", "fact_s"),
        goal=0.2,
        unit="s",
        peer="`tail -F`",
        ours=slowest("line_written", "fact_s"),
        theirs=slowest("line_written", "peer_s"),
        profile="trainers/prime-rl-2026-01/line_written/profile",
    ),
    Row(
        id="fact-process",
        group=KNOWS,
        what="a process's fact, the slower trainer",
        measurement="detection",
        figure=slowest("process_gone", "fact_s"),
        goal=0.1,
        unit="s",
        peer="`tail --pid`",
        ours=slowest("process_gone", "fact_s"),
        theirs=slowest("process_gone", "peer_s"),
        profile="trainers/prime-rl-2026-01/process_gone/profile",
    ),
    Row(
        id="incident",
        group=KNOWS,
        what="an incident behind its hold, of a process that is gone",
        measurement="detection",
        figure=slowest("process_gone", "after_hold_s"),
        goal=0.1,
        unit="s",
        profile="trainers/prime-rl-2026-01/process_gone/profile",
    ),
    Row(
        id="stall",
        group=KNOWS,
        what="a stall in silence, as it is",
        measurement="detection",
        figure=slowest("silent_stall", "stall_steps"),
        goal=1.7,
        unit="steps",
        ours=slowest("silent_stall", "stall_s"),
        profile="trainers/prime-rl-2026-01/silent_stall/profile",
    ),
    _recovered("prime-rl-2026-01"),
    _recovered("prime-rl"),
    _connected("first telemetry of a pod whose agent runs, as it is", "attach", 0.67),
    _connected("first telemetry of a pod that never saw the agent", "deploy", 2.0),
    Row(
        id="agent-cpu",
        group=POD,
        what="the agent's share of a core, 8 GPUs, 1 Hz",
        measurement="agent_whole",
        figure="alone/cpu_percent",
        goal=0.5,
        unit="%",
        peer="a Python that sleeps",
        ours="alone/cpu_percent",
        theirs="bare_python/cpu_percent",
        absolute="%",
        profile="profile",
    ),
    Row(
        id="agent-memory",
        group=POD,
        what="the agent's resident memory",
        measurement="agent_whole",
        figure="alone/rss_mb",
        goal=30.0,
        unit="MB",
        peer="a Python that sleeps",
        ours="alone/rss_mb",
        theirs="bare_python/rss_mb",
        absolute="MB",
    ),
    Row(
        id="sync",
        group=POD,
        what="throughput of a checkpoint's upload",
        measurement="sync",
        figure="throughput_ratio",
        goal=0.9,
        least=True,
        peer="`b2 sync`",
        ours="median/ours/mib_s",
        theirs="median/b2/mib_s",
        absolute="MiB/s",
    ),
)
