"""What a pod answers to the questions of a code sync, checked before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from bs4_common.foreign_json import check_nesting
from bs4_console.pods.gate.rules import RecordRefused, Shape, number, rule, whole

#: The most files that a target on a pod may have. A large checkout has some 20,000.
FILES = 200_000
#: Characters of a path. Linux takes at most 4,096 bytes.
_PATH = 4_096


class RemoteAnswer(TypedDict, total=False):
    """What the part of a code sync that runs on the pod answers to a question. It has `root` and
    `store`, and those of the other fields that belong to the question.
    """

    root: str
    """The target's path on the pod."""
    store: str
    """The directory beside the target in which the sync keeps its own files, such as the trash."""
    files: Mapping[str, list[Any]]
    """{path below the target: [bytes, Unix time of the last change in seconds, target of a link or
    ""]}.
    """
    links: Sequence[str]
    """The paths below the target that are symbolic links."""
    archive: str
    """The path on the pod to which the next archive of files is to be uploaded."""
    moved: int
    """The number of files that were moved to the trash."""


@rule("a path")
def path(value: Any) -> bool:
    """Return True if `value` is a text that can be a path on Linux: 1 to 4,096 characters, without
    NUL. Python writes a byte of a name that is not UTF-8 as half a surrogate pair, which is
    accepted too.
    """
    return isinstance(value, str) and value != "" and _is_file_text(value)


@rule("an object of paths, each with a size, a time and the target of a link")
def files(value: Any) -> bool:
    """Return True if `value` maps paths to a list of three things: a size,
    a time and a text, which is the target of a link or "".
    """
    if not isinstance(value, dict):
        return False
    return all(path(name) and _is_file(entry) for name, entry in value.items())


@rule("a list of paths")
def paths(value: Any) -> bool:
    """Return True if `value` is a list of at most FILES (200,000) paths."""
    return isinstance(value, list) and len(value) <= FILES and all(map(path, value))


def _is_file(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 3:
        return False
    size, changed, link = entry
    return whole(size) and number(changed) and isinstance(link, str) and _is_file_text(link)


def _is_file_text(value: str) -> bool:
    """Return True if `value` can be the name of a file, whose bytes need not be UTF-8, or is ""."""
    if len(value) > _PATH or "\0" in value:
        return False
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


_PLACES = {"root": path, "store": path}
#: Question -> what its answer must have.
_SHAPES = {
    "list": Shape({**_PLACES, "files": files, "links": paths}),
    "prepare": Shape({**_PLACES, "archive": path}),
    "place": Shape(_PLACES),
    "trash": Shape({**_PLACES, "moved": whole}),
}


def parse(op: str, printed: bytes) -> RemoteAnswer:
    """Return the answer that the pod's program has printed to the question `op` ("list", "prepare",
    "place" or "trash"). Raises RecordRefused, which says what is wrong, if the pod printed
    something that the program does not print.
    """
    # Each file is one list. Counted before they are parsed, because they take memory.
    if printed.count(b"[") > 2 * FILES:
        raise RecordRefused(f"it lists more than {FILES:,} files")
    try:
        written = printed.decode()
        check_nesting(written)
        answer: RemoteAnswer = json.loads(written)
    except ValueError as error:
        raise RecordRefused(f"it is not JSON of the program: {error}"[:200]) from None
    listed = answer.get("files") if isinstance(answer, dict) else None
    if isinstance(listed, dict) and len(listed) > FILES:
        raise RecordRefused(f"it lists more than {FILES:,} files")
    _SHAPES[op].check(answer)
    return answer
