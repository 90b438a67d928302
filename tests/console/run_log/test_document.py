"""The run log: documents in, documents out, no line lost, whatever stands in them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bs4_console.errors import UsageError
from bs4_console.run_log import document_import, export, written_values
from bs4_console.run_log import text as markdown
from bs4_console.run_log.document import RunLog
from bs4_console.run_log.record import Attempt, Incident, Lesson, RunRecord
from bs4_console.run_log.text import chunks, covers, fenced, lines

#: The attribute of a run's record that has the value of each field that the seeds use.
TYPED = {
    "Model": "model",
    "Config": "config",
    "Pod": "pod",
    "Pod ID": "pod_id",
    "Start": "started_t",
    "End": "ended_t",
    "Status": "status",
    "W&B Run": "wandb",
    "W&B Project": "wandb_project",
    "GPU Usage": "gpu_usage",
    "Baseline": "baseline",
    "First Step": "tokens_s",
    "Step Time": "pace_s",
    "Current Step": "step",
    "Progress": "tokens_s",
    "Rewards": "reward_remark",
    "Expected": "expected",
    "Actual": "actual",
    "Speedup": "speedup",
    "Env Version": "env_version",
    "Issue": "incidents",
    "Fix": "incidents",
}
SEEDS = Path(__file__).resolve().parents[4] / "shared" / "seeds"

EARLY = """# Training Runs Log

## Active Runs

### Run: parrot-v2 (2026-01-03) - RUNNING ✅

- **Model**: example/parrot-8b (8B params)
- **Pod**: 1x H100 80GB (spot, $1.25/hr)
- **Pod ID**: pod-0001
- **Status**: RUNNING ✅

#### Incidents and Recovery

**1. Engine died (03:00 UTC)**
- Nothing on GPU 0
1. a plain list within it

```bash
# this is no heading
### Run: neither-is-this (2026-01-01) - RUNNING
```

**2. Disk full**
- 97 %

---

### Run: parrot-v1 (2026-01-02) - ABANDONED ❌

- **Model**: example/parrot-4b
- **Status**: ABANDONED ❌ (too small)
- **Progress**: 12/1000 steps completed (reward 0.0238, 287s, 50 tokens/s)
- **Issue**: It crashed: `x`
- **Fix**: Published again

---

## Completed Runs

| Run ID | Model | Start | Duration | Final Reward | Notes |
|--------|-------|-------|----------|--------------|-------|
| parrot-v0 | example/parrot-1b | 2026-01-01 | 3 h | 0.51 | small |
| *none yet* | | | | | |

## Run Template

```markdown
### Run: [run-id]
```
"""

LATE = EARLY.replace("v2 (2026-01-03) - RUNNING ✅", "v2 (2026-01-03) - POSTMORTEM ⚠️").replace(
    "- **Status**: RUNNING ✅",
    "- **End**: 2026-01-04 10:00 UTC\n- **Status**: POSTMORTEM ⚠️ (wrong bottleneck)",
)


@pytest.fixture
def log(tmp_path: Path) -> RunLog:
    return RunLog(tmp_path / "runlog.json")


def test_what_a_section_says(log: RunLog) -> None:
    assert log.import_text(EARLY).added == ["parrot-v2", "parrot-v1"]
    runs = log.records()
    assert list(runs) == ["parrot-v2", "parrot-v1", "parrot-v0"]
    v2, v1, v0 = runs.values()
    assert (v2.status, v2.date, v2.model, v2.pod_id, v2.price) == (
        "RUNNING",
        "2026-01-03",
        "example/parrot-8b (8B params)",
        "pod-0001",
        1.25,
    )
    assert [i.title for i in v2.incidents] == ["Engine died (03:00 UTC)", "Disk full"]
    assert "a plain list within it" in v2.incidents[0].text
    assert "neither-is-this" in v2.incidents[0].text
    assert (v1.status, v1.status_note, v1.step, v1.max_steps, v1.reward) == (
        "ABANDONED",
        "too small",
        12,
        1000,
        0.0238,
    )
    assert v1.tokens_s == 50.0
    assert [(i.title, i.text) for i in v1.incidents] == [
        ("It crashed: `x`", "Fix: Published again")
    ]
    assert (v0.status, v0.model, v0.reward) == ("COMPLETED", "example/parrot-1b", 0.51)


def test_byte_for_byte(log: RunLog, tmp_path: Path) -> None:
    for number, text in enumerate(
        [
            EARLY,
            EARLY.replace("\n", "\r\n"),
            EARLY.rstrip(),
            "",
            "no heading",
            "```\n# never closed\n### Run: a-b (x) - Y",
        ]
    ):
        other = RunLog(tmp_path / f"{number}.json")
        other.import_text(text)
        assert other.export() == text or (not text and other.export().startswith("# Training"))
        assert RunLog(tmp_path / f"{number}.json").export() == other.export()


@pytest.mark.parametrize("order", [[EARLY, LATE], [LATE, EARLY], [EARLY, LATE, EARLY, LATE]])
def test_two_versions_keep_every_line_and_the_final_one_stands(
    log: RunLog, order: list[str]
) -> None:
    for text in order:
        log.import_text(text)
    assert log.records()["parrot-v2"].status == "POSTMORTEM"
    assert len(log.records()) == 3
    out = log.export()
    assert covers(out, EARLY)
    assert covers(out, LATE)
    assert out.count("## Run Template") == 1


def test_an_export_can_be_imported_again(log: RunLog, tmp_path: Path) -> None:
    log.import_text(EARLY)
    log.import_text(LATE)
    log.note("parrot-v2", "Looked at it.\n### Run: not-a-run (x) - Y", "somebody@desk")
    log.note("parrot-v2", "Profile first", "somebody@desk", lesson=True)
    out = log.export()
    assert "Profile first" in out
    again = RunLog(tmp_path / "again.json")
    again.import_text(out)
    assert again.export() == out
    assert list(again.records()) == list(log.records())
    assert again.records()["parrot-v2"].lessons == ["Profile first"]
    # And taken in here as well, it adds nothing twice.
    log.import_text(out)
    assert log.export() == out


def test_a_run_of_its_own_gets_a_section(log: RunLog, tmp_path: Path) -> None:
    own = RunRecord(
        name="owl-v1",
        status="FAILED",
        date="2026-02-01",
        model="example/owl",
        pod="pod-a",
        incidents=[Incident("Stale\n# engine", "it hung")],
    )
    log.import_text(EARLY)
    log.note("owl-v1", "as expected", "somebody@desk", price=2.5)
    out = log.export([own])
    assert covers(out, EARLY)
    assert out.index("owl-v1") < out.index("parrot-v2")
    read = RunLog(tmp_path / "read.json")
    read.import_text(out)
    owl = read.records()["owl-v1"]
    assert (owl.status, owl.model, owl.pod, [i.title for i in owl.incidents]) == (
        "FAILED",
        "example/owl",
        "pod-a",
        ["Stale # engine"],
    )
    assert (
        RunLog(tmp_path / "none.json")
        .export([own])
        .startswith(
            "# Training Runs Log\n\n## Active Runs\n\n### Run: owl-v1 (2026-02-01) - FAILED\n"
        )
    )


def test_what_changed_of_an_incident_or_attempt_stands_below_it(
    log: RunLog, tmp_path: Path
) -> None:
    own = RunRecord(
        name="owl-v1",
        status="RUNNING",
        incidents=[Incident("Engine died", "vllm: gone [open]"), Incident("Disk full", "97 %")],
        attempts=[Attempt(title="Attempt 1: 10:00")],
    )
    log.import_text(log.export([own]))
    own.incidents[0] = Incident("Engine died", "vllm: gone [resolved]", playbooks=["restart"])
    own.attempts = [Attempt(title="Attempt 1: 10:00", text="ended 11:00, well")]
    own.attempts.append(Attempt(title="Attempt 2: 12:00", text="on, and on"))
    out = log.export([own])
    assert "- vllm: gone [open]\n- vllm: gone [resolved]\n- Playbook: restart\n" in out
    assert "1. Attempt 1: 10:00\n   ended 11:00, well\n" in out
    read = RunLog(tmp_path / "read.json")
    read.import_text(out)
    run = read.records()["owl-v1"]
    assert [incident.title for incident in run.incidents] == ["Engine died", "Disk full"]
    assert [(a.title, a.text) for a in run.attempts] == [
        ("Attempt 1: 10:00", "ended 11:00, well"),
        ("Attempt 2: 12:00", "on, and on"),
    ]
    log.import_text(out)
    assert log.export([own]) == out


def test_what_is_the_same_in_another_place_is_not_left_out(log: RunLog) -> None:
    """Two incidents of one title and text, and a line of a person that is as one of ours."""
    twice = [Incident("Engine died", "it hung"), Incident("Engine died", "it hung")]
    own = RunRecord(name="owl-v1", incidents=twice)
    log.import_text("### Run: owl-v1 (2026-01-05) - RUNNING\n\n- it hung\n")
    out = log.export([own])
    assert "**1. Engine died**\n- it hung\n**2. Engine died**\n- it hung\n" in out
    log.import_text(out)
    assert log.export([own]) == out


def test_attempts_as_older_exports_wrote_them_are_not_written_again(log: RunLog) -> None:
    text = "### Run: owl-v1 - FAILED\n\n#### Attempts\n\n1. Attempt 1: 10:00 ended 11:00, well\n"
    log.import_text(text)
    attempt = Attempt(title="Attempt 1: 10:00", text="ended 11:00, well")
    assert log.export([RunRecord(name="owl-v1", attempts=[attempt])]) == text


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(min_value=1e-9, max_value=1e5),
    st.floats(min_value=0, max_value=1e4),
)
def test_numbers_of_an_export_read_back_equal(reward: float, pace_s: float, price: float) -> None:
    own = RunRecord(name="owl-v1", reward=reward, pace_s=pace_s, price=price)
    (chunk,) = [chunk for chunk in chunks(export.document([], {}, [own])) if chunk.run]
    read = document_import.record(chunk)
    assert (read.reward, read.pace_s, read.price) == (reward, pace_s, price)


VALUES = """# Training Runs Log

### Run: parrot-v3 (2026-01-05) - RUNNING ✅

- **Model**: example/parrot-8b
- **Config**: configs/parrot.toml:v3
- **Pod**: 2x H100 ($4.00/hr)
- **Start**: 2026-01-04 23:50 UTC
- **Status**: RUNNING ✅
- **W&B Project**: parrots
- **Step Time**: ~3-5 minutes
- **Expected**: ~4-6 min
- **Actual**: ~4 min (as hoped)
- **Rewards**: They rise
- **Speedup**: **7-8x** achieved
- **GPU Usage**: 74GB/81GB (91%)
- **Baseline**: N/A
- **Env Version**: 0.1.1 (fixed)
- **Current Step**: 80 (as of 09:20 UTC)

#### Incidents and Recovery

**1. Disk full (RESOLVED)**
- 97 %

#### Config (v3)

```toml
max_steps = 1000
[model]
name = "example/parrot-8b"
```

#### Step Time Comparison

| Setting | v2 | v3 | Impact |
|---------|----|----|--------|
| `backend` | a | b | faster |

| Config | Step Time | Bottleneck |
|--------|-----------|------------|
| v2 (far) | ~27 min | network |
| **v3 (near)** | **~3-4 min** | GPU |

#### Metrics
- Baseline: 40%
- Final: 91.8%
- Improvement: +51.8%

#### Lessons Learned
1. Measure first

---

## Lessons Learned

### Near or far

Far is slow.

```bash
# no heading
```

---

## Next

## Completed Runs

| Run ID | Model | Start | Duration | Baseline | Final | Improvement | Notes |
|--------|-------|-------|----------|----------|-------|-------------|-------|
| *none yet* | | | | | | | |
"""


def test_every_value_that_people_write_is_a_field(log: RunLog) -> None:
    log.import_text(VALUES)
    (run,) = log.records().values()
    assert (run.pace_s, run.step_time) == (240.0, "~3-5 minutes")
    assert (run.version, run.max_steps, run.step) == ("v3", 1000, 80)
    assert run.started_t == 1767570600.0
    assert (run.wandb_project, run.env_version) == ("parrots", "0.1.1 (fixed)")
    said = (run.expected, run.actual, run.reward_remark)
    assert said == ("~4-6 min", "~4 min (as hoped)", "They rise")
    assert (run.speedup, run.gpu_usage) == ("**7-8x** achieved", "74GB/81GB (91%)")
    assert (run.baseline, run.final_score, run.improvement) == ("40%", "91.8%", "+51.8%")
    assert [(i.title, i.state) for i in run.incidents] == [("Disk full (RESOLVED)", "resolved")]
    assert run.configs["Config (v3)"].startswith("max_steps = 1000\n[model]")
    assert run.lineage == "v2"
    assert [(t.config, t.step_time, t.seconds, t.more) for t in run.step_times] == [
        ("v2 (far)", "~27 min", 1620.0, {"bottleneck": "network"}),
        ("v3 (near)", "~3-4 min", 210.0, {"bottleneck": "GPU"}),
    ]
    assert log.lessons() == [
        Lesson("parrot-v3", "", "Measure first"),
        Lesson("", "Near or far", "Far is slow.\n\n```bash\n# no heading\n```"),
    ]
    assert log.export() == VALUES


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- **Speedup**", "- **Based on**: v1\n- **Speedup**"),
        ("max_steps = 1000", "# Based on: v1\nmax_steps = 1000"),
    ],
)
def test_what_a_config_is_based_on_as_it_is_said(log: RunLog, old: str, new: str) -> None:
    log.import_text(VALUES.replace(old, new))
    (run,) = log.records().values()
    assert run.lineage == "v1"
    assert log.export() == VALUES.replace(old, new)


def test_a_status_by_command_and_the_table_of_completed_runs(log: RunLog, tmp_path: Path) -> None:
    log.import_text(VALUES)
    log.note("parrot-v3", "the goal was reached", "somebody@desk", status="COMPLETED")
    (run,) = log.records().values()
    assert (run.status, run.status_note) == ("COMPLETED", "the goal was reached")
    out = log.export()
    assert covers(out, VALUES)
    assert "somebody@desk: **COMPLETED**: the goal was reached" in out
    row = (
        "| parrot-v3 | example/parrot-8b | 2026-01-04 23:50 UTC |  | 40% | 91.8% | +51.8% | "
        "the goal was reached |"
    )
    assert row in out
    again = RunLog(tmp_path / "again.json")
    again.import_text(out)
    assert again.export() == out, "and the row is there once"
    assert again.records()["parrot-v3"].status == "COMPLETED"
    # The newest word counts, and another word than completed has no row.
    log.note("parrot-v3", "it was the wrong bottleneck", "somebody@desk", status="POSTMORTEM")
    assert log.records()["parrot-v3"].status == "POSTMORTEM"
    assert row not in log.export()


TABLES = """# Training Runs Log

## Failed Runs

| Run ID | Why |
|---|---|
| owl-v1 | out of memory |

## Not completed

| **Run** | Why |
|---|---|
| owl-v2 | no time |

## Template

```
| Run ID | Model |
|---|---|
| owl-v3 | example/owl |
```

## Completed Runs

### January

| Run ID | Model |
|---|---|
| owl-v4 | example/owl |

### February

| Run ID | Model |
|---|---|
| owl-v5 | example/owl |

### Run: owl-v6 (2026-01-05) - COMPLETED

- **Model**: example/owl
"""


def test_the_heading_above_a_table_says_what_became_of_its_runs(log: RunLog) -> None:
    log.import_text(TABLES)
    assert {name: run.status for name, run in log.records().items()} == {
        "owl-v6": "COMPLETED",
        "owl-v1": "FAILED",
        "owl-v2": "",
        "owl-v4": "COMPLETED",
        "owl-v5": "COMPLETED",
    }
    assert log.export() == TABLES, "a run of the document is listed where its writer listed it"


@pytest.mark.parametrize(
    ("cell", "reward"),
    [
        ("0.51", 0.51),
        ("\u22120.5", -0.5),
        (".75", 0.75),
        ("-1e-3", -0.001),
        ("**0.5**", 0.5),
        ("~0.5 (at step 90)", 0.5),
        ("1", 1.0),
        ("3 of 4", None),
        ("51%", None),
        ("51.5%", None),
        ("nan", None),
        ("1e999", None),
    ],
)
def test_the_reward_of_a_row(log: RunLog, cell: str, reward: float | None) -> None:
    log.import_text(
        "## Completed Runs\n\n| Run ID | Model | Final Reward | Notes |\n|---|---|---|---|\n"
        f"| **owl\\|v1** | a\\|b | {cell} | `c \\| d` |\n"
    )
    (run,) = log.records().values()
    assert (run.name, run.model, run.reward) == ("owl|v1", "a|b", reward)
    log.note(run.name, "", "somebody@desk", status="COMPLETED")
    assert log.export().count("| **owl") == 1, "its row is found again"


def test_a_completed_run_is_listed_once_below_a_heading_about_completed_runs(log: RunLog) -> None:
    log.import_text(TABLES)
    for name in ("owl-v5", "owl-v6"):
        log.note(name, "", "somebody@desk", status="COMPLETED")
    row = "| owl-v4 | example/owl |\n"
    out = log.export()
    assert row + "| owl-v6 | example/owl |\n" in out
    assert [out.count(f"| {name} |") for name in ("owl-v5", "owl-v6")] == [1, 1]
    log.import_text(out)
    assert log.export() == out


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("~3-5 minutes", 240.0),
        ("~27 min (only 10% improvement)", 1620.0),
        ("287s", 287.0),
        ("1.5 hours", 5400.0),
        ("unknown", None),
        ("about 3 minutes", None),
        ("12 monkeys", None),
    ],
)
def test_durations_as_people_write_them(text: str, seconds: float | None) -> None:
    assert written_values.seconds(text) == seconds


TEN = 1767520800.0  # 2026-01-04 10:00 UTC


@pytest.mark.parametrize(
    ("zone", "hours_ahead"),
    [
        *(
            ("", 0),
            (" UTC", 0),
            ("Z", 0),
            (" utc (approx)", 0),
            (", crashed", 0),
            (" - crashed", 0),
        ),
        *((" EST", -5), (" (PST)", -8), (" CEST", 2), ("+02:00", 2), (" UTC-5", -5)),
        *((" +0530", 5.5), (":00.5Z", 0), ("-11:00 UTC", None), ("+20:00", None)),
        *((" PM", None), (" local", None), (" Europe/Berlin", None), (" (AEST)", None)),
    ],
)
def test_the_zone_of_a_moment_counts(zone: str, hours_ahead: float | None) -> None:
    at = written_values.moment(f"2026-01-04 10:00{zone}")
    assert at == (None if hours_ahead is None else TEN - hours_ahead * 3600)


def test_an_end_before_its_start_is_unknown(log: RunLog) -> None:
    start = "### Run: owl-v1 - FAILED\n\n- **Start**: 2026-01-04 10:00 UTC\n- **End**: "
    for end, lasted_s in (("05:30 EST", 1800.0), ("09:30 UTC", None), ("11:30 XST", None)):
        (chunk,) = chunks(f"{start}2026-01-04 {end}\n")
        assert document_import.record(chunk).lasted_s == lasted_s


def test_commas_between_thousands(log: RunLog) -> None:
    log.import_text(
        "### Run: owl-v1 - RUNNING\n\n- **Pod**: 512x ($1,024.50/hr)\n"
        "- **Current Step**: 1,200/2,000 (reward 0.25, 1,287s, 12,345 tokens/s)\n"
    )
    (run,) = log.records().values()
    assert (run.step, run.max_steps, run.price) == (1200, 2000, 1024.5)
    assert (run.reward, run.pace_s, run.tokens_s) == (0.25, 1287.0, 12345.0)
    assert [written_values.steps(text) for text in ("1.2k", "50%", "80, then")] == [
        (None, None),
        (None, None),
        (80, None),
    ]


def test_notes_are_kept_and_the_file_is_private(log: RunLog, tmp_path: Path) -> None:
    log.import_text(EARLY)
    log.note("parrot-v1", "slow", "a@b", price=3.0)
    again = RunLog(tmp_path / "runlog.json").records()["parrot-v1"]
    assert ([n.text for n in again.notes], again.price) == (["slow"], 3.0)
    assert (tmp_path / "runlog.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "damage",
    ["", "[]", "{}", '{"schema": "bs4.run-log/1"}', '{"schema": "bs4.run-log/9", "chunks": []}'],
)
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    (tmp_path / "runlog.json").write_text(damage)
    with pytest.raises(UsageError, match=r"runlog\.json"):
        RunLog(tmp_path / "runlog.json")
    assert (tmp_path / "runlog.json").read_text() == damage


_PIECES = st.sampled_from(
    [
        *(
            "# T",
            "## Active Runs",
            "### Run: a-1 (d) - RUNNING",
            "### Run: b-2 - FAILED",
            "### Run: a-1 (e) - DONE",
            "### Lessons",
        ),
        *(
            "#### Incidents",
            "```",
            "````",
            "~~~",
            "  ```bash",
            "- **Pod**: x",
            "1. **one** two",
            "**1. x**",
            "| Run ID | Model |",
        ),
        *("| c-3 | m |", "---", "", "\u2028", "\x0b", "text"),
    ]
)
_TEXTS = st.lists(st.tuples(_PIECES, st.sampled_from(["\n", "\n", "\r\n"])), max_size=14).map(
    lambda ps: "".join(p + e for p, e in ps)
)


@given(_TEXTS)
def test_cutting_loses_nothing(text: str) -> None:
    assert "".join(c.text for c in chunks(text)) == text
    assert "".join(line.text for line in lines(text)) == text
    assert all(line.code or not line.level for line in lines(fenced(text)))


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.lists(_TEXTS, min_size=1, max_size=3))
def test_any_documents_keep_every_line(tmp_path: Path, texts: list[str]) -> None:
    path = tmp_path / "any.json"
    path.unlink(missing_ok=True)
    log = RunLog(path)
    for number, text in enumerate(texts):
        log.import_text(text)
        if number == 0 and text:
            assert log.export() == text
    out = log.export()
    assert all(covers(out, text) for text in texts)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_TEXTS, min_size=1, max_size=3))
def test_an_export_of_any_documents_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    log = RunLog(tmp_path_factory.mktemp("any") / "any.json")
    for text in texts:
        log.import_text(text)
    out = log.export()
    for _ in range(2):
        log.import_text(out)
        assert log.export() == out


def test_a_fence_that_a_document_leaves_open_hides_nothing_of_another(
    log: RunLog, tmp_path: Path
) -> None:
    log.import_text("# Notes\n```\nopen\n")
    log.import_text("# Notes\n### Run: owl-v1 - FAILED\n- **Model**: example/owl\n```\ncode\n```\n")
    out = log.export()
    again = RunLog(tmp_path / "again.json")
    again.import_text(out)
    assert again.records()["owl-v1"].model == "example/owl"
    assert again.export() == out


def test_what_stands_before_all_headings_stays_there(log: RunLog) -> None:
    for text in ("#### Remarks\none", "# Notes\n", "two\n", "one\n"):
        log.import_text(text)
    assert log.export() == "#### Remarks\none\ntwo\n# Notes\n"
    log.import_text(log.export())
    assert log.export() == "#### Remarks\none\ntwo\n# Notes\n"


def test_the_work_of_an_import_grows_with_the_document_alone(
    log: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = 0
    heading, fence = markdown.run_heading, markdown._FENCE.match

    def run_heading(title: str) -> re.Match[str] | None:
        nonlocal counted
        counted += 1
        return heading(title)

    def match(line: str) -> re.Match[str] | None:
        nonlocal counted
        counted += 1
        return fence(line)

    monkeypatch.setattr(markdown, "run_heading", run_heading)
    monkeypatch.setattr(markdown, "_FENCE", SimpleNamespace(match=match))
    section = "### Run: owl-{} (2026-01-01) - FINISHED\n- **Reward**: 0.5\n```open{}\n---\n"
    document = "".join(section.format(number, number) for number in range(300))
    for _ in range(2):
        log.import_text(document)
    assert len(log.chunks) == 300
    assert counted < 300 * 100


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the shared seeds are not on this machine")
def test_the_seeds(log: RunLog, tmp_path: Path) -> None:
    texts = [
        t
        for p in sorted(SEEDS.glob("*.txt"))
        if (t := p.read_bytes().decode()).startswith("# Training Runs Log")
    ]
    assert len(texts) == 2
    for number, text in enumerate(texts):
        alone = RunLog(tmp_path / f"{number}.json")
        named = re.findall(r"^### Run: ([\w.-]+) ", text, re.MULTILINE)
        assert alone.import_text(text).added == named
        assert alone.export() == text
        paces = {run.pace_s for run in alone.records().values()}
        assert paces <= {None, 240.0, 210.0, 1620.0, 287.0}
        assert paces != {None}
        assert any(run.started_t for run in alone.records().values())
        assert any(run.configs for run in alone.records().values())
        for run in alone.records().values():
            assert run.status in ("RUNNING", "ABANDONED", "POSTMORTEM")
            assert run.model.startswith("Qwen/")
            assert re.search(r"H100|A6000", run.pod)
            for label in run.fields:
                value = getattr(run, TYPED[label])
                assert value not in ("", None, []), (run.name, label)
        log.import_text(text)
    out = log.export()
    assert all(covers(out, text) for text in texts)
    runs = log.records()
    assert len(runs) == 6
    assert {name: len(run.incidents) for name, run in runs.items()} == {
        "bs4-rl-qwen3-8b-2xh100-v4-resilient": 2,
        "bs4-rl-qwen3-8b-2xh100-v3": 1,
        "bs4-rl-qwen3-8b-2xh100-v2": 1,
        "bs4-rl-qwen2.5-7b-h100-v6": 0,
        "bs4-rl-qwen2.5-7b-h100-v5": 1,
        "bs4-rl-qwen2.5-7b-1000steps": 8,
    }
    assert runs["bs4-rl-qwen2.5-7b-h100-v5"].status == "ABANDONED"
    third = runs["bs4-rl-qwen3-8b-2xh100-v3"]
    assert (third.version, third.lineage) == ("v3", "v2")
    assert [row.seconds for row in third.step_times] == [1620.0, 210.0]
    assert len([one for one in log.lessons() if not one.run]) == 12
    assert len(runs["bs4-rl-qwen2.5-7b-h100-v5"].attempts) == 5
