"""A healthy run of hours, simulated: both sides' lines at their times, restarts, evaluations, slow
steps, checkpoints, quotes.

Lines are the miniature's own (`miniature_lines`) where it has them. What it does not print
(evaluations, rate limits, requests of vLLM, few trainable traces) is a template here, and
`test_healthy_day` proves that the trainer's grammar reads it.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.support.miniature_lines import Pen, Speaker

STEP_S = 60.0
#: Seconds between two quotes: in two hours each is made once, in a day in every form.
_QUOTE_S = 3.0
BATCH = 128


@dataclass(frozen=True)
class Said:
    """One raw line (or several, of one write) of a log, `t` seconds after the day's start."""

    t: float
    source: str
    raw: bytes


@dataclass
class Attempt:
    """One process life. `saves`: (step, begin, end) of the trainer's checkpoints. `metrics`: (t,
    row) of metrics.jsonl.
    """

    number: int
    start: float
    end: float
    resume: int | None
    lines: list[Said] = field(default_factory=list)
    saves: list[tuple[int, float, float]] = field(default_factory=list)
    metrics: list[tuple[float, dict[str, Any]]] = field(default_factory=list)


class HealthyDay:
    """`attempts(hours)`. Each threshold of configs/health.toml and of the phases is visited at
    half; see `_numbers` and `_times`.
    """

    def __init__(
        self, trainer: str, pen: Pen, wall: float, quotes: Sequence[str], seed: int = 7
    ) -> None:
        self.trainer, self.wall = trainer, wall
        self._pen, self._quotes = pen, list(quotes)
        self._speaker, self._rng = Speaker(), random.Random(seed)
        self._old = trainer == "prime-rl-2026-01"
        self._room = "v2026_01" if self._old else "current"
        self._quoted = 0

    def attempts(self, hours: float, restarts: int) -> Iterator[Attempt]:
        length, step = hours * 3600 / (restarts + 1), None
        for number in range(restarts + 1):
            attempt = Attempt(number + 1, number * length, (number + 1) * length - 30, step)
            self._live(attempt)
            attempt.lines = [line for line in attempt.lines if line.t < attempt.end]
            attempt.lines.sort(key=lambda line: line.t)
            done = [saved for saved, _, end in attempt.saves if end < attempt.end]
            step = done[-1] if done else step
            yield attempt

    # --- the course of one attempt

    def _live(self, attempt: Attempt) -> None:
        at = attempt.start
        ready = self._begin(attempt, at)
        first = (
            (0 if self._old else 1)
            if attempt.resume is None
            else attempt.resume + (0 if self._old else 1)
        )
        trained: dict[int, float] = {}
        o_free, t_free = ready, ready
        step = first
        while o_free < attempt.end and t_free < attempt.end:
            begin = o_free
            index = step - first
            generate, compute = self._times(index)
            if self._old:
                self._say(
                    attempt,
                    begin,
                    "orchestrator",
                    "orchestrator.py",
                    "Starting orchestrator step ",
                    step=step,
                )
            if index and index % 20 == 0:
                begin += self._evaluation(attempt, begin, step, index)
            released = trained.get(step - 2, ready) + 2.0
            if self._old and step - 1 > 0 and index > 1:
                wanted, scheduler = step - 1, SimpleNamespace(_max_async=1)
                self._say(
                    attempt,
                    begin + 0.5,
                    "orchestrator",
                    "scheduler.py",
                    "Hit async barrier",
                    self=scheduler,
                    wanted=wanted,
                )
            collected = begin + generate
            done = max(collected, released)
            if not self._old:
                self._beats(attempt, begin, collected, done, index)
                self._gate(attempt, step, collected, released)
            o_free = done
            self._orchestrator_step(attempt, done, step, done - begin, index)
            t_free = trained[step] = self._train(attempt, step, index, done, t_free, compute)
            o_free += 0.2
            step += 1
        self._murmur(attempt, ready)

    def _train(
        self, attempt: Attempt, step: int, index: int, shipped: float, free: float, compute: float
    ) -> float:
        """One step of the trainer; when it is free again. 2026-01 saves before it takes the next
        batch, the current one before its step line.
        """
        saves = bool(index) and step % 10 == 0
        if self._old and saves:
            free += self._checkpoint(attempt, free + 0.1, step, index)
        start = max(shipped, free)
        end = start + compute
        if not self._old and saves:
            end += self._checkpoint(attempt, end, step, index)
        self._trainer_step(attempt, end, step, end - free, start - free, compute, index)
        if not self._old:
            self._say(
                attempt,
                end + 1,
                "orchestrator",
                "watcher.py",
                "Updating policy in-flight",
                version=step,
            )
        return end

    def _gate(self, attempt: Attempt, step: int, collected: float, released: float) -> None:
        """The current generation's orchestrator ahead of its trainer."""
        if released <= collected:
            return
        watcher = SimpleNamespace(_watcher=SimpleNamespace(version=step - 3))
        self._say(
            attempt,
            collected,
            "orchestrator",
            "orchestrator.py",
            "Holding batch ",
            step=step,
            required=step - 2,
            self=watcher,
        )
        self._say(attempt, released + 0.3, "orchestrator", "orchestrator.py", "Pausing dispatcher")
        self._say(attempt, released + 0.8, "orchestrator", "orchestrator.py", "Resuming dispatcher")

    def _times(self, index: int) -> tuple[float, float]:
        """(generation, training) of a step: the sides take turns in being the slower one; every
        fifteenth step takes 2.5 times as long.
        """
        usual = (0.75, 0.95) if (index // 50) % 2 == 0 else (0.95, 0.7)
        slow = 2.5 if index % 15 == 14 else 1.0
        side = self._rng.random() < 0.5
        most = 1.05 if slow == 1.0 else 1.0
        generate = usual[0] * (slow if side else 1.0) * self._rng.uniform(0.92, most)
        compute = usual[1] * (slow if not side else 1.0) * self._rng.uniform(0.92, most)
        return generate * STEP_S, compute * STEP_S

    def _begin(self, attempt: Attempt, at: float) -> float:
        """Start-up: half of what the catalog allows a model to load. When both sides are in their
        loops.
        """
        old = self._old
        self._raw(
            attempt,
            at,
            "launcher",
            *self._speaker.line(f"{self._room}/launcher.py", "Starting RL run"),
        )
        self._raw(
            attempt,
            at + 2,
            "launcher",
            *self._speaker.line(f"{self._room}/launcher.py", "Startup complete"),
        )
        self._raw(
            attempt,
            at + 3,
            "orchestrator",
            "info",
            "Starting orchestrator" if old else "Starting orchestrator (algorithm: grpo)",
        )
        pool = "inference pool" if old else "policy inference pool"
        self._raw(attempt, at + 5, "orchestrator", "info", f"Waiting for {pool} to be ready")
        for waited in range(10, 150, 10):
            text = (
                f"Inference server was not reached after {waited} seconds (Error: All connection "
                "attempts failed) on http://localhost:8000"
            )
            self._raw(attempt, at + 5 + waited, "orchestrator", "warning", text)
        self._plain(
            attempt, at + 20, "trainer", "Rate limited. Waiting 28.0s before retry [Retry 1/5]."
        )
        self._plain(attempt, at + 160, "inference", "INFO:     Application startup complete.")
        self._raw(
            attempt, at + 165, "orchestrator", "success", f"{pool[0].upper()}{pool[1:]} ready"
        )
        first = (attempt.resume or 0) + (0 if old else 1)
        progress = SimpleNamespace(
            _progress=SimpleNamespace(step=first, total_tokens=0, total_samples=0), _max_steps=None
        )
        if attempt.resume is not None:
            self._say(
                attempt,
                at + 166,
                "trainer",
                "trainer.py",
                "Resuming training from checkpoint step ",
                step=attempt.resume,
            )
        self._say(attempt, at + 167, "trainer", "trainer.py", "Starting from step ", self=progress)
        self._say(
            attempt, at + 168, "trainer", "trainer.py", "Starting training loop", self=progress
        )
        if not old:
            self._say(
                attempt,
                at + 169,
                "trainer",
                "trainer.py",
                "Broadcasting startup policy weights",
                self=progress,
            )
            self._say(
                attempt,
                at + 169,
                "orchestrator",
                "watcher.py",
                "Updating policy in-flight",
                version=first - 1,
            )
        return at + 175

    def _evaluation(self, attempt: Attempt, begin: float, step: int, index: int) -> float:
        """Half of the time that it may take, at half of the gap that its reward may have. How long
        the batch waits for it.
        """
        taken = 900.0 if index % 60 == 0 else 300.0
        reward = self._reward(index) - (0.125 if index % 40 else 0.3)
        if self._old:
            self._raw(
                attempt,
                begin + 0.3,
                "orchestrator",
                "info",
                f"Running evals for checkpoint step {step} (blocking, subprocess)",
            )
            text = (
                f"Evaluated bench in {taken:.2f}s (Avg@4={reward:.4f}, Pass@4: 0.8000, Completion "
                "Length: 1200.50 (±300.25, ∈[10.00, 4096.00]), Truncated: 3.1%)"
            )
            self._raw(attempt, begin + taken, "orchestrator", "success", text)
            return taken
        self._raw(
            attempt,
            begin + 0.3,
            "orchestrator",
            "info",
            "Starting evals in bench (680 total rollouts)",
        )
        text = (
            f"Evaluated bench (Step {step}) | Policy v{step - 1} |   5m 0s | Reward {reward:.4f} "
            "| Turns 1.0 | Branches 1.0 | Error 0.8% | Truncation 1.6%"
        )
        self._raw(attempt, begin + 300.0, "orchestrator", "success", text)
        return 100.0  # the current generation goes on collecting, more slowly

    def _checkpoint(self, attempt: Attempt, begin: float, step: int, index: int) -> float:
        """Half of the time that a checkpoint may take, once in a while."""
        taken = 450.0 if index % 50 == 0 else 60.0
        self._say(attempt, begin, "trainer", "trainer.py", "Saving checkpoint at step ", step=step)
        attempt.saves.append((step, begin, begin + taken))
        return taken

    def _beats(
        self, attempt: Attempt, begin: float, collected: float, done: float, index: int
    ) -> None:
        """The pipeline's line every 10 s. In some batches nothing comes for half of the time that a
        silence may last.
        """
        t, stuck = begin + 10, index % 25 == 24
        while t < done:
            share = min((t - begin) / max(collected - begin, 1.0), 1.0)
            have = int(BATCH * (0.2 if stuck and 0.2 < share < 0.8 else share))
            inflight = 64 + (0 if stuck or t > collected else int(t) % 7)
            text = (
                f"Train batch {have}/{BATCH} ({have / BATCH:.1%}); {inflight} inflight episodes "
                f"(train={inflight}, eval=0)"
            )
            self._raw(attempt, t, "orchestrator", "info", text)
            t += 10

    # --- the numbers

    def _reward(self, index: int) -> float:
        return min(0.3 + index / 900, 0.9)

    def _numbers(self, index: int) -> dict[str, float]:
        """Of a step: for half as long, or half as far, as the health ranges allow."""
        rng, phase = self._rng, index % 60
        entropy = 0.03 if phase < 10 else 0.1 + 0.02 * rng.random()
        kl = 0.25 if 12 <= phase < 30 else 0.7 if phase in (32, 33) else 0.0008
        grad = 2.5 if 12 <= phase < 40 else 7.0 if 42 <= phase < 47 else 0.2 + 0.1 * rng.random()
        reward = (
            0.0 if 30 <= phase < 40 else 0.55 if 200 <= index % 400 < 300 else self._reward(index)
        )
        trainable = 4 if 22 <= phase < 27 else 64
        return {
            "entropy": entropy,
            "kl": kl,
            "grad": grad,
            "reward": reward,
            "trainable": trainable,
            "loss": 0.002 * rng.uniform(-1, 1),
        }

    def _trainer_step(
        self,
        attempt: Attempt,
        t: float,
        step: int,
        took: float,
        waited: float,
        compute: float,
        index: int,
    ) -> None:
        n = self._numbers(index)
        update = SimpleNamespace(
            loss=n["loss"], entropy=n["entropy"], mismatch_kl=n["kl"], grad_norm=n["grad"]
        )
        throughput = 0.0 if index == 0 else 20_000.0
        me = SimpleNamespace(_lr=1e-6, _peak_gib=41.2)
        clock = SimpleNamespace(monotonic=lambda: took)
        self._say(
            attempt,
            t,
            "trainer",
            "trainer.py",
            "Step ",
            step=step,
            seconds=took,
            time=clock,
            started=0.0,
            update=update,
            lr=1e-6,
            throughput=throughput,
            mfu=12.3,
            self=me,
        )
        if not self._old:
            row = {
                "step": step,
                "time": self.wall + t,
                "time/step": took,
                "time/wait_for_batch": waited,
                "time/forward_backward": compute,
            }
            attempt.metrics.append((t, row))

    def _orchestrator_step(
        self, attempt: Attempt, t: float, step: int, took: float, index: int
    ) -> None:
        n = self._numbers(index)
        numbers = {"reward": n["reward"], "tokens": 500_000, "seq_len": 320.0}
        count, trainable = BATCH, int(n["trainable"])
        if not self._old and trainable / count <= 0.1:
            text = (
                f"Only {trainable}/{count} effective traces are trainable "
                f"({trainable / count:.1%}) — consider reviewing task difficulty"
            )
            self._raw(attempt, t - 0.1, "orchestrator", "warning", text)
        scheduler = SimpleNamespace(async_level=1, max_off_policy_level=2)
        me = SimpleNamespace(_scheduler=scheduler, _staleness=lambda step, batch: 1)
        batch, clock = (
            SimpleNamespace(errors=1, arrived=count),
            SimpleNamespace(monotonic=lambda: took),
        )
        self._say(
            attempt,
            t,
            "orchestrator",
            "orchestrator.py",
            "Step ",
            step=step,
            step_time=took,
            time=clock,
            started=0.0,
            taken=took,
            numbers=numbers,
            trainable=trainable,
            count=count,
            batch=batch,
            self=me,
        )

    # --- what stands between

    def _murmur(self, attempt: Attempt, ready: float) -> None:
        """Quotes of everything that the catalog looks for, and the inference server's own lines."""
        t = ready
        while t < attempt.end:
            if self._quoted % 3 == 0:
                self._plain(attempt, t, "inference", self._vllm(t, _ENGINE))
            quote = self._quotes[self._quoted % len(self._quotes)]
            form = (
                self._quoted + self._quoted // len(self._quotes)
            ) % 5  # each quote in each form, whatever their number
            self._quoted += 1
            if form == 0:
                self._raw(
                    attempt,
                    t + 1,
                    "orchestrator",
                    "debug",
                    f"Completion of example {self._quoted}: {quote}",
                )
            elif form == 1:
                self._raw(
                    attempt,
                    t + 1,
                    "orchestrator",
                    "info",
                    f"Sample | Prompt: explain this | Completion: {quote!r} | Reward 1.0000",
                )
            elif form == 2:
                self._raw(attempt, t + 1, "env-train-bs4", "info", f"tool output: {quote}")
            elif form == 3:
                text = (
                    f"Received request chatcmpl-{self._quoted}: prompt: {json.dumps(quote)}, "
                    "params: SamplingParams(n=1)."
                )
                self._plain(attempt, t + 1, "inference", self._vllm(t, text))
            else:
                self._raw(
                    attempt,
                    t + 1,
                    "orchestrator",
                    "info",
                    f'Example 3 was answered with "{quote[:200]}" where a list was asked for',
                )
            t += _QUOTE_S

    def _vllm(self, t: float, text: str) -> str:
        self._pen.wall = self.wall + t
        return (
            f"(APIServer pid=77) INFO 09-22 {self._pen._strftime('%H:%M:%S')} [loggers.py:117] "
            f"{text}"
        )

    # --- writing

    def _say(
        self, attempt: Attempt, t: float, source: str, file: str, start: str, /, **names: Any
    ) -> None:
        self._raw(attempt, t, source, *self._speaker.line(f"{self._room}/{file}", start, **names))

    def _raw(self, attempt: Attempt, t: float, source: str, level: str, text: str) -> None:
        self._pen.wall = self.wall + t
        for raw in self._pen.render(level, text).split(b"\n"):
            self._put(attempt, t, source, raw)

    def _plain(self, attempt: Attempt, t: float, source: str, text: str) -> None:
        self._put(attempt, t, source, text.encode())

    def _put(self, attempt: Attempt, t: float, source: str, raw: bytes) -> None:
        prefix = (b"[default0]:" if self._old else b"[trainer0]:") if source == "trainer" else b""
        attempt.lines.append(Said(t, source, prefix + raw))


_ENGINE = (
    "Engine 000: Avg prompt throughput: 812.3 tokens/s, Avg generation throughput: 2301.2 "
    "tokens/s, Running: 64 reqs, Waiting: 0 reqs, GPU KV cache usage: 41.2%, Prefix cache hit "
    "rate: 12.1%"
)


def merged(*streams: Sequence[Said]) -> Iterator[Said]:
    return heapq.merge(*streams, key=lambda line: line.t)
