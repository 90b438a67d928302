"""Read what a config's comments and its launch command say, and check the rules that need more than
the file. Such a rule is checked only if the option that it needs is given.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from bs4_agent.checkpoints.inventory import inventory
from bs4_agent.trainers import registry
from bs4_agent.trainers.base import Checkpoint, LaunchSpec
from bs4_console.configs.catalog import finding
from bs4_console.configs.document import BadToml, parse, read_text
from bs4_console.configs.findings import Edit, Finding
from bs4_console.configs.history import History
from bs4_console.configs.rules_shared import environment_args, january
from bs4_console.configs.view import View
from bs4_console.errors import UsageError

_COMMAND = re.compile(r"(?:^|\s|`)(?:uv run )?(?:prime-rl|rl)\s+@")
_GLUED = re.compile(
    r"(?:^|\s|`)(?:uv run "
    r"(?:rl|prime-rl|trainer|orchestrator|inference|sft|eval)|rl)\s+@(?=[\w./~$-]*[./"
    r"\w])[^\s@]"
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
    """One launch command: its 1-based line, its text, its flags and its environment variables. A
    flag without a value has the value "".
    """

    line: int
    text: str
    flags: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


def launches(view: View) -> list[Launch]:
    """Return the launch commands in the comments, with continued lines joined, and the command that
    was given (as line 1).
    """
    found = []
    if view.given.launch:
        found = [Launch(1, view.given.launch)]
    comments = view.document.comments()
    for n, (line, text) in enumerate(comments):
        if not _COMMAND.search(text):
            continue
        words, last = text, n
        while (
            words.endswith("\\")
            and last + 1 < len(comments)
            and comments[last + 1][0] == comments[last][0] + 1
        ):
            last += 1
            words = words[:-1] + " " + comments[last][1]
        found.append(Launch(line, words))
    for launch in found:
        _parse(launch)
    return found


def _parse(launch: Launch) -> None:
    try:
        words = shlex.split(launch.text.replace("`", " "), comments=True)
    except ValueError:
        words = launch.text.split()
    for n, word in enumerate(words):
        assigned = re.fullmatch(r"([A-Z][A-Z0-9_]*)=(\S*)", word)
        if assigned:
            launch.environment[assigned[1]] = assigned[2]
        elif word.startswith("--"):
            name, _, value = word[2:].partition("=")
            following = words[n + 1] if n + 1 < len(words) else ""
            launch.flags[name.replace("-", "_")] = value or (
                "" if following.startswith("-") else following
            )


def header(view: View) -> dict[str, tuple[str, int]]:
    """Return (value, line) of `version`, `env_version` and `based_on`, by name, as the comments or
    a [config] table give them.
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
    """Yield the findings of every rule in this module about the config of a whole training."""
    commands = launches(view)
    yield from spelling(view)
    if january(view):
        yield from checkpoint_flags(view, commands)
        yield from stack(commands)
        yield from both_sides(view, commands)
    else:
        yield from deleting(view, commands)
    yield from run_directory(view, commands)
    yield from records(view)
    yield from others(view)


def spelling(view: View) -> Iterator[Finding]:
    """Yield findings about launch lines that are misspelt."""
    texts = [*view.document.comments(), *([(1, view.given.launch)] if view.given.launch else [])]
    for line, text in texts:
        if _GLUED.search(text):
            yield finding("R17", line, "The launch line has no space behind the @.")
        if _WRONG.search(text):
            yield finding("R18", line, "The launch line starts prime-rl, which is no command.")


def checkpoint_flags(view: View, commands: list[Launch]) -> Iterator[Finding]:
    """Yield findings about checkpoints that are off, or have no interval or limit."""
    flags = set()
    for command in commands:
        for name in command.flags:
            flags.add(name)
    for side in ("trainer", "orchestrator"):
        if isinstance(view.written(f"{side}.ckpt"), dict) and view.get("bench") is True:
            return
    tables = []
    for t in ("ckpt", "trainer.ckpt", "orchestrator.ckpt"):
        if isinstance(view.written(t), dict):
            tables.append(t)
    if not tables and not any(name.split(".")[0] == "ckpt" for name in flags):
        yield finding(
            "R19", view.line("max_steps") if view.has("max_steps") else 1, "Checkpoints are off."
        )
        return
    for key in ("interval", "keep_last"):
        if f"ckpt.{key}" not in flags and not any(view.has(f"{table}.{key}") for table in tables):
            if tables:
                line = view.line(tables[0])
            else:
                line = commands[0].line
            said = "every checkpoint is kept"
            if key == "interval":
                said = "no checkpoint but the last is saved"
            edits = (
                (Edit("set", ("ckpt", "keep_last"), 3),)
                if key == "keep_last" and "ckpt" in tables
                else ()
            )
            yield finding("R19", line, f"{key} is not set: {said}.", edits=edits)


def stack(commands: list[Launch]) -> Iterator[Finding]:
    """Yield findings about environment variables in launch commands that crash vLLM."""
    for command in commands:
        for name, right, why in (
            (
                "VLLM_USE_V1",
                "0",
                (
                    ": below vLLM 0.11 that is the engine that crashed, and the pinned 0.12 has "
                    "no such variable"
                ),
            ),
            ("VLLM_WORKER_MULTIPROC_METHOD", "spawn", ""),
        ):
            if command.environment.get(name, right) != right:
                yield finding(
                    "R22",
                    command.line,
                    f"The launch line sets {name}={command.environment[name]}{why}.",
                )


def both_sides(view: View, commands: list[Launch]) -> Iterator[Finding]:
    """Yield a finding for each launch command that sets a checkpoint option for one side only, or
    differently for both.
    """
    for command in commands:
        for key in ("interval", "resume_step"):
            mine, theirs = (
                command.flags.get(f"trainer.ckpt.{key}"),
                command.flags.get(f"orchestrator.ckpt.{key}"),
            )
            if f"ckpt.{key}" not in command.flags and mine != theirs:
                yield finding(
                    "R30",
                    command.line,
                    f"The launch line sets {key} for one side, or differently for both.",
                )


def deleting(view: View, commands: list[Launch]) -> Iterator[Finding]:
    """Yield findings about launch commands that delete in a dry run, or that resume from another
    directory than that of the checkpoints.
    """
    elsewhere = any(view.has(f"{table}ckpt.output_dir") for table in ("", "trainer."))
    for command in commands:
        dry = command.flags.get("dry_run", "no") != "no" or view.written("dry_run") is True
        for name in ("clean", "resume"):
            written = view.written(name) not in (None, False)
            there = written or any(
                flag == name or flag.startswith(name + ".") for flag in command.flags
            )
            if dry and there and not (view.written("dry_run") is True and written):
                yield finding(
                    "P02",
                    command.line,
                    f"The launch line combines a dry run with {name}: it deletes before it stops.",
                )
        plain = "resume" in command.flags and not any(
            flag in command.flags for flag in ("resume.step", "resume.dir")
        )
        if plain and (elsewhere or any(flag.endswith("ckpt.output_dir") for flag in command.flags)):
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
    old = january(view)
    # Checkpoints in another directory are not in the run directory that was given, and their path
    # is not known here.
    elsewhere = []
    for place in ("ckpt", "trainer.ckpt"):
        if view.has(f"{place}.output_dir"):
            for word in (f"--{place}.output_dir", "None"):
                elsewhere.append(word)
    spec = LaunchSpec(
        run="lint",
        trainer=view.generation,
        config=view.document.file.absolute(),
        cwd=root.parent.absolute(),
        output_dir=root.absolute() if old else root.parent.absolute(),
        overrides=() if old else ("--run.dir", root.absolute().name, *elsewhere),
    )
    return inventory(registry.get(view.generation), spec)


def run_directory(view: View, commands: list[Launch]) -> Iterator[Finding]:
    """Yield findings about the run's directory: files in the way of a start, and a step that cannot
    be resumed.
    """
    root = view.given.run_dir
    if root is None:
        return
    resume, line = _resume(view, commands)
    if not january(view):
        clean = view.written("clean") is True or any(
            "clean" in command.flags for command in commands
        )
        if resume is None and not clean and root.is_dir() and any(root.iterdir()):
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
    place = "resume.step"
    if january(view):
        place = "ckpt.resume_step"
    for command in commands:
        if re.fullmatch(r"-?\d+", command.flags.get(place, "")):
            return int(command.flags[place]), command.line
        if not january(view) and "resume" in command.flags:
            return -1, command.line
    value = view.number(place)
    if value is not None and view.has(place):
        return int(value), view.line(place)
    if (
        not january(view)
        and isinstance(view.written("resume"), dict)
        and not view.has("resume.dir")
    ):
        return -1, view.line("resume")
    return None, view.line("ckpt") if view.has("ckpt") else 1


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
    """Yield findings about the recorded version of the config and of its environment."""
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
    one = next((one for one in found if one.step == step), None)
    if one is None:
        return ""
    return ": it lacks " + " and ".join(
        f"{part} ({one.lacking[part]})" if part in one.lacking else part for part in one.missing
    )


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
    parent, at = said.get("based_on", (current.based_on, line))
    if parent and not history.has(parent, name):
        yield finding("R26", at, f"It is based on {parent}, which {registry.name} does not know.")


def others(view: View) -> Iterator[Finding]:
    """Yield findings about things beside the config: environments that are not installed, a run in
    the same directory, and names that another config has too.
    """
    yield from _installed(view)
    output = str(view.get("output_dir"))
    if any(File(running).resolve() == File(output).resolve() for running in view.given.running):
        yield finding("R34", view.line("output_dir"), f"A run is already running in {output}.")
    if january(view):
        places = ("wandb.name", "orchestrator.lora_name")
    else:
        places = ("monitors.wandb.name", "orchestrator.model.lora.name")
    for file in view.given.beside:
        if file.resolve() == view.document.file.resolve():
            continue
        try:
            other = parse(read_text(file))
        except BadToml as error:
            raise UsageError(
                f"{file} is not TOML: {error}.", "Give --beside configs that are."
            ) from None
        for place, rule in zip(places, ("R28", "R04"), strict=True):
            if rule == "R04" and not january(view):
                continue
            mine = view.written(place)
            if mine and mine == _at(other, place):
                yield finding(
                    rule, view.line(place), f"{place} = {mine} is also the name in {file.name}."
                )


def _at(data: dict[str, Any], place: str) -> Any:
    value: Any = data
    for name in place.split("."):
        if isinstance(value, dict):
            value = value.get(name)
        else:
            value = None
    return value


def _installed(view: View) -> Iterator[Finding]:
    """Yield a finding for each environment that is not installed."""
    if not view.given.installed:
        return
    there = set()
    for name in view.given.installed:
        there.add(_module(name))
    if january(view):
        for place in ("orchestrator.env", "orchestrator.eval.env"):
            for n, entry in enumerate(view.tables(place)):
                if isinstance(entry.get("id"), str) and _module(entry["id"]) not in there:
                    yield finding(
                        "P05",
                        view.at((*place.split("."), n, "id")),
                        f"{entry['id']} is not installed where the trainer runs.",
                    )
        return
    for path, taskset in environment_args(view):
        if (
            path[-1] == "taskset"
            and isinstance(taskset.get("id"), str)
            and _module(taskset["id"]) not in there
        ):
            yield finding(
                "P05",
                view.at((*path, "id")),
                f"{taskset['id']} is not installed where the trainer runs.",
            )


def _module(name: str) -> str:
    """Return the module that is imported for an environment: some_env for owner/some-env@1.0."""
    return name.rsplit("/", 1)[-1].split("@")[0].replace("-", "_").lower()
