"""Reads the terminal's keys, and reports Esc as soon as it cannot be the beginning of a key."""

from __future__ import annotations

import errno
import os
import select
import sys
from codecs import getincrementaldecoder
from typing import Any

from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver

__all__ = ["KeyDriver", "LinuxDriver"]

#: Seconds between two checks if the app has ended.
LOOK_S = 0.1
READ_BYTES = 4096


class KeyDriver(LinuxDriver):
    """Textual's Linux driver with a quicker Esc. Textual 8.2.8 checks only every 100 ms whether an
    Esc still waits for the rest of a key's sequence, so that Esc is answered up to 100 ms late
    whatever ESCDELAY says. This driver waits for ESCDELAY after each read and then decides.

    Textual draws on standard error. If that is no terminal, for example under `2>file`, this driver
    draws on standard output, because keys that act must not be pressed on an empty screen.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self._file is None or not self._file.isatty():
            self._file = sys.__stdout__

    def run_input_thread(self) -> None:
        """Read keys from the terminal and pass them to the app. Runs in a thread, which ends with
        the app or the terminal. Textual starts it.
        """
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")().decode
        wait = LOOK_S
        while not self.exit_event.is_set():
            came = bool(select.select([self.fileno], [], [], wait)[0])
            # Bytes that end within a character decode to "", which the parser would take for the
            # end of the input.
            text = ""
            if came:
                data = _read(self.fileno)
                if not data:
                    # The terminal is gone and always has "" to read. Textual cannot stop this
                    # thread then, because it fails at writing first.
                    return
                text = decode(data)
            for message in parser.feed(text) if text else ():
                self.process_message(message)
            for message in parser.tick():
                self.process_message(message)
            wait = ESCAPE_DELAY if came else LOOK_S


def _read(descriptor: int) -> bytes:
    """Return the next bytes of the terminal, or b"" if it is gone."""
    try:
        return os.read(descriptor, READ_BYTES)
    except OSError as error:
        if error.errno == errno.EIO:
            return b""
        raise
