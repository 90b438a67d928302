"""The `pods` fixture: real pods to test against, as real as this machine allows, and a line at the
end that says how real they were.

    def test_something(pods):
        first, second = pods(2)
        (bare,) = pods(1, python="")

`BS4_TEST_PODS=namespaced|plain|embedded` forces one kind (and fails where it cannot be had).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import keys, sshd
from tests.support.pod import NotHere, Options, TestPod

_PREFIX = "bs4-pods-"
_KINDS = ("namespaced", "plain", "embedded")
_WORDS = {
    "namespaced": "namespaced OpenSSH server",
    "plain": "plain sshd on 127.0.0.x, shared namespaces",
    "embedded": "embedded SSH server",
}


def sweep() -> None:
    """Directories of test runs that were killed (their pid is in the name): all else of them ended
    with them.
    """
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        pid = directory.name.removeprefix(_PREFIX).partition("-")[0]
        if not pid.isdecimal() or psutil.pid_exists(int(pid)):
            continue
        with contextlib.suppress(FileNotFoundError):  # another worker sweeps at the same time
            if directory.stat().st_uid == os.getuid():
                shutil.rmtree(directory, ignore_errors=True)


class Pods:
    """Makes pods. Calling it gives `n` new ones, running; they live until the test session ends, or
    until their `close()`.
    """

    def __init__(self) -> None:
        # A short directory: unix socket paths below it must stay under 108 bytes.
        sweep()
        self.directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self.key = keys.private_key(self.directory / "id_test")
        self.ca = keys.private_key(self.directory / "ca")
        self.reasons: list[str] = []
        self.started = 0
        self._all: list[TestPod] = []
        self._switch: Any = None
        self.kind, self._make = self._choose()

    def __call__(self, n: int = 1, **options: Any) -> list[TestPod]:
        """`options` are those of tests.support.pod.Options. Skips the test, with the reason, where
        such a pod cannot be had.
        """
        try:
            made = [self._make(Options(**options)) for _ in range(n)]
            self._all += made
            with ThreadPoolExecutor(max_workers=8) as pool:
                list(pool.map(lambda pod: pod.start(), made))
        except NotHere as reason:
            pytest.skip(str(reason))
        self.started += n
        return made

    @property
    def cable(self) -> str:
        """The network device of ours that leads to the pods ("" where they have no network of their
        own).
        """
        return self._switch.end if self._switch is not None else ""

    def describe(self) -> str:
        what = _WORDS[self.kind] + ("s" if self.started != 1 and self.kind != "plain" else "")
        return f"pods: {self.started} {what}" + (
            f" ({'; '.join(self.reasons)})" if self.reasons else ""
        )

    def close(self) -> None:
        for pod in reversed(self._all):
            pod.close()
        self._all.clear()
        if self._switch is not None:
            self._switch.close()
            self._switch = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def _choose(self) -> tuple[str, Callable[[Options], TestPod]]:
        """The most real kind that a trial pod comes up with."""
        forced = os.environ.get("BS4_TEST_PODS")
        for kind in (forced,) if forced else _KINDS:
            try:
                make = self._factory(kind)
                trial = make(Options())
                try:
                    trial.start()
                finally:
                    trial.close()
            except NotHere as reason:
                self.reasons.append(f"no {kind} pods: {reason}")
            else:
                return kind, make
        raise RuntimeError("; ".join(self.reasons))

    def _factory(self, kind: str) -> Callable[[Options], TestPod]:
        if kind == "namespaced":
            from tests.support.namespaced import NamespacedPod, Switch

            self._switch = switch = Switch(self.directory / "switch")
            return lambda options: NamespacedPod(switch, options, self.key, self.ca)
        if kind == "plain":
            from tests.support.plain import PlainPod

            sshd.binary()
            return lambda options: PlainPod(self.directory, options, self.key, self.ca)
        from tests.support.embedded import EmbeddedPod

        return lambda options: EmbeddedPod(self.directory, options, self.key, self.ca)


_session: list[Pods] = []


@pytest.fixture(scope="session")
def pods() -> Iterator[Pods]:
    """The session's pod maker."""
    maker = Pods()
    _session.append(maker)
    # Ctrl-C twice skips fixture finalizers; this still runs then, and namespaced pods die with us
    # in any case.
    atexit.register(maker.close)
    yield maker
    maker.close()


@pytest.fixture
def pod(pods: Pods) -> Iterator[TestPod]:
    """One fresh ordinary pod, gone after the test."""
    (made,) = pods(1)
    yield made
    made.close()


def summary(terminalreporter: Any) -> None:
    for maker in _session:
        terminalreporter.write_line(maker.describe())
