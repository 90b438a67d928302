"""Read one config file: its text, its values, the line of each value, and its comments."""

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

#: Bytes. No training config is near this size; a checkpoint or a log that is given by mistake is
#: larger.
LARGEST = 1 << 20
#: How many tables may be nested, and how many digits a number may have: far beyond any config, and
#: less than what Python itself refuses.
DEEPEST, LONGEST = 100, 300


class BadToml(tomllib.TOMLDecodeError):
    """Raised for a text that is not TOML, that is nested deeper than DEEPEST (100) levels, or that
    has a number that no config needs, for example one with more than LONGEST (300) digits. `line`
    is the 1-based line of the mistake, and `what` says what is wrong.
    """

    def __init__(self, line: int, what: str) -> None:
        ValueError.__init__(self, f"{what} (line {line})")
        self.line, self.what = line, what


@dataclass(kw_only=True)
class Document:
    """One TOML config that was read from a file.

    `data` has its values as nested tables. `lines` maps the path of each value, a tuple of keys and
    list indices, to its 1-based line. In a config for prime-rl of January 2026, `data` also has the
    values of the files that its key `toml_files` names. `findings` are the problems that were found
    while reading, such as a text that is not TOML.
    """

    file: File
    text: str
    data: dict[str, Any]
    lines: dict[Path, int]
    findings: list[Finding] = field(default_factory=list)
    borrowed: dict[str, int] = field(default_factory=dict)
    """For each top-level name that comes from another file: the 1-based line at which that file is
    named.
    """
    included: list[tuple[File, str]] = field(default_factory=list)
    """(path, text) of each file that the key `toml_files` names."""

    def line(self, path: Path) -> int:
        """Return the 1-based line of the file at which the value at `path`, a tuple of keys and
        list indices, is written. If the file does not have the value, return the line of the
        nearest table around it, or 1 if there is none. For a value from a file that `toml_files`
        names, return the line at which that file is named.
        """
        if path and isinstance(path[0], str) and path[0] in self.borrowed:
            return self.borrowed[path[0]]
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return 1

    def comments(self) -> list[tuple[int, str]]:
        """Return (1-based line, text) for every comment that has a line to itself. The text is
        without its # signs. Return an empty list if there are none.
        """
        return [
            (n, line.strip().lstrip("#").strip())
            for n, line in enumerate(self.text.split("\n"), 1)
            if line.lstrip().startswith("#")
        ]


def read_text(file: File) -> str:
    """Return the text of a config file, in which every line ends with LF alone. Raises UsageError,
    which says what to do, if the file is missing, a directory, not a regular file, larger than 1
    MiB (LARGEST) or not UTF-8.
    """
    return read_raw(file).replace("\r\n", "\n")


def read_raw(file: File) -> str:
    """Return the text of a config file with its line ends unchanged. Raises UsageError, which says
    what to do, if the file is missing, a directory, not a regular file, larger than 1 MiB (LARGEST)
    or not UTF-8.
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
    """Read a config file and return it as a Document. If the text is not TOML, nothing is raised:
    the Document then has no values, and a finding with the id `toml` that says what is wrong.
    Raises UsageError if the file cannot be read.

    With `follow`, the files that the config's key `toml_files` names are read too, as prime-rl of
    January 2026 does. Each of them replaces whole top-level tables of the file that names it.
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
    """Return the values of a TOML text as nested tables. Raises BadToml if the text is not TOML, is
    nested deeper than DEEPEST (100) levels, or has a number that no config needs, for example one
    with more than LONGEST (300) digits.
    """
    if text.startswith("\ufeff"):
        raise BadToml(1, "It begins with a byte order mark")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line = int(place[1]) if place else text.rstrip("\n").count("\n") + 1
        raise BadToml(line, re.sub(r"\s*\(at .*\)$", "", str(error))) from None
    except RecursionError:
        raise BadToml(_longest(text, r"[\[{.]"), "It is nested deeper than any config") from None
    except ValueError:  # what Python refuses to turn into a number
        raise BadToml(_longest(text, r"\d"), f"A number has more than {LONGEST} digits") from None
    _within_reason(text, data)
    return data


def _within_reason(text: str, data: object) -> None:
    """Raise BadToml if the values are nested deeper than DEEPEST or an integer has more than
    LONGEST digits.
    """
    pending: list[tuple[object, int]] = [(data, 0)]
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
    """Return the 1-based line that matches the pattern `sign` most often."""
    lines = text.split("\n")
    return max(range(len(lines)), key=lambda n: len(re.findall(sign, lines[n]))) + 1


def broken(error: BadToml) -> Finding:
    """Return a finding that says why the text of a config could not be read. Its id is `toml`.
    `error` is the error that `parse` has raised for the text.
    """
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
    """Lay the files that `toml_files` names over the document's values."""
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
