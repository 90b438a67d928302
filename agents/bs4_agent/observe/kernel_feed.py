"""Feeding lines of the kernel log to the detection of the living runs, because a trainer's own logs
never repeat them.

If the kernel log is hidden, as in most containers, the driver's own events (NVML) replace its Xid
lines.

A machine has one kernel log, and a pod may share it with other users. A line that names a process
or a GPU counts only if that is ours.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bs4_agent.observe.surroundings import oom_kills
from bs4_agent.runs.followed_run import OnLine
from bs4_agent.runs.registry import Runs
from bs4_agent.telemetry.kernel import KernelLog
from bs4_common.failures.evidence import Evidence
from bs4_common.identity import own_pidns
from bs4_common.runs.model import Attempt, Run
from bs4_common.telemetry import Xid
from bs4_common.trainers.base import LogLine
from bs4_common.trainers.lines import parse

#: The inode of the machine's first pid namespace (PROC_PID_INIT_INO). A pid in the kernel log is a
#: number of that namespace.
FIRST_PIDNS = 4026531836
#: Seconds. The kernel names a process before its run is known to have ended, and up to this long
#: after.
_AFTER_END_S = 10.0
#: Events of the driver that wait for the next poll. More of them in a storm mean nothing new.
_EVENTS = 100
_GPUS = Path("/proc/driver/nvidia/gpus")
#: Matches GPUs only: an NVSwitch (SXid) has an address that is in no list of ours, and its faults
#: concern every run.
_GPU = re.compile(r"\bNVRM: [^:]{0,40}\b(?:PCI:)?([0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\b")
_PID = re.compile(
    r"Kill(?:ed)? process (\d{1,10})|reaped process (\d{1,10})|\bpid=(\d{1,10})"
    r"|^[^\[\]]{1,60}\[(\d{1,10})\][: ]|\btask [^:]{1,40}:(\d{1,10}) blocked"
)
#: The process that requested the missing memory, without a pid. The line about the killed process
#: follows.
_NOBODY = re.compile(r" invoked oom-killer: ")
_KILLED = re.compile(r"Kill(?:ed)? process \d")


class KernelFeed:
    """Passes the lines of the kernel log to the detection of failures, for each live run that they
    concern. There is one object per pod. Call `poll` several times a second; while there are no new
    lines it costs one system call.
    """

    def __init__(
        self,
        log: KernelLog,
        runs: Runs,
        feed: OnLine,
        *,
        gpus: Path = _GPUS,
        kills: Callable[[], int | None] = oom_kills,
    ) -> None:
        """Prepare the feed. `feed` is called for each line that concerns a run: with the run, its
        attempt, the id of its trainer, the source "kernel", the parsed line, and the line as
        evidence. `gpus` is a directory with an entry for each GPU of this machine that the pod has.
        `kills` returns how many processes the kernel has killed for lack of memory in the agent's
        control group, or None if the kernel does not show it.
        """
        self._log, self._runs, self._feed = log, runs, feed
        self._gpus, self._kills = gpus, kills
        self._killed = kills()
        self._number = 0
        self._events: deque[Xid] = deque(maxlen=_EVENTS)

    def blind(self) -> list[str]:
        """Return phrases that say what cannot be learned from the kernel log on this pod, for
        example because it is hidden in a container. The record of each incident lists them as what
        could not be seen. Return an empty list if the log shows everything.
        """
        if self._log.state == "hidden":
            return [f"kernel log is hidden ({self._log.detail})"]
        if own_pidns() == FIRST_PIDNS:
            return []
        return ["kernel log is the whole machine's: whose processes it names is not known"]

    def driver_events(self, events: Sequence[Xid]) -> None:
        """Take Xid errors (the NVIDIA driver's reports of GPU faults). Each has the `index` of the
        GPU, the error's number `xid`, and its time `t` as Unix time in seconds. If the kernel log,
        which would have them too, is hidden, the next `poll` passes them to the live runs;
        otherwise it drops them. An event without `index` is ignored. This may be called from any
        thread.
        """
        self._events.extend(event for event in events if event.get("index") is not None)

    def poll(self) -> None:
        """Read the new lines of the kernel log, and pass each to the live runs that it concerns. A
        line concerns a run if it names a process of that run or a GPU of this pod, or if it names
        neither a process nor a GPU.
        """
        self._tell_events()
        for raw in self._log.read():
            self._number += 1
            # Uptimes of the kernel's clock drift by minutes in months, but the line was written
            # now.
            line = dataclasses.replace(parse("kernel", raw), timestamp=time.time())
            killed = self._killed_ours(line.text)
            sequence = raw.partition(b",")[2].partition(b",")[0]
            # The record's own number is the same for every reader.
            offset = int(sequence) if sequence.isdigit() else self._number
            place = self._place(str(self._log.path), offset, line.text[:2000])
            for run, attempt in living(self._runs):
                if killed or self._concerns(line.text, run.name, attempt.number):
                    self._feed(run.name, attempt.number, run.spec.trainer, "kernel", line, place)

    def _tell_events(self) -> None:
        """Feed the driver's events to the living runs."""
        while self._events:
            event = self._events.popleft()
            if self._log.state != "hidden":
                continue
            self._number += 1
            # The kernel's form of the line, with the GPU's number in place of the address, which
            # NVML does not give with it.
            text = (
                f"NVRM: Xid ({event['index']:04}): {event['xid']}, GPU {event['index']}, told by "
                "NVML because the kernel log is hidden"
            )
            line = LogLine(text=text, timestamp=float(event["t"]), logger="kernel")
            place = self._place("", int(event["t"]), text)
            for run, attempt in living(self._runs):
                self._feed(run.name, attempt.number, run.spec.trainer, "kernel", line, place)

    def _concerns(self, text: str, run: str, attempt: int) -> bool:
        """Return True if a line of the kernel log concerns this attempt: it names a GPU or a
        process of ours, or neither.
        """
        gpu = _GPU.search(text)
        if gpu is not None:
            return self._has(gpu.group(1))
        if _NOBODY.search(text) is not None:
            return False
        named = _PID.search(text)
        if named is None:
            return True
        if own_pidns() != FIRST_PIDNS:
            return False
        pid = _process_of(int(next(number for number in named.groups() if number)))
        for member in self._runs.membership.members(run, attempt):
            if member.identity.pid == pid:
                return True
        return False

    def _has(self, pci: str) -> bool:
        """Return True if the GPU at this PCI address is ours, or if the driver lists no GPU."""
        try:
            ours = []
            for path in self._gpus.iterdir():
                ours.append(path.name.lower().startswith(pci.lower()))
        except OSError:
            return True
        return not ours or any(ours)

    def _killed_ours(self, text: str) -> bool:
        """Return True if a line reports a kill in our own control group. In a container the pids in
        the log mean nothing, so the control group's own count decides.
        """
        if own_pidns() == FIRST_PIDNS or _KILLED.search(text) is None:
            return False
        before, self._killed = self._killed, self._kills()
        return before is not None and self._killed is not None and self._killed > before

    def _place(self, file: str, offset: int, text: str) -> Evidence:
        """Return the present line as evidence."""
        return {
            "source": "kernel",
            "stream": "",
            "cursor": "",
            "file": file,
            "offset": offset,
            "line": self._number,
            "text": text,
        }


def living(runs: Runs) -> Iterator[tuple[Run, Attempt]]:
    """Yield (run, its newest attempt) for each run that is alive or ended less than ten seconds
    ago.
    """
    now = time.time()
    for run in runs.all():
        attempt = run.attempt
        if attempt is not None and (attempt.end is None or now - attempt.end.t < _AFTER_END_S):
            yield run, attempt


def _process_of(number: int) -> int:
    """Return the pid of the process that a thread belongs to, because the kernel names the thread
    in reports of hung tasks and faults. A thread that is gone stands for itself.
    """
    try:
        status = Path(f"/proc/{number}/status").read_text()
    except OSError:
        return number
    for line in status.splitlines():
        if line.startswith("Tgid:"):
            return int(line.split()[1])
    return number
