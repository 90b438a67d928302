"""The typed steps. A playbook can use nothing else."""

from __future__ import annotations

from bs4_agent.playbooks.pod_actions import Step
from bs4_agent.playbooks.steps.archive_logs import ArchiveLogs
from bs4_agent.playbooks.steps.leftovers import EndPortHolder, EndProcesses
from bs4_agent.playbooks.steps.move_files import MoveFiles
from bs4_agent.playbooks.steps.move_run import MoveRun
from bs4_agent.playbooks.steps.move_steps import MoveSteps
from bs4_agent.playbooks.steps.notify import Notify
from bs4_agent.playbooks.steps.relaunch import Relaunch, RelaunchCompanion
from bs4_agent.playbooks.steps.restore_set import RestoreSet
from bs4_agent.playbooks.steps.settings import EditConfig, SetLimit
from bs4_agent.playbooks.steps.stop_run import StopRun
from bs4_agent.playbooks.steps.waits import Probe, WaitGpuFree, WaitUntil

STEPS: dict[str, Step] = {
    "stop_run": StopRun(),
    "end_processes": EndProcesses(),
    "wait_gpu_free": WaitGpuFree(),
    "archive_logs": ArchiveLogs(),
    "move_steps": MoveSteps(),
    "move_run": MoveRun(),
    "move_files": MoveFiles(),
    "edit_config": EditConfig(),
    "end_port_holder": EndPortHolder(),
    "set_limit": SetLimit(),
    "wait_until": WaitUntil(),
    "probe": Probe(),
    "notify": Notify(),
    "relaunch_companion": RelaunchCompanion(),
    "restore_set": RestoreSet(),
    "relaunch": Relaunch(),
}
