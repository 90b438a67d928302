"""The command `diagnose`: what is wrong with a log, a run directory or standard input. It works
offline, with the same engine as on a pod.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from bs4_console.checks.diagnose import SOURCES, AssumedDiagnosis, FindingRow, assuming
from bs4_console.cli.output import emit, evidence_place, finding_code
from bs4_console.errors import UNREACHABLE
from bs4_console.failures.playbook_file import PlaybookFile
from bs4_console.failures.playbooks import shipped
from bs4_console.failures.step_words import sentence
from bs4_console.trainers.registry import TRAINERS

#: Pieces of evidence that are shown of a finding, and characters of each.
SHOWN, MOST = 2, 200
#: How a phrase about a log that was not given ends, after the name of its source.
_NO_LOG = " log (never seen)"
_NOT_SURE = (
    "No known failure is seen, but not everything here could be judged. Say with --source what "
    "wrote a log."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `diagnose` to its parser."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a log, a run's output directory, a crash report, or - for standard input",
    )
    parser.add_argument(
        "--source", choices=SOURCES, help="what wrote the log, when its name does not tell"
    )
    parser.add_argument(
        "--trainer",
        choices=tuple(TRAINERS),
        help="when the files do not tell",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Read the given logs, run directories and crash reports, print what is wrong in them with the
    evidence, and return the exit code: 1 if there are findings, else 3 if something could not be
    judged, else 0. Raises UsageError if a path
    cannot be read. Raises UnclearSource if a file is not text and no other path has a finding.
    Raises ConsoleError if a file of this console's own installation is missing.
    """
    report = assuming([Path(p) for p in options.paths], options.source, options.trainer)
    if options.json:
        emit("diagnose", **report)
        return _code(report)
    texts = {playbook["id"]: playbook for playbook in shipped()}
    for finding in report["findings"]:
        for line in _told(finding, texts.get(finding["id"], {})):
            print(line)
    for raised in report["unnamed"]:
        print(f"It ended with {raised}, which is no known failure.")
    if not report["findings"] and not report["unnamed"]:
        print(_NOT_SURE if report["unjudged"] else "Nothing known is wrong here.")
    for source in dict.fromkeys(report["assumed"].values()):
        logs = [path for path, name in report["assumed"].items() if name == source]
        were = "was" if len(logs) == 1 else "were"
        print(
            f"assumed: {', '.join(logs)} {were} written by the {source}; say it with --source if "
            "not"
        )
    if report["coverage"]:
        print(f"not looked at: {_unseen(report['coverage'])}")
    return _code(report)


def _code(report: AssumedDiagnosis) -> int:
    """Return the exit code: what could not be judged is unknown, and not well."""
    if report["unjudged"] and not report["findings"]:
        return UNREACHABLE
    return finding_code(report["findings"])


def _unseen(coverage: Sequence[str]) -> str:
    """Return the phrases about what could not be seen, those about logs that were not given as
    one.
    """
    missing = [phrase for phrase in coverage if phrase.endswith(_NO_LOG)]
    said = [phrase for phrase in coverage if phrase not in missing]
    if missing:
        names = [phrase.removesuffix(_NO_LOG) for phrase in missing]
        said.append(f"logs that were not given ({', '.join(names)})")
    return ", ".join(said)


def _told(finding: FindingRow, playbook: PlaybookFile) -> Iterator[str]:
    """Yield a finding for a person: its title, why it is thought so, the first step of the fix, and
    one or two lines of evidence. `playbook` is the file of the failure, {} if there is none.
    """
    title = playbook.get("title", finding["id"])
    role = "root cause" if finding["role"] == "root" else finding["role"]
    yield f"{finding['severity'].upper()} {finding['id']} ({role}): {title}"
    texts = [item["text"] for item in finding["evidence"]]
    if finding["summary"] not in (*texts, title):
        yield f"    why:   {finding['summary'][:MOST]}"
    steps = [*playbook.get("advice", []), *map(sentence, playbook.get("fix", []))]
    if steps:
        first = " ".join(steps[0].split())
        yield f"    first: {first} (`bs4-console playbook show {finding['id']}` has all steps)"
    for item in finding["evidence"][:SHOWN]:
        yield f"    seen:  {evidence_place(item)}: {item['text'][:MOST]}"
