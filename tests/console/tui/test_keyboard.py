"""Keys as a terminal sends them: an Esc is known to be one when nothing came behind it, and not at
the next look.
"""

from __future__ import annotations

import os
import pty
import threading
from collections.abc import Iterator
from queue import Empty, Queue

import pytest
from textual import events
from textual.message import Message

from bs4_console.tui import keyboard
from bs4_console.tui.app import ConsoleApp
from tests.console.tui import fixtures


class Heard(keyboard.KeyDriver):
    """On one end of a pseudo-terminal, without an app."""

    def __init__(self, fd: int) -> None:
        self.fileno, self.exit_event, self._debug = fd, threading.Event(), False
        self.messages: Queue[Message] = Queue()

    def process_message(self, message: Message) -> None:
        self.messages.put(message)

    def key(self) -> str:
        message = self.messages.get(timeout=20.0)
        return message.key if isinstance(message, events.Key) else repr(message)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, Heard]]:
    """(what a person types into, what hears it). A look that is a minute away is none that could
    have helped.
    """
    monkeypatch.setattr(keyboard, "LOOK_S", 60.0)
    person, program = pty.openpty()
    os.set_blocking(program, False)
    heard = Heard(program)
    thread = threading.Thread(target=heard.run_input_thread)
    thread.start()
    yield person, heard
    heard.exit_event.set()
    os.write(person, b"\n")
    thread.join(20.0)
    assert not thread.is_alive()
    os.close(person)
    os.close(program)


def test_the_reader_of_keys_ends_with_its_terminal() -> None:
    """It would spin for good: a terminal that is gone always has an empty text to read."""
    person, program = pty.openpty()
    heard = Heard(program)
    thread = threading.Thread(target=heard.run_input_thread, daemon=True)
    thread.start()
    os.write(person, b"a\n")
    assert heard.key() == "a"
    os.close(person)
    thread.join(20.0)
    assert not thread.is_alive()
    os.close(program)


def raw(person: int) -> None:
    import tty

    tty.setraw(person)


def test_a_lone_escape_is_told_without_another_look(typed: tuple[int, Heard]) -> None:
    person, heard = typed
    raw(person)
    os.write(person, b"\x1b")
    assert heard.key() == "escape"
    os.write(person, b"j")
    assert heard.key() == "j"


def test_a_sequence_is_one_key_also_in_two_pieces(
    typed: tuple[int, Heard], monkeypatch: pytest.MonkeyPatch
) -> None:
    person, heard = typed
    raw(person)
    os.write(person, b"\x1b[A\x1b[B")
    assert [heard.key(), heard.key()] == ["up", "down"]
    os.write(person, "é".encode()[:1])
    os.write(person, "é".encode()[1:])
    assert heard.key() == "é"
    with pytest.raises(Empty):
        heard.messages.get_nowait()


async def test_the_app_takes_this_driver_where_textual_takes_its_own() -> None:
    app = ConsoleApp(fixtures.fleet(), clock=fixtures.CLOCK)
    assert app.get_driver_class() is keyboard.KeyDriver
