"""A verdict on finished files instead of a pod: a log or a run directory, read by the same engine
that watches live pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bs4_console.checks.diagnose import EvidenceRow, diagnose
from bs4_console.checks.verdict import OK, UNKNOWN, Reason, Verdict, level_of, unreachable, verdict
from bs4_console.errors import UsageError
from bs4_console.pods.observer import IncidentRow


def judge_files(path: Path, source: str | None = None, trainer: str | None = None) -> Verdict:
    """Return the verdict whether the run is healthy that wrote the log, or the directory, at
    `path`: OK, WARNING, CRITICAL or UNKNOWN. It is UNKNOWN, with the reason as its sentence, if the
    path cannot be read, or if it, or a log in it, cannot be judged. `source` is the program that
    wrote the logs, such as "trainer", and `trainer` is "prime-rl-2026-01", "prime-rl" or "verl";
    None means that this is found out from the files.
    """
    try:
        report = diagnose([path], source, trainer)
    except UsageError as error:
        return unreachable(str(path), str(error))
    # A cascade follows from its root. It is listed, but only roots and independent findings decide.
    deciding = [f for f in report["findings"] if f["role"] != "cascade"] or report["findings"]
    found = []
    for f in deciding:
        text = f"{f['id']}: {f['summary']}{_place(f['evidence'])}"
        found.append(Reason(level_of(f["severity"]), f["id"], text))
    incidents: list[IncidentRow] = []
    for f in report["findings"]:
        incidents.append(
            {
                "id": "",
                "failure": f["id"],
                "run": "",
                "severity": f["severity"],
                "summary": f["summary"],
                "playbook": f["playbook"],
            }
        )
    for raised in report["unnamed"]:
        found.append(Reason(UNKNOWN, "files", f"it ended with {raised}, which is no known failure"))
    for name in report["unjudged"]:
        found.append(Reason(UNKNOWN, name, f"{name} could not be judged"))
    return verdict(
        str(path),
        found or [Reason(OK, "files", "nothing known is wrong here")],
        incidents=incidents,
        coverage=report["coverage"],
    )


def _place(evidence: Sequence[EvidenceRow]) -> str:
    """Return ` (trainer.log:12)` for the first line of evidence, or "" if there is none."""
    if not evidence or not evidence[0]["file"]:
        return ""
    first = evidence[0]
    if first["line"]:
        return f" ({first['file']}:{first['line']})"
    return f" ({first['file']})"
