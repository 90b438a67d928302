"""The program that merges or backs up: it holds the step, runs the trainer's own merger beside the
target or copies the step's files there, and checks the output.

It is a process of its own under a shim, so that it outlives the agent and the console. Its standard
output is the log. The result goes into the answer file: `{"bytes", "files"}`, or `{"error":
{"type", "message"}}`.

    python -m bs4_agent.checkpoints.merging.worker ORDER ANSWER
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypedDict

from bs4_agent.checkpoints import holds
from bs4_agent.checkpoints.merging.check import lacking
from bs4_agent.paths import Home
from bs4_agent.tree.changes import Entry, entries, remove
from bs4_agent.tree.copies import copy
from bs4_common.checkpoints.inventory import size_of
from bs4_common.descriptors import open_directory, open_file
from bs4_common.errors import AgentError, Busy, PlanChanged, StepFailed
from bs4_common.failures.detectors.reporting import size as size_text
from bs4_common.files import read_json, write_json

FAILED = 1
#: The file in the staging directory that names its owner; it is locked while somebody writes there.
OWNER = "owner.json"
#: The directories in the staging directory: the result, the base for an adapter, and a stand-in for
#: the checkpoint if verl's merger writes into its input.
MODEL, BASE, INPUT = "model", "base", "input"
#: The file in a backup that `sha256sum -c` takes.
SUMS = "SHA256SUMS"
#: Seconds between two lines about the progress.
_SAY_S = 2.0


def main(arguments: Sequence[str]) -> int:
    """Carry out one merge in a process of its own. The two arguments are paths: a JSON file that
    describes the merge, and the file to which the result or the error is written. Return the exit
    code: 0, or 1 if the merge failed.
    """
    answer = Path(arguments[1])
    os.nice(10)  # a run that trains on this machine comes first
    signal.signal(signal.SIGTERM, _stopped)
    try:
        told = _merge(Home.from_environment(), _order_at(Path(arguments[0])))
    except (AgentError, OSError) as error:
        failure = _failure(error)
        write_json(answer, {"error": failure})
        print(failure["message"], flush=True)  # noqa: T201  (standard output is this program's log)
        return FAILED
    write_json(answer, told)
    return 0


class MergeOrder(TypedDict):
    """What to merge or to copy, as the agent passes it to the separate program that does it. The
    values come from `merge.Prepared`.
    """

    kind: str
    """What is made: "merge" or "backup"."""
    run: str
    step: int | None
    """The training step that is read, or None for an adapter that lies in no step of the run."""
    source: str
    """The directory that is read."""
    base: str
    """The directory of the model into which an adapter is merged, or ""."""
    target: str
    """The directory to create."""
    staging: str
    """The directory beside `target` in which the program works before the result is complete."""
    commands: Sequence[Sequence[str]]
    """The argv lists to run one after the other in `cwd`. A backup runs no command: its one argv is
    only a description of the copy for people.
    """
    cwd: str
    inside: bool
    """True if the trainer's merger writes into the directory that it reads."""
    files: Mapping[str, Sequence[int]]
    """{name of a file that is read: [size in bytes, modification time in ns]}."""


class WorkerOrder(MergeOrder):
    """The content of the JSON file that tells the merge program what to do: the fields of a
    MergeOrder and two more.
    """

    key: str
    """The action's key."""
    environment: Mapping[str, str]
    """The environment variables for the merger, by name."""


class Merged(TypedDict):
    """The result of a merge or a backup: the size in bytes and the number of the files that it has
    made.
    """

    bytes: int
    files: int
    """How many files."""


def _order_at(path: Path) -> WorkerOrder:
    """Return the order that the agent wrote. Raises StepFailed if it is not there."""
    found: Any = read_json(path)
    if found is None:
        raise StepFailed(f"{path} is not there; make a new plan.")
    order: WorkerOrder = found
    return order


def _merge(home: Home, order: WorkerOrder) -> Merged:
    """Merge in the staging directory, which is locked meanwhile, and return the result."""
    staging, source = Path(order["staging"]), Path(order["source"])
    with (
        open_directory(staging.parent, make=0o755),
        open_directory(staging, ours=staging, make=0o700),
    ):
        pass  # they are there now, and the staging directory is in nobody else's hands
    if not (staging / OWNER).exists() and any(staging.iterdir()):
        raise Busy(
            f"{staging} holds what no {order['kind']} of ours has put there; move it aside, then "
            "ask again."
        )
    owner = os.open(staging / OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"Another action writes to {staging}; wait for it to end.") from None
        with _held(home, order["run"], order["step"], f"{order['kind']} into {order['target']}"):
            _clear(staging)
            os.pwrite(owner, json.dumps({"key": order["key"]}).encode(), 0)
            try:
                return _done(order, staging, source, owner)
            except (AgentError, OSError):
                # This is our own half of a model. It takes disk space that the run needs, and can
                # be made again.
                remove(staging, ours=staging)
                raise
    finally:
        os.close(owner)


def _held(home: Home, run: str, step: int | None, who: str) -> AbstractContextManager[None]:
    """Hold the step that is read against removal. An adapter need not lie in one."""
    if step is None:
        return nullcontext()
    return holds.hold(home, run, step, who)


def _done(order: WorkerOrder, staging: Path, source: Path, owner: int) -> Merged:
    """Merge or copy, check the output, and return its bytes and number of files."""
    _refuse_changed(order, source)
    model = staging / MODEL
    if order["kind"] == "backup":
        _copy(order["files"], source, model)
    else:
        if order["inside"]:
            _stand_in(source, staging / INPUT)
        for number, argv in enumerate(order["commands"], 1):
            _run(argv, order, owner, f"{number} of {len(order['commands'])}")
        if order["inside"]:
            (staging / INPUT / "huggingface").rename(model)
    if not model.is_dir():
        raise StepFailed(
            f"The merger ended well and wrote nothing to {model}; look at its output with "
            "`pods setup POD --log`."
        )
    _refuse_changed(order, source)
    if why := unwhole(order["kind"], order["files"], model):
        raise StepFailed(
            f"What was written is not whole ({why}) and was not put in its place; look at the "
            "output with `pods setup POD --log`."
        )
    write_json(
        model / receipt(order["kind"]),
        {
            "run": order["run"],
            "step": order["step"],
            "from": str(source),
            "commands": order["commands"],
            "key": order["key"],
        },
    )
    files = size = 0
    for entry in entries(model):
        if entry.regular:
            _sync(entry)
            files += 1
            size += entry.status.st_size
    print(f"{files} files, {size_text(size)}: verified", flush=True)  # noqa: T201
    return {"bytes": size, "files": files}


def _copy(files: Mapping[str, Sequence[int]], source: Path, backup: Path) -> None:
    """Copy the files of a step, read each copy back, and write their digests beside them. Raises
    PlanChanged if one of them has changed meanwhile.
    """
    sums, written = [], 0
    for name in sorted(files):
        place = backup / name
        with (
            open_file(source / name) as opened,
            open_directory(place.parent, ours=backup.parent, make=0o755) as directory,
        ):
            copied = copy(opened, directory, place.name)
        if copied is None or copied.size != files[name][0]:
            raise PlanChanged(f"{source / name} has changed meanwhile; make a new plan.")
        sums.append(f"{copied.sha256}  {name}\n")
        written += copied.size
        print(f"{name}: {size_text(written)} written", flush=True)  # noqa: T201
    (backup / SUMS).write_text("".join(sums))


def receipt(kind: str) -> str:
    """Return the name of the file "bs4-KIND.json", which stands in each directory that an action of
    the kind `kind` ("merge" or "backup") has made and says from which checkpoint it comes.
    """
    return f"bs4-{kind}.json"


def unwhole(kind: str, files: Mapping[str, Sequence[int]], made: Path) -> str:
    """Return a phrase that says why the directory `made`, which an action of the kind `kind`
    ("merge" or "backup") has made, is not complete, or "" if it is complete. `files` maps the name
    of each copied file to [bytes, mtime in ns]. For a backup only the sizes of the copies are
    compared, because they were read back when they were made.
    """
    if kind != "backup":
        return lacking(made)
    for name, (size, _) in files.items():
        path = made / name
        if not path.is_file() or path.stat().st_size != size:
            return f"{name} is not as it was copied"
    return ""


def stamp(source: Path, base: str = "") -> dict[str, list[int]]:
    """Return {file name, relative to `source`: [bytes, mtime in ns]} of the files that a merge
    reads: of the shards in `source`, or of the adapter there and its model in the directory `base`.
    A finished checkpoint is never written again, so this identifies its content.
    """
    paths = [*source.glob("model_world_size_*_rank_*.pt"), *source.glob("lora_adapter/*")]
    if base:
        paths = [*source.iterdir(), *Path(base).iterdir()]
    return stamp_of(
        source, (os.path.relpath(path, source) for path in sorted(paths) if path.is_file())
    )


def stamp_of(source: Path, names: Iterable[str]) -> dict[str, list[int]]:
    """Return {name: [bytes, mtime in ns]} of files with these names in the directory `source`.
    Raises FileNotFoundError if one is not there.
    """
    found = {}
    for name in names:
        status = (source / name).stat()
        found[name] = [status.st_size, status.st_mtime_ns]
    return found


def _refuse_changed(order: WorkerOrder, source: Path) -> None:
    """Raise PlanChanged if the step's files are not as they were planned."""
    try:
        now = stamp(source, order["base"])
        if order["kind"] == "backup":
            now = stamp_of(source, order["files"])
    except FileNotFoundError:
        now = {}
    if now != order["files"]:
        raise PlanChanged(f"{source} is not there any more as it was planned; make a new plan.")


def _run(argv: Sequence[str], order: WorkerOrder, owner: int, which: str) -> None:
    """Run one command to its end. Raises StepFailed if its exit code is not 0."""
    print(f"$ {shlex.join(argv)}", flush=True)  # noqa: T201
    # It gets no GPU: a context on one would take memory from a run that trains there.
    own = {"CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1"}
    # The merger inherits the lock: if only this process is killed, nobody else may write there
    # while the merger still does.
    with subprocess.Popen(
        argv,
        cwd=order["cwd"],
        env={**os.environ, **order["environment"], **own},
        stdin=subprocess.DEVNULL,
        pass_fds=(owner,),
    ) as merger:
        try:
            code = _waited(merger, Path(order["staging"]), which)
        except BaseException:
            merger.kill()
            raise
    if code != 0:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if code == -9:
            how += " (the host's memory may have been too small)"
        raise StepFailed(
            f"`{shlex.join(argv)[:200]}` {how}; `bs4-console pods setup POD "
            "--log` prints its last words."
        )


def _waited(merger: subprocess.Popen[bytes], staging: Path, which: str) -> int:
    """Wait for the merger and return its exit code. Meanwhile, print how much is written."""
    said = 0
    while True:
        try:
            return merger.wait(_SAY_S)
        except subprocess.TimeoutExpired:
            written, _ = size_of(staging)
            if written != said:
                said = written
                print(f"command {which}: {size_text(written)} written", flush=True)  # noqa: T201


def _stopped(number: int, frame: object) -> None:
    """Turn SIGTERM into StepFailed."""
    raise StepFailed("It was stopped, and what it had written is gone; ask again when you want it.")


def _stand_in(source: Path, place: Path) -> None:
    """Make a directory into which the merger of 0.2 may write: links to the ranks' files, and
    copies of the small files.
    """
    place.mkdir()
    for path in source.glob("model_world_size_*_rank_*.pt"):
        (place / path.name).symlink_to(path)
    shutil.copytree(source / "huggingface", place / "huggingface")


def _clear(staging: Path) -> None:
    """Delete what an earlier try of ours has left. The directory is ours and is locked by us."""
    for name in (MODEL, BASE, INPUT):
        remove(staging / name)


def _sync(entry: Entry) -> None:
    """Write a file and its directory to the disk, before they appear under their final names."""
    file = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=entry.parent)
    try:
        os.fsync(file)
        os.fsync(entry.parent)
    finally:
        os.close(file)


def _failure(error: AgentError | OSError) -> dict[str, str]:
    """Return the type and the message of the error."""
    if isinstance(error, AgentError):
        return error.as_dict()
    return {
        "type": "step-failed",
        "message": f"{error.filename or 'A file'} of the pod cannot be used: {error.strerror}; put "
        "that right, then ask again.",
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
