"""The harness of verifiers v1: one program for each rollout.

The real program is a Python script that asks the model through a proxy of its environment worker,
with a secret that is valid for that rollout only; URL and secret are in its command line. Here the
worker asks the model itself, and a shell waits under the command line of the real program: a shell
starts in a millisecond, an interpreter in a hundred. January's environments have no such programs.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

#: Waits for the end of its input, which comes when the worker closes it or ends, however it ends.
_PROGRAM = "read -r line\nexit 0\n"
_SHELL = "/bin/sh"


class HarnessError(Exception):
    """Raised when the program that runs beside a rollout could not be started, or ended with an
    error.
    """


class Harness:
    """Runs a program beside each rollout (generated answer) of one environment worker, because the
    library verifiers runs one too. The program of verifiers queries the model. This one has the
    same command line, but only waits until its rollout ends.
    """

    def __init__(self) -> None:
        """Write the program's script to the place where verifiers has it, and listen on the port
        that stands for verifiers' proxy.
        """
        digest = hashlib.sha256(_PROGRAM.encode()).hexdigest()
        cache = Path.home() / ".cache"
        self._python = str(cache / "uv" / "environments-v2" / digest[:16] / "bin" / "python3")
        self._script = cache / "verifiers" / "runtimes" / "scripts" / f"{digest}.py"
        self._script.parent.mkdir(parents=True, exist_ok=True)
        # Several workers write the same file at the same time; a program must not see half of it.
        partial = self._script.with_name(f"{digest}.{secrets.token_hex(4)}.tmp")
        partial.write_text(_PROGRAM)
        partial.replace(self._script)
        self._proxy = socket.create_server(("127.0.0.1", 0))

    @contextlib.contextmanager
    def program(self, model: str, question: str) -> Iterator[None]:
        """Run the program of one rollout (generated answer) for the length of a `with` block.
        `model` and `question` are shown in its command line. When the block ends, the program's
        input is closed, and its end is waited for. Raises HarnessError if it cannot be started or
        ends with an error.
        """
        words = [
            self._python,
            str(self._script),
            f"--base-url=http://127.0.0.1:{self._proxy.getsockname()[1]}/v1",
            f"--api-key={secrets.token_urlsafe(16)}",
            f"--model={model}",
            f"--prompt={question}",
        ]
        with _start(words) as process:
            yield
        if process.returncode != 0:
            raise HarnessError(f"harness 'null' exited {process.returncode}: <no output>")


def _start(words: Sequence[str]) -> Popen[bytes]:
    """Start a program as the real worker does, in a session of its own. Raises HarnessError."""
    try:
        return Popen(
            words,
            executable=_SHELL,
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise HarnessError(f"harness 'null': {type(error).__name__}: {error}") from error
