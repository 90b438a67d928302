"""The pod of a round and what goes on there: a run that writes its log, and what must stay as it
is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bs4_common.streams.generations import FINGERPRINT_BYTES
from bs4_common.streams.segments import parse
from bs4_practice import tree, witness
from tests.e2e import journals
from tests.support.namespaced import NamespacedPod

STREAM = "log/flood/trainer"
LOG = "work/out/logs/trainer.stdout"
#: What the agent remembers of the files of that log, below its home.
LOG_STATE = ".bs4/runs/flood/logs/trainer.json"
TRAINER = "prime-rl-2026-01"
HOME_SIZE = "256m"
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
CLOCK = "/etc/bs4-pod/clock"
#: Where the programs of the pod take orders. It stays when the pod is killed.
CONTROL = "var/lib/chaos"
_DECOY = (
    "exec -a 'VLLM::EngineCore' python3 -c 'import time; time.sleep(3600)' "
    "/root/work/out/flood rl.toml"
)


def sshd_lines(clock: Path | None) -> list[str]:
    """Return the lines of sshd_config with which all that a login starts has a clock that can be
    moved by the file CLOCK.
    """
    if clock is None:
        return []
    return [f"SetEnv LD_PRELOAD={clock} CHAOS_CLOCK={CLOCK}"]


def moving_clock(directory: Path) -> Path | None:
    """Compile the library that moves clocks; None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    made = directory / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", made, source], check=True)
    return made


def run_body(run: str, output_dir: str) -> dict[str, object]:
    """Return the body of a launch."""
    return {
        "run": run,
        "trainer": TRAINER,
        "config": "rl.toml",
        "cwd": "work",
        "output_dir": output_dir,
        "wait": False,
    }


@dataclass(frozen=True)
class Held:
    """The memory in bytes and the open descriptors of a process, by what they refer to."""

    memory: int
    descriptors: dict[str, int]


class Load:
    """What a round does to a pod that is well, and what it sees of it from outside."""

    def __init__(self, pod: NamespacedPod) -> None:
        self.pod = pod
        self._before: set[tuple[str, str]] | None = None
        self._decoy: tree.Process | None = None

    # A pod that was killed and is back has other processes, and other ways to its files.

    @property
    def init(self) -> int:
        """The host's pid of the pod's first process, which is its sshd."""
        return self.pod.init

    @property
    def home(self) -> Path:
        """The pod's home as it is seen from here."""
        return self.pod.root / self.pod.home.lstrip("/")

    @property
    def log(self) -> Path:
        """The log that the run writes."""
        return self.home / LOG

    def log_is_known(self) -> bool:
        """Return True if the agent has a link to the file that is the log now, has seen how it
        begins, and would still know both after a kill.

        The link alone is not enough: the agent makes it when the file is still empty, and a file
        that is cut before the agent has seen a byte of it looks like one that was always empty.
        """
        try:
            inode = self.log.stat().st_ino
            newest = json.loads((self.home / LOG_STATE).read_text())["generations"][-1]
        except (FileNotFoundError, IndexError):
            return False
        seen = newest["fingerprinted"] >= FINGERPRINT_BYTES
        return bool(newest["inode"] == inode and newest["link"] and not newest["lost"] and seen)

    @property
    def control(self) -> Path:
        """The directory of the orders to programs of the pod."""
        return self.pod.root / CONTROL

    def furnish(self) -> None:
        """Put a place to train in and the writer on the pod, and decoys beside them."""
        (self.home / "work").mkdir()
        (self.home / "work" / "rl.toml").write_text("max_steps = 10\n")
        program = self.home / ".local" / "bin" / "uv"
        program.parent.mkdir(parents=True)
        program.write_text(Path(__file__).with_name("writer.py").read_text())
        program.chmod(0o755)
        self.control.mkdir(parents=True)
        (self.pod.root / CLOCK.lstrip("/")).write_text("+0\n")
        for place in self._others():
            step = place / "checkpoints" / "step_20"
            step.mkdir(parents=True)
            (step / "model.safetensors").write_bytes(os.urandom(64 * 1024))
            (place / "trainer.stdout").write_text("somebody else's log\n")
        self.start_decoy()
        self._before = self._snapshot()

    def start_decoy(self) -> None:
        """Start a process that has nothing to do with the run and looks like a part of it."""
        self._decoy = None
        known = {process.pid for process in self.processes()}
        started = self.pod.run(
            ["bash", "-c", f"cd /root/other; ({_DECOY}) >/dev/null 2>&1 </dev/null & disown"]
        )
        assert started.returncode == 0, started.stderr
        deadline = time.monotonic() + 30
        while self._decoy is None:
            assert time.monotonic() < deadline, "the decoy process did not start"
            for process in _inside(self.init):
                if process.pid not in known and process.title.startswith("VLLM::EngineCore"):
                    self._decoy = process

    def damage(self) -> list[str]:
        """Return what was done to files and processes that have nothing to do with the run."""
        assert self._before is not None
        assert self._decoy is not None
        found = []
        if self._snapshot() != self._before:
            found.append("files outside the run changed")
        if not tree.alive(self._decoy):
            found.append("a process outside the run was ended")
        return found

    def _snapshot(self) -> set[tuple[str, str]]:
        """Return the path within the pod and the hash of each file that nobody may change."""
        found = set()
        for facts in witness.Snapshot.take(self._others()).files:
            found.add((str(Path(facts.path).relative_to(self.pod.root)), facts.sha256))
        return found

    def _others(self) -> list[Path]:
        return [self.home / "other", self.home / "work" / "other"]

    def processes(self) -> list[tree.Process]:
        """Return every process of the pod."""
        return _inside(self.init)

    def agent(self) -> tree.Process | None:
        """Return the living agent that started last, or None. A process that started after the
        agent wrote its record has only got the agent's pid, and is no agent.
        """
        for record in reversed(self.records("agent")):
            if record["event"] in ("started", "restarted"):
                process = self.process(record["pid"])
                if process is None or process.start_ticks / _TICKS_A_SECOND > record["m"]:
                    return None
                return process
        return None

    def process(self, pid: int) -> tree.Process | None:
        """Return the process that the pod itself calls `pid`, or None if it is gone."""
        for process in self.processes():
            if _own_pid(process.pid) == pid:
                return process
        return None

    def own_pid(self, process: tree.Process) -> int:
        """Return the pid that a process has within the pod; 0 if it is gone."""
        return _own_pid(process.pid)

    def writer(self) -> tree.Process | None:
        """Return the process that writes the log, or None if it is gone."""
        return self.process(self.starts("out")[-1])

    def starts(self, output: str) -> list[int]:
        """Return the pids of all programs that were ever started for this output directory."""
        try:
            lines = (self.control / "starts").read_text().splitlines()
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            name, pid = line.split()
            if name == output:
                found.append(int(pid))
        return found

    def stop(self) -> None:
        """Tell the writer to stop."""
        (self.control / "stop").touch()

    @property
    def written(self) -> int | None:
        """How many lines were written; None before the writer has stopped."""
        try:
            return int((self.control / "written").read_text())
        except FileNotFoundError:
            return None

    def records(self, type_: str) -> list[dict[str, Any]]:
        """Return the journal's records of one type, oldest first. What is no record is left out."""
        found = []
        for line in journal_lines(self.home):
            record = parse(line)
            if record is not None and record.get("type") == type_:
                found.append(record)
        return found

    def actions(self, kind: str, run: str = "") -> list[str]:
        """Return the keys of the accepted actions of a kind for a run."""
        return self.accepted().get(f"{kind} {run}", [])

    def bundles(self) -> list[Path]:
        """Return the agent's bundles on the pod, and the archives that are being uploaded."""
        return list((self.home / ".bs4" / "agent").iterdir())

    def bundle(self) -> str:
        """Return the hash of the bundle of the agent that started last."""
        return str(self._agent_record()["bundle"])

    def build(self) -> int:
        """Return the build number of the agent that started last."""
        return int(self._agent_record()["build"])

    def _agent_record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.home / ".bs4" / "agent.json").read_text())
        return record

    def agents(self) -> list[tree.Process]:
        """Return every process of the pod that is an agent."""
        found = []
        for process in self.processes():
            if process.cmdline[-1] == "daemon" and "bs4_agent" in process.title:
                found.append(process)
        return found

    def torn(self) -> list[bytes]:
        """Return the lines that the kill of the pod has left unfinished."""
        try:
            return [(self.control / "torn").read_bytes()]
        except FileNotFoundError:
            return []

    def accepted(self) -> dict[str, list[str]]:
        """Return the keys of all accepted actions by kind and run ("launch flood")."""
        found: dict[str, list[str]] = {}
        for record in self.records("action"):
            if record.get("event") == "accepted":
                run = f"{record['kind']} {record.get('run') or ''}"
                found.setdefault(run, []).append(record["action"])
        return found


def held(pid: int) -> Held:
    """Return what a process holds now. Raises OSError if it is gone."""
    descriptors: dict[str, int] = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue
        if target.startswith(("socket:", "pipe:")):
            target = target.partition(":")[0]
        descriptors[target] = descriptors.get(target, 0) + 1
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return Held(int(line.split()[1]) * 1024, descriptors)
    raise ProcessLookupError(f"process {pid} has no memory left")


def excess(before: Held, now: Held, memory: int) -> list[str]:
    """Return what a process holds that it did not hold at the start, beyond `memory` bytes and one
    descriptor of a kind.
    """
    found = []
    if now.memory > before.memory + memory:
        found.append(f"{now.memory >> 20} MiB of memory after {before.memory >> 20} MiB")
    for target, count in now.descriptors.items():
        most = max(before.descriptors.get(target, 0), 1) + 1
        if count > most:
            found.append(f"{count} descriptors of {target} after {most - 1}")
    return found


def _inside(init: int) -> list[tree.Process]:
    """Return the processes in the pid namespace of `init`, wherever they descend from."""
    namespace = Path(f"/proc/{init}/ns/pid").readlink()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            same = (entry / "ns" / "pid").readlink() == namespace
        except OSError:
            continue
        process = tree.look(int(entry.name))
        if same and process is not None and process.state not in "ZX":
            found.append(process)
    return found


def _own_pid(pid: int) -> int:
    """Return the pid that a process has in its own namespace; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return 0


def journal_lines(home: Path) -> list[bytes]:
    """Return the whole lines of a pod's journal, oldest first."""
    found: list[bytes] = []
    for path in sorted(journals.directory(home).glob("*.ndjson")):
        found += path.read_bytes().split(b"\n")[:-1]
    return found


def kept_lines(mirror: Path) -> list[bytes]:
    """Return the lines of the journal that a console has kept, oldest first."""
    found: list[bytes] = []
    (directory,) = (path for path in mirror.glob("*/journal") if path.is_dir())
    for path in sorted(directory.glob("*.data"), key=lambda path: int(path.stem)):
        found += path.read_bytes().split(b"\n")[:-1]
    return found


def gaps_kept(mirror: Path) -> list[dict[str, object]]:
    """Return the gaps in the log that a console has kept."""
    found = []
    for path in mirror.glob(f"*/{STREAM}/gaps.ndjson"):
        found += [json.loads(line) for line in path.read_text().splitlines()]
    return found
