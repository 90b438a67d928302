"""Moving aside: one rename, only what is the run's own, never the newest complete checkpoint, and
back again.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from bs4_agent.launch.start import launch
from bs4_agent.runs import trash as module
from bs4_agent.runs.places import trash_for
from bs4_agent.runs.registry import Runs
from bs4_agent.runs.trash import restore, trash
from bs4_agent.tree.changes import rename
from bs4_common.errors import Refused, StepFailed
from bs4_common.runs.model import Attempt
from tests.agent.runs.practice import Pod
from tests.support.processes import open_files

KEY = "0" * 26


@pytest.fixture
def out(pod: Pod) -> Path:
    """Checkpoints 20 and 40, of which 20 is complete, and a stranger's directory beside the
    run's.
    """
    out = pod.root / "work/alpha"
    for step in (20, 40):
        for part in (
            out / f"checkpoints/step_{step}",
            out / f"run_default/checkpoints/step_{step}/orchestrator",
        ):
            part.mkdir(parents=True)
            (part / "data").write_text(f"step {step}")
    (out / "other").mkdir()
    (pod.root / "work/beta/checkpoints/step_40").mkdir(parents=True)
    pod.trainer.complete = (20,)
    return out


@pytest.fixture
def runs(pod: Pod, out: Path) -> Runs:
    runs = pod.runs()
    runs.register(pod.spec())
    return runs


def test_a_step_is_moved_and_comes_back(runs: Runs, out: Path) -> None:
    path = out / "checkpoints/step_40"
    inode = path.stat().st_ino
    target = trash(runs, "alpha", path, stamp_as=KEY)
    assert target == out.parent / f".bs4/alpha/trash/{KEY}/checkpoints/step_40"
    assert (target.stat().st_ino, path.exists()) == (inode, False)
    assert trash(runs, "alpha", path, stamp_as=KEY) == target, "done already"
    assert restore(target) == path
    assert (path.stat().st_ino, (path / "data").read_text()) == (inode, "step 40")
    assert restore(target) == path, "put back already"


def test_the_same_step_can_be_moved_twice_under_names_of_its_own(runs: Runs, out: Path) -> None:
    path = out / "checkpoints/step_40"
    first = trash(runs, "alpha", path)
    path.mkdir()
    second = trash(runs, "alpha", path)
    assert first != second
    assert (first / "data").exists()
    path.mkdir()
    with pytest.raises(Refused, match="exists again"):
        restore(first)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("alpha", "not one of alpha's own directories"),
        (".", "not one of alpha's own directories"),
        ("beta/checkpoints/step_40", "not one of alpha's own directories"),
        ("alpha/other", "not one of alpha's own directories"),
        ("alpha/checkpoints/../other", "not a plain absolute path"),
        ("alpha/checkpoints/step_40/..", "not a plain absolute path"),
        ("alpha/checkpoints/step_41", "There is no"),
        ("alpha/checkpoints/step_20", "the newest complete checkpoint"),
        ("alpha/checkpoints", "the newest complete checkpoint"),
        ("alpha/checkpoints/step_20/data", "the newest complete checkpoint"),
    ],
)
def test_what_may_not_be_moved_stays(runs: Runs, out: Path, where: str, reason: str) -> None:
    before = _tree(out.parent)
    with pytest.raises(Refused, match=reason):
        trash(runs, "alpha", out.parent / where)
    assert _tree(out.parent) == before


def test_a_relative_path_is_refused(runs: Runs, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(out)
    with pytest.raises(Refused, match="plain absolute path"):
        trash(runs, "alpha", Path("checkpoints/step_40"))


def test_links_do_not_lead_out_of_the_run(runs: Runs, out: Path) -> None:
    beta = out.parent / "beta/checkpoints"
    (out / "checkpoints/step_60").symlink_to(beta / "step_40")
    with pytest.raises(Refused, match="is a link"):
        trash(runs, "alpha", out / "checkpoints/step_60")
    (out / "checkpoints/more").symlink_to(beta)
    with pytest.raises(Refused, match=r"not one of alpha's own directories \(it is really .*beta"):
        trash(runs, "alpha", out / "checkpoints/more/step_40")
    assert (beta / "step_40").is_dir()


def test_a_link_that_is_put_in_the_way_at_the_last_moment_leads_nowhere(
    runs: Runs, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check and the rename the parent directory is replaced by a link to a
    stranger's.
    """
    parent, beta = out / "checkpoints", out.parent / "beta/checkpoints"
    original = module.write_json

    def swap(*args: object, **more: object) -> None:
        original(*args, **more)  # type: ignore[arg-type]
        parent.rename(out / "moved-away")
        parent.symlink_to(beta)

    monkeypatch.setattr(module, "write_json", swap)
    with pytest.raises(StepFailed, match="nothing was lost"):
        trash(runs, "alpha", out / "checkpoints/step_40")
    assert (beta / "step_40").is_dir()
    assert (out / "moved-away/step_40/data").exists()


def test_an_afresh_start_moves_everything_when_a_person_has_said_so(runs: Runs, out: Path) -> None:
    target = trash(runs, "alpha", out / "checkpoints", everything=True)
    assert (target / "step_20/data").read_text() == "step 20"
    with pytest.raises(Refused, match="own directories"):
        trash(runs, "alpha", out, everything=True)


def test_nothing_moves_under_a_live_run(pod: Pod, runs: Runs, out: Path) -> None:
    launch(runs, pod.spec(), key="k1")
    with pytest.raises(Refused, match="alpha is running and may write"):
        trash(runs, "alpha", out / "checkpoints/step_40")


def test_nothing_moves_under_a_live_run_of_another_name(runs: Runs, out: Path) -> None:
    other = runs.register(dataclasses.replace(runs.get("alpha").spec, run="other"))
    other.attempts = [
        Attempt(
            number=1,
            state="running",
            shim=None,
            launcher=None,
            started_t=0.0,
            started_m=0.0,
            resume=None,
            argv=(),
        )
    ]
    with pytest.raises(Refused, match="alpha and other, which is running, both write to"):
        trash(runs, "alpha", out / "checkpoints/step_40")
    assert (out / "checkpoints/step_40").exists()


def test_a_rename_that_is_refused_leaves_no_directory_open(tmp_path: Path) -> None:
    (tmp_path / "step_40").mkdir()
    before = open_files(os.getpid())
    with pytest.raises(FileNotFoundError):
        rename(tmp_path / "step_40", tmp_path / "nowhere/step_40")
    # What other tests of this process have left may be closed meanwhile.
    assert open_files(os.getpid()) <= before


def test_another_mount_is_refused_and_not_copied(
    pod: Pod, runs: Runs, out: Path, other_mount: Path
) -> None:
    elsewhere = out / "checkpoints/step_80"
    elsewhere.mkdir()
    subprocess.run(["mount", "--bind", str(other_mount), str(elsewhere)], check=True)
    try:
        (elsewhere / "data").write_text("step 80")
        with pytest.raises(Refused, match="lies on another filesystem"):
            trash(runs, "alpha", elsewhere)
        assert (elsewhere / "data").read_text() == "step 80"
    finally:
        subprocess.run(["umount", str(elsewhere)], check=True)


def test_what_lies_under_a_mount_of_its_own_goes_to_a_trash_there(
    runs: Runs, out: Path, other_mount: Path
) -> None:
    """A person has mounted a disk, or another directory of this one, over the directory of the
    checkpoints. The move is a rename there, is put back by one, and is not moved once more out of
    the trash.
    """
    checkpoints = out / "checkpoints"
    subprocess.run(["mount", "--bind", str(other_mount), str(checkpoints)], check=True)
    try:
        path = checkpoints / "step_80"
        path.mkdir()
        inode = path.stat().st_ino
        target = trash(runs, "alpha", path, stamp_as=KEY)
        assert target == checkpoints / f".bs4/alpha/trash/{KEY}/checkpoints/step_80"
        assert (target.stat().st_ino, path.exists()) == (inode, False)
        assert trash(runs, "alpha", path, stamp_as=KEY) == target, "done already"
        with pytest.raises(Refused, match="is in the trash already"):
            trash(runs, "alpha", target)
        assert restore(target) == path
        assert path.stat().st_ino == inode
    finally:
        subprocess.run(["umount", str(checkpoints)], check=True)


def test_no_trash_lies_where_a_trainer_empties_a_directory(
    pod: Pod, runs: Runs, out: Path, other_mount: Path
) -> None:
    layout = pod.trainer.layout(runs.get("alpha").spec)
    rollouts = other_mount / "rollouts"
    (rollouts / "step_80").mkdir(parents=True)
    assert trash_for(rollouts / "step_80", layout, "alpha") == other_mount / ".bs4/alpha/trash"
    wiped = dataclasses.replace(layout, wiped=(other_mount,))
    with pytest.raises(Refused, match="lies on another filesystem"):
        trash_for(rollouts / "step_80", wiped, "alpha")
    emptied = dataclasses.replace(layout, broadcasts=other_mount)
    with pytest.raises(Refused, match="lies on another filesystem"):
        trash_for(rollouts / "step_80", emptied, "alpha")
    soon_deleted = trash_for(rollouts / "step_80", emptied, "alpha", stays=False)
    assert soon_deleted == other_mount / ".bs4/alpha/trash"


def test_an_output_directory_that_is_mounted_keeps_its_trash_inside(
    runs: Runs, out: Path, other_mount: Path
) -> None:
    """No rename leads to the directory beside it, though that may be on the same disk."""
    subprocess.run(["mount", "--bind", str(other_mount), str(out)], check=True)
    try:
        checkpoints = out / "checkpoints"
        (checkpoints / "step_80").mkdir(parents=True)
        inode = checkpoints.stat().st_ino
        target = trash(runs, "alpha", checkpoints, stamp_as=KEY, everything=True)
        assert target == out / f".bs4/alpha/trash/{KEY}/checkpoints"
        assert (target.stat().st_ino, checkpoints.exists()) == (inode, False)
        assert restore(target) == checkpoints
    finally:
        subprocess.run(["umount", str(out)], check=True)


def _tree(root: Path) -> list[str]:
    return sorted(
        os.path.join(parent, name)
        for parent, directories, files in os.walk(root)
        for name in [*directories, *files]
    )
