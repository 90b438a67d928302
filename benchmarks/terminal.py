"""A program in a real terminal: tmux, driven over its control mode, so that a key press and a look
cost no process of their own.

tmux tells of every byte that the program writes the moment it has it; the screen is looked at then,
and not at a fixed pace.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue

#: Seconds after which a program is taken not to be able to do it.
PATIENCE_S = 30.0
#: The screen is looked at again after so long even where nothing was written.
LOOK_S = 0.25
_OCTAL = re.compile(rb"\\[0-7]{3}")
_NAMES = re.compile(
    r"(Escape|Enter|Space|BSpace|Tab|Up|Down|Left|Right|PageUp|PageDown|Home|End|C-[a-z]|F\d+)"
)


class Terminal:
    """One program in a tmux server of its own. `environment` comes on top of ours."""

    def __init__(
        self,
        argv: Sequence[str],
        size: tuple[int, int],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.painted = 0
        """Bytes that the program has written to the terminal."""
        self._directory = tempfile.TemporaryDirectory(prefix="bs4-tmux-")
        self._tmux = ["tmux", "-S", str(Path(self._directory.name) / "s"), "-u", "-f", "/dev/null"]
        exports = [
            word
            for name, value in (environment or {}).items()
            for word in ("-e", f"{name}={value}")
        ]
        # The program begins when all is set up and listens: tmux's own start is not in anybody's
        # time.
        held = ["/bin/sh", "-c", 'read -r _; exec "$@"', "sh", *argv]
        begin = ["new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), *exports, *held]
        subprocess.run(
            [*self._tmux, *begin, ";", "set", "-g", "window-size", "manual"],
            check=True,
            capture_output=True,
        )
        self._client = subprocess.Popen(
            [*self._tmux, "-C", "attach"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._answers: Queue[tuple[bool, str]] = Queue()
        self._wrote = threading.Condition()
        self._writes = 0
        threading.Thread(target=self._listen, daemon=True).start()
        self._answers.get(timeout=PATIENCE_S)  # that of the attach itself
        self._ask("set -g remain-on-exit on")
        self.began = time.perf_counter()
        self.press("Enter")

    @property
    def pid(self) -> int:
        """Of the program that runs."""
        return int(self._ask("display-message -p '#{pane_pid}'"))

    def type(self, text: str) -> None:
        self._ask(f"send-keys -l -- {shlex.quote(text)}")

    def press(self, key: str) -> None:
        """A key by its name in tmux (`Enter`, `PageUp`, `C-g`), or a character."""
        self._ask(
            f"send-keys {key}" if _NAMES.fullmatch(key) else f"send-keys -l -- {shlex.quote(key)}"
        )

    def shown(self) -> str:
        return self._ask("capture-pane -p")

    def until(self, holds: Callable[[str], object], seconds: float = PATIENCE_S) -> float | None:
        """Seconds until the screen is as wanted; None when it does not come to that."""
        began = time.perf_counter()
        while True:
            writes = self._writes
            if holds(self.shown()):
                return time.perf_counter() - began
            if time.perf_counter() - began > seconds:
                return None
            with self._wrote:
                self._wrote.wait_for(lambda seen=writes: self._writes != seen, LOOK_S)  # type: ignore[misc]

    def wait(self, wanted: str, seconds: float = PATIENCE_S) -> float | None:
        """As `until`, for an expression that is to be on the screen."""
        return self.until(re.compile(wanted).search, seconds)

    def first(self, wanted: str) -> float:
        """Seconds from the program's start to `wanted`, PATIENCE_S where that does not come."""
        return PATIENCE_S if self.wait(wanted) is None else time.perf_counter() - self.began

    def after(self, key: str, wanted: str) -> float | None:
        """Seconds from pressing `key` to `wanted`."""
        began = time.perf_counter()
        self.press(key)
        return None if self.wait(wanted) is None else time.perf_counter() - began

    def enter(self, text: str, wanted: str) -> float | None:
        """Type `text`, and when it is there, Enter: seconds from that to `wanted`."""
        self.type(text)
        self.wait(re.escape(text.lstrip(":/?").split(" ", 1)[-1]))
        return self.after("Enter", wanted)

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)
        self._client.communicate()
        self._directory.cleanup()

    def _ask(self, command: str) -> str:
        assert self._client.stdin is not None
        self._client.stdin.write(command.encode() + b"\n")
        self._client.stdin.flush()
        try:
            good, text = self._answers.get(timeout=PATIENCE_S)
        except Empty:
            raise RuntimeError(f"tmux does not answer to {command}") from None
        if not good:
            raise RuntimeError(f"tmux refuses {command}: {text}")
        return text

    def _listen(self) -> None:
        assert self._client.stdout is not None
        answer: list[bytes] | None = None
        for line in self._client.stdout:
            if line.startswith((b"%end ", b"%error ")) and answer is not None:
                self._answers.put(
                    (line.startswith(b"%end"), b"".join(answer).decode("utf-8", "replace"))
                )
                answer = None
            elif answer is not None:
                answer.append(line)
            elif line.startswith(b"%begin "):
                answer = []
            elif line.startswith(b"%output "):
                text = line.rstrip(b"\n").split(b" ", 2)[2]
                with self._wrote:
                    # Each byte that is no plain character comes as a backslash and three digits.
                    self.painted += len(text) - 3 * len(_OCTAL.findall(text))
                    self._writes += 1
                    self._wrote.notify_all()
