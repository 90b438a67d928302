"""Which keys lie on a pod: what real set-ups journal, as a console that has read it tells it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.paths import Home
from bs4_agent.setup.steps import STEPS
from bs4_agent.setup.steps.credential import TITLES
from bs4_common.ids import ulid
from bs4_console.cli import recover
from bs4_console.pods.gate import records
from bs4_console.pods.inventory import Inventory
from bs4_console.pods.inventory import Pod as Known
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.placed_keys import PlacedKey, placed, rotation
from bs4_console.pods.state import PodState
from bs4_console.recovery.recovery_types import Outcome
from tests.agent.setup.test_action import Pod
from tests.console.cli.conftest import Console

ID, OTHER_ID = "0012ab34cd56ef78900000001", "0012ab34cd56ef78900000002"
KEY = "K001canary/canary+canary0123456"
TOKEN = "hf_canarycanarycanary"  # noqa: S105 (a canary)


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    """A pod whose set-ups consist of the steps about files."""
    monkeypatch.setenv("HOME", str(tmp_path / "pod"))
    # The same as in test_action.py: what is put back stands behind what stayed.
    for name in set(STEPS) - {"limits", "variables", "profile", "credential"}:
        monkeypatch.delitem(STEPS, name)
    home = Home(tmp_path / "pod" / ".bs4")
    home.root.parent.mkdir()
    home.create()
    return Pod(home)


def set_up(pod: Pod, **secrets: dict[str, str]) -> None:
    plan = pod.plan(secrets=sorted(secrets))
    action = pod.carry_out(ulid(), plan, json.dumps(secrets).encode())
    assert action.state == "done", action.detail


def lines(pod: Pod) -> list[str]:
    return pod.journal().splitlines()


def read(pod: Pod) -> PodState:
    """What a console knows that has read the pod's journal."""
    state = PodState(name="alpha")
    for line in lines(pod):
        record = json.loads(line)
        records.check("journal", record)
        state.apply_journal(record)
    return state


def test_the_titles_are_those_of_the_agent() -> None:
    from bs4_console.pods import placed_keys

    assert set(placed_keys._BY_TITLE) == {f"Keep {title}" for title in TITLES.values()}


def test_names_and_ids_are_known_and_no_value_is(pod: Pod) -> None:
    set_up(pod, b2={"key_id": ID, "key": KEY}, huggingface={"token": TOKEN})
    keys = placed(read(pod).ledger)
    assert keys == (PlacedKey("B2 key", ID), PlacedKey("Hugging Face token"))
    assert rotation("alpha", keys) == (
        "Rotate what was on alpha, because whoever has its disk has read it: "
        f"B2 key {ID}, Hugging Face token."
    )
    assert KEY not in pod.journal()
    assert TOKEN not in pod.journal()


def test_a_key_that_was_replaced_was_there_too(pod: Pod) -> None:
    set_up(pod, b2={"key_id": ID, "key": KEY})
    set_up(pod, b2={"key_id": OTHER_ID, "key": KEY})
    set_up(pod)
    assert placed(read(pod).ledger) == (PlacedKey("B2 key", ID), PlacedKey("B2 key", OTHER_ID))


def test_a_key_that_was_given_for_its_id_is_in_no_journal(pod: Pod) -> None:
    set_up(pod, b2={"key_id": KEY, "key": ID})
    assert placed(read(pod).ledger) == (PlacedKey("B2 key"),)
    assert KEY not in pod.journal()


def test_without_a_key_nothing_is_named(pod: Pod) -> None:
    set_up(pod)
    assert placed(read(pod).ledger) == ()
    assert rotation("alpha", ()).startswith("This console has no record of keys on alpha")


def test_a_hostile_pod_cannot_put_words_into_the_sentence() -> None:
    state = PodState(name="alpha")
    action: dict[str, Any] = {"type": "action", "t": 1.0, "action": "K1", "kind": "setup"}
    steps = [{"title": "Keep the B2 key"}, {"title": "Keep \x1b[31mcalm"}]
    state.apply_journal({**action, "event": "accepted", "run": "", "who": "x", "steps": steps})
    for number in range(2):
        done = {"event": "step-done", "step": number, "detail": "key id \x1b]52;c;AAAA\x07"}
        state.apply_journal({**action, **done})
    assert placed(state.ledger) == (PlacedKey("B2 key"),)


@pytest.fixture
def mirrored(pod: Pod, tmp_path: Path) -> Console:
    """A console that has read the pod before it was lost."""
    set_up(pod, b2={"key_id": ID, "key": KEY}, wandb={"key": "c" * 40})
    console = Console(tmp_path / "console")
    console.root.mkdir()
    mirror = Mirror(console.data / "pods" / "alpha")
    mirror.use(pod.home.id())
    data = "".join(f"{line}\n" for line in lines(pod)).encode()
    mirror.append("journal", "1:0", f"1:{len(data)}", data)
    mirror.close()
    Inventory(console.config / "pods.toml").add(Known(name="alpha", host="192.0.2.1"))
    return console


def test_recover_names_them_when_the_pod_is_lost(
    mirrored: Console, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import argparse
    from types import SimpleNamespace

    monkeypatch.setenv("BS4_DATA_DIR", str(mirrored.data))
    config: Any = SimpleNamespace(run="demo")
    for lost, text, outcome in (
        ("alpha", "Rotate what was on alpha", Outcome("recovered", "It goes on.", 0, lost="alpha")),
        ("alpha", "Rotate what was on alpha", Outcome("stopped", "It is lost.", 1, lost="alpha")),
        ("beta", "no record of keys on beta", Outcome("stopped", "It is lost.", 1, lost="beta")),
    ):
        recover._tell(argparse.Namespace(json=False, quiet=False), config, outcome, "")
        assert text in capsys.readouterr().out
        recover._tell(argparse.Namespace(json=True, quiet=False), config, outcome, "")
        told = json.loads(capsys.readouterr().out)
        assert told["lost"] == lost
        assert told["rotate"] == ([f"B2 key {ID}", "W&B key"] if lost == "alpha" else [])
    well = Outcome("watching", "alpha answers.", 0)
    recover._tell(argparse.Namespace(json=False, quiet=False), config, well, "")
    assert capsys.readouterr().out == "demo: alpha answers.\n"


@pytest.mark.long
@pytest.mark.beside
def test_pods_show_names_them(mirrored: Console) -> None:
    done = mirrored("pods", "show", "alpha")
    assert done.code == 0, done
    assert f"key on it      B2 key {ID}\n" in done.out
    assert "key on it      W&B key\n" in done.out
    told = mirrored("pods", "show", "alpha", "--json").json
    assert told["placed_keys"] == [f"B2 key {ID}", "W&B key"]
