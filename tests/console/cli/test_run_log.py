"""The run log as commands, without any pod; and the record that a run kept itself, from a recorded
pod.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bs4_console.cli import run_records
from bs4_console.cli.main import main
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.run_log.record import Incident, RunRecord
from bs4_practice import recording

DOCUMENT = """# Training Runs Log

## Active Runs

### Run: parrot-v1 (2026-01-02) - RUNNING

- **Model**: example/parrot-8b
- **Pod**: 1x H100 ($1.25/hr)
- **Current Step**: 80

#### Incident: Engine died

It was gone.
"""


class Console:
    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self._capsys = root, capsys
        self.err = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        assert main([*words]) == code
        out, self.err = self._capsys.readouterr()
        return out

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self(*words, "--json", code=code))
        return told


@pytest.fixture
def console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Console:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name.lower()))
    (tmp_path / "runs.md").write_text(DOCUMENT)
    return Console(tmp_path, capsys)


def test_the_title_of_an_incident_is_one_line(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = RunRecord(name="parrot-v1", incidents=[Incident("Engine died\n  on h100-a\n", "")])
    monkeypatch.setattr(run_records, "record_of", lambda name: record)
    assert "  incident  Engine died on h100-a\n" in console("runs", "show", "parrot-v1")


def test_logs_without_a_pod_say_which_there_are(
    console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    console("logs", code=2)
    assert "There is no pod yet. Add one: bs4-console pods add" in " ".join(console.err.split())
    for name in ("a", "b"):
        Inventory().add(Pod(name=name, host="192.0.2.1"))
    console("logs", code=2)
    told = " ".join(console.err.split())
    assert "There are 2 pods (a, b), and no --pod says which." in told
    assert "bs4-console logs --pod NAME" in told
    console("logs", "demo", code=2)
    assert "bs4-console logs demo --pod NAME" in " ".join(console.err.split())


def test_an_imported_run_is_computed_with_and_marked(console: Console) -> None:
    document = DOCUMENT.replace(
        "- **Current Step**: 80", "- **Current Step**: 80\n- **Step Time**: ~3-5 minutes"
    )
    (console.root / "runs.md").write_text(document)
    console("runs", "import", str(console.root / "runs.md"))
    told = console.json("runs", "eta", "parrot-v1")
    assert (told["done"], told["pace_s"]) == (80, 240.0)
    assert told["cost_so_far"] == pytest.approx(80 * 240 / 3600 * 1.25)
    assert told["milestones"][0]["seconds"] == 20 * 240
    console("runs", "note", "parrot-v1", "wrong bottleneck", "--status", "abandoned")
    shown = console("runs", "show", "parrot-v1")
    assert "parrot-v1: abandoned (wrong bottleneck)" in shown
    assert "ABANDONED**: wrong bottleneck" in console.json("runs", "export")["markdown"]
    console("runs", "note", "parrot-v1", "x", "--status", "failed", "--lesson", code=2)


def test_tags_group_runs_and_archived_ones_leave_the_list(console: Console) -> None:
    document = DOCUMENT + "\n### Run: parrot-v2 (2026-01-03) - ABANDONED\n\n- **Model**: x/y\n"
    (console.root / "runs.md").write_text(document)
    console("runs", "import", str(console.root / "runs.md"))
    told = console.json("runs", "tag", "parrot-v1", "h100", "baseline")
    assert (told["run"], told["tags"]) == ("parrot-v1", ["baseline", "h100"])
    assert "parrot-v1: baseline" in console("runs", "tag", "parrot-v1", "h100", "--remove")
    console("runs", "tag", "parrot-v1", "baseline")
    (run,) = console.json("runs", "list", "--tag", "baseline")["runs"]
    assert (run["name"], run["tags"]) == ("parrot-v1", ["baseline"])
    assert "parrot-v2" not in console("runs", "list", "--tag", "baseline")
    assert "tags      baseline" in console("runs", "show", "parrot-v1")
    exported = console.json("runs", "export")["markdown"]
    assert exported.count("tagged baseline") == 0
    assert exported.count(": tagged h100, baseline") == 1, "what changes nothing is no note"
    assert "no longer tagged h100" in exported

    console("runs", "tag", "parrot-v2", "archived")
    listed = console("runs", "list")
    assert "parrot-v1" in listed
    assert "parrot-v2" not in listed
    assert "1 archived: `bs4-console runs list --tag archived`" in console.err
    assert "parrot-v2" in console("runs", "list", "--tag", "archived")
    assert len(console.json("runs", "list")["runs"]) == 2
    assert "parrot-v2: abandoned" in console("runs", "show", "parrot-v2"), "nothing is deleted"

    console("runs", "tag", "parrot-v1", "two words", code=2)
    console("runs", "tag", "nobody", "baseline", code=2)


def test_a_run_log_from_before_tags_is_read(console: Console) -> None:
    console("runs", "import", str(console.root / "runs.md"))
    console("runs", "note", "parrot-v1", "hello")
    (file,) = console.root.glob("**/runlog.json")
    kept = json.loads(file.read_text())
    del kept["added"]["parrot-v1"]["tags"]
    file.write_text(json.dumps(kept))
    assert console.json("runs", "show", "parrot-v1")["run"]["tags"] == []


def test_in_and_out(console: Console) -> None:
    assert console.json("runs", "import", str(console.root / "runs.md"))["added"] == ["parrot-v1"]
    (run,) = console.json("runs", "list")["runs"]
    assert (run["name"], run["state"], run["model"], run["price"], run["step"]) == (
        "parrot-v1",
        "running",
        "example/parrot-8b",
        1.25,
        80,
    )
    assert [i["title"] for i in run["incidents"]] == ["Engine died"]
    (row,) = [line for line in console("runs", "list").splitlines() if "parrot-v1" in line]
    assert "was running" in row, "an imported record does not say what runs now"
    console("runs", "export", str(console.root / "out.md"))
    assert (console.root / "out.md").read_text() == DOCUMENT
    console("runs", "export", str(console.root / "out.md"), code=4)
    assert "--force" in console.err
    console("runs", "note", "parrot-v1", "Profile first", "--lesson", "--price", "2")
    shown = console("runs", "show", "parrot-v1")
    assert "lesson    Profile first" in shown
    assert "Engine died" in shown
    assert "Profile first" in console.json("runs", "export")["markdown"]


def test_step_times_and_lessons_of_a_document(console: Console) -> None:
    assert "No lesson is known" in console("runs", "lessons")
    times = "\n| Config | Step Time |\n|---|---|\n| near | 3 min |\n"
    text = f"{DOCUMENT}{times}\n## Lessons Learned\n\n### Far is slow\n\nKeep it near.\n"
    (console.root / "runs.md").write_text(text)
    console("runs", "import", str(console.root / "runs.md"))
    assert "  step time near: 3 min\n" in console("runs", "show", "parrot-v1")
    (row,) = console.json("runs", "show", "parrot-v1")["run"]["step_times"]
    assert row == {"config": "near", "step_time": "3 min", "seconds": 180.0, "more": {}}
    assert console("runs", "lessons") == "Far is slow:\n  Keep it near.\n"
    (lesson,) = console.json("runs", "lessons")["lessons"]
    assert lesson == {"run": "", "topic": "Far is slow", "text": "Keep it near."}


def test_eta_and_cost(console: Console) -> None:
    console("runs", "import", str(console.root / "runs.md"))
    console("runs", "eta", "parrot-v1", code=2)
    assert "--pace" in console.err
    told = console.json("runs", "eta", "parrot-v1", "--pace", "180", "--max-steps", "100")
    assert [(m["step"], m["seconds"]) for m in told["milestones"]] == [(100, 3600.0)]


@pytest.mark.parametrize("end", ["2026-01-04 09:30 UTC", "2026-01-04 11:30 IST"])
def test_a_cost_up_to_an_end_that_is_not_understood_is_unknown(console: Console, end: str) -> None:
    times = f"- **Start**: 2026-01-04 10:00 UTC\n- **End**: {end}\n"
    (console.root / "runs.md").write_text(DOCUMENT.replace("\n#### ", f"{times}\n#### "))
    console("runs", "import", str(console.root / "runs.md"))
    assert "cost so far unknown" in console("runs", "eta", "parrot-v1", "--pace", "60")
    assert f"its end ({end}) is no time" in console.err


def test_a_run_that_has_ended_has_no_future(console: Console) -> None:
    ended = (
        "\n### Run: parrot-v2 (2026-01-03) - COMPLETED\n\n- **Pod**: 1x H100 ($2.00/hr)\n"
        "- **Start**: 2026-01-03 10:00 UTC\n- **End**: 2026-01-03 13:00 UTC\n"
    )
    (console.root / "runs.md").write_text(DOCUMENT + ended)
    console("runs", "import", str(console.root / "runs.md"))
    assert console("runs", "eta", "parrot-v2") == (
        "parrot-v2 has ended (completed); it has cost $6.00.\n"
    )
    told = console.json("runs", "eta", "parrot-v2")
    assert (told["ended"], told["cost_so_far"], told["milestones"]) == (True, 6.0, [])
    assert console.json("runs", "eta", "parrot-v2", "--pace", "180")["milestones"]

    console("runs", "eta", "parrot-v1", code=2)
    console("runs", "note", "parrot-v1", "too slow", "--status", "abandoned")
    assert console("runs", "eta", "parrot-v1") == (
        "parrot-v1 has ended (abandoned) with 80 steps done; what it has cost is not known.\n"
    )


def test_what_cannot_be_done_is_said(console: Console) -> None:
    for words, said in (
        (["show", "nobody"], "runs list"),
        (["note", "nobody", "x"], "runs list"),
        (["import", str(console.root / "none.md")], "no file"),
        (["bench", str(console.root / "runs.md"), "100=x"], "pass_rate"),
    ):
        console("runs", *words, code=2)
        assert said in console.err
    (console.root / "bytes.md").write_bytes(b"\xff\xfe")
    console("runs", "import", str(console.root / "bytes.md"), code=2)
    console("--read-only", "runs", "import", str(console.root / "runs.md"), code=4)
    assert not (console.root / "data" / "runlog.json").exists()


def test_numbers_and_texts_that_cannot_be_written_are_refused(console: Console) -> None:
    console("runs", "import", str(console.root / "runs.md"))
    console("runs", "note", "parrot-v1", "bad \udcff byte", code=2)
    assert "no UTF-8" in console.err
    for option, value in (("--pace", "inf"), ("--pace", "0"), ("--price", "nan")):
        console("runs", "eta", "parrot-v1", "--pace", "60", option, value, code=2)
        assert option in console.err
    (console.root / "results_1.json").write_text(
        '{"pass_rate": 0.5, "avg_reward": Infinity, "by_archetype": {"a": NaN}}'
    )
    told = console.json("runs", "evals", str(console.root / "results_1.json"))
    assert (told["avg_reward"], told["archetypes"]) == (None, {"a": None})


def test_judged(console: Console) -> None:
    for name, rate in (("base", 0.4), ("100", 0.47), ("500", 0.45)):
        (console.root / f"{name}.json").write_text(json.dumps({"pass_rate": rate}))
    at = console.root
    told = console.json(
        "runs", "bench", f"{at}/base.json", f"100={at}/100.json", f"500={at}/500.json", code=1
    )
    assert [(v["step"], v["word"]) for v in told["verdicts"]] == [
        (100, "on-track"),
        (500, "behind"),
    ]
    (at / "eval.log").write_text(
        "Malformed tool arguments from model: Unterminated string starting at: line 1 column 10\n"
    )
    assert console.json("runs", "truncation", f"{at}/eval.log", code=1)["word"] == "truncated"


def test_a_run_keeps_its_own_record(console: Console) -> None:
    """From the journal and the steps that were mirrored, the pod long gone."""
    source = Path(recording.__file__).parent / "pod"
    shutil.copytree(source, console.root / "data" / "pods" / "pod-a")
    (listed,) = console.json("runs", "list")["runs"]
    assert (listed["name"], listed["pod"], listed["source"]) == ("practice", "pod-a", "pod-a")
    run = console.json("runs", "show", "practice")["run"]
    assert run["attempts"]
    assert run["incidents"]
    assert run["step"] > 0
    console("runs", "note", "practice", "It hung", "--price", "3.60")
    told = console.json("runs", "eta", "practice", "--max-steps", "1000")
    assert told["price"] == 3.6
    assert told["pace_s"] > 0
    assert told["cost_so_far"] >= 0
    spent = console.json("runs", "cost", "practice")
    (only,) = spent["stays"]
    assert (only["run"], only["pod"], spent["unpriced"]) == ("practice", "pod-a", [])
    assert only["cost"] == pytest.approx(only["seconds"] / 1000)
    assert 0 < only["seconds"] < 3600, "its pod is gone: the newest step was the end"
    assert spent["total"] == only["cost"]
    assert console.json("runs", "eta", "practice")["cost_so_far"] == spent["total"]
    doubled = console.json("runs", "eta", "practice", "--price", "7.20")["cost_so_far"]
    assert doubled == pytest.approx(2 * spent["total"])
    assert console.json("runs", "cost", "--days", "100000")["stays"] == spent["stays"]
    assert "Total: $" in console("runs", "cost")
    console("runs", "cost", "nobody", code=2)
    console("runs", "cost", "--days", "0", code=2)
    console("runs", "status", "practice", "--append", str(console.root / "STATUS.md"))
    assert (console.root / "STATUS.md").read_text().startswith("## 20")
    assert "**Health**" in console("runs", "status", "practice")
    text = console.json("runs", "export")["markdown"]
    assert "### Run: practice (" in text
    assert run["incidents"][0]["title"] in text
    assert "It hung" in text
    (console.root / "mine.md").write_text(text)
    console("runs", "import", str(console.root / "mine.md"))
    assert console.json("runs", "export")["markdown"] == text
    console("runs", "import", str(console.root / "runs.md"))
    rows = console.json("runs", "compare", "practice", "parrot-v1")["rows"]
    (price,) = [row for row in rows if row["key"] == "price"]
    assert (price["values"], price["differs"]) == ([3.6, 1.25], True)


def test_a_note_takes_its_text_before_and_behind_its_options(console: Console) -> None:
    (console.root / "log.md").write_text(DOCUMENT)
    console("runs", "import", str(console.root / "log.md"))
    before = len(console.json("runs", "lessons")["lessons"])
    console("runs", "note", "parrot-v1", "--lesson", "Start low")
    console("runs", "note", "parrot-v1", "Look at step 50", "--lesson")
    console("runs", "note", "parrot-v1", "--status", "abandoned", "lr too high")
    console("runs", "note", "parrot-v1", "--price", "3.5", "a new machine")
    texts = [one["text"] for one in console.json("runs", "lessons")["lessons"]]
    assert texts[before:] == ["Start low", "Look at step 50"]
    assert "abandoned (lr too high)" in console("runs", "show", "parrot-v1")


def test_a_pod_that_is_made_anew_keeps_the_runs_of_the_machine_before(console: Console) -> None:
    pod = console.root / "data" / "pods" / "pod-a"
    shutil.copytree(Path(recording.__file__).parent / "pod", pod)
    before = console.json("runs", "cost")
    later = pod / "01ZZZZZZZZZZZZZZZZZZZZZZZZ" / "journal"
    later.mkdir(parents=True)
    (pod / "home").write_text(later.parent.name)
    assert [run["name"] for run in console.json("runs", "list")["runs"]] == ["practice"]
    assert console.json("runs", "show", "practice")["run"]["attempts"]
    assert [one["run"] for one in console.json("runs", "cost")["stays"]] == ["practice"]
    assert console.json("runs", "cost")["total"] == before["total"]


def test_what_is_not_recorded_is_unknown_in_a_comparison(console: Console) -> None:
    """One run that a pod recorded, by an older version, and one that was written by hand."""
    golden = Path(__file__).resolve().parents[2] / "golden" / "data" / "prime-rl-2026-01" / "mirror"
    shutil.copytree(golden, console.root / "data" / "pods" / "pod-g")
    console("runs", "import", str(console.root / "runs.md"))
    console("runs", "compare", "demo", "demo", code=2)
    found = console.json("runs", "compare", "demo", "parrot-v1")["rows"]
    rows = {(row["part"], row["key"]): row for row in found}
    assert rows["hardware", "gpus"]["values"] == ["2 x NVIDIA H100 80GB HBM3", None]
    assert rows["hardware", "gpus"]["differs"] is None
    assert rows["result", "best reward"]["values"][0].endswith(tuple("0123456789"))
    assert rows["result", "best reward"]["values"][1] is None
    assert rows["settings", "of attempt"]["values"] == [1, None]
    assert "was not kept" in rows["settings", "config values"]["why"]
    assert "no agent observed one of the runs" in rows["settings", "config values"]["why"]
    assert rows["code", "commit"]["differs"] is None
    text = console("runs", "compare", "demo", "parrot-v1")
    (neither,) = [line for line in text.splitlines() if line.startswith("Recorded of neither: ")]
    assert "commit, versions" in neither
    assert "unknown" in text
    assert [row for row in found if row["differs"] is None and not row["why"]] == []
    console("runs", "rollback", "parrot-v1", "--output", str(console.root / "x.toml"), code=2)
    assert "No config of parrot-v1 is recorded." in console.err
    console("runs", "rollback", "demo", "--to", "1", "--output", "x.toml", code=2)
    assert "was not kept on this machine" in console.err
