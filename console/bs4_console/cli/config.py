"""The command `config`: what is wrong with a training config, and what can be done about it before
a pod is paid for.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import difflib
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from bs4_console.cli.output import complain, emit, finding_code, table
from bs4_console.configs.diff import compare, valid
from bs4_console.configs.document import read_toml
from bs4_console.configs.findings import Finding
from bs4_console.configs.fix import fix, write
from bs4_console.configs.history import History
from bs4_console.configs.kinds import component_of
from bs4_console.configs.lint import TRAINERS, is_unbounded, lint
from bs4_console.configs.migrate import Migrated, migrate
from bs4_console.configs.schema import COMPONENTS
from bs4_console.configs.sizing.memory import estimate
from bs4_console.configs.sizing.new_config import Wish, argument, new
from bs4_console.configs.view import Given
from bs4_console.errors import FINDING, UsageError

#: The trainers whose configs are TOML: both generations of prime-rl.
TOML = TRAINERS[:2]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `config` and its subcommands to its parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    made: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
        "lint": (
            "say what is wrong, by rule and line; ends with 1 when there is an error",
            _lint_parser,
        ),
        "fix": (
            (
                "show the fixes that are certain, and make them with --write; ends with 1 while "
                "an error is left"
            ),
            _fix_parser,
        ),
        "diff": ("what differs by meaning; ends with 1 when anything does", _diff_parser),
        "migrate": (
            (
                "write it in the names of the other prime-rl generation; ends with 1 when lint "
                "refuses the result, or it would mean something else"
            ),
            _migrate_parser,
        ),
        "new": ("make a config for a model and a number of GPUs", _new_parser),
        "estimate": (
            (
                "the memory that trainer and inference will need, with the arithmetic; ends with "
                "1 when it does not fit"
            ),
            _estimate_parser,
        ),
        "history": (
            "the versions of a config, or --add one; the file itself is not touched",
            _history_parser,
        ),
    }
    for name, (text, fill) in made.items():
        fill(verbs.add_parser(name, help=text))


def _trainer(parser: argparse.ArgumentParser, choices: tuple[str, ...] = TRAINERS) -> None:
    """Add the option --trainer."""
    parser.add_argument(
        "--trainer",
        choices=choices,
        default="prime-rl",
        help="which is installed (the current prime-rl unless said)",
    )


def _component(parser: argparse.ArgumentParser) -> None:
    """Add the option --component."""
    parser.add_argument(
        "--component",
        choices=COMPONENTS,
        help="whose config it is: of the whole (rl), or of one that is started by itself (told "
        "from its keys and its name)",
    )


def _json(parser: argparse.ArgumentParser) -> None:
    """Add the option --json."""
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def _lint_parser(parser: argparse.ArgumentParser) -> None:
    """Add the options of `config lint`."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="the config, or for verl also the script that starts it",
    )
    _trainer(parser)
    _json(parser)
    parser.add_argument(
        "--launch",
        default="",
        metavar="COMMAND",
        help="the command that will start it, for what only flags say",
    )
    parser.add_argument("--gpus", type=int, metavar="N", help="GPUs of the pod")
    parser.add_argument(
        "--prompt-tokens", type=int, metavar="N", help="tokens of the longest prompt (1500)"
    )
    parser.add_argument(
        "--context",
        type=int,
        metavar="N",
        help="tokens that the model takes, which counts where max_model_len is not set",
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        metavar="DIR",
        help="the run's directory, to see what a start finds there",
    )
    parser.add_argument(
        "--registry",
        type=Path,
        metavar="FILE",
        help="the history of configs that its version is held against",
    )
    parser.add_argument(
        "--env-version", default="", metavar="V", help="the environment version that is installed"
    )
    parser.add_argument(
        "--installed",
        action="append",
        default=[],
        metavar="ID",
        help="an environment that is installed (may be repeated)",
    )
    parser.add_argument(
        "--running",
        action="append",
        default=[],
        metavar="DIR",
        help="output directory of a running run (may be repeated)",
    )
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="another run's config, whose names are taken",
    )
    _component(parser)
    parser.add_argument(
        "--pod",
        default="",
        metavar="NAME",
        help="ask the trainer's own classes on this pod too; nothing is started there",
    )
    parser.add_argument(
        "--cwd",
        default="prime-rl",
        help="with --pod: where prime-rl is installed there (default: ~/prime-rl)",
    )


def _fix_parser(parser: argparse.ArgumentParser) -> None:
    """Add the options of `config fix`."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the config")
    _trainer(parser)
    _component(parser)
    parser.add_argument(
        "--write",
        action="store_true",
        help="change the file; the old one stays beside it as FILE.orig",
    )
    _json(parser)


def _diff_parser(parser: argparse.ArgumentParser) -> None:
    """Add the options of `config diff`."""
    parser.add_argument("before", metavar="A", type=Path, help="one config")
    parser.add_argument("after", metavar="B", type=Path, help="the other")
    _json(parser)


def _migrate_parser(parser: argparse.ArgumentParser) -> None:
    """Add the options of `config migrate`."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the config")
    parser.add_argument(
        "--to", choices=TOML, required=True, help="the generation that it shall be for"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write it there instead of showing it; an existing file is not touched",
    )
    _component(parser)
    _json(parser)


def _new_parser(parser: argparse.ArgumentParser) -> None:
    """Add the options of `config new`."""
    _trainer(parser, TOML)
    parser.add_argument(
        "--model", default="", help="the model's name on the hub (asked for on a terminal)"
    )
    parser.add_argument(
        "--gpus", type=int, metavar="N", help="GPUs of the pod (asked for on a terminal)"
    )
    parser.add_argument(
        "--gpu-gib", type=float, default=80.0, metavar="GIB", help="memory of one of them (80)"
    )
    parser.add_argument(
        "--billions",
        type=float,
        metavar="N",
        help="parameters in 10^9, where the model's name does not say",
    )
    parser.add_argument(
        "--env", default="reverse-text", metavar="ID", help="the environment (reverse-text)"
    )
    parser.add_argument(
        "--env-arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the environment, such as executor_backend=local; may be repeated",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="the most tokens of an answer; context and samples are made long enough (2048)",
    )
    parser.add_argument(
        "--name", default="", help="the run's name (made from the model unless said)"
    )
    parser.add_argument(
        "--full", action="store_true", help="train all weights instead of a LoRA adapter"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write it there instead of showing it; an existing file is not touched",
    )
    _json(parser)


def _estimate_parser(parser: argparse.ArgumentParser) -> None:
    """Add the options of `config estimate`."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the config")
    _trainer(parser)
    parser.add_argument(
        "--gpu-gib", type=float, default=80.0, metavar="GIB", help="memory of one GPU (80)"
    )
    parser.add_argument(
        "--billions",
        type=float,
        metavar="N",
        help="parameters in 10^9, where the model's name does not say",
    )
    _json(parser)


def _history_parser(parser: argparse.ArgumentParser) -> None:
    """Add the options of `config history`."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the config")
    parser.add_argument(
        "--registry",
        type=Path,
        metavar="FILE",
        help="where the history is kept (registry.json beside the config)",
    )
    parser.add_argument(
        "--add",
        default="",
        metavar="REASON",
        help="record the file as a new version, and why it was made",
    )
    parser.add_argument(
        "--based-on",
        default="",
        metavar="NAME:vN",
        help="the version that it was made from (the one before)",
    )
    _json(parser)


def run(options: argparse.Namespace) -> int:
    """Run the subcommand of `config` that `options.verb` names (lint, fix, diff, migrate, new,
    estimate or history), and return its exit code. The code is 1 if `lint` finds an error, `fix`
    leaves one, `diff` finds a difference, `estimate` finds too little memory, or `migrate` cannot
    make a config that means the same; else it is 0.
    """
    verbs: dict[str, Callable[[argparse.Namespace], int]] = {
        "lint": _lint,
        "fix": _fix,
        "diff": _diff,
        "migrate": _migrate,
        "new": _new,
        "estimate": _estimate,
        "history": _history,
    }
    return verbs[options.verb](options)


def _ends(findings: list[Finding]) -> int:
    """Return 1 if one of the findings is an error, else 0."""
    return finding_code(any(finding.level == "error" for finding in findings))


def _say(file: Path | str, findings: list[Finding]) -> None:
    """Print the findings, one per line."""
    for finding in findings:
        print(
            f"{file}:{finding.line}: {finding.level} {finding.id}: {finding.message} {finding.fix}"
        )


def _lint(options: argparse.Namespace) -> int:
    """Run `config lint` and return its exit code."""
    if options.gpus is not None and options.gpus < 1:
        raise UsageError("--gpus is at least 1.", "Give the number of GPUs of the pod.")
    given = Given(
        launch=options.launch,
        gpus=options.gpus,
        prompt_tokens=options.prompt_tokens,
        context=options.context,
        run_dir=options.run_dir,
        registry=options.registry,
        env_version=options.env_version,
        installed=tuple(options.installed),
        running=tuple(options.running),
        beside=tuple(options.beside),
    )
    if options.pod:
        findings, coverage = _lint_on_pod(options, given)
    else:
        findings, coverage = lint(options.file, options.trainer, given, _component_of(options)), {}
    if options.json:
        emit(
            "config-lint",
            findings=findings,
            **({"coverage": coverage} if coverage else {}),
        )
    else:
        _say(options.file, findings)
        if coverage:
            judged = "by the schema shipped here alone, because the pod says:"
            if coverage["schema"] == "trainer":
                judged = "by"
            print(f"Judged {judged} {coverage['detail']}")
        if is_unbounded(options.file, options.trainer, given):
            print(
                "Not judged: whether an answer and its prompt fit the model, because max_model_len "
                "is not set. Set it, or give the model's limit with --context."
            )
        errors = sum(finding.level == "error" for finding in findings)
        warnings = len(findings) - errors
        print(f"{_many(errors, 'error')}, {_many(warnings, 'warning')} for {options.trainer}.")
    return _ends(findings)


def _component_of(options: argparse.Namespace) -> str:
    """Return the component that the config belongs to: the given one, else the one that its keys
    and its name tell, else "rl" (the whole).
    """
    found = options.component
    if not found and options.trainer in TOML:
        found = component_of(read_toml(options.file), options.trainer)
    return found or "rl"


def _lint_on_pod(options: argparse.Namespace, given: Given) -> tuple[list[Finding], dict[str, str]]:
    """Return the findings and the coverage of a config that the trainer's own classes on a pod have
    judged too.
    """
    from bs4_console.cli.sessions import linked, pods
    from bs4_console.preflight.config import on_pod

    if options.trainer not in TOML:
        raise UsageError("verl has no config classes that could be asked.", "Leave --pod out.")

    words = shlex.split(options.launch)

    async def ask() -> tuple[list[Finding], dict[str, str]]:
        async with linked(pods(options.pod)[0], deploy=False) as live:
            found, answer = await on_pod(
                live,
                options.file,
                options.trainer,
                component=_component_of(options),
                cwd=options.cwd,
                given=given,
                overrides=words[words.index("@") + 2 :] if "@" in words else [],
            )
            return found, answer.coverage

    return asyncio.run(ask())


def _fix(options: argparse.Namespace) -> int:
    """Run `config fix` and return its exit code."""
    fixed = fix(options.file, options.trainer, component=_component_of(options))
    before, after = fixed.before.splitlines(keepends=True), fixed.after.splitlines(keepends=True)
    diff = "".join(difflib.unified_diff(before, after, "before", "after"))
    kept = None
    if options.write and fixed.made:
        kept = write(options.file, fixed.after)
    if options.json:
        emit(
            "config-fix",
            fixed=fixed.made,
            left=fixed.left,
            diff=diff,
            written=kept is not None,
            original=str(kept) if kept else None,
        )
        return _ends(fixed.left)
    print(diff or "Nothing can be fixed for certain.\n", end="")
    _say(options.file, fixed.left)
    if kept:
        print(f"{len(fixed.made)} fixed in {options.file}; the old one is {kept}.")
    elif fixed.made:
        print(f"{len(fixed.made)} could be fixed; `--write` does it.")
    return _ends(fixed.left)


def _diff(options: argparse.Namespace) -> int:
    """Run `config diff` and return its exit code."""
    changes = compare(valid(options.before).data, valid(options.after).data)
    if options.json:
        emit("config-diff", changes=changes)
    else:
        for change in changes:
            sign = {"added": "+", "removed": "-", "changed": "~"}[change.kind]
            shown = []
            for value in (change.before, change.after):
                if value is not None:
                    shown.append(str(value))
            print(f"{sign} {change.key}: {' -> '.join(shown)}")
        if not changes:
            print("They mean the same.")
    return finding_code(changes)


def _named(text: str, output: Path) -> str:
    """Return a new config in which the command of its first comment names the file `output`."""
    return re.sub(
        r"(?m)^(#\s+(?:\w+=\S+ )?uv run \S+ @ )\S+\.toml",
        lambda found: f"{found[1]}{output}",
        text,
        count=1,
    )


def _many(count: int, noun: str) -> str:
    """Return a number with its noun, such as "1 error" and "2 errors"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _put(output: Path, text: str) -> None:
    """Write `text` to a new file. Raises UsageError if the file exists."""
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        raise UsageError(f"{output} exists.", "Give another --output.") from None
    with open(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text)


def _migrate(options: argparse.Namespace) -> int:
    """Run `config migrate` and return its exit code."""
    done = migrate(options.file, options.to, options.component)
    text = done.text
    if done.refused:
        text = ""
    elif options.output:
        _put(options.output, text)
    if options.json:
        emit(
            "config-migrate",
            to=options.to,
            component=done.component,
            refused=done.refused,
            text=text,
            left_out=done.left,
            findings=done.findings,
        )
    else:
        _say_migrated(options, done, text)
    if done.refused:
        return FINDING
    return _ends(done.findings)


def _say_migrated(options: argparse.Namespace, done: Migrated, text: str) -> None:
    """Print the migrated config, or why there is none, and what the migration reports."""
    if not options.output:
        print(text, end="")
    for item in done.left:
        word = "not converted: " if item.refuses else ""
        complain(f"{options.file}:{item.line}: {word}{item.key}: {item.reason}.")
    if done.refused:
        complain(
            "Nothing was migrated: without what is not converted the result would mean something "
            f"else. Change or remove it in {options.file} and migrate again."
        )
        return
    for finding in done.findings:
        complain(
            f"{options.output or 'result'}:{finding.line}: {finding.level} {finding.id}: "
            f"{finding.message}"
        )


def _ask(question: str) -> str:
    """Return what a person types in answer to a question. Raises UsageError without a terminal."""
    from bs4_console.cli.sessions import is_terminal

    if not is_terminal():
        raise UsageError(
            f"{question} is not given.",
            "Give --model and --gpus; they are asked for on a terminal only.",
        )
    return input(f"{question}: ").strip()


def _new(options: argparse.Namespace) -> int:
    """Run `config new` and return its exit code."""
    model = options.model or _ask("The model's name")
    gpus = options.gpus
    if gpus is None:
        gpus = _ask("The number of GPUs")
    if not str(gpus).isdecimal() or int(gpus) < 1 or not model:
        raise UsageError("A config needs a model and at least one GPU.", "Give --model and --gpus.")
    if options.max_tokens is not None and options.max_tokens < 1:
        raise UsageError("An answer has at least one token.", "Give --max-tokens 1 or more.")
    wish = Wish(
        trainer=options.trainer,
        model=model,
        gpus=int(gpus),
        gpu_gib=options.gpu_gib,
        billions=options.billions,
        env=options.env,
        env_args=tuple(argument(text) for text in options.env_arg),
        answer=options.max_tokens,
        name=options.name,
        lora=not options.full,
    )
    made = new(wish)
    if options.output:
        _put(options.output, _named(made.text, options.output))
    if options.json:
        emit(
            "config-new",
            trainer=options.trainer,
            text=made.text,
            reasons=made.reasons,
            findings=made.findings,
        )
    elif options.output:
        print(f"{options.output} is written.")
    else:
        print(made.text, end="")
    return _ends(made.findings)


def _estimate(options: argparse.Namespace) -> int:
    """Run `config estimate` and return its exit code: 1 if the memory does not suffice."""
    done = estimate(options.file, options.trainer, options.gpu_gib, options.billions)
    if options.json:
        emit("config-estimate", **done.as_dict())
    else:
        for line in done.lines(options.gpu_gib):
            print(line)
    return finding_code(not done.fits)


def _history(options: argparse.Namespace) -> int:
    """Run `config history` and return 0."""
    digest = History.digest(valid(options.file).data)
    registry = options.registry or options.file.parent / "registry.json"
    history = History.read(registry)
    if options.add:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        history.add(options.file, digest, options.add, today, options.based_on)
        history.write()
    versions = history.versions(history.key(options.file))
    active = history.active(history.key(options.file))
    changed = not versions or versions[-1].digest not in ("", digest)
    if options.json:
        emit(
            "config-history",
            config=history.key(options.file),
            versions=versions,
            changed=changed,
            active=active,
        )
    else:
        table(
            [[v.version, v.created or "?", v.based_on or "-", v.reason] for v in versions],
            ["version", "created", "based on", "reason"],
        )
        for use, version in active.items():
            print(f"In use as {use}{f' ({version})' if version else ''}.")
        if changed:
            print("The file is not recorded as it is now; `--add REASON` does it.")
    return 0
