"""The files of one log in their order: how they are found, linked, watched and finished, and how
they are remembered when the agent restarts.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from bs4_common.clock import boot_id
from bs4_common.files import read_json, write_json
from bs4_common.streams.cursor import Cursor, Gap
from bs4_common.streams.generations import Generation, Watch, link_into, open_log, rotated

#: Seconds for which a replaced file must be quiet before readers go on. Its writer may still hold
#: it open for a moment.
QUIET_S = 1.0
#: Seconds for which a finished file is still checked for late writes.
LATE_S = 60.0
#: Finished files without a hard link that are held open so that they stay readable. The oldest is
#: closed first.
HELD_OPEN = 32
#: Generations that are remembered. That is almost two days of a log that is rotated every ten
#: minutes.
MAX_GENERATIONS = 256
#: Seconds between saves of values that only make a restart better informed (sizes, times), and
#: before a failed save is tried again.
SAVE_S = 60.0
SAVE_AGAIN_S = 5.0


class Chain:
    """The files that one log has had, oldest first. Each file is a Generation with a number. A log
    has a new file after each rotation, truncation or restart.

    `lost` is a list of gaps, dictionaries that each describe a range of bytes that cannot be read
    any more. The LogStream that owns this object looks for new gaps in the list and reports them. A
    Chain has no lock of its own; the LogStream holds one while it uses the Chain.
    """

    def __init__(self, archive: Path | None, state: Path | None) -> None:
        """Load the chain from the JSON file `state`. If `state` is None, nothing is remembered, and
        the numbers of the files begin at the present Unix time, so that they are higher than those
        of earlier chains.

        `archive` is the directory of the agent's hard links to the files, or None for no links.
        """
        self.path, self.attempt = "", -1
        self.first = 1
        """The number of the oldest generation that is remembered."""
        self.generations: list[Generation] = []
        self.lost: list[Gap] = []
        self.problem = ""
        """The reason why a file cannot be read or the chain cannot be saved, or ""."""
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
        """Return the number that the next file of the log will have as a Generation. It is one more
        than that of the newest file.
        """
        return self.first + len(self.generations)

    @property
    def newest(self) -> Watch | None:
        """Return the Watch (the open file) of the newest generation, which is the newest file of
        the log. Return None if the log has no file yet or the newest file is not open.
        """
        return self._watches.get(self.next - 1)

    def get(self, number: int) -> Generation | None:
        """Return the Generation (one file of the log) with this number. Return None if it is so old
        that it is not remembered any more, or if no generation has this number yet.
        """
        index = number - self.first
        if 0 <= index < len(self.generations):
            return self.generations[index]
        return None

    def watch(self, generation: Generation) -> Watch | None:
        """Return the Watch (the open file) of `generation`, which is one file of the log. Return
        None if the file is not open. A file that may still grow is always open.
        """
        return self._watches.get(generation.number)

    def expect(self, path: str, attempt: int) -> bool:
        """Set the path at which the log of attempt number `attempt` is, or will be, and return
        True. The next call of `scan` then looks for the log's file at this path. Return False, and
        change nothing, if the same path and attempt are set already, or if the attempt that is set
        has a higher number than `attempt`.
        """
        if attempt < self.attempt or (path, attempt) == (self.path, self.attempt):
            return False
        self.path, self.attempt, self._must_save = path, attempt, True
        return True

    def scan(self) -> bool:
        """Find out if the log's files have grown or were replaced, and add a new file at the log's
        path as the next generation. Return True if readers of the log can read something new.

        If a file cannot be read, nothing is raised; `problem` is then a sentence that names it.
        """
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
        """Check the open file of `generation`, a file of the log that may still grow. Return True
        if it is the same file as before and has only grown. If the file was truncated or rewritten
        in place, record that the old bytes are lost, make the present content the next generation,
        and return False.
        """
        watch = self._watches[generation.number]
        if watch.intact():
            return True
        self._replaced(watch)
        return False

    def lose(self, generation: Generation, reason: str) -> None:
        """Record that the bytes of the file `generation` cannot be read any more. `reason` is a
        text for a person that says why. A gap is added to the list `lost`: a dictionary with the
        generation's number, the byte offsets between which bytes are lost, and this reason.
        """
        generation.lost, self._must_save = reason, True
        self.lost.append(Cursor(generation.number, 0).gap(generation.end, reason))

    def open(self, generation: Generation) -> int:
        """Return a new file descriptor of the file `generation`, which the caller must close.
        Return -1 if the file cannot be found any more.
        """
        watch = self._watches.get(generation.number)
        if watch:
            return os.dup(watch.fd)
        return generation.open()

    def save(self, now: float, *, closing: bool = False) -> None:
        """Write what is known of the log's files to the JSON file `state` that was given to the
        constructor, if anything has changed since the last time. `now` is the present time in
        seconds of the monotonic clock. If only sizes and times have changed, the file is written at
        most every 60 seconds, or at once with `closing`.

        Do nothing if the constructor got no state file. If the file cannot be written, nothing is
        raised; `problem` is then a sentence about it.
        """
        if self._state is None:
            self._must_save = self._may_save = False
            return
        late = closing or now >= self._save_due
        if now < self._save_again or not (self._must_save or (self._may_save and late)):
            return
        value = {
            "format": 1,
            "path": self.path,
            "attempt": self.attempt,
            "first": self.first,
            "generations": [generation.as_dict() for generation in self.generations],
            "marks": {str(one.number): one.mark for one in self.generations if one.live},
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
        """Write what is known of the log's files to the state file, if there is one, and close the
        files.
        """
        self.save(time.monotonic(), closing=True)
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()

    def _undisturbed(self) -> bool:
        """Return True if the only live file is at its path with the same size and time as before.
        That is the usual case, and it costs one system call.
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
            # This runs ten times a second for each log, and Path.stat costs four times as much.
            return watch.unchanged(os.stat(self.path))  # noqa: PTH116
        except OSError:
            return False

    def _look(self, watch: Watch) -> None:
        """Check one live file for growth or replacement."""
        if not watch.intact():
            self._replaced(watch)
        elif watch.size != watch.noticed:
            watch.noticed = watch.size
            watch.generation.trail.add(time.time(), watch.size)
            self._must_save |= watch.generation.take_fingerprint(watch.fd)
            self._news = self._may_save = True

    def _look_late(self, watch: Watch, now: float) -> None:
        """Check a finished file for late writes. They can be read from their place, and readers
        that have gone on get a gap.
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
            self.lost.append(Cursor(generation.number, generation.end).gap(size, reason))
            generation.end, self._must_save = size, True
        if now - finished_at > LATE_S:
            del self._finished_at[generation.number]
            if generation.link:
                self._watches.pop(generation.number).close()

    def _discover(self) -> None:
        """Take a new file at the expected path as the next generation."""
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
        """Return True if the open file is a generation already. The inode number alone does not
        tell, because it is used again after a deletion.
        """
        info = os.fstat(fd)
        return any(
            g.is_file(info) and g.recognises(fd) and (g.fingerprinted or g.live)
            for g in self.generations
            if not g.lost
        )

    def _adopt_rotated(self, newer: int) -> None:
        """Take files that came and were rotated away between two polls as generations. They lie
        beside the path, under a rotated name.
        """
        watch = self.newest
        if watch is None or watch.generation.path != self.path:
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
        """Take the open file as the next generation."""
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
        """Note that a file was truncated or rewritten in place. What was not read is lost, and the
        same inode continues as the next generation.
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
        """Finish the generations that are quiet and have a successor with content, so that readers
        go on.
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
        """Forget the oldest generations beyond the limit."""
        while len(self.generations) > MAX_GENERATIONS:
            generation = self.generations.pop(0)
            self.first = generation.number + 1
            self._finished_at.pop(generation.number, None)
            if watch := self._watches.pop(generation.number, None):
                watch.close()

    def _load(self, state: Path) -> None:
        """Read the state file. A damaged one is moved aside."""
        try:
            saved = read_json(state)
            if saved is None:
                return
            self.generations = [Generation.from_dict(entry) for entry in saved["generations"]]
            self.path, self.attempt, self.first = saved["path"], saved["attempt"], saved["first"]
            for generation in self.generations:
                generation.mark = str(saved.get("marks", {}).get(str(generation.number), ""))
        except (ValueError, TypeError, KeyError, AttributeError):
            # The new numbers are from a new range. Old cursors then lie before the first generation
            # (a gap) and never mean other bytes.
            os.replace(state, state.with_name(f"{state.name}.damaged"))
            self.generations, self.first = [], int(time.time())
            return
        for generation in list(self.generations):
            if generation.live:
                self._watch_again(generation)

    def _watch_again(self, generation: Generation) -> None:
        """Open a live generation after a restart of the agent, or note that it is lost."""
        fd = generation.open()
        if fd < 0:
            self.lose(generation, "the file was deleted or replaced while no agent watched it")
            return
        watch = self._watches[generation.number] = Watch(generation, fd)
        if not watch.intact():
            self._replaced(watch)
