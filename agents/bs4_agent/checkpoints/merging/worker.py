"""The program that merges: it holds the step, runs the trainer's own merger beside the target, and
checks the output.

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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.checkpoints import holds
from bs4_agent.checkpoints.inventory import size_of
from bs4_agent.checkpoints.merging.check import lacking
from bs4_agent.errors import AgentError, Busy, PlanChanged, StepFailed
from bs4_agent.paths import Home
from bs4_agent.runs.files import read_json, write_json
from bs4_agent.tree.changes import Entry, entries, remove
from bs4_agent.tree.descriptors import open_directory

FAILED = 1
#: The file in the staging directory that names its owner; it is locked while somebody writes there.
OWNER = "owner.json"
#: The directories in the staging directory: the result, the base for an adapter, and a stand-in for
#: the checkpoint if verl's merger writes into its input.
MODEL, BASE, INPUT = "model", "base", "input"
#: The file in the merged directory that says where it comes from.
RECEIPT = "bs4-merge.json"
#: Seconds between two lines about the progress.
_SAY_S = 2.0


def main(arguments: Sequence[str]) -> int:
    """Carry out one merge in a process of its own. The two arguments are paths: a JSON file that
    describes the merge, and the file to which the result or the error is written. Return the exit
    code: 0, or 1 if the merge failed.
    """
    order, answer = read_json(Path(arguments[0])), Path(arguments[1])
    os.nice(10)  # a run that trains on this machine comes first
    signal.signal(signal.SIGTERM, _stopped)
    try:
        if order is None:
            raise StepFailed(f"{arguments[0]} is not there; make a new plan.")
        told = _merge(Home.from_environment(), order)
    except (AgentError, OSError) as error:
        failure = _failure(error)
        write_json(answer, {"error": failure})
        print(failure["message"], flush=True)  # noqa: T201  (standard output is this program's log)
        return FAILED
    write_json(answer, told)
    return 0


def _merge(home: Home, order: Mapping[str, Any]) -> dict[str, Any]:
    """Merge in the staging directory, which is locked meanwhile, and return the result."""
    staging, source = Path(order["staging"]), Path(order["source"])
    with (
        open_directory(staging.parent, make=0o755),
        open_directory(staging, ours=staging, make=0o700),
    ):
        pass  # they are there now, and the staging directory is in nobody else's hands
    if not (staging / OWNER).exists() and any(staging.iterdir()):
        raise Busy(
            f"{staging} holds what no merge of ours has put there; move it aside, then merge again."
        )
    owner = os.open(staging / OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"Another merge writes to {staging}; wait for it to end.") from None
        with holds.hold(home, order["run"], order["step"], f"merge into {order['target']}"):
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


def _done(order: Mapping[str, Any], staging: Path, source: Path, owner: int) -> dict[str, Any]:
    """Run the commands, check their output, and return its bytes and number of files."""
    _refuse_changed(order, source)
    if order["inside"]:
        _stand_in(source, staging / INPUT)
    for number, argv in enumerate(order["commands"], 1):
        _run(argv, order, owner, f"{number} of {len(order['commands'])}")
    _refuse_changed(order, source)
    model = staging / MODEL
    if order["inside"]:
        (staging / INPUT / "huggingface").rename(model)
    if not model.is_dir():
        raise StepFailed(
            f"The merger ended well and wrote nothing to {model}; look at its output with "
            "`pods setup POD --log`."
        )
    if why := lacking(model):
        raise StepFailed(
            f"What the merger wrote is not whole ({why}) and was not put in its place; look "
            "at its output."
        )
    write_json(
        model / RECEIPT,
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
    print(f"{files} files, {size / 1e9:.2f} GB: verified", flush=True)  # noqa: T201
    return {"bytes": size, "files": files}


def stamp(source: Path) -> dict[str, list[int]]:
    """Return {file name: [size in bytes, mtime in nanoseconds]} of the files that a merge of the
    directory `source` reads. A finished checkpoint is never written again, so this identifies its
    content.
    """
    entries = [*source.glob("model_world_size_*_rank_*.pt"), *source.glob("lora_adapter/*")]
    found = {}
    for path in sorted(entries):
        found[str(path.relative_to(source))] = [path.stat().st_size, path.stat().st_mtime_ns]
    return found


def _refuse_changed(order: Mapping[str, Any], source: Path) -> None:
    """Raise PlanChanged if the step's files are not as they were planned."""
    try:
        now = stamp(source)
    except FileNotFoundError:
        now = {}
    if now != order["files"]:
        raise PlanChanged(
            f"Step {order['step']} of {order['run']} is not there any more as it was "
            "planned; make a new plan."
        )


def _run(argv: Sequence[str], order: Mapping[str, Any], owner: int, which: str) -> None:
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
            f"`{shlex.join(argv)[:200]}` {how}; its last words stand above, in `pods "
            "setup POD --log`."
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
                print(f"command {which}: {written / 1e9:.2f} GB written", flush=True)  # noqa: T201


def _stopped(number: int, frame: object) -> None:
    """Turn SIGTERM into StepFailed."""
    raise StepFailed(
        "The merge was stopped, and what it had written is gone; merge again when you want it."
    )


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
        "that right, then merge again.",
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
