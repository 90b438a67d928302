"""Runs commands that take minutes. Each command has a shim of its own, so that it outlives the
agent and never runs twice for one action.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bs4_agent.launch.start import start_shim
from bs4_agent.paths import Home
from bs4_agent.playbooks import words
from bs4_agent.runs.records import shim_holds
from bs4_agent.setup_log import KEPT, numbers, output
from bs4_agent.tree.changes import remove
from bs4_common.descriptors import real
from bs4_common.errors import Busy, NotApplicable, StepFailed
from bs4_common.files import read_json, read_passing, write_json
from bs4_common.identity import Identity
from bs4_common.streams.logs import LogStream

if TYPE_CHECKING:
    from bs4_agent.runs.records import EndFields

_LOOK_S = 0.1
#: Seconds between two progress messages of a command; each is a record of the journal.
_SAY_S = 10.0
_TAIL = 4096

Rest = Callable[[], AbstractContextManager[None]]


class Jobs:
    """Runs commands that take minutes, for set-ups, merges and restores. Each command has a shim of
    its own (a small process that starts the command and records how it ends), so the command
    survives the agent. `log` is the stream to which the output of the commands is added. `restart`
    is the argv with which a shim restarts the agent. `rest()` returns a context manager that is
    entered while the agent waits for a command; a newer agent may take over then.
    """

    def __init__(
        self, home: Home, log: LogStream, restart: Sequence[str] = (), rest: Rest = nullcontext
    ) -> None:
        self._home, self._log, self._restart, self._rest = home, log, list(restart), rest
        self._pause = threading.Event()

    def refuse_strangers(self, key: str) -> None:
        """Raise Busy if a command of any action other than `key` still runs on the pod. The agent
        that started it may have died before this agent learned of that action.
        """
        for directory in self._commands():
            spec = read_json(directory / "spec.json") or {}
            if spec.get("key") != key and shim_holds(directory):
                raise Busy(
                    f"An earlier set-up still runs `{shlex.join(spec['argv'])[:120]}`; wait "
                    "for it to end."
                )

    def end(self, say: Callable[[str], None]) -> str:
        """End all running commands and every process below them: SIGTERM first, then SIGKILL.
        Processes are identified by pid and start time. Return a sentence with the number of
        processes ended.

        `say` receives progress messages. Raises NotApplicable if no command runs, and StepFailed if
        a process survives SIGKILL.
        """
        from bs4_agent.runs.ending import end

        found = []
        for directory in filter(shim_holds, self._commands()):
            found.append((read_passing(directory / "shim.json") or {}).get("launcher"))
            for member in (read_passing(directory / "descendants.json") or {}).get("members", []):
                found.append(member.get("identity"))
        targets = dict.fromkeys(Identity.from_dict(identity) for identity in found if identity)
        living = [target for target in targets if target.alive()]
        if not living:
            raise NotApplicable(
                "No command of a set-up runs on this pod; `bs4-console pods setup POD "
                "--plan` says what is there."
            )
        _, left = end(living, say=say)
        if left:
            raise StepFailed(
                f"{', '.join(map(str, left))} survived SIGKILL: it hangs in the kernel. "
                "Release the pod."
            )
        return f"{words.processes(len(living))} ended"

    def run(
        self,
        key: str,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        """Run a command for the action `key` until it ends. Raises StepFailed if its exit code is
        not 0, and LaunchFailed if it cannot be started.

        If the same action has started the same argv before, no second command is started; the end
        of the first one counts. `environment` has variables besides the agent's own environment.
        `say` receives the last line of the output from time to time.
        """
        directory = self.find(key, argv) or self._prepare(key, argv, cwd, environment)
        if not (directory / "shim.json").exists():
            start_shim(directory)
        with self._rest():
            end = self._wait(directory, say)
        if end.get("code") != 0:
            how = f"signal {end['signal']}" if end.get("signal") else f"exit code {end.get('code')}"
            raise StepFailed(
                f"`{shlex.join(argv)[:200]}` ended with {how}: "
                f"{last_words(output(directory), 3) or 'it said nothing'}. "
                "All of it: `pods setup POD --log`."
            )

    def find(self, key: str, argv: Sequence[str]) -> Path | None:
        """Return the directory of the command that the action `key` has started with this argv,
        whether it still runs or has ended. Return None if the command must be started: it never
        was, or its shim (the small process that starts it and records its end) was killed before
        the command ended.
        """
        for directory in reversed(self._commands()):
            spec = read_json(directory / "spec.json") or {}
            if spec.get("key") == key and spec.get("argv") == list(argv):
                started = (directory / "shim.json").exists()
                if not started or shim_holds(directory) or (directory / "end.json").exists():
                    return directory
                return None
        return None

    def _prepare(
        self, key: str, argv: Sequence[str], cwd: Path, environment: Mapping[str, str]
    ) -> Path:
        """Create the directory of a new command, with its spec and an empty log, and return the
        directory.
        """
        self._home.setup.mkdir(mode=0o700, exist_ok=True)
        self._forget_oldest()
        number = max(numbers(self._home.setup), default=0) + 1
        directory = self._home.setup / str(number)
        directory.mkdir(mode=0o700)
        (output(directory)).write_text(f"$ {shlex.join(argv)}\n")
        record: dict[str, Any] = {
            "key": key,
            "argv": list(argv),
            "cwd": str(cwd),
            "env": dict(environment),
            "run": "",
            "attempt": number,
            "agent_restart": self._restart or None,
            "home": str(self._home.root),
        }
        write_json(directory / "spec.json", record)
        self._log.follow(output(directory), number)
        return directory

    def _forget_oldest(self) -> None:
        """Delete the directories of finished commands, all but the newest `KEPT`. They hold only
        our own output and nothing that belongs to a person.
        """
        for directory in self._commands()[:-KEPT]:
            if not shim_holds(directory):
                remove(real(directory))

    def _commands(self) -> list[Path]:
        """Return the directories of our commands, oldest first."""
        found = []
        for number in numbers(self._home.setup):
            found.append(self._home.setup / str(number))
        return found

    def _wait(self, directory: Path, say: Callable[[str], None]) -> EndFields:
        """Wait until the command has ended and return its end record. If the shim was killed, the
        record says signal 9.
        """
        looks, said = 0, ""
        while True:
            held = shim_holds(directory)
            if (end := read_json(directory / "end.json")) is not None:
                return cast("EndFields", end)
            if not held:
                return {"code": None, "signal": 9}
            looks += 1
            if (
                looks % round(_SAY_S / _LOOK_S) == 0
                and (words := last_words(output(directory), 1)) != said
            ):
                said = words
                say(words)
            self._pause.wait(_LOOK_S)


def last_words(path: Path, lines: int) -> str:
    """Return the last `lines` non-empty lines of a log, joined to one line of at most 300
    characters, without terminal control sequences. Return "" if the log is empty.
    """
    from bs4_common.trainers.lines import strip_ansi

    with path.open("rb") as handle:
        handle.seek(max(path.stat().st_size - _TAIL, 0))
        text = handle.read(_TAIL).decode("utf-8", "replace").replace("\r", "\n")
    found = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("$ "):
            found.append(line.strip())
    return strip_ansi(" / ".join(found[-lines:]))[:300]
