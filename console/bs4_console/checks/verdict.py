"""The health of a pod as one verdict, with Nagios' levels and perfdata. The functions here depend
only on what is known and change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

from bs4_console.checks.milestones import due
from bs4_console.checks.outside import Outside, SightRow, beside_the_pod
from bs4_console.pods.observer import IncidentRow, without_the_pod
from bs4_console.pods.samples import DiskUsage
from bs4_console.pods.state import STALE_S, PodState, RunState, devices, disk_percent

OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3
WORDS = {OK: "OK", WARNING: "WARNING", CRITICAL: "CRITICAL", UNKNOWN: "UNKNOWN"}
#: The rank of each level when several verdicts become one. A known failure is worse than not
#: knowing.
_RANK = {OK: 0, WARNING: 1, UNKNOWN: 2, CRITICAL: 3}

#: Percent of a disk in use.
DISK_WARNING, DISK_CRITICAL = 85.0, 95.0


class Reason(NamedTuple):
    """One thing that was checked, and its level. `level` is 0 OK, 1 WARNING, 2 CRITICAL or 3
    UNKNOWN. `subject` names the thing ("run demo", "GPU 0", "disk /data", "telemetry"), and `text`
    says in what state it is.
    """

    level: int
    subject: str
    text: str


class CheckRow(TypedDict):
    """One thing that was checked, in the JSON of `check`. `subject` names the thing, such as "run
    demo" or "GPU 0", and `text` says in what state it is.
    """

    subject: str
    status: str
    """The level as a word, such as "WARNING"."""
    text: str


class VerdictRow(TypedDict):
    """The verdict on one pod, as the JSON of `check` has it. `sentences` has the reasons, worst
    first, and `checks` everything that was checked. `perfdata` maps a label to "value;warn;crit",
    as Nagios writes numbers. `incidents` are the pod's failures, `sights` what W&B said of its
    runs, and `coverage` phrases about what could not be seen.
    """

    pod: str
    status: str
    """The level as a word, such as "WARNING"."""
    code: int
    """The level as the exit code of a Nagios check."""
    sentences: Sequence[str]
    perfdata: Mapping[str, str]
    incidents: Sequence[IncidentRow]
    coverage: Sequence[str]
    sights: Sequence[SightRow]
    checks: Sequence[CheckRow]


class Sample(NamedTuple):
    """One number (`value`) with its `name` and `labels`, for monitoring such as Prometheus. The
    unit is in the name (seconds, bytes, ratio), by Prometheus' conventions.
    """

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The health of one pod, or of a log or directory that was checked in place of a pod (then
    `pod` is its path). `level` is 0 OK, 1 WARNING, 2 CRITICAL or 3 UNKNOWN. `sentences` has the
    reasons, worst first, and `found` everything that was checked. `perfdata` maps a label to
    "value;warn;crit", as Nagios writes numbers, and `samples` has numbers for other monitoring.
    `coverage` says what could not be seen.
    """

    pod: str
    level: int
    sentences: Sequence[str]
    perfdata: dict[str, str] = field(default_factory=dict)
    incidents: Sequence[IncidentRow] = ()
    coverage: Sequence[str] = ()
    """What could not be seen on the pod, as phrases. Unknown is not healthy."""
    found: Sequence[Reason] = ()
    """Everything that was checked, worst first, including what is well."""
    samples: Sequence[Sample] = ()
    sights: Sequence[SightRow] = ()
    """The observations of the runs by W&B (see `outside`)."""

    def line(self) -> str:
        """Return the verdict as a Nagios line: `CRITICAL - pod: sentence | step=12 gpu0_util=93%`

        Nagios cuts a text at the first bar and at the end of a line. Bars in the sentences
        therefore become slashes, and line ends become spaces.
        """
        perf = " ".join(f"{_label(label)}={value}" for label, value in self.perfdata.items())
        # Nagios cuts the text at the first bar and at the end of the line.
        text = " ".join("; ".join(self.sentences).replace("|", "/").split())
        return f"{WORDS[self.level]} - {self.pod}: {text}" + (f" | {perf}" if perf else "")

    def as_dict(self) -> VerdictRow:
        """Return the verdict as the JSON object that `check` prints for each pod."""
        return {
            "pod": self.pod,
            "status": WORDS[self.level],
            "code": self.level,
            "sentences": list(self.sentences),
            "perfdata": self.perfdata,
            "incidents": list(self.incidents),
            "coverage": list(self.coverage),
            "sights": list(self.sights),
            "checks": [
                {"subject": f.subject, "status": WORDS[f.level], "text": f.text} for f in self.found
            ],
        }


def _label(text: str) -> str:
    """Return a perfdata label, quoted if it is not one plain word."""
    plain = text.replace("'", "").replace("=", "")
    if plain.replace("_", "").replace(".", "").replace("-", "").isalnum():
        return plain
    return f"'{plain}'"


def worse(level: int, than: int) -> bool:
    """Return True if `level` is worse than `than`, in the order OK < WARNING < UNKNOWN < CRITICAL.

    A failure that is known is worse than a state that is not known.
    """
    return rank(level) > rank(than)


def rank(level: int) -> int:
    """Return a number for sorting verdicts by `level` (0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN). A
    worse level gives a greater number; the order is OK < WARNING < UNKNOWN < CRITICAL.
    """
    return _RANK[level]


def aggregate(verdicts: Sequence[Verdict]) -> int:
    """Return the worst level of several verdicts in the order OK < WARNING < UNKNOWN < CRITICAL.
    Without any verdict it is UNKNOWN.
    """
    return max((v.level for v in verdicts), key=rank, default=UNKNOWN)


def unreachable(
    pod: str,
    sentence: str,
    incidents: Sequence[IncidentRow] = (),
    outside: Outside | None = None,
) -> Verdict:
    """Return the verdict on the pod named `pod`, whose link failed. It is UNKNOWN and not CRITICAL,
    because the runs may be well. `sentence` says what is wrong with the link, and `incidents` are
    the incidents of the link as JSON objects. `outside` has what W&B says about the runs, or is
    None; it is shown, and does not change the level.
    """
    seen = outside or Outside()
    found, told = [Reason(UNKNOWN, "link", sentence)], []
    for run, sight in seen.sights.items():
        if text := without_the_pod(run, sight):
            told.append(text)
            found.append(Reason(OK, "W&B", text))
    return Verdict(
        pod=pod,
        level=UNKNOWN,
        sentences=[sentence, *told],
        incidents=incidents,
        coverage=seen.coverage,
        found=found,
        sights=seen.as_list(),
    )


def judge(pod: PodState, outside: Outside | None = None) -> Verdict:
    """Return the verdict on a pod whose state was just read. `outside` has what W&B says about the
    runs; where it differs from the pod, the verdict has a warning about W&B, because the pod is
    believed.
    """
    seen = outside or Outside()
    opened = pod.ledger.open_incidents()
    found = [*_incidents(pod), *_gpus(pod), *_disks(pod), *_wandb(pod, seen)]
    for run in pod.runs.values():
        found += _run(run, any(i.run == run.name for i in opened))
        found += _milestone(pod.name, run)
    if not pod.runs:
        found.append(Reason(OK, "runs", "no run is registered"))
    if pod.stale:
        age = pod.age()
        found.append(
            Reason(
                UNKNOWN,
                "telemetry",
                "there is no telemetry" if age is None else f"telemetry is {age:.0f} s old",
            )
        )
    incidents: list[IncidentRow] = [
        {
            "id": i.id,
            "failure": i.failure,
            "run": i.run,
            "severity": i.severity,
            "summary": i.summary,
            "playbook": i.playbook,
        }
        for i in opened
    ]
    coverage = [*_coverage(pod), *pod.notes.values(), *seen.coverage]
    incidents += seen.incidents
    return verdict(
        pod.name,
        found,
        perfdata=_perfdata(pod),
        incidents=incidents,
        coverage=coverage,
        samples=_samples(pod),
        sights=seen.as_list(),
    )


def _wandb(pod: PodState, seen: Outside) -> list[Reason]:
    """Return one entry for each run that W&B was queried about."""
    found = []
    for name, sight in seen.sights.items():
        wrong = [beside_the_pod(pod.runs[name], sight)]
        if not wrong[0]:
            wrong = []
            for i in seen.incidents:
                if i["run"] == name:
                    wrong.append(f"{i['summary']} Trust the pod.")
        for text in wrong:
            found.append(Reason(WARNING, f"W&B of {name}", text))
        if not wrong:
            found.append(Reason(OK, "W&B", sight.detail))
    return found


def verdict(name: str, found: Sequence[Reason], **more: Any) -> Verdict:
    """Return a verdict on the pod or path `name` from the results in `found`: its level is the
    worst of theirs. Its sentences are about what is wrong, or about what is well if nothing is
    wrong. `more` sets further fields of Verdict by name, such as `coverage`. `found` must not be
    empty.
    """
    ordered = sorted(found, key=lambda item: -_RANK[item.level])
    sentences = [f.text for f in ordered if f.level != OK] or [
        f.text for f in ordered if f.subject not in _QUIET
    ]
    return Verdict(pod=name, level=ordered[0].level, sentences=sentences, found=ordered, **more)


#: Subjects that appear in a one-line verdict only if something is wrong with them.
_QUIET = ("GPUs", "disks", "W&B")


def level_of(severity: str) -> int:
    """Return the level for an incident's severity: 2 CRITICAL for "critical", 1 WARNING for
    "warning", 0 OK for "info". Any other severity comes from a newer agent and counts as CRITICAL.
    """
    return {"critical": CRITICAL, "warning": WARNING, "info": OK}.get(severity, CRITICAL)


def _incidents(pod: PodState) -> list[Reason]:
    """Return one entry for each open incident of the pod."""
    rows = []
    for i in pod.ledger.open_incidents():
        subject, text = f"{i.run or 'pod'}: {i.failure}", f"{i.failure}: {i.summary}"
        rows.append(Reason(level_of(i.severity), subject, text))
    return rows


def _coverage(pod: PodState) -> list[str]:
    """Return a phrase for everything that the telemetry cannot see."""
    seen = pod.latest.get("coverage") or {}
    rows = []
    for what, word in seen.items():
        if word not in ("visible", "by-pid"):
            rows.append(f"{what.replace('_', ' ')}: {word}")
    return rows


def _run(run: RunState, explained: bool) -> list[Reason]:
    """Return the entry for a run. A failed run has none if an open incident explains it."""
    word, step, goal = run.word, run.step, run.view.max_steps
    progress = "no step yet"
    if step is not None and word != "starting":
        progress = f"step {step}" + (f" of {goal}" if goal else "")
    subject = f"run {run.name}"
    if word != "failed":
        return [Reason(OK, subject, f"{run.name} {word}, {progress}")]
    if explained:
        return []
    text = f"{run.name} ended badly at {progress}"
    if run.view.attempt and run.view.attempt.detail:
        text += f": {run.view.attempt.detail}"
    return [Reason(CRITICAL, subject, text)]


def _milestone(pod: str, run: RunState) -> list[Reason]:
    """Return an entry if the run's checklist is due, by the order of a person."""
    at = due(run)
    if at is None:
        return []
    text = (
        f"{run.name} has reached step {at}: go through its list "
        f"(`bs4-console runs checklist {run.name} --pod {pod}`)"
    )
    return [Reason(WARNING, f"list of {run.name}", text)]


def _gpus(pod: PodState) -> list[Reason]:
    """Return the entries for the GPUs: one per broken GPU, or one for all."""
    gpus = pod.latest.get("gpus") or {}
    if gpus.get("state") == "absent":
        return [
            Reason(WARNING, "GPUs", f"no GPU is visible: {gpus.get('detail', '')}".rstrip(": "))
        ]
    if gpus.get("state") in ("stale", "error"):
        return [
            Reason(WARNING, "GPUs", f"GPU telemetry is {gpus['state']}: {gpus.get('detail', '')}")
        ]
    found = []
    for d in devices(pod):
        if d.get("error"):
            found.append(Reason(CRITICAL, f"GPU {d['index']}", f"GPU {d['index']}: {d['error']}"))
    if devices(pod) and not found:
        found.append(Reason(OK, "GPUs", f"{len(devices(pod))} GPUs answer"))
    return found


def _disks(pod: PodState) -> list[Reason]:
    """Return the entries for disks that are nearly full, or one for all disks."""
    found = []
    disks = measured_disks(pod)
    for disk in disks:
        used = disk_percent(disk) or 0.0
        if used >= DISK_WARNING:
            level = CRITICAL if used >= DISK_CRITICAL else WARNING
            found.append(
                Reason(level, f"disk {disk['path']}", f"{disk['path']} is {used:.0f} % full")
            )
    if disks and not found:
        found.append(Reason(OK, "disks", f"no disk is more than {DISK_WARNING:.0f} % full"))
    return found


def measured_disks(pod: PodState) -> list[DiskUsage]:
    """Return the disks in the pod's newest telemetry record whose size is known. The agent writes
    null for a filesystem that does not answer; such a disk is left out.
    """
    measured = []
    for disk in (pod.latest.get("host") or {}).get("disks") or ():
        if disk.get("used") is not None and disk.get("total") is not None:
            measured.append(disk)
    return measured


def _samples(pod: PodState) -> list[Sample]:
    """Return the known numbers of a pod. A number that is not known is left out and never 0."""
    found: list[tuple[str, dict[str, str], Any]] = []
    for run in pod.runs.values():
        labels = {"run": run.name}
        found += [
            ("bs4_run_step", labels, run.step),
            ("bs4_run_max_steps", labels, run.view.max_steps),
            ("bs4_run_step_seconds", labels, run.step_seconds()),
            ("bs4_run_alive", labels, float(run.alive)),
        ]
    for device in devices(pod):
        labels = {"gpu": str(device["index"])}
        util = device.get("util")
        found += [
            ("bs4_gpu_utilization_ratio", labels, None if util is None else util / 100.0),
            ("bs4_gpu_memory_used_bytes", labels, device.get("mem_used")),
            ("bs4_gpu_memory_size_bytes", labels, device.get("mem_total")),
        ]
    for disk in measured_disks(pod):
        labels = {"path": str(disk["path"])}
        found += [
            ("bs4_disk_used_bytes", labels, disk["used"]),
            ("bs4_disk_size_bytes", labels, disk["total"]),
        ]
    found.append(("bs4_telemetry_age_seconds", {}, pod.age()))
    return [
        Sample(name, labels, float(value))
        for name, labels, value in found
        if isinstance(value, (int, float))
    ]


def _perfdata(pod: PodState) -> dict[str, str]:
    """Return the known numbers of a pod as Nagios' perfdata, by label."""
    perf: dict[str, str] = {}
    for run in pod.runs.values():
        if run.step is not None:
            perf[f"{run.name}_step"] = f"{run.step};;;0;{run.view.max_steps or ''}"
        if (pace := run.step_seconds()) is not None:
            perf[f"{run.name}_step_seconds"] = f"{pace:.3f}s"
    for device in devices(pod):
        if device.get("util") is not None:
            perf[f"gpu{device['index']}_util"] = f"{device['util']:.0f}%"
        if device.get("mem_used") is not None:
            perf[f"gpu{device['index']}_mem"] = (
                f"{device['mem_used']}B;;;0;{device.get('mem_total') or ''}"
            )
    for disk in measured_disks(pod):
        perf[f"disk_{disk['path'].strip('/').replace('/', '_') or 'root'}"] = (
            f"{disk['used']}B;;;0;{disk['total']}"
        )
    if (age := pod.age()) is not None:
        perf["age"] = f"{age:.1f}s;{STALE_S}"
    return perf
