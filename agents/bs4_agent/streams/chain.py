"""The files of a log in their order: found, linked, watched, ended, remembered over restarts of the
agent.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from bs4_agent.clock import boot_id
from bs4_agent.runs.files import read_json, write_json
from bs4_agent.streams.generations import Generation, Watch, link_into, open_log, rotated

#: Seconds a file that was replaced must be quiet before readers go on: its writer may still hold it
#: open for a moment.
QUIET_S = 1.0
#: Seconds that a finished file is still looked at for late writes.
LATE_S = 60.0
#: Unlinkable finished files that are held open so that they stay readable; the oldest is closed
#: first.
HELD_OPEN = 32
#: Generations that are remembered; a log rotated every ten minutes keeps almost two days.
MAX_GENERATIONS = 256
#: Seconds between saves of what only makes a restart better informed (sizes, times), and before a
#: failed save is tried again.
SAVE_S = 60.0
SAVE_AGAIN_S = 5.0


class Chain:
    """Not locked: the LogStream that owns it does that. `lost` collects gaps that nobody has been
    told of.
    """

    def __init__(self, archive: Path | None, state: Path | None) -> None:
        """`state` None: nothing is remembered, and numbers are from a range that no earlier chain
        had.
        """
        self.path, self.attempt = "", -1
        self.first = 1
        """Number of the oldest generation that is remembered."""
        self.generations: list[Generation] = []
        self.lost: list[dict[str, Any]] = []
        self.problem = ""
        """Why a file cannot be read or the chain not be saved, "" when all is well."""
        self._archive, self._state = archive, state
        self._watches: dict[int, Watch] = {}
        self._finished_at: dict[int, float] = {}
        self._news = False
        self._must_save, self._may_save = False, False
        self._save_due, self._save_again = 0.0, 0.0
        if state is None:
            self.first = int(time.time())
            return
        state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._load(state)

    @property
    def next(self) -> int:
        """Number of the generation that will come."""
        return self.first + len(self.generations)

    def get(self, number: int) -> Generation | None:
        index = number - self.first
        if 0 <= index < len(self.generations):
            return self.generations[index]
        return None

    def watch(self, generation: Generation) -> Watch | None:
        """Its open file, if it is live or held open."""
        return self._watches.get(generation.number)

    def expect(self, path: str, attempt: int) -> bool:
        """From now on the log of `attempt` is at `path`. False when that changes nothing, or
        `attempt` is an earlier one.
        """
        if attempt < self.attempt or (path, attempt) == (self.path, self.attempt):
            return False
        self.path, self.attempt, self._must_save = path, attempt, True
        return True

    def look(self) -> bool:
        """Look at every file that may have changed; whether there is something new for readers."""
        if self._undisturbed():
            return False
        now = time.monotonic()
        self.problem = ""
        try:
            self._discover()
            for watch in list(self._watches.values()):
                if watch.generation.live:
                    self._look(watch)
                else:
                    self._look_late(watch, now)
            self._finish_replaced()
        except OSError as error:
            self.problem = f"{error.filename or self.path} cannot be read: {error.strerror}"
        self.save(now)
        news, self._news = self._news, False
        return news

    def intact(self, generation: Generation) -> bool:
        """Whether a live generation still is what it was; when not it has been noted as lost, and
        what it is now follows it.
        """
        watch = self._watches[generation.number]
        if watch.intact():
            return True
        self._replaced(watch)
        return False

    def lose(self, generation: Generation, reason: str) -> None:
        generation.lost, self._must_save = reason, True
        self.lost.append(
            {"generation": generation.number, "from": 0, "to": generation.end, "reason": reason}
        )

    def open(self, generation: Generation) -> int:
        """A descriptor of the caller's own, -1 when the file cannot be found."""
        watch = self._watches.get(generation.number)
        if watch:
            return os.dup(watch.fd)
        return generation.open()

    def save(self, now: float, *, closing: bool = False) -> None:
        if self._state is None:
            self._must_save = self._may_save = False
            return
        due = self._must_save or (self._may_save and (closing or now >= self._save_due))
        if not due or now < self._save_again:
            return
        chain = [generation.as_dict() for generation in self.generations]
        value = {
            "format": 1,
            "path": self.path,
            "attempt": self.attempt,
            "first": self.first,
            "generations": chain,
        }
        try:
            write_json(self._state, value)
        except OSError as error:
            self.problem = f"{self._state} cannot be written: {error.strerror}"
            self._save_again = now + SAVE_AGAIN_S
            return
        self._must_save = self._may_save = False
        self._save_due = now + SAVE_S

    def close(self) -> None:
        self.save(time.monotonic(), closing=True)
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()

    def _undisturbed(self) -> bool:
        """The usual case, for one system call: the only live file is at its path, as long and as
        old as it was.
        """
        if (
            len(self._watches) != 1
            or self._news
            or self._must_save
            or self._may_save
            or self.problem
        ):
            return False
        (watch,) = self._watches.values()
        try:
            # Ten times a second for each log: Path.stat costs four times as much.
            return watch.unchanged(os.stat(self.path))  # noqa: PTH116
        except OSError:
            return False

    def _look(self, watch: Watch) -> None:
        if not watch.intact():
            self._replaced(watch)
        elif watch.size != watch.noticed:
            watch.noticed = watch.size
            watch.generation.trail.add(time.time(), watch.size)
            self._must_save |= watch.generation.take_fingerprint(watch.fd)
            self._news = self._may_save = True

    def _look_late(self, watch: Watch, now: float) -> None:
        """A finished file: what is still written to it can be read from its place, and is told as a
        gap to those who went on.
        """
        generation = watch.generation
        finished_at = self._finished_at.get(generation.number)
        if finished_at is None or generation.end is None:
            return
        size = os.fstat(watch.fd).st_size
        if size > generation.end:
            reason = (
                "written after the log had gone on in another file; it can be read from this place"
            )
            self.lost.append(
                {
                    "generation": generation.number,
                    "from": generation.end,
                    "to": size,
                    "reason": reason,
                }
            )
            generation.end, self._must_save = size, True
        if now - finished_at > LATE_S:
            del self._finished_at[generation.number]
            if generation.link:
                self._watches.pop(generation.number).close()

    def _discover(self) -> None:
        """Is another file than those known at the expected path?"""
        if not self.path:
            return
        try:
            info = Path(self.path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return
        if any(
            watch.generation.live and watch.generation.is_file(info)
            for watch in self._watches.values()
        ):
            return
        fd = open_log(self.path)
        if fd < 0:
            return
        if self._known(fd):
            os.close(fd)
            return
        try:
            self._adopt_rotated(fd)
            self._adopt(fd)
        except OSError:
            os.close(fd)
            raise

    def _known(self, fd: int) -> bool:
        """Whether the file is a generation already. The inode number alone does not tell: it is
        used again after a deletion.
        """
        info = os.fstat(fd)
        return any(
            g.is_file(info) and g.recognises(fd) and (g.fingerprinted or g.live)
            for g in self.generations
            if not g.lost
        )

    def _adopt_rotated(self, newer: int) -> None:
        """Files that came and were set aside again between two looks (or while no agent was there)
        lie beside the path, rotated.
        """
        last = None
        if self.generations:
            last = self.generations[-1]
        watch = self._watches.get(last.number) if last else None
        if last is None or watch is None or last.path != self.path:
            return
        since, newest = os.fstat(watch.fd), os.fstat(newer)
        for path in rotated(self.path):
            fd = open_log(path)
            if fd < 0:
                continue
            info = os.fstat(fd)
            if (
                info.st_mtime_ns < since.st_mtime_ns
                or os.path.samestat(info, newest)
                or self._known(fd)
            ):
                os.close(fd)
            else:
                self._adopt(fd)

    def _adopt(self, fd: int, link: str = "") -> None:
        """The open file is the next generation."""
        info = os.fstat(fd)
        generation = Generation(
            number=self.next,
            path=self.path,
            attempt=self.attempt,
            device=info.st_dev,
            inode=info.st_ino,
            boot=boot_id(),
            first_seen=round(time.time(), 3),
        )
        generation.take_fingerprint(fd)
        watch = Watch(generation, fd)
        if self._archive is not None:
            generation.link = link or link_into(
                self._archive, fd, f"{Path(self.path).name}.{generation.number:06d}"
            )
        self.generations.append(generation)
        self._watches[generation.number] = watch
        self._must_save = self._news = True
        self._forget_oldest()

    def _replaced(self, watch: Watch) -> None:
        """Truncated or rewritten in place: what was not read before is gone; the same inode goes on
        as the next generation.
        """
        old = watch.generation
        link, old.link = old.link, ""
        del self._watches[old.number]
        self.lose(old, "the file was truncated or rewritten in place")
        self._news = True
        if old is self.generations[-1]:
            self._adopt(watch.fd, link)
        else:
            watch.close()

    def _finish_replaced(self) -> None:
        """End the generations that have a successor with content and are quiet; readers then go
        on.
        """
        now = time.monotonic()
        newest = max(
            (generation.number for generation in self.generations if generation.seen), default=0
        )
        for watch in list(self._watches.values()):
            generation = watch.generation
            if generation.live and generation.number < newest and now - watch.grown_at >= QUIET_S:
                generation.end = watch.size
                self._finished_at[generation.number] = now
                self._must_save = self._news = True
        held = [
            number
            for number, watch in self._watches.items()
            if not watch.generation.live and number not in self._finished_at
        ]
        for number in held[:-HELD_OPEN]:
            self._watches.pop(number).close()

    def _forget_oldest(self) -> None:
        while len(self.generations) > MAX_GENERATIONS:
            generation = self.generations.pop(0)
            self.first = generation.number + 1
            self._finished_at.pop(generation.number, None)
            if watch := self._watches.pop(generation.number, None):
                watch.close()

    def _load(self, state: Path) -> None:
        try:
            saved = read_json(state)
            if saved is None:
                return
            self.generations = [Generation.from_dict(entry) for entry in saved["generations"]]
            self.path, self.attempt, self.first = saved["path"], saved["attempt"], saved["first"]
        except (ValueError, TypeError, KeyError):
            # Numbers from a new range: old cursors then lie before the first generation (a gap),
            # and never mean other bytes.
            os.replace(state, state.with_name(f"{state.name}.damaged"))
            self.generations, self.first = [], int(time.time())
            return
        for generation in list(self.generations):
            if generation.live:
                self._watch_again(generation)

    def _watch_again(self, generation: Generation) -> None:
        fd = generation.open()
        if fd < 0:
            self.lose(generation, "the file was deleted or replaced while no agent watched it")
            return
        watch = self._watches[generation.number] = Watch(generation, fd)
        if not watch.intact():
            self._replaced(watch)
