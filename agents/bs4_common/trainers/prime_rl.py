"""prime-rl as of 2026-08-21 (559b44772), the current generation: one flat directory for each run,
JSON logs, and a log directory for each attempt.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_common.errors import NotApplicable
from bs4_common.files import foreign_object
from bs4_common.telemetry import StepRecord
from bs4_common.trainers import FIRST_STEPS, launcher, settings
from bs4_common.trainers.base import (
    ConfigClasses,
    Event,
    GpuSettings,
    LaunchSpec,
    LogLine,
    LogSource,
    PartRule,
    RunLayout,
    StopPolicy,
    Traits,
)
from bs4_common.trainers.command import (
    PrimeRlTrainer,
    checked_url,
    checkpointing,
    client_url,
    named,
    port_of,
    program,
    resolved,
)
from bs4_common.trainers.grammar import Grammar
from bs4_common.trainers.prime_rl_lines import RULES
from bs4_common.trainers.prime_rl_metrics import record
from bs4_common.trainers.settings import BadConfig, Settings

#: Options that the spec decides, and those that must never be passed to this generation.
_OWNED = (
    "output_dir",
    "run.name",
    "resume",
    "resume.step",
    "resume.dir",
    "clean",
    "log.json_logging",
)
#: Progress records of JSON logs, as `lines` writes them.
_PROGRESS = re.compile(
    r"(?P<desc>.{1,200}): (?P<percent>\d{1,15})% "
    r"(?P<current>\d{1,15})/(?P<total>\d{1,15})(?: \(step (?P<step>\d{1,15})\))?"
)
#: Console scripts (pyproject.toml of 559b44772). `sft` and `rl` start torchrun themselves.
_SCRIPTS = {
    "rl": "rl",
    "inference": "inference",
    "orchestrator": "orchestrator",
    "trainer": "trainer",
    "sft": "sft",
    "eval": "evals",
}
_MODULES = {"trainer": "prime_rl.trainer.rl.train"}
_ATTEMPT = re.compile(r"attempt_(\d{1,9})")
#: The step that a "resume" without a step means.
_LATEST = -1
#: Both sides read the run's id at W&B from this variable.
_RUN_ID = "PRL_RUN_ID"
#: The names come from each component's own entry point, at 559b44772.
_CLASSES = ConfigClasses(
    ("prime_rl.utils.config", "cli"),
    {
        "rl": ("prime_rl.configs.rl", "RLConfig"),
        "trainer": ("prime_rl.configs.trainer", "TrainerConfig"),
        "orchestrator": ("prime_rl.configs.orchestrator", "OrchestratorConfig"),
        "inference": ("prime_rl.configs.inference", "InferenceConfig"),
        "sft": ("prime_rl.configs.sft", "SFTConfig"),
        "eval": ("prime_rl.configs.evals", "EvalsConfig"),
    },
    takes_words=True,
)


def wrote(directory: Path) -> bool:
    """Return True if the directory looks like that of a run of current prime-rl: it has the logs of
    an attempt.
    """
    logs = directory / "logs"
    return (logs / "latest").exists() or any(logs.glob("attempt_*"))


def saved(directory: Path) -> bool:
    """Return True if `directory` has checkpoints of prime-rl in any of its versions. To learn the
    version, ask the `saved` of prime-rl's version of January 2026 first.
    """
    return any((directory / "checkpoints").glob("step_*"))


def attempt_logs(directory: Path) -> dict[int, list[LogSource]]:
    """Return the logs in `directory`, the directory of a run, by the number of their attempt."""
    found = {}
    for number, path in attempts_in(directory / "logs").items():
        found[number] = sources_in(path)
    return found


class PrimeRl(PrimeRlTrainer):
    """The trainer prime-rl in its current version, which came after that of January 2026. Its steps
    count from 1, its policy versions from 0.
    """

    id = launcher.CURRENT
    title = "prime-rl"
    traits = Traits(
        sides=("trainer", "orchestrator"),
        own_directory=True,
        awaits_leftovers=False,
        reports_exits=True,
        heartbeats=True,
        sends_by_nccl=True,
        shows_command=False,
        ids_as_options=False,
        save_key="ckpt",
        last_step_key="max_steps",
        gpus=GpuSettings("deployment.num_train_gpus", "deployment.num_infer_gpus", counted=True),
        classes=_CLASSES,
        installed=True,
        wrote=wrote,
        saved=saved,
        attempt_logs=attempt_logs,
    )
    first_step = FIRST_STEPS[launcher.CURRENT]
    # The launcher handles SIGTERM itself and then ends its children one by one: 23 s measured, 60 s
    # for each that does not react. So the wait is 90 s.
    stop_policy = StopPolicy("launcher", (("SIGTERM", 90.0),))

    _grammar = Grammar(RULES)

    def command(self, spec: LaunchSpec) -> list[str]:
        """Return `uv run rl @ CONFIG ... --output-dir OUT --run.name NAME --log.json-logging --ckpt
        [--ckpt.interval N] [--resume.step N]` as a list of words, or the spec's own `argv` if it
        has one.

        `--clean` is never in it, because it removes the run directory with its checkpoints; if the
        config asks for that, `--no-clean` is added. A bare `--resume` is never in it, because
        prime-rl then takes the directory with the highest step, complete or not.

        Raises BadConfig for a resume at step 0 (steps count from 1), for a config or options that
        resume although the spec starts afresh, and for a dry run. Raises NotApplicable for Slurm
        and for a component that current prime-rl does not have.
        """
        if spec.argv:
            return list(spec.argv)
        current = settings.settings_of(spec)
        _refuse(spec, current)
        words = program(spec, _SCRIPTS, _MODULES) + named(spec, current)
        words += settings.without(spec.overrides, _OWNED)
        if spec.component == "inference":
            return words
        if spec.component in ("rl", "sft"):
            words += [
                "--output-dir",
                str(spec.output_dir),
                "--run.name",
                spec.trainer_name or spec.run,
            ]
        else:  # the launcher gives its children the run directory itself
            words += ["--output-dir", str(self._run_dir(spec))]
        if not any(
            isinstance(current.get(f"{part}.log.json_logging"), bool)
            for part in ("trainer", "orchestrator", "inference")
        ):
            words.append("--log.json-logging")
        if spec.component == "eval":
            return words
        words += checkpointing(current)
        if current.get("clean") not in (None, False):
            words.append("--no-clean")
        if spec.resume is not None:
            words += ["--resume.step", str(spec.resume)]
            # The two options exclude each other, and the file's resume.dir cannot be removed in any
            # other way.
            if current.get("resume.dir") is not None:
                words += ["--resume.dir", "None"]
        return words

    def layout(self, spec: LaunchSpec) -> RunLayout:
        """Return the directories of the run. They lie in `output_dir/NAME`, except for the
        trainer's checkpoints if the config puts them elsewhere.
        """
        run = self._run_dir(spec)
        checkpoints = run / "checkpoints"
        elsewhere = self._checkpoint_dir(spec, run)
        return RunLayout(
            output_dir=spec.output_dir,
            run_dir=run,
            trainer_checkpoints=checkpoints if elsewhere is None else elsewhere / "checkpoints",
            # The orchestrator has no such option and stays in the run directory.
            orchestrator_checkpoints=checkpoints,
            broadcasts=run / "broadcasts",
            rollouts=run / "rollouts",
            fresh_needs_empty=True,
            weights=None,
        )

    def _run_dir(self, spec: LaunchSpec) -> Path:
        """Return the run's directory."""
        name = (
            settings.settings_of(spec, watching=True).text("run.dir")
            or spec.trainer_name
            or spec.run
        )
        return spec.output_dir / name

    def _checkpoint_dir(self, spec: LaunchSpec, run: Path) -> Path | None:
        """Return `ckpt.output_dir`, from the run's own resolved config if it exists, or None if it
        is not set.
        """
        written = _resolved(run, "trainer").get("ckpt.output_dir")
        text = written or settings.settings_of(spec, watching=True).text(
            "ckpt.output_dir", "trainer.ckpt.output_dir"
        )
        return spec.cwd / str(text) if text else None

    def log_sources(self, spec: LaunchSpec) -> list[LogSource]:
        """Return the logs of the newest attempt, in `logs/attempt_N`. The link `logs/latest` is not
        used for their paths, because the next attempt moves it. The list is empty for a component
        that was started apart from the launcher.
        """
        if spec.component not in ("rl", "sft"):
            return []
        newest = _newest_attempt(self._run_dir(spec) / "logs")
        if spec.component == "rl":
            return sources_in(newest)
        served = []
        for log in (*sources_in(newest), LogSource("evals", newest / "evals.log")):
            there = log.source == "trainer" or log.path.exists()
            if there and log.source != "orchestrator":
                served.append(log)
        return served

    def event(self, source: str, line: LogLine) -> Event | None:
        """Return what a line of the log `source` means, or None if it means nothing. A progress
        record of the orchestrator is an event of kind heartbeat.
        """
        if (
            line.logger == "progress"
            and source == "orchestrator"
            and (match := _PROGRESS.fullmatch(line.text))
        ):
            values: dict[str, Any] = {"desc": match["desc"]}
            for name in ("percent", "current", "total"):
                values[name] = int(match[name])
            step = match["step"]
            return Event("heartbeat", source, values, None if step is None else int(step))
        return super().event(source, line)

    def recognise(self, cmdline: Sequence[str], cwd: Path) -> LaunchSpec | None:
        """Return the spec of a process `rl @ cfg ...` of current prime-rl whose options or config
        name the run. Return None for any other process.

        A launcher hides its command line behind a title within seconds, and a run without a name in
        the config gets one that no command shows. `registry.recognise_tree` recognises these from
        the processes around them.
        """
        found = launcher.launch_words(cmdline)
        if found is None:
            return None
        words, script = found
        spec = resolved(self.id, words, cwd)
        if spec is None:
            return None
        current = settings.settings_of(spec, watching=True)
        if launcher.generation(script, cwd, current.arguments, current) != launcher.CURRENT:
            return None
        if current.text("run.dir", "run.name") is None:
            return None
        return described(spec)

    def parts(self, spec: LaunchSpec) -> Sequence[PartRule]:
        """Return the rules for the two parts of a checkpoint, the trainer's and the orchestrator's.
        Each is complete once the file that is written last is there: `.metadata` (of torch's
        distributed checkpoints) in the trainer's, and progress.pt in the orchestrator's.
        """
        where = self.layout(spec)
        return (
            PartRule("trainer", where.trainer_checkpoints, "trainer", (".metadata",)),
            PartRule(
                "orchestrator", where.orchestrator_checkpoints, "orchestrator", ("progress.pt",)
            ),
        )

    def resume_requested(self, spec: LaunchSpec) -> int | None:
        """Return the step from which the run resumes. `spec.resume` is used if it is set. Else the
        options of the command line and the config file say it, and the command line wins. -1 means
        the latest step, and None a fresh start.
        """
        if spec.resume is not None:
            return spec.resume
        return _asked(settings.settings_of(spec, watching=True))

    def tracked(
        self, spec: LaunchSpec, before: Mapping[str, str], identity: str
    ) -> Mapping[str, str]:
        """Return the environment variable PRL_RUN_ID, from which trainer and orchestrator take the
        run's id at W&B. Its value is the one in `before`, the environment of the attempt that is
        continued, or else `identity`. The result is empty for a component that is not tracked at
        W&B.
        """
        if spec.component not in ("rl", "sft"):
            return {}
        return {_RUN_ID: before.get(_RUN_ID) or identity}

    def inference_url(self, spec: LaunchSpec) -> str:
        """Return the base URL of the inference engine itself, not of the router in front of it,
        because the router answers even for an engine that hangs.

        With a router (the default) the engine's port is backend_port, or server.port + 100 if that
        is not set. The config that the launcher wrote for this run wins over the one with which it
        was started.
        """
        current = settings.settings_of(spec, watching=True)
        if written := _resolved(self._run_dir(spec), "inference").data:
            current = Settings({"inference": written})
        base = current.first(*_CLIENT)
        if base is not None and current.get("inference") is None:
            return client_url(base)
        port = current.integer("inference.server.port") or 8000
        if not current.null("inference.router"):
            port = current.integer("inference.backend_port") or port + 100
        host = launcher.reachable(current.text("inference.server.host"))
        return checked_url(f"http://{host}:{port}")

    def serves(self, spec: LaunchSpec) -> frozenset[int]:
        """Return the ports on which clients reach the inference server: the router's and the
        engine's.
        """
        router = settings.settings_of(spec, watching=True).integer("inference.server.port") or 8000
        return port_of(self.inference_url(spec)) | {router}

    def metrics_path(self, spec: LaunchSpec) -> Path | None:
        """Return the path of the run's metrics file, which need not exist: metrics.jsonl in the run
        directory, or the file that the config names.
        """
        name = settings.settings_of(spec, watching=True).text(
            "monitors.file.path", "trainer.monitors.file.path"
        )
        return self._run_dir(spec) / (name or "metrics.jsonl")

    def metrics_record(self, raw: bytes) -> StepRecord | None:
        """Return a StepRecord (a record of the stream steps/RUN) with the numbers in `raw`, one
        line of the metrics file. They have the keys and units of such a record. Return None if the
        line has no such numbers or cannot be read as a row of numbers.
        """
        return record(raw)


#: The keys of the address of a server that the launcher does not start. The admin address is the
#: engine; the other one may be a router.
_CLIENT = ("orchestrator.model.client.admin_base_url", "orchestrator.model.client.base_url")


def described(spec: LaunchSpec, run_dir: Path | None = None) -> LaunchSpec:
    """Return `spec`, which has only what a command line says, completed by what its config says:
    the output directory, the name of the run, and the step from which it resumed.

    `run_dir` is the run directory that the run's processes were seen to use, or None. It wins over
    the config, and it is the only place that shows a name that prime-rl made up.
    """
    current = settings.settings_of(spec, watching=True)
    out = spec.cwd / (current.text("output_dir") or "outputs")
    name, directory = current.text("run.name"), current.text("run.dir", "run.name")
    if run_dir is not None and run_dir != out / (directory or ""):
        if out not in run_dir.parents:
            out = run_dir.parent
        directory = str(run_dir.relative_to(out))
    directory = directory or spec.config.stem
    name = name or directory
    asked = _asked(current)
    overrides = settings.without(spec.overrides, (*_OWNED, "run.dir"))
    if directory != name:
        overrides += ["--run.dir", directory]
    # "the latest" is no step, so it stays in the options.
    if asked == _LATEST:
        overrides.append("--resume")
    return dataclasses.replace(
        spec,
        run=launcher.run_name(directory),
        output_dir=out,
        trainer_name=name,
        resume=None if asked == _LATEST else asked,
        overrides=tuple(overrides),
    )


def _refuse(spec: LaunchSpec, current: Settings) -> None:
    """Raise BadConfig or NotApplicable if this must not be launched."""
    if current.get("slurm") is not None:
        raise NotApplicable(
            f"{spec.run} is a Slurm job by its config; submit it by hand, it can be watched "
            "but not started from here."
        )
    if current.get("dry_run") not in (None, False):
        raise BadConfig(
            f"{spec.run} would only be a dry run, which cleans the run directory all the "
            "same; remove dry_run."
        )
    asked = _asked(current)
    if spec.resume is not None and spec.resume < 1:
        raise BadConfig(
            f"prime-rl counts steps from 1, so {spec.run} cannot resume from step "
            f"{spec.resume}; start it afresh."
        )
    if spec.resume is None and asked is not None:
        what = "the largest step directory, whole or not"
        if asked != _LATEST:
            what = f"step {asked}"
        raise BadConfig(
            f"{spec.run} is to start afresh, but its config or options resume from {what}; remove "
            "that, or resume from an explicit step (`bs4-console checkpoints list` shows the "
            "complete ones)."
        )


def _asked(current: Settings) -> int | None:
    """Return the step that config and options resume from, -1 for the latest, or None to start
    afresh.
    """
    if current.get("resume") in (None, False):
        return None
    if (step := current.integer("resume.step")) is not None:
        return step
    number = Path(current.text("resume.dir") or "").name.removeprefix("step_")
    if re.fullmatch(r"[0-9]{1,9}", number) is not None:
        return int(number)
    return _LATEST


def _resolved(run_dir: Path, component: str) -> Settings:
    """Return the config that the launcher resolved for a component. Empty before the launcher wrote
    it; a half-written file counts as not written.
    """
    return Settings(foreign_object(run_dir / "configs" / f"{component}.json"))


def sources_in(logs: Path) -> list[LogSource]:
    """Return the logs of one attempt, whose directory is `logs`: the trainer's, the orchestrator's,
    the inference server's, and one for each environment that has a log. The first three need not
    exist.
    """
    sources = [
        LogSource(name, logs / f"{name}.log") for name in ("trainer", "orchestrator", "inference")
    ]
    for split, prefix in (("train", "env-"), ("eval", "env-eval-")):
        root = logs / "envs" / split
        for path in sorted(root.rglob("*.log")):
            # An environment's name may contain `/` (owner/name), which is then a directory here.
            name = str(path.relative_to(root).with_suffix(""))
            sources.append(LogSource(prefix + launcher.run_name(name), path))
    return sources


def attempts_in(logs: Path) -> dict[int, Path]:
    """Return the directories `attempt_N` in the directory `logs` as {N: path}, lowest number first.
    The dictionary is empty if there are none.
    """
    found = _attempts(logs)
    rows = {}
    for number in sorted(found):
        if found[number].is_dir():
            rows[number] = found[number]
    return rows


def _attempts(logs: Path) -> dict[int, Path]:
    """Return the paths `logs/attempt_N` by number."""
    found = {}
    for path in logs.glob("attempt_*"):
        if match := _ATTEMPT.fullmatch(path.name):
            found[int(match[1])] = path
    return found


def _newest_attempt(logs: Path) -> Path:
    """Return the directory `logs/attempt_N` to which `latest` points. Without the link it is the
    largest N, and before the first launch attempt_1.
    """
    latest = logs / "latest"
    if (
        latest.is_symlink()
        and _ATTEMPT.fullmatch(str(target := latest.readlink()))
        and (logs / target).is_dir()
    ):
        return logs / target
    return logs / f"attempt_{max(_attempts(logs), default=1)}"
