"""What both prime-rl generations have in common: parts of their command lines, and methods."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bs4_common.checkpoints.inventory import scan
from bs4_common.errors import NotApplicable
from bs4_common.trainers import launcher, lines, settings
from bs4_common.trainers.base import Checkpoint, Event, LaunchSpec, LogLine, Trainer
from bs4_common.trainers.grammar import Grammar, finished_sides
from bs4_common.trainers.settings import Settings

if TYPE_CHECKING:
    from bs4_common.trainers.base import Needs

#: Steps between checkpoints if the config names none. At the 3 to 5 minutes a step that users of
#: 7-8B models report, 10 steps are at most 50 minutes of lost work. keep_last is never added,
#: because it makes the trainer delete, which is for the user to order.
CHECKPOINT_INTERVAL = 10


class PrimeRlTrainer(Trainer):
    """The methods of Trainer that are the same for both versions of prime-rl that the agent knows:
    the one of January 2026 and the current one.

    `resumes` are the components (programs) for which a launch chooses the training step to resume
    from: here only `rl`, which is the whole training.
    """

    resumes: tuple[str, ...] = ("rl",)
    merges = False

    _grammar: Grammar
    #: Bytes for each parameter that are written beside each checkpoint.
    _weights_beside = 0.0

    def environment(self, spec: LaunchSpec) -> Mapping[str, str]:
        """Return an empty mapping, because a prime-rl config sets no environment variables."""
        return {}

    def needs(self, spec: LaunchSpec) -> Needs:
        """Return {"bytes_each": number}: how many bytes on disk a checkpoint takes for each
        parameter of the model. This is the sum of the weight, of Adam's two moments (unless only an
        adapter is trained), and of the separate copy of the weights that this version of prime-rl
        writes, if it writes one. The check before the start finds all other settings itself.
        """
        current = settings.settings_of(spec, watching=True)
        each = 4.0
        if current.text("trainer.model.optimization_dtype") == "bfloat16":
            each = 2.0
        if current.first("trainer.model.lora", "trainer.model.experimental.lora") is None:
            each *= 3
        return {"bytes_each": each + self._weights_beside}

    def tracked(
        self, spec: LaunchSpec, before: Mapping[str, str], identity: str
    ) -> Mapping[str, str]:
        """Return an empty mapping, because the ids at W&B are given as options of the command line
        and not as environment variables. `PrimeRl` overrides this.
        """
        return {}

    def options(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return the options in `words`, which follow the config on a command line, as pairs of the
        key and the text that a person would type. Ids at W&B are left out.
        """
        found = []
        for key, value in settings.parse_arguments(words).options:
            if not key.endswith(".wandb.id"):
                found.append((key, f"--{key.replace('_', '-')} {value}"))
        return found

    def model(self, spec: LaunchSpec, current: Settings) -> object:
        """Return the name of the model that the run trains or serves, or None if nothing names it.
        `current` are the settings of `spec`.
        """
        return current.first(
            "model.name",
            "trainer.model.name",
            "orchestrator.model.name",
            "inference.vllm.model",
            "inference.model.name",
        )

    def parse_line(self, source: str, raw: bytes) -> LogLine:
        """Return the parts of one raw line of the log `source`. Never raises."""
        return lines.parse(source, raw)

    def event_words(self, source: str, passing: Collection[str]) -> list[str]:
        """Return a list of texts for a fast first filter of the log `source`: a line that means an
        event contains at least one of them, so a line that contains none need not be parsed.
        `passing` are kinds of events that the caller does not want; lines that mean only such
        events need not contain any of the texts.
        """
        return self._grammar.words(source, passing)

    def event(self, source: str, line: LogLine) -> Event | None:
        """Return what a line of the log `source` means, or None if it means nothing."""
        return launcher.with_component(self._grammar.event(source, line))

    def component(self, cmdline: Sequence[str], comm: str) -> str | None:
        """Return which part of the trainer a process is, such as "rank", by its command line and
        its short name `comm`. Return None for a process that is no part of the trainer.
        """
        return launcher.component(cmdline, comm)

    def checkpoints(self, spec: LaunchSpec) -> list[Checkpoint]:
        """Return the checkpoint of every step that any part has on the disk, complete or not,
        newest step last.
        """
        return scan(self.parts(spec))

    def max_steps(self, spec: LaunchSpec) -> int | None:
        """Return the number of steps after which the run ends by its config, or None if it sets
        none. A config that cannot be read counts as empty.
        """
        return settings.settings_of(spec, watching=True).integer(
            "max_steps", "trainer.max_steps", "orchestrator.max_steps"
        )

    def good_end(self, events: Sequence[Event]) -> bool:
        """Return True if both the orchestrator's and the trainer's final lines, which they write
        when training is complete, are among the events.
        """
        return {"orchestrator", "trainer"} <= finished_sides(events)


def client_url(address: Any) -> str:
    """Return the base URL (scheme, host and port) of a server, from the address that a config has
    for its clients. The address may be a list, of which the first counts, and may have a path,
    which is left out. Return "" if the config has no address that could be one.
    """
    first = next(iter(address), "") if isinstance(address, list) else address
    try:
        parts = urlsplit(str(first).strip("[]'\" "))
    except ValueError:
        return ""
    return checked_url(f"{parts.scheme}://{parts.netloc}")


def checked_url(url: str) -> str:
    """Return `url` if it has a host, and a port that can exist or none. Return "" if not."""
    try:
        parts = urlsplit(url)
        known = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return ""
    return url if known else ""


def port_of(url: str) -> frozenset[int]:
    """Return a set with the port of a URL that `checked_url` has returned, which is empty if the
    URL is "".
    """
    return frozenset({urlsplit(url).port or 80} if url else ())


def named(spec: LaunchSpec, current: Settings) -> list[str]:
    """Return the words to put on the command line so that the trainer reads the config of `spec`:
    `@` and the file, as two words, because neither version of prime-rl understands `@FILE`. The
    list is empty if `current`, the settings that the spec's own options give, names the config
    already.
    """
    if str(spec.config) in current.arguments.files:
        return []  # `--trainer @ a --orchestrator @ b`: the files are among the options
    return ["@", str(spec.config)]


def checkpointing(current: Settings) -> list[str]:
    """Return the words to add to the command line so that checkpoints are saved. The list is empty
    if the settings `current` say so already, or if they contain the option `--no-ckpt`, which
    forbids saving.

    `--ckpt` keeps the values of a [ckpt] table in the config. If no interval is set, one of 10
    steps is added, because otherwise only the last step would be saved. An interval of 0, which
    means that only the last step is saved, counts as set.
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
    """Return the first words of the command that starts the spec's component: `uv run SCRIPT`, or
    `uv run torchrun ... -m MODULE` if it has several ranks. `scripts` and `modules` have the script
    and the module of each component.

    Raises NotApplicable if this version of prime-rl has no such component, or if the spec has
    several ranks for a component that starts its ranks itself.
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
    """Return the launch spec that `words`, the words after `rl` on a command line, describe.
    `trainer` is the id of the trainer and `cwd` the directory in which it was started. No config is
    read, so in the result the name of the run is "run" and the output directory is `outputs`.
    Return None if the words name no config.
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
    """Return the launch spec of a process that runs the console script `entry` (such as
    `inference`), for the trainer with the id `trainer`. It is made from the words of the command
    line alone; no config is read. Return None for a process that does not run this script, or whose
    words name no config.
    """
    found = launcher.launch_words(cmdline, entry)
    if found is not None:
        return resolved(trainer, found[0], cwd)
    return None


def standalone_inference(trainer: str, cmdline: Sequence[str], cwd: Path) -> LaunchSpec | None:
    """Return the launch spec of an inference server that a person started without a launcher. Its
    command is the process's own, so that the server can be started again in the same way. Return
    None if the process is no such server.
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
