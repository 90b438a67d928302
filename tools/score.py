"""How well `diagnose` names what is wrong with labelled logs, per class: `python tools/score.py
[DIRECTORY]`.

The directory holds labels.tsv (file, expected, also_acceptable, source, class, note; tab-separated)
and the logs it names. The engine gets the text and the source, nothing else. A hit: `expected` is
the first finding. A false finding: any other of severity warning or critical that is not in
`also_acceptable`. A negative passes with none. Rules that need time are asked twice: when their
hold is over, and just after the last line, where they must be silent.

Exit codes: 0 targets met or no corpus here (it says so), 1 targets missed, 2 usage.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from bs4_common.failures import offline
from bs4_common.failures.compiled import Library, Playbook
from bs4_common.failures.engine import Engine
from bs4_common.failures.facts import Finding
from bs4_console.failures.playbooks import compile_all

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "incidents"
#: Classes of real logs, of which so many must be named right, in percent.
REAL = ("raw-generated", "raw-repo", "real-failing")
TARGET = 95.0
_LOUD = ("warning", "critical")


@dataclass
class Tally:
    """How well `diagnose` has named the failures in the logs of one class. `total` is the number of
    logs, and `hits` how many were named right. `misses` has a sentence for each log that was not,
    or that was named too early or too late. `false` has one line of text for each failure that was
    found but is not there.
    """

    total: int = 0
    hits: int = 0
    misses: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """One labelled log of the corpus. `file` is its path in the corpus, and `source` names the
    program that wrote it. `expected` has the ids of the failures of which the first finding must be
    one, or only "-" if nothing is wrong. Findings in `acceptable` count as neither right nor wrong.
    `kind` is the class of the log. `note` begins with "needs time" if the failure is found only
    some time after the last line.
    """

    file: str
    expected: tuple[str, ...]
    acceptable: frozenset[str]
    source: str
    kind: str
    note: str

    @classmethod
    def of(cls, row: dict[str, str]) -> Case:
        """Return the test case that `row`, a row of labels.tsv, describes. `row` maps the names of
        the columns to their texts.
        """
        acceptable = frozenset(filter(None, (row["also_acceptable"] or "").split(",")))
        return cls(
            row["file"],
            tuple(row["expected"].split("|")),
            acceptable,
            row["source"],
            row["class"],
            row["note"],
        )


def findings(
    library: list[Playbook], data: bytes, source: str, idle_s: float | None, trainer: str = ""
) -> list[Finding]:
    """Return what `diagnose` finds in a log, causes first. `library` has the known failures, `data`
    is the log's text, and `source` names the program that wrote it. `trainer` is the trainer's id,
    or "" if it is not known. `idle_s` is the number of seconds since the last line; None means that
    the log is over and no more lines come.
    """
    engine = Engine(library, live=False)
    facts = offline.as_facts(
        [offline.log_facts(io.BytesIO(data), "-", source, trainer, engine)], engine, idle_s or 0.0
    )
    transitions = engine.evaluate(facts, complete=idle_s is None)
    for fault in engine.faults:
        raise fault.error
    return [t.finding for t in transitions if t.event == "opened"]


def score(directory: Path, library: list[Playbook]) -> dict[str, Tally]:
    """Diagnose every labelled log in `directory` with the playbooks in `library`, and return one
    Tally for each class of logs, by the name of the class. It counts the logs and the hits, and
    names the misses and the false findings.
    """
    holds = {playbook.id: playbook.hold_s for playbook in library}
    tallies: dict[str, Tally] = defaultdict(Tally)
    with (directory / "labels.tsv").open() as handle:
        cases = [
            Case.of(row) for row in csv.DictReader(handle, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]
    for case in cases:
        tally = tallies[case.kind]
        tally.total += 1
        data = (directory / case.file).read_bytes()
        found = findings(library, data, case.source, None)
        named = ", ".join(f"{item.failure} ({item.severity})" for item in found) or "nothing"
        wrong = [
            item.failure
            for item in found
            if item.severity in _LOUD and item.failure not in (*case.expected, *case.acceptable)
        ]
        tally.false += [f"{case.file}: {name}" for name in wrong]
        if case.expected == ("-",):
            hit = not any(item.severity in _LOUD for item in found)
        else:
            hit = bool(found) and found[0].failure in case.expected
        tally.hits += hit
        if not hit:
            tally.misses.append(
                f"{case.file} ({case.source}): expected {'|'.join(case.expected)}, found {named}"
            )
        if case.note.startswith("needs time"):
            hold = max((holds.get(name, 0.0) for name in case.expected), default=0.0)
            after = {item.failure for item in findings(library, data, case.source, hold)}
            before = {
                item.failure for item in findings(library, data, case.source, min(1.0, hold / 2))
            }
            if not after & set(case.expected):
                tally.misses.append(
                    f"{case.file}: {'|'.join(case.expected)} does not fire {hold:.0f} s "
                    "after the last line"
                )
            if before & set(case.expected):
                tally.misses.append(
                    f"{case.file}: {'|'.join(case.expected)} fires just after the last line"
                )
    return dict(tallies)


def main() -> int:
    """Score the labelled logs in the directory that the command line names, and print the result
    for each class. Return 1 if a target is missed. Return 0 if all are met, or if there are no
    logs.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", nargs="?", type=Path, default=DEFAULT)
    options = parser.parse_args()
    if not (options.directory / "labels.tsv").is_file():
        print(
            f"skipped: there is no labelled corpus at {options.directory}; name a directory "
            "with a labels.tsv."
        )
        return 0
    tallies = score(options.directory, list(Library(compile_all())))
    for kind, tally in sorted(tallies.items()):
        share = f"{100 * tally.hits / tally.total:.0f} %"
        print(
            f"{kind:16} {tally.hits:3} of {tally.total:3} ({share:>5}), {len(tally.false)} "
            "false findings"
        )
        for line in tally.misses:
            print(f"    missed  {line}")
        for line in tally.false:
            print(f"    false   {line}")
    missed = [
        kind
        for kind in REAL
        if kind in tallies and 100 * tallies[kind].hits < TARGET * tallies[kind].total
    ]
    loud = [
        kind
        for kind, tally in tallies.items()
        if any("expected -," in line or "just after" in line for line in tally.misses)
    ]
    return 1 if missed or loud else 0


if __name__ == "__main__":
    sys.exit(main())
