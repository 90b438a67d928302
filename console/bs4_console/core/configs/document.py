"""One config file, read: its text, its values, the line of each of them, and what its comments say."""

from __future__ import annotations

import re
import stat
import tomllib
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from bs4_console.core.configs.findings import Finding, Path
from bs4_console.core.configs.toml_lines import lines_of
from bs4_console.core.errors import UsageError

#: No training config comes near; a checkpoint or a log given by mistake does.
LARGEST = 1 << 20


@dataclass
class Document:
    """`data` is what tomllib read, with the files of `toml_files` over it where the trainer does so. `findings`: what reading found."""

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
        """Of the path, or of the nearest table around it that the file has; 1 for the file as a whole."""
        if path and isinstance(path[0], str) and path[0] in self.borrowed:
            return self.borrowed[path[0]]
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return 1

    def comments(self) -> list[tuple[int, str]]:
        """(line, text) of every comment that has a line of its own."""
        return [(n, line.strip().lstrip("#").strip()) for n, line in enumerate(self.text.split("\n"), 1) if line.lstrip().startswith("#")]


def read_text(file: File) -> str:
    """UsageError with what to do when it is missing, a directory, not a file, too large or not UTF-8."""
    try:
        status = file.stat()
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist.", "Check the path.") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "Check its permissions.") from None
    if stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{file} is a directory.", "Name one config file.")
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{file} is not a regular file.", "Name one config file.")
    if status.st_size > LARGEST:
        raise UsageError(
            f"{file} is {status.st_size} bytes, larger than any training config.", "Name the config, not a log or a checkpoint."
        )
    try:
        text = file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text (byte {error.start}).", "Save it as UTF-8.") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "Check its permissions.") from None
    return text.replace("\r\n", "\n")


def read_toml(file: File, follow: bool = False) -> Document:
    """Broken TOML becomes a finding `toml`, not an error: it is what lint is asked about. `follow`: lay `toml_files` over it as the
    January generation does (a file named there replaces whole top-level tables of the one that names it)."""
    text = read_text(file)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Document(file, text, {}, {}, [_broken(text, str(error))])
    except RecursionError:
        return Document(file, text, {}, {}, [Finding("toml", "error", 1, "It is nested deeper than any config.", "Name the config.")])
    document = Document(file, text, data, lines_of(text))
    if follow and isinstance(data.get("toml_files"), list):
        _follow(document)
    return document


def _broken(text: str, error: str) -> Finding:
    place = re.search(r"\(at line (\d+), column (\d+)\)", error)
    line = int(place[1]) if place else len(text.rstrip("\n").split("\n"))
    what = re.sub(r"\s*\(at .*\)$", "", error)
    fix = "A key or table may stand only once." if "overwrite" in what or "twice" in what else "Correct the syntax on this line."
    return Finding("toml", "error", line, f"This is not valid TOML: {what}.", fix)


def _follow(document: Document) -> None:
    seen = {document.file.resolve()}
    pending = [(document.file.parent / str(name), n) for n, name in enumerate(document.data["toml_files"])]
    while pending:
        file, index = pending.pop(0)
        line = document.lines.get(("toml_files", index), document.line(("toml_files",)))
        if file.suffix != ".toml" or file.resolve() in seen:
            continue
        seen.add(file.resolve())
        try:
            text = read_text(file)
            other = tomllib.loads(text)
        except (UsageError, tomllib.TOMLDecodeError, RecursionError) as error:
            document.findings.append(
                Finding(
                    "schema", "error", line, f"{file.name}, named by toml_files, cannot be read: {error}", "Correct the name or the file."
                )
            )
            continue
        document.included.append((file, text))
        for name, value in other.items():
            if name == "toml_files":
                pending += [(file.parent / str(more), index) for more in value]
            else:
                document.data[name] = value
                document.borrowed[name] = line
