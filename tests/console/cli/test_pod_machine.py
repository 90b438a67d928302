"""`pods show` says what machine a pod is, without asking it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bs4_console.cli.main import main
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.providers.base import Offer, Want
from bs4_console.provision.book import Book
from bs4_practice import recording


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name.lower()))
    return tmp_path / "data"


def shown(capsys: pytest.CaptureFixture[str], name: str) -> tuple[str, dict[str, Any]]:
    assert main(["pods", "show", name]) == 0
    text = capsys.readouterr().out
    assert main(["pods", "show", name, "--json"]) == 0
    return text, json.loads(capsys.readouterr().out)


def test_a_machine_rented_by_hand(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its hardware is what the pod said last; its type and region are what a person wrote."""
    written = "gpu_1x_h100_pcie in us-west-3"
    shutil.copytree(Path(recording.__file__).parent / "pod", data / "pods" / "pod-a")
    assert main(["pods", "add", "pod-a", "192.0.2.7", "--no-connect", "--notes", written]) == 0
    capsys.readouterr()
    text, told = shown(capsys, "pod-a")
    assert told["notes"] == written
    assert {"gpus", "driver", "cores", "memory"} <= set(told["machine"])
    assert "type" not in told["machine"], "nobody can tell"
    assert all("GiB" in disk for disk in told["disks"])
    assert told["disks"]
    for value in (written, told["machine"]["driver"], told["machine"]["gpus"], *told["disks"]):
        assert value in text


def test_a_machine_rented_from_here(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = Book()
    for number, region in ((1, "us-west-3"), (2, "")):
        offer = Offer(
            provider="lambda",
            id="gpu_2x_h100",
            gpu="H100",
            count=2,
            price=5.0,
            disk_gb=512,
            region=region,
        )
        intent = book.intend(f"run-{number}", offer, Want(gpu="H100", count=2), "somebody")
        book.note(intent, "made", machine=str(number))
    for name, number in (("one", "1"), ("two", "2"), ("three", "3")):
        Inventory().add(Pod(name=name, host="192.0.2.7", provider="lambda", instance=number))
    text, told = shown(capsys, "one")
    assert told["machine"] == {"type": "2 x H100, offer gpu_2x_h100", "region": "us-west-3"}
    assert "us-west-3" in text
    assert shown(capsys, "two")[1]["machine"]["region"] == "unknown"
    assert shown(capsys, "three")[1]["machine"] == {}, "not rented from here"
