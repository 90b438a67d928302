"""A dead agent is started again by the shim of a live run: three times an hour, never against a
person's will, never as part of the run.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bs4_common.files import write_json
from bs4_common.identity import Identity, stat_fields
from tests.agent.runs.practice import identity, kill, lines, prepare, read, shell, start_shim, until
from tests.support.processes import open_files

pytestmark = pytest.mark.usefixtures("no_process_left")

#: An agent that writes its record as the real one does, notes its start, and lives as long as it is
#: told.
AGENT = """
import json, os, sys, time
home, lasts = sys.argv[1:]
stat = open(f"/proc/{os.getpid()}/stat").read().rpartition(")")[2].split()
boot_id = open("/proc/sys/kernel/random/boot_id").read().strip()
me = {"pid": os.getpid(), "start_ticks": int(stat[19]), "boot_id": boot_id, "pidns": 0}
with open(f"{home}/starts", "a") as starts:
    home = os.environ.get("BS4_HOME")
    row = {"ppid": int(stat[1]), "sid": os.getsid(0), "home": home, **me}
    starts.write(json.dumps(row) + "\\n")
with open(f"{home}/agent.json.new", "w") as record:
    json.dump({"event": "started", "identity": me}, record)
os.rename(f"{home}/agent.json.new", f"{home}/agent.json")
time.sleep(float(lasts))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "agent.py").write_text(AGENT)
    return home


def dead_agent(home: Path, event: str = "started") -> None:
    ended = subprocess.Popen(["true"])
    who = Identity.of(ended.pid)
    assert who is not None
    ended.wait()
    (home / "agent.json").write_text(json.dumps({"event": event, "identity": who.as_dict()}))


def run(home: Path, name: str = "attempt", lasts: float = 60, **timing: float) -> Path:
    """An attempt whose shim looks for the agent ten times a second. An agent that it has started
    has a minute to write its record, unless `timing` says otherwise.
    """
    directory = prepare(
        home.parent / name,
        shell("exec sleep 60"),
        home=str(home),
        agent_restart=[sys.executable, str(home / "agent.py"), str(home), str(lasts)],
        agent_check_s=0.1,
        agent_restart_timing={"grace_s": 60.0, **timing},
    )
    assert start_shim(directory) == 0
    return directory


def starts(home: Path) -> list[dict[str, Any]]:
    return lines(home / "starts")


def test_a_dead_agent_is_started_and_is_no_descendant_of_the_run(home: Path) -> None:
    dead_agent(home)
    attempt = run(home)
    (started,) = until(lambda: starts(home))
    shim, launcher = identity(attempt, "shim"), identity(attempt, "launcher")
    shim_fields = stat_fields(shim.pid)
    assert shim_fields is not None
    assert started["ppid"] == int(shim_fields[1]), "a child of the shim's own parent"
    assert started["sid"] == started["pid"]
    assert started["home"] == str(home)
    until(lambda: (read(attempt / "descendants.json") or {"members": []})["members"])
    # From now on only that it lives keeps another from being started.
    until(lambda: (read(home / "agent.json") or {})["identity"]["pid"] == started["pid"])
    spec = read(attempt / "spec.json") or {}
    write_json(attempt / "spec.json", {**spec, "agent_restart_timing": {"grace_s": 0.0}})
    time.sleep(1.2)  # time in which the shim looks a dozen times

    def members() -> set[int]:
        told = (read(attempt / "descendants.json") or {"members": []})["members"]
        return {member["identity"]["pid"] for member in told}

    until(lambda: members() == {launcher.pid})
    assert len(starts(home)) == 1, "it lives, so there is nothing to do"
    until(lambda: open_files(started["pid"]) == {"/dev/null", str(home / "agent.log")})
    status = Path(f"/proc/{started['pid']}/status").read_text()
    assert "SigBlk:\t0000000000000000" in status


@pytest.mark.long
def test_it_is_started_at_most_three_times(home: Path) -> None:
    """An agent that dies at once. The window is shortened, so that after it there is a fourth
    start.
    """
    dead_agent(home)
    attempt = run(home, lasts=0, window_s=8.0, grace_s=0.3)
    until(lambda: "the agent died 3 times within 8 s" in (attempt / "shim.log").read_text())
    until(lambda: len(starts(home)) >= 3)
    until(lambda: len(starts(home)) >= 4)
    begun = [entry[0] for entry in json.loads((home / "agent-restarts.json").read_text())]
    assert len(begun) <= 3


def test_an_agent_that_was_stopped_on_purpose_stays_stopped(home: Path) -> None:
    dead_agent(home, "stopped")
    attempt = run(home)
    until(lambda: read(attempt / "descendants.json"))
    time.sleep(0.8)
    assert starts(home) == []
    assert "asking for a new one" not in (attempt / "shim.log").read_text()


def test_the_newest_agents_own_command_is_preferred(home: Path) -> None:
    """The run may be older than the agent: its shim knows the command of a bundle that has been
    replaced.
    """
    dead_agent(home)
    record = json.loads((home / "agent.json").read_text())
    command = [sys.executable, str(home / "agent.py"), str(home), "60"]
    (home / "agent.json").write_text(json.dumps({**record, "restart": command}))
    directory = prepare(
        home.parent / "old",
        shell("exec sleep 60"),
        home=str(home),
        agent_restart=["/no/such/bundle"],
        agent_check_s=0.1,
    )
    assert start_shim(directory) == 0
    until(lambda: starts(home))


def test_nothing_is_started_where_no_agent_ever_was(home: Path) -> None:
    attempt = run(home)
    until(lambda: read(attempt / "descendants.json"))
    time.sleep(0.8)
    assert starts(home) == []


def test_the_shims_of_two_runs_start_one_agent(home: Path) -> None:
    dead_agent(home)
    for name in ("one", "two"):
        run(home, name)
    until(lambda: starts(home))
    time.sleep(1.5)
    assert len(starts(home)) == 1


def test_the_agent_outlives_the_run_whose_shim_started_it(home: Path) -> None:
    dead_agent(home)
    attempt = run(home)
    (started,) = until(lambda: starts(home))
    kill(identity(attempt, "launcher"))
    until(lambda: read(attempt / "end.json"))
    until(lambda: not identity(attempt, "shim").alive())
    agent = Identity.of(started["pid"])
    assert agent is not None
    assert agent.alive()
    agent.send(signal.SIGTERM)
