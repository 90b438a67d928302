"""Somebody swaps directories for links while a tree is deleted, moved to the trash, put back,
archived or uploaded: nothing outside of it goes, comes or is read. Directories in other people's
hands are refused.
"""

from __future__ import annotations

import ctypes
import hashlib
import multiprocessing
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from bs4_agent.checkpoints.hashing import Hashes
from bs4_agent.checkpoints.removal import free
from bs4_agent.checkpoints.sync_set import local_set
from bs4_agent.runs.archive import archive_logs
from bs4_agent.runs.registry import Runs
from bs4_agent.runs.trash import restore, trash
from bs4_agent.tree.changes import entries, remove, rename
from bs4_common.checkpoints.sets import step_sets
from bs4_common.descriptors import _has_others, at, open_directory, open_file
from bs4_common.errors import AgentError, Refused, StepFailed
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from tests.agent.checkpoints.trees import old_run, old_step
from tests.agent.runs.practice import Pod, PracticeTrainer

KEY = "0" * 26
ROUNDS, DIRECTORIES, FILES = 10, 60, 20
EXCHANGE = 2
STRANGER = 12345
#: The bytes that must never be read, moved or deleted.
PRECIOUS = "precious"


def swap(place: str, names: list[str], begun: Event, enough: Event) -> None:
    """Exchange each directory with the link beside it, again and again, until `enough`."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Held from before: the path to it need not be reachable any more.
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    while not enough.is_set():
        for name in names:
            libc.renameat2(directory, name.encode(), directory, f"link-{name}".encode(), EXCHANGE)
        begun.set()


def moved_aside(root: Path, outside: Path) -> Path:
    """Make a trash with one step of many directories, and a link to `outside` beside each; return
    the step.
    """
    step = root / ".bs4" / "run" / "trash" / KEY / "step_1"
    step.mkdir(parents=True)
    for number in range(DIRECTORIES):
        (step / f"d{number}").mkdir()
        (step / f"d{number}" / "file").write_text("y")
        (step / f"link-d{number}").symlink_to(outside)
    return step


@pytest.mark.parametrize("number", range(ROUNDS))
def test_no_link_is_followed_while_directories_are_swapped_for_links(
    number: int, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for file in range(FILES):
        (outside / f"precious{file}").write_text("x")
    step = moved_aside(tmp_path, outside)
    with swapped_again_and_again(step):
        try:
            free([tmp_path / ".bs4" / "run" / "trash"], KEY)
        except (StepFailed, Refused):
            pass  # refusing is as good as deleting; nothing outside may go
    assert len(list(outside.iterdir())) == FILES
    assert free([tmp_path / ".bs4" / "run" / "trash"], KEY) >= 0
    assert not step.exists()


def test_nothing_outside_is_read_while_directories_are_swapped_for_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text(PRECIOUS)
    step = moved_aside(tmp_path, outside)
    until = time.monotonic() + 1.0
    read = 0
    with swapped_again_and_again(step):
        while time.monotonic() < until or read <= DIRECTORIES:
            for number in range(DIRECTORIES):
                try:
                    with open_file(step / f"d{number}" / "file") as opened:
                        assert os.read(opened, 100) == b"y"
                        read += 1
                except OSError:
                    continue  # a link was there
            try:
                for entry in entries(step):
                    assert not entry.regular or entry.status.st_size == 1
            except OSError:
                continue


@contextmanager
def swapped_again_and_again(step: Path) -> Iterator[None]:
    """Run `swap` over the directories of a step in a process of its own."""
    names = [f"d{entry}" for entry in range(DIRECTORIES)]
    begun, enough = multiprocessing.Event(), multiprocessing.Event()
    attacker = multiprocessing.Process(target=swap, args=(str(step), names, begun, enough))
    attacker.start()
    try:
        assert begun.wait(120)
        yield
    finally:
        enough.set()
        attacker.join()


class Tree:
    """A directory `inside` and its twin `outside`, which has the same names and precious bytes."""

    def __init__(self, root: Path, files: list[str]) -> None:
        self.inside, self.outside = root / "inside", root / "outside"
        for place, text in ((self.inside, "mine"), (self.outside, PRECIOUS)):
            shutil.rmtree(place, ignore_errors=True)
            for name in files:
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(text)
        self.before = self.state()

    def state(self) -> dict[str, str]:
        """Return {path: content} of everything outside."""
        found = {}
        for path in sorted(self.outside.rglob("*")):
            found[str(path)] = path.read_text() if path.is_file() else "directory"
        return found


class Swap:
    """Replaces `victim` by a link to its twin outside, before the n-th use of a name by the agent's
    code.
    """

    CALLS = ("open", "scandir", "unlink", "rmdir", "rename", "link", "mkdir")

    def __init__(self, tree: Tree, victim: str, turn: int) -> None:
        self.done = False
        self._tree, self._victim, self._turn = tree, victim, turn
        self._above = {"", *tree.inside.parts}

    def __enter__(self) -> Swap:
        self._patch = pytest.MonkeyPatch()
        for name in self.CALLS:
            self._patch.setattr(os, name, self._hooked(getattr(os, name)))
        self._patch.setattr(os, "fsync", lambda descriptor: None)  # a disk takes long for it
        return self

    def __exit__(self, *error: object) -> None:
        self._patch.undo()

    def _hooked(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*words: object, **more: object) -> object:
            # Whatever is above the tree is opened before, and nothing there is swapped.
            if str(words[0]).rpartition("/")[2] not in self._above:
                self._turn -= 1
            if self._turn == 0:
                self._patch.undo()
                self._swap()
            return real(*words, **more)

        return call

    def _swap(self) -> None:
        self.done = True
        place = self._tree.inside / self._victim
        if os.path.lexists(place):
            place.rename(place.with_name(f"{place.name}-away"))
            place.symlink_to(self._tree.outside / self._victim)


def at_each_moment(
    root: Path, files: list[str], victim: str, act: Callable[[Tree], object]
) -> Iterator[Tree]:
    """Do `act` again and again, each time with the swap one call later, until the act is over
    before the swap comes. Yield the tree after each, and check that nothing changed outside.
    """
    turn, swapped = 0, True
    while swapped:
        turn += 1
        tree = Tree(root, files)
        with Swap(tree, victim, turn) as swap:
            try:
                act(tree)
            except (AgentError, OSError):
                pass  # stopping is right, too
        swapped = swap.done
        assert tree.state() == tree.before, f"call {turn}"
        yield tree
    assert turn > 5


STORED = ".bs4/run/trash/" + KEY
LEVELS = [".bs4", ".bs4/run", ".bs4/run/trash", STORED, f"{STORED}/a", f"{STORED}/a/b"]


@pytest.mark.parametrize("victim", [*LEVELS, f"{STORED}/a/b/file"])
def test_a_link_at_any_level_and_moment_takes_no_removal_outside(
    victim: str, tmp_path: Path
) -> None:
    for _ in at_each_moment(
        tmp_path,
        [f"{STORED}/a/b/file", f"{STORED}/a/other"],
        victim,
        lambda tree: free([tree.inside / ".bs4/run/trash"], KEY),
    ):
        pass


@pytest.mark.parametrize("victim", ["out", "out/steps", "out/steps/step_1", *LEVELS[:5]])
def test_a_link_at_any_level_and_moment_takes_no_move_outside(victim: str, tmp_path: Path) -> None:
    for _ in at_each_moment(
        tmp_path,
        ["out/steps/step_1/file", f"{STORED}/a/other"],
        victim,
        lambda tree: rename(
            tree.inside / "out/steps/step_1", tree.inside / STORED / "a" / "step_1"
        ),
    ):
        pass


@pytest.mark.parametrize("victim", ["out", "out/steps", *LEVELS[:4], f"{STORED}/step_1"])
def test_a_link_at_any_level_and_moment_puts_nothing_back_outside(
    victim: str, tmp_path: Path
) -> None:
    def act(tree: Tree) -> None:
        original = str(tree.inside / "out/steps/step_1")
        note = tree.inside / STORED / ".step_1.bs4-moved.json"
        note.write_text(f'{{"original": "{original}"}}')
        restore(tree.inside / STORED / "step_1")

    for _ in at_each_moment(tmp_path, [f"{STORED}/step_1/file", "out/steps/kept"], victim, act):
        pass


@pytest.mark.parametrize("victim", ["steps", "steps/step_1", "steps/step_1/file"])
def test_a_link_at_any_level_and_moment_uploads_nothing_from_outside(
    victim: str, tmp_path: Path
) -> None:
    precious = hashlib.sha1(PRECIOUS.encode(), usedforsecurity=False).hexdigest()
    read: list[str] = []

    def act(tree: Tree) -> None:
        path = tree.inside / "steps/step_1/file"
        [(_, sha1)] = Hashes(tmp_path / "memory").of([path]).values()
        read.append(sha1)

    for _ in at_each_moment(tmp_path, ["steps/step_1/file"], victim, act):
        (tmp_path / "memory").unlink(missing_ok=True)
    assert read
    assert precious not in read


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """A run whose directories lie in `inside/out`, and which saved step 20 and then step 40."""
    pod = Pod(tmp_path, PracticeTrainer("true"))
    runs = pod.runs()
    runs.register(pod.spec(output_dir=tmp_path / "inside/out"))
    return runs


@pytest.mark.parametrize(
    "victim", ["out/logs/ranks", "out/logs/ranks/0.log", ".bs4", ".bs4/alpha", ".bs4/alpha/logs"]
)
@pytest.mark.parametrize("name", ["0.log", "0.json"], ids=["linked", "copied"])
def test_a_link_at_any_level_and_moment_archives_nothing_from_outside(
    name: str, victim: str, tmp_path: Path, runs: Runs
) -> None:
    files = [f"out/logs/ranks/{name}", ".bs4/alpha/logs/attempt-0/out/logs/kept"]
    for tree in at_each_moment(
        tmp_path,
        files,
        victim.replace("0.log", name),
        lambda tree: archive_logs(runs, "alpha"),
    ):
        for path in tree.inside.rglob("*"):  # which follows no link
            if path.is_file() and not path.is_symlink():
                assert path.read_text() != PRECIOUS, path


def test_a_tree_ends_at_the_border_of_its_filesystem(tmp_path: Path) -> None:
    """A bind mount has the same device, so only its mount tells."""
    step = tmp_path / ".bs4/run/trash" / KEY / "step_1"
    (step / "mounted").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text(PRECIOUS)
    bind = ["mount", "--bind", str(tmp_path / "outside"), str(step / "mounted")]
    if os.geteuid() != 0 or subprocess.run(bind, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
    try:
        with pytest.raises(StepFailed, match="could not be deleted"):
            free([tmp_path / ".bs4/run/trash"], KEY)
        assert (tmp_path / "outside/file").read_text() == PRECIOUS
    finally:
        subprocess.run(["umount", str(step / "mounted")], check=True)


@pytest.mark.parametrize("part", [".bs4", ".bs4/run", ".bs4/run/trash"])
def test_a_trash_that_is_reached_through_a_link_is_left_alone(part: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    step = moved_aside(outside, tmp_path)
    place = tmp_path / "run"
    (place / part).parent.mkdir(parents=True)
    (place / part).symlink_to(outside / part)
    with pytest.raises(StepFailed, match="could not be deleted"):
        free([place / ".bs4" / "run" / "trash"], KEY)
    assert step.is_dir()


def test_what_is_no_trash_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no trash of a run"):
        free([tmp_path], KEY)


def others_may_write(directory: Path) -> str:
    """Let everybody write to the directory. Return how the refusal begins."""
    directory.chmod(0o777)
    return f"Other users may write to {directory}, .*chmod go-w {directory}.*umask=022"


def a_group_may_write(directory: Path) -> str:
    """Let a group write to it in which another user is."""
    other = next((user for user in pwd.getpwall() if user.pw_uid != os.geteuid()), None)
    if os.geteuid() != 0 or other is None:
        pytest.skip("giving a directory to another user's group needs root and such a user")
    os.chown(directory, -1, other.pw_gid)
    directory.chmod(0o775)
    return f"Other users may write to {directory}, "


def a_stranger_owns(directory: Path) -> str:
    """Give the directory to another user."""
    if os.geteuid() != 0:
        pytest.skip("giving a directory away needs root")
    os.chown(directory, STRANGER, -1)
    return f"{directory} belongs to another user .uid {STRANGER}., .*chown"


Foreign = Callable[[Path], str]
FOREIGN = [others_may_write, a_group_may_write, a_stranger_owns]


@pytest.mark.parametrize("make", FOREIGN)
@pytest.mark.parametrize("part", LEVELS)
def test_nothing_is_deleted_where_others_have_a_hand_in(
    part: str, make: Foreign, tmp_path: Path
) -> None:
    tree = Tree(tmp_path, [f"{STORED}/a/b/file", f"{STORED}/a/another"])
    message = make(tree.inside / part)
    with pytest.raises(Refused, match=message):
        free([tree.inside / ".bs4/run/trash"], KEY)
    assert (tree.inside / STORED / "a/another").exists(), "it is refused before anything goes"


@pytest.mark.parametrize("make", FOREIGN)
@pytest.mark.parametrize("part", ["", "checkpoints", "checkpoints/step_40", "../.bs4/alpha"])
def test_nothing_is_moved_where_others_have_a_hand_in(
    part: str, make: Foreign, tmp_path: Path, runs: Runs
) -> None:
    Tree(tmp_path, ["out/checkpoints/step_40/file", ".bs4/alpha/trash/kept"])
    out = tmp_path / "inside/out"
    message = make(Path(os.path.normpath(out / part)))
    with pytest.raises(Refused, match=message):
        trash(runs, "alpha", out / "checkpoints/step_40")
    assert (out / "checkpoints/step_40/file").exists()


@pytest.mark.parametrize("make", FOREIGN)
@pytest.mark.parametrize("part", ["out/logs", "out/logs/ranks", ".bs4/alpha/logs"])
def test_nothing_is_archived_where_others_have_a_hand_in(
    part: str, make: Foreign, tmp_path: Path, runs: Runs
) -> None:
    Tree(tmp_path, ["out/logs/ranks/0.log", ".bs4/alpha/logs/kept"])
    message = make(tmp_path / "inside" / part)
    with pytest.raises(Refused, match=message):
        archive_logs(runs, "alpha")


def test_a_group_of_which_nobody_else_is_a_member_is_our_own(tmp_path: Path) -> None:
    """With the umask 002 of Ubuntu every directory of a run is writable for its owner's group."""
    if _has_others(os.getgid()):
        pytest.skip("another user of this machine is in our group")
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "tree/a").chmod(0o775)
    remove(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_what_is_nested_too_deep_is_refused_as_a_whole(tmp_path: Path) -> None:
    deep = tmp_path / "tree"
    deep.mkdir()
    (deep / "file").write_text("x")
    with open_directory(deep) as top:
        place = at(top)
        for _ in range(120):
            place = place / "d"
            place.mkdir()
    with pytest.raises(Refused, match="inside one another"):
        remove(deep)
    assert (deep / "file").exists()


def uploaded(spec: LaunchSpec) -> set[Path]:
    """Return the paths of the files that an upload of step 5 would read."""
    [one] = step_sets(registry.get(spec.trainer), spec)
    return {file.path for file in local_set(registry.get(spec.trainer), spec, one).data}


def test_a_link_among_the_files_of_a_checkpoint_is_not_uploaded(tmp_path: Path) -> None:
    """What it points to may be a key of this pod."""
    spec = old_run(tmp_path)
    old_step(spec, 5)
    for path in uploaded(spec):
        kept = path.read_bytes()
        (tmp_path / "secret").write_bytes(kept)
        path.unlink()
        path.symlink_to(tmp_path / "secret")
        with pytest.raises(Refused, match=f"{path} is no regular file"):
            uploaded(spec)
        path.unlink()
        path.write_bytes(kept)
    assert uploaded(spec)


@pytest.mark.parametrize("make", FOREIGN)
def test_nothing_is_uploaded_where_others_have_a_hand_in(make: Foreign, tmp_path: Path) -> None:
    spec = old_run(tmp_path)
    old_step(spec, 5)
    for place in (spec.output_dir, next(iter(uploaded(spec))).parent):
        mode = place.stat().st_mode
        message = make(place)
        with pytest.raises(Refused, match=message):
            uploaded(spec)
        os.chown(place, os.geteuid(), os.getegid())
        place.chmod(mode)
    assert uploaded(spec)
