"""Say which known failure an Xid number of the GPU driver is.

The numbers stand in no list of their own. A kernel line with the number is made and given to the
log signatures of the known failures, so the answer is what detection would say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bs4_console.documentation.entry import Entry

_ASKED = re.compile(r"(?P<word>xid)?[\s:(#-]*(?P<number>[0-9]{1,6})\)?", re.IGNORECASE)
#: The pattern of a signature as docs/failures.md has it. An SXid is of the switch, and another
#: number.
_SIGNATURE = re.compile(r"a line of the kernel log that matches `([^`]*(?<!S)Xid [^`]*)`")
#: The failure of all numbers that have none of their own.
_OTHER = "gpu-xid-other"


def asked(topic: str) -> tuple[int, bool] | None:
    """Return (number, True) if a topic names an Xid, such as "xid 79" or "Xid(79)", and (number,
    False) if it is only a number. Return None if it is neither.
    """
    match = _ASKED.fullmatch(topic.strip())
    if match is None:
        return None
    return int(match["number"]), match["word"] is not None


def entry(number: int, known: Iterable[Entry], said: bool) -> Entry | None:
    """Return the entry of an Xid number, or None if no failure in `known` is recognised by it.

    `said` is True if the topic has the word Xid. Without it, only a number that a failure names
    itself is taken for an Xid.
    """
    line = f"[ 1.000000] NVRM: Xid (PCI:0000:3b:00): {number}, pid=1, name=python3"
    for failure in known:
        if failure.kind != "failure" or (failure.names[0] == _OTHER and not said):
            continue
        for pattern in _SIGNATURE.findall(failure.text):
            if re.search(pattern, line):
                return Entry(
                    kind="xid",
                    names=(f"Xid {number}", f"xid{number}", str(number)),
                    title=f"{failure.names[0]}: {failure.title}",
                    text=failure.text,
                    more=failure.more,
                )
    return None
