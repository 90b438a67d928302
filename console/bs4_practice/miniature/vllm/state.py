"""What the API server knows of its engine: requests under way, counters, and whether the engine
still lives.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from typing import Any

from .. import pace
from ..lines import Closed, Lines

_STATS_SECONDS = 1.0


class EngineDead(RuntimeError):
    """Raised when the engine has died, so that no answer will come any more."""


class EngineClient:
    """The API server's side of the connection to vLLM's engine; several threads can use it. The
    event `dead` is set when the engine has died, and `failed_in_flight` is then True if requests
    were open. `generation_tokens` and `prompt_tokens` count tokens, and `finished` completions,
    since the start.
    """

    def __init__(self, engine: Lines) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._waiting: dict[str, queue.SimpleQueue[dict[str, Any] | None]] = {}
        self._stats = (0, 0, 0.0)
        self.dead = threading.Event()
        self.failed_in_flight = False
        self.generation_tokens = 0
        self.prompt_tokens = 0
        self.finished = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                message = self._engine.receive()
                if "dead" in message:
                    break
                self._hand_out(message)
        except Closed:
            pass
        self._bury()

    def _hand_out(self, message: dict[str, Any]) -> None:
        if "call" in message:
            self._deliver(message["call"], message)
            return
        self._stats = (message["running"], message["waiting"], time.monotonic())
        for output in message["outputs"]:
            self.generation_tokens += max(1, len(output["text"]))
            self.finished += output["finished"]
            self._deliver(output["id"], output)

    def _deliver(self, key: str, message: dict[str, Any] | None) -> None:
        with self._lock:
            box = self._waiting.get(key)
        if box is not None:
            box.put(message)

    def _bury(self) -> None:
        with self._lock:
            self.failed_in_flight = bool(self._waiting)
            self.dead.set()
            boxes = list(self._waiting.values())
        for box in boxes:
            box.put(None)

    def _open(self) -> tuple[str, queue.SimpleQueue[dict[str, Any] | None]]:
        key = uuid.uuid4().hex
        box: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        with self._lock:
            if self.dead.is_set():
                raise EngineDead
            self._waiting[key] = box
        return key, box

    def _close(self, key: str) -> None:
        with self._lock:
            self._waiting.pop(key, None)

    def generate(self, prompt: str, limit: int) -> str:
        """Have the engine complete `prompt` by `limit` tokens, wait for it, and return the text.
        Raises EngineDead if the engine is dead or dies meanwhile.
        """
        key, box = self._open()
        try:
            self._send({"op": "add", "id": key, "prompt": prompt, "limit": limit})
            self.prompt_tokens += len(prompt)
            text: str = ""
            while (output := box.get()) is not None:
                text += str(output["text"])
                if output["finished"]:
                    return text
            raise EngineDead
        finally:
            self._close(key)

    def call(self, op: str, **fields: Any) -> str | None:
        """Have the engine carry out the operation `op`, such as "load" (new weights) or "pause",
        with the arguments `fields`. Waits for the end without limit. Returns None if it succeeded,
        or what went wrong as text. Raises EngineDead if the engine is dead or dies meanwhile.
        """
        key, box = self._open()
        try:
            self._send({"op": op, "call": key, **fields})
            answer = box.get()
            if answer is None:
                raise EngineDead
            return None if answer["ok"] else str(answer["error"])
        finally:
            self._close(key)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._engine.send(message)
        except Closed as error:
            raise EngineDead from error

    @property
    def load(self) -> tuple[int, int]:
        """Return (requests that are being answered, requests that wait), as the engine last said.
        Return (0, 0) if the engine has said nothing for a second (or for a training step, if that
        is longer), because a real vLLM does so too when its engine was stopped.
        """
        running, waiting, at = self._stats
        return (
            (running, waiting)
            if time.monotonic() - at < max(_STATS_SECONDS, pace.STEP_SECONDS)
            else (0, 0)
        )
