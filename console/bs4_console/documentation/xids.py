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
    """Find out if a topic names an Xid, the number of a GPU fault. Return (number, True) if it
    does, as "xid 79" or "Xid(79)" do; (number, False) if it is only a number; and None if it is
    neither.
    """
    match = _ASKED.fullmatch(topic.strip())
    if match is None:
        return None
    return int(match["number"]), match["word"] is not None


def entry(number: int, known: Iterable[Entry], said: bool) -> Entry | None:
    """Return the entry about the failure that an Xid number (a GPU fault that the NVIDIA driver
    reports) means. `known` are the entries of the known failures. Return None if none of them is
    recognised by that number.

    `said` is True if a person's topic has the word Xid. Without it, the number is taken for an Xid
    only if a failure names the number itself.
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
