"""The paths of everything that the agent keeps on a pod. No other module knows them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bs4_agent.errors import BadRequest
from bs4_agent.ids import ulid

_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def safe_name(name: str, what: str) -> str:
    """Return `name` if it can be a file name everywhere. Raises BadRequest otherwise. `what` is the
    kind of thing that has the name, for the message.
    """
    if not name or len(name) > 100 or name[0] in "-." or not _SAFE.issuperset(name):
        raise BadRequest(
            f"{name!r} cannot name a {what}; use letters, digits, '.', '_' and '-', starting "
            "with a letter or digit."
        )
    return name


@dataclass(frozen=True)
class Home:
    """The agent's directory, `~/.bs4` with mode 0700, and the path of everything in it."""

    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        """Return the home that BS4_HOME names, or `~/.bs4`."""
        return cls(Path(os.environ.get("BS4_HOME") or Path.home() / ".bs4"))

    def id(self) -> str:
        """Return the random name of this directory. A directory that was wiped gets a new one, so a
        console does not mix old bytes with new.
        """
        path = self.root / "id"
        try:
            return path.read_text()
        except FileNotFoundError:
            path.write_text(ulid())
            return path.read_text()

    def create(self) -> None:
        """Create the directory and its parts, readable by its user only."""
        for directory in (self.root, self.sockets, self.state, self.runs):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.chmod(0o700)

    @property
    def bundles(self) -> Path:
        """Return the directory of the unpacked bundles."""
        return self.root / "agent"

    @property
    def current(self) -> Path:
        """Return the link to the bundle that is in use."""
        return self.root / "current"

    @property
    def sockets(self) -> Path:
        """Return the directory of the agents' sockets."""
        return self.root / "sock"

    def socket(self, bundle: str) -> Path:
        """Return the path of the socket of one bundle's agent."""
        return self.sockets / f"{bundle[:12]}.sock"

    @property
    def state(self) -> Path:
        """Return the directory of the record streams."""
        return self.root / "state"

    @property
    def runs(self) -> Path:
        """Return the directory of all runs."""
        return self.root / "runs"

    def run(self, name: str) -> Path:
        """Return the directory of one run. Raises BadRequest if the name cannot be a file name."""
        return self.runs / safe_name(name, "run")

    def attempt(self, run: str, number: int) -> Path:
        """Return the directory of one attempt of a run."""
        return self.run(run) / "attempts" / str(number)

    @property
    def setup(self) -> Path:
        """Return the directory of set-ups: one numbered directory for each command, as a shim
        leaves it.
        """
        return self.root / "setup"

    @property
    def credentials(self) -> Path:
        """Return the directory of credentials."""
        return self.root / "credentials"

    def variables(self, project: Path) -> Path:
        """Return the file of environment variables for every launch in `project`: lines of
        NAME=value that a shell can read.
        """
        return (
            self.root
            / "environment"
            / (str(project).strip("/").replace("/", "-").replace(" ", "-") + ".env")
        )

    @property
    def limits(self) -> Path:
        """Return the file of the limits that were set for the whole pod. Limits of a run take
        precedence.
        """
        return self.root / "limits.json"

    def holds(self, run: str) -> Path:
        """Return the directory of locks on the run's steps. An upload holds its step."""
        return self.run(run) / "holds"

    @property
    def reports(self) -> Path:
        """Return the directory of crash reports."""
        return self.root / "reports"

    @property
    def agent_record(self) -> Path:
        """Return the file that names the live agent."""
        return self.root / "agent.json"

    @property
    def agent_log(self) -> Path:
        """Return the log of the agent itself."""
        return self.root / "agent.log"


def storage(output_dir: Path, run: str) -> Path:
    """Return the directory for a run's trash and archived logs: beside `output_dir`, on the same
    device, under a name that no trainer touches.

    If the parent is another filesystem or cannot be written, it is inside `output_dir`; then the
    trainer's own clean must be refused.
    """
    parent = output_dir.parent
    home = output_dir if output_dir.exists() else parent
    same_device = not output_dir.exists() or parent.stat().st_dev == output_dir.stat().st_dev
    base = parent if same_device and os.access(parent, os.W_OK) else home
    return base / ".bs4" / safe_name(run, "run")
