"""A container's pids and paths as the host sees them: real namespaces and bind mounts, the agent's
code outside.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_agent.containers import processes
from bs4_agent.containers.processes import View
from bs4_agent.observe import surroundings
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.identity import Identity, own_pidns
from bs4_common.runs.model import Member
from tests.agent.runs.practice import until
from tests.support.container import Container
from tests.support.pod import NotHere

ID = "0123456789ab" + "c" * 52


class Inside:
    """A process in a container that has `project` at /mnt/rl-project and `data` at /mnt/data; it
    writes to a file of the project.
    """

    def __init__(self, root: Path) -> None:
        self.project, self.data, self.elsewhere = (
            root / "rl-project",
            root / "my-data",
            root / "elsewhere",
        )
        for directory in (self.project / "train", self.data, self.elsewhere):
            directory.mkdir(parents=True)
        self.container = Container(root, {"/mnt/rl-project": self.project, "/mnt/data": self.data})
        self.nsenter = self.container.start(
            ["sh", "-c", "exec sleep 600 > train/run.log"],
            cwd="/mnt/rl-project",
            env={"HF_HOME": "/mnt/data/hf"},
        )
        self.pid = until(self._sleeper, 60)

    def _sleeper(self) -> int | None:
        for word in (
            Path(f"/proc/{self.nsenter.pid}/task/{self.nsenter.pid}/children").read_text().split()
        ):
            if Path(f"/proc/{word}/cmdline").read_bytes().startswith(b"sleep\0"):
                return int(word)
        return None

    @property
    def view(self) -> View:
        view = View.of(self.pid)
        assert view is not None
        return view

    def close(self) -> None:
        self.container.close()
        self.nsenter.wait()


@pytest.fixture(scope="module")
def inside() -> Iterator[Inside]:
    with tempfile.TemporaryDirectory(prefix="bs4-") as short:
        try:
            made = Inside(Path(short))
        except NotHere as reason:
            pytest.skip(str(reason))
        yield made
        made.close()


def test_its_pids_on_both_sides(inside: Inside) -> None:
    here, there = processes.pids(inside.pid)
    assert here == inside.pid
    assert 1 < there != here
    assert processes.pids(os.getpid())[-1] == os.getpid()
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert processes.pids(ended.pid) == ()


def test_a_mounted_directory_lies_where_it_was_mounted_from(inside: Inside) -> None:
    view = inside.view
    assert view.here("/mnt/rl-project") == inside.project
    assert view.here("/mnt/rl-project/train/run.log") == inside.project / "train/run.log"
    assert view.here("/mnt/data/./x/../y") == inside.data / "y"
    assert (
        view.here("/mnt/rl-project/train/checkpoints/not/there/yet")
        == inside.project / "train/checkpoints/not/there/yet"
    )
    assert view.inside(inside.project / "train") == Path("/mnt/rl-project/train")
    assert view.inside(inside.data / "none" / "yet") == Path("/mnt/data/none/yet")


def test_what_only_one_side_has_is_never_taken_for_a_file_of_the_other(inside: Inside) -> None:
    """/tmp is the container's own: the same name is another file there, or none."""
    view = inside.view
    twin = Path(f"/proc/{inside.pid}/root/tmp/{inside.elsewhere.parent.name}")
    assert view.inside(inside.elsewhere) is None
    assert view.here("/tmp") is None
    twin.mkdir()
    assert view.here(f"/tmp/{twin.name}") is None
    assert view.inside(inside.elsewhere.parent) is None


def test_links_are_followed_on_their_own_side(inside: Inside) -> None:
    """An absolute link in the container starts at the container's root. The interpreter of an
    environment stays the environment's.
    """
    (inside.project / "ckpt").symlink_to("/mnt/data")
    (inside.project / "bin").mkdir()
    (inside.project / "bin/python3").symlink_to("/bin/sh")
    (inside.project / "round").symlink_to("/mnt/rl-project/round")
    view = inside.view
    assert view.here("/mnt/rl-project/ckpt/global_step_5") == inside.data / "global_step_5"
    assert view.inside(inside.project / "bin/python3") == Path("/mnt/rl-project/bin/python3")
    assert view.here("/mnt/rl-project/bin/python3") == inside.project / "bin/python3"
    view.here("/mnt/rl-project/round/x")  # ends


def test_words_of_a_command_line(inside: Inside) -> None:
    project, data = inside.project, inside.data
    words = [
        "python3",
        "-m",
        "verl.trainer.main_ppo",
        "data.train_files=/mnt/rl-project/train/train.parquet",
        "data.val_files=[/mnt/data/a.parquet,'/mnt/data/b.parquet']",
        "trainer.default_local_dir='/mnt/data/x y'",
        "model=Qwen/Qwen3-4B",
        "url=http://127.0.0.1/mnt/data",
        "tmp=/tmp/x",
        "train/mnt/data",
        "/mnt/rl-project/train:/mnt/data",
        "/",
    ]
    here = [
        "python3",
        "-m",
        "verl.trainer.main_ppo",
        f"data.train_files={project}/train/train.parquet",
        f"data.val_files=[{data}/a.parquet,'{data}/b.parquet']",
        f"trainer.default_local_dir='{data}/x y'",
        "model=Qwen/Qwen3-4B",
        "url=http://127.0.0.1/mnt/data",
        "tmp=/tmp/x",
        "train/mnt/data",
        f"{project}/train:{data}",
        "/",
    ]
    assert inside.view.words_here(words) == here
    assert inside.view.words_inside(here) == words


def test_open_files_have_the_name_that_they_have_here(inside: Inside) -> None:
    assert processes.open_file(inside.pid, 1) == inside.project / "train/run.log"
    assert processes.open_file(inside.pid, 0) is None
    assert processes.open_file(inside.pid, 77) is None
    with (inside.elsewhere / "ours.log").open("wb") as ours:
        taken_along = inside.container.start(["sleep", "600"], env={}, stdout=ours)
        child = until(
            lambda: (
                Path(f"/proc/{taken_along.pid}/task/{taken_along.pid}/children").read_text().split()
            ),
            60,
        )[0]
        assert processes.open_file(int(child), 1) == inside.elsewhere / "ours.log"
        assert processes.open_file(os.getpid(), ours.fileno()) == inside.elsewhere / "ours.log"


def test_who_sees_the_same_files_has_no_view(inside: Inside) -> None:
    assert View.of(os.getpid()) is None
    assert processes.name_of(os.getpid()) in (
        "",
        processes.name_in(Path("/proc/self/cgroup").read_text()),
    )
    assert processes.name_of(inside.pid) != ""


def test_files_that_this_user_may_not_look_at_are_said_to_be_hidden(inside: Inside) -> None:
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); "
        "from bs4_agent.containers import processes; "
        "os.setuid(65534)\n"
        "try: processes.View.of(int(sys.argv[2]))\nexcept processes.HiddenFiles as hidden: "
        "print(hidden.message)"
    )
    agents = str(Path(processes.__file__).parents[2])
    said = subprocess.run(
        [sys.executable, "-c", code, agents, str(inside.pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "run the agent as root" in said.stdout, said.stderr


@pytest.mark.parametrize(
    ("cgroup", "name"),
    [
        (f"0::/system.slice/docker-{ID}.scope\n", "0123456789ab"),
        (f"12:memory:/docker/{ID}\n0::/system.slice/containerd.service\n", "0123456789ab"),
        (f"0::/../../docker/{ID}/init\n", "0123456789ab"),
        (f"0::/kubepods.slice/cri-containerd-{ID}.scope\n", ""),
        ("0::/user.slice/user-1000.slice/session-1.scope\n", ""),
        ("0::/docker/buildx\n", ""),
        ("", ""),
    ],
)
def test_the_containers_name(cgroup: str, name: str) -> None:
    assert processes.name_in(cgroup) == name


def test_the_numbers_of_a_process() -> None:
    assert processes.numbers(
        "Name:\tpython3\nNStgid:\t4711\t23\nNSpid:\t4711\t23\nNSpgid:\t9\t1\n"
    ) == (4711, 23)
    assert processes.numbers("Name:\tpython3\nPid:\t1\n") == ()


def test_a_mount_table_with_spaces_in_it() -> None:
    text = (
        "36 35 8:1 /home/u/my\\040data /mnt/my\\040data rw,relatime shared:1 - ext4 /dev/sda1 "
        "rw\n\n"
    )
    assert processes.mounts(text) == [processes.Mount("8:1", "/home/u/my data", "/mnt/my data")]


def test_the_process_table_knows_the_pids_below_ours(inside: Inside) -> None:
    table = ProcessTable(Scope(os.getuid(), own_pidns(), None, Path("/dev")))
    table.refresh()
    assert table.inner([inside.pid, os.getpid(), 2**22 + 1]) == {
        inside.pid: (processes.pids(inside.pid)[1],)
    }


def test_what_lies_around_a_process_in_a_container_is_looked_for_here(inside: Inside) -> None:
    """Its working directory and its caches: those of the same name on this side are somebody
    else's.
    """
    cache = inside.data / "hf/datasets/x.incomplete"
    cache.mkdir(parents=True)
    identity = Identity.of(inside.pid)
    assert identity is not None
    member = Member(
        identity=identity,
        component="launcher",
        cmdline=("sleep",),
        alive=True,
        proof="observed",
        attempt=1,
    )
    (process,) = surroundings.processes([member])
    assert process.cwd == inside.project
    assert [found.path for found in surroundings.dataset_caches([member]) or ()] == [cache]
