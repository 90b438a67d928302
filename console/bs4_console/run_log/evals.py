"""Reads results of evaluations, compares them by archetype and judges them at the milestones. Also
finds out why tool calls of an evaluation were cut off.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from bs4_console.errors import UsageError

#: By step, the lowest and the highest improvement over the baseline that a healthy run has by then,
#: in percentage points of the pass rate. Source: beautifulsoup-rl's training notes, January 2026;
#: one environment's experience, not a law.
EXPECTED = {100: (5.0, 10.0), 500: (15.0, 20.0), 1000: (25.0, 30.0)}
#: An improvement of fewer percentage points between steps 500 and 1000 is a standstill: the run
#: should be stopped (same source).
STANDSTILL = 5.0

#: By cause, the messages of the environment's adapter and of json for arguments that do not parse.
_BROKEN = {
    "truncated": re.compile(
        r"Unterminated string starting at|Expecting (?:',' delimiter|property name|':' "
        r"delimiter).*char \d+"
    ),
    "escape": re.compile(r"Invalid \\+escape|Invalid \\uXXXX escape"),
    "not-json": re.compile(r"Expecting value: line 1 column 1\b"),
}
_MALFORMED = re.compile(r"Malformed tool arguments")
_REPAIR_FAILED = re.compile(r"Could not repair JSON")
#: By cause, what a person can do.
_ADVICE = {
    "none": "",
    "truncated": (
        "Completions end before their JSON does: run 10 examples with max_tokens 10000; if "
        "more pass, that was it."
    ),
    "escape": (
        "Escapes are broken off: raise max_tokens first (10000), then look at the model's "
        "chat template."
    ),
    "not-json": (
        "The model writes code where JSON is due: more tokens do not help; set its "
        "tool_call_parser, or take another model."
    ),
}


@dataclass(frozen=True)
class Result:
    """The result of one evaluation of a model, as the file with the results states it. `pass_rate`
    is the share of the answers that pass, from 0 to 1, and `perfect_rate` the share of those with
    the full reward. `avg_reward` is the mean reward. The last two are None if the file does not
    state them. `archetypes` holds the mean reward of each kind of task, by its name.
    """

    pass_rate: float
    perfect_rate: float | None = None
    avg_reward: float | None = None
    archetypes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """The result of an evaluation at the training step `step`, compared with the one before
    training. `points` is the change of the pass rate in percentage points. `word` compares it with
    what is expected at this step: ahead, on-track, behind, worse (than before training),
    standstill, or measured if nothing is expected at this step. `advice` says what to do.
    """

    step: int
    points: float
    word: str
    advice: str
    archetypes: dict[str, float]
    """{kind of task (archetype): change of its mean reward}, for those in both results, the largest
    fall first.
    """


@dataclass(frozen=True)
class Truncation:
    """Why tool calls failed to parse, as counts of lines in an evaluation's log. `malformed` counts
    the failures, `unrepaired` the failures that could not be repaired, and `causes` maps each cause
    (truncated, not-json, escape) to its number of lines. `word` is the most frequent cause, or
    "none" if no cause was found, and `advice` says what to do.
    """

    malformed: int
    unrepaired: int
    causes: dict[str, int]
    word: str
    advice: str


def read(path: Path) -> Result:
    """Return the result of an evaluation in a file that the environment wrote: a JSON object with
    pass_rate, and optionally perfect_rate, avg_reward and by_archetype. Raises UsageError if the
    file does not exist, has another form, or gives a pass rate outside 0 to 1.
    """
    try:
        data = json.loads(path.read_bytes())
        shares = {}
        for name, value in data.get("by_archetype", {}).items():
            shares[str(name)] = float(value)
        perfect, reward = data.get("perfect_rate"), data.get("avg_reward")
        result = Result(
            float(data["pass_rate"]),
            None if perfect is None else float(perfect),
            None if reward is None else float(reward),
            shares,
        )
    except FileNotFoundError:
        raise UsageError(
            f"There is no file {path}.", "Give the results file that the evaluation wrote."
        ) from None
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise UsageError(
            f"{path} is no result of an evaluation ({type(error).__name__}).",
            "Give the results_*.json that the evaluation wrote: an object with pass_rate. What "
            "vf-eval and prime-rl write is read by `runs evals`.",
        ) from error
    if not 0 <= result.pass_rate <= 1:
        raise UsageError(
            f"{path} says a pass rate of {result.pass_rate:g}.",
            "A share lies between 0 and 1: is it in percent?",
        )
    return result


def judge(baseline: Result, step: int, result: Result, earlier: Result | None = None) -> Verdict:
    """Compare the result of an evaluation after `step` training steps with `baseline`, the result
    before training, and return the verdict. For step 1000, `earlier` is the result at step 500,
    which shows whether the run stands still; None means that there is none.
    """
    points = 100 * (result.pass_rate - baseline.pass_rate)
    both = result.archetypes.keys() & baseline.archetypes.keys()
    changes = sorted((result.archetypes[name] - baseline.archetypes[name], name) for name in both)
    word, advice = _word(
        step, points, None if earlier is None else 100 * (result.pass_rate - earlier.pass_rate)
    )
    return Verdict(
        step, round(points, 6), word, advice, {name: round(change, 6) for change, name in changes}
    )


def _word(step: int, points: float, since_500: float | None) -> tuple[str, str]:
    if step == 1000 and since_500 is not None and since_500 < STANDSTILL:
        return "standstill", f"Stop: less than {STANDSTILL:g} points since step 500."
    if points < 0:
        return (
            "worse",
            "Look at rewards and entropy before training on: the model lost what it could.",
        )
    if step not in EXPECTED:
        return "measured", "The protocol judges at steps 100, 500 and 1000."
    low, high = EXPECTED[step]
    if points < low:
        return (
            "behind",
            (
                f"Expected {low:g} to {high:g} points by now: look at the reward curve and at "
                "the archetypes that fell."
            ),
        )
    return ("on-track" if points <= high else "ahead"), "Go on."


def truncation(text: str) -> Truncation:
    """Count in the text of an evaluation's log why tool calls failed to parse, and return the
    counts with the most frequent cause.
    """
    malformed = len(_MALFORMED.findall(text))
    relevant = []
    for line in text.split("\n"):
        if _MALFORMED.search(line):
            relevant.append(line)
    causes = {
        name: sum(bool(pattern.search(line)) for line in relevant)
        for name, pattern in _BROKEN.items()
    }
    word = "none"
    if any(causes.values()):
        word = max(causes, key=lambda name: causes[name])
    unrepaired = len(_REPAIR_FAILED.findall(text))
    return Truncation(malformed, unrepaired, causes, word, _ADVICE[word])
