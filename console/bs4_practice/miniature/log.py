"""prime-rl's log lines: loguru's format in both generations, NDJSON in the current one when asked.

Colours are always on (the launchers set LOGURU_FORCE_COLORS=1), there is no date, and
`[file::line]` appears only at level debug.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from datetime import datetime
from pathlib import Path

_DIM, _RESET, _BOLD, _NO_BOLD = "\x1b[2m", "\x1b[0m", "\x1b[1m", "\x1b[22m"
_COLOUR = {
    "DEBUG": "\x1b[34m",
    "INFO": "",
    "SUCCESS": "\x1b[32m",
    "WARNING": "\x1b[33m",
    "ERROR": "\x1b[31m",
}
_RANK = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "SUCCESS": 25, "WARNING": 30, "ERROR": 40}


class Logger:
    """Writes prime-rl's log lines to standard output and, if `file` is given, to that file, which
    is emptied first. `level` is the lowest level that is written, such as "info". With `json_lines`
    each line is a JSON object.
    """

    def __init__(
        self, level: str = "info", file: Path | None = None, *, json_lines: bool = False
    ) -> None:
        self.level = level.upper()
        self.json_lines = json_lines
        self._outputs = [1]
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            self._outputs.append(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))

    def debug(self, message: str, at: str = "") -> None:
        """Write a line of level DEBUG, if the logger writes that level. `at` is the place in
        prime-rl's code that writes this line, such as "rl.py::539", or "" if it is not known.
        """
        self._log("DEBUG", message, at)

    def info(self, message: str, at: str = "") -> None:
        """Write a line of level INFO, if the logger writes that level. `at` is the place in
        prime-rl's code that writes this line, such as "rl.py::539", or "" if it is not known.
        """
        self._log("INFO", message, at)

    def success(self, message: str, at: str = "") -> None:
        """Write a line of level SUCCESS, if the logger writes that level. `at` is the place in
        prime-rl's code that writes this line, such as "rl.py::539", or "" if it is not known.
        """
        self._log("SUCCESS", message, at)

    def warning(self, message: str, at: str = "") -> None:
        """Write a line of level WARNING, if the logger writes that level. `at` is the place in
        prime-rl's code that writes this line, such as "rl.py::539", or "" if it is not known.
        """
        self._log("WARNING", message, at)

    def error(self, message: str, at: str = "") -> None:
        """Write a line of level ERROR. `at` is the place in prime-rl's code that writes this line,
        such as "rl.py::539", or "" if it is not known.
        """
        self._log("ERROR", message, at)

    def failure(self, message: str, error: BaseException, at: str = "") -> None:
        """Write a line of level ERROR, and the traceback of `error` below it, or in the field
        "exception" of a JSON line. `at` is the place in prime-rl's code that writes this line, such
        as "rl.py::539", or "" if it is not known.
        """
        self._log("ERROR", message, at, "".join(traceback.format_exception(error)))

    def progress(self, desc: str, current: int, total: int, step: int) -> None:
        """Write a JSON line that `current` of `total` pieces of the work `desc` are done in the
        step `step`. Writes nothing if the logger does not write JSON lines; a progress bar is then
        drawn on standard error instead (see Bar).
        """
        if self.json_lines:
            entry = {
                "timestamp": _iso_now(),
                "level": "INFO",
                "type": "progress",
                "desc": desc,
                "current": current,
                "total": total,
            }
            self._write(
                json.dumps({**entry, "percent": 100 * current // max(total, 1), "step": step})
                + "\n"
            )

    def _log(self, level: str, message: str, at: str, exception: str = "") -> None:
        if _RANK[level] < _RANK.get(self.level, 20):
            return
        source, function, line = _origin(at)
        if self.json_lines:
            entry = {"timestamp": _iso_now(), "level": level, "message": message}
            entry |= {"module": source.removesuffix(".py"), "function": function, "line": line}  # type: ignore[dict-item]
            if exception:
                entry["exception"] = exception
            self._write(json.dumps(entry) + "\n")
            return
        clock = time.strftime("%H:%M:%S")
        paint = _COLOUR[level] + _BOLD
        text = (
            f"{_DIM}{clock}{_RESET} {paint}{level:>7}{_RESET} "
            f"{paint}{_NO_BOLD}{message}{_RESET}{_RESET}"
        )
        if self.level == "DEBUG":
            text += f"{paint}{_NO_BOLD} [{source}::{line}]{_RESET}{_RESET}"
        self._write(f"{text}\n{exception}")

    def _write(self, text: str) -> None:
        # One write a line: several processes and threads share these files.
        for output in self._outputs:
            os.write(output, text.encode())


def _iso_now() -> str:
    return datetime.now().astimezone().isoformat()


def _origin(at: str) -> tuple[str, str, int]:
    """Where the real line comes from ("rl.py::539"), or where the miniature's does."""
    frame = sys._getframe(3)
    if not at:
        return Path(frame.f_code.co_filename).name, frame.f_code.co_name, frame.f_lineno
    source, _, line = at.partition("::")
    return source, frame.f_code.co_name, int(line or 0)


def duration(seconds: float) -> str:
    """Return a number of seconds as the current version of prime-rl prints a duration: 31.3s, 3m
    3s, 1h 3m.
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m" if hours < 24 else f"{hours // 24}d {hours % 24}h"


class Bar:
    """A progress bar on standard error as tqdm draws it: each new state follows a carriage return,
    and the line ends only with `close`. `desc` is the text in front and `total` the number of
    items.
    """

    def __init__(self, desc: str, total: int) -> None:
        self._desc = desc
        self._total = total
        self._done = 0
        self._started = time.monotonic()
        self._drawn = 0.0
        self._draw()

    def update(self, count: int) -> None:
        """Count `count` more items as done, and draw the bar unless it was drawn less than 0.1
        seconds ago.
        """
        self._done += count
        if time.monotonic() - self._drawn > 0.1:  # tqdm's own mininterval
            self._draw()

    def close(self) -> None:
        """Draw the bar for the last time and end its line."""
        self._draw()
        os.write(2, b"\n")

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        elapsed = self._drawn - self._started
        share = min(self._done / self._total, 1.0)
        bar = "█" * int(10 * share)
        if self._done:
            rate = (
                f"{_clock(elapsed / self._done * (self._total - self._done))}, "
                f"{self._done / max(elapsed, 0.01):5.2f}it/s"
            )
        else:
            rate = "?, ?it/s"
        text = (
            f"\r{self._desc}: {share:4.0%}|{bar:<10}| {self._done}/{self._total} "
            f"[{_clock(elapsed)}<{rate}]"
        )
        os.write(2, text.encode())


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
