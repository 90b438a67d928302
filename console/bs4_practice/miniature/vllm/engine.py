"""VLLM::EngineCore: schedules. Between the API server and its workers, started by the API server.

It does not watch its parent: with the API server gone it stays, idle, with its workers and their
memory. That is the stale vLLM.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from .. import pace, processes
from ..lines import Closed, Lines, Message, wait
from . import worker

_SEGMENT_BYTES = 1 << 20


def run(
    api: Lines, devices: list[int], utilization: float, max_sequences: int, max_model_len: int
) -> None:
    """Run the process of vLLM's engine. It starts a worker for each of the GPUs with the numbers
    `devices`, has them answer the requests that come over `api`, and ends when a worker dies or a
    signal comes. Never returns. `utilization` is the share of each GPU's memory that a worker
    takes, from 0 to 1. At most `max_sequences` requests are answered at a time, and `max_model_len`
    is the most tokens of one.
    """
    processes.set_title("VLLM::EngineCore")
    try:
        segment = _segment()
    except OSError as error:
        _say(
            "ERROR", "core.py:866", f"EngineCore failed to start.\n{type(error).__name__}: {error}"
        )
        api.send({"failed": str(error)})
        os._exit(1)
    workers = [
        _start_worker(api, device, local, len(devices), utilization, max_model_len)
        for local, device in enumerate(devices)
    ]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signum, frame: _end(workers, 0, segment))
    failed = [
        answer["failed"]
        for answer in (_answer(channel) for _, channel in workers)
        if "failed" in answer
    ]
    if failed:
        api.send({"failed": failed[0]})
        _end(workers, 1, segment)
    api.send({"ready": True})
    engine = _Engine(api, [channel for _, channel in workers], max_sequences)
    try:
        engine.loop()
    except _WorkerDied:
        _say(
            "ERROR",
            "multiproc_executor.py:230",
            "Worker proc VllmWorker-0 died unexpectedly, shutting down executor.",
        )
        _tell(api, {"dead": True})
        for pid, _ in workers:
            _reaped(pid)
        pace.nap(2.5)  # the engine was gone 2.8 s after its worker's kill
        _end(workers, 1, segment)
    except Closed:
        while True:  # the API server is gone: nobody will ever ask again, and nothing ends this
            signal.pause()


def _segment() -> Path | None:
    """The ring buffer between engine and workers. Taken for good at once: a mount that is too small
    says so here and not in a step.

    Whoever is killed cannot unlink it; that is what is left in shared memory of a dead engine.
    """
    device = os.environ.get("BS4_DEV")
    if not device:
        return None
    path = Path(device) / "shm" / f"psm_{uuid.uuid4().hex[:8]}"
    path.parent.mkdir(exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(fd, 0, _SEGMENT_BYTES)
    except OSError as error:
        path.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from None
    return path  # open for as long as the engine lives


def _start_worker(
    api: Lines, device: int, local: int, world: int, utilization: float, max_model_len: int
) -> tuple[int, Lines]:
    ours, theirs = Lines.pair()
    pid = os.fork()
    if pid == 0:
        api.close()
        ours.close()
        worker.run(
            theirs,
            device,
            local,
            "VLLM::Worker" if world == 1 else f"VLLM::Worker_TP{local}",
            utilization,
            max_model_len,
        )
        os._exit(0)
    theirs.close()
    return pid, ours


def _answer(channel: Lines) -> Message:
    try:
        return channel.receive()
    except Closed:
        return {
            "failed": (
                "WorkerProc initialization failed due to an exception in a background process."
            )
        }


def _end(workers: list[tuple[int, Lines]], code: int, segment: Path | None) -> None:
    """SIGTERM to the workers, and after a while SIGKILL: one that is stopped cannot hear the
    other.
    """
    if segment is not None:
        segment.unlink(missing_ok=True)
    left = [pid for pid, _ in workers]
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = [pid for pid in left if not _reaped(pid)]
        for pid in left:
            # own children, not yet waited for: the pid cannot be anyone else's
            os.kill(pid, number)
        deadline = time.monotonic() + pace.paced(4)
        while left and time.monotonic() < deadline:
            time.sleep(0.01)
            left = [pid for pid in left if not _reaped(pid)]
    os._exit(code)


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _tell(api: Lines, message: Message) -> None:
    try:
        api.send(message)
    except Closed:
        return


def _say(level: str, where: str, text: str) -> None:
    sys.stderr.write(
        f"(EngineCore pid={os.getpid()}) {level} {time.strftime('%m-%d %H:%M:%S')} [{where}] "
        f"{text}\n"
    )
    sys.stderr.flush()


_BLOCK_SECONDS = 60
_NO_BLOCK = (
    f"No available shared memory broadcast block found in {_BLOCK_SECONDS} seconds. This "
    "typically happens when some processes are hanging or doing some time-consuming work (e.g. "
    "compilation, weight/kv cache quantization)."
)


class _WorkerDied(Exception):
    pass


class _Engine:
    def __init__(self, api: Lines, workers: list[Lines], max_sequences: int) -> None:
        self._api = api
        self._workers = workers
        self._max = max_sequences
        self._waiting: list[Message] = []
        self._running: dict[str, Message] = {}
        self._paused = False

    def loop(self) -> None:
        while True:
            if self._paused or not (self._running or self._waiting):
                wait(self._api, *self._workers)
            for message in self._api.drain():
                self._take(message)
            self._schedule()
            if self._running and not self._paused:
                self._step()
            else:
                self._look_after_workers()

    def _take(self, message: Message) -> None:
        kind = message["op"]
        if kind == "add":
            self._waiting.append({**message, "done": 0})
        elif kind == "abort":
            self._running.pop(message["id"], None)
            self._waiting = [item for item in self._waiting if item["id"] != message["id"]]
        elif kind in ("pause", "resume"):
            self._paused = kind == "pause"
            self._api.send({"call": message["call"], "ok": True})
        elif kind == "load":
            answers = [self._ask(channel, {"load": message["dir"]}) for channel in self._workers]
            failed = next((answer["failed"] for answer in answers if "failed" in answer), None)
            self._api.send({"call": message["call"], "ok": failed is None, "error": failed})

    def _schedule(self) -> None:
        while self._waiting and len(self._running) < self._max:
            item = self._waiting.pop(0)
            self._running[item["id"]] = item

    def _step(self) -> None:
        """One iteration of all running sequences. The API server learns how many run only from what
        comes out of this.
        """
        batch = [
            {key: item[key] for key in ("id", "prompt", "done", "limit")}
            for item in self._running.values()
        ]
        answers = [self._ask(channel, {"step": batch}) for channel in self._workers]
        outputs: list[dict[str, Any]] = []
        for identity, text in answers[0]["tokens"]:
            item = self._running[identity]
            item["done"] += len(text)
            finished = item["done"] >= item["limit"]
            outputs.append({"id": identity, "text": text, "finished": finished})
            if finished:
                del self._running[identity]
        self._api.send(
            {"outputs": outputs, "running": len(self._running), "waiting": len(self._waiting)}
        )

    def _ask(self, channel: Lines, message: Message) -> Message:
        """Wait for the worker's answer, for ever if it is stopped."""
        try:
            channel.send(message)
            while not wait(channel, timeout=pace.paced(_BLOCK_SECONDS)):
                _say("INFO", "shm_broadcast.py:498", _NO_BLOCK)
            return channel.receive()
        except Closed as error:
            raise _WorkerDied from error

    def _look_after_workers(self) -> None:
        for channel in self._workers:
            try:
                channel.drain()
            except Closed as error:
                raise _WorkerDied from error
