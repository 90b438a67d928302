"""The health of a pod as one verdict: pure over what is known, with Nagios' levels and perfdata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bs4_console.core.state import STALE_S, PodState, RunState

OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3
WORDS = {OK: "OK", WARNING: "WARNING", CRITICAL: "CRITICAL", UNKNOWN: "UNKNOWN"}
#: Worst first when several verdicts become one: a known failure outranks not knowing.
_RANK = {OK: 0, WARNING: 1, UNKNOWN: 2, CRITICAL: 3}

#: Percent of a disk in use.
DISK_WARNING, DISK_CRITICAL = 85.0, 95.0


@dataclass(frozen=True)
class Verdict:
    """`level` of one pod, the sentences behind it (worst first) and perfdata as `label: "value;warn;crit"`."""

    pod: str
    level: int
    sentences: Sequence[str]
    perfdata: dict[str, str] = field(default_factory=dict)
    incidents: Sequence[dict[str, Any]] = ()
    coverage: Sequence[str] = ()
    """What could not be seen on the pod, as phrases: unknown is not healthy."""

    def line(self) -> str:
        """`CRITICAL - pod: sentence | step=12 gpu0_util=93%`"""
        perf = " ".join(f"{_label(label)}={value}" for label, value in self.perfdata.items())
        # Nagios cuts at the first bar and at the end of the line.
        text = " ".join("; ".join(self.sentences).replace("|", "/").split())
        return f"{WORDS[self.level]} - {self.pod}: {text}" + (f" | {perf}" if perf else "")

    def as_dict(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "status": WORDS[self.level],
            "code": self.level,
            "sentences": list(self.sentences),
            "perfdata": self.perfdata,
            "incidents": list(self.incidents),
            "coverage": list(self.coverage),
        }


def _label(text: str) -> str:
    """A perfdata label: quoted where it is not one plain word."""
    plain = text.replace("'", "").replace("=", "")
    return plain if plain.replace("_", "").replace(".", "").replace("-", "").isalnum() else f"'{plain}'"


def aggregate(verdicts: Sequence[Verdict]) -> int:
    """One level for several pods: OK < WARNING < UNKNOWN < CRITICAL. No pod at all is UNKNOWN."""
    return max((v.level for v in verdicts), key=_RANK.__getitem__, default=UNKNOWN)


def unreachable(pod: str, sentence: str) -> Verdict:
    """The link failed: nothing is known, least of all that the run is bad."""
    return Verdict(pod, UNKNOWN, [sentence])


def judge(pod: PodState) -> Verdict:
    """A pod that was just read."""
    found = [*_incidents(pod), *_gpus(pod), *_disks(pod)]
    for run in pod.runs.values():
        found += _run(run, any(i.run == run.name for i in pod.ledger.open_incidents()))
    if not pod.runs:
        found.append((OK, "no run is registered"))
    if pod.stale:
        age = pod.age()
        found.append((UNKNOWN, "there is no telemetry" if age is None else f"telemetry is {age:.0f} s old"))
    found.sort(key=lambda item: -_RANK[item[0]])
    level = found[0][0]
    sentences = [text for weight, text in found if weight != OK] or [text for _, text in found]
    incidents = [
        {"id": i.id, "failure": i.failure, "run": i.run, "severity": i.severity, "summary": i.summary, "playbook": i.playbook}
        for i in pod.ledger.open_incidents()
    ]
    return Verdict(pod.name, level, sentences, _perfdata(pod), incidents, _coverage(pod))


def _incidents(pod: PodState) -> list[tuple[int, str]]:
    level = {"critical": CRITICAL, "warning": WARNING, "info": OK}
    return [(level.get(i.severity, CRITICAL), f"{i.failure}: {i.summary}") for i in pod.ledger.open_incidents()]


def _coverage(pod: PodState) -> list[str]:
    """Everything that telemetry says it cannot see."""
    seen = pod.latest.get("coverage", {})
    return [f"{what.replace('_', ' ')}: {word}" for what, word in seen.items() if word not in ("visible", "by-pid")]


def _run(run: RunState, explained: bool) -> list[tuple[int, str]]:
    word, step, goal = run.word, run.step, run.view.max_steps
    progress = f"step {step}" + (f" of {goal}" if goal else "") if step is not None else "no step yet"
    if word == "failed":
        attempt = run.view.attempt
        detail = attempt.detail if attempt else ""
        return [] if explained else [(CRITICAL, f"{run.name} ended badly at {progress}" + (f": {detail}" if detail else ""))]
    return [(OK, f"{run.name} {word}, {progress}")]


def _gpus(pod: PodState) -> list[tuple[int, str]]:
    gpus = pod.latest.get("gpus", {})
    if gpus.get("state") == "absent":
        return [(WARNING, f"no GPU is visible: {gpus.get('detail', '')}".rstrip(": "))]
    if gpus.get("state") in ("stale", "error"):
        return [(WARNING, f"GPU telemetry is {gpus['state']}: {gpus.get('detail', '')}")]
    return [(CRITICAL, f"GPU {d['index']}: {d['error']}") for d in gpus.get("devices", []) if d.get("error")]


def _disks(pod: PodState) -> list[tuple[int, str]]:
    found = []
    for disk in pod.latest.get("host", {}).get("disks", []):
        used = 100.0 * disk["used"] / disk["total"] if disk["total"] else 0.0
        if used >= DISK_WARNING:
            found.append((CRITICAL if used >= DISK_CRITICAL else WARNING, f"{disk['path']} is {used:.0f} % full"))
    return found


def _perfdata(pod: PodState) -> dict[str, str]:
    perf: dict[str, str] = {}
    for run in pod.runs.values():
        if run.step is not None:
            perf[f"{run.name}_step"] = f"{run.step};;;0;{run.view.max_steps or ''}"
        if (pace := run.step_seconds()) is not None:
            perf[f"{run.name}_step_seconds"] = f"{pace:.3f}s"
    for device in pod.latest.get("gpus", {}).get("devices", []):
        if device.get("util") is not None:
            perf[f"gpu{device['index']}_util"] = f"{device['util']:.0f}%"
        if device.get("mem_used") is not None:
            perf[f"gpu{device['index']}_mem"] = f"{device['mem_used']}B;;;0;{device.get('mem_total') or ''}"
    for disk in pod.latest.get("host", {}).get("disks", []):
        perf[f"disk_{disk['path'].strip('/').replace('/', '_') or 'root'}"] = f"{disk['used']}B;;;0;{disk['total']}"
    if (age := pod.age()) is not None:
        perf["age"] = f"{age:.1f}s;{STALE_S}"
    return perf
