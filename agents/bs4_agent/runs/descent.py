"""Find all descendants of a process. The shim repeats this scan each second.

This is part of the process that stays resident (see reaper.py), so it imports nothing that costs
memory and nothing from the rest of this package.
"""

# ruff: noqa: PTH208  (pathlib costs 1.3 MB here)

from __future__ import annotations

import os

_MAX_TITLE = 300


def read(path: str) -> str | None:
    """Return the content of a small file as text, or None if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return None


class Process:
    """What the kernel says about one process.

    `state` is the state letter of /proc/PID/stat (such as R for running, Z for zombie), `parent`
    the parent's pid, `ticks` the start time in clock ticks since boot, `comm` the short name, and
    `title` the first 300 characters of the command line.
    """

    __slots__ = ("comm", "parent", "state", "ticks", "title")

    def __init__(self, state: str, parent: int, ticks: int, comm: str, title: str) -> None:
        self.state, self.parent, self.ticks = state, parent, ticks
        self.comm, self.title = comm, title

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Return the process with this pid, or None if there is no such process or it cannot be
        read.
        """
        stat = read(f"/proc/{pid}/stat")
        if not stat or ")" not in stat:
            return None
        name_end = stat.rindex(")")
        fields = stat[name_end + 2 :].split()
        title = (read(f"/proc/{pid}/cmdline") or "").replace("\0", " ").strip()[:_MAX_TITLE]
        return cls(
            fields[0], int(fields[1]), int(fields[19]), stat[stat.index("(") + 1 : name_end], title
        )


class Descendants:
    """The living descendants of the process with pid `root`, without that process itself. `known`
    maps the pid of each to its Process.

    A process cannot become a descendant later in its life, so each process is checked only once,
    when it is first seen.
    """

    def __init__(self, root: int) -> None:
        self.root = root
        self.known: dict[int, Process] = {}
        self._others: set[int] = set()
        self._young: set[int] = set()

    def scan(self, *, everything: bool) -> bool:
        """Read the machine's process list and update `known`. Return True if a descendant appeared,
        ended, or changed its command line since the last call.

        Without `everything`, only pids that were not seen before are checked for descent. With
        `everything`, all processes are checked again, in case a pid was reused.
        """
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        changed = self._forget(pids)
        if everything:
            self._others.clear()
            changed |= self._refresh(set(self.known))
        else:
            changed |= self._refresh(self._young)
        return self._judge(pids - self._others - self.known.keys()) or changed

    def _forget(self, pids: set[int]) -> bool:
        """Forget the pids that are gone. Return True if a descendant was among them."""
        gone = self.known.keys() - pids
        for pid in gone:
            del self.known[pid]
        self._others &= pids
        self._young &= pids
        return bool(gone)

    def _refresh(self, pids: set[int]) -> bool:
        """Read these descendants again. Return True if one was replaced or its title changed."""
        changed = False
        for pid in pids & self.known.keys():
            now, before = Process.of(pid), self.known[pid]
            if now is None or now.ticks != before.ticks:
                del self.known[pid]
                changed = True
            elif (
                now.title and now.title != before.title
            ):  # a zombie has no command line: keep the one it had
                self.known[pid] = now
                changed = True
        self._young.clear()
        return changed

    def _is_child(self, process: Process) -> bool:
        """Return True if the process is a child of a known descendant. A stranger that has got the
        pid of a descendant that died since the last scan does not count as its parent.
        """
        parent = self.known.get(process.parent)
        if parent is None or process.ticks < parent.ticks:
            return False
        now = Process.of(process.parent)
        if now is not None and now.ticks != parent.ticks:
            del self.known[process.parent]
        return now is not None and now.ticks == parent.ticks

    def _judge(self, pids: set[int]) -> bool:
        """Add those of `pids` that descend from the root. Return True if the number of descendants
        changed.
        """
        found = {
            pid: process for pid in pids - {self.root} if (process := Process.of(pid)) is not None
        }
        before = len(self.known)
        growing = True
        while growing:
            ours = [
                pid
                for pid, process in found.items()
                if process.parent == self.root or self._is_child(process)
            ]
            for pid in ours:
                self.known[pid] = found.pop(pid)
                self._young.add(pid)
            growing = bool(ours)
        # A process whose parent is unknown (it died between two reads) is judged again next time,
        # by the parent that it has then.
        strangers = self._others | found.keys() | {0}
        self._others |= {pid for pid, process in found.items() if process.parent in strangers}
        return len(self.known) != before
