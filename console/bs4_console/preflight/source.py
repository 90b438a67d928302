"""Hold the trainer's source on a pod against what this program believes of it. The pod's agent
sends the few files that beliefs name. They are parsed here, and nothing of them is run anywhere.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import cast

from bs4_common.preflight import SourceBody, SourceFiles
from bs4_console.errors import ConsoleError, NotApplicableError, RemoteError
from bs4_console.preflight.checks import Check, Subject, Wanted, said
from bs4_console.preflight.questions import Asks, name_of
from bs4_console.printable import one_line
from bs4_console.trainers import known
from bs4_console.trainers.checkout import Sent

_UNDERSTOOD: Subject = ("trainer-source", "how well this version is understood")
#: Bytes of one file, and of all of them, that are taken from a pod. The files that beliefs about
#: all trainers name have 0.9 MB in all, and the largest of them has 53 KB.
FILE_MOST, TOTAL_MOST = 256 * 1024, 3 << 20
#: Seconds for a preflight. The files come while the pod examines itself, which takes longer.
_PREFLIGHT_S = 20.0


@dataclass(frozen=True)
class Received:
    """The files of a trainer's source that a pod has sent, as `code`. `root` is the directory on
    the pod in which they are, or the directory that was asked for if none of the files exists.
    `root` has no characters that a terminal acts on.
    """

    root: str
    code: Sent


async def received(
    asks: Asks, files: Sequence[str], *, cwd: str, container: str, env: Mapping[str, str]
) -> Received:
    """Ask a pod's agent for the files `files` of the source of the trainer that a launch in the
    directory `cwd` would use, and return them. If `cwd` is not a checkout of the trainer, they are
    those of the installed package. `env` has the variables that the launch gets, and `container` is
    the container in which it would run, or "".

    Raises NotApplicableError if the agent is too old to be asked, RemoteError if it refuses, and a
    LinkError if the link is lost.
    """
    found: dict[str, bytes | str] = {}
    room = TOTAL_MOST
    question: SourceBody = {
        "cwd": cwd,
        "container": container,
        "env": dict(env),
        "files": list(files),
        "after": 0,
    }
    while True:
        answer = await _asked(asks, question)
        for name, data in answer["files"]:
            found[name] = contents = _contents(data, min(FILE_MOST, room))
            if isinstance(contents, bytes):
                room -= len(contents)
        for name, why in answer["refused"]:
            found[name] = why
        following = answer.get("next")
        if following is None or not question["after"] < following < len(files):
            # Relative to the home directory there, as for a launch.
            root = one_line(answer["root"] or str(PurePosixPath("~", cwd)))
            return Received(root, Sent({name: found[name] for name in files if name in found}))
        question["after"] = following


async def _asked(asks: Asks, question: SourceBody) -> SourceFiles:
    """Return the agent's answer to one question for files. The gate has checked its fields."""
    try:
        return cast(SourceFiles, await asks.query("preflight", "source", **question))
    except RemoteError as error:
        if error.type not in ("unknown-stream", "bad-request"):
            raise
        pod = name_of(asks) or "the pod"
        raise NotApplicableError(
            f"The agent on {pod} is older than this console and cannot send the trainer's source.",
            f"Bring the new one: `bs4-console deploy --pod {pod}`.",
        ) from None


def _contents(data: str, most: int) -> bytes | str:
    """Return the contents of a file as a pod has sent them, or why they cannot be had."""
    try:
        packed = base64.b64decode(data, validate=True)
        engine = zlib.decompressobj()
        text = engine.decompress(packed, most + 1)
    except (ValueError, binascii.Error, zlib.error):
        return "came damaged from the pod"
    if len(text) > most:
        return "is too large to be read from the pod"
    if not engine.eof:
        return "came damaged from the pod"
    return text


async def understood(asks: Asks, wanted: Wanted) -> list[Check]:
    """Compare the trainer's source code on the pod with what this console expects of it, for
    example that it writes certain log lines. Return a list with one check, which says how many of
    these expectations are true. The check never blocks the start of a run. Its state is "unknown"
    if the source cannot be read. Return an empty list if `wanted` names no trainer.
    """
    if not wanted.trainer:
        return []
    try:
        async with asyncio.timeout(_PREFLIGHT_S):
            return [await _judged(asks, wanted)]
    except TimeoutError:
        why = f"The source did not come from the pod within {_PREFLIGHT_S:.0f} s."
        return [said(_UNDERSTOOD, "unknown", why)]
    except ConsoleError as error:
        return [said(_UNDERSTOOD, "unknown", error.message, error.next_step)]


async def _judged(asks: Asks, wanted: Wanted) -> Check:
    """Return the check. Raises a ConsoleError if the source cannot be seen."""
    believed = known.BELIEVED[wanted.trainer]
    got = await received(
        asks,
        known.files([believed]),
        cwd=wanted.cwd,
        container=wanted.container,
        env=wanted.env,
    )
    result = await asyncio.to_thread(known.held, got.code, got.root, believed.id)
    why = f"{got.root} is {result.headline}"
    fix = (
        f"See what differs: `bs4-console trainers check --pod {wanted.pod} --trainer "
        f"{believed.id} --cwd {wanted.cwd}`."
    )
    if not result.counts["holds"]:
        return said(_UNDERSTOOD, "unknown", why, fix)
    if not result.weaker:
        return said(_UNDERSTOOD, "ok", why)
    worst, *others = result.weaker
    more = f", and {len(others)} more" if others else ""
    return said(_UNDERSTOOD, "warning", f"{why} Weaker with it: {worst}{more}.", fix)
