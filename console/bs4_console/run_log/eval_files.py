"""Reads the results that evaluations of verifiers and prime-rl leave, and sums them up by
environment and archetype, with a confidence interval.

Known files: `traces.jsonl` (an episode a line; vf-eval of verifiers 0.4 and `evals` of the current
prime-rl) and `results.jsonl` with `metadata.json` beside it (vf-eval of verifiers 0.1).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist, fmean, stdev
from typing import Any, Literal

from bs4_console.errors import UsageError

#: Where the results are in a directory of an evaluation: of vf-eval, or of one step of prime-rl.
_PLACES = ("traces.jsonl", "results.jsonl", "all/traces.jsonl", "eval/all/traces.jsonl")
#: Bytes. No episode is longer; a longer line is no result.
_LINE_BYTES = 64 << 20
#: The 0.975 quantiles of Student's t for 1 to 9 degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_Z = NormalDist().inv_cdf(0.975)
#: A reward beyond it is none that a task gives, and its square would be beyond what a float holds.
_LARGEST = 1e100
#: The lowest number of equal signs that chance gives in less than 5 % of the cases: 2 / 2^6.
_SIGNS = 6
#: Values that differ by a smaller share of the largest one are the same, and were only rounded.
_ROUNDED = 1e-9

#: What reading a line of another form may raise. A number of 400 digits is an OverflowError.
_NO_RESULT = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)

Word = Literal["better", "worse", "not shown", "unknown"]


@dataclass(frozen=True)
class Rollout:
    """One rollout of an evaluation: the model's try at one task of `environment`. `archetype` is
    the kind of the task, or "" if the file does not state it, and `example` identifies the task
    within its environment. `reward` is None if the rollout ended in an error.
    """

    environment: str
    archetype: str
    example: str
    reward: float | None


@dataclass(frozen=True)
class Evaluation:
    """The results (`rollouts`) that one file of an evaluation has. `is_torn` is True if the last
    line of the file was not complete, because the file is still being written; that line was left
    out. So were as many rollouts (of an episode of several agents, those of one agent) as
    `unscored` says: they ended well and have no reward, or none that is a number.
    """

    file: Path
    rollouts: list[Rollout]
    is_torn: bool
    unscored: int = 0


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The rewards of one kind of task (archetype) of an environment, or of the whole environment if
    `archetype` is "". `mean` is the mean over the examples, where each example counts with the mean
    of its rollouts that did not end in an error; it is None if there are none. `errors` is the
    number of rollouts that ended in an error. `low` and `high` are the bounds of the 95 % interval
    of the mean. They are None for fewer than two examples, or if all have the same reward.
    """

    environment: str
    archetype: str
    examples: int
    rollouts: int
    errors: int
    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Change:
    """How the reward of one kind of task (archetype; "" means a whole environment) differs between
    two evaluations. Only the examples that have a reward in both count, and `examples` is their
    number. `mean` is the mean change, and `low` to `high` its 95 % interval by Student; these two
    are None for fewer than two examples, or if all have changed by the same.

    `word` is "better" or "worse", or "not shown" if the interval contains 0, so that no change is
    proved. Without an interval the exact sign test says it (of rewards 0 and 1, that is McNemar's):
    n examples that all change one way do so by chance with the probability 2 / 2^n, which is below
    5 % from 6 on. With fewer than 6 it is "unknown".
    """

    environment: str
    archetype: str
    examples: int
    mean: float
    low: float | None
    high: float | None
    word: Word


@dataclass(frozen=True, kw_only=True)
class Missing:
    """An environment, or one kind of its tasks (`archetype`; "" means the whole environment), that
    an earlier evaluation has and that cannot be compared, because no example of it has a reward in
    both. `examples` is the number of those that have one in the earlier evaluation.
    """

    environment: str
    archetype: str
    examples: int


def read(path: Path) -> Evaluation:
    """Return the evaluation that is in the file `path`, or in the file of an evaluation in the
    directory `path`. Raises UsageError if there is no file of a known form, or if a line of it is
    not a result.
    """
    file = path
    if path.is_dir():
        there = [path / place for place in _PLACES if (path / place).is_file()]
        if not there:
            raise UsageError(
                f"{path} holds no results of an evaluation.",
                f"Give a file, or a directory with one of {', '.join(_PLACES)}.",
            )
        file = there[0]
    rollouts: list[Rollout] = []
    is_torn = False
    unscored = 0
    name = _environment(file)
    try:
        with file.open("rb") as handle:
            number = 0
            while line := handle.readline(_LINE_BYTES):
                number += 1
                if not line.strip():
                    continue
                try:
                    rollout, left_out = _rollout(json.loads(line), name)
                except _NO_RESULT as error:
                    if not line.endswith(b"\n") and len(line) < _LINE_BYTES:
                        is_torn = True
                        break
                    raise UsageError(
                        f"Line {number} of {file} is no result of an evaluation "
                        f"({type(error).__name__}).",
                        "Give the traces.jsonl or results.jsonl that vf-eval or prime-rl wrote; "
                        "`runs bench` compares results_*.json with pass_rate.",
                    ) from error
                unscored += left_out
                if rollout is not None:
                    rollouts.append(rollout)
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read ({error.strerror}).", "Give the results of an evaluation."
        ) from error
    return Evaluation(file, rollouts, is_torn, unscored)


def _environment(file: Path) -> str:
    """Return the environment that the metadata beside a results file names, or ""."""
    try:
        return str(json.loads((file.parent / "metadata.json").read_bytes())["env_id"])
    except FileNotFoundError:
        return ""
    except (OSError, *_NO_RESULT) as error:
        raise UsageError(
            f"{file.parent / 'metadata.json'} names no environment ({type(error).__name__}).",
            "Give the directory as the evaluation left it.",
        ) from error


def _rollout(line: Mapping[str, Any], environment: str) -> tuple[Rollout | None, int]:
    """Return (the rollout in one line, 0), or with a number above 0 if so many of its agents ended
    well without a reward. If all did, the rollout is None. Raises ValueError, KeyError, TypeError
    or AttributeError if the line has none.
    """
    if "traces" in line:
        return _episode(line)
    archetype = _archetype(line) or str(line.get("task") or "")
    rollout = Rollout(environment, archetype, str(line["example_id"]), None)
    if line.get("error"):
        return rollout, 0
    reward = number(line["reward"])
    if reward is None:
        return None, 1
    return replace(rollout, reward=reward), 0


def _episode(line: Any) -> tuple[Rollout | None, int]:
    """Return what `_rollout` does, for an episode of verifiers 0.4."""
    task, env = line["task"], line["env"]
    data = task["data"]
    example = task.get("key") or data.get("id") or data["idx"]
    name = env.get("name") or env["id"]
    archetype = _archetype(data) or str(task["type"])
    rollout = Rollout(str(name), archetype, str(example), None)
    worths = [weighted(trace["rewards"]) for trace in line["traces"] if trace["ok"]]
    rewards = [worth for worth in worths if worth is not None]
    if not line["ok"] or not worths:
        return rollout, 0
    if not rewards:
        return None, len(worths)
    return replace(rollout, reward=fmean(rewards)), len(worths) - len(rewards)


def weighted(rewards: Mapping[str, Any]) -> float | None:
    """Return the reward of a trace of verifiers 0.4 (its record of one rollout): the sum of the
    trace's named `rewards` by their weights. Return None if it has none, or one that is no number.
    """
    worths = []
    for one in rewards.values():
        if one is None:  # its scoring did not run
            continue
        score, weight = number(one["score"]), number(one["weight"])
        if score is None or weight is None:
            return None
        worths.append(score * weight)
    return number(math.fsum(worths)) if worths else None


def number(value: Any) -> float | None:
    """Return a reward as a number, or None if it is null, NaN, or far beyond what a task gives.
    Raises ValueError, TypeError or OverflowError for what is no number at all.
    """
    if value is None:
        return None
    found = float(value)
    return found if abs(found) <= _LARGEST else None


def _archetype(data: Mapping[str, Any]) -> str:
    """Return the archetype that the data of a task, or its `info`, states, or ""."""
    info = data.get("info")
    if isinstance(info, str) and info.startswith("{"):
        info = json.loads(info)
    inner = info.get("archetype") if isinstance(info, dict) else None
    return str(data.get("archetype") or inner or "")


def _groups(evaluation: Evaluation) -> Iterator[tuple[str, str, list[Rollout]]]:
    """Yield (environment, archetype, rollouts), each environment as a whole ("") first."""
    found: dict[tuple[str, str], list[Rollout]] = {}
    for rollout in evaluation.rollouts:
        for archetype in {"", rollout.archetype}:
            found.setdefault((rollout.environment, archetype), []).append(rollout)
    for environment, archetype in sorted(found):
        yield environment, archetype, found[environment, archetype]


def _examples(rollouts: list[Rollout]) -> dict[str, list[float]]:
    """Return the rewards of each example, without examples that have none."""
    found: dict[str, list[float]] = {}
    for rollout in rollouts:
        if rollout.reward is not None:
            found.setdefault(rollout.example, []).append(rollout.reward)
    return found


def summaries(evaluation: Evaluation) -> list[Summary]:
    """Return the summary of each environment of `evaluation`, each followed by those of its kinds
    of tasks (archetypes).
    """
    found = []
    for environment, archetype, rollouts in _groups(evaluation):
        examples = _examples(rollouts)
        means = [fmean(rewards) for rewards in examples.values()]
        is_binary = all(reward in (0, 1) for rewards in examples.values() for reward in rewards)
        low, high = _wilson(means) if is_binary else _student(means)
        found.append(
            Summary(
                environment=environment,
                archetype=archetype,
                examples=len(examples),
                rollouts=len(rollouts),
                errors=sum(rollout.reward is None for rollout in rollouts),
                mean=fmean(means) if means else None,
                low=low,
                high=high,
            )
        )
    return found


def changes(evaluation: Evaluation, before: Evaluation) -> list[Change]:
    """Return how `evaluation` differs from `before` in each environment and archetype that both
    have, example by example. Raises UsageError if they have no example in common.
    """
    earlier = {(name, archetype): rollouts for name, archetype, rollouts in _groups(before)}
    found = []
    for environment, archetype, rollouts in _groups(evaluation):
        old = _examples(earlier.get((environment, archetype), []))
        new = _examples(rollouts)
        both = [fmean(new[name]) - fmean(old[name]) for name in new.keys() & old.keys()]
        if not both:
            continue
        low, high = _student(both)
        found.append(
            Change(
                environment=environment,
                archetype=archetype,
                examples=len(both),
                mean=fmean(both),
                low=low,
                high=high,
                word=_word(both, low, high),
            )
        )
    if not found:
        raise UsageError(
            f"{evaluation.file} and {before.file} have no example in common.",
            "Evaluate both with the same environment, version and number of examples.",
        )
    return found


def missing(evaluation: Evaluation, before: Evaluation) -> list[Missing]:
    """Return the environments of `before` that have no example in common with `evaluation`, and the
    kinds of tasks (archetypes) of the others that have none.
    """
    later = {(name, archetype): rollouts for name, archetype, rollouts in _groups(evaluation)}
    found: list[Missing] = []
    for environment, archetype, rollouts in _groups(before):
        old = _examples(rollouts)
        new = _examples(later.get((environment, archetype), []))
        whole = any((one.environment, one.archetype) == (environment, "") for one in found)
        if old and not whole and not old.keys() & new.keys():
            found.append(Missing(environment=environment, archetype=archetype, examples=len(old)))
    return found


def _word(values: list[float], low: float | None, high: float | None) -> Word:
    """Return what the changes of some examples prove: by the interval of their mean, or where there
    is none, because all are the same, by the exact sign test.
    """
    if low is None or high is None:
        if len(values) < _SIGNS:
            return "unknown"
        low = high = values[0]
    if low > 0:
        return "better"
    return "worse" if high < 0 else "not shown"


def _wilson(means: list[float]) -> tuple[float | None, float | None]:
    """Return the Wilson interval of a share. Several rollouts of an example count as one, which
    makes the interval rather too wide than too narrow.
    """
    n = len(means)
    if n == 0:
        return None, None
    share, square = fmean(means), _Z * _Z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = _Z * math.sqrt(share * (1 - share) / n + square / (4 * n * n)) / (1 + square / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def _student(values: list[float]) -> tuple[float | None, float | None]:
    """Return Student's interval of a mean, or (None, None) for values that do not vary by more than
    they are rounded: how far the next one would be off is not known then.
    """
    largest = max(map(abs, values), default=0.0)
    if len(values) < 2 or max(values) - min(values) <= _ROUNDED * largest:
        return None, None
    freedom = len(values) - 1
    factor = _Z + (_Z**3 + _Z) / (4 * freedom)
    factor += (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * freedom**2)
    if freedom <= len(_T):
        factor = _T[freedom - 1]
    half = factor * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half
