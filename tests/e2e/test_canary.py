"""With credentials set to canary values, nothing but the three files that are for them ever holds
one, in any form.
"""

from __future__ import annotations

import asyncio
import base64
import html
import http.server
import json
import os
import stat
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bs4_console.fleet.watched import Fleet
from bs4_console.tui.app import ConsoleApp
from bs4_practice import bare
from bs4_practice.http_server import HttpServer
from bs4_practice.play import DETECT_S
from bs4_practice.scenarios import SCENARIOS
from bs4_practice.stage import Stage, connect, staged
from tests.console.cli.conftest import Console
from tests.console.tui.driving import drive
from tests.e2e import journals
from tests.support.canaries import Canaries, Lookout

pytestmark = pytest.mark.beside

#: With what each way of escaping would change; W&B's key goes into a netrc file, which takes no
#: quotes.
SECRETS = {
    "WANDB_API_KEY": "cAnAry/wandb+1%&=2?end7Qz",
    "HF_TOKEN": 'hf_cAnAry"hub\\+/%&=3?end7Qz',
    "B2_APPLICATION_KEY_ID": 'cAnAry"b2id\\+/%&=4?end7Qz',
    "B2_APPLICATION_KEY": 'cAnAry"b2key\\+/%&=5?end7Qz',
}


def test_the_lookout_finds_what_is_there(tmp_path: Path) -> None:
    # Others than above: what is shown here must not be what another worker's lookout finds.
    own = {"argv": f'argv"{os.getpid()}/+%&=tail', "environment": f'env"\\{os.getpid()}/+%&=tail'}
    canaries, secret = Canaries(own), own["argv"]
    hidden = [
        json.dumps({"k": secret}),
        urllib.parse.quote("a " + secret),
        urllib.parse.quote_plus("a " + secret),
    ]
    hidden += [
        base64.b64encode((before + secret + "and more").encode()).decode()
        for before in ("", "a", "ab", "abc")
    ]
    for text in hidden:
        assert canaries.within(text.encode()) == ["argv"], text
    assert canaries.within(b"nothing of the kind") == []
    (tmp_path / "a.log").write_text("x " + secret)
    assert canaries.within_files([tmp_path]) == {str(tmp_path / "a.log"): ["argv"]}
    assert canaries.within_files([tmp_path], but=[tmp_path / "a.log"]) == {}
    child = subprocess.Popen(
        [sys.executable, "-c", "input()", secret],
        stdin=subprocess.PIPE,
        env={"X": own["environment"]},
    )
    try:
        with Lookout(canaries) as lookout:
            while {(what, name) for what, _, name in lookout.found} < {
                ("cmdline", "argv"),
                ("environ", "environment"),
            }:
                assert lookout.passes < 3000
    finally:
        child.communicate(b"\n")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    not bare.usable(),
    reason="a bare practice pod is set up from a git repository, and there is no git",
)
@pytest.mark.parametrize("trainer", ["prime-rl-2026-01", "prime-rl"])
async def test_no_canary_leaves_its_file(trainer: str, tmp_path: Path) -> None:
    canaries = Canaries(SECRETS)
    console = Console(tmp_path)
    heard: list[bytes] = []

    async def command(*words: str, code: int = 0, stdin: bytes | None = None) -> str:
        result = await asyncio.to_thread(console, *words, stdin=stdin, timeout=280.0)
        heard.append(f"{words} {result.out} {result.err}".encode())
        assert result.code == code, result
        return result.out

    with Lookout(canaries) as lookout:
        async with staged(trainer, bare=True) as stage:
            pod = stage.pod
            console.add(pod.name, pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
            await _set_up(stage, command)
            kept = [
                pod.home / ".netrc",
                pod.home / ".cache" / "huggingface" / "token",
                pod.home / ".bs4" / "credentials" / "b2.json",
            ]
            assert [stat.S_IMODE(path.stat().st_mode) for path in kept] == [0o600] * 3
            assert sorted(
                name for path in kept for name in canaries.within(path.read_bytes())
            ) == sorted(SECRETS)

            with Telltale() as url:
                words = [
                    "preflight",
                    "--pod",
                    pod.name,
                    "--config",
                    "configs/rl.toml",
                    "--trainer",
                    trainer,
                    "--run",
                    "demo",
                ]
                looked = await asyncio.to_thread(
                    console, *words, "--hub-url", url, "--wandb-url", url, "--b2-url", url
                )
                heard.append(f"{looked.out} {looked.err}".encode())
            assert Telltale.asked, "no token was ever tried"

            try:
                await _fail_and_recover(stage)
            except BaseException:
                _tell(stage)
                raise
            for words in (
                ("runs", "list", "--json"),
                ("check", "--pod", pod.name, "--json"),
                ("pods", "setup", pod.name, "--log"),
            ):
                heard.append(str(await asyncio.to_thread(console, *words)).encode())
            await command("runs", "export")
            heard.append((await _screens(stage, tmp_path)).encode())
            found = canaries.within_files([pod.root, tmp_path], but=kept)
    assert found == {}
    assert lookout.found == set()
    assert lookout.passes > 20
    assert [name for text in heard for name in canaries.within(text)] == []


class Telltale:
    """A server that refuses everything and repeats, in body and headers, whatever it was sent."""

    asked: ClassVar[list[str]] = []

    def __enter__(self) -> str:
        Telltale.asked.clear()

        class Echo(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                Telltale.asked.append(self.path)
                body = json.dumps(
                    {"message": f"{self.path} {self.headers}", "code": "unauthorized"}
                ).encode()
                self.send_response(401, "Refused")
                self.send_header("X-Error-Message", str(self.headers.get("Authorization")))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *words: object) -> None:
                """Not into the test's own output."""

        self.server = HttpServer(("127.0.0.1", 0), Echo)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


async def _set_up(stage: Stage, command: Any) -> None:
    """Once with half a credential, which is refused without a word of it; then for good, and once
    more with nothing left to do.
    """
    recipe = stage.pod.setup_recipe()
    words = [
        "pods",
        "setup",
        stage.pod.name,
        "--trainer",
        stage.trainer,
        "--env",
        "primeintellect/reverse-text",
    ]
    words += ["--repository", recipe["repository"], "--revision", recipe["revision"]]
    words += ["--uv", recipe["uv"]]
    half = f"B2_APPLICATION_KEY={SECRETS['B2_APPLICATION_KEY']}\n".encode()
    await command(*words, "--credentials", "-", "--yes", code=2, stdin=half)
    whole = "".join(f"export {name}={value}\n" for name, value in SECRETS.items()).encode()
    # shown, and nobody confirmed it
    await command(*words, "--credentials", "-", code=4, stdin=whole)
    await command(*words, "--credentials", "-", "--yes", stdin=whole)
    assert "0 of 11 steps to do" in await command(*words, "--plan")


async def _fail_and_recover(stage: Stage) -> None:
    scenario = SCENARIOS["vllm-silent-death"]
    await scenario.prepare(stage)
    await scenario.inject(stage)
    plan = await stage.plan(await stage.incident(scenario.failure, DETECT_S))
    action = await stage.act(
        "playbook",
        playbook=plan.playbook,
        run=plan.run,
        plan_hash=plan.plan_hash,
        confirm_run=plan.run,
    )
    assert action.state == "done", action.detail


def _tell(stage: Stage) -> None:
    """For the report of a failed test: what the pod itself has to say."""
    for record in journals.records(stage.pod.home)[-20:]:
        print(
            str(
                {
                    k: v
                    for k, v in record.items()
                    if k not in ("b", "m", "prev", "plan", "body", "evidence", "coverage")
                }
            )[:300]
        )
    print((stage.pod.home / ".bs4" / "agent.log").read_text(errors="replace")[-2000:])
    print([(process.pid, process.title[:60]) for process in stage.pod.processes()])


async def _screens(stage: Stage, tmp_path: Path) -> str:
    """What a person would see of it, and might put into a report: every screen's text."""
    session = connect(stage.pod, tmp_path / "known_hosts_of_the_screen", tmp_path / "mirror")
    app = ConsoleApp(Fleet([session]))
    shots = []
    async with app.run_test(size=(200, 60)) as pilot:
        async with asyncio.timeout(120):
            await session.synced(120)
        for keys in ([], [":journal"], [":messages"]):
            await drive(pilot, [], keys)
            shots.append(html.unescape(app.export_screenshot()).replace("\u00a0", " "))
    assert any("set" in shot for shot in shots)
    return "\n".join(shots)
