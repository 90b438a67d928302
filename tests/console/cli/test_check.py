"""check as monitoring sees it: one line, one code, and never a deploy."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.console.checks import prom as strict
from tests.console.checks.receiver import receiving
from tests.console.cli.conftest import Console, Practice

pytestmark = [pytest.mark.long, pytest.mark.beside]

_PERF = re.compile(r"('[^'=]+'|[^ '=]+)=[0-9.]+(s|%|B)?(;[0-9.]*){0,4}")


def test_a_run_that_trains_is_ok_with_perfdata(trained: Practice) -> None:
    done = trained("check", "--pod", "pod-a")
    assert (done.code, done.err) == (0, "")
    (line,) = done.out.splitlines()
    text, _, perf = line.partition(" | ")
    assert re.fullmatch(r"OK - pod-a: demo running, step \d+ of 10000", text)
    assert all(_PERF.fullmatch(word) for word in perf.split(" ")), perf
    labels = [word.split("=")[0] for word in perf.split(" ")]
    assert labels[:2] == ["demo_step", "demo_step_seconds"]
    assert {"gpu0_util", "gpu0_mem", "gpu1_util", "age"} <= set(labels)


def test_the_same_as_json(trained: Practice) -> None:
    done = trained("check", "--json")
    assert done.code == 0
    told = done.json
    assert (told["schema"], told["status"], told["code"]) == ("bs4.check/1", "OK", 0)
    (pod,) = told["pods"]
    assert (pod["pod"], pod["status"], pod["code"], pod["incidents"]) == ("pod-a", "OK", 0, [])
    assert pod["perfdata"]["demo_step"].endswith(";;;0;10000")
    assert isinstance(pod["coverage"], list)
    assert trained("check", "--format", "json").json["status"] == "OK"


def test_several_pods_unknown_outranks_ok_and_comes_first(
    trained: Practice, console: Console
) -> None:
    pod = trained.pod
    console.add("pod-a", pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
    console.add("gone", "127.0.0.1", 1, "root", pod.key_path)
    done = console("check")
    assert done.code == 3
    first, second = done.out.splitlines()
    assert first.startswith("UNKNOWN - gone: ")
    assert "refuses connections" in first
    assert second.startswith("OK - pod-a: ")
    told = console("check", "--json").json
    assert (told["status"], [p["status"] for p in told["pods"]]) == ("UNKNOWN", ["OK", "UNKNOWN"])
    assert [[i["failure"] for i in p["incidents"]] for p in told["pods"]] == [
        [],
        ["ssh-unreachable"],
    ]


@pytest.mark.parametrize(
    "words", [("--bogus",), ("--timeout", "soon"), ("--format", "xml"), ("--pod", "nope")]
)
def test_usage_errors_are_unknown(console: Console, words: tuple[str, ...]) -> None:
    done = console("check", *words)
    assert done.code == 3
    assert done.sentence


def test_without_a_pod_nothing_is_known(console: Console) -> None:
    done = console("check")
    assert (done.code, done.out) == (
        3,
        "UNKNOWN - no pod is in the inventory; add one with `bs4-console pods add`\n",
    )
    assert console("check", "--json").json["status"] == "UNKNOWN"


def test_a_config_file_that_is_broken_is_unknown(console: Console) -> None:
    console.config.mkdir()
    (console.config / "pods.toml").write_text("[pods.x\nhost = 1")
    done = console("check")
    assert done.code == 3
    assert "is not valid TOML" in done.sentence
    assert console("pods", "list").code == 2


def test_a_defect_of_ours_is_unknown_and_shows_itself(console: Console, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import bs4_console.cli.check as c\ndef judge(*a): raise ZeroDivisionError('ours')\n"
        "c.pods = judge\n"
    )
    console.extra["PYTHONPATH"] = str(tmp_path / "site")
    done = console("check")
    assert done.code == 3
    assert "ZeroDivisionError: ours" in done.err
    assert "This is a defect of bs4-console" in done.err


def test_the_other_formats_of_a_live_pod(trained: Practice) -> None:
    done = trained("check", "--format", "prom")
    assert (done.code, done.err) == (0, "")
    numbers = {
        (name, dict(labels).get("run") or dict(labels).get("gpu")): value
        for (name, labels), value in strict.parse(done.out).items()
    }
    assert numbers["bs4_check_status", None] == 0
    assert numbers["bs4_run_max_steps", "demo"] == 10000
    assert numbers["bs4_run_alive", "demo"] == 1
    assert numbers["bs4_gpu_memory_used_bytes", "1"] > 0
    (notice,) = trained("check", "--format", "github").out.splitlines()
    assert re.fullmatch(r"::notice title=pod-a::OK - demo running, step \d+ of 10000", notice)
    # Ours.
    (suite,) = ElementTree.fromstring(trained("check", "--format", "junit").out)  # noqa: S314
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert "run demo" in {case.get("name") for case in suite.findall("testcase")}


def test_a_file_instead_of_a_pod(console: Console, tmp_path: Path) -> None:
    quiet = tmp_path / "trainer.log"
    quiet.write_text("12:00:00    INFO all is well\n")
    done = console("check", str(quiet), "--source", "trainer")
    assert (done.code, done.out) == (0, f"OK - {quiet}: nothing known is wrong here\n")
    ended = tmp_path / "launcher.log"
    ended.write_text(
        "12:00:01     INFO Starting\n12:00:03    ERROR Error: Inference failed with exit code 1\n"
    )
    done = console("check", str(ended), "--json")
    (told,) = done.json["pods"]
    assert (done.code, told["pod"], told["status"]) == (2, str(ended), "CRITICAL")
    assert told["incidents"][0]["failure"] == "inference-exited"
    assert "launcher.log:2" in told["sentences"][0]


def test_files_that_cannot_be_read_are_unknown_like_every_usage_error(
    console: Console, tmp_path: Path
) -> None:
    done = console("check", str(tmp_path / "nope.log"))
    assert done.code == 3
    assert done.out.startswith("UNKNOWN - ")
    (tmp_path / "empty").mkdir()
    assert console("check", str(tmp_path / "empty")).code == 3
    for words in (
        ("x.log", "--pod", "a"),
        ("--source", "trainer"),
        ("--watch", "--format", "prom"),
        ("--watch", "--every", "0"),
        ("--watch",),
    ):
        refused = console("check", *words)
        assert (refused.code, refused.out) == (3, ""), words
        assert refused.sentence


def private(console: Console, text: str) -> None:
    console.config.mkdir(exist_ok=True)
    path = console.config / "notify.toml"
    path.touch(mode=0o600)
    path.write_text(text)


SECRET = "s3cr3t-T0ken"  # noqa: S105 (what must not be shown)


def test_channels_are_tried_without_showing_their_addresses(console: Console) -> None:
    assert console("check", "--test-notify").code == 3
    with receiving() as at:
        private(console, '[[notify]]\nkind = "webhook"\nname = "team"\nurl_env = "HOOK"\n')
        console.extra["HOOK"] = at.url(f"/{SECRET}")
        done = console("check", "--test-notify")
        assert (done.code, done.out) == (0, "team (webhook) took a test message.\n")
        assert at.got[0].path == f"/{SECRET}"
        at.status = 404
        done = console("check", "--test-notify")
    assert done.code == 2
    assert "HTTP 404" in done.sentence
    (console.config / "notify.toml").chmod(0o644)
    refused = console("check", "--test-notify")
    assert refused.code == 3
    assert SECRET not in done.out + done.err + refused.out + refused.err


def test_watching_tells_what_changes_and_pings_each_cycle(
    trained: Practice, console: Console
) -> None:
    """A pod that goes away and comes back, seen through a relay of ours; the pod itself is left
    alone. On a machine that stands still for a while it may be told as away before.
    """
    pod = trained.pod

    def told() -> list[Any]:
        return [got.json for got in at.got if got.path != "/ping"]

    def pings() -> int:
        return len([got for got in at.got if got.path == "/ping"])

    def well() -> bool:
        return not told() or told()[-1]["status"] == "OK"

    with receiving() as at, Relay(pod.host, pod.port) as relay:
        console.add("pod-a", "127.0.0.1", relay.port, pod.user, pod.key_path, pod.known_host_key)
        private(
            console,
            f'[[notify]]\nkind = "webhook"\nurl = "{at.url("/" + SECRET)}"\n[[notify]]\nkind '
            f'= "healthchecks"\nurl = "{at.url("/ping")}"\n',
        )
        process = console.start("check", "--watch", "--every", "1", "--timeout", "10", "--json")
        try:
            wait(lambda: pings() >= 3 and well())
            before = len(told())
            relay.cut()
            wait(lambda: len(told()) > before and not well())
            relay.mend()
            wait(well)
            pinged = pings()
            wait(lambda: pings() > pinged + 1 and well())
        finally:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=90)
        hooks = told()
    assert process.returncode == 130
    pairs = len(hooks) // 2
    assert [(hook["status"], hook["was"]) for hook in hooks] == [
        ("UNKNOWN", "OK"),
        ("OK", "UNKNOWN"),
    ] * pairs
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(line["schema"], line["status"]) for line in lines] == [
        ("bs4.notice/1", "UNKNOWN"),
        ("bs4.notice/1", "OK"),
    ] * pairs
    assert lines[before]["text"] in hooks[before]["text"]
    assert SECRET.encode() not in out + err


def wait(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


class Relay:
    """TCP to one address, which can be cut and mended."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._up = True
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._listener.close()

    def cut(self) -> None:
        self._up = False
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def mend(self) -> None:
        self._up = True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                if not self._up:
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._open += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
