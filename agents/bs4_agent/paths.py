"""The only place that knows where the agent keeps things on a pod."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bs4_agent.errors import BadRequest
from bs4_agent.ids import ulid

_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def safe_name(name: str, what: str) -> str:
    """`name`, when it can be a file name everywhere; BadRequest otherwise."""
    if not name or len(name) > 100 or name[0] in "-." or not _SAFE.issuperset(name):
        raise BadRequest(
            f"{name!r} cannot name a {what}; use letters, digits, '.', '_' and '-', starting "
            "with a letter or digit."
        )
    return name


@dataclass(frozen=True)
class Home:
    """`~/.bs4`, mode 0700. Everything below it belongs to the agent."""

    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        return cls(Path(os.environ.get("BS4_HOME") or Path.home() / ".bs4"))

    def id(self) -> str:
        """A random name for this very directory: when it is wiped, its streams begin anew and so
        does everything that was read of them.
        """
        path = self.root / "id"
        try:
            return path.read_text()
        except FileNotFoundError:
            path.write_text(ulid())
            return path.read_text()

    def create(self) -> None:
        for directory in (self.root, self.sockets, self.state, self.runs):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.chmod(0o700)

    @property
    def bundles(self) -> Path:
        return self.root / "agent"

    @property
    def current(self) -> Path:
        return self.root / "current"

    @property
    def sockets(self) -> Path:
        return self.root / "sock"

    def socket(self, bundle: str) -> Path:
        return self.sockets / f"{bundle[:12]}.sock"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def run(self, name: str) -> Path:
        return self.runs / safe_name(name, "run")

    def attempt(self, run: str, number: int) -> Path:
        return self.run(run) / "attempts" / str(number)

    @property
    def setup(self) -> Path:
        """What set-ups ran: a numbered directory a command, as a shim leaves it."""
        return self.root / "setup"

    @property
    def credentials(self) -> Path:
        return self.root / "credentials"

    def variables(self, project: Path) -> Path:
        """What every launch in `project` gets in its environment, as lines of NAME=value that a
        shell can read too.
        """
        return (
            self.root
            / "environment"
            / (str(project).strip("/").replace("/", "-").replace(" ", "-") + ".env")
        )

    @property
    def limits(self) -> Path:
        """The pod's standing orders for limits, below those of a run."""
        return self.root / "limits.json"

    def holds(self, run: str) -> Path:
        """Locks on the run's steps: whoever reads one for long, an upload, holds it."""
        return self.run(run) / "holds"

    @property
    def reports(self) -> Path:
        """Crash reports."""
        return self.root / "reports"

    @property
    def agent_record(self) -> Path:
        return self.root / "agent.json"

    @property
    def agent_log(self) -> Path:
        return self.root / "agent.log"


def storage(output_dir: Path, run: str) -> Path:
    """Where a run's trash and log archives go: beside `output_dir`, under a name no trainer globs,
    on the same device.

    Where the parent is another filesystem (or cannot be written) it is inside `output_dir`; a
    trainer's own clean must then be refused.
    """
    parent = output_dir.parent
    home = output_dir if output_dir.exists() else parent
    same_device = not output_dir.exists() or parent.stat().st_dev == output_dir.stat().st_dev
    if same_device and os.access(parent, os.W_OK):
        base = parent
    else:
        base = home
    return base / ".bs4" / safe_name(run, "run")
