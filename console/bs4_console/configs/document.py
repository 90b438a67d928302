"""One config file, read: its text, its values, the line of each of them, and what its comments
say.
"""

from __future__ import annotations

import re
import stat
import tomllib
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from bs4_console.configs.findings import Finding, Path
from bs4_console.configs.toml_lines import lines_of
from bs4_console.errors import UsageError

#: No training config comes near; a checkpoint or a log given by mistake does.
LARGEST = 1 << 20
#: Tables in each other, and digits of a number: far beyond any config, and before Python itself
#: gives up.
DEEPEST, LONGEST = 100, 300


class BadToml(tomllib.TOMLDecodeError):
    """Text that is no TOML, or none that a config could be: on which line, and what."""

    def __init__(self, line: int, what: str) -> None:
        ValueError.__init__(self, f"{what} (line {line})")
        self.line, self.what = line, what


@dataclass(kw_only=True)
class Document:
    """`data` is what tomllib read, with the files of `toml_files` over it where the trainer does
    so. `findings`: what reading found.
    """

    file: File
    text: str
    data: dict[str, Any]
    lines: dict[Path, int]
    findings: list[Finding] = field(default_factory=list)
    borrowed: dict[str, int] = field(default_factory=dict)
    """Top-level name that comes from another file -> the line that names that file."""
    included: list[tuple[File, str]] = field(default_factory=list)
    """The files of `toml_files`, with their texts."""

    def line(self, path: Path) -> int:
        """Of the path, or of the nearest table around it that the file has; 1 for the file as a
        whole.
        """
        if path and isinstance(path[0], str) and path[0] in self.borrowed:
            return self.borrowed[path[0]]
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return 1

    def comments(self) -> list[tuple[int, str]]:
        """(line, text) of every comment that has a line of its own."""
        return [
            (n, line.strip().lstrip("#").strip())
            for n, line in enumerate(self.text.split("\n"), 1)
            if line.lstrip().startswith("#")
        ]


def read_text(file: File) -> str:
    """Return a file's text, each line end as a newline alone. UsageError as `read_raw` raises."""
    return read_raw(file).replace("\r\n", "\n")


def read_raw(file: File) -> str:
    """Return a file's text with the line ends that it has.

    UsageError with what to do when it is missing, a directory, not a file, too large or not UTF-8.
    """
    try:
        status = file.stat()
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist.", "Check the path.") from None
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read: {error.strerror}.", "Check its permissions."
        ) from None
    except ValueError:
        raise UsageError(f"{str(file)!r} is not a file's name.", "Check the path.") from None
    if stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{file} is a directory.", "Name one config file.")
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{file} is not a regular file.", "Name one config file.")
    if status.st_size > LARGEST:
        raise UsageError(
            f"{file} is {status.st_size} bytes, larger than any training config.",
            "Name the config, not a log or a checkpoint.",
        )
    try:
        content = file.read_bytes()
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{file} is not UTF-8 text (line {line}, byte {error.start}).", "Save it as UTF-8."
        ) from None
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read: {error.strerror}.", "Check its permissions."
        ) from None


def read_toml(file: File, follow: bool = False) -> Document:
    """Broken TOML becomes a finding `toml`, not an error: it is what lint is asked about. `follow`:
    lay `toml_files` over it as the January generation does (a file named there replaces whole
    top-level tables of the one that names it).
    """
    text = read_text(file)
    try:
        data = parse(text)
    except BadToml as error:
        return Document(file=file, text=text, data={}, lines={}, findings=[broken(error)])
    document = Document(file=file, text=text, data=data, lines=lines_of(text))
    if follow and isinstance(data.get("toml_files"), list):
        _follow(document)
    return document


def parse(text: str) -> dict[str, Any]:
    """What tomllib reads; BadToml for all that it cannot, and for what the rules could not count
    with.
    """
    if text.startswith("\ufeff"):
        raise BadToml(1, "It begins with a byte order mark")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        if place:
            line = int(place[1])
        else:
            line = len(text.rstrip("\n").split("\n"))
        raise BadToml(line, re.sub(r"\s*\(at .*\)$", "", str(error))) from None
    except RecursionError:
        raise BadToml(_longest(text, r"[\[{.]"), "It is nested deeper than any config") from None
    except ValueError:  # what Python refuses to turn into a number
        raise BadToml(_longest(text, r"\d"), f"A number has more than {LONGEST} digits") from None
    _within_reason(text, data)
    return data


def _within_reason(text: str, data: dict[str, Any]) -> None:
    pending: list[tuple[Any, int]] = [(data, 0)]
    while pending:
        value, depth = pending.pop()
        if depth > DEEPEST:
            raise BadToml(_longest(text, r"[\[{.]"), "It is nested deeper than any config")
        if isinstance(value, int) and abs(value) >= 10**LONGEST:
            raise BadToml(
                _longest(text, r"[0-9a-fA-F]"), f"A number has more than {LONGEST} digits"
            )
        for item in (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        ):
            pending.append((item, depth + 1))


def _longest(text: str, sign: str) -> int:
    """The line with the most of a sign."""
    counts = []
    for line in text.split("\n"):
        counts.append(len(re.findall(sign, line)))
    return counts.index(max(counts)) + 1


def broken(error: BadToml) -> Finding:
    fix = "Correct the syntax on this line."
    if "overwrite" in error.what or "twice" in error.what:
        fix = "A key or table may stand only once."
    elif "byte order" in error.what:
        fix = "Save it as UTF-8 without one."
    return Finding(
        id="toml",
        level="error",
        line=error.line,
        message=f"This is not valid TOML: {error.what}.",
        fix=fix,
    )


def _resolved(file: File) -> File:
    try:
        return file.resolve()
    except (
        OSError,
        RuntimeError,
        ValueError,
    ):  # a loop of links, or no name for a file; reading it says so
        return file


def _follow(document: Document) -> None:
    seen = {_resolved(document.file)}
    pending = [
        (document.file.parent / str(name), n) for n, name in enumerate(document.data["toml_files"])
    ]
    while pending:
        file, index = pending.pop(0)
        line = document.lines.get(("toml_files", index), document.line(("toml_files",)))
        if file.suffix != ".toml" or _resolved(file) in seen:
            continue
        seen.add(_resolved(file))
        try:
            text = read_text(file)
            other = parse(text)
        except (UsageError, BadToml) as error:
            document.findings.append(
                Finding(
                    id="schema",
                    level="error",
                    line=line,
                    message=f"{file.name}, named by toml_files, cannot be read: {error}",
                    fix="Correct the name or the file.",
                )
            )
            continue
        document.included.append((file, text))
        for name, value in other.items():
            if name == "toml_files":
                for more in value:
                    pending.append((file.parent / str(more), index))
            else:
                document.data[name] = value
                document.borrowed[name] = line
