"""pods setup, as far as it goes without a pod: what it asks for, what it refuses, what it shows."""

from __future__ import annotations

import pytest

from bs4_console.cli.setup import plan_text
from bs4_console.pods.state import PlanView
from tests.console.cli.conftest import Console, Practice

KEYS = b"WANDB_API_KEY=canary-canary-canary-canary-canary-canary\n"
WORDS = ("pods", "setup", "pod-x", "--trainer", "prime-rl")


@pytest.fixture
def known(console: Console) -> Console:
    console.add("pod-x", "192.0.2.1", 22, "root", console.root / "key")
    return console


def test_it_needs_a_trainer(known: Console) -> None:
    done = known("pods", "setup", "pod-x")
    assert done.code == 2
    assert "--trainer" in done.sentence
    verl = known("pods", "setup", "pod-x", "--trainer", "verl")
    assert (verl.code, "comes in an image" in verl.sentence) == (2, True)
    words = ("pods", "setup", "pod-x", "--credentials", "-", "--env", "owner/env")
    more = known(*words, stdin=KEYS)
    assert (more.code, "only credentials" in more.sentence) == (2, True)


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.parametrize("words", [(), ("--trainer", "verl")], ids=["no trainer", "verl"])
def test_credentials_alone_reach_a_pod_whose_checkout_is_not_gits(
    trained: Practice, words: tuple[str, ...]
) -> None:
    """An image without .git refused everything, the keys too; verl's preflight advised a command
    that was refused.
    """
    pod = trained.pod
    assert not (pod.home / "prime-rl" / ".git").exists()
    setup = ("pods", "setup", pod.name, *words, "--credentials", "-")
    shown = trained(*setup, "--plan", stdin=KEYS)
    assert shown.code == 0, shown
    assert "Store credentials on the pod" in shown.out
    assert "uv" not in shown.out
    assert "canary" not in shown.out
    done = trained(*setup, "--yes", stdin=KEYS)
    assert done.code == 0, done
    assert "canary-canary" in (pod.home / ".netrc").read_text()
    assert (pod.home / ".netrc").stat().st_mode & 0o777 == 0o600
    (pod.home / ".netrc").unlink()


def test_credentials_are_read_before_anything_is_reached_and_never_repeated(known: Console) -> None:
    done = known(*WORDS, "--credentials", "-", "--yes", stdin=b"WANDB_API_KEY=se cret\n")
    assert done.code == 2
    assert "WANDB_API_KEY" in done.sentence
    assert "cret" not in done.out + done.err
    # a value in argv is no way to give one
    assert known(*WORDS, "--credentials", "WANDB_API_KEY=secret").code == 2
    done = known(*WORDS, "--credentials", "ask")
    assert (done.code, "--credentials -" in done.sentence) == (2, True)


def test_a_read_only_console_sets_nothing_up(known: Console) -> None:
    done = known("--read-only", *WORDS, "--yes")
    assert done.code == 4
    assert "read-only" in done.sentence


def test_a_plan_shows_what_is_there_and_what_would_be_done() -> None:
    def step(title: str, now: str, command: str, done: bool) -> dict[str, object]:
        return {
            "kind": "x",
            "title": title,
            "command": command,
            "parameters": {},
            "targets": [],
            "shown": {"now": now, "done": done},
        }

    steps = [
        step("Install uv", "uv 9", "curl x", True),
        step("Let launches open 9 files", "no order", "ulimit -n 9", False),
    ]
    plan = PlanView(
        action="K",
        playbook="setup",
        run="",
        attempt=0,
        plan_hash="feed",
        expires_m=0.0,
        expires_t=0.0,
        boot="b",
        t=0.0,
        plan={"title": "Set the pod up for prime-rl", "steps": steps},
    )
    text = plan_text(plan, "prime-rl")
    assert "1 of 2 steps to do" in text
    assert "ok  Install uv\n          now: uv 9\n" in text
    assert (
        "do  Let launches open 9 files\n          now: no order\n          $ ulimit -n 9\n" in text
    )
    assert "curl x" not in text
    assert "not set: VLLM_USE_V1" in text
    assert "plan feed" in text
