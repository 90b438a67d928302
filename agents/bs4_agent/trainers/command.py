"""Compose the parts of a command line that both prime-rl generations have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bs4_agent.errors import NotApplicable
from bs4_agent.trainers import launcher, settings
from bs4_agent.trainers.base import LaunchSpec
from bs4_agent.trainers.settings import Settings

#: Steps between checkpoints if the config names none. At the 3 to 5 minutes a step that users of
#: 7-8B models report, 10 steps are at most 50 minutes of lost work. keep_last is never added,
#: because it makes the trainer delete, which is for the user to order.
CHECKPOINT_INTERVAL = 10


def named(spec: LaunchSpec, current: Settings) -> list[str]:
    """Return the words that name the config: `@` and the file. Neither generation understands
    `@FILE` as one word. Empty if the config is among the options already.
    """
    if str(spec.config) in {path for _, path in current.arguments.nested}:
        return []  # `--trainer @ a --orchestrator @ b`: the files are among the options
    return ["@", str(spec.config)]


def checkpointing(current: Settings) -> list[str]:
    """Return the words that switch checkpointing on, as far as config and options have not done it.
    Empty if `--no-ckpt` forbids it.

    `--ckpt` keeps the values of a [ckpt] table in the file. Without an interval only the last step
    would be saved, which recovers nothing, so an interval is added if neither file nor options set
    one. 0 counts as set: never in between.
    """
    given = current.arguments.last("ckpt")
    if given is False:
        return []
    words = [] if given is True else ["--ckpt"]
    if (
        current.first("ckpt.interval", "trainer.ckpt.interval", "orchestrator.ckpt.interval")
        is None
    ):
        words += ["--ckpt.interval", str(CHECKPOINT_INTERVAL)]
    return words


def program(spec: LaunchSpec, scripts: Mapping[str, str], modules: Mapping[str, str]) -> list[str]:
    """Return `uv run SCRIPT`, or torchrun around the component's module if it has several ranks.
    `scripts` and `modules` map components to them.

    Raises NotApplicable for a component that this generation does not have, or that starts its
    ranks itself.
    """
    if spec.component not in scripts:
        raise NotApplicable(
            f"{spec.trainer} has no component {spec.component!r}; choose {', '.join(scripts)}."
        )
    if spec.processes == 1:
        return ["uv", "run", scripts[spec.component]]
    if spec.component not in modules:
        raise NotApplicable(
            f"{spec.component} of {spec.trainer} starts its processes itself; its config "
            "says how many. Leave --processes out."
        )
    return [
        "uv",
        "run",
        "torchrun",
        "--nproc-per-node",
        str(spec.processes),
        "-m",
        modules[spec.component],
    ]


def resolved(trainer: str, words: Sequence[str], cwd: Path) -> LaunchSpec | None:
    """Return the spec that the words after `rl` describe, as far as the words alone say it. None if
    they name no file.
    """
    arguments = settings.parse_arguments(words)
    config = arguments.config or next((path for _, path in arguments.nested), None)
    if config is None:
        return None
    return LaunchSpec(
        run="run",
        trainer=trainer,
        config=Path(config),
        cwd=cwd,
        output_dir=cwd / "outputs",
        overrides=tuple(_options(words)),
    )


def standalone_inference(trainer: str, cmdline: Sequence[str], cwd: Path) -> LaunchSpec | None:
    """Return the spec of an inference server that a person started apart from a launcher, to be
    started again by the same words. None if the process is no such server.
    """
    found = launcher.launch_words(cmdline, "inference")
    spec = None
    if found is not None:
        spec = resolved(trainer, found[0], cwd)
    if spec is None:
        return None
    return LaunchSpec(
        run="inference",
        trainer=trainer,
        config=spec.config,
        cwd=cwd,
        output_dir=spec.output_dir,
        overrides=spec.overrides,
        component="inference",
        argv=tuple(cmdline),
    )


def _options(words: Sequence[str]) -> list[str]:
    """Return `words` without the top-level `@ FILE`."""
    kept: list[str] = []
    previous, skip = "", False
    for word in words:
        if skip:
            skip = False
        elif word == "@" and not previous.startswith("--"):
            skip = True
        else:
            kept.append(word)
        previous = word
    return kept
