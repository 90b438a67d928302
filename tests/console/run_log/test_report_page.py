"""The page about a run for a colleague: what it says, and that nothing in it is more than text."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bs4_console.cli.main import main
from bs4_console.run_log import report_page
from bs4_console.run_log.record import Attempt, Incident, Note, RunRecord
from bs4_console.run_log.spending import Stay
from tests.console.cli.test_run_log import DOCUMENT

RUN = RunRecord(
    name="v2",
    status="POSTMORTEM",
    status_note="the machine was taken back",
    model="example/parrot-8b",
    step=120,
    max_steps=400,
    reward=0.5,
    pace_s=31.5,
    rewards=[(step, step / 240) for step in range(1, 121)],
    attempts=[Attempt(title="Attempt 1: 2026-01-02, on alpha", text="ended with exit code 1")],
    incidents=[Incident("Engine died", "vllm-silent-death: gone", playbooks=["vllm (done)"])],
    notes=[
        Note(1.0, "alice", "Sync before you sleep", lesson=True),
        Note(2.0, "alice", "the machine was taken back", status="POSTMORTEM"),
        Note(3.0, "bob", "looks fine | so far"),
    ],
)
STAYS = [
    Stay(run="v2", pod="alpha", began_t=0.0, until_t=7200.0, price=2.0),
    Stay(run="v2", pod="beta", began_t=9000.0, until_t=12600.0, price=5.0),
]


def test_what_a_colleague_reads() -> None:
    text = report_page.markdown(RUN, STAYS, "max_steps = 400\n")
    for wanted in (
        "# v2: postmortem (the machine was taken back)",
        "| Step | 120 of 400 |",
        "| alpha | 2h 00m | $4.00 |",
        "| in all | 3h 00m | $9.00 |",
        "- Engine died: vllm-silent-death: gone Repaired by vllm (done).",
        "## Learned\n\n- Sync before you sleep",
        "- bob: looks fine | so far",
        "max_steps = 400",
    ):
        assert wanted in text, wanted
    rewards = text.partition("## Reward")[2].partition("## ")[0]
    assert "| 120 | 0.5000 |" in rewards, "the newest one"
    assert rewards.count("\n| ") == 14, "twelve of them, below two lines of heads"
    bare = report_page.markdown(RunRecord(name="x"), [], "")
    assert bare == "# x: state unknown\n", "what is not known has no heading"


class Read(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_has_a_figure_and_nothing_that_acts() -> None:
    hostile = "<script>alert(1)</script>\x1b[2J"
    run = RunRecord(
        name="v2",
        model=hostile,
        rewards=RUN.rewards,
        incidents=[Incident(hostile, hostile)],
        attempts=[Attempt(title=hostile)],
    )
    read = Read()
    read.feed(report_page.page(run, STAYS, hostile))
    assert {"svg", "polyline", "table", "h1"} <= read.tags
    assert not read.tags & {"script", "img", "link", "iframe", "a"}, "it loads and starts nothing"
    assert read.text.count("alert(1)") == 5
    assert "\x1b" not in read.text
    assert "Reward from step 1 to 120, between 0.0042 and 0.5000" in read.text
    flat = RunRecord(name="v2", rewards=[(1, 0.0), (2, 0.0), (3, float("nan"))])
    assert "nan" not in report_page.page(flat, [], "")


def test_an_imported_run_has_pod_cost_and_what_else_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name.lower()))
    (tmp_path / "runs.md").write_text(
        "### Run: grpo (2026-01-02) - ABANDONED\n\n- **Pod**: 4x H100 ($10.00/hr)\n"
        "- **Start**: 2026-01-02 10:00 UTC\n- **End**: 2026-01-02 13:00 UTC\n"
        "- **Learner**: two of\n  the four GPUs\n\nReward collapsed.\nReason: lr 5e-5.\n\n"
        "#### Analysis\n\nToo fast.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n"
    )
    assert main(["runs", "import", str(tmp_path / "runs.md")]) == 0
    capsys.readouterr()
    assert main(["runs", "report", "grpo"]) == 0
    told = capsys.readouterr().out
    for wanted in (
        "| Pod | 4x H100 ($10.00/hr) |",
        "| Learner | two of the four GPUs |",
        "| 4x H100 ($10.00/hr) | 3h 00m | $30.00 |",
        "## As written\n\n- Reward collapsed. Reason: lr 5e-5.\n- Analysis: Too fast.\n",
    ):
        assert wanted in told, wanted
    assert told.count("2026-01-02 10:00 UTC") == 1
    assert main(["runs", "show", "grpo"]) == 0
    assert "  remark    Reward collapsed. Reason: lr 5e-5.\n" in capsys.readouterr().out


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name.lower()))
    (tmp_path / "runs.md").write_text(DOCUMENT)
    assert main(["runs", "import", str(tmp_path / "runs.md")]) == 0
    capsys.readouterr()
    assert main(["runs", "report", "parrot-v1"]) == 0
    assert "- Engine died: It was gone." in capsys.readouterr().out
    page = tmp_path / "parrot.html"
    words = ["runs", "report", "parrot-v1", "--output", str(page)]
    assert main(["--read-only", *words]) == 4
    assert not page.exists()
    assert main(words) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert main(words) == 4
    assert "--force" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0


def test_what_all_pods_cost_is_at_least_what_is_known() -> None:
    known, unknown = STAYS[0], replace(STAYS[1], price=None)
    assert "| in all | 3h 00m | at least $4.00 |" in report_page.markdown(RUN, (known, unknown), "")
    assert "at least $4.00" in report_page.page(RUN, (known, unknown), "")
    both = (replace(known, price=None), unknown)
    assert "| in all | 3h 00m | not known |" in report_page.markdown(RUN, both, "")
