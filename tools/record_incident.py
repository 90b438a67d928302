"""Make the recording that `bs4-console demo --recorded` opens: a real practice pod, broken for
real, read as every console reads.

`python tools/record_incident.py console/bs4_practice/recording/pod`
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path

from bs4_console.pods.mirror import Mirror
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.ssh import SshTransport
from bs4_practice import faults
from bs4_practice import pod as practice
from bs4_practice.stage import Stage, inventory_entry

NAME, RUN, TRAINER = "h100-c", "practice", "prime-rl-2026-01"
STEPS = 30
#: Telemetry of the last minutes is enough for the screens, and 1 Hz is 1.4 KB a second.
SAMPLES = 60
WHO = "alice@laptop"


async def record(target: Path) -> None:
    """Start a practice pod and a run on it, break the run, and save the console's copy of the pod's
    data in the directory `target`. What is in `target` already is deleted.
    """
    with tempfile.TemporaryDirectory(prefix="bs4-") as directory:
        root = Path(directory)
        pod = await practice.start(NAME, "2026-01", root / "p", step_seconds=0.6, pace=0.5)
        try:
            known = HostKeys(root / "known_hosts")
            known.pin(pod.name, pod.known_host_key)
            session = PodSession(
                PodState(name=NAME, address="recorded"),
                lambda: SshTransport(inventory_entry(pod), known),
                Mirror(root / "mirror"),
                WHO,
            )
            life = asyncio.create_task(session.run())
            try:
                await session.synced(60)
                await _break(Stage(pod, session, TRAINER))
                await _read_logs(session)
                await session.synced(60)
            finally:
                life.cancel()
                await asyncio.gather(life, return_exceptions=True)
        finally:
            await pod.stop()
        _keep(root / "mirror", target)


async def _break(stage: Stage) -> None:
    await stage.launch(RUN)
    await stage.until(
        lambda: (stage.session.state.runs[RUN].step or 0) >= STEPS, 300, f"step {STEPS}"
    )
    await faults.wait_generating(stage.pod)
    faults.kill(faults.find(stage.pod, "engine")[0])
    await stage.plan(await stage.incident("vllm-silent-death", 180))
    await asyncio.sleep(5)


async def _read_logs(session: PodSession) -> None:
    for stream in await session.streams():
        cursor = "start"
        while stream.startswith("log/"):
            chunk = await session.read_log(stream, cursor)
            cursor = chunk.next
            if not chunk.more:
                break


def _keep(mirror: Path, target: Path) -> None:
    """The mirror without its books, telemetry shortened to its end."""
    home = (mirror / "home").read_text().strip()
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(
        mirror / home, target / home, ignore=shutil.ignore_patterns("*.spans", "gaps.ndjson")
    )
    (target / "home").write_text(home)
    telemetry = sorted((target / home / "telemetry").glob("*.data"))
    lines = [
        line
        for path in telemetry
        for line in path.read_bytes().lstrip(b"\0").splitlines(keepends=True)
    ]
    for path in telemetry:
        path.unlink()
    (target / home / "telemetry" / "1.data").write_bytes(b"".join(lines[-SAMPLES:]))
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(json.dumps({"home": home, "bytes": size, "last_t": json.loads(lines[-1])["t"]}))


if __name__ == "__main__":
    asyncio.run(record(Path(sys.argv[1])))
