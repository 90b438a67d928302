"""What both prime-rl generations have in common: parts of their command lines, and methods."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bs4_agent.checkpoints.inventory import scan
from bs4_agent.errors import NotApplicable
from bs4_agent.trainers import launcher, lines, settings
from bs4_agent.trainers.base import Checkpoint, Event, LaunchSpec, LogLine, Trainer
from bs4_agent.trainers.grammar import Grammar, finished_sides
from bs4_agent.trainers.settings import Settings

#: Steps between checkpoints if the config names none. At the 3 to 5 minutes a step that users of
#: 7-8B models report, 10 steps are at most 50 minutes of lost work. keep_last is never added,
#: because it makes the trainer delete, which is for the user to order.
CHECKPOINT_INTERVAL = 10


class PrimeRlTrainer(Trainer):
    """The methods of a trainer that both prime-rl generations share."""

    resumes: tuple[str, ...] = ("rl",)
    merges = False

    _grammar: Grammar

    def environment(self, spec: LaunchSpec) -> Mapping[str, str]:
        """Return an empty mapping, because prime-rl's configs name no variables."""
        return {}

    def needs(self, spec: LaunchSpec) -> Mapping[str, Any]:
        """Return an empty mapping, because the check before the start finds the settings itself."""
        return {}

    def parse_line(self, source: str, raw: bytes) -> LogLine:
        """Return the parts of one raw line of the log `source`. Never raises."""
        return lines.parse(source, raw)

    def event_words(self, source: str, passing: Collection[str]) -> list[str]:
        """Return texts such that every line of the log that means an event holds one of them,
        except for kinds in `passing`.
        """
        return self._grammar.words(source, passing)

    def event(self, source: str, line: LogLine) -> Event | None:
        """Return what a line means, or None if it means nothing."""
        return launcher.with_component(self._grammar.event(source, line))

    def component(self, cmdline: Sequence[str], comm: str) -> str | None:
        """Return which component of the trainer a process is, such as "rank", or None."""
        return launcher.component(cmdline, comm)

    def checkpoints(self, spec: LaunchSpec) -> list[Checkpoint]:
        """Return every step that is found in any part, newest last."""
        return scan(self.parts(spec))

    def max_steps(self, spec: LaunchSpec) -> int | None:
        """Return the number of steps after which the run ends, or None if it is not set."""
        return settings.settings_of(spec, watching=True).integer(
            "max_steps", "trainer.max_steps", "orchestrator.max_steps"
        )

    def good_end(self, events: Sequence[Event]) -> bool:
        """Return True if both the orchestrator's and the trainer's final lines are among the
        events.
        """
        return {"orchestrator", "trainer"} <= finished_sides(events)


def client_url(address: Any) -> str:
    """Return the base URL in a client's address, which may be a list or have a path."""
    first = address[0] if isinstance(address, list) else address
    parts = urlsplit(str(first).strip("[]'\" "))
    return f"{parts.scheme}://{parts.netloc}"


def named(spec: LaunchSpec, current: Settings) -> list[str]:
    """Return the words that name the config: `@` and the file. Neither generation understands
    `@FILE` as one word. Empty if the config is among the options already.
    """
    if str(spec.config) in current.arguments.files:
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


def launched(trainer: str, cmdline: Sequence[str], cwd: Path, entry: str) -> LaunchSpec | None:
    """Return the spec of a process that runs the console script `entry`, as far as its words say
    it. None for other processes.
    """
    found = launcher.launch_words(cmdline, entry)
    if found is not None:
        return resolved(trainer, found[0], cwd)
    return None


def standalone_inference(trainer: str, cmdline: Sequence[str], cwd: Path) -> LaunchSpec | None:
    """Return the spec of an inference server that a person started apart from a launcher, to be
    started again by the same words. None if the process is no such server.
    """
    spec = launched(trainer, cmdline, cwd, "inference")
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
