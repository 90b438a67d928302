"""The kinds of actions that have a plan, which the executor carries out by its steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.actions.kind import PlannedKind
from bs4_agent.pod import Pod
from bs4_agent.setup_log import open_setup_log
from bs4_common.failures.compiled import Library
from bs4_common.streams.logs import LogStream

if TYPE_CHECKING:
    from bs4_agent.checkpoints.restoring.restore import Restoring
    from bs4_agent.checkpoints.rotation import Rotation
    from bs4_agent.jobs import Jobs


class Kinds:
    """Makes the objects for the kinds of actions that have a plan. There is one such object for a
    pod. `library` has the playbooks. The code that only one kind needs is imported at its first
    use, so that an agent without such actions needs little memory. The attribute `log` is a
    function that returns the log stream to which the commands of these actions print.
    """

    def __init__(self, executor: ActionExecutor, pod: Pod, library: Library) -> None:
        self._executor, self._pod, self._library = executor, pod, library
        self._made: dict[str, PlannedKind[Any]] = {}
        self.log: Callable[[], LogStream] = lambda: open_setup_log(pod.runs.home)

    @functools.cached_property
    def jobs(self) -> Jobs:
        """Return the object that runs the long commands of set-ups, merges and restores."""
        from bs4_agent.jobs import Jobs

        runs = self._pod.runs
        restart = list(runs.agent_restart or ())
        return Jobs(runs.home, self.log(), restart, self._executor.safe_points.rest)

    @functools.cached_property
    def restoring(self) -> Restoring:
        """Return the object that restores checkpoints, both for restore actions and for
        playbooks.
        """
        from bs4_agent.checkpoints.restoring.restore import Restoring

        return Restoring(self._pod.runs.home, self._pod.runs, self.jobs)

    @functools.cached_property
    def rotation(self) -> Rotation:
        """Return the kind of action that removes old checkpoints of a run (a rotation). It has no
        plan that a person confirms: the agent itself begins such actions.
        """
        from bs4_agent.checkpoints.rotation import Rotation

        return Rotation(self._pod.runs.home)

    def get(self, name: str) -> PlannedKind[Any]:
        """Return the object for the kind of action with this name: "launch", "setup", "restore",
        "merge", "backup" or "playbook". Raises KeyError for another name.
        """
        if name not in self._made:
            self._made[name] = _MAKERS[name](self)
        return self._made[name]

    def _launch(self) -> PlannedKind[Any]:
        """Make the kind of launches."""
        from bs4_agent.launch.action import Launch

        return Launch(self._pod, self._executor.ledger)

    def _setup(self) -> PlannedKind[Any]:
        """Make the kind of set-ups."""
        from bs4_agent.setup.action import SetUp

        return SetUp(self._pod.runs.home, self.jobs, self._pod.hard_nofile)

    def _restore(self) -> PlannedKind[Any]:
        """Make the kind of restores."""
        from bs4_agent.checkpoints.restoring.action import Restore

        return Restore(self.restoring, self._pod.runs)

    def _merge(self) -> PlannedKind[Any]:
        """Make the kind of merges."""
        from bs4_agent.checkpoints.merging.action import Merge
        from bs4_agent.checkpoints.merging.merge import Merging

        return Merge(Merging(self._pod.runs.home, self._pod.runs, self.jobs))

    def _backup(self) -> PlannedKind[Any]:
        """Make the kind of backups."""
        from bs4_agent.checkpoints.merging.action import Backup
        from bs4_agent.checkpoints.merging.backup import BackingUp

        return Backup(BackingUp(self._pod.runs.home, self._pod.runs, self.jobs))

    def _playbook(self) -> PlannedKind[Any]:
        """Make the kind of recoveries by playbooks."""
        from bs4_agent.playbooks.action import Recovery

        return Recovery(self._pod, self._library, self._executor.ledger)


_MAKERS: Mapping[str, Callable[[Kinds], PlannedKind[Any]]] = {
    "launch": Kinds._launch,
    "setup": Kinds._setup,
    "restore": Kinds._restore,
    "merge": Kinds._merge,
    "backup": Kinds._backup,
    "playbook": Kinds._playbook,
}
#: Each is also the name of the field in a `plan` that asks for one.
NAMES = tuple(_MAKERS)
