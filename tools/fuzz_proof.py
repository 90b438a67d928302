"""Prove that the fuzzer finds what it is there for: `python tools/fuzz_proof.py [NAME ...]`.

Defects that once were in our code are put back into a copy of the tree, one at a time, and the
target of each is fuzzed from its healthy inputs only. The exit code is 1 if a defect is not found
within LIMIT_S, and if the place where a defect belongs has changed, because then this file must
change too. What the corpus of the tests holds is not used.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import fuzz  # noqa: E402

#: Seconds in which a defect must be found.
LIMIT_S = 180.0
COPIED = ("agents", "console", "configs", "playbooks", "tests/fuzz", "tests/__init__.py")
SEED = 1

_RULES = "console/bs4_console/pods/gate/rules.py"
_MIRROR = "console/bs4_console/pods/mirror.py"
_REPORTS = "console/bs4_console/pods/reports.py"
_JSON = "agents/bs4_common/foreign_json.py"


class PlaceMoved(Exception):
    """Raised if a defect (an old bug that is put back into a copy of the tree) has no place there,
    because the text that it replaces is not in its file exactly once. Also raised if Python would
    not import our code from the copy.
    """


@dataclass(frozen=True)
class Change:
    """A change of the code that puts an old defect back. In the file `file` (its path relative to
    the root of the tree), the text `now`, which must be there exactly once, is replaced by
    `before`, the text with the defect.
    """

    file: str
    now: str
    before: str


@dataclass(frozen=True)
class Defect:
    """A defect that this project once had, to be put back into a copy of the sources. `changes` are
    the replacements in the source files that bring it back. `target` names the fuzz target that
    must find it.
    """

    name: str
    target: str
    changes: tuple[Change, ...]


DEFECTS = (
    Defect(
        "1-odd-number",
        "lines",
        (
            Change(
                _JSON,
                "        return value\n    return str(value)\n",
                "        return value\n    return value\n",
            ),
        ),
    ),
    Defect(
        "2-nested-line",
        "lines",
        (Change(_JSON, "    check_nesting(text)\n    try:", "    try:"),),
    ),
    Defect(
        "4-endless-steps",
        "records",
        (
            Change(
                "agents/bs4_common/ledger.py",
                "        if not 0 <= index < ACTION_STEPS_MOST:",
                "        if index < 0:",
            ),
            Change(
                _RULES,
                "    return whole(value) and 0 <= value < ACTION_STEP_MOST",
                "    return whole(value) and 0 <= value",
            ),
        ),
    ),
    Defect(
        "5-nested-log-line",
        "escapes",
        (
            Change(
                "console/bs4_console/logs/text.py",
                "        entry = loads(line)\n    except ForeignJsonError:",
                "        entry = __import__('json').loads(line)\n    except ValueError:",
            ),
        ),
    ),
    Defect(
        "6-any-time",
        "records",
        (
            Change(
                _RULES,
                "    return number(value) and 0 <= value <= TIME_MOST",
                "    return True",
            ),
        ),
    ),
    Defect(
        "6-any-step",
        "records",
        (
            Change(
                _RULES,
                "    return whole(value) and abs(value) <= STEP_MOST",
                "    return True",
            ),
        ),
    ),
    Defect(
        "6-any-field",
        "records",
        (Change(_RULES, "    if not passes(value):\n", "    if passes is None:\n"),),
    ),
    Defect(
        "8-sparse-file",
        "mirrors",
        (
            Change(
                _MIRROR,
                'if not stream.startswith("log/") and end > ceilings.RECORD_FILE_BYTES:',
                "if end < 0:",
            ),
        ),
    ),
    Defect(
        "8-endless-gaps",
        "mirrors",
        (Change(_MIRROR, 'if not self._has_room("gaps", len(entry)):', "if not entry:"),),
    ),
    Defect(
        "8-no-ceiling",
        "mirrors",
        (
            Change(
                _MIRROR,
                "if not self._has_room(_kind(stream), max(0, end - length)):",
                "if end < 0:",
            ),
        ),
    ),
    Defect(
        "8-header-of-gigabytes",
        "reports",
        (
            Change(
                _REPORTS,
                "if size is None or not 0 <= size <= ceilings.REPORT_READ_BYTES:",
                "if size is None or size < 0:",
            ),
        ),
    ),
    Defect(
        "8-member-of-gigabytes",
        "reports",
        (
            Change(
                _REPORTS,
                "        if position > ceilings.REPORT_UNPACKED_BYTES:",
                "        if position < 0:",
            ),
        ),
    ),
)


def copied(target: Path) -> None:
    """Copy the folders and files of the project that the fuzzer needs into the directory `target`,
    which must be empty. The fuzzer's saved inputs (corpus) are left out.
    """
    for name in COPIED:
        source, place = ROOT / name, target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__", "corpus"))
        else:
            shutil.copyfile(source, place)


def put_back(defect: Defect, root: Path) -> None:
    """Put a mistake that the code once had back into the copy of the source tree at `root`. Raises
    PlaceMoved if a text that the defect replaces is not in its file exactly once.
    """
    for change in defect.changes:
        path = root / change.file
        text = path.read_text() if path.is_file() else ""
        if text.count(change.now) != 1:
            raise PlaceMoved(
                f"{defect.name}: {change.file} does not hold {change.now!r} exactly once; "
                "bring tools/fuzz_proof.py up to date."
            )
        path.write_text(text.replace(change.now, change.before))


def environment(root: Path) -> Mapping[str, str]:
    """Return this process's environment variables, changed so that Python imports our code from
    the source tree at `root`.
    """
    paths = os.pathsep.join(str(root / name) for name in ("agents", "console"))
    return {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}


def check_place(root: Path) -> None:
    """Raise PlaceMoved if Python, with `environment(root)`, would import our code from another
    place than `root`, a copy of the source tree.
    """
    script = "import bs4_common, bs4_console; print(bs4_common.__file__, bs4_console.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=root,
        env=environment(root),
        capture_output=True,
        text=True,
        check=True,
    )
    for path in done.stdout.split():
        if not Path(path).is_relative_to(root):
            raise PlaceMoved(f"Python imports {path}, which is not in the copy at {root}.")


def found_after(defect: Defect, limit_s: float = LIMIT_S) -> float | None:
    """Put a defect into a copy of the source tree, fuzz it, and return the seconds until the fuzzer
    has found the defect. Return None if it has not found it within `limit_s` seconds. Raises
    PlaceMoved if the defect does not fit the code any more, or if Python would not import the copy.
    Raises FuzzerFailed if the fuzzer itself fails.
    """
    with tempfile.TemporaryDirectory(prefix="bs4-proof-") as directory:
        root = Path(directory) / "tree"
        copied(root)
        put_back(defect, root)
        check_place(root)
        started = time.monotonic()
        outcome = fuzz.fuzz(
            defect.target,
            limit_s,
            Path(directory) / "work",
            seed=SEED,
            root=root,
            environment=environment(root),
        )
        if not outcome.found:
            return None
        return time.monotonic() - started


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz for the known defects that `arguments` names, or for all if it is empty, and print for
    each in how many seconds it was found. None takes the words of the command line. Return the exit
    code: 0, 1 if a defect was not found, or 2 if no defect has one of the names. Raises PlaceMoved
    if the code has changed at the place of a defect.
    """
    wanted = sys.argv[1:] if arguments is None else list(arguments)
    names = [defect.name for defect in DEFECTS]
    if unknown := sorted(set(wanted).difference(names)):
        print(f"There is no defect {unknown[0]}; choose from {', '.join(names)}.", file=sys.stderr)
        return 2
    missed = []
    for defect in DEFECTS:
        if wanted and defect.name not in wanted:
            continue
        after = found_after(defect)
        if after is None:
            missed.append(defect.name)
            print(f"{defect.name:24} {defect.target:10} NOT FOUND in {LIMIT_S:.0f} s", flush=True)
        else:
            print(f"{defect.name:24} {defect.target:10} found after {after:.0f} s", flush=True)
    if missed:
        print(f"Not found: {', '.join(missed)}. The fuzzer has become blind to them.")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
