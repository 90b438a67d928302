"""Changes to an input that a fuzzer of bytes alone would not find: deep nesting, numbers of 400
digits, values of another type, control sequences, a second copy of a piece.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

#: Pieces that are put into an input or in place of a value of it.
ATOMS = (
    b"",
    b"\0",
    b"\n",
    b"\r",
    b"\t",
    b"\xff",
    b"\xc2\x9b",
    b"\x1b",
    b"\x1b[31m",
    b"\x1b]52;c;aGk=\x07",
    b"\x1bP$q\x1b\\",
    "\u202e".encode(),
    "\u2066".encode(),
    "\u200b".encode(),
    b"\\u001b",
    b"\\u009b",
    b"\\ud800",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'""',
    b'"x"',
    b'["x"]',
    b'{"a":1}',
    b"0",
    b"-1",
    b"0.5",
    b"NaN",
    b"-Infinity",
    b"1e400",
    b"1e308",
    b"1000000000000",
    b"3000000000",
    b"9007199254740993",
    b"9" * 30,
    b"1" + b"0" * 400,
    b"9" * 5000,
    b"[" * 3_000 + b"]" * 3_000,
    b"[" * 30_000,
    b'{"a":' * 1_500,
    b"{" * 300 + b"}" * 300,
    b"x" * 300,
    b"x" * 70_000,
    b"../",
    b"/etc/passwd",
    b"%s",
    b"99:99:99",
    b"1979-05-27T07:32:00Z",
    b"inf",
    b"nan",
    b"+1_000",
    b"&a [*a, *a]",
    b"!!python/object:os.system",
    b"(a+)+$",
    b"{1,99999}",
    b"'''",
    b'"""',
)

_VALUE = re.compile(rb'-?[0-9]+(?:\.[0-9]+)?|"(?:[^"\\\n]|\\.)*"|true|false|null')
_OCTAL = re.compile(rb"(?<![0-9])[0-7]{11}(?=\0)")
_LONGEST_CUT = 80
#: What stands in a JSON text for the value that is then replaced. An atom need not be JSON.
_MARK = "bs4-fuzz-mark"
#: Bytes of a line whose JSON is parsed.
_PARSED_MOST = 16 * 1024


def mutate(data: bytes, most: int, seed: int) -> bytes:
    """Return `data` with one to six changes, at most `most` bytes. The same seed makes the same
    changes.
    """
    # Not for secrets: the same seed must make the same input again.
    choice = random.Random(seed)
    changed = bytearray(data)
    for _ in range(choice.choice((1, 1, 1, 2, 3, 6))):
        choice.choice(_CHANGES)(changed, choice)
    return bytes(changed[:most])


def _insert(data: bytearray, choice: random.Random) -> None:
    place = choice.randrange(len(data) + 1)
    data[place:place] = choice.choice(ATOMS)


def _replace_value(data: bytearray, choice: random.Random) -> None:
    found = list(_VALUE.finditer(bytes(data)))
    if found:
        value = choice.choice(found)
        data[value.start() : value.end()] = choice.choice(ATOMS)


def _replace_field(data: bytearray, choice: random.Random) -> None:
    """Put an atom in place of one value of the JSON object in one line, at any depth."""
    lines = bytes(data).split(b"\n")
    number = choice.randrange(len(lines))
    head, brace, rest = lines[number].partition(b"{")
    if not brace or len(rest) > _PARSED_MOST:
        return
    try:
        found = json.loads(brace + rest)
    except (ValueError, RecursionError):
        return
    places = list(_places(found))
    if not places:
        return
    holder, key = choice.choice(places)
    holder[key] = _MARK
    atom = choice.choice(ATOMS)
    lines[number] = head + json.dumps(found).encode().replace(f'"{_MARK}"'.encode(), atom)
    data[:] = b"\n".join(lines)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each holder and key of a value in a JSON value."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, dict):
            keys = list(holder)
        elif isinstance(holder, list):
            keys = list(range(len(holder)))
        else:
            continue
        for key in keys:
            yield holder, key
            waiting.append(holder[key])


def _set_octal(data: bytearray, choice: random.Random) -> None:
    """Set a number of a tar header, which is octal and must keep its width."""
    found = list(_OCTAL.finditer(bytes(data)))
    if found:
        place = choice.choice(found).start()
        data[place : place + 11] = b"%011o" % (1 << choice.randrange(33))


def _cut(data: bytearray, choice: random.Random) -> None:
    place = choice.randrange(len(data) + 1)
    del data[place : place + choice.randrange(1, _LONGEST_CUT)]


def _repeat(data: bytearray, choice: random.Random) -> None:
    place = choice.randrange(len(data) + 1)
    piece = data[place : place + choice.randrange(1, _LONGEST_CUT)]
    target = choice.randrange(len(data) + 1)
    data[target:target] = piece


def _repeat_line(data: bytearray, choice: random.Random) -> None:
    lines = bytes(data).split(b"\n")
    lines.insert(choice.randrange(len(lines) + 1), choice.choice(lines))
    data[:] = b"\n".join(lines)


def _set_byte(data: bytearray, choice: random.Random) -> None:
    if data:
        data[choice.randrange(len(data))] = choice.randrange(256)


_CHANGES = (
    _insert,
    _replace_value,
    _set_octal,
    _replace_field,
    _replace_field,
    _replace_field,
    _cut,
    _repeat,
    _repeat_line,
    _set_byte,
)
