"""`demo` on a terminal and without one: a scenario opens the screen and is mended by the keys that
it names; the three pods print the failure too.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.console.cli.conftest import Console
from tests.console.tui.test_terminal import (
    Terminal,
    terminal,  # noqa: F401 (a fixture)
)
from tests.console.tui.test_terminal import (
    pytestmark as needs_tmux,
)

pytestmark = [needs_tmux, pytest.mark.long, pytest.mark.beside]

PROGRAM = [
    sys.executable,
    "-c",
    "import sys; from bs4_console.cli.main import main; sys.exit(main())",
]


@pytest.mark.timeout(400)
def test_a_scenario_opens_the_screen_and_a_person_mends_it(terminal: Terminal) -> None:  # noqa: F811
    words = [*PROGRAM, "demo", "--scenario", "step-desync"]
    terminal.type(f"{shlex.join(words)}; echo left with $?")
    terminal.press("Enter")
    terminal.until(lambda text: "A practice pod is being started" in text)
    terminal.until(lambda text: "critical" in text and "Trainer and orchestrator" in text, 240)
    terminal.type("i")
    terminal.until(lambda text: "EVIDENCE" in text)
    terminal.type("p")
    terminal.until(lambda text: "runs exactly this plan" in text)
    terminal.type("r")
    terminal.until(lambda text: "To confirm, type demo" in text)
    terminal.type("demo")
    terminal.press("Enter")
    # The incident is resolved a moment before the action is told as done.
    terminal.until(
        lambda text: (
            "RECOVERED. It was: Trainer and orch" in text and "steps since the restart" in text
        ),
        120,
    )
    terminal.type(":q\r")
    shown = terminal.until(lambda text: "left with 0" in text)
    assert "Traceback" not in shown


@pytest.mark.timeout(600)
def test_without_a_screen_the_failure_is_printed_too(tmp_path: Path) -> None:
    done = Console(tmp_path)("demo", "--headless")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == [
        "OK - h100-a",
        "OK - h100-b",
        "OK - h100-c",
    ]
    assert lines[3] == "h100-c: its vLLM engine was killed now."
    assert lines[4].startswith("CRITICAL - h100-c: ")
    assert "vllm-silent-death" in lines[4]
