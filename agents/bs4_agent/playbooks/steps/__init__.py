"""The typed steps, one module each. A playbook can use nothing else."""

from __future__ import annotations

from bs4_agent.playbooks.steps.archive_logs import ArchiveLogs
from bs4_agent.playbooks.steps.end_processes import EndProcesses
from bs4_agent.playbooks.steps.move_run import MoveRun
from bs4_agent.playbooks.steps.move_steps import MoveSteps
from bs4_agent.playbooks.steps.relaunch import Relaunch
from bs4_agent.playbooks.steps.relaunch_companion import RelaunchCompanion
from bs4_agent.playbooks.steps.stop_run import StopRun
from bs4_agent.playbooks.steps.wait_gpu_free import WaitGpuFree
from bs4_agent.playbooks.world import Step

STEPS: dict[str, Step] = {
    "stop_run": StopRun(),
    "end_processes": EndProcesses(),
    "wait_gpu_free": WaitGpuFree(),
    "archive_logs": ArchiveLogs(),
    "move_steps": MoveSteps(),
    "move_run": MoveRun(),
    "relaunch_companion": RelaunchCompanion(),
    "relaunch": Relaunch(),
}
