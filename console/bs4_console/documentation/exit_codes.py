"""Say what an exit code above 128 means: the signal that has ended the program."""

from __future__ import annotations

import re
import signal

from bs4_console.documentation.entry import Entry

_ASKED = re.compile(
    r"(?:exit(?:ed)?\s+)?(?:with\s+)?(?:exit\s+)?(?:code\s+|status\s+)?(?P<code>[0-9]{3})",
    re.IGNORECASE,
)
#: What usually sends a signal to a trainer's process, and the failure that looks for it.
_CAUSES = {
    signal.SIGINT: "Somebody has pressed Ctrl-C, or a stop has sent it.",
    signal.SIGABRT: "The program has given itself up, as glibc and NCCL's watchdog do; its log "
    "says why.",
    signal.SIGKILL: "Mostly the kernel ended it for lack of memory (`bs4-console docs "
    "host-oom-kill`), or a person, a launcher or the provider did. It could not write a last line.",
    signal.SIGSEGV: "It has touched memory that is not its own, mostly in a library of C or CUDA.",
    signal.SIGTERM: "It was asked to end: by a stop, by a launcher whose other process has failed, "
    "or by the provider.",
}


def entry(topic: str) -> Entry | None:
    """Return the entry about the exit code that a topic names, such as "137" or "exit code 143".
    Return None if the topic names none, or one that does not mean that a signal has ended the
    program.
    """
    match = _ASKED.fullmatch(topic.strip())
    if match is None:
        return None
    try:
        sent = signal.Signals(int(match["code"]) - 128)
    except ValueError:
        return None
    title = f"The program was ended by {sent.name} (128 + {sent.value})."
    name = f"exit code {match['code']}"
    return Entry(kind="exit", names=(name,), title=title, text=_CAUSES.get(sent, title))
