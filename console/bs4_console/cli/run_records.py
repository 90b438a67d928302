"""What is known of each run: by the runs themselves, and by the run log."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from bs4_console.cli.output import complain
from bs4_console.cli.sessions import linked, pods
from bs4_console.errors import ConsoleError, RefusedError, UsageError
from bs4_console.pods.inventory import Pod
from bs4_console.run_log import config_texts, record_fold
from bs4_console.run_log.document import RunLog
from bs4_console.run_log.record import FINAL, RunRecord, in_order

#: Seconds to wait for a pod's newest data about its runs.
_LOOK_S = 20.0
#: Bytes. A log that is kept by hand has some hundred KB; a larger file is probably the wrong one.
_DOCUMENT_BYTES = 32 * 1024 * 1024


def own_records() -> dict[str, RunRecord]:
    """Return what the pods have recorded of their runs and this machine has read of it, as {run's
    name: record}. If several pods have a run of the same name, it was moved from one to the other,
    and its records are put together to one.
    """
    found: dict[str, list[RunRecord]] = {}
    for pod in record_fold.mirrored({pod.name for pod in pods(None)}):
        for state in pod.runs.values():
            found.setdefault(state.name, []).append(record_fold.fold(pod, state))
    joined = {name: record_fold.continued(records) for name, records in found.items()}
    present = {pod.name for pod in pods(None)}
    for record in joined.values():
        if record.still_on not in present:
            record.still_on = ""
    return joined


def records() -> dict[str, RunRecord]:
    """Return what is known of each run, as {run's name: record}. A record combines what the pods
    have recorded with what people wrote into the run log on this machine. If the two differ, the
    pods' data win. The exception is a price that a person gave with `runs note --price`: it wins
    over the one that was recorded at the launch.
    """
    log = RunLog()
    found, noted = log.records(), log.noted_prices()
    for name, own in own_records().items():
        by_hand = found.get(name)
        if by_hand is not None:
            own.notes = in_order(own.notes, by_hand.notes)
            own.lessons, own.tags = by_hand.lessons, by_hand.tags
            own.mark(own.notes)
            record_fold.with_written(own, by_hand)
            own.fields = by_hand.fields
            if name in noted or own.price is None:
                own.price = by_hand.price
            for key in ("model", "config", "pod_id", "wandb", "reward"):
                setattr(own, key, getattr(own, key) or getattr(by_hand, key))
        found[name] = own
    return found


def record_of(name: str) -> RunRecord:
    """Return the record of the run `name`. The run's pod is queried first if the run has not ended;
    if the pod cannot be reached, the run is as it was last seen. If nothing is recorded of the run,
    all pods are queried for it. Raises UsageError if none knows it.
    """
    known = records().get(name)
    asked = list(pods(None))
    if known is not None:
        going = known.status not in FINAL or bool(known.still_on)
        asked = [pod for pod in asked if going and pod.name == known.source]
    asyncio.run(look_again(asked))
    found = records().get(name)
    if found is None:
        raise UsageError(f"No run {name} is known.", "`bs4-console runs list` names them all.")
    return found


async def look_again(asked: Sequence[Pod]) -> None:
    """Read the newest data about their runs from the pods `asked`, and save it on this machine. For
    a pod that cannot be reached, a sentence on standard error says so, and its saved data stays as
    it was.
    """

    async def look(pod: Pod) -> None:
        try:
            async with linked(pod, deploy=False, timeout=_LOOK_S) as live:
                await config_texts.keep_of(live)
        except ConsoleError as error:
            complain(
                f"{pod.name} could not be asked, so its runs are as they were last seen: {error}"
            )

    await asyncio.gather(*(look(pod) for pod in asked))


def may_write(options: argparse.Namespace) -> None:
    """Raise RefusedError if the console was started with --read-only, and so may write nothing
    down. Otherwise do nothing.
    """
    if getattr(options, "read_only", False):
        raise RefusedError(
            "Nothing was written down: this console was started with --read-only.",
            "Start it without, to write.",
        )


def text_of(file: str) -> str:
    """Return the text of the file with the path `file`, or of standard input for "-". Raises
    UsageError if it is not there, is larger than 32 MiB, or is not UTF-8.
    """
    path = Path(file)
    if file != "-" and path.is_file() and path.stat().st_size > _DOCUMENT_BYTES:
        raise UsageError(
            f"{file} is larger than {_DOCUMENT_BYTES >> 20} MiB.", "Is it the right file?"
        )
    try:
        return (
            sys.stdin.buffer.read(_DOCUMENT_BYTES) if file == "-" else path.read_bytes()
        ).decode()
    except FileNotFoundError:
        raise UsageError(
            f"There is no file {file}.", "Give the path of a file, or - for standard input."
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file} is no UTF-8 text (byte {error.start}).", "Convert it, for example with iconv."
        ) from error
