"""Pods without namespaces: one real sshd each on 127.0.0.x, with its own home by ForceCommand, as
whoever runs the tests.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shlex
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support import keys, processes, sshd
from tests.support.pod import NotHere, Options, TestPod

_numbers = itertools.count(1)


class PlainPod(TestPod):
    def __init__(self, directory: Path, options: Options, key: Path, ca: Path) -> None:
        if options.needs_namespaces:
            raise NotHere("this pod needs namespaces (root, CAP_SYS_ADMIN); only plain sshd here")
        number = next(_numbers)
        self.name, self.address, self.user = (
            f"pod{number}",
            f"127.0.0.{number % 250 + 2}",
            pwd.getpwuid(os.getuid()).pw_name,
        )
        # Bound and never listening: until sshd is up, and while it is down, nobody's outgoing
        # connection gets its port.
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind((self.address, 0))
        self.port = int(self._place.getsockname()[1])
        self.key, self._options = key, options
        self._directory = directory / self.name
        home = self._directory / "home"
        home.mkdir(parents=True, mode=0o700)
        self.home = str(home)
        self.host_key, self.other_host_key = keys.host_keys(self._directory)
        (self._directory / "authorized_keys").write_text(keys.public_line(key) + "\n")
        (self._directory / "ca.pub").write_text(keys.public_line(ca) + "\n")
        login = self._login_script()
        sftp = [f"Subsystem sftp {sshd.sftp_server()}"] if options.sftp else []
        plain = Options(max_sessions=options.max_sessions, sftp=False, sshd=options.sshd)
        text = sshd.config(
            self._directory,
            self.port,
            plain,
            f"ListenAddress {self.address}",
            *sftp,
            f"ForceCommand {login}",
        )
        (self._directory / "sshd_config").write_text(text)
        self._log = self._directory / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def _login_script(self) -> Path:
        """HOME is this pod's; BS4_TEST_POD marks every process started here, so that they can be
        found again at the end.
        """
        script = self._directory / "login.sh"
        script.write_text(
            f"#!/bin/sh\nexport HOME={shlex.quote(self.home)} "
            f"BS4_TEST_POD={shlex.quote(str(self._directory))}\ncd\n"
            'if [ -n "$SSH_ORIGINAL_COMMAND" ]; then exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"; '
            "fi\nexec /bin/sh -l\n"
        )
        script.chmod(0o755)
        return script

    def start(self) -> None:
        self.boot()
        sshd.wait_for_banner(self.address, self.port, self._log)

    def boot(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        with self._log.open("ab") as log:
            argv = [sshd.binary(), "-D", "-e", "-f", str(self._directory / "sshd_config")]
            self._process = processes.spawn(argv, stdout=log, stderr=log)

    @property
    def root(self) -> Path:
        return Path("/")

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "HOME": self.home, "BS4_TEST_POD": str(self._directory)}
        return subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
            env=environment,
            cwd=self.home,
        )

    def cut(self) -> None:
        raise NotHere("cutting a link needs network namespaces")

    def restore(self) -> None:
        raise NotHere("cutting a link needs network namespaces")

    def kill(self) -> None:
        if self._process is not None:
            sessions = processes.descendants(self._process.pid)
            self._process.kill()
            self._process.wait()
            for pid in sessions:
                processes.end(pid)
            self._process = None
        processes.end_marked(f"BS4_TEST_POD={self._directory}")

    def close(self) -> None:
        self.kill()
        self._place.close()
        shutil.rmtree(self._directory, ignore_errors=True)
