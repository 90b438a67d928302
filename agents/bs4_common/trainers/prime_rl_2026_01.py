"""prime-rl as of 2026-01-07 (a24ec986b): four processes that communicate through files below one
output directory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from bs4_common.telemetry import StepRecord
from bs4_common.trainers import FIRST_STEPS, launcher, settings
from bs4_common.trainers.base import (
    ConfigClasses,
    GpuSettings,
    LaunchSpec,
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
from bs4_common.trainers.prime_rl_2026_01_lines import RULES
from bs4_common.trainers.settings import BadConfig, Settings

_RUN = "run_default"
#: Console scripts (pyproject.toml of a24ec986b), and the modules that docs/deployment.md gives to
#: torchrun for several ranks.
_SCRIPTS = {
    "rl": "rl",
    "inference": "inference",
    "orchestrator": "orchestrator",
    "trainer": "trainer",
    "sft": "sft",
    "eval": "eval",
}
_MODULES = {"trainer": "prime_rl.trainer.rl.train", "sft": "prime_rl.trainer.sft.train"}
#: The names come from each component's own entry point, at a24ec986b.
_CLASSES = ConfigClasses(
    ("prime_rl.utils.pydantic_config", "parse_argv"),
    {
        "rl": ("prime_rl.rl", "RLConfig"),
        "trainer": ("prime_rl.trainer.rl.config", "RLTrainerConfig"),
        "orchestrator": ("prime_rl.orchestrator.config", "OrchestratorConfig"),
        "inference": ("prime_rl.inference.config", "InferenceConfig"),
        "sft": ("prime_rl.trainer.sft.config", "SFTTrainerConfig"),
        "eval": ("prime_rl.eval.config", "OfflineEvalConfig"),
    },
)


def wrote(directory: Path) -> bool:
    """Return True if the directory looks like the output directory of a run of prime-rl's version
    of January 2026: it has `run_default`, or the output of a launcher's children.
    """
    return (directory / _RUN).is_dir() or any((directory / "logs").glob("*.stdout"))


def saved(directory: Path) -> bool:
    """Return True if `directory` has checkpoints that lie as those of prime-rl's version of January
    2026 do: with separate weights or torchrun's logs beside them, and without an orchestrator's
    part.
    """
    beside = (directory / "weights").is_dir() or (directory / "torchrun").is_dir()
    steps = list((directory / "checkpoints").glob("step_*"))
    return beside and bool(steps) and not any((step / "orchestrator").is_dir() for step in steps)


class PrimeRl2026_01(PrimeRlTrainer):  # noqa: N801  (the generation's name is its date)
    """The trainer prime-rl in its version of January 2026. Its steps count from 0."""

    id = launcher.V2026_01
    title = "prime-rl (2026-01)"
    traits = Traits(
        sides=("trainer", "orchestrator"),
        own_directory=False,
        awaits_leftovers=True,
        reports_exits=True,
        heartbeats=False,
        sends_by_nccl=False,
        shows_command=False,
        ids_as_options=True,
        save_key="ckpt",
        last_step_key="max_steps",
        gpus=GpuSettings("trainer_gpu_ids", "inference_gpu_ids", counted=False),
        classes=_CLASSES,
        installed=True,
        wrote=wrote,
        saved=saved,
        log_suffix=".stdout",
    )
    first_step = FIRST_STEPS[launcher.V2026_01]
    # SIGTERM to the launcher orphans every child, and SIGINT to it alone takes 16 s of joins before
    # the first child gets it. So all processes get SIGINT at once. A launcher that was started with
    # `&` ignores SIGINT, hence SIGTERM.
    stop_policy = StopPolicy("tree", (("SIGINT", 30.0), ("SIGTERM", 20.0), ("SIGKILL", 5.0)))

    _grammar = Grammar(RULES)
    # `weights/step_N` in 16 bits: 16 GB of the 47 GB that 8B took.
    _weights_beside = 2.0

    def command(self, spec: LaunchSpec) -> list[str]:
        """Return `uv run rl @ CONFIG ... --output-dir OUT --ckpt [--ckpt.interval N]
        [--ckpt.resume-step N]` as a list of words, or the spec's own `argv` if it has one. For a
        component that is started apart, the script is the component's instead of `rl`.

        Raises BadConfig if the config or the options resume although the spec starts afresh. Raises
        NotApplicable for a component that this version of prime-rl does not have.
        """
        if spec.argv:
            return list(spec.argv)
        current = settings.settings_of(spec)
        words = program(spec, _SCRIPTS, _MODULES) + named(spec, current)
        words += settings.without(spec.overrides, _OWNED)
        if spec.component == "inference":
            return words
        # Values are words of their own, because this generation turns every `_` of `--key=value`
        # into `-`, also in the value.
        words += [
            "--output-dir",
            str(spec.output_dir / _RUN if spec.component == "orchestrator" else spec.output_dir),
        ]
        if spec.component == "eval":
            return words
        words += checkpointing(current)
        if spec.resume is not None:
            words += ["--ckpt.resume-step", str(spec.resume)]
        elif (asked := _resume(current)) is not None:
            raise BadConfig(
                f"{spec.run} is to start afresh, but its config or options set ckpt.resume_step "
                f"to {asked}; remove it there, or resume from an explicit step."
            )
        if spec.resume == 0 and spec.component == "rl" and "--no-clean" not in words:
            # The launcher tests `if ckpt.resume_step`: with 0 its default clean deletes the
            # broadcasts that a resume at 0 reads.
            words.append("--no-clean")
        return words

    def layout(self, spec: LaunchSpec) -> RunLayout:
        """Return the directories of the run, which lie in `output_dir` and in
        `output_dir/run_default`.
        """
        out = spec.output_dir
        run = out / _RUN
        return RunLayout(
            output_dir=out,
            run_dir=run,
            trainer_checkpoints=out / "checkpoints",
            orchestrator_checkpoints=run / "checkpoints",
            broadcasts=run / "broadcasts",
            rollouts=run / "rollouts",
            weights=out / "weights",
            # rl.py's default clean, and Packer.__init__ (both of 2026-01-07).
            wiped=(run / "rollouts", out / "rollouts"),
            # sft is a trainer without a launcher, so all output is the trainer's.
            own_log="trainer" if spec.component == "sft" else "launcher",
        )

    def log_sources(self, spec: LaunchSpec) -> list[LogSource]:
        """Return the logs of a whole training (component "rl"): the files into which the launcher
        writes the output of its children, or a child's own log file in place of one that is not
        there. The list is empty if `spec` starts a single component, which has no launcher.
        """
        if spec.component != "rl":
            return []
        logs = spec.output_dir / "logs"
        trainer = _first_existing(logs / "trainer.stdout", logs / "trainer" / "rank_0.log")
        orchestrator = _first_existing(
            logs / "orchestrator.stdout", spec.output_dir / _RUN / "logs" / "orchestrator.log"
        )
        sources = [
            LogSource("trainer", trainer),
            LogSource("orchestrator", orchestrator),
            LogSource("inference", logs / "inference.stdout"),
        ]
        teacher = logs / "teacher_inference.stdout"
        if teacher.exists():
            sources.append(LogSource("inference-teacher", teacher))
        return sources

    def recognise(self, cmdline: Sequence[str], cwd: Path) -> LaunchSpec | None:
        """Return the spec of a launcher process `python .../bin/rl @ cfg ...` or `uv run rl @ cfg
        ...`. Return None for any other process, and if something shows that it belongs to current
        prime-rl.
        """
        found = launcher.launch_words(cmdline)
        if found is None:
            return None
        words, script = found
        spec = resolved(self.id, words, cwd)
        if spec is None:
            return None
        current = settings.settings_of(spec, watching=True)
        if launcher.generation(script, cwd, current.arguments, current) == launcher.CURRENT:
            return None
        return _described(spec, current, cwd)

    def parts(self, spec: LaunchSpec) -> Sequence[PartRule]:
        """Return the rules for the parts of a checkpoint. A resume needs the trainer's and the
        orchestrator's part and, if weights are passed on as files, the part "broadcast": the
        weights that the orchestrator loads into the inference engine.

        The trainer's part is complete once the file `.metadata` is there. The orchestrator's needs
        progress.pt and, unless skip_buffer is set, buffer/rollout_buffer.jsonl. The broadcast needs
        the file STABLE. No file shows if the part "weights" is complete, and nothing resumes from
        it.
        """
        current = settings.settings_of(spec, watching=True)
        where = self.layout(spec)
        by_file = (
            current.first("weight_broadcast.type", "orchestrator.weight_broadcast.type")
            or "filesystem"
        ) == "filesystem"
        skip_buffer = current.get("orchestrator.ckpt.skip_buffer") in (True, "true", "True")
        orchestrator = (
            ("progress.pt",) if skip_buffer else ("progress.pt", "buffer/rollout_buffer.jsonl")
        )
        return (
            PartRule("trainer", where.trainer_checkpoints, "trainer", (".metadata",)),
            PartRule("orchestrator", where.orchestrator_checkpoints, "orchestrator", orchestrator),
            PartRule("broadcast", where.broadcasts, "", ("STABLE",), required=by_file),
            PartRule("weights", spec.output_dir / "weights", "", (), required=False),
        )

    def resume_requested(self, spec: LaunchSpec) -> int | None:
        """Return the step from which the run resumes. `spec.resume` is used if it is set. Else the
        options of the command line and the config file say it, and the command line wins. A
        negative number means the latest step, and None a fresh start.
        """
        if spec.resume is not None:
            return spec.resume
        return _resume(settings.settings_of(spec, watching=True))

    def inference_url(self, spec: LaunchSpec) -> str:
        """Return the base URL of the inference engine, on port 8000 of this machine unless the
        config sets another address. If the config starts no engine (it has no [inference] table)
        but sets the address to which the orchestrator, or `eval`, connects, return that address.
        """
        current = settings.settings_of(spec, watching=True)
        client = "client" if spec.component == "eval" else "orchestrator.client"
        base = current.get(f"{client}.base_url")
        if base is not None and current.get("inference") is None:
            return client_url(base)
        port = current.integer("inference.server.port") or 8000
        host = launcher.reachable(current.text("inference.server.host"))
        return checked_url(f"http://{host}:{port}")

    def serves(self, spec: LaunchSpec) -> frozenset[int]:
        """Return a set with one number: the port on which clients reach the inference server."""
        return port_of(self.inference_url(spec))

    def metrics_path(self, spec: LaunchSpec) -> Path | None:
        """Return None, because this version of prime-rl writes no metrics file. It sends metrics to
        W&B or Prime's monitor.
        """
        return None  # W&B or Prime's monitor only

    def metrics_record(self, raw: bytes) -> StepRecord | None:
        """Return None, because this version of prime-rl writes no metrics file."""
        return None


#: Options that the spec decides. They are replaced in an adopted or relaunched command line.
_OWNED = (
    "output_dir",
    "ckpt.resume_step",
    "trainer.ckpt.resume_step",
    "orchestrator.ckpt.resume_step",
)


def _resume(current: Settings) -> int | None:
    """Return the step that config and options resume from, negative for the latest, or None to
    start afresh.
    """
    return current.integer(
        "ckpt.resume_step", "trainer.ckpt.resume_step", "orchestrator.ckpt.resume_step"
    )


def _described(spec: LaunchSpec, current: Settings, cwd: Path) -> LaunchSpec:
    """Return the spec with what its config adds: the output directory, the name, and the step it
    resumed from.
    """
    out = cwd / (current.text("output_dir") or "outputs")
    asked = _resume(current)
    name = current.text("wandb.name") or (out.name if out.name != "outputs" else spec.config.stem)
    overrides = settings.without(spec.overrides, _OWNED)
    if asked is not None and asked < 0:
        # "the latest" is no step, so it stays in the options.
        overrides += [
            "--ckpt.resume-step",
            str(asked),
        ]
        asked = None
    return dataclasses.replace(
        spec, run=launcher.run_name(name), output_dir=out, resume=asked, overrides=tuple(overrides)
    )


def _first_existing(preferred: Path, other: Path) -> Path:
    """Return `other` if only that file exists, and `preferred` otherwise."""
    if other.exists() and not preferred.exists():
        return other
    return preferred
