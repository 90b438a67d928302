"""Pods as separate machines: own network, mounts, pids, IPC, host name, root file system and home;
one real sshd each.

A `Switch` is one process in its own network and mount namespace: it holds the bridge, and a tmpfs
with the pods' disks. Pods are children of its mount namespace. Everything hangs on processes that
die with the test run (parent death signal), and the kernel takes networks, mounts and memory with
the last of them: nothing is left behind even after `kill -9` of pytest.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support import interpreters, keys, processes, sshd
from tests.support.pod import NotHere, Options, TestPod

_TOOLS = ("unshare", "nsenter", "setpriv", "ip", "mount", "pivot_root")
_ETC = Path("/etc/bs4-pod")
_HOME = pwd.getpwuid(0).pw_dir
_ENVIRONMENT = {
    "HOME": _HOME,
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "USER": "root",
    "LOGNAME": "root",
    "LANG": "C.UTF-8",
}
_numbers = itertools.count(1)


class Switch:
    """The cable room: 10.77.x.0/24 exists only in its namespaces and on one veth end of ours."""

    def __init__(self, directory: Path) -> None:
        _require()
        self.directory = directory
        self.disks = directory / "disks"
        self.disks.mkdir(parents=True)
        self._claim, self.subnet = _claim_subnet()
        script = (
            f"mount -t tmpfs -o mode=0700 none {shlex.quote(str(self.disks))} && echo up && exec "
            "sleep infinity"
        )
        self.process = processes.spawn(
            ["unshare", "--net", "--mount", "sh", "-c", script],
            stdout=subprocess.PIPE,
            env=_ENVIRONMENT,
        )
        self.end = f"bs4h{self.process.pid}"
        assert self.process.stdout is not None
        if self.process.stdout.readline() != b"up\n":
            self.close()
            raise NotHere("network and mount namespaces are not allowed here")
        self._plug()

    def _plug(self) -> None:
        end = self.end
        try:
            _ip(
                f"link add {end} type veth peer name uplink netns {self.process.pid}",
                f"addr add {self.gateway}/24 dev {end}",
                f"link set {end} up",
            )
            self.ip(
                "link add br0 type bridge",
                "link set br0 up",
                "link set uplink master br0",
                "link set uplink up",
                "link set lo up",
            )
        except NotHere:
            self.close()
            raise

    @property
    def gateway(self) -> str:
        return f"10.77.{self.subnet}.1"

    def ip(self, *commands: str) -> None:
        _ip(*commands, inside=self.process.pid)

    def close(self) -> None:
        # The kernel would take our end of the cable too, but in its own time.
        subprocess.run(["ip", "link", "del", self.end], check=False, capture_output=True)
        self.process.kill()
        self.process.wait()
        self._claim.close()


class NamespacedPod(TestPod):
    def __init__(self, switch: Switch, options: Options, key: Path, ca: Path) -> None:
        number = next(_numbers)
        if number > 250:
            raise NotHere("more than 250 pods in one test run; close some")
        self.name, self.address, self.port, self.user = (
            f"pod{number}",
            f"10.77.{switch.subnet}.{number + 1}",
            22,
            "root",
        )
        self.key, self.home = key, _HOME
        # A fixed one: after a reboot our neighbour table would point to the old card for a minute.
        self._mac = f"02:77:00:00:{switch.subnet:02x}:{number:02x}"
        self._switch, self._number, self._options = switch, number, options
        self._directory = switch.directory / self.name
        etc = self._directory / "etc"
        etc.mkdir(parents=True)
        self.host_key, self.other_host_key = keys.host_keys(etc)
        (etc / "authorized_keys").write_text(keys.public_line(key) + "\n")
        (etc / "ca.pub").write_text(keys.public_line(ca) + "\n")
        (etc / "sshd_config").write_text(sshd.config(_ETC, 22, options))
        self._log = self._directory / "log"
        (self._directory / "init.sh").write_text(self._init_script())
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.boot()
        sshd.wait_for_banner(self.address, self.port, self._log)

    def boot(self) -> None:
        """Power on without waiting for sshd, so that several pods come up at once."""
        namespaces = [
            "unshare",
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--net",
            "--fork",
            "--kill-child=SIGKILL",
        ]
        self._insert_home()
        with self._log.open("ab") as log:
            self._process = processes.spawn(
                [
                    "nsenter",
                    "-t",
                    str(self._switch.process.pid),
                    "-m",
                    "--",
                    *namespaces,
                    "bash",
                    str(self._directory / "init.sh"),
                ],
                stdout=log,
                stderr=log,
                env=_ENVIRONMENT,
            )
        pid = self._process.pid
        _wait(
            lambda: _namespace(pid, "net") not in ("", _namespace(os.getpid(), "net")),
            "the pod's network namespace",
        )
        self._switch.ip(
            f"link add v{self._number} type veth peer name eth0 address {self._mac} netns {pid}",
            f"link set v{self._number} master br0",
            f"link set v{self._number} up",
        )
        _ip(
            "link set lo up",
            f"addr add {self.address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {self._switch.gateway}",
            inside=pid,
        )

    def _insert_home(self) -> None:
        """Mount the disk of the home, unless an earlier boot has done so. It is mounted outside the
        pod, because it stays when the pod is killed.
        """
        flags = self._home_flags()
        if not flags:
            return
        disk = shlex.quote(str(self._switch.disks / self.name / "home"))
        mount = f"mount -t tmpfs -o {','.join(['mode=0700', *flags])} none {disk}"
        self._in_switch("sh", "-c", f"mkdir -p {disk}; mountpoint -q {disk} || {mount}", check=True)

    def _in_switch(self, *argv: str, check: bool = False) -> None:
        inside = ["nsenter", "-t", str(self._switch.process.pid), "-m", "--"]
        subprocess.run([*inside, *argv], check=check, capture_output=True)

    def change_host_key(self) -> None:
        """Give a pod that is off another host key of each kind, as a machine has that was set up
        anew.
        """
        self.host_key, self.other_host_key = keys.host_keys(self._directory / "etc")

    @property
    def init(self) -> int:
        """The host's pid of the pod's pid 1."""
        assert self._process is not None, "the pod is off"
        pid = self._process.pid
        _wait(lambda: bool(_children(pid)), "the pod's first process")
        return _children(pid)[0]

    @property
    def root(self) -> Path:
        return Path(f"/proc/{self.init}/root")

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> subprocess.CompletedProcess[bytes]:
        enter = [
            "nsenter",
            "-t",
            str(self.init),
            "-m",
            "-u",
            "-i",
            "-p",
            "-n",
            "-r",
            "--",
            "sh",
            "-c",
            'cd && exec "$@"',
            "sh",
        ]
        return subprocess.run(
            [*enter, *argv],
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
            env=_ENVIRONMENT,
        )

    def cut(self) -> None:
        self._switch.ip(f"link set v{self._number} down")

    def restore(self) -> None:
        self._switch.ip(f"link set v{self._number} up")

    def kill(self) -> None:
        """kill -9 of the pod's pid 1 takes its whole pid namespace (unshare --fork itself ignores
        SIGTERM).
        """
        if self._process is None:
            return
        for pid in _children(self._process.pid):
            os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process = None
        # The kernel unplugs a dead network namespace in its own time; the next boot wants the same
        # name.
        _wait(lambda: not self._plugged(), "the end of the pod's network", 300.0)

    def close(self) -> None:
        self.kill()
        disk = self._switch.disks / self.name
        self._in_switch("umount", "-l", str(disk / "home"))
        self._in_switch("rm", "-rf", "--one-file-system", str(disk))
        shutil.rmtree(self._directory, ignore_errors=True)

    def _plugged(self) -> bool:
        found = subprocess.run(
            [
                "nsenter",
                "-t",
                str(self._switch.process.pid),
                "-n",
                "ip",
                "link",
                "show",
                f"v{self._number}",
            ],
            capture_output=True,
            check=False,
        )
        return found.returncode == 0

    def _init_script(self) -> str:
        disk, options = self._switch.disks / self.name, self._options
        root = disk / "root"
        lines = [
            "set -e",
            "mount --make-rprivate /",
            f"hostname {self.name}",
            f"mkdir -p {disk}/upper {disk}/work {root} {disk}/home",
            f"chmod 755 {disk}/upper; chmod 700 {disk}/home",
            (
                "mount -t overlay overlay -o "
                f"lowerdir=/,upperdir={disk}/upper,workdir={disk}/work {root}"
            ),
            f"mount --rbind /dev {root}/dev; mount -t tmpfs -o mode=1777 none {root}/dev/shm",
            f"mount -t proc proc {root}/proc; mount -t sysfs sysfs {root}/sys",
            (
                f"mount -t tmpfs -o mode=1777 none {root}/tmp; mount -t tmpfs -o mode=755 none "
                f"{root}/run; mkdir {root}/run/sshd"
            ),
            *(
                f"mkdir -p {root}{path}; mount --bind -o ro {path} {root}{path}"
                for path in options.bind
            ),
            *interpreters.in_pod(options.python, root),
            *(f"rm -f {root}{path}" for path in options.hide),
            self._home_mount(f"{root}{_HOME}", f"{disk}/home"),
            (
                f"mkdir -p {root}{_ETC}; cp {self._directory}/etc/* {root}{_ETC}/; chmod 600 "
                f"{root}{_ETC}/host_key*"
            ),
            f"cd {root}; mkdir -p .old; pivot_root . .old; cd /; umount -l /.old; rmdir /.old",
            f"exec {sshd.binary()} -D -e -f {_ETC}/sshd_config",
        ]
        return "\n".join(lines) + "\n"

    def _home_mount(self, target: str, disk: str) -> str:
        mount = f"mount --bind {disk} {target}"
        if self._options.read_only_home:
            mount += f"; mount -o remount,ro,bind {target}"
        return mount

    def _home_flags(self) -> list[str]:
        """The mount options of a home that has a disk of its own; none if it shares the pod's."""
        flags = []
        if self._options.noexec_home:
            flags.append("noexec")
        if self._options.home_size:
            flags.append(f"size={self._options.home_size}")
        return flags


def _require() -> None:
    if os.geteuid() != 0:
        raise NotHere("not root")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise NotHere(f"no {', '.join(missing)} on this machine")
    sshd.binary()


def _ip(*commands: str, inside: int | None = None) -> None:
    enter = ["nsenter", "-t", str(inside), "-n", "--"] if inside else []
    done = subprocess.run(
        [*enter, "ip", "-batch", "-"],
        input="\n".join(commands),
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise NotHere(f"ip: {done.stderr.strip()}")


def _namespace(pid: int, kind: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:
        return ""


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _wait(condition: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise NotHere(f"waited {timeout:g} s for {what}")
        time.sleep(0.002)


def _claim_subnet() -> tuple[socket.socket, int]:
    """A subnet that no other test run holds. The claim is an abstract socket name: it ends with its
    holder and leaves no file.
    """
    routes = subprocess.run(
        ["ip", "-4", "route", "show", "table", "all"], text=True, capture_output=True, check=False
    ).stdout
    for number in range(1, 255):
        if f"10.77.{number}." in routes:
            continue
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0bs4-test-subnet-{number}")
        except OSError:
            claim.close()
            continue
        return claim, number
    raise NotHere("every subnet 10.77.x.0/24 is in use")
