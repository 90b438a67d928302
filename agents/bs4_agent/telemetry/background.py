"""Run work that may hang in the kernel or in a driver in a thread of its own, so that nothing else
waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from bs4_agent.telemetry.gpus import GpuSource, empty
from bs4_common.telemetry import Gpus, Xid

T = TypeVar("T")

# Five missed samples: long enough for a driver that is merely slow (resetting a GPU, loading
# persistence), short enough to be reported soon.
STALE_S = 5.0


class Background(Generic[T]):
    """A daemon thread that calls the function `work` every `interval` seconds and keeps its newest
    result, so that nobody who reads the result ever waits for `work`. `name` is the thread's name.

    If a call of `work` never returns, this thread hangs and the newest result grows old. No second
    thread is started then, because each further hang would leave another thread behind.
    """

    def __init__(self, name: str, work: Callable[[], T], interval: float) -> None:
        self._work = work
        self._interval = interval
        self._stop = threading.Event()
        self._first = threading.Event()
        self._started_m = time.monotonic()
        self._result: tuple[T, float] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def newest(self) -> tuple[T | None, float | None]:
        """Return two things: the newest result of `work`, and the number of seconds since it was
        made. Return (None, None) before the first result.
        """
        result = self._result
        if result is None:
            return (None, None)
        return (result[0], time.monotonic() - result[1])

    @property
    def waiting_s(self) -> float:
        """Return the number of seconds since the newest result, or since the thread was started if
        there is no result yet.
        """
        return time.monotonic() - (self._started_m if self._result is None else self._result[1])

    @property
    def alive(self) -> bool:
        """Return True if the thread still runs. It ends if `stop` is called or if `work` raises an
        exception.
        """
        return self._thread.is_alive()

    def wait_first(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until `work` has returned its first result. Return True if
        there is one, and False if the time is over.
        """
        return self._first.wait(timeout)

    def stop(self, timeout: float = 1.0) -> bool:
        """Ask the thread to end and wait up to `timeout` seconds. Return True if it has ended, and
        False if it still runs, for example because `work` hangs. It is a daemon thread, so it does
        not keep the program from ending.
        """
        self._stop.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        """Call `work` until a stop is requested."""
        due = time.monotonic()
        while not self._stop.is_set():
            self._result = (self._work(), time.monotonic())
            self._first.set()
            due = max(due + self._interval, time.monotonic())
            self._stop.wait(due - time.monotonic())


class GuardedGpus:
    """Samples the GPUs of `source` every `interval` seconds in a thread of its own, so that nothing
    else waits if the driver hangs. The method `latest` returns at once and says how old the newest
    sample is.
    """

    def __init__(self, source: GpuSource, interval: float = 1.0) -> None:
        self._source = source
        self._background = Background("gpus", source.sample, interval)

    def wait_first(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the first sample, so that the first telemetry record
        already has GPUs. Return True if there is one, and False if the time is over.
        """
        return self._background.wait_first(timeout)

    def latest(self) -> Gpus:
        """Return the newest GPU sample, a dictionary that becomes the value of `gpus` in a
        telemetry record. It has `age_s`, its age in seconds, which is None before the first sample.
        If the newest sample is more than 5 s old, its `state` is "stale", and `detail` names the
        driver call that hangs, if one does. If the thread has ended, `state` is "error".

        `xids` in the sample is always empty; `take_xids` returns the Xid events (the driver's
        reports of GPU faults).
        """
        sample, age = self._background.newest()
        result = (sample or empty("stale", "waiting for the first sample")).copy()
        result["age_s"] = None if age is None else round(age, 2)
        if not self._background.alive:
            result["state"] = "error"
            result["detail"] = "the GPU thread has ended; restart the agent."
        elif self._background.waiting_s > STALE_S:
            result["state"], result["detail"] = "stale", self._why_stale()
        return result

    def take_xids(self) -> list[Xid]:
        """Return the Xid events (the driver's reports of GPU faults) since the last call, oldest
        first, as `{"index", "xid", "t"}`: the GPU's index (or None), the number of the fault, and
        the Unix time in seconds. The list is empty if there are none.

        Each event is returned only once, so only the Sampler may call this. Others read the events
        in the telemetry stream.
        """
        return self._source.take_xids()

    @property
    def xid_events(self) -> bool:
        """Return True if the driver reports Xid events (GPU faults) to the agent. In a container it
        often does not.
        """
        return bool(getattr(self._source, "xid_events", False))

    def close(self) -> None:
        """Stop the thread and release the driver. If the thread hangs in a driver call, leave both
        as they are.
        """
        if self._background.stop():
            self._source.close()

    def _why_stale(self) -> str:
        """Return a phrase that says why there is no new sample."""
        call, seconds = self._source.call, int(self._background.waiting_s)
        if call:
            return f"hung in {call} for {seconds} s"
        return f"no sample for {seconds} s"
