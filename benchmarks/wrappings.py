"""What `diagnose` names in a labelled corpus behind each of sixteen wrappings and four more,
against what it names bare.

    python -m benchmarks.wrappings [DIRECTORY] [--json FILE]

DIRECTORY holds labels.tsv and the logs, as for tools/score.py. A log counts as named if its first
finding is an expected one. Seven wrappings are those that once blinded the rules, five and four
were invented; the last four without a look at the code that takes them off. Lost are logs that are
named bare and not wrapped. The table is written to FILE, or benchmarks/results/wrappings.json.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.score import DEFAULT, Case

from bs4_common.failures import offline
from bs4_common.failures.compiled import Library, Playbook
from bs4_common.failures.engine import Engine
from bs4_common.failures.matcher import Rules
from bs4_console.failures.playbooks import compile_all

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "wrappings.json"
#: Percent of the logs named bare that a wrapping may lose.
LIMIT = 2.0
Wrap = Callable[[int, str], str]


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _doubled(text: str) -> str:
    return text.replace('"', '""')


#: By name: what each line (its number from 0, its text) becomes.
LISTED: dict[str, Wrap] = {
    "container_name": lambda i, t: f"vllm-server  | {t}",
    "bracketed time": lambda i, t: f"[2026-03-11 17:47:{i % 60:02}] {t}",
    "bracketed time with zone": lambda i, t: f"[2024-09-05T00:38:{i % 60:02}Z] {t}",
    "seven digits": lambda i, t: f"2026-03-11T17:47:{i % 60:02}.1234567Z {t}",
    "kubectl --prefix": lambda i, t: f"[pod/trainer-0/main] {t}",
    "mpirun": lambda i, t: f"[1,{i % 4}]<stderr>:{t}",
    "terminal frame": lambda i, t: f"│ {t.ljust(120)} │",
}
INVENTED: dict[str, Wrap] = {
    "Kubernetes JSON": lambda i, t: (
        f'{{"log":{_json(t + chr(10))},"stream":"stderr","time":"2026-03-11T17:47:{i % 60:02}Z"}}'
    ),
    "Loki JSON": lambda i, t: (
        f'{{"labels":{{"pod":"t-0"}},"line":{_json(t)},"timestamp":"2026-03-11T17:47:54Z"}}'
    ),
    "journal JSON": lambda i, t: (
        f'{{"_PID":"7{i}","PRIORITY":"6","_HOSTNAME":"n3","MESSAGE":{_json(t)}}}'
    ),
    "W&B output.log": lambda i, t: f"2026-03-11 17:47:{i % 60:02} {t}",
    "scheduler": lambda i, t: f"{i:06d} node{i % 8:03}/gpu{i % 4} (stderr) >> {t}",
}
BLIND: dict[str, Wrap] = {
    "logfmt": lambda i, t: (
        f"ts=2026-03-11T17:47:{i % 60:02}.{i % 1000:03}Z caller=tail.go:{77 + i % 3} "
        f"stream=stderr msg={_json(t)}"
    ),
    "spreadsheet": lambda i, t: (
        f'"2026-03-11 17:47:{i % 60:02}","pod-{i % 3}","stderr","{_doubled(t)}"'
    ),
    "quoted and numbered": lambda i, t: f"> {i + 1}: {t}",
    "guillemets": lambda i, t: f"«node-{i % 2} ⟂ rank {i % 11}» {t} ‹{i:#x}›",
}
#: Those that were never lost.
HELD: dict[str, Wrap] = {
    "compose": lambda i, t: f"service-1  | {t}",
    "docker logs -t": lambda i, t: f"2026-03-11T17:47:{i % 60:02}.123456789Z {t}",
    "srun --label": lambda i, t: f"{i % 4}: {t}",
    "CRLF": lambda i, t: t + "\r",
}
WRAPPINGS = {**LISTED, **INVENTED, **BLIND, **HELD}


def wrapped(data: bytes, wrap: Wrap) -> bytes:
    """Return a log with every line wrapped. Bytes that are not UTF-8 are replaced."""
    lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n")
    return "".join(f"{wrap(i, text)}\n" for i, text in enumerate(lines)).encode()


def named(library: list[Playbook], rules: Rules, case: Case, data: bytes) -> bool:
    """Return True if the first finding is an expected one, or there is none in a healthy log."""
    engine = Engine(library, live=False, rules=rules)
    facts = offline.as_facts(
        [offline.log_facts(io.BytesIO(data), "-", case.source, "", engine)], engine
    )
    found = [
        t.finding
        for t in engine.evaluate(facts, complete=True)
        if t.event == "opened" and t.finding.severity != "info"
    ]
    if case.expected == ("-",):
        return not found
    return bool(found) and found[0].failure in case.expected


def table(
    library: list[Playbook], cases: Sequence[tuple[Case, bytes]]
) -> dict[str, dict[str, object]]:
    """Return a row for each wrapping."""
    rules = Rules(library)
    failing = [(case, data) for case, data in cases if case.expected != ("-",)]
    healthy = [(case, data) for case, data in cases if case.expected == ("-",)]
    bare = [(case, data) for case, data in failing if named(library, rules, case, data)]
    rows: dict[str, dict[str, object]] = {}
    for name, wrap in WRAPPINGS.items():
        lost = [c.file for c, data in bare if not named(library, rules, c, wrapped(data, wrap))]
        false = [c.file for c, data in healthy if not named(library, rules, c, wrapped(data, wrap))]
        rows[name] = {
            "named_bare": len(bare),
            "named_wrapped": len(bare) - len(lost),
            "lost_percent": round(100 * len(lost) / max(1, len(bare)), 1),
            "healthy": len(healthy),
            "false": false,
            "lost": lost,
        }
        print(
            f"{name:26} {len(bare) - len(lost):3} of {len(bare)}, false {len(false)}  {lost[:9]}",
            flush=True,
        )
    return rows


def main() -> int:
    """Print and write the table. Return 1 if a wrapping loses too much or shows what is false."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    directory: Path = options.directory
    if not (directory / "labels.tsv").is_file():
        print(f"skipped: there is no labelled corpus at {directory}.")
        return 0
    with (directory / "labels.tsv").open() as handle:
        rows = list(csv.DictReader(handle, delimiter="\t", quoting=csv.QUOTE_NONE))
    cases = [(case := Case.of(row), (directory / case.file).read_bytes()) for row in rows]
    result = table(list(Library(compile_all())), cases)
    text = json.dumps({"schema": "bs4.wrappings/1", "rows": result}, indent=2)
    options.json.write_text(text + "\n")
    return int(any(float(str(r["lost_percent"])) > LIMIT or r["false"] for r in result.values()))


if __name__ == "__main__":
    sys.exit(main())
