"""The paths of everything that the agent keeps on a pod. No other module knows them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bs4_common.descriptors import Border
from bs4_common.ids import safe_name, ulid


@dataclass(frozen=True)
class Home:
    """The agent's home directory on the pod, `~/.bs4` with mode 0700, with the path of everything
    in it.
    """

    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        """Return the home directory that the environment variable BS4_HOME names, or `~/.bs4`."""
        return cls(Path(os.environ.get("BS4_HOME") or Path.home() / ".bs4"))

    def id(self) -> str:
        """Return the random id of this home directory, which is made on the first call and stays
        through upgrades. If the directory was deleted and made again, its id is another one, so
        that a console does not mix old bytes with new ones, and no plan for the old one is
        confirmed for the new one.
        """
        try:
            return self.id_file.read_text()
        except FileNotFoundError:
            made = self.root / "id.new"
            made.write_text(ulid())
            made.replace(self.id_file)  # a disk that is full must not leave an empty id behind
            return self.id_file.read_text()

    @property
    def id_file(self) -> Path:
        """Return the path of the file with the random id of this home directory."""
        return self.root / "id"

    def create(self) -> None:
        """Create the home directory and its main subdirectories, accessible to their user only."""
        for directory in (self.root, self.sockets, self.state, self.runs):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.chmod(0o700)

    @property
    def bundles(self) -> Path:
        """Return the directory with the unpacked bundles. A bundle is one release of the agent's
        code with its libraries.
        """
        return self.root / "agent"

    @property
    def current(self) -> Path:
        """Return the path of the symbolic link to the bundle (an installed version of the agent's
        program) that is in use.
        """
        return self.root / "current"

    @property
    def sockets(self) -> Path:
        """Return the directory of the sockets on which agents accept consoles."""
        return self.root / "sock"

    def socket(self, bundle: str) -> Path:
        """Return the path of the Unix socket of the agent that was installed from the bundle (a
        release of the agent's code) with the hash `bundle`.
        """
        return self.sockets / f"{bundle[:12]}.sock"

    @property
    def state(self) -> Path:
        """Return the directory of the record streams, for example the journal (the agent's log of
        actions and incidents).
        """
        return self.root / "state"

    @property
    def withheld(self) -> Path:
        """Return the directory of those records with secrets that an action needs again after a
        restart of the agent. They are whole there; in the journal (the agent's log of actions and
        incidents), a marker stands in place of each secret.
        """
        return self.root / "withheld"

    @property
    def runs(self) -> Path:
        """Return the directory with the agent's records of all runs."""
        return self.root / "runs"

    def run(self, name: str) -> Path:
        """Return the directory with the agent's records of one run. Raises BadRequest if the run's
        name cannot be a file name.
        """
        return self.runs / safe_name(name)

    def attempt(self, run: str, number: int) -> Path:
        """Return the directory with the agent's records of one attempt of a run. Raises BadRequest
        if the run's name cannot be a file name.
        """
        return self.run(run) / "attempts" / str(number)

    @property
    def setup(self) -> Path:
        """Return the directory of the long commands that set-ups run. Each command has a numbered
        directory in it, with its output and its exit code.
        """
        return self.root / "setup"

    @property
    def credentials(self) -> Path:
        """Return the directory in which the agent stores credentials."""
        return self.root / "credentials"

    def variables(self, project: Path) -> Path:
        """Return the path of the file with the environment variables of every launch in the
        directory `project`: lines of NAME=value that a shell can read.
        """
        return (
            self.root
            / "environment"
            / (str(project).strip("/").replace("/", "-").replace(" ", "-") + ".env")
        )

    @property
    def limits(self) -> Path:
        """Return the path of the file with the limits (of open files) that were ordered for all
        runs on the pod.
        """
        return self.root / "limits.json"

    def holds(self, run: str) -> Path:
        """Return the directory of the lock files of the run's checkpoints. An upload locks a
        checkpoint there so that it is not removed meanwhile. Raises BadRequest if the name is not
        allowed.
        """
        return self.run(run) / "holds"

    @property
    def reports(self) -> Path:
        """Return the directory of crash reports, each one compressed archive about one attempt."""
        return self.root / "reports"

    @property
    def agent_record(self) -> Path:
        """Return the path of the file that says which process is the agent of this home
        directory.
        """
        return self.root / "agent.json"

    @property
    def agent_log(self) -> Path:
        """Return the path of the agent's own log."""
        return self.root / "agent.log"


def storage(output_dir: Path, run: str) -> Path:
    """Return the agent's own directory for the run `run`, in which removed files (the trash) and
    archived logs are kept. It is `.bs4/RUN` beside `output_dir`, under the same mount; no
    trainer uses that name. Symbolic links above `.bs4` are resolved; `.bs4` and what is below it
    must not be links.

    If something is mounted at `output_dir` (also a directory of the same disk) or its parent cannot
    be written, the directory is inside `output_dir`; then the trainer must not be allowed to clean
    it. Raises BadRequest if the name is not allowed.
    """
    parent = output_dir.parent
    home = output_dir if output_dir.exists() else parent
    one_mount = home == parent or Border.at(parent.resolve()) == Border.at(home.resolve())
    base = parent if one_mount and os.access(parent, os.W_OK) else home
    return base.resolve() / ".bs4" / safe_name(run)
