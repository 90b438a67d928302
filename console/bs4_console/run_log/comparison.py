"""Compare two runs by their records: what was set, what ran where, and what came of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bs4_console.configs.diff import compare
from bs4_console.run_log import eta
from bs4_console.run_log.config_texts import ConfigTexts, parsed
from bs4_console.run_log.record import Attempt, RunRecord
from bs4_console.run_log.text import utc

Part = Literal["run", "settings", "data", "code", "packages", "hardware", "result"]

#: Fields of the record that say what a run is.
_RUN = (
    "status",
    "model",
    "config",
    "version",
    "lineage",
    "phase",
    "pod",
    "price",
    "trainer",
    "start",
    "end",
    "step",
    "max_steps",
)
#: Tables and keys of a config that say on what is trained, by their dotted beginning.
_DATA = (
    "orchestrator.env",
    "orchestrator.train.source",
    "orchestrator.eval",
    "eval",
    "env",
    "data",
    "custom_reward_function",
)
#: Why a value is unknown, where there is no better reason.
NEITHER, ONE = "neither run records it", "one run does not record it"
#: How many steps the reward of a step is the mean of: that of one step jumps.
_STEPS = 10


@dataclass(frozen=True)
class Row:
    """One thing in which two runs can differ, such as a setting, the price or the reward. `part`
    and `key` name it, and `values` has its value in each of the two runs; None is unknown.
    `differs` is None if one of them is unknown, so that it cannot be said. `why` says why a value
    is unknown, or is "".
    """

    part: Part
    key: str
    values: tuple[Any, Any]
    differs: bool | None
    why: str = ""


TextsOf = Callable[[str], ConfigTexts]
"""Returns the config texts that are kept of the pod with a name."""


def rows(one: RunRecord, other: RunRecord, texts_of: TextsOf = ConfigTexts) -> list[Row]:
    """Return everything in which the two runs can be compared, one Row each, grouped by part (such
    as settings, code, hardware, results). Of settings, data and packages there are rows only for
    what differs, or one that says that nothing does. Settings, code and packages are those of the
    newest attempt of each run that records its config. `texts_of` opens the saved texts of configs
    of a pod. Raises OSError if a saved config cannot be read.
    """
    newest = (_launched(one), _launched(other))
    found = [_row("run", key, getattr(one, key), getattr(other, key)) for key in _RUN]
    if newest != (None, None):
        found.append(_of_attempt((one, other), newest))
    found += _settings((one, other), newest, texts_of)
    found += _code(newest)
    found += _hardware(_machine(one, newest[0]), _machine(other, newest[1]))
    found += _results(one, other)
    return found


def at(record: RunRecord, attempt: Attempt) -> RunRecord:
    """Return the part of a run's record that is about one attempt of it, to be compared. What is
    recorded of the whole run only, such as its rewards, is unknown in it.
    """
    several = len({one.pod for one in record.attempts if one.pod}) > 1
    place = f"{attempt.pod}/" if several else ""
    began, ended = attempt.started_t or 0.0, attempt.ended_t
    incidents = []
    for one in record.incidents:
        if one.t is not None and one.t >= began and (ended is None or one.t <= ended):
            incidents.append(one)
    here = attempt.pod in ("", record.pod)
    return RunRecord(
        name=f"{record.name}@{place}{attempt.number}",
        source=record.source,
        model=record.model,
        config=record.config,
        version=attempt.config_version,
        lineage=attempt.config_based_on,
        phase=attempt.phase,
        pod=attempt.pod or record.pod,
        price=record.price if here else None,
        trainer=record.trainer,
        start="" if attempt.started_t is None else utc(attempt.started_t),
        end="" if ended is None else utc(ended),
        started_t=attempt.started_t,
        ended_t=ended,
        max_steps=record.max_steps,
        attempts=[attempt],
        incidents=incidents,
        hardware=record.hardware if here else {},
    )


def _launched(record: RunRecord) -> Attempt | None:
    """Return the newest attempt that records its config. If none does, return the newest one that
    an agent has observed, or None.
    """
    observed = [attempt for attempt in record.attempts if attempt.number is not None]
    for attempt in reversed(observed):
        if attempt.config_digest:
            return attempt
    return observed[-1] if observed else None


def _of_attempt(
    records: tuple[RunRecord, RunRecord], newest: tuple[Attempt | None, Attempt | None]
) -> Row:
    """Return the row that says of which attempts the settings are."""
    numbers, later = [], []
    for record, attempt in zip(records, newest, strict=True):
        numbers.append(attempt.number if attempt is not None else None)
        if attempt is not None and attempt is not record.attempts[-1]:
            later.append(record.name)
    why = ""
    if later:
        why = (
            f"a later attempt of {' and of '.join(later)} records no config: it was not launched "
            "from a console's plan, and its file may have been another"
        )
    return Row("settings", "of attempt", (numbers[0], numbers[1]), False, why)


def _row(part: Part, key: str, one: Any, other: Any, why: str = "") -> Row:
    """Return a row. A value that is empty is unknown."""
    values = (_known(one), _known(other))
    differs = None
    if None not in values:
        differs = values[0] != values[1]
    elif values[0] is values[1]:
        return Row(part, key, values, None, why or NEITHER)
    else:
        why = why or ONE
    return Row(part, key, values, differs, why)


def _known(value: Any) -> Any:
    """Return a value, or None if it is empty."""
    if value is None or value == "" or value == {}:
        return None
    return value


def _settings(
    records: tuple[RunRecord, RunRecord],
    newest: tuple[Attempt | None, Attempt | None],
    texts_of: TextsOf,
) -> Iterator[Row]:
    """Yield the settings in which the configs and the command lines differ."""
    digests, tables, reasons = [], [], []
    for record, attempt in zip(records, newest, strict=True):
        digest, text = "", None
        if attempt is not None and attempt.config_digest:
            digest = attempt.config_digest
            text = texts_of(attempt.pod or record.source).text(digest)
        digests.append(digest)
        tables.append(parsed(text) if text is not None else None)
        reasons.append(_why(record, attempt, digest, text))
    before, after = tables
    if digests[0] and digests[0] == digests[1]:
        yield Row("settings", "config values", (digests[0], digests[1]), False)
    elif before is None or after is None:
        why = "; ".join(dict.fromkeys(filter(None, reasons)))
        yield _unknown_settings(digests, why)
    else:
        for change in compare(before, after):
            part: Part = "settings"
            if _is_data(change.key):
                part = "data"
            yield Row(part, change.key, (change.before, change.after), True)
    yield from _command_lines(newest)


def _unknown_settings(digests: Sequence[str], why: str) -> Row:
    """Return the row for configs whose settings cannot be compared. Two digests that differ still
    say that something does.
    """
    differs = None
    if all(digests):
        differs = True
    return Row("settings", "config values", (digests[0] or None, digests[1] or None), differs, why)


def _why(record: RunRecord, attempt: Attempt | None, digest: str, text: str | None) -> str:
    """Return why the settings of an attempt of a run are unknown, or "" if they are known."""
    if attempt is None:
        return "no agent observed one of the runs"
    if not digest:
        name = "/".join(filter(None, (attempt.pod or record.pod, record.name)))
        return f"attempt {attempt.number} of {name} has no launch plan that names its config"
    if text is None:
        return f"the text of config {digest} was not kept on this machine"
    return ""


def _is_data(key: str) -> bool:
    """Return True for a setting that says on what is trained."""
    plain = key.split("[")[0]
    return any(plain == start or plain.startswith(f"{start}.") for start in _DATA)


def _command_lines(newest: tuple[Attempt | None, Attempt | None]) -> Iterator[Row]:
    """Yield a row for the further arguments of the command lines, if an attempt has some."""
    values = []
    for attempt in newest:
        values.append(shlex.join(attempt.overrides) if attempt is not None else None)
    if any(values):
        differs = values[0] != values[1]
        yield Row(
            "settings",
            "arguments",
            (values[0], values[1]),
            None if None in values else differs,
            "no agent observed one of the runs" if None in values else "",
        )


def _code(newest: tuple[Attempt | None, Attempt | None]) -> Iterator[Row]:
    """Yield the rows of the code that ran and of the packages."""
    one, other = newest
    yield _row("code", "commit", one and one.commit, other and other.commit)
    before = one.versions if one is not None else {}
    after = other.versions if other is not None else {}
    if not before or not after:
        yield _row("packages", "versions", len(before) or None, len(after) or None)
        return
    yield from _differing("packages", before, after)


def _machine(record: RunRecord, attempt: Attempt | None) -> Mapping[str, str]:
    """Return the machine of an attempt, as it was when the attempt was launched, or else as the pod
    was last seen.
    """
    if attempt is not None and attempt.hardware:
        return attempt.hardware
    return record.hardware


def _hardware(one: Mapping[str, str], other: Mapping[str, str]) -> Iterator[Row]:
    """Yield the rows of the machines."""
    for name in dict.fromkeys((*one, *other)) or ("gpus",):
        yield _row("hardware", name, one.get(name), other.get(name))


def _differing(part: Part, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Row]:
    """Yield the entries in which two tables differ, or one row that says that none does. An entry
    that is missing is a package that is not installed.
    """
    same = 0
    for name in sorted({**before, **after}):
        values = (before.get(name, "-"), after.get(name, "-"))
        if values[0] == values[1]:
            same += 1
        else:
            yield Row(part, name, values, True)
    if same:
        yield Row(part, f"{same} others", ("same", "same"), False)


def _results(one: RunRecord, other: RunRecord) -> Iterator[Row]:
    """Yield the rows of what came of the runs."""
    yield _row("result", "reward", one.reward, other.reward)
    last = _last_common(one, other)
    if last is not None:
        means = (_mean_reward(one, last), _mean_reward(other, last))
        yield _row("result", f"reward at step {last}, mean of {_STEPS}", *means)
    yield _row("result", "best reward", _best(one), _best(other))
    yield _row("result", "pace_s", one.pace_s, other.pace_s)
    yield _row("result", "cost", _cost(one), _cost(other), _no_cost(one, other))
    yield _row("result", "attempts", len(one.attempts), len(other.attempts))
    yield _row("result", "incidents", len(one.incidents), len(other.incidents))


def _last_common(one: RunRecord, other: RunRecord) -> int | None:
    """Return the last step of which both runs have a reward, or None if there is none."""
    steps = {step for step, _ in one.rewards}.intersection(step for step, _ in other.rewards)
    return max(steps, default=None)


def _mean_reward(record: RunRecord, last: int) -> float | None:
    """Return the mean reward of the ten steps that end with `last`, or None if there is none."""
    found = [reward for step, reward in record.rewards if last - _STEPS < step <= last]
    if not found:
        return None
    return round(sum(found) / len(found), 4)


def _best(record: RunRecord) -> str | None:
    """Return the best reward of a single step and the step, or None if there is none."""
    if not record.rewards:
        return None
    step, reward = max(record.rewards, key=lambda pair: pair[1])
    return f"{reward:g} at step {step}"


def _cost(record: RunRecord) -> float | None:
    """Return what a run that has ended has cost, in US dollars, or None if that is unknown. Gaps
    between attempts count: the pod was paid for.
    """
    spent = eta.cost(record.price, record.lasted_s)
    return None if spent is None else round(spent, 2)


def _no_cost(one: RunRecord, other: RunRecord) -> str:
    """Return why the cost of a run is unknown, or "" if both are known."""
    reasons = []
    for record in (one, other):
        if _cost(record) is None:
            missing = "its end is not recorded (`runs eta` tells the cost so far)"
            if record.price is None:
                missing = "its price is not recorded (`runs note --price`)"
            reasons.append(f"{record.name}: {missing}")
    return "; ".join(reasons)
