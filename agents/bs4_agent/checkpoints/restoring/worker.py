"""The program that talks to the store for a restore: `find` finds the step that can be restored,
`fetch` fetches it into the staging directory.

It is a process of its own, because b2sdk and TLS would need more memory than the agent may use. The
key is read only here, from its 0600 file. The result goes into the answer file: what was requested,
or `{"error": {"type", "message", "passing"}}`.

    python -m bs4_agent.checkpoints.restoring.worker find b2://BUCKET/PREFIX RUN ANSWER [STEP]
    python -m bs4_agent.checkpoints.restoring.worker fetch REQUEST ANSWER
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bs4_agent.checkpoints.remote.worker import open_store
from bs4_agent.checkpoints.restoring.fetch import Target, fetch
from bs4_agent.paths import Home
from bs4_common.checkpoints.remote.errors import StoreError
from bs4_common.checkpoints.remote.layout import Place
from bs4_common.checkpoints.remote.source import RemoteCopyFields, RemoteFile, find, kept_config
from bs4_common.errors import AgentError, StepFailed
from bs4_common.failures.detectors.reporting import size
from bs4_common.files import read_json, write_json

FAILED = 1
#: The most bytes of a config.
_CONFIG_BYTES = 1 << 20
#: Seconds between two lines about the progress; the last one is shown.
_SAY_S = 2.0


def main(arguments: Sequence[str]) -> int:
    """Search the object store for a step, or fetch its files, in a process of its own, and return
    the exit code: 0, or 1 if that failed.

    `arguments` is ["find", URL of the place in the store, run, ANSWER, step (may be left out)] or
    ["fetch", path of a JSON file with the files to fetch, ANSWER]. ANSWER is the path of the JSON
    file to which the result or the error is written.
    """
    verb, *rest = arguments
    answer = Path(rest[2] if verb == "find" else rest[1])
    home = Home.from_environment()
    os.nice(10)  # a run that still trains on this machine comes first
    try:
        told = _find(home, rest) if verb == "find" else _fetch(home, rest)
    except (AgentError, OSError) as error:
        failure = _failure(error)
        print(failure["message"], flush=True)  # noqa: T201  (standard output is this program's log)
        write_json(answer, {"error": failure})
        return FAILED
    write_json(answer, told)
    return 0


def _find(home: Home, arguments: Sequence[str]) -> RemoteCopyFields:
    """Find the step, keep its configs, and return the result."""
    place, run = Place.parse(arguments[0]), arguments[1]
    step = int(arguments[3]) if len(arguments) > 3 else None
    store = open_store(home, {"to": str(place)})
    found = find(store, place, run, step)
    if (chosen := found.chosen) is not None:
        names = {file.path: file.name for file in chosen.files}
        for path in chosen.configs:
            _keep(
                kept_config(Path(arguments[2]).parent, chosen, path),
                store.read(names[path], _CONFIG_BYTES),
            )
    return found.as_dict()


def _fetch(home: Home, arguments: Sequence[str]) -> dict[str, int]:
    """Fetch the files in the request and return the number of bytes that were fetched."""
    order = read_json(Path(arguments[0]))
    if order is None:
        raise StepFailed(f"{arguments[0]} is not there; make a new plan.")
    store = open_store(home, {"to": order["from"]})
    targets = []
    for row in order["targets"]:
        targets.append(
            Target(RemoteFile(*row[:5]), Path(row[5]), None if row[6] is None else Path(row[6]))
        )
    return {
        "fetched": fetch(store, targets, Path(order["staging"]), order["identity"], _Told().say)
    }


class _Told:
    """Prints the progress from time to time."""

    def __init__(self) -> None:
        self._began = self._said = time.monotonic()

    def say(self, files: int, of_files: int, done: int, total: int) -> None:
        """Print the progress, at most every two seconds and at the end."""
        now = time.monotonic()
        if now - self._said < _SAY_S and files < of_files:
            return
        self._said = now
        rate = done / max(now - self._began, 0.001)
        print(  # noqa: T201
            f"{files} of {of_files} files, {size(done)} of {size(total)}, {size(rate)}/s",
            flush=True,
        )


def _failure(error: AgentError | OSError) -> dict[str, str | bool]:
    """Return the type and the message of the error, and whether it may pass by itself."""
    if isinstance(error, AgentError):
        return {**error.as_dict(), "passing": isinstance(error, StoreError) and error.passing}
    return {
        "type": "step-failed",
        "message": f"{error.filename or 'A file'} of the pod cannot be used: {error.strerror}; put "
        "that right, then restore again.",
        "passing": False,
    }


def _keep(path: Path, data: bytes) -> None:
    """Write a file of mode 0600, because a config may hold what others should not read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as handle:
        handle.write(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
