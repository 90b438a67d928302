"""Finding 11, with everything real: a trainer prints secrets, and no exit shows one of them."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import tarfile
import urllib.parse
from pathlib import Path

import pytest

from bs4_console.fleet.watched import Fleet
from bs4_console.pods.reports import SUFFIX
from bs4_console.secret import know_environment
from bs4_console.tui.app import ConsoleApp
from bs4_practice import faults
from bs4_practice.stage import Stage, connect, staged
from tests.console.checks.receiver import receiving
from tests.console.cli.conftest import Console
from tests.console.tui.driving import drive
from tests.hostile.test_printed import on_a_terminal
from tests.hostile.trainer_secrets import PRINTED
from tests.support.canaries import Canaries

pytestmark = [pytest.mark.long, pytest.mark.beside, pytest.mark.timeout(600)]

RUN = "demo"
#: What has the form of a credential, or stands under the name of one.
FORMED = {name: secret for name, (_, secret) in PRINTED.items()}
KEY_LINES = {f"key{n}": f"cAnAryKeyLine{n:02}" + "aB3+" * 12 + "xyz" for n in range(12)}
KEY = ["-----BEGIN PRIVATE KEY-----", *KEY_LINES.values(), "-----END PRIVATE KEY-----"]
#: What was given to the console. It has no form, so only its value can be known.
GIVEN = {"VAST_API_KEY": 'cAnAry"given\\+/%&=3?end'}
#: What only the pod has: in ~/.netrc, in Hugging Face's file, in its environment.
NETRC, TOKEN_FILE = "cAnAry/netrc+1%&=2?end", "cAnAry-token-without-a-form-3"
VARIABLE = {"PRACTICE_SERVICE_TOKEN": 'cAnAry"variable\\+/%&=4?end'}
HELD = {"netrc": NETRC, "token file": TOKEN_FILE, **VARIABLE}
#: What was given to the launch, and nowhere else.
WORD = {"word": "cAnAry-of-the-launch-5"}
#: An incident whose evidence holds a secret.
FATAL = f"OSError: [Errno 28] No space left on device: '/data/{FORMED['hub']}/{FORMED['github']}'"


def said_by_the_trainer() -> str:
    """Return what the trainer prints: each secret in each form that a program gives it."""
    lines = [line for line, _ in PRINTED.values()]
    lines += [json.dumps({"level": "INFO", "message": line}) for line in lines]
    lines += KEY
    for value in (*GIVEN.values(), *HELD.values(), *WORD.values()):
        lines += [
            f"using {value} as it is",
            f"GET /x?a=1&b={urllib.parse.quote(value, safe='')}&c=2",
            f"sent {base64.b64encode(b'user:' + value.encode() + b' and more').decode()}",
            json.dumps({"text": f"<{value}>"}),
        ]
    return "\n".join([*lines, FATAL]) + "\n"


SHOWN_NOWHERE = Canaries({**FORMED, **KEY_LINES, **GIVEN})
#: The console never had the values of the pod, so nothing of a log can be compared with them here.
#: They are in no copy that the agent makes.
COPIED_NOWHERE = Canaries({**FORMED, **KEY_LINES, **HELD, **WORD})


def prepare(stage: Stage) -> None:
    """Put the secrets on the pod, and have its trainer print them when it starts."""
    home, project = stage.pod.home, stage.pod.project
    (home / ".netrc").write_text(f"machine api.wandb.ai\n  login user\n  password {NETRC}\n")
    token = home / ".cache" / "huggingface" / "token"
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text(TOKEN_FILE + "\n")
    (home / "said").write_text(said_by_the_trainer())
    (program,) = project.glob(".venv/lib/*/site-packages/prime_rl/trainer/rl/train.py")
    told = f"print(open({str(home / 'said')!r}).read(), flush=True)\n"
    program.write_text(told + program.read_text())


def logs_of(stage: Stage) -> bytes:
    """Return the bytes of every log of the trainer that is on the pod."""
    found = b""
    for path in sorted(stage.pod.project.rglob("*")):
        if path.is_file() and "trainer" in path.name and path.suffix in (".stdout", ".log"):
            found += path.read_bytes()
    return found


async def screens(stage: Stage, root: Path) -> dict[str, str]:
    """Return the text of screens as a person sees them, by name."""
    session = connect(stage.pod, root / "known_hosts_of_the_screen", root / "mirror")
    app = ConsoleApp(Fleet([session]))
    shots: dict[str, str] = {}

    def take(name: str) -> None:
        shots[name] = html.unescape(app.export_screenshot()).replace("\u00a0", " ")

    async with app.run_test(size=(150, 24)) as pilot:
        async with asyncio.timeout(60):
            await session.synced(60)
        for name, keys in {
            "fleet": [],
            "run": ["enter"],
            "incident": ["i"],
            "evidence": ["enter"],
            "journal": [":journal"],
            "messages": [":messages"],
            "log": ["escape", "escape", ":logs trainer", "g"],
        }.items():
            await drive(pilot, [], keys)
            take(name)
        for number in range(14):
            await drive(pilot, [], ["down"] * 8)
            take(f"log {number}")
        await drive(pilot, [], [":find cAnAryKeyLine05", "x"])
        take("entry")
        await drive(pilot, [], ["escape", "/cAnAryKeyLine"])
        take("filtered")
    return shots


async def test_no_exit_shows_a_secret_and_the_log_keeps_all(tmp_path: Path) -> None:
    know_environment(GIVEN)
    console = Console(tmp_path, dict(GIVEN))
    exits: dict[str, bytes] = {}
    launch = ["launch", "configs/rl.toml", "--pod", "practice", "--run", RUN, "--yes", "--json"]
    launch += ["--no-preflight", "--no-wait", "--trainer", "prime-rl-2026-01"]
    words = [f"--trainer.judge.api-key={WORD['word']}", "--trainer.judge.name", FORMED["hub"]]

    async def command(*said: str, codes: tuple[int, ...] = (0,)) -> bytes:
        result = await asyncio.to_thread(console, *said, timeout=240.0)
        assert result.code in codes, result
        exits[" ".join(said)] = both = f"{result.out}{result.err}".encode()
        return both

    async with staged("prime-rl-2026-01", env=VARIABLE) as stage:
        pod = stage.pod
        prepare(stage)
        console.add(pod.name, pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
        await command(*launch, "--", *words)
        await stage.incident("disk-full", 60)
        faults.kill(faults.find(pod, "orchestrator")[0])
        await stage.until(lambda: stage.ledger.reports, 60, "a report")

        for said in (
            ["check", "--pod", pod.name, "--json"],
            ["check", "--pod", pod.name],
            ["runs", "show", RUN, "--json"],
            ["runs", "list", "--json"],
            ["runs", "export"],
            ["reports", "list", "--json"],
            ["diagnose", "--json", "--trainer", "prime-rl-2026-01", str(pod.output_dir)],
            ["diagnose", str(pod.output_dir)],
            ["logs", RUN, "--pod", pod.name, "-n", "0", "--json"],
        ):
            await command(*said, codes=(0, 1, 2))
        report = tmp_path / f"{RUN}.1{SUFFIX}"
        await command("reports", "fetch", "--pod", pod.name, "--run", RUN, "--to", str(report))
        await command("reports", "open", "--headless", "--json", str(report), codes=(0, 1, 2))
        await command("diagnose", "--json", str(report), codes=(0, 1))
        with receiving() as at:
            notify = console.config / "notify.toml"
            notify.write_text(f'[[notify]]\nkind = "webhook"\nurl = "{at.url("/x")}"\n')
            notify.chmod(0o600)
            await command("check", "--watch", "--every", "1", "--cycles", "2", codes=(0, 1, 2))
        exits["notices"] = b"\n".join(got.body for got in at.got)
        total = said_by_the_trainer().count("\n")
        for lines in (0, *range(total - len(KEY), total + 30, 4)):
            words = ["logs", RUN, "--pod", pod.name, "-n", str(lines)]
            exits[f"terminal {lines}"] = await asyncio.to_thread(on_a_terminal, console, *words)
        for name, text in (await screens(stage, tmp_path)).items():
            exits[f"screen {name}"] = text.encode()
        raw = await asyncio.to_thread(console, "logs", RUN, "--pod", pod.name, "-n", "0", "--raw")
        on_the_pod = logs_of(stage)
        home = pod.home / ".bs4"
        journal = b"".join(p.read_bytes() for p in sorted((home / "state" / "journal").iterdir()))
        mirrors = [tmp_path / "mirror", console.data]
        kept = {p: p.read_bytes() for root in mirrors for p in root.rglob("*") if p.is_file()}

    shown = {name: SHOWN_NOWHERE.within(data) for name, data in exits.items()}
    assert {name: found for name, found in shown.items() if found} == {}
    # The exits showed what they are for, so that nothing is proved by an empty page.
    assert b"disk-full" in exits["notices"]
    assert b"[redacted" in exits["screen log"] + exits["screen log 1"] + exits["screen log 2"]
    assert b"[redacted" in exits["terminal 0"]
    assert b"No space left" in exits["screen incident"] + exits["screen evidence"]

    copies = {"journal": journal}
    for path, data in kept.items():
        if "log" not in path.parts:
            copies[str(path)] = data
    with tarfile.open(report) as archive:
        for member in archive.getmembers():
            handle = archive.extractfile(member)
            assert handle is not None
            copies[member.name] = handle.read()
    copied = {name: COPIED_NOWHERE.within(data) for name, data in copies.items()}
    assert {name: found for name, found in copied.items() if found} == {}
    assert len([name for name in copies if "/journal/" in name]) >= 4
    assert any(name.startswith("log/demo/trainer") for name in copies)

    everything = Canaries({**FORMED, **KEY_LINES, **GIVEN, **HELD, **WORD})
    assert sorted(everything.within(on_the_pod)) == sorted(everything.secrets)
    mirrored = b"".join(
        data for path, data in kept.items() if path.parts[-3:-1] == (RUN, "trainer")
    )
    assert sorted(everything.within(mirrored)) == sorted(everything.secrets)
    assert sorted(everything.within(raw.out.encode())) == sorted(everything.secrets)
