"""Read verl's metrics: the `step:N - key:value - ...` line of its console logger, and the JSON rows
of its file logger. Their keys become those of a steps record.

The line is written by one function in every release: up to 0.4 with `:.3f` (a learning rate prints
as 0.000), since 0.5 with pprint, which shows numpy 2 scalars as `np.float64(0.15)`. The file logger
(0.6 and later) writes `{"step": N, "data": {...}}`; its orjson turns NaN and both infinities into
null. (verl trainer/ppo/metric_utils.py, utils/tracking.py, utils/logger/aggregate_logger.py.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bs4_common.foreign_json import ForeignJsonError, integer, loads, number, recorded

Metrics = Mapping[str, "float | str"]
#: A value of an event: a number, a name, or the results of a validation by name.
Told = float | str | Mapping[str, float]

#: The only prefixes of keys in a validation's line (`step:0 - val-core/...`) or row.
_VALIDATION = ("val-core/", "val-aux/", "val/")
_HEAD = re.compile(r"(?:^|[\s\]])step:(\d{1,12}) - (?=\S+?:)")
_NUMPY = re.compile(r"np\.\w{1,20}\(([^()]*)\)")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:_\d+)*\.?\d*(?:[eE][-+]?\d+)?|\.\d+|inf|nan)")
_MOST_PAIRS = 4096
#: Data sources of a validation that are kept as curves.
_MOST_VALIDATIONS = 8
#: A line this long was cut (lines.LINE_CAP), so its last pair may be half a number.
_CUT = 16 * 1024 - 512

#: A key of a steps record, and the keys that verl had for it, newest first, each with the factor to
#: its unit. `critic/score` is the reward also without a critic (GRPO). Memory is printed as GB and
#: counted in GiB.
_TRAINER: Mapping[str, tuple[tuple[str, float], ...]] = {
    "time_s": (("timing_s/step", 1.0), ("perf/time_per_step", 1.0), ("train/time(s)", 1.0)),
    "loss": (("actor/pg_loss", 1.0), ("actor/loss", 1.0), ("train/loss", 1.0)),
    "entropy": (("actor/entropy", 1.0), ("actor/entropy_loss", 1.0)),
    "mismatch_kl": (("rollout_corr/kl", 1.0),),
    "grad_norm": (("actor/grad_norm", 1.0), ("train/grad_norm", 1.0)),
    "lr": (("actor/lr", 1.0), ("train/lr", 1.0), ("train/lr(1e-3)", 1e-3)),
    "throughput": (("perf/throughput", 1.0),),
    "mfu": (
        ("perf/mfu/actor", 100.0),
        ("actor/perf/mfu/actor", 100.0),
        ("actor/mfu", 100.0),
        ("train/mfu", 100.0),
    ),
    "peak_mem_gib": (
        ("perf/max_memory_allocated_gb", 1.0),
        ("actor/perf/max_memory_allocated_gb", 1.0),
    ),
    "compute_s": (("timing_s/update_actor", 1.0),),
    "broadcast_s": (("timing_s/update_weights", 1.0),),
    "save_s": (("timing_s/save_checkpoint", 1.0),),
}
_ROLLOUTS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "reward": (("critic/score/mean", 1.0), ("critic/rewards/mean", 1.0)),
    "truncation": (("response_length/clip_ratio", 100.0),),
    "error": (("response/aborted_ratio", 100.0),),
    "off_policy": (("training/off_policy/trajectory_staleness/max", 1.0),),
}


def of_line(text: str) -> tuple[int, Metrics] | None:
    """Return (step, {name: number}) from a line that verl has printed for a training step. Return
    None for every other line. The line must have no colours and no prefix of Ray.

    Pairs whose value is no number are left out. NaN and infinities are the strings "nan", "inf",
    "-inf".
    """
    head = _HEAD.search(text)
    if head is None or (head.start() > 0 and "%|" not in text[: head.start()]):
        # Only a progress bar may stand before it. A completion that quotes a step line does not
        # count.
        return None
    found: dict[str, float | str] = {}
    pairs = text[head.end() :].split(" - ", _MOST_PAIRS)
    for pair in pairs[:-1] if len(text) >= _CUT else pairs:
        key, colon, word = pair.rpartition(":")
        value = None
        if colon and key and " " not in key:
            value = _value(word.strip())
        if value is not None:
            found[key] = value
    if found:
        return (int(head.group(1)), found)
    return None


def of_row(raw: bytes | str) -> tuple[int, Metrics] | None:
    """Return (step, {name: number}) from one row of the file that verl's file logger writes. Return
    None if it is no such row or has no number. For a null in the row the value is the string "nan".
    """
    try:
        row = loads(raw)
    except ForeignJsonError:
        return None
    if not isinstance(row, dict):
        return None
    step, data = integer(row.get("step")), row.get("data")
    if step is None or step < 0 or not isinstance(data, dict):
        return None
    found: dict[str, float | str] = {}
    for key, value in data.items():
        told = "nan" if value is None else number(value)
        if told is not None:
            found[key] = told
    return (step, found) if found else None


def is_validation(metrics: Metrics) -> bool:
    """Return True if these metrics are only of a validation and not of a step. verl writes such
    lines before the first step, and under SFT between steps.
    """
    return all(key.startswith(_VALIDATION) for key in metrics)


def record(metrics: Metrics) -> dict[str, Told]:
    """Return verl's metrics under the keys of a record of the stream steps/<run>, in that record's
    units. If a metric is NaN, `not_finite` has its name. An infinite metric does not set it,
    because the minimum over an empty group of samples is infinite.
    """
    found: dict[str, Told] = {**_picked(metrics, _TRAINER), **_picked(metrics, _ROLLOUTS)}
    if "response_length/mean" in metrics and "prompt_length/mean" in metrics:
        prompt, answer = metrics["prompt_length/mean"], metrics["response_length/mean"]
        if isinstance(prompt, float) and isinstance(answer, float):
            found["seq_len"] = recorded(prompt + answer)
        else:
            found["seq_len"] = "nan"
    if points := validations(metrics):
        found["validation"] = points
    for key, value in metrics.items():
        if value == "nan":
            return {**found, "not_finite": key}
    return found


def validation(metrics: Metrics) -> dict[str, Told]:
    """Return the values of an event of kind eval, from the metrics of a validation: `reward` (the
    first data source's mean score, or else the first number), `env` (the name of that data source),
    and `validation`, the mapping that `validations` returns. Under SFT, `loss` is returned in place
    of `reward` and `env`.
    """
    points = validations(metrics)
    if "val/loss" in metrics:
        return {"loss": metrics["val/loss"], "validation": points}
    reward = next(iter(_means(metrics) or metrics))
    source = reward
    if "/" in reward:
        source = reward.split("/", 1)[1].rsplit("/", 2)[0]
    return {"reward": metrics[reward], "env": source, "validation": points}


def validations(metrics: Metrics) -> dict[str, float]:
    """Return the results of a validation, at most eight, as a mapping. It has the mean score on
    each data source by the data source's name. If there is no such score, it has the numbers whose
    names begin with `val/`, such as SFT's loss. It is empty if the metrics are of no validation.
    """
    keys = _means(metrics) or [key for key in metrics if key.startswith("val/")]
    found = {}
    for key in keys[:_MOST_VALIDATIONS]:
        value = metrics[key]
        if isinstance(value, float):
            found[key.removeprefix("val-core/")] = value
    return found


def _means(metrics: Metrics) -> list[str]:
    """Return the keys of the means of a validation."""
    found = []
    for key in metrics:
        if key.startswith("val-core/") and "/mean@" in key:
            found.append(key)
    return found


def _picked(
    metrics: Metrics, keys: Mapping[str, tuple[tuple[str, float], ...]]
) -> dict[str, float | str]:
    """Return the metrics that `keys` name, under the keys of a steps record and in its units."""
    found: dict[str, float | str] = {}
    for name, candidates in keys.items():
        for key, factor in candidates:
            if key in metrics:
                value = metrics[key]
                if isinstance(value, float):
                    value = recorded(value * factor)
                found[name] = value
                break
    return found


def _value(word: str) -> float | str | None:
    """Return a number as verl prints it, or None."""
    numpy = _NUMPY.fullmatch(word)
    word = (numpy.group(1) if numpy else word).strip("'")
    if word in ("True", "False"):
        return float(word == "True")
    if _NUMBER.fullmatch(word) is None:
        return None
    if word.endswith("nan"):
        return "nan"
    return recorded(float(word))
