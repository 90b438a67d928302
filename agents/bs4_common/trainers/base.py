"""The interface of a trainer generation: how it is started and stopped, where it writes, and what
its log lines mean.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

from bs4_common.states import EventKind, Phase
from bs4_common.telemetry import StepRecord

if TYPE_CHECKING:
    from bs4_common.trainers.settings import FlatSettings, Settings


@dataclass(frozen=True, kw_only=True)
class LaunchSpec:
    """The description of one start of a trainer.

    `run` is the run's name and `trainer` the id of its trainer. `config` may be relative to `cwd`,
    the directory in which the trainer is started. `resume` is the step from which to resume (0 is a
    step too), or None to start afresh. `overrides` are the words that follow the config on the
    command line. `component` is the program to start ("rl" for all of the trainer), and `argv` its
    whole command if that is given. `processes` is the number of its ranks, and `container` the
    container in which it runs, or "".
    """

    run: str
    trainer: str
    config: Path
    cwd: Path
    output_dir: Path
    resume: int | None = None
    overrides: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that are set for the run and hold no secrets. Credentials come only
    from files on the pod that nobody else can read.
    """
    component: str = "rl"
    """The program to start. "rl" is the whole launcher; "inference", "orchestrator" and "trainer"
    are its parts, started apart from it; "sft" and "eval" are programs of their own.
    """
    argv: Sequence[str] = ()
    """The whole command, if a part is started apart from the launcher. If it is empty, the trainer
    composes the command.
    """
    trainer_name: str = ""
    """The name that the trainer itself has for the run (in current prime-rl the setting run.name),
    if it is not `run`. A run that was started by hand may have characters in it that `run` cannot
    have, as in `a+b--model--1234abcd`.
    """
    processes: int = 1
    """The number of ranks of a trainer that is started apart. Several are started through torchrun.
    """
    container: str = ""
    """The container in which the command runs, named as for `docker exec`, or "" for the machine
    itself. All paths in the spec are those of the machine.
    """

    @property
    def config_path(self) -> Path:
        """Return the path of the config, joined to `cwd` if the config is relative."""
        return self.cwd / self.config


@dataclass(frozen=True)
class LogSource:
    """One log of a run. `source` is the name of the log, such as "trainer". Consoles read the log
    as the stream log/RUN/SOURCE. `path` is the place where the file is or will be.
    """

    source: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """The parts of one log line. `text` is the message, without escape sequences and without the
    header before it. `level` is "" and `clock` (the time of day, HH:MM:SS) is None if the line has
    no header of its own. `timestamp` is the Unix time in seconds if the line has a full date, or
    None. `rank` is the number of the process that a prefix of the line names, or None, and `logger`
    the name of the logger that the header names, or "". `continuation` is True if the line belongs
    to the log record that an earlier line began, such as a line of a traceback.
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

    `kind` is one of: step, start-step, eval, barrier (the orchestrator waits for new weights of the
    trainer), holding (the orchestrator holds a batch back, or pauses or resumes its dispatcher),
    save, resume, starting, ready, waiting-inference, inference-lost, child-failed, terminating,
    finished, fatal, heartbeat, cancelled, gpu-memory (there was too little of it), waiting-batch
    (the trainer waits for rollouts), rollout-failed, policy-update, empty-batch, low-trainable,
    eval-start, rate-limited (a client waits for `wait_s` seconds). `side` is who wrote the line:
    trainer, orchestrator, inference or launcher.

    `values` are numbers and names from the line; for a step, under the keys of a record of the
    stream steps/<run>. NaN and infinities are the strings "nan", "inf", "-inf"; durations are in
    seconds, rates in percent from 0 to 100. A `starting` event has `what`, the thing that starts:
    process, position, loop, scratch, broadcast, or complete (the launcher has started all its
    children). A step with the value `unordered` may come after a later step, because lines of verl
    reach the log late. A heartbeat with `time_s` is a progress bar that counts whole steps.
    """

    kind: EventKind
    side: str
    values: Mapping[str, Any] = field(default_factory=dict)
    step: int | None = None

    @property
    def is_step_bar(self) -> bool:
        """Return True if the event is a line of a progress bar that shows which training step is
        done and how long a step takes, and False for any other event.
        """
        return self.kind == "heartbeat" and self.step is not None and "time_s" in self.values


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What the disk has of the checkpoint of one step.

    `parts` maps the name of a part that is there (trainer, orchestrator, weights, or broadcast:
    weights for the inference server; under verl actor, critic or model) to its directory.
    `complete` is True if all parts that a resume needs are there and each was written to its end.
    `missing` names the needed parts that are not there or not complete, and `lacking` says why
    those that are there count as missing. `directories` are the step directories. `bytes` is the
    size of all parts, without what symbolic links point to. `newest_mtime` is a Unix time in
    seconds.
    """

    step: int
    parts: Mapping[str, Path]
    missing: Sequence[str]
    complete: bool
    bytes: int
    newest_mtime: float
    directories: Mapping[str, Path] = field(default_factory=dict)
    """The step directories themselves (`root/step_N`), each once, under the name of the first part
    in it. A trainer that finds its latest step by these names also takes an empty one, so a step is
    moved aside only with its whole directory.
    """
    lacking: Mapping[str, str] = field(default_factory=dict)
    """For a part in `missing` that is there: what it lacks, such as its marker file, or weights
    ("no weights").
    """


@dataclass(frozen=True)
class PartRule:
    """The place of one part of a run's checkpoints, such as the trainer's, and how to tell that it
    was written to its end.

    The part of step N is at `root/step_N/sub`, under verl at `root/global_step_N/sub`. `markers`
    are files in it that the writer makes last. `required` is True if a resume needs the part.
    `pointer` is a file of the trainer that names the newest complete step, or None.
    """

    name: str
    root: Path
    sub: str
    markers: Sequence[str]
    required: bool = True
    pointer: Path | None = None
    """A file that names the newest complete step (verl's latest_checkpointed_iteration.txt), or
    None. Higher steps count as incomplete, whatever their directories have.
    """


@dataclass(frozen=True)
class StopPolicy:
    """How a live run of a trainer is stopped, as tried on the real launchers (prime-rl's versions
    of 2026-01-07 and 2026-08-21).

    `target` says which processes get the signals: "tree" is every process of the run, "launcher"
    only the launcher. `signals` has, in their order, pairs of the name of a signal and the number
    of seconds to wait after it. Processes that still live after all of them are ended one by one,
    with SIGTERM and then SIGKILL.
    """

    target: str
    signals: Sequence[tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class RunLayout:
    """The directories of one run. The checkpoint of step N is in `step_N` of each directory of
    checkpoints, under verl in `global_step_N`.

    `run_dir` is the run's own directory; several runs may lie in `output_dir`. `broadcasts` has the
    weights for the inference server; `weights` is None if the trainer writes no other separate
    weights. `own_log` is the source to which the launcher's output belongs. The directories need
    not exist.
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
    """The name of the log that has the launcher's own output. It is `trainer` for verl, whose main
    process prints the trainer's lines.
    """
    fresh_needs_empty: bool = False
    """True if a fresh start is refused while `run_dir` holds anything."""
    told: Path | None = None
    """The directory by which two starts are known to be of the same run; None means `run_dir`. For
    verl it is the directory of the checkpoints, the only one that a command typed by hand must
    name.
    """


if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.

    class Needs(TypedDict, total=False):
        """What the check before a start must know of a run and cannot find in its config."""

        python: str
        """The path of the run's interpreter, if it is not that of the checkout."""
        modules: Sequence[str]
        """What that interpreter has to import."""
        keep_last: int | None
        interval: int | None
        """Steps between two checkpoints, or None if none is saved."""
        max_steps: int | None
        wandb: bool
        """True if the start needs a login at W&B."""
        model: str
        gpu_ids: Sequence[int]
        engine: str | None
        serves_itself: bool
        """True if the rollout engine lives in the trainer's own processes."""
        bytes_each: float
        """Bytes on disk that a checkpoint takes for each parameter of the model."""


@dataclass(frozen=True)
class ConfigClasses:
    """The classes with which a trainer itself reads its configs, for a check of a config before a
    launch. `reader` is the function that reads a command line, as (module, name), and `classes`
    maps each component (a program, such as "rl") to its class, as (module, name).
    """

    reader: tuple[str, str]
    classes: Mapping[str, tuple[str, str]]
    takes_words: bool = False
    """True if the function takes the words of the command line as its argument `args` and raises
    its errors. Otherwise it reads the words from sys.argv.
    """


@dataclass(frozen=True)
class GpuSettings:
    """The keys of two settings of a trainer: those that say which GPUs of a machine train (`train`)
    and which serve the model (`infer`).
    """

    train: str
    infer: str
    counted: bool
    """True if the values are numbers of GPUs; the run then takes the first ones that
    CUDA_VISIBLE_DEVICES names. If False, the values are indexes of GPUs, and that variable is
    overridden.
    """


@dataclass(frozen=True, kw_only=True)
class Traits:
    """The properties in which a trainer differs from others, in every run. Code outside this
    package asks for a property and never for the name of the trainer.
    """

    sides: Sequence[str]
    """The programs that train together and wait for one another, as `side` of an event."""
    own_directory: bool
    """True if each run has a directory of its own in `output_dir`. If False, `output_dir` itself is
    the directory of the run.
    """
    awaits_leftovers: bool
    """True if the trainer waits for the newest step that is on the disk, even if the run was
    started from an earlier step or afresh.
    """
    reports_exits: bool
    """True if the launcher's log says with which code a process ended."""
    heartbeats: bool
    """True if the orchestrator shows its progress within a step."""
    sends_by_nccl: bool
    """True if weights are sent to the inference server by NCCL by default, unless an adapter is
    trained.
    """
    shows_command: bool
    """True if the command line of the main process stays readable. If False, the process hides it
    by setting a title.
    """
    ids_as_options: bool
    """True if each side takes its id at W&B as an option of the command line."""
    save_key: str
    """The setting that switches checkpoints on, or says how often one is saved."""
    last_step_key: str
    """The setting that says after how many steps the run ends."""
    gpus: GpuSettings | None
    """The settings that say which GPUs a run will use, or None if there are none."""
    classes: ConfigClasses | None
    """The classes by which the trainer checks its configs, or None if it has none."""
    installed: bool
    """True if the agent's set-up can install the trainer. False if it comes in a container image.
    """
    modules: Sequence[str] = ()
    """The Python modules whose import is tried when a machine is checked without a config."""
    wrote: Callable[[Path], bool]
    """Returns True if a directory is one that a run of this trainer has written."""
    saved: Callable[[Path], bool] | None = None
    """Returns True if the checkpoints in a directory are those of a run of this trainer, for a
    directory without logs and configs. None if checkpoints do not show the trainer.
    """
    log_suffix: str = ""
    """The suffix of file names that only logs of this trainer have, or ""."""
    attempt_logs: Callable[[Path], dict[int, list[LogSource]]] | None = None
    """Returns the logs in the directory of a run by the number of their attempt. None if the
    trainer keeps only the newest attempt's logs.
    """
    flat: Callable[[LaunchSpec, Sequence[str]], FlatSettings] | None = None
    """Returns the settings of a run by dotted key, from its spec and the command that was really
    started. None if the settings are those of a TOML file and of options like `--key value`.
    """
    recorded: Callable[[Path], FlatSettings] | None = None
    """Returns the settings by dotted key that the trainer has recorded in the directory of a run.
    None if it writes the configs of its components there instead (`configs/trainer.json`).
    """
    phase: Callable[[Iterable[str]], Phase | Literal[""]] | None = None
    """Returns what the trainer is doing within a step, from the titles of its processes, or "" if
    they do not show it. None for a trainer whose log lines show it.
    """


class Trainer(Protocol):
    """One version of a trainer: how it is started and stopped, where it writes, and what its log
    lines mean. The object has no state; every answer is computed from the launch spec, the files on
    the pod and the log lines.
    """

    id: str
    title: str
    traits: Traits
    stop_policy: StopPolicy
    first_step: int
    """The number of a fresh run's first step: 0 for prime-rl's version of January 2026, 1 for the
    others. That step makes policy version 1 from version 0.
    """
    resumes: tuple[str, ...]
    """The components (programs, such as "rl") for which a launch chooses and checks the step to
    resume from. The other components resume as their config says.
    """
    merges: bool
    """True if a checkpoint consists of shards, which the trainer's own merger can put together.
    False if the trainer writes whole weights.
    """

    def command(self, spec: LaunchSpec) -> list[str]:
        """Return the command that starts `spec`, as a list of words. The command switches the
        saving of checkpoints on. Raises BadConfig if the config, or an option of `spec`, is wrong
        or contradicts the spec, and NotApplicable if this trainer cannot start what the spec
        describes.
        """

    def environment(self, spec: LaunchSpec) -> Mapping[str, str]:
        """Return the environment variables, by name, that the config itself sets for the run.
        Variables in `spec.env` win over them. Raises BadConfig if the config cannot be used.
        """

    def needs(self, spec: LaunchSpec) -> Needs:
        """Return the settings of the run that the check before a start
        (`preflight.pod_probe.at_run`) must know but cannot find in the config, because this trainer
        has other names for them than prime-rl. The keys of the result are the names that the check
        itself has for these settings. The result is empty if the check finds all of them.
        """

    def layout(self, spec: LaunchSpec) -> RunLayout:
        """Return the directories of the run that `spec` describes. They need not exist."""

    def log_sources(self, spec: LaunchSpec) -> list[LogSource]:
        """Return the logs that the newest attempt has or will have. The launcher's own output is
        not among them, because the shim (the small process that starts a run's launcher and records
        how it ends) writes that to a file of its own.
        """

    def parse_line(self, source: str, raw: bytes) -> LogLine:
        """Return the parts of `raw`, one line of the log `source`. Nothing is raised: a line that
        has no known form becomes a LogLine with its text alone.
        """

    def event(self, source: str, line: LogLine) -> Event | None:
        """Return what a line of the log `source` means, or None if it has no meaning for the agent,
        like most lines.
        """

    def event_words(self, source: str, passing: Collection[str]) -> list[str]:
        """Return a list of texts for a fast first filter of the log `source`: every line that means
        an event contains at least one of them, so lines that contain none need not be parsed. If ""
        is among the texts, any line may mean an event.

        `passing` are kinds of events in which the caller is not interested here. Lines that mean
        only such events need not contain any of the texts.
        """

    def component(self, cmdline: Sequence[str], comm: str) -> str | None:
        """Return which part of the trainer a process is, by its command line `cmdline` and its
        short name `comm`. It is one of launcher, inference, engine, worker, orchestrator, trainer
        (torchrun), rank, env-server, router, tail, or uv (a `uv run` around one of them). Return
        None for a process that is no part of the trainer.

        The name is for the screen. It does not prove that the process belongs to a run.
        """

    def recognise(self, cmdline: Sequence[str], cwd: Path) -> LaunchSpec | None:
        """Return the spec with which a launcher was started, from its command line and working
        directory. Return None if the process is not a launcher of this trainer, or if its command
        line does not show enough.
        """

    def parts(self, spec: LaunchSpec) -> Sequence[PartRule]:
        """Return the rules for the parts of this run's checkpoints, one for each part, such as the
        trainer's and the orchestrator's.
        """

    def checkpoints(self, spec: LaunchSpec) -> list[Checkpoint]:
        """Return the checkpoint of every step that any part has on the disk, complete or not,
        newest step last. The list is empty if there is none.
        """

    def resume_requested(self, spec: LaunchSpec) -> int | None:
        """Return the step from which the run resumes. `spec.resume` is used if it is set. Else the
        options of the command line and the config file say it, and the command line wins. A
        negative number means the latest step, and None a fresh start.
        """

    def metrics_path(self, spec: LaunchSpec) -> Path | None:
        """Return the path of the file to which the trainer writes the run's metrics, which need not
        exist. Return None if there is no such file for this trainer.
        """

    def metrics_record(self, raw: bytes) -> StepRecord | None:
        """Return the numbers in `raw`, one line of the metrics file, as a record of the stream
        steps/<run>, from which consoles read the training steps of a run. It has `side`, `step`,
        `log_t`, and each number that the line has. Return None if the line is none of the trainer's
        or is still being written, if it has none of the numbers that such a record can have, or if
        its time is no possible Unix time.
        """

    def tracked(
        self, spec: LaunchSpec, before: Mapping[str, str], identity: str
    ) -> Mapping[str, str]:
        """Return the environment variables that give this start one id at W&B: the one in `before`,
        which is the environment of the attempt that is continued, or else `identity` (32 hex
        digits). The result is empty if the start is not tracked, or if it takes ids as options
        (`traits.ids_as_options`).
        """

    def options(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return the options in `words`, which follow the config on a command line, as pairs of the
        key and the text that a person would type. Ids at W&B are left out.
        """

    def model(self, spec: LaunchSpec, current: Settings) -> object:
        """Return the name of the model that the run trains or serves, or None if nothing names it.
        `current` are the settings of `spec`.
        """

    def inference_url(self, spec: LaunchSpec) -> str:
        """Return the base URL (no trailing slash, no /v1) of the API of the inference engine
        itself, as it is reached on the pod, from the config or by the trainer's default. Return ""
        if the engine's address cannot be known.
        """

    def serves(self, spec: LaunchSpec) -> frozenset[int]:
        """Return the ports on which clients reach the inference server of this run: its own and
        that of the router in front of it, if there is one. The set is empty if no port is known.
        """

    def max_steps(self, spec: LaunchSpec) -> int | None:
        """Return the number of steps after which the run ends by its config, or None if no number
        is set.
        """

    def good_end(self, events: Sequence[Event]) -> bool:
        """Return True if the final lines that the trainer writes when training is complete are
        among these events: for prime-rl the orchestrator's and the trainer's. The launcher's exit
        code is not considered, because a code of 0 proves nothing.
        """
