"""How much memory one pod's records may take: 60 MB, whatever they look like."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bs4_console import ceilings
from bs4_console.pods.gate.rules import RecordRefused
from bs4_console.pods.gate.weight import bytes_held, thin, weight_of
from bs4_console.pods.state import PodState

MB = 1_000_000
#: The journal is measured each time that an eighth of its share has come.
JOURNAL = ceilings.JOURNAL_MEMORY * 9 // 8
TELEMETRY = ceilings.TELEMETRY_MEMORY + ceilings.PACKED_MEMORY
READS = ceilings.READS_AHEAD * 2 * 256 * 1024
ROOT = Path(__file__).resolve().parents[4]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(0, 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
)


def fresh(value: Any) -> Any:
    """Return the value as a pod's line of JSON gives it."""
    return json.loads(json.dumps(value))


@given(ANY_JSON)
def test_a_record_is_never_heavier_than_its_weight(value: Any) -> None:
    assert bytes_held(fresh(value)) <= weight_of(value)


def step(number: int, **more: Any) -> dict[str, Any]:
    stamp = {"t": 1.0 + number, "b": "boot", "seq": number}
    return {**stamp, "side": "trainer", "step": number, "attempt": 1, **more}


def test_a_thinned_history_keeps_its_newest_steps_and_a_picture_of_the_old_ones() -> None:
    long, short = [step(n) for n in range(1000)], [step(n) for n in range(20)]
    goal = sum(map(weight_of, long)) * 4 // 5
    left = thin([long, short], goal)
    assert left <= goal
    assert left == sum(map(weight_of, [*long, *short]))
    steps = [row["step"] for row in long]
    assert steps[0] == 0
    assert steps[-500:] == list(range(500, 1000))
    assert max(b - a for a, b in itertools.pairwise(steps)) == 2
    assert len(short) == 20


def test_histories_of_one_heavy_record_each_are_thinned_too() -> None:
    histories = [[step(n, text="x" * 10_000)] for n in range(100)]
    assert thin(histories, 500_000) <= 500_000


def runs(state: PodState, count: int) -> None:
    for n in range(count):
        state.apply_journal(
            {"t": 1.0, "b": "boot", "seq": n, "type": "run", "event": "registered", "run": f"r{n}"}
        )


def many_steps(state: PodState) -> None:
    runs(state, 100)
    for n in range(12_000):
        state.apply_step(
            f"r{n % 100}", fresh(step(n, **{f"metric_{i}": n * 1.1 for i in range(20)}))
        )


def many_plans(state: PodState) -> None:
    for n in range(250):
        record = {
            "t": 1.0, "b": "boot", "seq": n, "type": "plan", "action": f"a{n}", "playbook": "p",
            "plan_hash": f"{n}", "plan": {"steps": [[] for _ in range(2_000)]},
        }  # fmt: skip
        with contextlib.suppress(RecordRefused):
            state.apply_journal(fresh(record))


def long_telemetry(state: PodState) -> None:
    for n in range(60):
        state.apply_telemetry(fresh({"t": float(n), "runs": [], "x": [n * 1.5] * 20_000}))


GROWN = """
import gc, sys
from pathlib import Path
from bs4_console.pods.state import PodState
from tests.console.pods.gate import test_weight

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

state = PodState(name="p1")
before = resident()
getattr(test_weight, sys.argv[1])(state)
print(resident() - before)
"""


def test_all_shares_of_a_pod_are_less_than_60_megabytes() -> None:
    assert JOURNAL + ceilings.STEPS_MEMORY + TELEMETRY + READS < 60 * MB


@pytest.mark.parametrize(
    ("fill", "share"),
    [
        ("many_steps", ceilings.STEPS_MEMORY),
        ("many_plans", JOURNAL),
        ("long_telemetry", TELEMETRY),
    ],
)
def test_a_pod_takes_no_more_memory_than_its_share(fill: str, share: int) -> None:
    command = [sys.executable, "-c", GROWN, fill]
    grown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert int(grown) < share + 5 * MB  # for what the allocator keeps


def test_a_full_journal_is_said_on_the_pod_and_is_begun_anew_with_another_agent() -> None:
    state = PodState(name="p1")
    many_plans(state)
    plans = len(state.ledger.plans)
    with pytest.raises(RecordRefused, match="takes 12 MiB of memory already"):
        runs(state, 1)
    assert len(state.ledger.plans) == plans
    state.forget()
    runs(state, 1)
    assert list(state.runs) == ["r0"]
