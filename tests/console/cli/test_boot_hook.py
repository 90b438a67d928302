"""pods boot-hook on a real pod: what is there, what each platform needs, and the crontab with and
without our line.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.cli.conftest import Practice

pytestmark = [pytest.mark.long, pytest.mark.beside]

#: A crontab program as cron's own: -l lists (and fails without one), - takes a new one from
#: standard input.
CRONTAB = (
    '#!/bin/sh\nT="$HOME/.crontab"\ncase $1 in -l) [ -f "$T" ] && cat "$T" ;; -) cat >"$T.new" '
    '&& mv "$T.new" "$T" ;; esac\n'
)


@pytest.fixture
def crontab(trained: Practice) -> Iterator[Path]:
    program = trained.pod.home / ".local" / "bin" / "crontab"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(CRONTAB)
    program.chmod(0o755)
    table = trained.pod.home / ".crontab"
    table.write_text("5 4 * * * somebody's own\n")
    yield table
    program.unlink()
    table.unlink(missing_ok=True)


def test_without_a_hook_it_says_so_and_what_would_become_of_the_run(trained: Practice) -> None:
    found = trained("pods", "boot-hook", trained.pod.name, "--run", "demo")
    assert found.code == 1, found
    assert "There is no boot hook" in found.out
    assert "is in mode observe, so a restart opens an incident and nothing is started" in found.out
    stray = trained("pods", "boot-hook", trained.pod.name, "--run", "nobody")
    assert (stray.code, "no run named nobody" in stray.sentence) == (2, True)
    wrong = trained("pods", "boot-hook", trained.pod.name, "--mode", "auto")
    assert wrong.code == 2


def test_the_mode_is_kept_on_the_pod(trained: Practice) -> None:
    words = ["pods", "boot-hook", trained.pod.name, "--run", "demo"]
    assert "is in mode auto" in trained(*words, "--mode", "auto").out
    assert "is in mode observe" in trained(*words, "--mode", "observe").out
    refused = trained("--read-only", *words, "--mode", "auto")
    assert refused.code == 4, refused


def test_the_printed_line_starts_the_agent(trained: Practice) -> None:
    line = trained("pods", "boot-hook", trained.pod.name, "--print", "vast", "--json").json["text"]
    done = trained.do(trained.pod.run(["sh", "-c", line]))
    assert done.exit_status == 0, done
    told = trained("pods", "boot-hook", trained.pod.name, "--json").json
    assert (told["worked"], told["last"]["via"]) == (True, "vast")
    assert (trained.pod.home / ".bs4" / "boot.json").stat().st_mode & 0o077 == 0
    assert trained("check", "--pod", trained.pod.name).code in (0, 1), "the agent that ran goes on"


def test_the_crontab_gets_one_line_and_loses_only_that(trained: Practice, crontab: Path) -> None:
    words = ["pods", "boot-hook", trained.pod.name]
    for _ in range(2):
        put = trained(*words, "--install", "cron")
        assert put.code == 0, put
    lines = crontab.read_text().splitlines()
    assert lines[0] == "5 4 * * * somebody's own"
    assert len(lines) == 2
    assert lines[1].startswith("@reboot BS4_HOME=")
    assert lines[1] in trained(*words, "--print", "cron").out
    gone = trained(*words, "--remove")
    assert gone.code == 0, gone
    assert crontab.read_text() == "5 4 * * * somebody's own\n"


def test_a_pod_without_an_agent_has_nothing_to_start(trained: Practice) -> None:
    home = trained.pod.home / ".bs4"
    current, aside = home / "current", home / "aside"
    shutil.move(current, aside)
    try:
        found = trained("pods", "boot-hook", trained.pod.name)
    finally:
        shutil.move(aside, current)
    assert (found.code, "bs4-console deploy" in found.sentence) == (1, True)
