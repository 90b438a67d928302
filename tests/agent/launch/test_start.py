"""Launching: once per key, whoever dies; refused when it would do harm; explained when it cannot
be.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bs4_agent.launch.start import launch
from bs4_agent.runs.records import attempt_numbers
from bs4_common.errors import BadRequest, LaunchFailed, RunExists
from bs4_common.identity import Identity, stat_fields
from bs4_common.trainers.settings import BadConfig
from tests.agent.runs.practice import AGENTS, Pod, ended, identity, kill, read, tree, until


def test_a_launch_starts_the_trainers_command_and_tells_the_journal(pod: Pod) -> None:
    pod.trainer.program = 'echo "out=$1 resume=$2 extra=$EXTRA cwd=$PWD"; exec sleep 60'
    runs = pod.runs()
    attempt = launch(runs, pod.spec(resume=20, env={"EXTRA": "yes"}), key="k1")
    assert (attempt.number, attempt.state, attempt.resume, attempt.key) == (1, "running", 20, "k1")
    assert attempt.launcher is not None
    assert attempt.launcher.alive()
    until(lambda: (pod.attempt() / "launcher.log").read_text())
    work = pod.root / "work"
    assert (
        pod.attempt() / "launcher.log"
    ).read_text() == f"out={work}/alpha resume=20 extra=yes cwd={work}\n"
    assert pod.journal.events() == [("alpha", None, "registered"), ("alpha", 1, "attempt-started")]
    started = list(pod.journal.records())[1]
    assert started["identity"] == attempt.launcher.as_dict()
    assert started["argv"][:2] == ["/bin/sh", "-c"]
    assert runs.get("alpha").live


def test_a_launch_gets_what_a_set_up_has_ordered_for_its_directory(pod: Pod) -> None:
    pod.trainer.program = 'echo "extra=$EXTRA other=$OTHER"; exec sleep 60'
    for place, text in (
        (pod.spec().cwd, "EXTRA=ordered\nOTHER=too=2\n"),
        (pod.root / "elsewhere", "EXTRA=wrong\n"),
    ):
        pod.home.variables(place).parent.mkdir(exist_ok=True)
        pod.home.variables(place).write_text(text)
    launch(pod.runs(), pod.spec(env={"EXTRA": "asked"}), key="k1")
    until(lambda: (pod.attempt() / "launcher.log").read_text())
    assert (pod.attempt() / "launcher.log").read_text() == "extra=asked other=too=2\n"


def test_the_run_does_not_depend_on_who_launched_it(pod: Pod) -> None:
    runs = pod.runs()
    attempt = launch(runs, pod.spec(), key="k1")
    assert attempt.shim is not None
    assert attempt.launcher is not None
    fields = stat_fields(attempt.shim.pid)
    assert fields is not None
    assert int(fields[1]) != os.getpid()
    assert os.getsid(attempt.shim.pid) == attempt.shim.pid
    assert os.getsid(attempt.launcher.pid) == attempt.launcher.pid


def test_the_same_key_gives_the_same_attempt(pod: Pod) -> None:
    first = launch(pod.runs(), pod.spec(), key="k1")
    assert launch(pod.runs(), pod.spec(), key="k1").launcher == first.launcher
    assert attempt_numbers(pod.home.run("alpha")) == [1]
    assert pod.runs().launched("alpha", "k1") is not None
    assert pod.runs().launched("alpha", "k2") is None


@pytest.mark.parametrize("moment", ["before the shim", "while the shim starts"])
def test_a_launch_broken_off_by_kill_9_is_finished_and_not_doubled(pod: Pod, moment: str) -> None:
    """The agent is a process that dies at the given moment; the one after it launches with the same
    key.
    """
    started = (
        "subprocess.Popen(argv, stdin=k['stdin'], stdout=k['stdout'], stderr=k['stderr'], "
        "cwd=k['cwd'])"
    )
    hook = {
        "before the shim": "launching.start_shim = lambda directory: os.kill(os.getpid(), 9)",
        "while the shim starts": (
            f"launching.subprocess.run = lambda argv, **k: ({started}, os.kill(os.getpid(), 9))"
        ),
    }[moment]
    agent = (
        "import os, subprocess, sys; sys.path[:0] = sys.argv[1:3]\n"
        "from pathlib import Path\n"
        "from bs4_agent.launch import start as launching\n"
        "from tests.agent.runs.practice import Pod, PracticeTrainer\n"
        "pod = Pod(Path(sys.argv[3]), PracticeTrainer('echo started; exec sleep 60'))\n"
        f"{hook}\n"
        "launching.launch(pod.runs(), pod.spec(), key='k1')\n"
    )
    died = subprocess.run(
        [sys.executable, "-c", agent, str(AGENTS), str(AGENTS.parent), str(pod.root)],
        check=False,
        timeout=30,
    )
    assert died.returncode == -signal.SIGKILL
    pod.trainer.program = "echo started; exec sleep 60"
    attempt = launch(pod.runs(), pod.spec(), key="k1")
    assert attempt.launcher is not None
    assert attempt.launcher.alive()
    assert attempt_numbers(pod.home.run("alpha")) == [1]
    until(
        lambda: (
            (pod.attempt() / "launcher.log").exists()
            and (pod.attempt() / "launcher.log").read_text()
        )
    )
    assert (pod.attempt() / "launcher.log").read_text() == "started\n"
    assert pod.journal.events() == [("alpha", None, "registered"), ("alpha", 1, "attempt-started")]


def test_a_live_run_is_not_started_again(pod: Pod) -> None:
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    with pytest.raises(RunExists, match=r"alpha runs already \(attempt 1\); stop it first"):
        launch(runs, pod.spec(), key="k2")


def test_two_runs_do_not_share_a_directory(pod: Pod) -> None:
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    (pod.root / "work/link").symlink_to(pod.root / "work/alpha")
    with pytest.raises(RunExists, match="alpha is running and writes to"):
        launch(runs, pod.spec("beta", output_dir=pod.root / "work/link"), key="k2")
    assert attempt_numbers(pod.home.run("beta")) == []
    assert launch(runs, pod.spec("beta"), key="k3").state == "running"


def test_what_is_left_of_an_attempt_stands_in_the_way_unless_it_is_allowed(pod: Pod) -> None:
    pod.trainer.program = tree(lasts=0.3, code=1, children={"engine": {}})
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    ended(runs)
    (left,) = runs.leftovers("alpha")
    with pytest.raises(
        RunExists, match=rf"there still live .*\(pid {left.identity.pid}\); stop alpha"
    ):
        launch(runs, pod.spec(), key="k2")
    assert launch(runs, pod.spec(), key="k3", leftovers_ok=True).number == 2


def test_a_relaunch_is_the_next_attempt_and_saves_the_logs_first(pod: Pod) -> None:
    pod.trainer.program = (
        'rm -rf "$1/logs"; mkdir -p "$1/logs"; echo "log of $2" > "$1/logs/trainer.stdout"'
    )
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    ended(runs)
    launch(runs, pod.spec(resume=3), key="k2")
    ended(runs, number=2)
    assert (pod.root / "work/alpha/logs/trainer.stdout").read_text() == "log of 3\n"
    assert (
        pod.root / "work/.bs4/alpha/logs/attempt-1/logs/trainer.stdout"
    ).read_text() == "log of None\n"
    assert [event for event in pod.journal.events() if event[1]] == [
        ("alpha", 1, "attempt-started"),
        ("alpha", 1, "attempt-ended"),
        ("alpha", 2, "attempt-started"),
        ("alpha", 2, "attempt-ended"),
    ]


def test_each_attempt_tells_its_own_config_and_its_end(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = {"config.toml": 10, "other.toml": 300}
    monkeypatch.setattr(type(pod.trainer), "max_steps", lambda self, spec: steps[spec.config.name])
    pod.trainer.program = "exit 0"
    runs = pod.runs()
    (pod.root / "work/other.toml").write_text("max_steps = 300\n")
    first = pod.spec()
    launch(runs, first, key="k1")
    ended(runs)
    launch(runs, replace(first, config=Path("other.toml")), key="k2")
    ended(runs, number=2)
    told = []
    for record in pod.journal.records():
        if record["event"] == "attempt-started":
            told.append((Path(record["config"]).name, record["max_steps"]))
    assert told == [("config.toml", 10), ("other.toml", 300)]


def test_a_missing_program_is_named_and_can_be_launched_again_with_the_same_key(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = pod.runs()
    monkeypatch.setattr(
        type(pod.trainer), "command", lambda self, spec: ["no-such-uv", "run", "rl"]
    )
    with pytest.raises(
        LaunchFailed, match=r"no-such-uv is neither on the pod's PATH nor in ~/.local/bin"
    ):
        launch(runs, pod.spec(), key="k1")
    assert attempt_numbers(pod.home.run("alpha")) == [], "nothing half-done is left behind"
    broken = pod.root / "work/broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    monkeypatch.setattr(type(pod.trainer), "command", lambda self, spec: [str(broken)])
    with pytest.raises(
        LaunchFailed,
        match=rf"The run was not started: cannot start {broken}: No such file or directory",
    ):
        launch(runs, pod.spec(), key="k1")
    runs.poll()
    assert runs.get("alpha").attempt.end.code == 127
    monkeypatch.setattr(type(pod.trainer), "command", lambda self, spec: ["sleep", "60"])
    assert launch(runs, pod.spec(), key="k1").number == 2


def test_a_program_in_the_usual_places_is_found_without_a_login_shell(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = pod.root / ".local/bin/uv"
    uv.parent.mkdir(parents=True)
    uv.write_text("#!/bin/sh\necho found with $PATH\n")
    uv.chmod(0o755)
    monkeypatch.setenv("HOME", str(pod.root))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(type(pod.trainer), "command", lambda self, spec: ["uv"])
    launch(pod.runs(), pod.spec(), key="k1")
    until(lambda: read(pod.attempt() / "end.json"))
    assert (
        (pod.attempt() / "launcher.log")
        .read_text()
        .startswith(f"found with /usr/bin:/bin:{uv.parent}")
    )


def test_bad_requests_end_in_a_sentence_and_leave_nothing(pod: Pod) -> None:
    runs = pod.runs()
    with pytest.raises(BadConfig, match=r"missing\.toml cannot be read \(No such file"):
        launch(runs, replace(pod.spec(), config=Path("missing.toml")), key="k1")
    (pod.root / "work/config.toml").write_text("this is = = not toml")
    with pytest.raises(BadConfig, match=r"config\.toml is not TOML"):
        launch(runs, pod.spec(), key="k1")
    with pytest.raises(LaunchFailed, match="There is no directory"):
        launch(runs, replace(pod.spec(), cwd=pod.root / "nowhere"), key="k1")
    with pytest.raises(BadRequest, match="cannot name a run"):
        launch(runs, pod.spec("../evil"), key="k1")
    assert list(pod.home.runs.iterdir()) == []
    assert pod.journal.events() == []


def test_a_launch_survives_the_death_of_shim_and_launcher(pod: Pod) -> None:
    """With the shim killed the run goes on, is known to go on, and its end is known too, though not
    how.
    """
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    kill(identity(pod.attempt(), "shim"))
    launcher = identity(pod.attempt(), "launcher")
    until(lambda: not identity(pod.attempt(), "shim").alive())
    runs.poll()
    assert runs.get("alpha").live
    assert pod.runs().get("alpha").live
    kill(launcher)
    ended(runs)
    attempt = runs.get("alpha").attempt
    assert attempt is not None
    assert (attempt.state, attempt.end.code, attempt.end.signal, attempt.end.good) == (
        "lost",
        None,
        None,
        False,
    )
    assert isinstance(attempt.launcher, Identity)
