"""Receive Xid events from NVML in a thread of its own, because the faults that they report make
other NVML calls hang.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence
from typing import Any

import pynvml

from bs4_agent.telemetry.gpus import XidQueue

# Events queue in the driver until they are fetched, so one poll a second loses none. It is a poll
# and no long wait, because a thread that sleeps in the driver could not be stopped, and the library
# must not be shut down during its call.
_LOOK_S = 1.0
_LOOK_MS = 0
_EVENTS_A_LOOK = 100
_STOP_S = 3.0


class XidWatch:
    """A thread that receives the critical Xid events (the driver's reports of GPU faults) and adds
    them to the queue `found`, until it is stopped or the driver is gone.

    `handles` are the GPUs, as pairs (index, NVML handle). The `t` of an event is the time at which
    it was fetched, as Unix time in seconds. `listening` is True while the thread receives events of
    at least one GPU; in containers and with vGPUs often no GPU supports them.
    """

    def __init__(self, handles: Sequence[tuple[int, Any]], found: XidQueue) -> None:
        self.listening = False
        self._handles = handles
        self._found = found
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nvml-xids", daemon=True)
        self._thread.start()

    def stop(self) -> bool:
        """Ask the thread to end and wait up to 3 s for it. Return True if it has ended. Return
        False if it hangs in a driver call; the thread is then left running.
        """
        self._stop.set()
        self._thread.join(_STOP_S)
        return not self._thread.is_alive()

    def _watch(self) -> None:
        """Fetch events until the watch is stopped or the driver is gone."""
        try:
            events = pynvml.nvmlEventSetCreate()
            try:
                self.listening = self._register(events)
                while self.listening and not self._stop.wait(_LOOK_S):
                    self._fetch(events)
            finally:
                pynvml.nvmlEventSetFree(events)
        except pynvml.NVMLError:
            # The driver is gone. `listening` says so, and the next opening starts a new watch.
            return
        finally:
            self.listening = False

    def _register(self, events: Any) -> bool:
        """Register for the events of every GPU that supports them. Return True if there is one."""
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
        """Queue the events that wait in the driver, 100 at most."""
        for _ in range(_EVENTS_A_LOOK):
            try:
                event = pynvml.nvmlEventSetWait_v2(events, _LOOK_MS)
            except pynvml.NVMLError as error:
                # A lost GPU ends only this poll, because the others still report.
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
        """Return the index of the GPU that an event belongs to, or None if it belongs to no known
        GPU. The handle decides, because a GPU that has just failed may not answer.
        """
        address = _address(device)
        for index, handle in self._handles:
            if _address(handle) == address:
                return index
        return None


def _address(handle: Any) -> int | None:
    """Return the address that an NVML handle holds."""
    return ctypes.cast(handle, ctypes.c_void_p).value
