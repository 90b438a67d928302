"""Plant defects in a copy of the tree, one at a time, and fail if one survives its rounds.

Usage:
    python -m tests.chaos.proof [--rounds N] [--seed S] [NAME ...]

Each defect replaces a piece of text that must be there exactly once. So the proof fails loudly
when that place of the code has changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Defect:
    """A defect: `old` becomes `new` in `path`. `always` names the kinds that each of its rounds
    has, so that few rounds are enough; the other kinds are drawn. `seen` is what a round says that
    has found it.
    """

    name: str
    path: str
    old: str
    new: str
    always: str
    seen: str


_SESSION = "console/bs4_console/pods/session.py"
DEFECTS = (
    Defect(
        "line-dropped-at-reconnect",
        _SESSION,
        "        if not chunk.repeats and not stream.startswith(FILE):\n",
        "        if getattr(self, '_planted', self._channel) is not self._channel:\n"
        "            import dataclasses\n"
        "            rest = chunk.data.partition(b'\\n')[2]\n"
        "            chunk = dataclasses.replace(chunk, data=rest)\n"
        "        self._planted = self._channel\n"
        "        if not chunk.repeats and not stream.startswith(FILE):\n",
        "link-cut,link-flapping",
        "are missing, and no gap",
    ),
    Defect(
        "action-under-a-new-key",
        _SESSION,
        "            await self._submit_again(action, *secret)\n",
        "            action = {**action, 'key': ulid()}\n"
        "            await self._submit_again(action, *secret)\n",
        "half-open",
        "one action was accepted",
    ),
    Defect(
        "descriptor-leaked",
        "agents/bs4_agent/channel/server.py",
        "            connection.serve()\n",
        "            os.open(os.devnull, os.O_RDONLY)\n            connection.serve()\n",
        "link-flapping,sshd-killed,max-sessions-1",
        "descriptors of /dev/null",
    ),
    Defect(
        "gap-not-in-the-mirror",
        _SESSION,
        "            if chunk.gap:\n                self.mirror.note_gap(stream, chunk.gap)\n",
        "",
        "log-truncated,pod-frozen",
        "the mirror has no record of the gap",
    ),
    Defect(
        "kill-by-stale-pid",
        "agents/bs4_agent/runs/stop.py",
        "        attempt = self._run.attempt\n        report = StopReport(",
        "        import os\n"
        "        for member in self._runs.membership.members(self._run.name):\n"
        "            os.kill(member.identity.pid, 15)\n"
        "        attempt = self._run.attempt\n        report = StopReport(",
        "pid-reused",
        "a process was ended that had the pid of one that was gone",
    ),
    Defect(
        "changed-host-key-accepted",
        "console/bs4_console/transport/ssh.py",
        "        self.shown = key\n        return False\n",
        "        self.shown = key\n        return True\n",
        "pod-killed-other-host-key",
        "the console logged in at a pod with another host key",
    ),
    Defect(
        "plan-expires-by-the-wall-clock",
        "agents/bs4_agent/actions/executor.py",
        "time.monotonic() > view.expires_m\n",
        "time.time() > view.expires_t\n",
        "clock-jump-before-confirmation",
        "a plan that is minutes old was refused",
    ),
    Defect(
        "refused-record-ends-the-session",
        "console/bs4_console/pods/reader.py",
        "            self._refuse(stream, str(error))\n",
        "            raise ValueError(stream) from error\n",
        "hostile-records",
        "nobody said that records of the journal were refused",
    ),
)


def planted(defect: Defect, directory: Path) -> Path:
    """Return a copy of the tree below `directory` that has the defect. Raises SystemExit if its
    place is not found once.
    """
    copy = directory / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    shutil.copytree(ROOT / "build" / "wheels", copy / "build" / "wheels")
    place = copy / defect.path
    text = place.read_text()
    if text.count(defect.old) != 1:
        raise SystemExit(
            f"chaos-proof: {defect.path} has the place of {defect.name} {text.count(defect.old)} "
            "times; correct it in tests/chaos/proof.py."
        )
    place.write_text(text.replace(defect.old, defect.new))
    return copy


@dataclass(frozen=True)
class Proof:
    """What the rounds with a defect printed, and whether the defect has survived them."""

    printed: str
    survived: bool


def proof(defect: Defect, rounds: int, seed: str) -> Proof:
    """Play up to `rounds` rounds with `defect`, until one fails. Raises SystemExit if they could
    not be played.
    """
    with tempfile.TemporaryDirectory(prefix="bs4-chaos-proof-") as directory:
        copy = planted(defect, Path(directory))
        words = ["--rounds", str(rounds), "--seed", seed, "--always", defect.always]
        paths = f"{copy / 'console'}:{copy / 'agents'}:{copy}"
        done = subprocess.run(
            [sys.executable, "-m", "tests.chaos", *words, "--first-failure", "--no-record"],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
    printed = f"== {defect.name}\n{done.stdout}{done.stderr}"
    if done.returncode not in (0, 1) or "good, " not in done.stdout:
        raise SystemExit(f"{printed}\nchaos-proof: the rounds with {defect.name} did not run.")
    return Proof(printed, defect.seen not in done.stdout)


def main() -> int:
    """Return 1 if a defect has survived."""
    parser = argparse.ArgumentParser(prog="chaos-proof", description="Prove that rounds see.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", default=str(round(time.time())))
    parser.add_argument("--jobs", type=int, default=1, help="defects that are tried at a time")
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args()
    known = [defect.name for defect in DEFECTS]
    if unknown := sorted(set(asked.names).difference(known)):
        parser.error(f"there is no defect {unknown[0]}; choose from {', '.join(known)}")
    tried = [defect for defect in DEFECTS if not asked.names or defect.name in asked.names]
    alive = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        proofs = pool.map(lambda defect: proof(defect, asked.rounds, asked.seed), tried)
        for defect, found in zip(tried, proofs, strict=True):
            print(found.printed, flush=True)
            if found.survived:
                alive.append(defect.name)
    print(f"survived: {', '.join(alive) or 'none'}")
    return bool(alive)


if __name__ == "__main__":
    sys.exit(main())
