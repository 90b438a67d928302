"""Rollouts: the environment's worker that asks the server and scores, and the orchestrator's side
of it.

A request is a group: `n` answers to one prompt. One thread a rollout, so that one that hangs does
not hold up the others.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

from . import pace, processes
from .client import APIConnectionError, APIStatusError, Connection
from .environment import Score
from .harness import Harness, HarnessError
from .lines import Closed, Lines, Message

_WORDS = (
    "training",
    "reward",
    "policy",
    "gradient",
    "rollout",
    "entropy",
    "sampler",
    "environment",
    "trajectory",
)
_THREADS = 32
_WORKERS: list[int] = []
_STATUS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    429: "RateLimitError",
}


def prompt(index: int) -> str:
    """Return the prompt of the data set's example with the number `index`: a request to reverse a
    word.
    """
    return f"Reverse the text character-by-character: {_WORDS[index % len(_WORDS)]}{index % 97:02d}"


@dataclass(frozen=True)
class Sampling:
    """How completions are requested: the base URL of the inference server, the model's name, the
    most tokens of an answer, and in `timeout` how many seconds one request may take.
    """

    base_url: str
    model: str
    max_tokens: int
    timeout: float


def _say_nothing(kind: str, text: str) -> None:
    """The current generation's worker prints nothing about a failed rollout; its dispatcher
    does.
    """


#: Keeps what one rollout needs besides the model: (model, question) -> a block.
Program = Callable[[str, str], AbstractContextManager[None]]


def _no_program(model: str, question: str) -> AbstractContextManager[None]:
    """January's environments run within their worker."""
    return contextlib.nullcontext()


def work(
    channel: Lines,
    score: Score,
    report: Callable[[str, str], None] = _say_nothing,
    program: Program = _no_program,
) -> bool:
    """Generate and score the groups that are requested over `channel`. A group is a number of
    rollouts (answers) for one prompt. `score(prompt, answer)` gives the reward. `report(kind,
    text)` is called for each rollout that fails, and `program(model, prompt)` gives a context
    manager that is entered around each. Returns True if the other end says stop, and False if it is
    gone.
    """
    connections: dict[str, Connection] = {}
    jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    for _ in range(_THREADS):
        threading.Thread(target=_run_jobs, args=(jobs,), daemon=True).start()
    try:
        while "stop" not in (request := channel.receive()):
            sampling = Sampling(**request["sampling"])
            connection = connections.setdefault(sampling.base_url, Connection(sampling.base_url))
            group = _Group(request, channel, score, report, program)
            for _ in range(group.size):
                jobs.put(functools.partial(group.run, connection, sampling))
    except Closed:
        return False
    return True


def _run_jobs(jobs: queue.SimpleQueue[Callable[[], None]]) -> None:
    while True:
        jobs.get()()


def _rollout(connection: Connection, question: str, sampling: Sampling, score: Score) -> Message:
    """One scored rollout. An error stays in the rollout's state: no answer, no tokens, and the
    reward of an empty answer.
    """
    body = {
        "model": sampling.model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": sampling.max_tokens,
    }
    try:
        answer = connection.complete(body, sampling.timeout)
    except (APIConnectionError, APIStatusError) as error:
        kind = (
            _STATUS.get(error.status, "InternalServerError")
            if isinstance(error, APIStatusError)
            else type(error).__name__
        )
        return _failed(kind, str(error))
    text = answer["choices"][0]["message"]["content"]
    usage = answer["usage"]
    return {
        "reward": score(question, text),
        "answer": text,
        "tokens": usage["total_tokens"],
        "output": usage["completion_tokens"],
    }


def _failed(kind: str, text: str) -> Message:
    """Return a rollout that ended in an error."""
    return {"error": [kind, text], "reward": 0.0, "answer": "", "tokens": 0, "output": 0}


class _Group:
    """Collects a group's rollouts and answers when all are in."""

    def __init__(
        self,
        request: Message,
        channel: Lines,
        score: Score,
        report: Callable[[str, str], None],
        program: Program,
    ) -> None:
        self._score = score
        self._report = report
        self._program = program
        self._identity = request["id"]
        self._index = request["index"]
        self._question = prompt(self._index)
        self.size = int(request["n"])
        self._channel = channel
        self._rollouts: list[Message] = []
        self._lock = threading.Lock()

    def run(self, connection: Connection, sampling: Sampling) -> None:
        try:
            with self._program(sampling.model, self._question):
                rollout = _rollout(connection, self._question, sampling, self._score)
        except HarnessError as error:
            rollout = _failed("HarnessError", str(error))
        rollout["example"] = self._index
        if "error" in rollout:
            self._report(*rollout["error"])
        with self._lock:
            self._rollouts.append(rollout)
            complete = len(self._rollouts) == self.size
        if complete:
            with contextlib.suppress(Closed):
                self._channel.send({"id": self._identity, "rollouts": self._rollouts})


class Groups:
    """The orchestrator's side of the connection `channel` to an environment worker, which generates
    groups of rollouts. Finished groups come into the queue `results` as (id, rollouts). `sampling`
    says how the worker requests completions.
    """

    def __init__(self, channel: Lines, sampling: Sampling) -> None:
        self._channel = channel
        self._sampling = asdict(sampling)
        self.results: queue.SimpleQueue[tuple[str, list[Message]]] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def submit(self, identity: str, index: int, count: int) -> None:
        """Have the worker generate a group with the id `identity`: `count` rollouts for the data
        set's example with the number `index`. If the worker is dead, the group is lost without an
        error, as in prime-rl.
        """
        with contextlib.suppress(Closed):
            self._channel.send(
                {"id": identity, "index": index, "n": count, "sampling": self._sampling}
            )

    def stop(self) -> None:
        """Tell the environment worker (the process that generates rollouts) to end, without waiting
        until it has. Do nothing if the worker has died.
        """
        with contextlib.suppress(Closed):
            self._channel.send({"stop": True})

    def _listen(self) -> None:
        try:
            while True:
                message = self._channel.receive()
                self.results.put((message["id"], message["rollouts"]))
        except Closed:
            return  # groups that were under way never come back, as from the real worker


def fork_worker(score: Score) -> Lines:
    """Fork a process that generates and scores rollouts, as the orchestrator of January's prime-rl
    does, and return the connection to it. `score(prompt, answer)` gives the reward. The process
    shows the orchestrator's command line. This must be called before any thread is started.

    The process ends by `Groups.stop` or `end_workers`. If the orchestrator is killed, which calls
    neither, it lives on, as the real one does.
    """
    ours, theirs = Lines.pair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        # asyncio.run in the real worker ends on it too, whatever its requests do
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        while not work(theirs, score, _report_aborted):
            signal.pause()
        os._exit(0)
    theirs.close()
    _WORKERS.append(pid)
    return ours


def end_workers() -> None:
    """Terminate the processes that `fork_worker` has started, and wait for their end. An
    orchestrator calls this when it ends by itself, also after an error.
    """
    while _WORKERS:
        pid = _WORKERS.pop()
        ended, _ = os.waitpid(pid, os.WNOHANG)
        if ended == 0:  # our own child, not waited for before: the pid cannot be anyone else's
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)


def _report_aborted(kind: str, text: str) -> None:
    """Print what verifiers' own logger prints in the worker (environment.py:645 of eb3bae36), in
    its default format.
    """
    clock = time.strftime("%Y-%m-%d %H:%M:%S")
    error = f"ModelError(), caused by {kind}({text!r})"
    line = (
        f"{clock} - verifiers.envs.environment.SingleTurnEnv - ERROR - Aborted rollout due to "
        f"{error}\n"
    )
    os.write(2, line.encode())


def connect(address: str) -> Lines:
    """Return a connection to the environment server at `address` ("tcp://HOST:PORT"). While the
    server refuses the connection it is tried again, without limit.
    """
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    while True:
        try:
            return Lines(socket.create_connection((host, int(port))))
        except ConnectionRefusedError:
            pace.poll()


def serve(listener: socket.socket, number: int, score: Score) -> None:
    """Serve all connections to `listener` as the environment server's worker with the number
    `number`, each in a thread. `score(prompt, answer)` gives the reward. Never returns.
    """
    processes.set_title(f"Verifiers::EnvWorker{number}")
    harness = Harness()
    while True:
        sock, _ = listener.accept()
        threading.Thread(
            target=work, args=(Lines(sock), score, _say_nothing, harness.program), daemon=True
        ).start()


def advantages(rewards: list[float]) -> list[float]:
    """Return the advantage of each rollout of a group: its reward minus the mean of the group's
    `rewards`.
    """
    mean = sum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def statistics(rollouts: list[Message]) -> dict[str, Any]:
    """Return the mean of the rewards ("reward"), the sum of the tokens ("tokens") and the mean
    number of tokens ("seq_len") of `rollouts`, which must not be empty.
    """
    rewards = [rollout["reward"] for rollout in rollouts]
    tokens = [rollout["tokens"] for rollout in rollouts]
    return {
        "reward": sum(rewards) / len(rewards),
        "tokens": sum(tokens),
        "seq_len": sum(tokens) / len(tokens),
    }
