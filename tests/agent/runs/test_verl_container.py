"""verl in a container and the agent on the host: found, followed, stopped, adopted, and started
there through `docker exec`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.checkpoints.removal import readers
from bs4_agent.containers import log as container_logs
from bs4_agent.containers import processes
from bs4_agent.containers.inside import MARK
from bs4_agent.containers.log import ContainerLog
from bs4_agent.launch.start import launch
from bs4_agent.runs.adopt import Candidate, adopt, candidates
from bs4_agent.runs.stop import StopRun
from bs4_common.errors import LaunchFailed, NotApplicable
from bs4_common.identity import Identity
from bs4_common.streams.cursor import START
from bs4_common.trainers.base import LaunchSpec
from tests.agent.runs.practice import components, ended, kill, read, until
from tests.agent.runs.test_verl import Place
from tests.support.container import Container, Docker
from tests.support.pod import NotHere

INSIDE = "/mnt/rl-project"
WORDS = (
    "trainer.project_name=p",
    "trainer.experiment_name=e",
    "trainer.n_gpus_per_node=1",
    "trainer.save_freq=2",
    "data.train_batch_size=4",
    "trainer.logger=[console,file]",
    "trainer.val_before_train=False",
)


class Boxed(Place):
    """`Place` whose project is mounted into a container at another path."""

    def __init__(self, root: Path, env: Mapping[str, str] | None = None) -> None:
        super().__init__(root)
        self.box = Container(root / "box", {INSIDE: self.project}, env)
        self.environment = {
            name: os.environ[name]
            for name in ("BS4_TEST_MARK", "BS4_MINIATURE_STEP_SECONDS")
            if name in os.environ
        } | {"RAY_TMPDIR": "/tmp/ray"}

    def by_hand(self, *words: str, log: str = "train/run.log", **environment: str) -> None:
        """As `docker exec -d` and a script do it: in the container's directory, its output in a
        file that lies there.
        """
        (self.project / "train").mkdir(exist_ok=True)
        script = f'exec .venv/bin/python3 -u -m verl.trainer.main_ppo "$@" > {log} 2>&1'
        self.box.start(
            ["sh", "-c", script, "run", *words], cwd=INSIDE, env={**self.environment, **environment}
        )

    def found(self) -> list[Candidate]:
        return [
            c
            for c in candidates(self.runs, self.runs.table.snapshot(max_age=0.0))
            if c.spec.trainer == "verl"
        ]


@pytest.fixture
def boxed(no_process_left: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Boxed]:
    with tempfile.TemporaryDirectory(prefix="bs4-") as short:
        monkeypatch.setenv("BS4_MINIATURE_STEP_SECONDS", "0.1")
        try:
            made = Boxed(Path(short))
        except NotHere as reason:
            pytest.skip(str(reason))
        yield made
        made.box.close()
        made.streams.close()


@pytest.fixture
def docker(boxed: Boxed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Docker]:
    made = Docker(boxed.root, {"trainer": boxed.box})
    monkeypatch.setenv("PATH", f"{made.program}:{os.environ['PATH']}")
    yield made
    made.close()


@pytest.mark.long
def test_a_run_in_a_container_is_adopted_followed_and_stopped(boxed: Boxed) -> None:
    boxed.by_hand(
        *WORDS,
        "trainer.default_local_dir=/mnt/rl-project/train/ckpt/e",
        VERL_FILE_LOGGER_PATH=f"{INSIDE}/train/metrics.jsonl",
    )
    (candidate,) = until(boxed.found, 60)
    assert candidate.spec.cwd == boxed.project
    assert candidate.inner not in (0, candidate.root.pid)
    run = adopt(boxed.runs, candidate)
    assert (run.name, run.spec.container) == ("e", processes.name_of(candidate.root.pid))
    assert run.spec.env["VERL_FILE_LOGGER_PATH"] == str(boxed.project / "train/metrics.jsonl")
    layout = boxed.runs.trainer(run).layout(run.spec)
    assert layout.trainer_checkpoints == boxed.project / "train/ckpt/e"
    boxed.until(lambda: boxed.step("e") >= 3, 60)
    # Both logs, which the container calls by other names.
    boxed.until(
        lambda: (
            {r["at"]["stream"] for r in boxed.records("e")} == {"log/e/trainer", "log/e/metrics"}
        ),
        60,
    )
    boxed.until(lambda: any(c.complete for c in boxed.runs.trainer(run).checkpoints(run.spec)), 60)
    components(boxed.runs, "launcher", "trainer", "worker", "ray", name="e")
    assert boxed.found() == []
    StopRun(boxed.runs, "e", scale=0.2).execute()
    assert not [m for m in boxed.runs.members("e") if m.alive]
    assert Identity.of(boxed.box.init) is not None, "the container itself goes on"
    assert not ended(boxed.runs, "e").good


def test_a_run_whose_files_no_directory_here_shows_is_no_candidate(boxed: Boxed) -> None:
    boxed.by_hand(*WORDS, "trainer.default_local_dir=/tmp/ckpt/e")
    # A process that it has just forked has its command line until it is another program.
    until(lambda: len(boxed.found()) == 1, 60)
    (candidate,) = boxed.found()
    assert "/tmp/ckpt" in candidate.problem
    with pytest.raises(NotApplicable, match="mount"):
        adopt(boxed.runs, candidate)
    assert boxed.runs.all() == []


def test_a_containers_root_is_not_the_agents_user(boxed: Boxed) -> None:
    boxed.by_hand(*WORDS)
    boxed.runs.scope = replace(boxed.runs.scope, uid=12345)
    (candidate,) = until(boxed.found, 60)
    assert candidate.inner == processes.pids(candidate.root.pid)[1]
    with pytest.raises(NotApplicable, match=r"as another user \(uid 0\)"):
        adopt(boxed.runs, candidate)


def test_a_checkpoint_that_a_container_has_open_is_in_use(boxed: Boxed) -> None:
    step, other = boxed.project / "ckpt/global_step_5", boxed.project / "ckpt/global_step_50"
    for directory in (step, other):
        directory.mkdir(parents=True)
        (directory / "model.pt").write_bytes(b"x")
    boxed.box.start(
        ["sh", "-c", "exec sleep 600 < ckpt/global_step_5/model.pt"],
        cwd=INSIDE,
        env=boxed.environment,
    )
    assert until(
        lambda: readers([step, other], boxed.runs.table.snapshot(max_age=0.0)), 60
    ).keys() == {step}


def spec(boxed: Boxed, *overrides: str) -> LaunchSpec:
    return replace(boxed.spec("trainer.n_gpus_per_node=1", *overrides), container="trainer")


@pytest.mark.long
def test_a_launch_into_a_container_and_its_resume(
    boxed: Boxed, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_of_nobody_but_this_test")
    attempt = launch(
        boxed.runs,
        replace(spec(boxed), env={"NCCL_DEBUG": "INFO", "HF_HOME": str(boxed.project / "hf")}),
        key="k1",
    )
    assert attempt.argv[:4] == ("docker", "exec", "-w", INSIDE)
    assert not any(str(boxed.root) in word for word in attempt.argv), (
        "every path is the container's"
    )
    assert attempt.argv[4:11] == ("-e", "HF_HOME", "-e", "NCCL_DEBUG", "-e", MARK, "trainer")
    boxed.until(lambda: boxed.step() >= 1, 60)
    found = components(boxed.runs, "launcher", "trainer", "worker", "ray", name="demo")
    environment = Path(f"/proc/{found['launcher'].pid}/environ").read_bytes().split(b"\0")
    assert {b"NCCL_DEBUG=INFO", f"HF_HOME={INSIDE}/hf".encode()} <= set(environment)
    assert not any(word.startswith(b"HF_TOKEN=") for word in environment)
    assert len(processes.pids(found["launcher"].pid)) == 2
    assert boxed.found() == [], "it is ours and nobody's to adopt"
    boxed.until(lambda: boxed.step() >= 7 and boxed.whole() >= 5, 60)
    # The client's end is not the run's: Docker's daemon may be restarted.
    assert attempt.launcher is not None
    kill(attempt.launcher)
    boxed.until(
        lambda: (read(boxed.home.attempt("demo", 1) / "end.json") or {}).get("signal") == 9, 60
    )
    boxed.runs.poll()
    assert boxed.runs.get("demo").live
    again = boxed.step()
    boxed.until(lambda: boxed.step() > again, 60)
    StopRun(boxed.runs, "demo", scale=0.2).execute()
    assert not any(identity.alive() for identity in found.values())
    ended(boxed.runs, "demo")
    told = [record for record in boxed.journal.records() if record["event"] == "attempt-started"]
    assert [record["container"] for record in told] == ["trainer"]
    whole = boxed.whole()
    second = launch(boxed.runs, replace(spec(boxed), resume=whole), key="k2")
    assert (
        f"trainer.resume_from_path={INSIDE}/outputs/demo/checkpoints/global_step_{whole}"
        in second.argv
    )
    boxed.until(
        lambda: boxed.follower.recent("demo").attempt == 2 and boxed.step() >= whole + 2, 60
    )
    steps = sorted(
        r["step"] for r in boxed.records() if r["attempt"] == 2 and r["side"] == "trainer"
    )
    assert steps[0] == whole + 1
    StopRun(boxed.runs, "demo", scale=0.2).execute()
    assert [words[0] for words in docker.asked if words[0] != "logs"] == [
        "inspect",
        "exec",
        "inspect",
        "exec",
    ]


def test_a_driver_that_refuses_its_words_ends_with_its_own_code(
    boxed: Boxed, docker: Docker
) -> None:
    launch(boxed.runs, spec(boxed, "nonsense.key=1"), key="k1")
    boxed.until(lambda: not boxed.runs.get("demo").live, 60)
    end = ended(boxed.runs, "demo")
    assert (end.code, end.good) == (1, False)
    assert "Could not override" in (boxed.home.attempt("demo", 1) / "launcher.log").read_text()


def test_starts_that_cannot_be(
    boxed: Boxed, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LaunchFailed, match="No such container: other"):
        launch(boxed.runs, replace(spec(boxed), container="other"), key="k1")
    with pytest.raises(LaunchFailed, match="--container NAME"):
        launch(boxed.runs, replace(spec(boxed), container=processes.UNNAMED), key="k2")
    with pytest.raises(LaunchFailed, match="--container NAME"):
        launch(boxed.runs, replace(spec(boxed), container="--privileged"), key="k3")
    outside = boxed.root / "outside"
    outside.mkdir()
    with pytest.raises(LaunchFailed, match="is not mounted into container trainer"):
        launch(boxed.runs, replace(spec(boxed), output_dir=outside), key="k4")
    boxed.box.close()
    with pytest.raises(LaunchFailed, match="does not run"):
        launch(boxed.runs, spec(boxed), key="k5")
    assert boxed.runs.all() == []
    monkeypatch.setenv("PATH", str(outside))
    with pytest.raises(LaunchFailed, match="check `docker ps`"):
        launch(boxed.runs, spec(boxed), key="k6")


def container_log(boxed: Boxed, name: str, number: int = 1) -> str:
    try:
        return (boxed.home.attempt(name, number) / "container.log").read_text()
    except FileNotFoundError:
        return ""


@pytest.mark.long
def test_what_the_entry_point_prints_is_a_log_of_the_run(
    boxed: Boxed, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_logs, "EVERY_S", 0.2)
    monkeypatch.setattr(container_logs, "_PAUSES", 1)
    launch(boxed.runs, spec(boxed), key="k1")
    boxed.until(lambda: boxed.step() >= 1, 60)
    entry = f"/proc/{boxed.box.init}/fd/1"
    with open(entry, "wb", buffering=0) as printing:
        printing.write(b"== the entry point says this ==\n")
        boxed.until(lambda: "the entry point says this" in container_log(boxed, "demo"), 60)
        printing.write(b"and this, twice\nand this, twice\n")
        boxed.until(lambda: container_log(boxed, "demo").count("and this, twice\n") == 2, 60)
    stream = boxed.streams.get("log/demo/container")
    boxed.until(
        lambda: b"== the entry point says this ==\nand this" in stream.read(START, 1 << 16).data, 60
    )
    # Another agent takes up where this one stood, also when it died between the lines and the note
    # of them.
    attempt = boxed.runs.get("demo").attempts[0]
    directory = boxed.home.attempt("demo", 1)
    state = read(directory / "container-log.json")
    assert state is not None
    (directory / "container-log.json").write_text(
        json.dumps({**state, "since": f"{attempt.started_t:.9f}", "same": 0, "size": 0})
    )
    heir = ContainerLog("trainer", directory, attempt.started_t)
    heir.finish()
    assert container_log(boxed, "demo").count("and this, twice\n") == 2
    assert heir.problem == ""
    # What Docker no longer has is a gap, told once, and the run goes on.
    docker.containers.clear()

    def gaps() -> list[dict[str, Any]]:
        return [
            record
            for record in boxed.journal.records()
            if record["type"] == "gap" and record["stream"] == "log/demo/container"
        ]

    boxed.until(gaps, 60)
    refused, step = len(docker.asked), boxed.step()
    boxed.until(lambda: len(docker.asked) >= refused + 3 and boxed.step() > step, 60)
    assert ["No such container: trainer" in gap["reason"] for gap in gaps()] == [True]
    StopRun(boxed.runs, "demo", scale=0.2).execute()
    asked = [words for words in docker.asked if words[0] == "logs"]
    assert asked
    flags = {tuple(word for word in words if word.startswith("-")) for words in asked}
    assert flags <= {("--timestamps", "--since"), ("--timestamps", "--since", "--until")}, "no -f"


@pytest.mark.long
def test_a_driver_that_prints_where_only_docker_keeps_it_is_followed_through_docker(
    boxed: Boxed, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`docker run IMAGE script`: no file has the driver's output. The good end is read there
    too.
    """
    monkeypatch.setattr(container_logs, "EVERY_S", 0.2)
    # there is no control group of Docker's here
    monkeypatch.setattr(processes, "name_of", lambda pid: "trainer")
    words = [
        *WORDS,
        "trainer.default_local_dir=/mnt/rl-project/train/ckpt/e",
        "trainer.logger=[console]",
        "trainer.total_training_steps=40",
    ]
    with open(f"/proc/{boxed.box.init}/fd/1", "wb", buffering=0) as printing:
        argv = [".venv/bin/python3", "-u", "-m", "verl.trainer.main_ppo", *words]
        boxed.box.start(argv, cwd=INSIDE, env=boxed.environment, stdout=printing, stderr=printing)
    (candidate,) = until(boxed.found, 60)
    assert processes.first_of(candidate.root.pid) in (0, boxed.box.init)
    # nsenter is its parent here, in Docker the first process is
    monkeypatch.setattr(processes, "first_of", lambda pid: boxed.box.init)
    assert adopt(boxed.runs, candidate).name == "e"
    boxed.until(lambda: boxed.step("e") >= 3, 60)
    assert {r["at"]["stream"] for r in boxed.records("e")} == {"log/e/trainer"}
    end = boxed.until(lambda: boxed.runs.get("e").attempts[0].end, 120)
    assert end.good, end.detail


def test_a_container_that_docker_does_not_know_is_said_once_and_stops_nothing(
    boxed: Boxed, docker: Docker, tmp_path: Path
) -> None:
    log = ContainerLog("nobody", tmp_path, 0.0)
    log.finish()
    assert "No such container: nobody" in log.problem
    assert not log.path.exists()
    asked = len(docker.asked)
    assert ContainerLog("nobody", tmp_path, 0.0).problem == log.problem
    assert not log.poll(ended=True), "the end has been asked for already"
    assert len(docker.asked) == asked


def test_without_a_docker_program_its_log_is_said_to_be_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    log = ContainerLog("trainer", tmp_path, 0.0)
    assert not log.poll(ended=True), "nothing is waited for"
    assert log.problem == "docker logs cannot be asked (No such file or directory)"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["container-log.json"]
