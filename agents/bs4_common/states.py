"""The words for states, kinds, roles and sources that the agent and the console share.

Each word is on the wire, in journals or in playbooks, so none of them may change. Records are typed
with these aliases, so that mypy refuses a comparison with a word that does not exist.
"""

from __future__ import annotations

from typing import Literal

RunState = Literal["starting", "running", "ended", "lost"]
"""One attempt of a run. `lost`: the shim is gone and has left no record of the end."""

FileState = Literal["live", "finished", "lost"]
"""A file of a log: it may still grow, does not grow any more, or cannot be read any more."""

SeenState = Literal["starting", "running", "ended", "lost", "files"]
"""A run as detectors see it. `files`: only its files are seen, so no process can be judged."""

Component = Literal["rl", "inference", "orchestrator", "trainer", "sft", "eval"]
"""A program of a training. `rl` is the launcher of all its parts."""

EventKind = Literal[
    "barrier",
    "cancelled",
    "child-failed",
    "empty-batch",
    "error",
    "eval",
    "eval-start",
    "fatal",
    "finished",
    "gpu-memory",
    "heartbeat",
    "holding",
    "inference-lost",
    "low-trainable",
    "policy-update",
    "rate-limited",
    "ready",
    "resume",
    "rollout-failed",
    "save",
    "server-error",
    "start-step",
    "starting",
    "step",
    "terminating",
    "waiting-batch",
    "waiting-inference",
]
"""The meaning of a log line. `Event` says what each one carries."""

Severity = Literal["critical", "warning", "info"]
Role = Literal["root", "cascade", "symptom", "warning", "maintenance"]
"""How a failure relates to others. A cascade or symptom is not shown beside its root."""

Danger = Literal["none", "restart", "move", "kill", "command"]
"""The worst thing that a playbook's fix does."""

Where = Literal["pod", "console"]
"""The machine that carries a playbook out: the pod, or the one on which the console runs."""

IncidentState = Literal["open", "cleared", "resolved"]
"""`cleared`: the signal went away by itself. `resolved`: a playbook's verification passed."""

Transit = Literal["opened", "updated", "cleared"]
"""What the engine reports of an incident after one scan."""

ActionState = Literal[
    "accepted",
    "running",
    "verifying",
    "done",
    "failed",
    "cancel",
    "plan-changed",
    "busy",
    "refused",
    "interrupted",
]
"""The last event of an action."""

StepState = Literal["waiting", "running", "done", "skipped", "failed"]
"""One step of an action."""

ActionKind = Literal[
    "adopt",
    "backup",
    "handover",
    "keep",
    "launch",
    "merge",
    "mode",
    "note",
    "plan",
    "playbook",
    "release",
    "restore",
    "rotate",
    "setup",
    "setup-stop",
    "stop",
    "sync",
]
"""What can be submitted to an agent. It starts `rotate` by itself."""

PlanStep = Literal["move_run", "relaunch", "restore_set", "start"]
"""The steps of a plan that other code looks for by name. Playbooks have more."""

Mode = Literal["observe", "ask", "auto"]
"""What an agent does if a playbook could repair an incident."""

JournalEvent = Literal[
    "adopted",
    "attempt-ended",
    "attempt-started",
    "fault",
    "intent",
    "progress",
    "relieved",
    "removed",
    "sending",
    "started",
    "step-done",
    "step-failed",
    "step-skipped",
    "tracked",
    "watch-gap",
    "written",
]
"""The events of journal records that are no state of an action or incident."""

Phase = Literal[
    "checkpoint",
    "end",
    "evaluation",
    "rate-limit wait",
    "rollout",
    "start-up",
    "train",
    "waiting",
    "weight sync",
]
"""What one side of a run (trainer or orchestrator) is doing."""

Health = Literal["ok", "refused", "timeout", "reset", "http", "unknown"]
"""What an inference server answered to the last probe."""

ProcessState = Literal["R", "S", "D", "T", "t", "Z", "X", "I", "ZX"]
"""Letters of /proc/PID/stat. `ZX` stands for an ended process in either of these two states."""

GpuState = Literal["ok", "absent", "error", "stale"]
"""The state of a GPU sample of the telemetry. `stale`: no answer of the driver for over 5 s."""

KernelLogState = Literal["visible", "hidden"]
"""`hidden`: this user may not read the kernel's log."""

ResumeMode = Literal["auto", "disable", "resume_path"]
"""verl's `trainer.resume_mode`."""

Broadcast = Literal["filesystem", "nccl", "nixl"]
"""How a trainer's weights reach the inference server."""

RecordType = Literal[
    "action", "agent", "gap", "guard", "incident", "note", "plan", "report", "run", "sync"
]
"""The records of a journal."""

MachineState = Literal["running", "installation-failed"]
"""The states of a provider's row that detectors look for."""

ServiceState = Literal["ok", "refused", "absent", "offline"]
"""A hub or W&B as a pod's preflight sees it. `offline`: the pod's settings forbid the request."""
