"""demo --recorded, and demo where no practice pod can live."""

from __future__ import annotations

import sys

import pytest

from bs4_console.cli import main
from tests.console.cli.conftest import Console


def test_without_a_terminal_it_says_what_was_recorded(console: Console) -> None:
    done = console("demo", "--recorded")
    assert (done.code, done.err) == (0, "")
    why, verdict, *evidence = done.out.splitlines()
    assert why == "This is a recorded incident; nothing here is live."
    assert verdict.startswith("CRITICAL - h100-c: vllm-silent-death: ")
    assert evidence
    (told,) = console("demo", "--recorded", "--json").json["pods"]
    assert told["incidents"][0]["failure"] == "vllm-silent-death"


def test_elsewhere_than_on_linux_it_is_opened_by_itself_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert main.main(["demo", "--headless"]) == 0
    why, verdict, *_ = capsys.readouterr().out.splitlines()
    assert "lacks: this is a recorded incident" in why
    assert verdict.startswith("CRITICAL - h100-c")
    assert main.main(["demo", "--scenario", "step-desync"]) == 2
    assert "needs Linux" in capsys.readouterr().err.replace("need ", "needs ")


def test_a_recording_plays_no_scenario(console: Console) -> None:
    done = console("demo", "--recorded", "--scenario", "step-desync")
    assert done.code == 2
    assert "Leave out" in done.sentence
