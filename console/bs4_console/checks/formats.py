"""Verdicts in the formats of other programs: Nagios, Prometheus, GitHub Actions, JUnit. Each
function returns text and has no side effects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from bs4_console.checks.verdict import (
    OK,
    UNKNOWN,
    WARNING,
    WORDS,
    Sample,
    Verdict,
    aggregate,
)

NO_POD = "no pod is in the inventory; add one with `bs4-console pods add`"

#: The meaning of each metric. All are gauges.
_HELP = {
    "bs4_check_status": "Verdict of the check: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.",
    "bs4_incident_open": "1 for every incident that is open.",
    "bs4_run_step": "Newest finished step of the trainer.",
    "bs4_run_max_steps": "Step at which the run ends.",
    "bs4_run_step_seconds": "Median duration of the last 20 steps.",
    "bs4_run_alive": "Whether processes of the run live.",
    "bs4_gpu_utilization_ratio": "Share of the last second in which the GPU worked, 0 to 1.",
    "bs4_gpu_memory_used_bytes": "GPU memory in use.",
    "bs4_gpu_memory_size_bytes": "GPU memory there is.",
    "bs4_disk_used_bytes": "Disk space in use.",
    "bs4_disk_size_bytes": "Size of the disk.",
    "bs4_telemetry_age_seconds": "Age of the newest telemetry.",
    "bs4_budget_spent_dollars": "What was spent of a budget since its day, week or month began.",
    "bs4_budget_dollars": "The budget.",
}


def text(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts as Nagios lines with perfdata, one for each pod. Those with the worst
    level come first. Without any verdict the text is an UNKNOWN line that says that no pod is in
    the inventory.
    """
    if not verdicts:
        return f"UNKNOWN - {NO_POD}\n"
    level = aggregate(verdicts)
    return "".join(
        f"{verdict.line()}\n" for verdict in sorted(verdicts, key=lambda v: aggregate([v]) != level)
    )


def prom(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts in Prometheus' text format 0.0.4, for the textfile collector of
    node_exporter. A value that is not known is left out.
    """
    shown = defaultdict[str, list[str]](list)
    for v in verdicts:
        samples = [Sample("bs4_check_status", {}, float(v.level)), *v.samples]
        for i in v.incidents:
            labels = {}
            for key in ("run", "failure", "severity", "id"):
                labels[key] = str(i[key])
            samples.append(Sample("bs4_incident_open", labels, 1.0))
        for name, own, value in samples:
            shown[name].append(f"{name}{_labels({'pod': v.pod, **own})} {value!r}")
    lines = []
    # All lines of one metric stand together, below its own HELP and TYPE, because a parser refuses
    # anything else.
    for name, meaning in _HELP.items():
        if name in shown:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge", *shown[name]]
    return "\n".join([*lines, ""])


def _labels(labels: Mapping[str, str]) -> str:
    """Return labels in Prometheus' format, with escaped values."""
    parts = []
    for key, value in labels.items():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        parts.append(f'{key}="{escaped}"')
    return "{" + ",".join(parts) + "}"


def github(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts as workflow commands of GitHub Actions: one annotation for each thing
    that is wrong, and one notice for each pod that is well.
    """
    if not verdicts:
        return f"::error title=bs4-console check::UNKNOWN - {NO_POD}\n"
    lines = []
    for verdict in verdicts:
        wrong = [f for f in verdict.found if f.level != OK]
        for found in wrong:
            command = "warning" if found.level == WARNING else "error"
            subject, text = (
                f"{verdict.pod}: {found.subject}",
                f"{WORDS[found.level]} - {found.text}",
            )
            lines.append(_annotation(command, subject, text))
        if not wrong:
            lines.append(_annotation("notice", verdict.pod, f"OK - {'; '.join(verdict.sentences)}"))
    return "\n".join([*lines, ""])


def _annotation(command: str, title: str, message: str) -> str:
    """Return one workflow command. Percent signs and line ends are escaped as Actions' own toolkit
    does, and in the title also colons and commas, so that no text of a pod can start another
    command.
    """
    name = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{command} title={name}::{_escaped(message)}"


def _escaped(said: str) -> str:
    """Return text whose percent signs and line ends are escaped."""
    return said.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def junit(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts as JUnit XML, with a test suite for each pod and a test case for each
    thing that was checked; see checks/junit.py.
    """
    # Python's XML and the pattern of what XML cannot hold take 20 ms of the start of a check.
    from bs4_console.checks.junit import document

    return document(verdicts or [Verdict(pod="inventory", level=UNKNOWN, sentences=[NO_POD])])


#: The function for each format. The commands print JSON themselves (`cli.output.emit`).
FORMATS: Mapping[str, Callable[[Sequence[Verdict]], str]] = {
    "text": text,
    "prom": prom,
    "github": github,
    "junit": junit,
}
