"""Code that is brought to a pod: what differs, what is left out, and that nothing goes through a
link or is removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bs4_console.errors import UsageError
from bs4_console.pods.inventory import Pod
from bs4_console.pods.port import Completed
from bs4_console.setup import code_sync
from bs4_console.setup.code_sync import Sync, SyncFailed
from bs4_console.transport.local import LocalTransport

HERE = Pod(name="here", host="localhost", provider="local")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "src"
    for name in ("train.py", "env/__init__.py", "env/data/words.txt", "with space and ü.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"# {name}\n")
    for name in (".git/HEAD", "outputs/run/log", "env/__pycache__/x.pyc", "wandb/a", "old.pyc"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("never sent")
    (root / "train.py").chmod(0o755)
    (root / "inside").symlink_to("env/data/words.txt")
    (root / "outside").symlink_to("/etc/passwd")
    (root / "up").symlink_to("../elsewhere")
    return root


def sync(source: Path, target: Path, *, delete: bool = False, machine: Any = None) -> Sync:
    return Sync(
        pod=HERE,
        machine=machine or LocalTransport(HERE),
        source=source,
        target=str(target),
        delete=delete,
        stamp="stamp",
    )


def tree(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


async def test_what_differs_is_sent_once_and_nothing_is_removed(
    source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "pod" / "code"
    target.mkdir(parents=True)
    (target / "mine.txt").write_text("of the pod")
    (target / "checkpoints").mkdir()
    (target / "checkpoints" / "w").write_text("weights")
    first = await sync(source, target).plan()
    sent = {"train.py", "env/__init__.py", "env/data/words.txt", "with space and ü.py", "inside"}
    assert (set(first.send), first.new, first.gone) == (sent, 5, ["mine.txt"])
    assert set(first.skipped) == {"outside", "up"}
    assert first.bytes == sum(
        path.stat().st_size for path in map(source.joinpath, sent - {"inside"})
    )
    assert "left there (--delete moves them to a trash)" in "\n".join(first.lines())
    assert list(target.iterdir()), "a plan touches nothing"
    done = await sync(source, target).carry_out(first)
    assert (done.how, done.files, done.moved) == ("sftp", 5, 0)
    there = tree(target)
    assert there.pop("mine.txt") == "of the pod"
    assert there.pop("checkpoints/w") == "weights"
    assert there == {name: text for name, text in tree(source).items() if name in sent}
    assert os.access(target / "train.py", os.X_OK)
    assert (await sync(source, target).plan()).empty

    (source / "train.py").write_text("# changed\n")
    again = await sync(source, target).plan()
    assert (again.send, again.new, again.same) == (["train.py"], 0, 4)
    assert again.hash != first.hash


async def test_no_credentials_travel_and_those_of_the_pod_stay(
    source: Path, tmp_path: Path
) -> None:
    """Those of a training checkout: .env with the keys, an SSH key under any name, a netrc."""
    held = {
        ".env": "WANDB_API_KEY=canary",
        "env/.env.local": "HF_TOKEN=canary",
        "keys/lambda.pem": "canary",
        "id_ed25519": "canary",
        "keys/pod": "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\n",
        ".netrc": "password canary",
        ".aws/config": "canary",
    }
    harmless = {".env.example": "WANDB_API_KEY=", "env/secrets.py": "def load(): ...", "k.pub": "x"}
    for name, text in {**held, **harmless}.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    target = tmp_path / "pod" / "code"
    target.mkdir(parents=True)
    (target / ".env.pod").write_text("of the pod")
    one = sync(source, target, delete=True)
    plan = await one.plan()
    assert held.keys() <= plan.skipped.keys()
    assert harmless.keys() <= set(plan.send)
    assert ".env: may hold credentials" in "\n".join(plan.lines())
    await one.carry_out(plan)
    there = tree(target)
    assert "canary" not in "".join(there.values())
    assert there[".env.pod"] == "of the pod"
    assert there["env/secrets.py"] == "def load(): ..."


async def test_delete_moves_to_the_trash_and_the_plan_says_which(
    source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "pod" / "code"
    (target / "old").mkdir(parents=True)
    (target / "old" / "a.py").write_text("kept")
    one = sync(source, target, delete=True)
    plan = await one.plan()
    assert plan.gone == ["old/a.py"]
    done = await one.carry_out(plan)
    assert done.moved == 1
    assert not (target / "old" / "a.py").exists()
    assert (
        tmp_path / "pod" / ".bs4" / "sync" / "trash" / "stamp" / "old" / "a.py"
    ).read_text() == "kept"
    assert not list((tmp_path / "pod" / ".bs4" / "sync").glob("incoming-*"))


async def test_nothing_goes_through_a_link_on_the_pod(source: Path, tmp_path: Path) -> None:
    target, outside = tmp_path / "pod" / "code", tmp_path / "outside"
    target.mkdir(parents=True)
    outside.mkdir()
    (target / "env").symlink_to(outside)
    with pytest.raises(UsageError, match="env is a link on here"):
        await sync(source, target).plan()
    # One that is put there between plan and upload.
    (target / "env").unlink()
    plan = await sync(source, target).plan()
    (target / "env").symlink_to(outside)
    with pytest.raises(SyncFailed, match="nothing is sent through it"):
        await sync(source, target).carry_out(plan)
    assert not list(outside.iterdir())
    (tmp_path / "linked").symlink_to(outside)
    with pytest.raises(SyncFailed, match="is a link"):
        await sync(source, tmp_path / "linked").plan()


class CutOff(LocalTransport):
    """A link that is lost in the middle of the upload, once."""

    lost = False

    async def upload(self, path: str, data: bytes) -> None:
        if not self.lost:
            self.lost = True
            Path(path).write_bytes(data[: len(data) // 2])
            raise SyncFailed("The connection ended.", "Run the same command again.")
        await super().upload(path, data)


async def test_an_upload_that_was_cut_off_leaves_no_half_file_and_is_made_again(
    source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "pod" / "code"
    machine = CutOff(HERE)
    plan = await sync(source, target, machine=machine).plan()
    with pytest.raises(SyncFailed):
        await sync(source, target, machine=machine).carry_out(plan)
    assert tree(target) == {}
    again = await sync(source, target, machine=machine).plan()
    assert again.send == plan.send
    await sync(source, target, machine=machine).carry_out(again)
    assert (await sync(source, target).plan()).empty


class Silent(LocalTransport):
    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        return Completed(1, b"", b"Traceback\nPermissionError: no\x1b[31m")


async def test_a_pod_that_cannot_look_says_why(source: Path, tmp_path: Path) -> None:
    with pytest.raises(SyncFailed, match=r"could not look at .*PermissionError: no"):
        await sync(source, tmp_path / "x", machine=Silent(HERE)).plan()
    with pytest.raises(UsageError, match="is no directory"):
        await sync(tmp_path / "nothing", tmp_path / "x").plan()


def test_batches_keep_to_a_size(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, _ = code_sync.local(source, code_sync.excluded())
    plan = code_sync.SyncPlan(
        source=source,
        target="x",
        entries=entries,
        send=sorted(entries),
        new=5,
        gone=[],
        skipped={},
        delete=False,
        trash="t",
    )
    monkeypatch.setattr(code_sync, "_BATCH", 30)
    assert [len(batch) for batch in code_sync.batches(plan)] > [1]
    assert [name for batch in code_sync.batches(plan) for name in batch] == plan.send
    assert shutil.which("python3")
