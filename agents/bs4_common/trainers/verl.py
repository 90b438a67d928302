"""verl, 0.2 to 0.9: one driver (`python3 -m verl.trainer.main_ppo key=value ...`) with Ray's
processes below it, or torchrun's ranks under SFT.

It prints everything through its driver, so the run's own output is the log `trainer`. The file
logger's rows (`metrics`) are the better source if the version has one. Steps count from 1; step 0
is the validation before them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bs4_common.checkpoints.inventory import scan, step_directories
from bs4_common.errors import NotApplicable
from bs4_common.telemetry import StepRecord
from bs4_common.trainers import (
    FIRST_STEPS,
    launcher,
    verl_lines,
    verl_needs,
    verl_processes,
    verl_settings,
)
from bs4_common.trainers.base import (
    Checkpoint,
    Event,
    LaunchSpec,
    LogLine,
    LogSource,
    PartRule,
    RunLayout,
    StopPolicy,
    Traits,
)
from bs4_common.trainers.grammar import finished_sides
from bs4_common.trainers.settings import UNKNOWN_CONFIG, BadConfig, FlatSettings, Settings

if TYPE_CHECKING:
    from bs4_common.trainers.base import Needs

VERL = "verl"
#: The file that names the newest step that verl has saved whole. verl writes it last, and not
#: atomically.
TRACKER = "latest_checkpointed_iteration.txt"

_MODES = ("auto", "disable", "resume_path")
#: Keys that the spec decides. What a file or a word sets is replaced.
_OWNED = ("trainer.resume_mode", "trainer.resume_from_path", "hydra.run.dir")
#: Steps between checkpoints if nothing sets a number. verl's own default is to save none.
_SAVE_EVERY = 10
#: The release whose SFT trainer can resume, and the one that renamed it.
_SFT_RESUMES, _NEW_SFT = (0, 6), (0, 9)
_METRICS = re.compile(r"metrics\.(\d{1,6})\.jsonl")


def numbered(run: Path) -> dict[int, Path]:
    """Return the files `metrics.N.jsonl` in the run directory by their number N. The result is
    empty if there are none.
    """
    found = {}
    for path in run.glob("metrics.*.jsonl"):
        if match := _METRICS.fullmatch(path.name):
            found[int(match[1])] = path
    return found


def wrote(directory: Path) -> bool:
    """Return True if the directory looks like that of a verl run: verl's tracker file
    (latest_checkpointed_iteration.txt) or step directories are in it or in its `checkpoints`, or it
    has files `metrics.N.jsonl`.
    """
    for place in (directory, directory / "checkpoints"):
        if (place / TRACKER).exists() or any(place.glob("global_step_*")):
            return True
    return bool(numbered(directory))


def attempt_logs(directory: Path) -> dict[int, list[LogSource]]:
    """Return {number of an attempt: its logs} for the run whose directory is `directory`. An
    attempt is one start of the run. The only log of an attempt here is its metrics file,
    `metrics.NUMBER.jsonl`. The result is empty if there is none.
    """
    found = {}
    for number, path in numbered(directory).items():
        found[number] = [LogSource("metrics", path)]
    return found


class Verl:
    """The trainer verl, in all its releases. How releases differ is seen from their files and log
    lines; the version number is used only where a command depends on it.
    """

    id = VERL
    title = "verl"
    traits = Traits(
        sides=("trainer",),
        own_directory=True,
        awaits_leftovers=False,
        reports_exits=False,
        heartbeats=False,
        sends_by_nccl=False,
        shows_command=True,
        ids_as_options=False,
        save_key="trainer.save_freq",
        last_step_key="trainer.total_training_steps",
        gpus=None,
        classes=None,
        installed=False,
        modules=("verl",),
        wrote=wrote,
        attempt_logs=attempt_logs,
        flat=verl_settings.flat,
        recorded=verl_settings.recorded,
        phase=verl_processes.phase,
    )
    first_step = FIRST_STEPS[VERL]
    resumes: tuple[str, ...] = ("rl", "sft")
    merges = True
    # The driver ends Ray, and Ray its workers, within 5 to 10 s. Dashboard and runtime-env agents
    # stay and are ended by descent.
    stop_policy = StopPolicy("launcher", (("SIGTERM", 20.0),))

    def command(self, spec: LaunchSpec) -> list[str]:
        """Return `env VERL_FILE_LOGGER_PATH=... python3 -u -m verl.trainer.main_ppo key=value ...`
        as a list of words, or the spec's own `argv` if it has one. SFT is started through torchrun.

        The command always says in which directory verl saves checkpoints, that it saves them, and
        from which step it resumes, if it does. verl never searches the latest step itself, because
        its tracker file (latest_checkpointed_iteration.txt) may name a step that is gone. Each
        attempt has its own metrics file and Hydra directory, because verl overwrites both.

        Raises BadConfig if the config cannot be used or does not fit the spec. Raises NotApplicable
        for other components than rl and sft, and for a release whose SFT cannot resume.
        """
        if spec.argv:
            return list(spec.argv)
        if spec.component not in ("rl", "sft"):
            raise NotApplicable(
                f"verl has no component {spec.component!r} of its own; choose rl or sft."
            )
        given = verl_settings.of_file(spec)
        verl_settings.planned(spec)  # refused before the start and not passed over
        known = verl_settings.flat(spec)
        _refuse_mode(spec, known)
        if (whose := verl_settings.component_of(known)) not in (None, spec.component):
            raise BadConfig(
                f"{spec.config} holds the settings of {whose}, not of {spec.component}; "
                f"launch it with --component {whose}."
            )
        version, attempt = verl_settings.version(spec.cwd), self._next_attempt(spec)
        _refuse_resume(spec, version)
        # If a key is in both, the word wins, because Hydra refuses the same key twice.
        # A key that the file adds and a word removes must not reach Hydra at all.
        words, added = [], set()
        for key, value in given.items():
            word, bare = verl_settings.word(key, value), verl_settings.bare(key)
            if not _said(word, spec.overrides):
                words.append(word)
            if bare != key:
                added.add(f"~{bare}")
        kept = [word for word in spec.overrides if word.partition("=")[0] not in added]
        words = verl_settings.without(words + kept, _OWNED)
        where = self.layout(spec)
        if known.text("trainer.default_local_dir") is None:
            words.append(
                verl_settings.word("trainer.default_local_dir", str(where.trainer_checkpoints))
            )
        if "trainer.experiment_name" not in known and spec.config != UNKNOWN_CONFIG:
            # verl's default is one name for every run.
            words.append(verl_settings.word("trainer.experiment_name", spec.run))
        if "trainer.save_freq" not in known:
            words.append(f"trainer.save_freq={_SAVE_EVERY}")
        if (
            (loggers := verl_settings.loggers(known, version))
            and "file" in loggers
            and "file" not in _listed(known.get("trainer.logger"))
        ):
            words = [
                *verl_settings.without(words, ("trainer.logger",)),
                verl_settings.word("trainer.logger", loggers),
            ]
        words += _resuming(spec, where, version)
        words.append(
            verl_settings.word("hydra.run.dir", str(where.run_dir / "hydra" / str(attempt)))
        )
        return [*self._program(spec, attempt, version), *words]

    def environment(self, spec: LaunchSpec) -> Mapping[str, str]:
        """Return the environment variables, by name, that the config file sets for the run, and
        PYTHONPATH if verl is a submodule of the project. Raises BadConfig if the config file cannot
        be used.
        """
        return verl_settings.variables(spec)

    def needs(self, spec: LaunchSpec) -> Needs:
        """Return those settings of the run that the check before a start must know, such as the
        number of GPUs, under the names that this check has for them (see `Trainer.needs`). Raises
        BadConfig if the config cannot be used.
        """
        return verl_needs.needs(spec, {**verl_settings.variables(spec), **spec.env})

    def _program(
        self, spec: LaunchSpec, attempt: int, version: tuple[int, int] | None
    ) -> list[str]:
        """Return the words before the overrides."""
        metrics = self._run_dir(spec) / f"metrics.{attempt}.jsonl"
        env = ["env", f"VERL_FILE_LOGGER_PATH={metrics}", verl_needs.interpreter(spec), "-u"]
        if spec.component == "rl":
            return [*env, "-m", "verl.trainer.main_ppo"]
        if version is None:
            raise BadConfig(
                f"Which verl lies in {spec.cwd} is not known, and its SFT trainer has another "
                "name since 0.9; launch from a checkout, or start it by hand and adopt it."
            )
        module = "fsdp_sft_trainer"
        if version >= _NEW_SFT:
            module = "sft_trainer"
        ranks = ["--standalone", "--nnodes=1", f"--nproc_per_node={verl_needs.ranks(spec)}"]
        return [*env, "-m", "torch.distributed.run", *ranks, "-m", f"verl.trainer.{module}"]

    def layout(self, spec: LaunchSpec) -> RunLayout:
        """Return the directories of the run. They lie in `output_dir/NAME` unless the settings put
        them elsewhere.
        """
        run = self._run_dir(spec)
        rollouts = verl_settings.flat(spec).text("trainer.rollout_data_dir")
        checkpoints = self._checkpoints(spec, run)
        return RunLayout(
            output_dir=spec.output_dir,
            run_dir=run,
            trainer_checkpoints=checkpoints,
            orchestrator_checkpoints=checkpoints,
            broadcasts=run / "broadcasts",
            rollouts=run / "rollouts" if rollouts is None else spec.cwd / rollouts,
            weights=None,
            own_log="trainer",
            told=checkpoints,
        )

    def _run_dir(self, spec: LaunchSpec) -> Path:
        """Return the run's directory."""
        return spec.output_dir / (spec.trainer_name or spec.run)

    def _checkpoints(self, spec: LaunchSpec, run: Path) -> Path:
        """Return `trainer.default_local_dir` (forks of 0.2: checkpoints_dir), or else a directory
        below the run's. A finished run may have its checkpoints in the run's directory itself.
        """
        given = verl_settings.local_dir(verl_settings.flat(spec))
        if given is not None:
            return spec.cwd / given
        if (run / TRACKER).exists() or step_directories(run):
            return run
        return run / "checkpoints"

    def log_sources(self, spec: LaunchSpec) -> list[LogSource]:
        """Return the newest attempt's metrics file, as the log `metrics`. The list is empty if its
        path is not known. What the run prints is not in this list, because verl itself does not
        write it to a file: the shim does (the small process that starts a run's launcher and
        records how it ends), or the person who started the run.
        """
        path = self._metrics(spec)
        if path is not None:
            return [LogSource("metrics", path)]
        return []

    def _metrics(self, spec: LaunchSpec) -> Path | None:
        """Return the file logger's newest file, or None. It is numbered by attempt if the agent
        started the run, and otherwise named by the environment.
        """
        by_attempt = numbered(self._run_dir(spec))
        if by_attempt:
            return by_attempt[max(by_attempt)]
        if path := spec.env.get("VERL_FILE_LOGGER_PATH"):
            return spec.cwd / path
        project, name = verl_settings.names(verl_settings.flat(spec))
        if (root := spec.env.get("VERL_FILE_LOGGER_ROOT")) and project and name:
            return spec.cwd / root / project / f"{name}.jsonl"
        return None

    def _next_attempt(self, spec: LaunchSpec) -> int:
        """Return one more than the number of the run's newest metrics file or Hydra directory,
        because neither may be written twice.
        """
        run = self._run_dir(spec)
        hydra = []
        for path in (run / "hydra").glob("*"):
            if path.name.isdigit():
                hydra.append(int(path.name))
        return max([*numbered(run), *hydra], default=0) + 1

    def parse_line(self, source: str, raw: bytes) -> LogLine:
        """Return the parts of one raw line of the log `source`. Never raises."""
        return verl_lines.parse(source, raw)

    def event(self, source: str, line: LogLine) -> Event | None:
        """Return what a line of the log `source` means, or None if it means nothing."""
        return verl_lines.event(source, line)

    def event_words(self, source: str, passing: Collection[str]) -> list[str]:
        """Return a list of texts for a fast first filter of the log `source`: a line that means an
        event contains at least one of them, so a line that contains none need not be parsed.
        `passing` are kinds of events that the caller does not want; lines that mean only such
        events need not contain any of the texts. The list is empty for a log in which no line means
        an event.
        """
        return verl_lines.event_words(source, passing)

    def component(self, cmdline: Sequence[str], comm: str) -> str | None:
        """Return which part of verl a process is, such as "worker", by its command line and its
        short name `comm`. Return None for a process that is no part of verl.
        """
        return verl_processes.component(cmdline, comm)

    def recognise(self, cmdline: Sequence[str], cwd: Path) -> LaunchSpec | None:
        """Return the spec with which a process was started, if that process is verl's driver (its
        main process), or torchrun under SFT. Return None for any other process.

        The config of the returned spec is not known; the words of the process's command line are
        its overrides. Its directories are those that these words name, relative to `cwd`.
        """
        start = verl_processes.start_words(cmdline)
        if start is None:
            return None
        known = verl_settings.overrides(start.words)
        project, name = verl_settings.names(known)
        given = verl_settings.local_dir(known)
        # verl's own defaults (ppo_trainer.yaml), if no word sets it.
        default = Path("checkpoints", project or "verl_examples", name or "gsm8k")
        place = cwd / (given or default)
        words = verl_settings.without(start.words, ("hydra.run.dir",))
        if given is None:
            words.append(verl_settings.word("trainer.default_local_dir", str(place)))
        step = None
        if known.get("trainer.resume_mode") == "resume_path":
            step = _step_of(known.get("trainer.resume_from_path"))
        return LaunchSpec(
            run=launcher.run_name(name or place.name),
            trainer=VERL,
            config=UNKNOWN_CONFIG,
            cwd=cwd,
            output_dir=place.parent,
            resume=step,
            overrides=tuple(words),
            component=start.kind,
            trainer_name=place.name,
        )

    def parts(self, spec: LaunchSpec) -> Sequence[PartRule]:
        """Return the rules for the parts of a checkpoint: the actor and, under PPO, the critic.
        Under SFT the one part is the step's directory itself.

        A step is complete if verl's tracker file (latest_checkpointed_iteration.txt) names it or a
        later step. If there is no tracker file (saving in the background writes none), a step is
        complete once it has the state of the data loader, which verl writes after the models.
        """
        root = self.layout(spec).trainer_checkpoints
        steps = step_directories(root).values()
        pointer = root / TRACKER
        has_actor = not steps or any((step / "actor").is_dir() for step in steps)
        if spec.component == "sft" or not has_actor:
            return (PartRule("model", root, "", (), pointer=pointer),)
        rules = [PartRule("actor", root, "actor", (), pointer=pointer)]
        if any((step / "critic").is_dir() for step in steps):
            rules.append(PartRule("critic", root, "critic", (), pointer=pointer))
        return tuple(rules)

    def checkpoints(self, spec: LaunchSpec) -> list[Checkpoint]:
        """Return the checkpoints on the disk, newest step last. A checkpoint is in the result,
        complete or not, if at least one of its parts (such as the actor's) is on the disk.
        """
        return scan(self.parts(spec))

    def resume_requested(self, spec: LaunchSpec) -> int | None:
        """Return the step from which the run resumes. `spec.resume` is used if it is set. Else the
        options of the command line and the config file say it, and the command line wins. -1 means
        the latest step, which is verl's default, and None a fresh start.
        """
        if spec.resume is not None:
            return spec.resume
        known = verl_settings.flat(spec, spec.argv)
        mode = known.get("trainer.resume_mode", "auto")
        if mode == "resume_path":
            return _step_of(known.get("trainer.resume_from_path"))
        if mode == "disable":
            return None
        return -1

    def tracked(
        self, spec: LaunchSpec, before: Mapping[str, str], identity: str
    ) -> Mapping[str, str]:
        """Return the environment variables WANDB_RUN_ID and WANDB_RESUME, which give the run its id
        at W&B: the one in `before`, the environment of the attempt that is continued, or else
        `identity`. The result is empty if the run does not use W&B. Raises BadConfig if the config
        cannot be used.
        """
        if not self.needs(spec).get("wandb"):
            return {}
        return {"WANDB_RUN_ID": before.get("WANDB_RUN_ID") or identity, "WANDB_RESUME": "allow"}

    def options(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return Hydra's overrides (such as `key=value`) in `words`, the words of a command line,
        as pairs of the key and the word to type.
        """
        found = []
        for key, value in verl_settings.overrides(words).items():
            found.append((key, verl_settings.word(key, value)))
        return found

    def model(self, spec: LaunchSpec, current: Settings) -> object:
        """Return the path or the hub's name of the model that is trained, or "" if nothing names
        it. `current` is not used.
        """
        return verl_settings.model(verl_settings.flat(spec))

    def metrics_path(self, spec: LaunchSpec) -> Path | None:
        """Return None always, because verl's metrics file is read as a log, with the name
        `metrics`, and not as a metrics file.
        """
        # Its rows are the log `metrics`, which has the steps and their times.
        return None

    def metrics_record(self, raw: bytes) -> StepRecord | None:
        """Return None always, because verl's metrics file is read as a log with the name `metrics`
        instead.
        """
        return None

    def inference_url(self, spec: LaunchSpec) -> str:
        """Return "", because the inference engine has no address that is known: it lives in the
        workers, or listens on a port that Ray has chosen.
        """
        return (
            ""  # the rollout engine lives in the workers, or listens on a port that Ray has chosen
        )

    def serves(self, spec: LaunchSpec) -> frozenset[int]:
        """Return an empty set, because no port of verl's inference engine is known."""
        return frozenset()

    def max_steps(self, spec: LaunchSpec) -> int | None:
        """Return the number of steps after which the run ends by its settings, or else the number
        that its config file plans. Return None if there is neither.
        """
        known = verl_settings.flat(spec)
        return known.integer("trainer.total_training_steps") or known.integer(verl_settings.PLANNED)

    def good_end(self, events: Sequence[Event]) -> bool:
        """Return True if verl's final line, the one of its last validation, is among the events.
        verl writes it even if there was no validation.
        """
        return "trainer" in finished_sides(events)


def _refuse_mode(spec: LaunchSpec, known: FlatSettings) -> None:
    """Raise BadConfig for an unknown resume mode or a resume at a step below 1."""
    mode = known.get("trainer.resume_mode", "auto")
    # A run that was started by hand is started again with a mode from here, whatever its own mode
    # was.
    if mode not in _MODES and spec.config != UNKNOWN_CONFIG:
        raise BadConfig(
            f"trainer.resume_mode={mode!r} is no mode: up to 0.8 verl would resume the latest "
            "checkpoint, 0.9 would crash. Use disable, or leave it out: a launch from here says "
            "which step it resumes from."
        )
    if spec.resume is not None and spec.resume < 1:
        raise BadConfig(
            f"verl counts steps from 1, so {spec.run} cannot resume from step {spec.resume}; "
            "start it afresh."
        )


def _said(word: str, overrides: Sequence[str]) -> bool:
    """Return True if the key of this override is set or removed in `overrides`."""
    key = word.partition("=")[0].lstrip("+")
    return any(other.partition("=")[0].lstrip("+~") == key for other in overrides)


def _refuse_resume(spec: LaunchSpec, version: tuple[int, int] | None) -> None:
    """Raise NotApplicable if this release's SFT trainer cannot resume and the spec does."""
    if (
        spec.component == "sft"
        and spec.resume is not None
        and version is not None
        and version < _SFT_RESUMES
    ):
        raise NotApplicable(
            f"The SFT trainer of verl {version[0]}.{version[1]} cannot resume; install 0.6 or "
            f"later, or start {spec.run} afresh with --fresh."
        )


def _listed(given: object) -> list[object]:
    """Return a value as a list."""
    if isinstance(given, (list, tuple)):
        return list(given)
    return [given]


def _resuming(spec: LaunchSpec, where: RunLayout, version: tuple[int, int] | None) -> list[str]:
    """Return the overrides that make the run resume or start afresh."""
    if spec.resume is None:
        if spec.component == "sft" and (version is None or version < _SFT_RESUMES):
            return []  # its SFT trainer does not resume at all
        return ["trainer.resume_mode=disable", "trainer.resume_from_path=null"]
    place = where.trainer_checkpoints / f"global_step_{spec.resume}"
    return [
        "trainer.resume_mode=resume_path",
        verl_settings.word("trainer.resume_from_path", str(place)),
    ]


def _step_of(path: object) -> int | None:
    """Return the step in the name of a checkpoint's directory, or None."""
    match = re.search(r"global_step_(\d{1,12})/?$", path) if isinstance(path, str) else None
    return int(match[1]) if match else None
