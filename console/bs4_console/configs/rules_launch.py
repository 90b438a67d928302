"""Read what a config's comments and its launch command say, and check the rules that need more than
the file. Such a rule is checked only if the option that it needs is given.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from bs4_common.checkpoints.inventory import inventory
from bs4_common.trainers import registry
from bs4_common.trainers.base import Checkpoint, LaunchSpec
from bs4_console.configs.catalog import all_of, finding
from bs4_console.configs.document import BadToml, parse, read_text
from bs4_console.configs.findings import Edit, Finding, Path, below, path_of
from bs4_console.configs.history import History
from bs4_console.configs.rules_shared import environment_args, january, key_of
from bs4_console.configs.view import View
from bs4_console.errors import UsageError

_COMMAND = re.compile(r"(?:^|\s|`)(?:uv run )?(?:prime-rl|rl)\s+@")
_GLUED = re.compile(
    r"(?:^|\s|`)(?:uv run "
    r"(?:rl|prime-rl|trainer|orchestrator|inference|sft|eval)|rl)\s+@(?=[\w./~$-]*[./"
    r"\w])[^\s@]"
)
_BARE = re.compile(
    r"(?:^|`|\$ |\buv run )(?:rl|trainer|orchestrator|inference|sft|eval)\s+[^\s@`-][^\s`]*\.toml\b"
)
_WRONG = re.compile(r"\buv run prime-rl\b|(?:^|`|\$ )prime-rl @")
_HEADER = {
    "version": re.compile(r"^(?:config\s+)?version\s*[:=]\s*\"?(v?\d[\w.]*)", re.IGNORECASE),
    "env_version": re.compile(
        r"^env(?:ironment)?[_ ]version\s*[:=]\s*\"?v?([\w.]+)", re.IGNORECASE
    ),
    "based_on": re.compile(r"^based[_ ]on\s*[:=]\s*\"?([^\s\",]+)", re.IGNORECASE),
}


@dataclass
class Launch:
    """One launch command. It is either in a comment of the config or was given besides the config
    (the field `launch` of `View.given`). `line` is its 1-based line in the config, or 1 if it was
    given, and `text` the whole command. `flags` maps each option, without its dashes, to its value
    ("" if it has none). `environment` maps each variable that the command sets to its value.
    """

    line: int
    text: str
    flags: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def tables(self) -> set[str]:
        """Return the names of the top-level tables of the config that the flags set. The name is
        the part of a flag before its first dot, for example "ckpt" of "ckpt.interval".
        """
        return {flag.partition(".")[0] for flag in self.flags}


def launches(view: View) -> list[Launch]:
    """Return the launch commands in the config's comments, with continued lines joined, and the
    command that was given besides the config (`view.given.launch`), whose line counts as 1. The
    list is empty if there are none.
    """
    found = []
    if view.given.launch:
        found.append(_parsed(1, view.given.launch))
    comments = view.document.comments()
    for n, (line, text) in enumerate(comments):
        if not _COMMAND.search(text):
            continue
        words, last = text, line
        for following, more in comments[n + 1 :]:
            if not words.endswith("\\") or following != last + 1:
                break
            words, last = words[:-1] + " " + more, following
        found.append(_parsed(line, words))
    return found


def _parsed(line: int, text: str) -> Launch:
    """Return the launch command in a text, with its flags and environment variables."""
    launch = Launch(line, text)
    try:
        words = shlex.split(text.replace("`", " "), comments=True)
    except ValueError:
        words = text.split()
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        assigned = re.fullmatch(r"([A-Z][A-Z0-9_]*)=(\S*)", word)
        if assigned:
            launch.environment[assigned[1]] = assigned[2]
        elif word.startswith("--"):
            name, _, value = word[2:].partition("=")
            if not value and not following.startswith("-"):
                value = following
            launch.flags[name.replace("-", "_")] = value
    return launch


def header(view: View) -> dict[str, tuple[str, int]]:
    """Return what the config's comments, or its table [config], say of `version`, `env_version` and
    `based_on`. The result maps each of these names to (text, 1-based line). A name of which nothing
    is said is missing.
    """
    found: dict[str, tuple[str, int]] = {}
    for line, text in view.document.comments():
        for name, pattern in _HEADER.items():
            match = pattern.match(text)
            if match and name not in found:
                found[name] = (match[1], line)
    for name in _HEADER:
        value = view.written(f"config.{name}")
        if isinstance(value, str) and name not in found:
            found[name] = (value, view.line(f"config.{name}"))
    return found


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of every rule in this module, for the config of a whole training. The
    rules judge the launch commands in the config's comments, and what the caller of lint knows
    besides the config. That is in `view.given`, an object of the class `Given`: for example the
    launch command and the run's directory, which `config lint` takes from its options.
    """
    commands = launches(view)
    yield from spelling(view)
    if january(view):
        yield from checkpoint_flags(view, commands)
        yield from stack(commands)
        yield from both_sides(commands)
    else:
        yield from deleting(view, commands)
    yield from run_directory(view, commands)
    yield from all_of((records, others), view)


def spelling(view: View) -> Iterator[Finding]:
    """Yield a finding for each comment of the config that is a launch command with a mistake in it,
    and for the launch command that was given besides the config if it has one. The mistakes are an
    @ without a space after it, the config's name without an @ before it, and `prime-rl` as a
    command, which does not exist.
    """
    for line, text in [*view.document.comments(), (1, view.given.launch)]:
        if _GLUED.search(text):
            yield finding("R17", line, "The launch line has no space behind the @.")
        if _BARE.search(text):
            yield finding("R17", line, "The launch line has no @ in front of the config.")
        if _WRONG.search(text):
            yield finding("R18", line, "The launch line starts prime-rl, which is no command.")


def checkpoint_flags(view: View, commands: list[Launch]) -> Iterator[Finding]:
    """Yield a finding if neither the config nor one of the launch commands `commands` switches the
    saving of checkpoints on. If it is on, yield one if no interval is set, and one if no limit on
    the number of checkpoints (keep_last) is set.
    """
    own = view.is_table("trainer.ckpt") or view.is_table("orchestrator.ckpt")
    if own and view.get("bench") is True:
        return
    is_written = own or view.is_table("ckpt")
    if not is_written and not any("ckpt" in command.tables for command in commands):
        yield finding("R19", view.line_or("max_steps", 1), "Checkpoints are off.")
        return
    tables = ("ckpt", "trainer.ckpt", "orchestrator.ckpt")
    line = view.line(view.first(*tables)) if is_written else commands[0].line
    keep = Edit("set", ("ckpt", "keep_last"), 3)
    for key, said, edits in (
        ("interval", "no checkpoint but the last is saved", ()),
        ("keep_last", "every checkpoint is kept", (keep,) if view.is_table("ckpt") else ()),
    ):
        is_flag = any(f"ckpt.{key}" in command.flags for command in commands)
        if not is_flag and not any(view.has(f"{table}.{key}") for table in tables):
            yield finding("R19", line, f"{key} is not set: {said}.", edits=edits)


def stack(commands: list[Launch]) -> Iterator[Finding]:
    """Yield a finding for each launch command in `commands` that sets the environment variable
    VLLM_USE_V1 or VLLM_WORKER_MULTIPROC_METHOD to a value with which vLLM has crashed.
    """
    for command in commands:
        for name, right, why in (
            (
                "VLLM_USE_V1",
                "0",
                ": below vLLM 0.11 that is the engine that crashed, and the pinned 0.12 has no "
                "such variable",
            ),
            ("VLLM_WORKER_MULTIPROC_METHOD", "spawn", ""),
        ):
            if command.environment.get(name, right) != right:
                yield finding(
                    "R22",
                    command.line,
                    f"The launch line sets {name}={command.environment[name]}{why}.",
                )


def both_sides(commands: list[Launch]) -> Iterator[Finding]:
    """Yield a finding for each launch command in `commands` that sets the interval of checkpoints,
    or the step to resume from, for only one of trainer and orchestrator, or differently for the
    two.
    """
    for command in commands:
        for key in ("interval", "resume_step"):
            mine = command.flags.get(f"trainer.ckpt.{key}")
            theirs = command.flags.get(f"orchestrator.ckpt.{key}")
            if f"ckpt.{key}" not in command.flags and mine != theirs:
                yield finding(
                    "R30",
                    command.line,
                    f"The launch line sets {key} for one side, or differently for both.",
                )


def deleting(view: View, commands: list[Launch]) -> Iterator[Finding]:
    """Yield a finding for each launch command in `commands` that makes a dry run together with
    clean or resume, because then files are deleted before the dry run ends. Also yield one for each
    that resumes from the latest step although the checkpoints are in another directory.
    """
    elsewhere = view.has("ckpt.output_dir") or view.has("trainer.ckpt.output_dir")
    is_dry = view.written("dry_run") is True
    for command in commands:
        dry = is_dry or command.flags.get("dry_run", "no") != "no"
        for name in ("clean", "resume"):
            written = view.written(name) not in (None, False)
            there = written or name in command.tables
            if dry and there and not (is_dry and written):
                yield finding(
                    "P02",
                    command.line,
                    f"The launch line combines a dry run with {name}: it deletes before it stops.",
                )
        latest = "resume" in command.flags and not {"resume.step", "resume.dir"} & set(
            command.flags
        )
        if latest and (
            elsewhere or any(flag.endswith("ckpt.output_dir") for flag in command.flags)
        ):
            yield finding(
                "P04",
                command.line,
                "The launch line resumes from the latest step, and checkpoints are in "
                "another directory.",
            )


def _checkpoints(view: View, root: File) -> list[Checkpoint]:
    """Return the checkpoints in the run's directory, judged by markers and content as a resume
    judges them: by the agent's own code.
    """
    output = File(os.path.abspath(root))  # noqa: PTH100 - a link keeps its name, and `..` goes
    parent, overrides = output.parent, []
    if not january(view):
        output, overrides = parent, ["--run.dir", output.name]
        # Checkpoints in another directory are not in the run directory that was given, and their
        # path is not known here.
        for place in ("ckpt", "trainer.ckpt"):
            if view.has(f"{place}.output_dir"):
                overrides += [f"--{place}.output_dir", "None"]
    spec = LaunchSpec(
        run="lint",
        trainer=view.generation,
        config=view.document.file.absolute(),
        cwd=parent,
        output_dir=output,
        overrides=tuple(overrides),
    )
    return inventory(registry.get(view.generation), spec)


def run_directory(view: View, commands: list[Launch]) -> Iterator[Finding]:
    """Yield findings about the files in the run's directory (`view.given.run_dir`). One is about
    files there that prevent a start without resume. The others are about the training step to
    resume from, which the config or `commands` name: its checkpoint is missing, is not complete for
    both trainer and orchestrator, or is older than other checkpoints there. Yield nothing if the
    directory is not given.
    """
    root = view.given.run_dir
    if root is None:
        return
    resume, line = _resume(view, commands)
    if not january(view):
        cleans = view.written("clean") is True
        for command in commands:
            cleans = cleans or "clean" in command.flags
        if resume is None and not cleans and root.is_dir() and any(root.iterdir()):
            yield finding(
                "P03",
                view.line("run.name", "output_dir"),
                f"{root} is not empty, and the config neither resumes nor cleans.",
            )
    found = _checkpoints(view, root)
    # The trainer of 2026-01 finds the newest step in the orchestrator's directories, the current
    # one in any.
    ahead = set()
    for one in found:
        if not january(view) or "orchestrator" in one.directories:
            ahead.add(one.step)
    yield from _resumable(view, resume, line, found, ahead)


def _resume(view: View, commands: list[Launch]) -> tuple[int | None, int]:
    """Return (step, line) of the wanted resume. The step is -1 for the latest, and None without a
    resume.
    """
    place = key_of(view, "ckpt.resume_step", "resume.step")
    for command in commands:
        if re.fullmatch(r"-?\d+", command.flags.get(place, "")):
            return int(command.flags[place]), command.line
        if not january(view) and "resume" in command.flags:
            return -1, command.line
    value = view.number(place)
    if value is not None and view.has(place):
        return int(value), view.line(place)
    if not january(view) and view.is_table("resume") and not view.has("resume.dir"):
        return -1, view.line("resume")
    return None, view.line_or("ckpt", 1)


def _resumable(
    view: View, resume: int | None, line: int, found: list[Checkpoint], ahead: set[int]
) -> Iterator[Finding]:
    whole = {one.step for one in found if one.complete}
    newest = max(whole, default=None)
    advice = "No step is complete on every side; start in a new directory."
    if newest is not None:
        advice = f"Resume from step {newest}, by number, and move newer steps aside."
    if resume is None:
        if january(view) and ahead:
            yield finding(
                "R20",
                line,
                "A fresh start, and the directory holds orchestrator checkpoints up to step "
                f"{max(ahead)}.",
                advice,
            )
    elif resume == -1:
        if max(ahead, default=None) != newest:
            yield finding("R20", line, "The latest step is not the same on every side.", advice)
    elif resume not in whole:
        yield finding(
            "R20",
            line,
            f"Step {resume} is not complete on every side{_lacking(resume, found)}.",
            advice,
        )
    elif january(view) and max(ahead, default=resume) != resume:
        yield finding(
            "R20",
            line,
            f"The orchestrator's checkpoints go on to step {max(ahead)}, beyond {resume}.",
            advice,
        )


def records(view: View) -> Iterator[Finding]:
    """Yield a finding if the config differs from what the file of recorded versions
    (`view.given.registry`) has about it: in its values, in the version that it states, or in the
    version on which it is based. Yield one if the environment version that its comments state is
    not the installed one (`view.given.env_version`). What is not given is not compared.
    """
    said = header(view)
    if view.given.registry is not None:
        yield from _registry(view, said, view.given.registry)
    if view.given.env_version and "env_version" in said:
        version, line = said["env_version"]
        if version.lstrip("v") != view.given.env_version.lstrip("v"):
            yield finding(
                "R27",
                line,
                f"The header says environment {version}, and {view.given.env_version} is "
                "installed.",
            )


def _lacking(step: int, found: list[Checkpoint]) -> str:
    """Return `: it lacks trainer (no .metadata)` for a step, or "" if there is no such step."""
    for one in found:
        if one.step == step:
            return ": it lacks " + " and ".join(
                f"{part} ({one.lacking[part]})" if part in one.lacking else part
                for part in one.missing
            )
    return ""


def _registry(view: View, said: dict[str, tuple[str, int]], registry: File) -> Iterator[Finding]:
    history = History.read(registry)
    name = history.key(view.document.file)
    known = history.versions(name)
    version, line = said.get("version", ("", 1))
    if not known:
        yield finding("R26", line, f"{registry.name} does not know this config.")
        return
    current = known[-1]
    if version and version != current.version:
        yield finding(
            "R26", line, f"The header says {version}, and {registry.name} has {current.version}."
        )
    elif current.digest and current.digest != History.digest(view.document.data):
        yield finding("R26", line, f"The values have changed since {current.version} was recorded.")
    for use, active in history.active(name).items():
        if active not in ("", current.version):
            yield finding(
                "R26",
                line,
                f"active_configs of {registry.name} has {active} of it in use as {use}, and "
                f"{current.version} is the current one.",
            )
    parent, at = said.get("based_on", (current.based_on, line))
    if parent and not history.has(parent, name):
        yield finding("R26", at, f"It is based on {parent}, which {registry.name} does not know.")


def others(view: View) -> Iterator[Finding]:
    """Yield a finding for each environment that is not installed, by the list
    `view.given.installed`. Yield one if a run is running in the same output_dir
    (`view.given.running`), and one for each name of a W&B run or an adapter that another config
    (`view.given.beside`) has too. Raises UsageError if one of those configs is not TOML or cannot
    be read.
    """
    yield from _installed(view)
    output = str(view.get("output_dir"))
    if any(File(running).resolve() == File(output).resolve() for running in view.given.running):
        yield finding("R34", view.line("output_dir"), f"A run is already running in {output}.")
    names = {"R28": "monitors.wandb.name"}
    if january(view):
        names = {"R28": "wandb.name", "R04": "orchestrator.lora_name"}
    for file in view.given.beside:
        if file.resolve() == view.document.file.resolve():
            continue
        try:
            other = parse(read_text(file))
        except BadToml as error:
            raise UsageError(
                f"{file} is not TOML: {error}.", "Give --beside configs that are."
            ) from None
        for rule, place in names.items():
            mine = view.written(place)
            if mine and mine == below(other, path_of(place)):
                yield finding(
                    rule, view.line(place), f"{place} = {mine} is also the name in {file.name}."
                )


def _installed(view: View) -> Iterator[Finding]:
    """Yield a finding for each environment that is not installed."""
    there = {_module(name) for name in view.given.installed}
    for path, name in _environment_ids(view) if there else ():
        if isinstance(name, str) and _module(name) not in there:
            yield finding("P05", view.at(path), f"{name} is not installed where the trainer runs.")


def _environment_ids(view: View) -> Iterator[tuple[Path, Any]]:
    """Yield (path, id) of every training and evaluation environment."""
    if january(view):
        for place in ("orchestrator.env", "orchestrator.eval.env"):
            for n, entry in enumerate(view.tables(place)):
                yield (*path_of(place), n, "id"), entry.get("id")
        return
    for path, taskset in environment_args(view):
        if path[-1] == "taskset":
            yield (*path, "id"), taskset.get("id")


def _module(name: str) -> str:
    """Return the module that is imported for an environment: some_env for owner/some-env@1.0."""
    return name.rsplit("/", 1)[-1].split("@")[0].replace("-", "_").lower()
