"""A Docker daemon of this test run's own: its data, its socket and its containers lie in one
directory, and end with it.

No registry is asked: the image is a tar of empty directories, and the programs are this machine's,
mounted read-only.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support import processes
from tests.support.pod import NotHere

IMAGE = "bs4-test-image"
_UP_S, _ASK_S = 60.0, 120.0
_EMPTY = ("proc", "sys", "dev", "tmp", "run", "root", "etc", "mnt")


class Daemon:
    """NotHere, with the daemon's own reason, where none can be had."""

    def __init__(self, directory: Path) -> None:
        missing = [name for name in ("docker", "dockerd") if shutil.which(name) is None]
        if missing or os.geteuid() != 0:
            raise NotHere(
                f"no {' and no '.join(missing)} on this machine"
                if missing
                else "a Docker daemon needs root"
            )
        self.environment = {
            **os.environ,
            "DOCKER_HOST": f"unix://{directory}/docker.sock",
            "DOCKER_CONFIG": str(directory),
        }
        self._log = directory / "dockerd.log"
        self._names: list[str] = []
        flags = [
            "--storage-driver=vfs",
            "--iptables=false",
            "--ip6tables=false",
            "--bridge=none",
            "--pidfile",
            str(directory / "pid"),
        ]
        places = [
            "--data-root",
            str(directory / "data"),
            "--exec-root",
            str(directory / "exec"),
            "-H",
            self.environment["DOCKER_HOST"],
        ]
        with self._log.open("wb") as log:
            self._process = processes.spawn(["dockerd", *flags, *places], stdout=log, stderr=log)
        deadline = time.monotonic() + _UP_S
        while self.ask("version", check=False).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self._log.read_text(errors="replace").strip().splitlines()
                self.close()
                raise NotHere(
                    "dockerd does not come up here: "
                    f"{said[-1][:300] if said else 'it says nothing'}"
                )
            time.sleep(0.1)
        self._import(directory / "image.tar")

    def ask(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["docker", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"docker {words[0]}: {done.stderr.strip()[-400:]}")
        return done

    def run(
        self,
        name: str,
        binds: Mapping[str, Path],
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`docker run -d`. NotHere when no container can be started here."""
        own = {str(place): place for place in _programs()}
        mounts = [word for place, path in own.items() for word in ("-v", f"{path}:{place}:ro")]
        mounts += [word for place, path in binds.items() for word in ("-v", f"{path}:{place}")]
        given = [word for key, value in (env or {}).items() for word in ("-e", f"{key}={value}")]
        self._names.append(name)
        done = self.ask(
            "run",
            "-d",
            "--network=none",
            "--name",
            name,
            *given,
            *mounts,
            IMAGE,
            *command,
            check=False,
        )
        if done.returncode != 0:
            raise NotHere(
                f"dockerd starts no container here: {done.stderr.strip().splitlines()[-1][:300]}"
            )

    def close(self) -> None:
        if self._process.poll() is None:
            for name in self._names:
                self.ask("rm", "-f", name, check=False)
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _import(self, path: Path) -> None:
        with tarfile.open(path, "w") as archive:
            for name in _EMPTY:
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
                archive.addfile(entry)
            for link in ("bin", "sbin", "lib", "lib64"):
                entry = tarfile.TarInfo(link)
                entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{link}"
                archive.addfile(entry)
            passwd = b"root:x:0:0:root:/root:/bin/sh\n"
            entry = tarfile.TarInfo("etc/passwd")
            entry.size = len(passwd)
            archive.addfile(entry, io.BytesIO(passwd))
        self.ask("import", str(path), IMAGE)


def _programs() -> list[Path]:
    """What every program of the tests needs, outermost directories only."""
    wanted = {
        Path("/usr"),
        Path(sys.base_prefix),
        Path(sys.prefix),
        Path(__file__).resolve().parents[2],
        Path(sys.executable).resolve().parents[1],
    }
    return sorted(
        place
        for place in wanted
        if not any(other != place and place.is_relative_to(other) for other in wanted)
    )
