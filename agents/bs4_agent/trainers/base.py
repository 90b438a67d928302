"""The interface of a trainer generation: how it is started and stopped, where it writes, and what
its log lines mean.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bs4_agent.states import EventKind


@dataclass(frozen=True, kw_only=True)
class LaunchSpec:
    """The description of one start of a trainer.

    `config` may be relative to `cwd`. `resume` is an explicit step (0 is a step), or None to start
    afresh. `overrides` are the words that follow the config on the command line.
    """

    run: str
    trainer: str
    config: Path
    cwd: Path
    output_dir: Path
    resume: int | None = None
    overrides: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Non-secret additions to the environment. Credentials come from the pod's own 0600 files,
    never from here.
    """
    component: str = "rl"
    """The program to start. "rl" is the whole launcher; "inference", "orchestrator" and "trainer"
    are its parts, started apart from it; "sft" and "eval" are programs of their own.
    """
    argv: Sequence[str] = ()
    """The verbatim command of a component that is started apart. If it is empty, the trainer
    composes the command.
    """
    trainer_name: str = ""
    """The trainer's own name for the run (current: run.name) if it is not `run`. Adopted runs may
    have characters that cannot name a run here (`a+b--model--1234abcd`).
    """
    processes: int = 1
    """The number of ranks of a trainer that is started apart. Several go through torchrun."""
    container: str = ""
    """The container in which the command runs, as `docker exec` takes its name, or "" for the
    machine itself. All paths are the machine's.
    """

    @property
    def config_path(self) -> Path:
        """Return `config` as an absolute path."""
        return self.cwd / self.config


@dataclass(frozen=True)
class LogSource:
    """One log of a run. `source` is the last part of its stream's name, `path` the place where the
    file is or will be.
    """

    source: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """The parts of one log line. `text` has no ANSI sequences and no prefix. `level` is "" and
    `clock` None if the line has no header of its own. `continuation` is True if the line belongs to
    the record before it.
    """

    text: str
    level: str = ""
    clock: str | None = None
    """HH:MM:SS in the run's time zone, as it is in the line."""
    timestamp: float | None = None
    """The wall second, if the line itself carries a full date (JSON logs)."""
    rank: int | None = None
    logger: str = ""
    continuation: bool = False


@dataclass(frozen=True)
class Event:
    """The meaning of one log line.

    `kind` is one of: step, start-step, eval, barrier, holding, save, resume, starting, ready,
    waiting-inference, inference-lost, child-failed, terminating, finished, fatal, heartbeat,
    cancelled, gpu-memory (there was too little of it), waiting-batch (the trainer waits for
    rollouts), rollout-failed, policy-update, empty-batch, low-trainable, eval-start, rate-limited
    (a client waits for `wait_s`). `side` is trainer, orchestrator, inference or launcher.

    `values` are numbers and names from the line, with the keys of a steps record. NaN and
    infinities are the strings "nan", "inf", "-inf"; durations are in seconds, rates in percent from
    0 to 100. A `starting` event has `what`: process, position, loop, scratch, broadcast, or
    complete (the launcher has started all its children). A step with the value `unordered` may come
    after a later step, because lines of verl reach the log late.
    """

    kind: EventKind
    side: str
    values: Mapping[str, Any] = field(default_factory=dict)
    step: int | None = None


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One step on disk.

    `parts` maps a part's name (trainer, orchestrator, broadcast, weights) to its directory.
    `complete` is True if all parts that the generation needs are there, each with the marker that
    is written last. `missing` names the needed parts that are not there whole. `bytes` counts all
    parts without following symbolic links.
    """

    step: int
    parts: Mapping[str, Path]
    missing: Sequence[str]
    complete: bool
    bytes: int
    newest_mtime: float
    directories: Mapping[str, Path] = field(default_factory=dict)
    """The step directories themselves (`root/step_N`), each once, under the first part that lives
    there. A trainer that resolves "latest" by name sees these even if they are empty, so the step
    directory is moved aside and never a part alone.
    """
    lacking: Mapping[str, str] = field(default_factory=dict)
    """The reason why a part is in `missing` although it is there: its marker, or what its marker
    promises ("no weights").
    """


@dataclass(frozen=True)
class PartRule:
    """The place of one part of a checkpoint (`root/step_N/sub`, under verl
    `root/global_step_N/sub`), and the files that prove that its writer has finished.
    """

    name: str
    root: Path
    sub: str
    markers: Sequence[str]
    required: bool = True
    pointer: Path | None = None
    """A file that names the newest whole step (verl's tracker). Steps above it are torn, whatever
    they hold.
    """


@dataclass(frozen=True)
class StopPolicy:
    """How a live run of this generation is stopped, measured on the real launchers (prime-rl
    2026-01-07 and 2026-08-21).

    `target` "tree" signals every member at once, "launcher" only the launcher. `signals` are pairs
    of a signal name and the seconds to wait after it, in order. Processes that are left afterwards
    are ended by descent, with SIGTERM and then SIGKILL.
    """

    target: str
    signals: Sequence[tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class RunLayout:
    """The directories of one run. Step directories are `root/step_N` or, under verl,
    `root/global_step_N`.
    """

    output_dir: Path
    run_dir: Path
    trainer_checkpoints: Path
    orchestrator_checkpoints: Path
    broadcasts: Path
    rollouts: Path
    weights: Path | None
    wiped: Sequence[Path] = ()
    """Directories that the trainer itself empties at every start."""
    own_log: str = "launcher"
    """The source name of the launcher's own output. It is `trainer` if that output holds the
    trainer's lines, because verl prints through its driver.
    """
    fresh_needs_empty: bool = False
    """True if a fresh start is refused while `run_dir` holds anything."""
    told: Path | None = None
    """The directory in a start's command that makes it this run and no other; None means `run_dir`.
    verl's command names only its checkpoints, so a run that is continued by hand shows nothing of
    the directory around them.
    """


class Trainer(Protocol):
    """One generation of a trainer. It has no state: everything is derived from the spec, the files
    and the lines.
    """

    id: str
    title: str
    stop_policy: StopPolicy
    first_step: int
    """The number of a fresh run's first step: 0 for 2026-01, 1 for the current generation."""
    resumes: tuple[str, ...]
    """The components that a launch resumes from a checked step. Others follow their config."""
    merges: bool
    """True if its steps are shards that its own merger puts together (`checkpoints.merge`). The
    others write whole weights.
    """

    def command(self, spec: LaunchSpec) -> list[str]:
        """Return the command line that starts `spec`, with checkpointing on, as an argv. Raises
        BadConfig or NotApplicable.
        """

    def environment(self, spec: LaunchSpec) -> Mapping[str, str]:
        """Return the environment variables, by name, that the config itself asks for. The spec's
        own additions win over them.
        """

    def needs(self, spec: LaunchSpec) -> Mapping[str, Any]:
        """Return what the check before the start (`preflight.pod_probe.at_run`) must know of the
        settings, under its own keys, if they have other names than prime-rl's. Empty if the check
        finds them itself. `python` is the interpreter, if it is not the checkout's.
        """

    def layout(self, spec: LaunchSpec) -> RunLayout:
        """Return the directories of the run."""

    def log_sources(self, spec: LaunchSpec) -> list[LogSource]:
        """Return the logs that exist or will exist for the newest attempt. The launcher's own
        output is not among them, because the shim holds it.
        """

    def parse_line(self, source: str, raw: bytes) -> LogLine:
        """Return the parts of one raw line of the log `source`. Never raises."""

    def event(self, source: str, line: LogLine) -> Event | None:
        """Return what a line of the log `source` means, or None if it means nothing."""

    def event_words(self, source: str, passing: Collection[str]) -> list[str]:
        """Return texts such that every line of the log `source` that means an event holds one of
        them. Events whose kind is in `passing` do not count. If "" is among the texts, any line may
        mean an event.
        """

    def component(self, cmdline: Sequence[str], comm: str) -> str | None:
        """Return which component of the trainer a process is, or None. It is a name for the screen
        and never a proof: launcher, inference, engine, worker, orchestrator, trainer (torchrun),
        rank, env-server, router, tail, or uv (a `uv run` around one of them).
        """

    def recognise(self, cmdline: Sequence[str], cwd: Path) -> LaunchSpec | None:
        """Return the spec of a launcher that a person started by hand, or None if the process is
        not a launcher of this trainer.
        """

    def parts(self, spec: LaunchSpec) -> Sequence[PartRule]:
        """Return the parts of a checkpoint of this run."""

    def checkpoints(self, spec: LaunchSpec) -> list[Checkpoint]:
        """Return every step that is found in any part, newest last."""

    def resume_requested(self, spec: LaunchSpec) -> int | None:
        """Return the step that the command line and the config resume from, -1 for the latest step,
        or None to start afresh.
        """

    def metrics_path(self, spec: LaunchSpec) -> Path | None:
        """Return the path of the run's own metrics file, or None if the generation writes none."""

    def metrics_record(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return one row of the metrics file under the keys of a steps record (`side`, `step`,
        `log_t` and what the row has), or None if it has none of them.
        """

    def inference_url(self, spec: LaunchSpec) -> str:
        """Return the base URL (no trailing slash, no /v1) of the engine's own API as seen on the
        pod. It is from the config or the generation's default, and "" if the engine has no known
        address.
        """

    def serves(self, spec: LaunchSpec) -> frozenset[int]:
        """Return the ports on which clients may reach the inference server of this spec: its own
        and its router's, if it has one.
        """

    def max_steps(self, spec: LaunchSpec) -> int | None:
        """Return the number of steps after which the run ends, or None if it is not set."""

    def good_end(self, events: Sequence[Event]) -> bool:
        """Return True if the final lines are among the events: the orchestrator's and the
        trainer's. An exit code of 0 proves nothing.
        """
