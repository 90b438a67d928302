"""The texts of boot hooks do what they are for when a shell (and systemd, where it is) reads
them.
"""

from __future__ import annotations

import configparser
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from bs4_console.pods import boot_hook
from bs4_console.pods.boot_hook import Seen
from bs4_console.pods.port import Completed


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    """A pod whose interpreter writes down how it was called, in a home with a space in its name."""
    home = tmp_path / "a home" / ".bs4"
    home.mkdir(parents=True)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$BS4_HOME|$*" >>"{tmp_path}/calls"\n')
    python.chmod(0o755)
    return Seen(str(home), str(python), [], {"boot_id": "b"}, None)


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []


def test_vast_and_cron_start_the_agent_of_this_home(seen: Seen, tmp_path: Path) -> None:
    for line in (
        boot_hook.text("vast", seen),
        boot_hook.text("cron", seen).removeprefix("@reboot "),
    ):
        assert subprocess.run(["sh", "-c", line], check=False).returncode == 0
    script = f"{seen.home}/current/bs4_agent/bootstrap.py"
    assert calls(tmp_path) == [
        f"{seen.home}|-IS {script} boot --via {name}" for name in ("vast", "cron")
    ]


def test_runpods_start_command_passes_the_stop_on_to_the_agent_first(
    seen: Seen, tmp_path: Path
) -> None:
    start = tmp_path / "start.sh"
    start.write_text(
        f"#!/bin/sh\ntrap 'echo ended >>\"{tmp_path}/calls\"; exit 0' TERM\necho up "
        f'>>"{tmp_path}/calls"\nwhile :; do sleep 0.1; done\n'
    )
    start.chmod(0o755)
    line = boot_hook.text("runpod", seen).replace("/start.sh", str(start))
    container = subprocess.Popen(["sh", "-c", f"exec {line}"])
    deadline = time.monotonic() + 60
    while len(calls(tmp_path)) < 2:
        assert time.monotonic() < deadline, calls(tmp_path)
        time.sleep(0.02)
    os.kill(container.pid, signal.SIGTERM)
    container.wait(60)
    told = calls(tmp_path)
    assert told[0].endswith("boot --via runpod")
    assert told[1] == "up"
    assert told[2].endswith("boot --stopping"), "the agent hears it before anything else ends"
    assert told[3] == "ended"


def test_a_stop_that_runpod_sends_while_the_agent_is_started_reaches_the_agent(
    seen: Seen, tmp_path: Path
) -> None:
    start = tmp_path / "start.sh"
    start.write_text(f'#!/bin/sh\necho up >>"{tmp_path}/calls"\n')
    start.chmod(0o755)
    with Path(seen.python).open("a") as script:
        script.write('case "$*" in *runpod) kill -TERM $PPID;; esac\n')
    line = boot_hook.text("runpod", seen).replace("/start.sh", str(start))
    container = subprocess.Popen(["sh", "-c", f"exec {line}"])
    container.wait(60)
    assert [called.split()[-1] for called in calls(tmp_path)] == ["runpod", "--stopping"]


def test_the_unit_ends_nothing_of_the_runs(seen: Seen, tmp_path: Path) -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(boot_hook.unit(seen))
    service = unit["Service"]
    assert (service["Type"], service["RemainAfterExit"], service["KillMode"]) == (
        "oneshot",
        "yes",
        "process",
    )
    assert service["ExecStop"].endswith("boot --stopping")
    if (checker := shutil.which("systemd-analyze")) is not None:
        path = tmp_path / boot_hook.UNIT
        path.write_text(boot_hook.unit(seen))
        done = subprocess.run(
            [checker, "verify", "--user", str(path)], capture_output=True, check=False
        )
        assert b"Unknown" not in done.stderr


@pytest.mark.parametrize(
    ("hooks", "facts", "words"),
    [
        ([], {}, "no cron, no systemd"),
        ([], {"runpod": "yes"}, "--print runpod"),
        (["cron"], {}, "No cron daemon runs"),
        (["systemd"], {}, "loginctl enable-linger"),
        (["runpod"], {"mount": "/"}, "only /workspace stays"),
    ],
)
def test_a_hook_that_would_not_work_is_not_praised(
    seen: Seen, hooks: list[str], facts: dict[str, str], words: str
) -> None:
    told = Seen(seen.home, seen.python, hooks, facts, None)
    assert words in " ".join(boot_hook.verdict(told))


@pytest.mark.parametrize(
    ("boot", "record", "last", "python"),
    [
        ('{"b": "b", "via": "cron"}', '{"restart": ["py"]}', {"b": "b", "via": "cron"}, "py"),
        ('{"b": 7}', '{"restart": "py"}', None, "python3"),
        ("[" * 5000, '{"restart": []}', None, "python3"),
    ],
)
async def test_what_the_pod_says_of_its_last_start_is_checked(
    boot: str, record: str, last: object, python: str
) -> None:
    said = f"home=/h\nagent=yes\nboot_id=b\nboot={boot}\nrecord={record}\n"

    class Link:
        async def run(self, argv: list[str]) -> Completed:
            return Completed(0, said.encode(), b"")

    found = await boot_hook.probe(Link(), "pod")  # type: ignore[arg-type]
    assert (found.last, found.python, found.worked) == (last, python, last is not None)
