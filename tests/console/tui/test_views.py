"""What the screens say, as pure functions of the state."""

from __future__ import annotations

import math

import pytest
from rich.cells import cell_len

from bs4_console.tui import formatting, status, styled_text
from bs4_console.tui.styled_text import cut, fold, pad, spread, text_of, width_of
from bs4_console.tui.views import gpus, playbook
from bs4_console.tui.views import run as run_view
from bs4_console.tui.views.fleet import COLUMNS, rows
from bs4_console.tui.widgets import curves
from bs4_console.tui.widgets.table import RowTable
from tests.console.tui import fixtures


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (8.9, "8s"),
        (72, "1m12s"),
        (3599, "59m59s"),
        (11_100, "3h05m"),
        (187_200, "2d04h"),
        (-5, "0s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.412, "0.4120"),
        (3e-6, "3.0e-06"),
        (12.31, "12.31"),
        (20311, "20311"),
        (0.0, "0.0000"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert formatting.number(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "–"),
        (512, "512 B"),
        (1000, "1000 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1023 << 10, "1023 KiB"),
        (1 << 20, "1.0 MiB"),
        (18_432_511, "17.6 MiB"),
        (62 << 30, "62.0 GiB"),
        (3 << 40, "3.0 TiB"),
    ],
)
def test_sizes(count: float | None, text: str) -> None:
    assert formatting.size(count) == text


@pytest.mark.parametrize("width", [1, 5, 12, 40])
def test_lines_have_the_width_they_were_given(width: int) -> None:
    line: styled_text.Line = [("状態 ", "bad"), ("a long text of some cells", "")]
    assert width_of(cut(line, width)) <= width
    assert width_of(pad(line, width)) == width
    assert width_of(spread(line, [("right", "")], width)) <= max(width, 5)


def test_folding_loses_no_letter() -> None:
    text = (
        "kill -TERM 1400 1409 "
        "/data/a/very/long/path/that/does/not/fit/into/one/line/at/all/whatever/is/done short"
    )
    for width in (10, 24, 60, 200):
        folded = fold(text, width)
        assert "".join(text_of(line) for line in folded).replace(" ", "") == text.replace(" ", "")
        assert all(cell_len(text_of(line)) <= max(8, width) for line in folded)


@pytest.mark.parametrize(
    "text", ["x" * 20_000, "状" * 20_000, "状態 " * 7_000, "a" * 99 + "é" * 20_000]
)
def test_folding_looks_at_each_letter_a_few_times(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod can send a text of any length, and the screen folds it."""
    looked: list[int] = []

    def counted(part: str) -> int:
        looked.append(len(part))
        return cell_len(part)

    monkeypatch.setattr(styled_text, "cell_len", counted)
    folded = fold(text, 100)
    assert sum(looked) < 40 * len(text)
    assert "".join(map(text_of, folded)).replace(" ", "") == text.replace(" ", "")
    looked.clear()
    assert 99 <= width_of(cut([(text, "")], 100)) <= 100
    assert sum(looked) < 4 * len(text) + 2000


def test_an_unreachable_pod_says_since_when_and_when_again() -> None:
    pod = fixtures.unreachable().state
    row = rows([pod], fixtures.CLOCK)[0]
    assert text_of(row.cells["state"]) == "? unreachable"
    assert text_of(row.cells["wrong"]) == "unreachable since 03:11 (1m12s), retry in 8s"
    assert text_of(row.cells["age"]) == "1m old"
    assert text_of(row.cells["step"]) == "731/1200", "what was last known stays"


def test_an_unreachable_run_shows_nothing_as_healthy() -> None:
    pod = fixtures.unreachable().state
    run = pod.runs["reason-32b"]
    line = run_view.components_line(pod, run, fixtures.CLOCK, 120)
    assert "seen 1m ago" in text_of(line)
    assert not [role for _, role in line if "good" in role]
    shown = gpus.lines(pod, fixtures.CLOCK, 120, compact=False)
    assert "as seen 1m ago" in text_of(shown[0])
    assert "eta –" in text_of(run_view.header(pod, run, fixtures.CLOCK, 160)[1])


def test_the_header_of_a_phased_run_names_the_phase_that_was_launched_last() -> None:
    pod = fixtures.healthy().state
    run = pod.runs["code-14b"]
    assert "phase" not in text_of(run_view.header(pod, run, fixtures.CLOCK, 160)[0])
    for number, phase in (1, "near"), (2, "far"):
        told = {"action": f"01L{number}", "run": run.name}
        plan = {"plan": {"record": {"phase": phase}}}
        fixtures.journal(
            pod, "action", 9, **told, kind="launch", who="jo", event="accepted", body=plan
        )
        fixtures.journal(pod, "action", 8, **told, event="done", result={"attempt": number})
        assert f" · phase {phase}" in text_of(run_view.header(pod, run, fixtures.CLOCK, 160)[0])


def test_stale_foreign_hot_and_broken_gpus_are_named() -> None:
    pod = fixtures.stale_gpus().state
    shown = [text_of(line) for line in gpus.lines(pod, fixtures.CLOCK, 160, compact=False)]
    assert "STALE 7s: nvmlDeviceGetUtilizationRates of GPU 2 does not return" in shown[0]
    assert "process ids are the host's" in shown[0]
    assert "pid 40117 not visible" in shown[1]
    assert "throttled: hw thermal slowdown" in shown[2]
    assert "power cap" not in shown[2], "the power cap is how an H100 works under load"
    assert "Xid 79" in shown[3]
    assert "ECC 3" in shown[3]
    assert shown[4].endswith("free")


@pytest.mark.parametrize(
    ("gpus_record", "says"),
    [
        ({"state": "absent", "detail": "", "devices": []}, "absent: no NVIDIA driver"),
        ({"state": "error", "detail": "NVML error 999", "devices": []}, "ERROR: NVML error 999"),
        ({}, "nothing received yet"),
    ],
)
def test_gpus_that_are_not_there_say_why(gpus_record: dict[str, object], says: str) -> None:
    pod = fixtures.idle().state
    pod.latest["gpus"] = gpus_record
    assert says in text_of(gpus.lines(pod, fixtures.CLOCK, 100, compact=True)[0])


def test_unknown_numbers_are_dashes_and_not_zeros() -> None:
    pod = fixtures.idle().state
    device = pod.latest["gpus"]["devices"][0]
    device.update(util=None, mem_used=None, power=None, temp=None, procs=[])
    shown = text_of(gpus.lines(pod, fixtures.CLOCK, 120, compact=False)[1])
    assert "–/80G" in shown
    assert "–W" in shown
    assert " 0%" not in shown


def test_a_dead_component_is_marked_by_sign_and_word() -> None:
    pod = fixtures.stale_gpus().state
    line = text_of(run_view.components_line(pod, pod.runs["arc-agi-3b"], fixtures.CLOCK, 160))
    assert "✖ orchestrator 787 dead" in line
    pod.runs["arc-agi-3b"].components[0]["state"] = "T"
    assert "‖ launcher 760 stopped" in text_of(
        run_view.components_line(pod, pod.runs["arc-agi-3b"], fixtures.CLOCK, 160)
    )


def test_a_run_without_a_step_for_long_is_late() -> None:
    pod = fixtures.desync(incident=False).state
    assert (
        status.late(pod, pod.runs["math-7b"], fixtures.CLOCK) == "no step for 9m20s (usually 31.5s)"
    )
    healthy = fixtures.healthy().state
    assert status.late(healthy, healthy.runs["code-14b"], fixtures.CLOCK) == ""


@pytest.mark.parametrize(
    ("rtt", "signs"), [(0.012, "▂▄▆█"), (0.1, "▂▄▆·"), (0.3, "▂▄··"), (0.9, "▂···"), (None, "▂···")]
)
def test_link_quality(rtt: float | None, signs: str) -> None:
    pod = fixtures.idle().state
    pod.link.rtt = rtt
    assert status.link_signs(pod) == signs


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160, 200])
def test_the_fleet_fits_and_keeps_what_matters(width: int) -> None:
    table = RowTable(COLUMNS)
    table.rows = rows([session.state for session in fixtures.everything()], fixtures.CLOCK)
    fitted = table._fit(width)
    kept = [column.id for column, _ in fitted]
    assert "state" in kept
    assert "pod" in kept
    if width >= 80:
        assert {"run", "step", "wrong"} <= set(kept)
    if width >= 200:
        assert len(kept) == len(COLUMNS)
    if width >= 60:
        assert sum(w for _, w in fitted) + 2 * (len(fitted) - 1) <= width


# -- curves


def _points(values: list[float]) -> list[tuple[int, float]]:
    return list(enumerate(values))


def test_a_spike_between_columns_is_not_lost() -> None:
    """10,000 steps in 40 columns: a mean would hide one bad step."""
    for spike, row in ((9.0, 0), (-9.0, -1)):
        values = [0.1] * 10_000
        values[5_003] = spike
        drawn = curves.plot(_points(values), 20, 4, 0, 9_999)
        assert any(c not in " ⠀" for c in text_of(drawn[row])), f"the spike to {spike} is not drawn"
        assert any(c not in " ⠀" for c in text_of(drawn[-1 - row])), (
            "the rest of the curve is not drawn"
        )


def test_a_rising_curve_ends_at_the_top_right() -> None:
    drawn = [
        text_of(line) for line in curves.plot(_points([float(i) for i in range(100)]), 20, 4, 0, 99)
    ]
    assert drawn[0][-1] != " "
    assert drawn[0][0] == " "
    assert drawn[-1][0] != " "


def test_few_steps_still_make_one_line() -> None:
    drawn = [text_of(line) for line in curves.plot(_points([0.0, 1.0]), 20, 4, 0, 1)]
    for x in range(20):
        assert any(row[x] != " " for row in drawn), f"nothing is drawn in column {x}"


def test_nan_is_marked_and_breaks_the_line() -> None:
    curve = curves.Curve("entropy", _points([0.5] * 10 + [math.nan] * 5 + [0.5] * 10))
    drawn = curves.chart(curve, 25, 5, 0, 24)
    assert "5 NaN" in text_of(drawn[0])
    assert "×" in text_of(drawn[-2])
    assert not any("×" in text_of(line) for line in curves.plot(_points([0.5] * 10), 25, 3, 0, 9))


@pytest.mark.parametrize("values", [[], [math.nan], [1.0], [0.0] * 5])
def test_odd_curves_are_drawn(values: list[float]) -> None:
    drawn = curves.chart(curves.Curve("reward", _points(values)), 20, 6, 0, max(0, len(values) - 1))
    assert len(drawn) == 6
    assert all(width_of(line) == 20 for line in drawn)


def test_strings_of_the_record_become_nan_and_the_last_attempt_wins() -> None:
    found = curves.points(
        [{"step": 1, "x": 5.0}, {"step": 2, "x": "inf"}, {"step": 1, "x": 7.0}, {"step": 3}], "x"
    )
    assert found[0] == (1, 7.0)
    assert math.isnan(found[1][1])
    assert len(found) == 2


# -- playbooks


def test_every_shipped_playbook_can_be_told() -> None:
    assert playbook.ids()
    for name in playbook.ids():
        text = playbook.load(name)
        assert text is not None
        assert text.title
        assert text.steps or text.advice or text.leads_to or text.explanation
        assert all(step.endswith(".") and "_" not in step.split(" (")[0] for step in text.steps)


def test_an_unknown_playbook_is_none() -> None:
    assert playbook.load("no-such-thing") is None


def test_a_run_that_begins_is_not_called_dead() -> None:
    pod = fixtures.connected("h100-d", "root@198.51.100.90:22", rtt=0.009)
    fixtures.start_run(pod, "new-1", "prime-rl", 20, 1)
    fixtures.telemetry(pod, devices=[])
    run = pod.runs["new-1"]
    assert (
        text_of(run_view.components_line(pod, run, fixtures.CLOCK, 120)) == " procs none seen yet"
    )
    fixtures.journal(
        pod,
        "run",
        0,
        event="attempt-ended",
        run="new-1",
        attempt=1,
        code=1,
        signal=None,
        good=False,
        detail="gone",
    )
    assert (
        text_of(run_view.components_line(pod, run, fixtures.CLOCK, 120))
        == " procs none: the run is not alive"
    )


@pytest.mark.parametrize(
    ("kind", "accepted_ago", "word"),
    [
        ("launch", 60, "critical"),
        ("launch", 40, "fixing"),
        ("stop", 40, "fixing"),
        ("playbook", 60, "fixing"),
        ("plan", 40, "critical"),
    ],
)
def test_a_run_is_being_fixed_by_what_began_after_its_incident_or_by_a_playbook(
    kind: str, accepted_ago: float, word: str
) -> None:
    """A launch that waits for its first step mends nothing that goes wrong meanwhile."""
    pod = fixtures.connected("h100-a", "root@192.0.2.41:22")
    fixtures.start_run(pod, "math-7b", "prime-rl", 400, 100)
    fixtures.journal(
        pod,
        "action",
        accepted_ago,
        action="K1",
        kind=kind,
        who="alice",
        run="math-7b",
        event="accepted",
        body={},
    )
    known = {"failure": "run-stalled", "title": "Nothing moves", "run": "math-7b", "attempt": 1}
    fixtures.journal(
        pod, "incident", 50, event="opened", incident="i1", severity="critical", **known
    )
    pod.changed()
    assert status.status_of(pod, pod.runs["math-7b"]).word == word
