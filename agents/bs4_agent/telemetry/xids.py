"""Xid events from NVML, asked for in a thread of their own: the faults they tell of are those that
make the other calls hang.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence
from typing import Any

import pynvml

from bs4_agent.telemetry.gpus import XidQueue

# Events queue in the driver until they are fetched, so a look a second loses none. It is a look and
# no long wait: a thread that sleeps in the driver could not be stopped, and the library must not be
# shut down under it.
_LOOK_S = 1.0
_LOOK_MS = 0
_EVENTS_A_LOOK = 100
_STOP_S = 3.0


class XidWatch:
    """Puts the critical Xid events of these GPUs ((index, handle) pairs) into `found` until
    stopped; `t` is when they were fetched.

    `listening` turns true once a GPU supports the events (containers and vGPUs often do not) and
    false when the driver ends it.
    """

    def __init__(self, handles: Sequence[tuple[int, Any]], found: XidQueue) -> None:
        self.listening = False
        self._handles = handles
        self._found = found
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nvml-xids", daemon=True)
        self._thread.start()

    def stop(self) -> bool:
        """Whether the thread has let go of the driver; a call that hangs cannot be ended, only left
        behind.
        """
        self._stop.set()
        self._thread.join(_STOP_S)
        return not self._thread.is_alive()

    def _watch(self) -> None:
        try:
            events = pynvml.nvmlEventSetCreate()
            try:
                self.listening = self._register(events)
                while self.listening and not self._stop.wait(_LOOK_S):
                    self._fetch(events)
            finally:
                pynvml.nvmlEventSetFree(events)
        except pynvml.NVMLError:
            # the driver is gone: `listening` says it, and the next opening starts a new watch
            return
        finally:
            self.listening = False

    def _register(self, events: Any) -> bool:
        registered = False
        for _, handle in self._handles:
            try:
                if (
                    pynvml.nvmlDeviceGetSupportedEventTypes(handle)
                    & pynvml.nvmlEventTypeXidCriticalError
                ):
                    pynvml.nvmlDeviceRegisterEvents(
                        handle, pynvml.nvmlEventTypeXidCriticalError, events
                    )
                    registered = True
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_UNINITIALIZED:
                    raise
        return registered

    def _fetch(self, events: Any) -> None:
        for _ in range(_EVENTS_A_LOOK):
            try:
                event = pynvml.nvmlEventSetWait_v2(events, _LOOK_MS)
            except pynvml.NVMLError as error:
                # A lost GPU ends only this look: the others still report.
                if error.value in (pynvml.NVML_ERROR_TIMEOUT, pynvml.NVML_ERROR_GPU_IS_LOST):
                    return
                raise
            if event.eventType & pynvml.nvmlEventTypeXidCriticalError:
                self._found.add(
                    {
                        "index": self._index(event.device),
                        "xid": event.eventData,
                        "t": round(time.time(), 3),
                    }
                )

    def _index(self, device: Any) -> int | None:
        """Which GPU an event is of: by its handle, because a GPU that has just failed may not
        answer. Null when it is none of ours.
        """
        address = _address(device)
        for index, handle in self._handles:
            if _address(handle) == address:
                return index
        return None


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
