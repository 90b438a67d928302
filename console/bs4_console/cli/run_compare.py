"""The part of `runs` that compares two runs, and writes the config of an earlier version again."""

from __future__ import annotations

import argparse
import difflib
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bs4_console import files
from bs4_console.cli import run_records
from bs4_console.cli.output import emit, table
from bs4_console.errors import NotApplicableError, RefusedError, UsageError
from bs4_console.run_log import comparison
from bs4_console.run_log.config_texts import ConfigTexts, hidden
from bs4_console.run_log.record import Attempt, RunRecord

#: What stands for a value that is not recorded.
_UNKNOWN = "unknown"
_LONGEST = 60


def configure_rollback(parser: argparse.ArgumentParser) -> None:
    """Add the options of `runs rollback` to its parser, beside the run's name."""
    parser.add_argument(
        "--to",
        default="",
        metavar="VERSION",
        help="a version of the registry (v3), the number of an attempt, either also as POD/3, or "
        "a config's digest (default: the config before the newest one)",
    )
    parser.add_argument(
        "--output", required=True, type=Path, metavar="FILE", help="where to write the config"
    )
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


def chosen(words: Sequence[str]) -> tuple[RunRecord, RunRecord]:
    """Return the two records that `words` ask to compare. A word is a run, or an attempt of it as
    RUN@WHICH, in which WHICH is what `runs rollback --to` takes. A single word is a run: its newest
    launch is compared with the newest one before it that had another config or other arguments.
    Raises UsageError if a run or an attempt is not known, or if there are no two to compare.
    """
    asked = [_asked(word) for word in words]
    records = {}
    for name, _ in asked:
        if name not in records:
            records[name] = run_records.record_of(name)
    sides = []
    for name, which in asked:
        record = records[name]
        if which:
            record = comparison.at(record, _chosen(record, _versions(record), which))
        sides.append(record)
    if len(words) == 1 and not asked[0][1]:
        return _newest_two(sides[0])
    if len(words) == 1 or asked[0] == asked[1]:
        raise UsageError(
            f"{words[0]} cannot be compared with itself.",
            "Name two runs (`runs list` has them), or two attempts of one, as in "
            "`runs compare RUN@1 RUN@2`.",
        )
    return sides[0], sides[1]


def _asked(word: str) -> tuple[str, str]:
    """Return the name of the run and the attempt that a word names, or "" for the whole run."""
    name, at, which = word.rpartition("@")
    if not at or word in run_records.records():
        return word, ""
    return name, which


def _newest_two(record: RunRecord) -> tuple[RunRecord, RunRecord]:
    """Return the newest launch of a run, behind the newest one that differs from it."""
    launched = [attempt for attempt in record.attempts if attempt.config_digest]
    for earlier in reversed(launched):
        newest = launched[-1]
        before = (earlier.config_digest, earlier.overrides)
        if before != (newest.config_digest, newest.overrides):
            return comparison.at(record, earlier), comparison.at(record, newest)
    known = ", ".join(_named(attempt) for attempt in _versions(record))
    raise UsageError(
        f"{record.name} has been launched with one config and the same arguments only ({known}).",
        "Name another run beside it.",
    )


def compare(one: RunRecord, other: RunRecord, *, as_json: bool) -> int:
    """Print the runs `one` and `other` side by side, each line with a mark that says whether the
    two differ in it. The output is text, or with `as_json` JSON. Return 0. Raises OSError if a
    config that is saved on this machine cannot be read.
    """
    found = comparison.rows(one, other)
    if as_json:
        emit("run-compare", runs=[one.name, other.name], rows=[asdict(row) for row in found])
        return 0
    lines, reasons, neither = [], [], []
    for row in found:
        mark = {True: "*", False: "", None: "?"}[row.differs]
        if row.why == comparison.NEITHER:
            neither.append(row.key)
            continue
        if row.why not in ("", comparison.ONE):
            reasons.append(f"{row.key}: {row.why}.")
        values = [_shown(row, number) for number in (0, 1)]
        lines.append([mark, row.part, row.key, *values])
    table(lines, ["", "part", "", one.name, other.name])
    print("\n* differs   ? unknown whether it does: not recorded of both")
    if neither:
        print(f"Recorded of neither: {', '.join(neither)}.")
    for reason in reasons:
        print(reason)
    return 0


def _shown(row: comparison.Row, number: int) -> str:
    """Return a value for the table. In settings, None is a key that the config has not."""
    value = row.values[number]
    if value is None:
        return "-" if row.differs else _UNKNOWN
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value)
    if len(text) > _LONGEST:
        return f"{text[: _LONGEST - 1]}…"
    return text


def rollback(record: RunRecord, options: argparse.Namespace) -> int:
    """Write the config with which an earlier attempt (one life of the run's processes) of the run
    of `record` was started to a file of this machine, after printing what differs. The options name
    the attempt and the file. Return 0.

    Raises UsageError if the options name no recorded config of the run, NotApplicableError if this
    machine has not kept its text or has it damaged, and RefusedError if the file exists and --force
    is not given. Raises OSError if the file cannot be written.
    """
    versions = _versions(record)
    chosen = _chosen(record, versions, options.to)
    text = _text(record, chosen)
    if text is None:
        raise NotApplicableError(
            f"The text of config {chosen.config_digest} of {record.name} (attempt "
            f"{chosen.number} on {chosen.pod}) was not kept on this machine.",
            "Only configs of runs that this console launched or saw while the file was unchanged "
            "are kept.",
        )
    redacted = hidden(text)
    if redacted is None:
        raise NotApplicableError(
            f"The kept text of config {chosen.config_digest} of {record.name} (attempt "
            f"{chosen.number} on {chosen.pod}) is no TOML, so it was not written.",
            "An earlier version of this program damaged some texts when it replaced secrets; take "
            "the config from where you keep it.",
        )
    path = options.output
    before, source = _present(path, record, versions[-1])
    name = f"{record.name}, attempt {chosen.number} on {chosen.pod}"
    changes = list(
        difflib.unified_diff(before.splitlines(), text.splitlines(), source, name, lineterm="")
    )
    if not options.json:
        print("\n".join(changes) or f"Nothing differs from {source}.")
    if path.exists() and not options.force:
        raise RefusedError(f"{path} is there already.", "Write over it with --force.")
    files.replace(path, text.encode())
    if options.json:
        emit(
            "runs-rollback",
            run=record.name,
            attempt=chosen.number,
            pod=chosen.pod,
            version=chosen.config_version or None,
            digest=chosen.config_digest,
            file=str(path),
            changes=changes,
            redacted=bool(redacted),
        )
        return 0
    print(f"{path} has the config of {name} (digest {chosen.config_digest}).")
    if chosen.overrides:
        print(f"Its command line had more arguments: {shlex.join(chosen.overrides)}")
    if redacted:
        print(f"[redacted] stands in it for these; fill them in: {', '.join(redacted)}.")
    return 0


def _versions(record: RunRecord) -> list[Attempt]:
    """Return the newest attempt with each config, in the order of their last use. Raises
    NotApplicableError if no config is recorded.
    """
    found: dict[str, Attempt] = {}
    for attempt in record.attempts:
        if attempt.config_digest:
            found.pop(attempt.config_digest, None)
            found[attempt.config_digest] = attempt
    if not found:
        raise NotApplicableError(
            f"No config of {record.name} is recorded.",
            "A config is recorded when a console launches the run.",
        )
    return list(found.values())


def _chosen(record: RunRecord, versions: list[Attempt], wanted: str) -> Attempt:
    """Return the attempt whose config is wanted. Raises UsageError if there is none."""
    known = ", ".join(_named(attempt) for attempt in versions)
    if not wanted:
        if len(versions) < 2:
            raise UsageError(
                f"{record.name} has had one config only ({known}).",
                "Name a version with --to to write it again.",
            )
        return versions[-2]
    found = _wanted(record, wanted)
    if len({attempt.config_digest for attempt in found}) > 1:
        raise UsageError(
            f"{record.name} was launched as {wanted} with several configs: "
            f"{', '.join(_named(attempt) for attempt in found)}.",
            "Name one with --to POD/NUMBER, such as "
            f"{found[-1].pod}/{found[-1].number}, or with its digest.",
        )
    if not found:
        raise UsageError(
            f"No launch of {record.name} with config {wanted} is recorded.", f"Known: {known}."
        )
    return found[-1]


def _wanted(record: RunRecord, wanted: str) -> list[Attempt]:
    """Return the attempts with a recorded config that `wanted` names, oldest first."""
    pod, _, name = wanted.rpartition("/")
    found = []
    for attempt in record.attempts:
        here = pod in ("", attempt.pod)
        named = name in (attempt.config_version, str(attempt.number))
        # Eight digits, so that the number of an attempt is no digest.
        digest = len(name) >= 8 and attempt.config_digest.startswith(name)
        if attempt.config_digest and here and (named or digest):
            found.append(attempt)
    return found


def _named(attempt: Attempt) -> str:
    """Return a recorded config as a person can name it."""
    version = f" {attempt.config_version}" if attempt.config_version else ""
    return f"attempt {attempt.number} on {attempt.pod}{version} ({attempt.config_digest})"


def _text(record: RunRecord, attempt: Attempt) -> str | None:
    """Return the text of the config of an attempt, or None if it was not kept on this machine."""
    return ConfigTexts(attempt.pod or record.source).text(attempt.config_digest)


def _present(path: Path, record: RunRecord, newest: Attempt) -> tuple[str, str]:
    """Return (text, name) of what the written config is compared with: the file that is there, or
    the config of the newest attempt.
    """
    if path.exists():
        return path.read_text(encoding="utf-8", errors="replace"), str(path)
    text = _text(record, newest)
    if text is None:
        return "", f"attempt {newest.number} on {newest.pod} (its text was not kept)"
    return text, f"attempt {newest.number} on {newest.pod}"
