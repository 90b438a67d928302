"""Write the pages and the list that are made from the code and the playbooks.

Usage:
    python tools/pages.py            write those that are out of date
    python tools/pages.py --check    exit with 1 and name those that are out of date

`playbooks/released.txt` has a line for each known failure: family, id and role. New ones are
added; none is ever taken out by this tool, so that no failure is lost by accident.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from bs4_console.cli import config_rules, failures, reference
from bs4_console.failures.playbooks import lint
from bs4_console.tui.commands import COMMANDS
from bs4_console.tui.commands import page as commands

ROOT = Path(__file__).resolve().parents[1]


def main(argv: list[str] | None = None) -> int:
    """Write those generated pages of this repository that are out of date, and return 0. With
    `--check`, write nothing and print which pages are out of date; then return 1 if there are any,
    else 0. `argv` are the words of the command line after the program's name (None: those of this
    process).
    """
    parser = argparse.ArgumentParser(description="Write the generated pages.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit with 1 instead")
    options = parser.parse_args(argv)
    stale = outdated(ROOT)
    if options.check:
        if stale:
            print(f"Out of date: {', '.join(stale)}. Run `make format`, it writes them.")
        return 1 if stale else 0
    for name, text in stale.items():
        (ROOT / name).write_text(text)
        print(f"{name} written.")
    return 0


def outdated(root: Path) -> dict[str, str]:
    """Return {path below `root`: its new text} for each generated file that is missing or does not
    have the text that `made` returns for it.
    """
    stale = {}
    for name, text in made(root).items():
        path = root / name
        if not path.is_file() or path.read_text() != text:
            stale[name] = text
    return stale


def made(root: Path) -> Mapping[str, str]:
    """Return the text of every generated file by its path below `root`. A playbook that is not
    valid yet is left out.
    """
    return {
        "docs/failures.md": failures.markdown(root / "playbooks"),
        "docs/cli.md": reference.markdown(),
        "docs/configs.md": config_rules.markdown(),
        "docs/commands.md": commands.markdown(COMMANDS),
        "playbooks/released.txt": released(root / "playbooks"),
    }


def released(playbooks: Path) -> str:
    """Return the new text of `released.txt` in the directory `playbooks`. That file has a line
    (family, id and role) for each known failure that was ever released. The text has the old lines
    and one more for each valid playbook that the file does not have yet, sorted.
    """
    path = playbooks / "released.txt"
    lines = set(path.read_text().splitlines()) if path.is_file() else set()
    known = {line.split()[1] for line in lines}
    valid, _ = lint(playbooks)
    for playbook in valid:
        if playbook["id"] not in known:
            lines.add(f"{playbook['family']} {playbook['id']} {playbook['role']}")
    return "\n".join(sorted(lines)) + "\n"


if __name__ == "__main__":
    sys.exit(main())
