"""What runs have cost, from pods that this machine has read before."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.run_log.config_texts import ConfigTexts, digest_of
from tests.console.cli.planted import plant
from tests.console.cli.test_run_log import Console

HOUR_S = 3600.0


@pytest.fixture
def console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Console:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name.lower()))
    return Console(tmp_path, capsys)


def pod(console: Console, name: str) -> Path:
    return console.root / "data" / "pods" / name


def costs(console: Console) -> dict[str, float | None]:
    """Return {pod: what demo cost there}, in whole dollars."""
    found = {}
    for stay in console.json("runs", "cost")["stays"]:
        found[stay["pod"]] = None if stay["cost"] is None else round(stay["cost"])
    return found


def test_a_price_of_a_document_replaces_none_that_was_recorded(console: Console) -> None:
    now = time.time()
    plant(pod(console, "cheap"), now - 20 * HOUR_S, 10, 1.0)
    plant(pod(console, "dear"), now - 9 * HOUR_S, 2, 20.0, home="01ZZZZZZZZZZZZZZZZZZZZZZZZ")
    assert costs(console) == {"cheap": 10, "dear": 40}
    before = console.json("runs", "eta", "demo", "--max-steps", "1000")
    document = console.root / "x.md"
    console("runs", "export", str(document))
    assert "**Price**: $20/hr" in document.read_text()
    document.write_text(document.read_text().replace("$20/hr", "$7/hr"))
    console("runs", "import", str(document))
    assert costs(console) == {"cheap": 10, "dear": 40}
    assert console.json("runs", "show", "demo")["run"]["price"] == 20.0
    assert console.json("runs", "eta", "demo", "--max-steps", "1000") == before
    console("runs", "note", "demo", "it was 2", "--price", "2")
    assert costs(console) == {"cheap": 20, "dear": 4}, "a person's price counts"
    assert console.json("runs", "show", "demo")["run"]["price"] == 2.0


def test_a_price_of_a_document_fills_a_gap_only(console: Console) -> None:
    now = time.time()
    (console.root / "x.md").write_text("### Run: demo (2026-01-04) - DONE\n- **Price**: $3/hr\n")
    console("runs", "import", str(console.root / "x.md"))
    plant(pod(console, "one"), now - 20 * HOUR_S, 10, None)
    assert costs(console) == {"one": 30}
    plant(pod(console, "two"), now - 9 * HOUR_S, 2, 20.0, home="01ZZZZZZZZZZZZZZZZZZZZZZZZ")
    assert costs(console) == {"one": None, "two": 40}, "nobody knows that it is the price of one"
    (console.root / "data" / "runlog.json").unlink()
    console("runs", "note", "demo", "it was 2", "--price", "2")
    assert "**Price**: $2/hr" in console.json("runs", "export")["markdown"]


def test_a_machine_of_two_names_is_one_machine(console: Console) -> None:
    """Its pod was removed from the inventory and added under a better name."""
    began, text = time.time() - 20 * HOUR_S, "max_steps = 10\n"
    plant(pod(console, "h100"), began, 10, 10.0, config=(digest_of(text), "v1"))
    assert ConfigTexts("h100").keep(digest_of(text), text)
    assert costs(console) == {"h100": 100}
    before = console.json("runs", "show", "demo")["run"]
    shutil.copytree(pod(console, "h100"), pod(console, "train-a"))
    # Less was read under the old name.
    for file in pod(console, "h100").rglob("1.data"):
        whole = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(whole[: len(whole) // 2]))
    os.utime(pod(console, "h100") / "home", (began, began))
    assert costs(console) == {"train-a": 100}
    run = console.json("runs", "show", "demo")["run"]
    assert (len(run["attempts"]), run["step"]) == (len(before["attempts"]), before["step"])
    assert "in all" not in console("runs", "report", "demo")
    output = str(console.root / "back.toml")
    console("runs", "rollback", "demo", "--to", "v1", "--output", output)
    # The name that is in the inventory stands for both.
    Inventory().add(Pod(name="h100", host="192.0.2.1"))
    assert costs(console) == {"h100": 100}


def test_a_pod_that_only_says_that_it_is_another_is_counted_apart(console: Console) -> None:
    now = time.time()
    plant(pod(console, "one"), now - 20 * HOUR_S, 10, 1.0)
    plant(pod(console, "two"), now - 9 * HOUR_S, 2, 1.0)
    assert costs(console) == {"one": 10, "two": 2}


def test_an_export_that_is_imported_again_doubles_no_attempt_and_no_incident(
    console: Console,
) -> None:
    now = time.time()
    plant(pod(console, "one"), now - 20 * HOUR_S, 10, 1.0, ended=False)
    document = console.root / "x.md"
    console("runs", "export", str(document))
    text = document.read_text()
    text = text.replace("1. Attempt 1:", "1. Bought a coffee\n2. Attempt 1:")
    document.write_text(text.replace("**1. ", "**1. It smelled**\n\n**2. ", 1))
    console("runs", "import", str(document))
    # Meanwhile the attempt has ended, and the run went on on another pod.
    shutil.rmtree(pod(console, "one"))
    plant(pod(console, "one"), now - 20 * HOUR_S, 10, 1.0)
    plant(pod(console, "two"), now - 9 * HOUR_S, 2, 1.0)
    run = console.json("runs", "show", "demo")["run"]
    titles = [one["title"].partition(":")[0] for one in run["attempts"]]
    assert titles == ["Bought a coffee", "Attempt 1", "Attempt 2", "Attempt 1", "Attempt 2"]
    assert [one["pod"] for one in run["attempts"]] == ["", "one", "one", "two", "two"]
    incidents = [one["title"] for one in run["incidents"]]
    assert incidents[0] == "It smelled"
    assert len(incidents) == len(set(incidents))
