"""Read metrics.jsonl of the current generation: `{"step": N, "time": <unix>, ...}`, several rows
for each step, appended by trainer and orchestrator.

Its numbers are better than the log's rounded ones. It has no NaN and infinities, because its writer
drops them; those are only in the step line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from bs4_common.foreign_json import ForeignJsonError, integer, loads, number, wall_second
from bs4_common.telemetry import StepRecord

#: A number as a steps record has it. NaN and infinities are texts.
Number = float | str
#: The columns of a row. None is no number.
Row = Mapping[str, Number | None]

#: A key of the file, the key of a steps record, and the factor to its unit.
_TRAINER = {
    "time/step": ("time_s", 1.0),
    "loss/mean": ("loss", 1.0),
    "entropy/all/mean": ("entropy", 1.0),
    "mismatch_kl/all/mean": ("mismatch_kl", 1.0),
    "optim/grad_norm": ("grad_norm", 1.0),
    "optim/lr": ("lr", 1.0),
    "perf/throughput": ("throughput", 1.0),
    "perf/mfu": ("mfu", 1.0),
    "perf/peak_memory": ("peak_mem_gib", 1.0),
    "time/wait_for_batch": ("wait_s", 1.0),
    "time/forward_backward": ("compute_s", 1.0),
    "time/broadcast_weights": ("broadcast_s", 1.0),
    "time/save_ckpt": ("save_s", 1.0),
}
_ORCHESTRATOR = {
    "time/step": ("time_s", 1.0),
    "off_policy/max": ("off_policy", 1.0),
    "time/wait_for_policy": ("policy_wait_s", 1.0),
    "train/agg/all/has_error/mean": ("error", 100.0),
}
# Values of each agent of the environment. The step line shows the mean over all agents, which is
# the same number only if there is one agent.
_AGENT = re.compile(r"train/agg/effective/([^/]+)/(reward|is_truncated|is_trainable)/mean")
# The environment's own counter, under any name (total_tool_calls, num_tool_calls).
_TOOL_CALLS = re.compile(r"train/agg/(?:all|effective)/[^/]+/(?:[\w/]{1,80})?tool_calls/mean")
_AGENT_KEYS = {
    "reward": ("reward", 1.0),
    "is_truncated": ("truncation", 100.0),
    "is_trainable": ("trainable", 100.0),
}
# `time/step` is in rows of both sides; these are not.
_ORCHESTRATOR_ONLY = ("progress/tokens", "time/pack", "off_policy/max")
_TRAINER_ONLY = (
    "time/forward_backward",
    "perf/throughput",
    "optim/lr",
    "loss/mean",
    "entropy/all/mean",
)


def record(raw: bytes) -> StepRecord | None:
    """Return the numbers in `raw`, one line of metrics.jsonl, under the keys of a record of the
    stream steps/<run>. Return None for a line that is no row or is still being written, for a row
    that has none of them, such as one about evaluations or the machine, and for one whose time is
    no possible Unix time.
    """
    try:
        told = loads(raw)
    except ForeignJsonError:
        return None
    if not isinstance(told, dict):
        return None
    step, wall = integer(told.get("step")), wall_second(told.get("time"))
    if step is None or wall is None:
        return None
    row = {key: number(value) for key, value in told.items()}
    if not row.keys().isdisjoint(_ORCHESTRATOR_ONLY):
        values = {**_picked(row, _ORCHESTRATOR), **_agents(row), **_tool_calls(row)}
        side = "orchestrator"
    elif not row.keys().isdisjoint(_TRAINER_ONLY):
        values = _picked(row, _TRAINER)
        side = "trainer"
    else:
        return None
    if values:
        return cast("StepRecord", {"side": side, "step": step, "log_t": wall, **values})
    return None


def _picked(row: Row, keys: Mapping[str, tuple[str, float]]) -> dict[str, Number]:
    """Return the numbers of a row that `keys` name, under the keys of a steps record and in its
    units.
    """
    found: dict[str, Number] = {}
    for key, (name, factor) in keys.items():
        value = _in_unit(row.get(key), factor)
        if value is not None:
            found[name] = value
    return found


def _agents(row: Row) -> dict[str, Number]:
    """Return the numbers of the environment's one agent, or nothing if there are several."""
    found: dict[str, Number] = {}
    agents: set[str] = set()
    for key in row:
        match = _AGENT.fullmatch(key)
        if match is None:
            continue
        name, factor = _AGENT_KEYS[match.group(2)]
        value = _in_unit(row[key], factor)
        if value is not None:
            agents.add(match.group(1))
            found[name] = value
    return found if len(agents) == 1 else {}


def _tool_calls(row: Row) -> dict[str, Number]:
    """Return the largest count of tool calls in a row, or nothing if it has none."""
    counts = []
    for key in row:
        if _TOOL_CALLS.fullmatch(key) and isinstance(count := row[key], float):
            counts.append(count)
    if counts:
        return {"tool_calls": max(counts)}
    return {}


def _in_unit(value: Number | None, factor: float) -> Number | None:
    """Return a number of the file in the unit of a steps record; see `foreign_json.number`."""
    if isinstance(value, float):
        return number(value * factor)
    return value
