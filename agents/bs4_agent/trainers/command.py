"""What the command lines of both generations have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bs4_agent.errors import NotApplicable
from bs4_agent.trainers import launcher, settings
from bs4_agent.trainers.base import LaunchSpec
from bs4_agent.trainers.settings import Settings

#: Steps between checkpoints where the config names none. At the 3 to 5 minutes a step that users of
#: 7-8B models report, 10 steps are at most 50 minutes of lost work. keep_last is never added: it
#: makes the trainer delete, and that is the user's order to give.
CHECKPOINT_INTERVAL = 10


def named(spec: LaunchSpec, current: Settings) -> list[str]:
    """The words that name the config: `@ FILE`, the `@` a word of its own (`@FILE` is not
    understood by either generation).
    """
    if str(spec.config) in {path for _, path in current.arguments.nested}:
        return []  # `--trainer @ a --orchestrator @ b`: the files are among the options
    return ["@", str(spec.config)]


def checkpointing(current: Settings) -> list[str]:
    """The words that switch checkpointing on, as far as config and options have not done it; none
    where `--no-ckpt` forbids it.

    `--ckpt` alone leaves the values of a [ckpt] in the file alone. Without an interval only the
    last step would be saved, which recovers nothing, so one is added where neither file nor options
    name it (0 is a name: never in between).
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
    """`uv run SCRIPT`, or torchrun around the component's module where it has several ranks.
    NotApplicable for a component that this generation does not have, or that starts its ranks
    itself.
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
    """The spec behind the words after `rl`, as far as the words alone tell it; None when they name
    no file.
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
    """An inference server that somebody started apart from the launcher, to be started again by the
    same words.
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
    """`words` without the top-level `@ FILE`."""
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
