"""Pods frozen at one moment, built from records of the documented shapes; what the screens and the
pictures show.

Everything is made by applying journal, telemetry and steps records to a real PodState, as the
session does it.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import types
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from bs4_common.streams.query import Queries
from bs4_common.streams.stream import Piece
from bs4_console.errors import LinkState, RemoteError, Unreachable
from bs4_console.fleet.watched import Fleet
from bs4_console.logs.text import clean, clock_of
from bs4_console.pods.liveness import Sign, judge
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.observer import Observation
from bs4_console.pods.state import PodState
from bs4_console.tui.clock import Clock
from bs4_console.turns import Turns

#: 2026-11-20 03:12:41 UTC: the hour the product is for.
NOW = 1795144361.0
MONO = 100_000.0
#: The pods' own monotonic clock, in this boot.
POD_M = 40_000.0
BOOT = "5f0c6a52-boot"
GIB = 1 << 30
CLOCK = Clock(wall=lambda: NOW, mono=lambda: MONO)


class RecordedSession:
    """Stands where a PodSession stands, over a state that is already there and logs that are
    already written.
    """

    def __init__(self, state: PodState, logs: Mapping[str, bytes] | None = None) -> None:
        self.state = state
        self.mirror = Mirror(None)
        self.logs = {name: bytearray(data) for name, data in (logs or {}).items()}
        self.brought = 0
        """How often the library for stores was brought."""
        self.checkpoints: dict[str, Any] | None = None
        """What the pod answers about a run's checkpoints; None as an agent that knows no such
        question.
        """
        self.configs: dict[str, str] = {}
        self.submitted: list[tuple[str, dict[str, Any]]] = []
        self.home = "01HOME"
        self.retried = 0
        self.refuse: Exception | None = None
        self.on_submit: Callable[[str, str, dict[str, Any]], None] | None = None
        self.state.streams = sorted(["telemetry", "journal", *self.logs])
        self._news = asyncio.Event()

    async def bring_store_library(self, progress: Callable[[str], None]) -> None:
        self.brought += 1

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None: ...

    def take_turns(self, turns: Turns) -> None:
        """What is shown is there already."""

    def retry_now(self) -> None:
        self.retried += 1

    def write(self, stream: str, data: bytes) -> None:
        """More of a log; a read that waits gets it."""
        self.logs.setdefault(stream, bytearray()).extend(data)
        if stream not in self.state.streams:
            self.state.streams = [*self.state.streams, stream]
        self._news.set()
        self._news = asyncio.Event()

    async def read_log(
        self,
        stream: str,
        cursor: str,
        limit: int = 262144,
        wait: float = 0.0,
        *,
        seen: int = 0,
        ahead: bool = False,
    ) -> Any:
        if not self.state.link.up and self.state.link.state != "recorded":
            raise Unreachable(
                f"{self.state.name} cannot be reached.", "It is tried again by itself."
            )
        data = self.logs[stream]
        size = len(data)
        begin = {"start": 0, "end": size}.get(cursor, -1)
        begin = int(cursor.split(":")[1]) if begin < 0 else begin
        piece = bytes(data[begin : begin + limit])
        if not piece and wait:
            await self._news.wait()
            return await self.read_log(stream, cursor, limit)
        return types.SimpleNamespace(
            start=f"1:{begin}",
            next=f"1:{begin + len(piece)}",
            data=piece,
            gap=None,
            partial=False,
            more=begin + len(piece) < size,
        )

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        if stream == "checkpoints":
            if self.checkpoints is None:
                raise RemoteError("unknown-stream", "There is no such stream.")
            return {**self.checkpoints, "run": parameters["run"], "next": None}
        if stream == "files":
            return self._paths(str(parameters["path"]))
        if stream == "preflight":
            return self._config(str(parameters["config"]))
        data = bytes(self.logs[stream])
        if op == "seek-time":
            return {
                "cursor": f"1:{_first_at(data, parameters['t'])}",
                "t": parameters["t"],
                "exact": True,
                "next": None,
            }
        if op != "seek-line" or parameters["line"] >= 0:
            answer: Any = Queries(InMemory(data)).run(op, parameters)  # type: ignore[arg-type]
            return dict(answer)
        end = int(parameters["cursor"].split(":")[1]) if "cursor" in parameters else len(data)
        position = end
        for _ in range(-parameters["line"] + (data[end - 1 : end] == b"\n")):
            position = data.rfind(b"\n", 0, position)
            if position < 0:
                break
        return {"cursor": f"1:{position + 1}", "next": None}

    async def seek_line(self, stream: str, line: int) -> str:
        if stream not in self.logs:
            raise RemoteError("unknown-stream", f"{stream.removeprefix('file/')} is not there.")
        found = await self.query(stream, "seek-line", line=line)
        return str(found["cursor"])

    def _config(self, path: str) -> dict[str, Any]:
        """As the agent's preflight reads one: of those that a test lays there."""
        if path not in self.configs:
            raise RemoteError("bad-config", f"The config {path} cannot be read.")
        return {"files": [[path, self.configs[path]]]}

    def _paths(self, beginning: str) -> dict[str, Any]:
        """As the agent's Listing: of the files that are logs here."""
        directory = beginning[: beginning.rindex("/") + 1]
        paths = (
            name.removeprefix("file/") for name in self.logs if name.startswith(f"file/{beginning}")
        )
        names = {
            name + slash
            for name, slash, _ in (path.removeprefix(directory).partition("/") for path in paths)
        }
        return {"directory": directory, "names": sorted(names), "more": False, "next": None}

    async def submit(self, kind: str, **body: Any) -> str:
        if self.refuse is not None:
            raise self.refuse
        self.submitted.append((kind, body))
        key = f"01J{len(self.submitted):023}"
        if self.on_submit is not None:
            self.on_submit(key, kind, body)
            self.state.changed()
        return key

    async def follow_action(self, key: str) -> AsyncIterator[Any]:
        """As PodSession's, but it looks every few milliseconds."""
        while True:
            action = self.state.ledger.actions.get(key)
            if action is not None:
                yield action
                if action.ended:
                    return
            await asyncio.sleep(0.005)


class InMemory:
    """A finished log as the agent's own queries want it."""

    timestamp = None

    def __init__(self, data: bytes) -> None:
        self._data = data

    def stat(self) -> dict[str, Any]:
        return {"start": "1:0", "end": f"1:{len(self._data)}"}

    def pieces(self) -> list[Piece]:
        return [Piece(1, len(self._data), self._open)]

    def _open(self) -> int:
        fd = os.memfd_create("log")
        os.write(fd, self._data)
        return fd


def _first_at(data: bytes, t: float) -> int:
    """Where the first line begins that is not before `t`; the logs here are all of one day."""
    at = 0
    for line in data.splitlines(keepends=True):
        clock = clock_of(clean(line))
        if clock is not None and clock >= t % 86400:
            return at
        at += len(line)
    return at


def fleet(*sessions: RecordedSession) -> Fleet:
    made = Fleet()
    for session in sessions:
        made.add(session)  # type: ignore[arg-type]
    return made


# -- records


def journal(pod: PodState, type_: str, ago: float, **fields: Any) -> None:
    """One journal record that was written `ago` seconds before NOW."""
    record: Any = {
        "t": NOW - ago,
        "m": POD_M - ago,
        "b": BOOT,
        "seq": pod.ledger.last_seq + 1,
        "prev": "0" * 64,
        "type": type_,
        **fields,
    }
    pod.apply_journal(record)


def connected(name: str, address: str, rtt: float = 0.012, since: float = 7_260) -> PodState:
    pod = PodState(name=name, address=address)
    pod.link.state, pod.link.since, pod.link.last_up, pod.link.rtt, pod.link.clock_offset = (
        "up",
        MONO - since,
        MONO,
        rtt,
        0.1,
    )
    pod.hello = {
        "protocol": 1,
        "agent": "0.1.0",
        "bundle": "9c1f0a7de2b4c581",
        "python": "3.11.7",
        "pid": 611,
        "boot_id": BOOT,
        "host": name,
    }
    return pod


def start_run(
    pod: PodState,
    run: str,
    trainer: str,
    max_steps: int,
    ago: float,
    attempt: int = 1,
    resume: int | None = None,
) -> None:
    if run not in pod.runs:
        journal(
            pod,
            "run",
            ago,
            event="registered",
            run=run,
            trainer=trainer,
            output_dir=f"/data/{run}",
            cwd="/root/prime-rl",
            argv=["uv", "run", "rl", "@", f"configs/{run}.toml"],
            config=f"configs/{run}.toml",
            max_steps=max_steps,
        )
    journal(pod, "run", ago, event="attempt-started", run=run, attempt=attempt, resume=resume)


def steps(
    pod: PodState,
    run: str,
    first: int,
    last: int,
    seconds: float,
    *,
    last_ago: float,
    attempt: int = 1,
    nan: tuple[int, ...] = (),
    seed: int = 7,
) -> None:
    """Step records of both sides, the newest `last_ago` seconds before NOW."""
    noise = random.Random(seed)
    for step in range(first, last + 1):
        ago = last_ago + (last - step) * seconds
        stamp = {"t": NOW - ago, "m": POD_M - ago, "b": BOOT, "attempt": attempt, "step": step}
        share = step / 500
        grad = 0.14 + 0.05 * noise.random() + (0.9 if noise.random() < 0.02 else 0.0)
        apply(
            pod,
            run,
            {
                **stamp,
                "side": "trainer",
                "time_s": round(seconds * noise.uniform(0.94, 1.07), 2),
                "loss": 0.0012,
                "entropy": "nan"
                if step in nan
                else round(0.62 * math.exp(-1.6 * share) + 0.03 * noise.random(), 4),
                "mismatch_kl": round(0.0006 + 0.0004 * noise.random() + 0.0012 * share, 5),
                "grad_norm": "nan" if step in nan else round(grad, 4),
                "lr": 3e-06,
                "throughput": round(20311 * noise.uniform(0.96, 1.04)),
                "mfu": 32.3,
                "peak_mem_gib": 61.2,
                "log_t": NOW - ago,
            },
        )
        apply(
            pod,
            run,
            {
                **stamp,
                "side": "orchestrator",
                "time_s": round(seconds * noise.uniform(0.9, 1.1), 2),
                "reward": round(
                    0.18 + 0.46 * (1 - math.exp(-3 * share)) + 0.05 * (noise.random() - 0.5), 4
                ),
                "seq_len": 1820.0,
                "async_level": 1,
                "off_policy": 2,
                "log_t": NOW - ago,
            },
        )
    if run in pod.runs:
        pod.runs[run].step_seen = MONO - last_ago


def gpu(
    index: int, util: float, used: float, run: str | None, component: str, pid: int, **more: Any
) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": f"GPU-{index}",
        "name": "NVIDIA H100 80GB HBM3",
        "util": util,
        "mem_util": util * 0.6,
        "mem_used": used * GIB,
        "mem_total": 80 * GIB,
        "temp": 41 + util * 0.26,
        "power": 118 + util * 5.4,
        "power_limit": 700,
        "sm_clock": 1980,
        "mem_clock": 2619,
        "ecc": 0,
        "throttle": [],
        "error": None,
        "pcie": {
            "gen": 5,
            "gen_max": 5,
            "width": 16,
            "width_max": 16,
            "tx": 96_400,
            "rx": 8_120 * util,
        },
        "nvlink": {"active": 18, "links": 18, "errors": 0},
        "procs": [
            {"pid": pid, "mem": used * GIB, "visible": True, "run": run, "component": component}
        ]
        if used > 1
        else [],
        **more,
    }


def parts(base: int, engines: int, ranks: int, **states: str) -> list[dict[str, Any]]:
    """Components of a run as telemetry lists them; `states` overrides a component's letter."""
    names = [
        "launcher",
        "inference",
        *["engine"] * engines,
        "orchestrator",
        "trainer",
        *["rank"] * ranks,
    ]
    return [
        {
            "component": name,
            "pid": base + 9 * i,
            "start_ticks": 812_000 + i,
            "cpu": 12.0,
            "rss": 3 * GIB,
            "state": states.get(name, "S"),
        }
        for i, name in enumerate(names)
    ]


def telemetry(
    pod: PodState,
    *,
    ago: float = 0.4,
    devices: list[dict[str, Any]] | None = None,
    runs: list[dict[str, Any]] | None = None,
    disk: float = 0.41,
    kernel_log: str = "visible",
    **gpus: Any,
) -> None:
    record: Any = {
        "t": NOW - ago,
        "m": POD_M - ago,
        "b": BOOT,
        "gpus": {
            "state": "ok",
            "detail": "",
            "age_s": 0.3,
            "driver": "570.124.06",
            "pids": "local",
            "devices": devices or [],
            "xids": [],
            **gpus,
        },
        "host": {
            "cpu": 23.0,
            "cores": 96,
            "load1": 21.4,
            "mem_used": 212 * GIB,
            "mem_total": 960 * GIB,
            "shm_used": 1.4 * GIB,
            "shm_total": 64 * GIB,
            "disks": [
                {
                    "path": "/data",
                    "used": disk * 2000 * GIB,
                    "total": 2000 * GIB,
                    "free": (1 - disk) * 2000 * GIB,
                    "read_only": False,
                }
            ],
            "net": {"rx": 1.2e6, "tx": 3.4e5},
        },
        "runs": runs or [],
        "coverage": {
            "kernel_log": kernel_log,
            "xid_events": "visible",
            "gpu_processes": "by-pid",
        },
    }
    pod.apply_telemetry(record)
    pod.telemetry_seen = MONO - ago


# -- logs


def clock(ago: float) -> str:
    seconds = int(NOW - ago) % 86400
    return f"{seconds // 3600:02}:{seconds % 3600 // 60:02}:{seconds % 60:02}"


def apply(pod: PodState, run: str, record: Any) -> None:
    pod.apply_step(run, record)


def trainer_log(pod: PodState, run: str, extra: str = "", escape: bool = False) -> bytes:
    lines = [f"{clock(4000)}    INFO Starting training loop (max_steps=500)"]
    rows: Any = pod.runs[run].trainer_steps
    for row in rows:
        word = "\x1b[32m\x1b[1mSUCCESS\x1b[0m" if escape else "SUCCESS"
        ago = NOW - row["t"]
        lines.append(
            f"{clock(ago)} {word} Step {row['step']} | Time: {row['time_s']:.2f}s | Loss: "
            f"{row['loss']:.4f} | Entropy: {row['entropy']} | Mismatch KL: "
            f"{row['mismatch_kl']:.4f} | Grad. Norm: {row['grad_norm']} | LR: {row['lr']:.2e} | "
            f"Throughput: {row['throughput']} tokens/s | MFU: {row['mfu']}% | Peak Mem.: "
            f"{row['peak_mem_gib']} GiB"
        )
    return ("\n".join(lines) + "\n" + extra).encode()


def orchestrator_log(pod: PodState, run: str, extra: str = "") -> bytes:
    lines = []
    rows: Any = pod.runs[run].orchestrator_steps
    for row in rows:
        ago = NOW - row["t"]
        lines.append(f"{clock(ago + 9)}    INFO Starting orchestrator step {row['step']}")
        if row["step"] % 20 == 7:
            lines.append(
                f"{clock(ago + 5)} WARNING Cancelled 4 old rollout requests (will refill "
                "naturally). Consider increasing max_off_policy_steps to avoid this."
            )
        lines.append(
            f"{clock(ago)} SUCCESS Step {row['step']} | Time: {row['time_s']:.2f}s | Reward: "
            f"{row['reward']:.4f} | Throughput: 5123.4 tokens/s | Seq. Length: {row['seq_len']} "
            f"tokens/sample | Async Level: {row['async_level']} | Max. Off-Policy Level: "
            f"{row['off_policy']}"
        )
    return ("\n".join(lines) + "\n" + extra).encode()


def inference_log(ago: float = 2.0, count: int = 40) -> bytes:
    lines = [
        f"(APIServer pid=821) INFO 11-20 {clock(ago + 10 * (count - i))} [loggers.py:335] Engine "
        "000: Avg prompt throughput: 5120.3 tokens/s, Avg generation throughput: "
        f"{18211 + 37 * (i % 5)}.4 tokens/s, Running: 128 reqs, Waiting: 0 reqs, GPU KV cache "
        f"usage: 41.{i % 10}%"
        for i in range(count)
    ]
    return ("\n".join(lines) + "\n").encode()


# -- pods


def healthy() -> RecordedSession:
    """code-14b on h100-b: the current generation, eight busy GPUs."""
    pod = connected("h100-b", "root@198.51.100.12:22", rtt=0.031)
    start_run(pod, "code-14b", "prime-rl", 500, 3_100)
    steps(pod, "code-14b", 1, 187, 14.2, last_ago=6.0)
    devices = [gpu(i, 91 + (i * 7) % 8, 66.4, "code-14b", "engine", 830 + i) for i in range(6)]
    devices += [gpu(i, 97, 71.2, "code-14b", "rank", 910 + i) for i in (6, 7)]
    then = [gpu(i, 12 + i, 66.4, "code-14b", "engine", 830 + i) for i in range(8)]
    telemetry(pod, ago=6 + 7 * 14.2, devices=then)
    telemetry(
        pod,
        devices=devices,
        runs=[{"run": "code-14b", "attempt": 1, "alive": True, "components": parts(812, 6, 2)}],
    )
    logs = {
        "log/code-14b/trainer": trainer_log(pod, "code-14b", escape=True),
        "log/code-14b/orchestrator": orchestrator_log(pod, "code-14b"),
        "log/code-14b/inference": inference_log(),
    }
    return RecordedSession(pod, logs)


DESYNC = "inc-step-desync"
PLAN_HASH = "7be1a4c09d5f3321" + "ab" * 24


def desync(*, incident: bool = True) -> RecordedSession:
    """math-7b on h100-a: resumed from 40 while the orchestrator's checkpoints reach 60; nothing
    moves since 03:03.
    """
    pod = connected("h100-a", "root@192.0.2.41:2222")
    start_run(pod, "math-7b", "prime-rl-2026-01", 400, 9_000)
    steps(pod, "math-7b", 0, 47, 31.3, last_ago=2_400)
    journal(
        pod,
        "run",
        2_100,
        event="attempt-ended",
        run="math-7b",
        attempt=1,
        code=None,
        signal=9,
        good=False,
        detail="stopped by alice@laptop",
    )
    start_run(pod, "math-7b", "prime-rl-2026-01", 400, 1_000, attempt=2, resume=40)
    steps(pod, "math-7b", 40, 41, 31.3, last_ago=560, attempt=2)
    devices = [gpu(i, 0, 64.1, "math-7b", "engine", 1412 + i) for i in range(4)] + [
        gpu(i, 0, 38.9, "math-7b", "rank", 1440 + i) for i in range(4, 8)
    ]
    telemetry(
        pod,
        devices=devices,
        runs=[{"run": "math-7b", "attempt": 2, "alive": True, "components": parts(1400, 4, 4)}],
        kernel_log="hidden",
    )
    wait = "".join(
        f"{clock(ago)} WARNING Timeout waiting for enough tokens to pack\n"
        for ago in range(530, 0, -10)
    )
    barrier = (
        f"{clock(540)}    INFO Hit async barrier because we are >1 step(s) async. Waiting for "
        "checkpoint 42\n"
    )
    logs = {
        "log/math-7b/trainer": trainer_log(pod, "math-7b", wait),
        "log/math-7b/orchestrator": orchestrator_log(pod, "math-7b", barrier),
        "log/math-7b/inference": inference_log(545),
        "log/math-7b/launcher": f"{clock(1000)}    INFO Starting RL run\n".encode(),
    }
    at = logs["log/math-7b/orchestrator"].index(barrier.encode())
    silent = logs["log/math-7b/trainer"].index(f"{clock(270)} WARNING".encode())
    if incident:
        journal(
            pod,
            "incident",
            248,
            event="opened",
            incident=DESYNC,
            failure="step-desync",
            run="math-7b",
            attempt=2,
            role="root",
            severity="critical",
            title="Trainer and orchestrator wait for each other at different steps",
            summary=(
                "The trainer waits for rollouts of step 60, the orchestrator makes those of step "
                "43. No side can move."
            ),
            playbook="step-desync",
            where="pod",
            coverage=["kernel log is hidden (permission denied)"],
            evidence=[
                {
                    "source": "orchestrator",
                    "stream": "log/math-7b/orchestrator",
                    "cursor": f"1:{at}",
                    "file": "/data/math-7b/run_default/logs/orchestrator.log",
                    "offset": at,
                    "line": 131,
                    "text": (
                        f"{clock(540)}    INFO Hit async barrier because we are >1 step(s) "
                        "async. Waiting for checkpoint 42"
                    ),
                },
                {
                    "source": "trainer",
                    "stream": "log/math-7b/trainer",
                    "cursor": f"1:{silent}",
                    "file": "/data/math-7b/logs/trainer.log",
                    "offset": silent,
                    "line": 57,
                    "text": f"{clock(270)} WARNING Timeout waiting for enough tokens to pack",
                },
                {
                    "source": "files",
                    "file": "/data/math-7b/run_default/checkpoints",
                    "text": "newest step 60; the trainer's newest complete step is 40",
                },
            ],
        )
    return RecordedSession(pod, logs)


PLAN_STEPS: list[dict[str, Any]] = [
    {
        "kind": "stop_run",
        "title": "Stop math-7b: 11 processes of attempt 2",
        "command": "kill -TERM 1400 1409 1418 1427 1436 1445 1454 1463 1472 1481 1490",
        "parameters": {"attempt": 2, "limit": 60},
        "targets": [],
        "shown": {
            "processes": [
                {
                    "pid": 1400,
                    "component": "launcher",
                    "command": (
                        "/root/prime-rl/.venv/bin/python3 /root/prime-rl/.venv/bin/rl @ "
                        "configs/math-7b.toml"
                    ),
                },
                {
                    "pid": 1409,
                    "component": "inference",
                    "command": "vllm serve Qwen/Qwen3-8B --port 8000",
                },
                *[
                    {"pid": 1418 + 9 * i, "component": "engine", "command": "VLLM::EngineCore"}
                    for i in range(4)
                ],
                {
                    "pid": 1454,
                    "component": "orchestrator",
                    "command": "python -m prime_rl.orchestrator.orchestrator",
                },
                *[
                    {
                        "pid": 1463 + 9 * i,
                        "component": "rank",
                        "command": "python -m prime_rl.trainer.rl.train",
                    }
                    for i in range(4)
                ],
            ]
        },
    },
    {
        "kind": "archive_logs",
        "title": "Archive the logs of math-7b (the trainer deletes them when it starts)",
        "command": "",
        "parameters": {},
        "targets": [],
        "shown": {},
    },
    {
        "kind": "move_steps",
        "title": "Move 2 step directories above step 40 to the run's trash",
        "command": (
            "mv /data/math-7b/run_default/checkpoints/step_50 <trash>/; mv "
            "/data/math-7b/run_default/checkpoints/step_60 <trash>/"
        ),
        "parameters": {
            "above": 40,
            "roots": ["/data/math-7b/run_default/checkpoints"],
            "limit": 12,
        },
        "targets": [],
        "shown": {
            "directories": [
                {"path": "/data/math-7b/run_default/checkpoints/step_50", "bytes": 18_432_511},
                {"path": "/data/math-7b/run_default/checkpoints/step_60", "bytes": 18_437_002},
            ]
        },
    },
    {
        "kind": "relaunch",
        "title": "Start math-7b from step 40",
        "command": (
            "uv run rl @ configs/math-7b.toml --ckpt.resume-step 40 --output-dir /data/math-7b"
        ),
        "parameters": {"resume": 40},
        "targets": [],
        "shown": {"cwd": "/root/prime-rl"},
    },
]


def plan_record(
    pod: PodState,
    action: str = "01JD0000000000000000000PLAN",
    ago: float = 94,
    lives: float = 900,
    **more: Any,
) -> None:
    """The agent's answer to `plan`."""
    journal(
        pod,
        "plan",
        ago,
        action=action,
        playbook="step-desync",
        run="math-7b",
        attempt=2,
        plan_hash=PLAN_HASH,
        expires_m=POD_M - ago + lives,
        expires_t=NOW - ago + lives,
        plan={
            "playbook": "step-desync",
            "title": "Put the sides back to one step",
            "danger": "move",
            "typed_name": False,
            "run": "math-7b",
            "attempt": 2,
            "incident": DESYNC,
            "resume": 40,
            "steps": PLAN_STEPS,
            "verify": {"steps_advance": {"count": 2, "within": 1800}},
        },
        **more,
    )


def planned() -> RecordedSession:
    """The desync with a plan that waits for a person."""
    session = desync()
    plan_record(session.state)
    return session


ACTION = "01JD00000000000000000ACTION"


def _accepted(pod: PodState, ago: float) -> None:
    journal(
        pod,
        "action",
        ago,
        action=ACTION,
        kind="playbook",
        who="alice@laptop",
        run="math-7b",
        event="accepted",
        playbook="step-desync",
        plan_hash=PLAN_HASH,
        incident=DESYNC,
        body={},
        steps=[{"title": s["title"], "command": s["command"]} for s in PLAN_STEPS],
    )


def _step(pod: PodState, ago: float, number: int, event: str, detail: str = "") -> None:
    step = PLAN_STEPS[number]
    journal(
        pod,
        "action",
        ago,
        action=ACTION,
        run="math-7b",
        event=event,
        step=number,
        title=step["title"],
        command=step["command"],
        detail=detail,
    )


def acting() -> RecordedSession:
    """Step 3 of 4 of the fix."""
    session = planned()
    pod = session.state
    _accepted(pod, 41)
    for number, ago, detail in (
        (0, 40, "all 11 ended after 6.1 s; every GPU is free"),
        (1, 33, "5 files linked to /data/.bs4/math-7b/logs/2"),
    ):
        _step(pod, ago, number, "intent")
        _step(pod, ago - 6, number, "step-done", detail)
    _step(
        pod,
        4,
        2,
        "intent",
        "moved /data/math-7b/run_default/checkpoints/step_50 to /data/.bs4/math-7b/trash/1/step_50",
    )
    return session


def recovered() -> RecordedSession:
    """The fix is through: steps advance again."""
    session = acting()
    pod = session.state
    _step(pod, 3, 2, "step-done", "moved 2 directories")
    _step(pod, 3, 3, "intent")
    _step(pod, 2, 3, "step-done", "attempt 3 is starting")
    journal(
        pod,
        "action",
        1,
        action=ACTION,
        run="math-7b",
        event="verifying",
        detail="waiting for 2 new steps",
    )
    journal(
        pod,
        "action",
        0.5,
        action=ACTION,
        run="math-7b",
        event="done",
        detail="2 steps since the restart, now at step 42",
        result={"recovered": True, "step": 42},
    )
    journal(pod, "incident", 0.4, event="resolved", incident=DESYNC)
    return session


def failed_fix() -> RecordedSession:
    """The fix did not help."""
    session = acting()
    pod = session.state
    _step(
        pod,
        3,
        2,
        "step-failed",
        "/data/.bs4/math-7b/trash is on another filesystem; nothing was moved",
    )
    journal(
        pod,
        "action",
        2,
        action=ACTION,
        run="math-7b",
        event="failed",
        detail="/data/.bs4/math-7b/trash is on another filesystem; nothing was moved",
        result={"recovered": False, "error": "refused"},
    )
    return session


def unreachable() -> RecordedSession:
    """reason-32b on h200-eu: the link is gone for 1m12s, the last data is older than that."""
    pod = connected("h200-eu", "root@203.0.113.7:40022", rtt=0.118)
    start_run(pod, "reason-32b", "prime-rl", 1200, 40_000)
    steps(pod, "reason-32b", 560, 731, 52.8, last_ago=96, seed=11)
    devices = [
        gpu(
            i,
            88 + i,
            118.0,
            "reason-32b",
            "engine" if i < 5 else "rank",
            2210 + i,
            mem_total=141 * GIB,
            name="NVIDIA H200",
        )
        for i in range(8)
    ]
    telemetry(
        pod,
        ago=74,
        devices=devices,
        runs=[{"run": "reason-32b", "attempt": 1, "alive": True, "components": parts(2200, 5, 3)}],
    )
    link = pod.link
    link.state, link.since, link.last_up, link.retry_at, link.attempts = (
        "unreachable",
        MONO - 72,
        MONO - 72,
        MONO + 8,
        5,
    )
    link.detail, link.next_step = (
        "203.0.113.7 port 40022 did not answer within 5 s.",
        "Look at the provider's console whether the pod still runs.",
    )
    return RecordedSession(pod, {"log/reason-32b/trainer": trainer_log(pod, "reason-32b")})


def stale_gpus() -> RecordedSession:
    """sft-check on a100-lab: the driver hangs since 7 s, pids are the host's, one GPU had an Xid
    and another is hot.
    """
    pod = connected("a100-lab", "ubuntu@192.0.2.80:22", rtt=0.204)
    start_run(pod, "arc-agi-3b", "prime-rl-2026-01", 250, 5_000)
    steps(pod, "arc-agi-3b", 0, 122, 9.4, last_ago=12, nan=(88, 89, 90), seed=3)
    devices = [
        gpu(
            0,
            76,
            31.0,
            None,
            "",
            40117,
            procs=[{"pid": 40117, "mem": None, "visible": False, "run": None, "component": None}],
        ),
        gpu(
            1,
            71,
            31.5,
            "arc-agi-3b",
            "engine",
            771,
            temp=88,
            throttle=["sw_power_cap", "hw_thermal_slowdown"],
        ),
        gpu(2, 64, 52.0, "arc-agi-3b", "rank", 790, ecc=3),
        gpu(3, 0, 0.4, None, "", 0),
    ]
    telemetry(
        pod,
        devices=devices,
        runs=[{"run": "arc-agi-3b", "attempt": 1, "alive": True, "components": parts(760, 1, 1)}],
        disk=0.97,
        state="stale",
        age_s=7.2,
        detail="nvmlDeviceGetUtilizationRates of GPU 2 does not return",
        pids="foreign",
        xids=[{"index": 2, "xid": 79, "t": NOW - 640}],
    )
    pod.runs["arc-agi-3b"].components[3]["state"] = "Z"
    journal(
        pod,
        "incident",
        70,
        event="opened",
        incident="inc-disk",
        failure="disk-near-full",
        run="arc-agi-3b",
        attempt=1,
        role="warning",
        severity="warning",
        title="The run's disk will be full at the next checkpoint",
        summary="/data has 60 GiB left; a checkpoint of this run takes 46 GiB.",
        evidence=[],
        coverage=[],
        playbook=None,
    )
    return RecordedSession(
        pod,
        {
            "log/arc-agi-3b/trainer": trainer_log(pod, "arc-agi-3b"),
            "log/arc-agi-3b/orchestrator": orchestrator_log(pod, "arc-agi-3b"),
        },
    )


def finished() -> RecordedSession:
    """reverse-text on h100-c: ended well twenty minutes ago."""
    pod = connected("h100-c", "root@198.51.100.77:22", rtt=0.044)
    start_run(pod, "reverse-text", "prime-rl", 20, 4_000)
    steps(pod, "reverse-text", 1, 20, 31.0, last_ago=1_240, seed=5)
    journal(
        pod,
        "run",
        1_200,
        event="attempt-ended",
        run="reverse-text",
        attempt=1,
        code=0,
        signal=None,
        good=True,
        detail="both final lines were seen",
    )
    telemetry(pod, devices=[gpu(i, 0, 0.4, None, "", 0) for i in range(2)])
    return RecordedSession(
        pod,
        {
            "log/reverse-text/trainer": trainer_log(
                pod, "reverse-text", f"{clock(1210)} SUCCESS RL trainer finished!\n"
            )
        },
    )


def idle() -> RecordedSession:
    """A pod without a run."""
    pod = connected("h100-d", "root@198.51.100.90:22", rtt=0.009, since=40)
    telemetry(pod, devices=[gpu(i, 0, 0.4, None, "", 0) for i in range(8)])
    return RecordedSession(pod)


def first_contact() -> RecordedSession:
    """A pod whose host key nobody has seen."""
    pod = PodState(name="spot-9", address="root@192.0.2.99:41100")
    pod.link.state, pod.link.since = "host key?", MONO - 30
    pod.link.detail = (
        "192.0.2.99 port 41100 shows a key that is not known yet: "
        "SHA256:mVPwvezndPv/ARoIadVY98vAC0g+P/5633yTC4d/wXE (ssh-ed25519)."
    )
    pod.link.next_step = "Run `bs4-console pods test spot-9` and confirm the fingerprint."
    return RecordedSession(pod)


def recorded() -> RecordedSession:
    """The desync as it was kept three days ago: no live pod."""
    session = planned()
    pod = session.state
    pod.address, pod.read_only = "recorded", True
    pod.link.state, pod.link.since, pod.link.detail = (
        "recorded",
        MONO,
        "This system has no practice pods.",
    )
    pod.link.next_step = "Connect to a real pod with `bs4-console pods add NAME HOST`."
    pod.telemetry_seen = MONO - 3 * 86400
    pod.runs["math-7b"].step_seen = MONO - 3 * 86400 - 560
    return session


def noted() -> RecordedSession:
    """code-14b with what two people wrote about it."""
    session = healthy()
    for ago, key, who, text in (
        (5_000, "01JNOTE1", "bob@desk", "halved the learning rate after the spike at 88"),
        (
            600,
            "01JNOTE2",
            "alice@laptop",
            "reward plateau since step 150 is the eval set being swapped, not the policy: leave it",
        ),
    ):
        journal(
            session.state,
            "action",
            ago,
            action=key,
            kind="note",
            who=who,
            run="code-14b",
            event="accepted",
            body={"text": text},
        )
        journal(session.state, "note", ago, run="code-14b", who=who, text=text)
        journal(session.state, "action", ago, action=key, run="code-14b", event="done")
    return session


def connecting() -> RecordedSession:
    pod = PodState(name="h100-e", address="root@198.51.100.91:22")
    pod.link.state, pod.link.since, pod.progress = (
        "connecting",
        MONO - 2,
        "uploading the agent (330 KB)",
    )
    return RecordedSession(pod)


def everything() -> list[RecordedSession]:
    return [healthy(), desync(), unreachable(), stale_gpus(), finished(), idle(), connecting()]


def with_a_file() -> RecordedSession:
    """healthy(), and a file beside the run's logs that a person opens by its path."""
    session = healthy()
    lines = [
        f"{n // 60:02}:{n % 60:02}:00 {'WARNING' if n % 9 == 4 else 'INFO':>7} judge "
        f"answered {n % 13} of 16 prompts"
        for n in range(180)
    ]
    session.logs["file/~/judge/server.log"] = bytearray(
        "".join(f"{line}\n" for line in lines).encode()
    )
    return session


#: Where the rollouts of a step of code-14b lie.
ROLLOUTS = "/data/code-14b/code-14b/rollouts/step_{}/train/all/traces.jsonl"


def rollout(example: int, reward: float, answer: str, *, error: str = "") -> bytes:
    """A line of traces.jsonl as verifiers writes it."""
    nodes = [
        {"message": {"role": "user", "content": f"Write a function that sorts. n={example}"}},
        {"message": {"role": "assistant", "content": answer}},
    ]
    trace = {
        "ok": not error,
        "errors": [{"type": "ProviderError", "message": error}] if error else [],
        "rewards": {"passes": {"score": reward, "weight": 1.0}},
        "nodes": nodes,
    }
    task = {"type": "T", "data": {"idx": example}}
    line = {"env": {"id": "sorting"}, "task": task, "ok": True, "errors": [], "traces": [trace]}
    return json.dumps(line).encode() + b"\n"


def with_rollouts() -> RecordedSession:
    """healthy(), and the rollouts of its newest step."""
    session = healthy()
    code = "def order(xs):\n    return sorted(xs)"
    lines = [
        rollout(3, 0.0, "An older one."),
        rollout(4, 1.0, code),
        rollout(5, 0.0, "I am not sure. " * 60),
        rollout(6, 0.25, "def order(xs): pass"),
        rollout(7, 0.0, "", error="upstream 503"),
    ]
    session.logs[f"file/{ROLLOUTS.format(187)}"] = bytearray(b"".join(lines))
    return session


def nothing() -> list[RecordedSession]:
    """A console without pods."""
    return []


def merge_plan(run: str, step: int) -> dict[str, Any]:
    """The plan of a merge as the agent makes it."""
    target, made = (
        f"/data/{run}/merged/global_step_{step}",
        f"/data/{run}/merged/.global_step_{step}.merging/model",
    )
    words = (
        f"--backend fsdp --local_dir /data/{run}/checkpoints/global_step_{step}/actor "
        f"--target_dir {made}"
    )
    titles = {
        f"Merge step {step} of {run}: 8 files, 15.3 GiB": (
            f"python3 -m verl.model_merger merge {words}"
        ),
        f"Put it into {target} when it is whole": f"mv {made} {target}",
    }
    planned = [
        {"kind": "merge", "title": t, "command": c, "targets": [], "shown": {}}
        for t, c in titles.items()
    ]
    return {
        "danger": "none",
        "typed_name": False,
        "resume": step,
        "target": target,
        "needed": 16_400_000_000,
        "free": 361e9,
        "notes": [],
        "steps": planned,
        "verify": {},
    }


def mergeable() -> RecordedSession:
    """A run whose checkpoint can be merged: the agent answers with a plan, and begins when that is
    confirmed.
    """
    session = healthy()
    pod, run = session.state, next(iter(session.state.runs))
    plan = merge_plan(run, 180)

    def agent(key: str, kind: str, body: dict[str, Any]) -> None:
        if kind == "plan":
            journal(
                pod,
                "plan",
                0,
                action=key,
                playbook="merge",
                run=run,
                attempt=0,
                plan_hash="ab" * 32,
                expires_m=POD_M + 900,
                expires_t=NOW + 900,
                plan=plan,
            )
            journal(
                pod,
                "action",
                0,
                action=key,
                kind=kind,
                who="alice@laptop",
                run=run,
                event="done",
                result={"plan_hash": "ab" * 32},
            )
        elif kind == "merge":
            shown = [{"title": step["title"], "command": step["command"]} for step in plan["steps"]]
            own = {"action": key, "run": run}
            journal(
                pod,
                "action",
                12,
                **own,
                kind=kind,
                who="alice@laptop",
                event="accepted",
                steps=shown,
                body={"plan": plan},
            )
            journal(
                pod,
                "action",
                12,
                **own,
                event="intent",
                step=0,
                title=shown[0]["title"],
                detail="1 of 1: 3.8 GiB written",
            )

    session.on_submit = agent
    return session


def two_incidents() -> RecordedSession:
    """The desync, and a disk that fills."""
    session = desync()
    journal(
        session.state,
        "incident",
        30,
        event="opened",
        incident="inc-disk",
        failure="disk-near-full",
        run="math-7b",
        attempt=2,
        role="warning",
        severity="warning",
        title="The run's disk will be full at the next checkpoint",
        summary="",
        evidence=[],
        coverage=[],
        playbook=None,
    )
    return session


def long_finished() -> RecordedSession:
    """A run that ended two days ago."""
    session = finished()
    attempt = session.state.ledger.runs["reverse-text"].attempts[1]
    attempt.ended_t = NOW - 2 * 86400
    return session


# -- pods that do not answer, and what others say


def _sign(ago: float, source: Any, word: str, detail: str = "", **more: Any) -> Sign:
    return Sign(MONO - ago, source, word, detail, **more)


def _silent(name: str, run: str, *signs: Sign, state: LinkState = "unreachable") -> RecordedSession:
    """A pod of which nothing is heard for three minutes, with the verdict that is really made of
    `signs`.
    """
    session = unreachable()
    pod = session.state
    view = pod.runs.pop("reason-32b")
    view.view.name = run
    pod.name, pod.runs, pod.ledger.runs = name, {run: view}, {run: view.view}
    pod.streams = [stream.replace("reason-32b", run) for stream in pod.streams]
    session.logs = {
        stream.replace("reason-32b", run): data for stream, data in session.logs.items()
    }
    for device in pod.latest["gpus"]["devices"]:
        device["procs"] = [{**entry, "run": run} for entry in device["procs"]]
    pod.link.state, pod.link.since, pod.telemetry_seen = state, MONO - 190, MONO - 192
    pod.runs[run].step_seen = MONO - 214
    pod.lost = judge(name, signs, MONO)
    return session


def _tries(*agos: float, word: str = "unreachable") -> list[Sign]:
    return [
        _sign(ago, "ssh", word, "203.0.113.7 port 40022 did not answer within 5 s.") for ago in agos
    ]


def sync(pod: PodState, ago: float, event: str, run: str, **fields: Any) -> None:
    journal(pod, "sync", ago, event=event, run=run, **fields)


def _ordered(pod: PodState, run: str) -> None:
    sync(
        pod,
        30_000,
        "ordered",
        run,
        to="b2://rl-checkpoints/runs",
        every=None,
        milestones=50,
        once=False,
        who="alice@laptop",
    )


def _credentials(pod: PodState) -> None:
    """A set-up has brought a W&B key and a key for the store."""
    titles = [{"title": "Keep the W&B key"}, {"title": "Keep the B2 key"}]
    action = {"action": "01SETUP", "kind": "setup", "run": "", "who": "maria@laptop"}
    journal(pod, "action", 90_000, event="accepted", steps=titles, **action)
    details = ("in ~/.netrc, mode 0600", "in ~/.bs4, mode 0600, key id 0012ab34cd56ef78900000001")
    for number, detail in enumerate(details):
        journal(pod, "action", 89_990, event="step-done", step=number, detail=detail, **action)
    journal(pod, "action", 89_980, event="done", **action)


def reclaimed() -> RecordedSession:
    """reason-32b on h200-eu: its provider took the pod back; step 720 is in the store."""
    outbid = "vast says that machine 4711 is outbid."
    session = _silent(
        "h200-eu",
        "reason-32b",
        *_tries(186, 120, 60, 14),
        *[_sign(ago, "provider", "stopped", outbid, value="outbid") for ago in (170, 100, 40)],
    )
    pod = session.state
    pod.provider = Observation(
        state="stopped", detail=outbid, seen_t=NOW - 40, looked_t=NOW - 40, raw_state="outbid"
    )
    _credentials(pod)
    _ordered(pod, "reason-32b")
    sync(
        pod,
        900,
        "step-done",
        "reason-32b",
        step=720,
        set_t=NOW - 1_100,
        rate=8.1e7,
        bytes=13 * GIB,
        sent=13 * GIB,
        pointed=True,
        seconds=170,
    )
    return session


def hung() -> RecordedSession:
    """eval-7b on spot-3: runs at its provider, takes connections and says no word."""
    said = "runpod says that machine k2x9 is RUNNING."
    session = _silent(
        "spot-3",
        "eval-7b",
        *_tries(186, 60, 14),
        *[_sign(ago, "port", "mute") for ago in (120, 30)],
        _sign(35, "provider", "running", said, seen_t=NOW - 35, value="RUNNING"),
    )
    session.state.provider = Observation(
        state="running", detail=said, seen_t=NOW - 35, looked_t=NOW - 35, raw_state="RUNNING"
    )
    return session


def cut_off() -> RecordedSession:
    """tool-14b on h100-f: W&B goes on hearing of it, only the way there is broken."""
    said = "W&B has it as running, newest step"
    beats = [
        _sign(ago, "wandb", "running", f"{said} {step}.", seen_t=NOW - ago - 9)
        for ago, step in ((120, 733), (31, 735))
    ]
    session = _silent("h100-f", "tool-14b", *_tries(186, 60, 14), *beats)
    pod = session.state
    pod.runs["tool-14b"].view.tracked = [
        {"side": "trainer", "id": "a1", "project": "rl", "entity": "lab", "server": ""}
    ]
    pod.sights["tool-14b"] = Observation(
        state="running",
        detail="W&B has it as running, newest step 735.",
        seen_t=NOW - 40,
        looked_t=NOW - 31,
        step=735,
        raw_state="running",
    )
    return session


def rebooted() -> RecordedSession:
    """sft-3b on h100-g: it answers again, as another boot."""
    pod = connected("h100-g", "root@198.51.100.97:22", rtt=0.021, since=70)
    start_run(pod, "sft-3b", "prime-rl", 300, 4_000)
    steps(pod, "sft-3b", 1, 96, 22.0, last_ago=300, seed=9)
    telemetry(
        pod,
        devices=[gpu(i, 0, 0.4, None, "", 0) for i in range(4)],
        runs=[{"run": "sft-3b", "attempt": 1, "alive": False, "components": []}],
    )
    journal(
        pod,
        "run",
        60,
        event="attempt-ended",
        run="sft-3b",
        attempt=1,
        code=None,
        signal=None,
        good=False,
        detail="it ended with the pod",
    )
    signs = [
        _sign(400, "boot", "", value="0b7e44d1-before"),
        _sign(66, "boot", "", value=BOOT),
        _sign(1, "ssh", "up"),
    ]
    pod.lost = judge(pod.name, signs, MONO)
    return RecordedSession(pod, {"log/sft-3b/trainer": trainer_log(pod, "sft-3b")})


def lost_pods() -> list[RecordedSession]:
    """A bad night: every way in which a pod may not answer, and one that does."""
    return [healthy(), reclaimed(), hung(), cut_off(), rebooted(), unreachable_elsewhere()]


def unreachable_elsewhere() -> RecordedSession:
    """math-1b on lab-2: nothing is known but that the link is down."""
    return _silent("lab-2", "math-1b", *_tries(186, 60, 14))


def witnessed() -> RecordedSession:
    """The desync, with W&B that thinks it crashed, and its provider that says the pod runs."""
    session = desync()
    pod = session.state
    pod.runs["math-7b"].view.tracked = [
        {"side": "trainer", "id": "m7", "project": "rl", "entity": "lab", "server": ""}
    ]
    pod.sights["math-7b"] = Observation(
        state="unknown",
        detail="W&B has it as crashed, newest step 41.",
        seen_t=NOW - 545,
        coverage="W&B: its heartbeats ended, and W&B cannot tell if the run did",
        looked_t=NOW - 12,
        step=41,
        raw_state="crashed",
    )
    pod.provider = Observation(
        state="running",
        detail="vast says that machine 5120 is running.",
        seen_t=NOW - 95,
        looked_t=NOW - 95,
        raw_state="running",
    )
    return session


def synced() -> RecordedSession:
    """code-14b with a copy in a store, the next step on its way there, and a merge under way."""
    session = healthy()
    pod = session.state
    _ordered(pod, "code-14b")
    sync(
        pod,
        240,
        "step-done",
        "code-14b",
        step=180,
        set_t=NOW - 420,
        rate=9.2e7,
        bytes=13 * GIB,
        sent=13 * GIB,
        pointed=True,
        seconds=150,
    )
    sync(pod, 95, "started", "code-14b", step=185, bytes=13 * GIB)
    sync(pod, 5, "progress", "code-14b", done=round(8.1 * GIB), total=13 * GIB, rate=9.2e7)
    common = {
        "action": "01JD0000000000000000MERGE",
        "kind": "merge",
        "run": "code-14b",
        "who": "bob@desk",
    }
    titles = (
        "Look for the adapter of step 180",
        "Merge it into the base model",
        "Read the result back",
    )
    journal(
        pod,
        "action",
        130,
        **common,
        event="accepted",
        body={},
        steps=[{"title": title, "command": ""} for title in titles],
    )
    journal(pod, "action", 129, **common, event="intent", step=0, title=titles[0])
    journal(pod, "action", 128, **common, event="step-done", step=0, title=titles[0])
    journal(
        pod,
        "action",
        127,
        **common,
        event="intent",
        step=1,
        title=titles[1],
        detail="18 of 40 layers",
    )
    return session


def sync_fails() -> RecordedSession:
    """code-14b whose copies no longer reach the store."""
    session = healthy()
    pod = session.state
    _ordered(pod, "code-14b")
    sync(
        pod,
        4_000,
        "step-done",
        "code-14b",
        step=80,
        set_t=NOW - 4_100,
        rate=9.2e7,
        bytes=13 * GIB,
        sent=13 * GIB,
        pointed=True,
        seconds=150,
    )
    for ago in (900, 600, 300):
        sync(
            pod,
            ago,
            "failed",
            "code-14b",
            error="auth",
            detail="The store refuses the key: it may not write.",
            passing=False,
        )
    return session


def _part(name: str, step: int, size: int, why: str = "") -> dict[str, Any]:
    path = f"/data/code-14b/checkpoints/step_{step}/{name}"
    return {"name": name, "path": path, "bytes": size, "complete": not why, "why": why}


def _set(step: int, age_s: float, missing: Mapping[str, str] | None = None) -> dict[str, Any]:
    parts = [_part("trainer", step, 9 * GIB), _part("orchestrator", step, 3 * GIB)]
    for name, why in (missing or {}).items():
        parts = [one for one in parts if one["name"] != name]
        if why != "no such directory":
            parts.append(_part(name, step, GIB, why))
    return {
        "step": step,
        "complete": not missing,
        "missing": dict(missing or {}),
        "parts": parts,
        "bytes": sum(one["bytes"] for one in parts),
        "t": NOW - age_s,
        "age_s": age_s,
    }


def saved() -> RecordedSession:
    """code-14b with checkpoints on disk and in the store: the newest is on its way there, one on
    the disk is torn, and an old one is only in the store. The agent makes a plan of a restore.
    """
    session = healthy()
    pod = session.state
    _ordered(pod, "code-14b")
    for step, ago in ((100, 4_000), (160, 900), (180, 240)):
        sync(
            pod,
            ago,
            "step-done",
            "code-14b",
            step=step,
            set_t=NOW - ago,
            rate=9.2e7,
            bytes=12 * GIB,
            sent=12 * GIB,
            pointed=True,
            seconds=150,
        )
    sync(pod, 95, "started", "code-14b", step=185, bytes=12 * GIB)
    sync(pod, 5, "progress", "code-14b", done=round(8.1 * GIB), total=12 * GIB, rate=9.2e7)
    torn = {"orchestrator": "no such directory"}
    session.checkpoints = {
        "trainer": "prime-rl",
        "output_dir": "/data/code-14b",
        "live": True,
        "checkpoints": [_set(160, 1_100), _set(170, 800, torn), _set(180, 420), _set(185, 95)],
        "resumable": 185,
        "loose": {"steps": 2, "bytes": GIB},
        "disk": {"free": 900 * GIB, "total": 2_000 * GIB},
        "forecast": {
            "lasts": True,
            "to_come": 30,
            "full_t": None,
            "full_step": None,
            "room": 75,
            "set_bytes": 12 * GIB,
            "every_steps": 10,
            "every_s": 142.0,
        },
        "order": None,
        "trainer_keeps": None,
        "config": [],
    }
    plan = {
        "playbook": "restore",
        "title": "Restore step 180 of code-14b",
        "danger": "none",
        "typed_name": False,
        "run": "code-14b",
        "resume": 180,
        "skipped": [],
        "missing": 12 * GIB,
        "bytes": 12 * GIB,
        "free": 900 * GIB,
        "notes": [],
        "launch": {
            "run": "code-14b",
            "trainer": "prime-rl",
            "config": "configs/code-14b.toml",
            "cwd": "/root/prime-rl",
            "output_dir": "/data/code-14b",
            "resume": 180,
            "recorded": True,
        },
        "steps": [
            {
                "kind": "restore_set",
                "title": "Fetch step 180 from b2://rl-checkpoints/runs",
                "command": "",
                "parameters": {},
                "targets": [],
                "shown": {},
            }
        ],
        "verify": {},
    }

    def agent(key: str, kind: str, body: dict[str, Any]) -> None:
        own = {"action": key, "kind": kind, "who": "alice@laptop", "run": "code-14b"}
        if kind == "plan":
            journal(
                pod,
                "plan",
                0,
                action=key,
                playbook="restore",
                run="code-14b",
                attempt=1,
                plan_hash="cd" * 32,
                expires_m=POD_M + 900,
                expires_t=NOW + 900,
                plan=plan,
            )
        if kind == "keep" and body.get("last"):
            journal(
                pod,
                "order",
                0,
                run="code-14b",
                last=body["last"],
                at_least=body["last"],
                milestones=body["milestones"],
                synced=False,
                who="alice@laptop",
            )
        journal(pod, "action", 0, event="done", detail=f"{kind} is ordered", result={}, **own)

    session.on_submit = agent
    return session
