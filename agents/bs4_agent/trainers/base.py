"""What a trainer generation tells the rest of the agent: how it is started and stopped, where it
writes, what its lines mean.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bs4_agent.states import EventKind


@dataclass(frozen=True, kw_only=True)
class LaunchSpec:
    """What is to be started. `config` may be relative to `cwd`. `resume` is an explicit step, None
    starts afresh (0 is a step).
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
    """"rl" is the whole launcher; "inference", "orchestrator" or "trainer" one of its parts started
    apart from it; "sft" and "eval" are programs of their own.
    """
    argv: Sequence[str] = ()
    """The verbatim command of a component that is started apart; empty: the trainer composes it."""
    trainer_name: str = ""
    """The name that the trainer itself knows the run by (current: run.name) where it is not `run`:
    adopted runs may have characters that cannot name a run here (`a+b--model--1234abcd`).
    """
    processes: int = 1
    """Ranks of a trainer that is started apart; more than one goes through torchrun."""
    container: str = ""
    """The container in which the command runs, as `docker exec` takes its name; "" for the machine
    itself. All paths are the machine's.
    """

    @property
    def config_path(self) -> Path:
        """`config`, absolute."""
        return self.cwd / self.config


@dataclass(frozen=True)
class LogSource:
    """One log of a run: `source` is the stream's last part, `path` where the file is or will be."""

    source: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One line, taken apart. `text` has neither ANSI nor prefix; `level` "" and `clock` None where
    the line has no header of its own.
    """

    text: str
    level: str = ""
    clock: str | None = None
    """HH:MM:SS in the run's time zone, as written."""
    timestamp: float | None = None
    """Wall seconds, where the line itself carries a full date (JSON logs)."""
    rank: int | None = None
    logger: str = ""
    continuation: bool = False


@dataclass(frozen=True)
class Event:
    """What a line means.

    `kind`: step, start-step, eval, barrier, holding, save, resume, starting, ready,
    waiting-inference, inference-lost, child-failed, terminating, finished, fatal, heartbeat,
    cancelled, gpu-memory (there was too little of it), waiting-batch (the trainer waits for
    rollouts), rollout-failed, policy-update, empty-batch, low-trainable, eval-start, rate-limited
    (a client waits for `wait_s`). `side`: trainer, orchestrator, inference or launcher. A step
    whose values have `unordered` may be told after a later one: lines of verl reach the log late.
    `values`: numbers and names from the line, keys as in a steps record; NaN and infinities are the
    strings "nan", "inf", "-inf"; durations are seconds, rates percent 0..100. A `starting` event
    has `what`: process, position, loop, scratch, broadcast, or complete (the launcher has started
    all its children); `ready` is said of the inference server only.
    """

    kind: EventKind
    side: str
    values: Mapping[str, Any] = field(default_factory=dict)
    step: int | None = None


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One step on disk. `parts` maps part name (trainer, orchestrator, broadcast, weights) to its
    directory; `complete` = all parts the generation needs, each with its last-written marker.
    `missing` names the needed parts that are not there whole. `bytes` counts all parts, symbolic
    links not followed.
    """

    step: int
    parts: Mapping[str, Path]
    missing: Sequence[str]
    complete: bool
    bytes: int
    newest_mtime: float
    directories: Mapping[str, Path] = field(default_factory=dict)
    """The step directories themselves (`root/step_N`), each once, by the first part that lives
    there. A trainer that resolves "latest" by name sees these, even when they are empty: what is
    moved aside is this, never a part alone.
    """
    lacking: Mapping[str, str] = field(default_factory=dict)
    """Why a part is in `missing` although it is there: its marker, or what its marker promises ("no
    weights").
    """


@dataclass(frozen=True)
class PartRule:
    """Where one part of a checkpoint lies (`root/step_N/sub`, verl: `root/global_step_N/sub`) and
    which files prove that its writer came to the end.
    """

    name: str
    root: Path
    sub: str
    markers: Sequence[str]
    required: bool = True
    pointer: Path | None = None
    """A file that names the newest step which is whole (verl's tracker). Steps above it are torn,
    whatever they hold.
    """


@dataclass(frozen=True)
class StopPolicy:
    """How a live run of this generation is ended, measured on the real launchers (prime-rl
    2026-01-07 and 2026-08-21).

    `target`: "tree" signals every member at once, "launcher" only the launcher. `signals`: (signal
    name, seconds to wait after it) in order. What is left afterwards is ended by descent, TERM then
    KILL.
    """

    target: str
    signals: Sequence[tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class RunLayout:
    """Where a run of this generation keeps things. Step directories are `root/step_N` or, under
    verl, `root/global_step_N`.
    """

    output_dir: Path
    run_dir: Path
    trainer_checkpoints: Path
    orchestrator_checkpoints: Path
    broadcasts: Path
    rollouts: Path
    weights: Path | None
    wiped: Sequence[Path] = ()
    """Directories that the trainer empties by itself at every start, with whatever lies in them."""
    own_log: str = "launcher"
    """What the launcher's own output is called. Where it holds what the trainer says (verl prints
    through its driver) it is `trainer`.
    """
    fresh_needs_empty: bool = False
    """Whether a start afresh is refused while `run_dir` holds anything."""
    told: Path | None = None
    """The directory that a start names and that makes it this run and no other; None: `run_dir`.
    verl is told its checkpoints alone, so a run that goes on by hand shows nothing of the directory
    around them.
    """


class Trainer(Protocol):
    """One generation of a trainer. Stateless: everything is derived from the spec, the files and
    the lines.
    """

    id: str
    title: str
    stop_policy: StopPolicy
    first_step: int
    """Number of a fresh run's first step: 0 for 2026-01, 1 for the current generation."""
    resumes: tuple[str, ...]
    """The components that a launch resumes from a step which it has looked at; the others do as
    their own config says.
    """
    merges: bool
    """Whether its steps are shards that a merger of its own puts together (`checkpoints.merge`);
    the others write whole weights.
    """

    def command(self, spec: LaunchSpec) -> list[str]:
        """The real command line, checkpointing on, as an argv."""
        ...

    def environment(self, spec: LaunchSpec) -> Mapping[str, str]:
        """What the config itself wants in the environment of its run. The spec's own additions win
        over it.
        """
        ...

    def needs(self, spec: LaunchSpec) -> Mapping[str, Any]:
        """What a look before the start (`preflight.look.at_run`) says of the settings, by its own
        keys, where they have other names than prime-rl's; {} where it finds them by itself.
        `python`: the interpreter, where it is not the checkout's.
        """
        ...

    def layout(self, spec: LaunchSpec) -> RunLayout: ...

    def log_sources(self, spec: LaunchSpec) -> list[LogSource]:
        """The logs that exist or will exist for the newest attempt (not the launcher's own output:
        the shim holds that).
        """
        ...

    def parse_line(self, source: str, raw: bytes) -> LogLine: ...

    def event(self, source: str, line: LogLine) -> Event | None: ...

    def event_words(self, source: str, passing: Collection[str]) -> list[str]:
        """Texts of which every line of the log `source` holds one that means an event whose kind is
        not in `passing`; "" among them: any line may.
        """
        ...

    def component(self, cmdline: Sequence[str], comm: str) -> str | None:
        """launcher, inference, engine, worker, orchestrator, trainer (torchrun), rank, env-server,
        router, tail, uv (a `uv run` around one of them) or None. A name for the screen, never a
        proof.
        """
        ...

    def recognise(self, cmdline: Sequence[str], cwd: Path) -> LaunchSpec | None:
        """The spec of a launcher that someone started by hand, or None when this is not one of
        ours.
        """
        ...

    def parts(self, spec: LaunchSpec) -> Sequence[PartRule]:
        """What a checkpoint of this run consists of."""
        ...

    def checkpoints(self, spec: LaunchSpec) -> list[Checkpoint]:
        """Every step found in any part, newest last."""
        ...

    def resume_requested(self, spec: LaunchSpec) -> int | None:
        """The step that this command line and config ask to resume from; -1 "the latest", None
        afresh.
        """
        ...

    def metrics_path(self, spec: LaunchSpec) -> Path | None:
        """The run's own metrics file, None where the generation writes none."""
        ...

    def metrics_record(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """One row of that file under the keys of a steps record (`side`, `step`, `log_t` and what
        the row has), or None.
        """
        ...

    def inference_url(self, spec: LaunchSpec) -> str:
        """Base URL (no trailing slash, no /v1) of the engine's own API as seen on the pod; from the
        config, or the generation's default.
        """
        ...

    def serves(self, spec: LaunchSpec) -> frozenset[int]:
        """The ports on which clients may reach the inference server of this spec: its own and,
        where there is one, its router's.
        """
        ...

    def max_steps(self, spec: LaunchSpec) -> int | None: ...

    def good_end(self, events: Sequence[Event]) -> bool:
        """Both final lines were seen: the orchestrator's and the trainer's. An exit code of 0
        proves nothing.
        """
        ...
