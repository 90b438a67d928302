"""Detectors for the health of the training itself: entropy, KL, gradients, rewards, tool calls and
evaluations.

All ranges come from configs/health.toml through the playbooks' parameters. A number must be out of
range in each of the last steps that the catalog requires, so a single spike is no incident. Every
finding says "for N steps and more" instead of a count that would change with each step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from bs4_common.failures.compiled import Parameters
from bs4_common.failures.detectors.reporting import found
from bs4_common.failures.evidence import Evidence, as_evidence
from bs4_common.failures.facts import Facts, Finding, RunFacts
from bs4_common.failures.series import Point, every, last, mean, metric_evidence, series
from bs4_common.states import Role, Severity

#: The tool parsers of vLLM that fit a model family, by the word in the model's name.
PARSERS = {
    "qwen": ("hermes", "qwen3_coder", "qwen3_xml"),
    "mistral": ("mistral",),
    "ministral": ("mistral",),
    "llama": ("llama3_json", "llama4_json", "llama4_pythonic", "pythonic"),
}
#: The first step of a run that was not resumed: trainers count from 0 or 1.
_FIRST = 1
#: A reward that is printed as 0.0000.
_ZERO = 5e-5


def entropy_collapse(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if the entropy of
    the policy was below `parameters["low"]` in each of the last `parameters["steps"]` steps, so
    that the policy hardly explores any more. Else, or with fewer recorded steps, return an empty
    list. Both keys must be given.

    For small models on easy tasks, an entropy that is below this limit from the beginning does no
    harm. So nothing is found if it was below in every recorded step, provided that the record
    begins with the run's first steps or that only the run's files are read.
    """
    low = float(parameters["low"])
    known = series(run, "trainer", "entropy")
    begun = run.state == "files" or any(step <= _FIRST for step, _ in known)
    if begun and every(known, lambda v: v < low):
        return []
    return _persistent(
        run,
        "entropy-collapse",
        "trainer",
        "entropy",
        int(parameters["steps"]),
        lambda v: v < low,
        f"The policy's entropy is below {low:g}: it hardly explores any more.",
    )


def kl_explosion(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if the mismatch KL
    (between the policy that generates and the one that is trained) was above `parameters["high"]`
    in each of the last `parameters["steps"]` steps. Else, or with fewer recorded steps, return an
    empty list. Both keys must be given.
    """
    high = float(parameters["high"])
    return _persistent(
        run,
        "kl-explosion",
        "trainer",
        "mismatch_kl",
        int(parameters["steps"]),
        lambda v: v > high,
        f"Mismatch KL is above {high:g}: what generates and what is trained have drifted apart.",
        severity="critical",
    )


def grad_explosion(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if the gradient norm
    was above `parameters["high"]` in each of the last `parameters["steps"]` steps. Else, or with
    fewer recorded steps, return an empty list. Both keys must be given.
    """
    high = float(parameters["high"])
    return _persistent(
        run,
        "grad-explosion",
        "trainer",
        "grad_norm",
        int(parameters["steps"]),
        lambda v: v > high,
        f"The gradient norm stays above {high:g}.",
    )


def reward_zero(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if the mean reward,
    printed with four digits, was 0.0000 in each of the last `parameters["zero_steps"]` steps (must
    be given). Else, or with fewer recorded steps, return an empty list.
    """
    return _persistent(
        run,
        "reward-zero",
        "orchestrator",
        "reward",
        int(parameters["zero_steps"]),
        lambda v: abs(v) < _ZERO,
        "The mean reward is exactly 0 although rollouts come back.",
        role="root",
    )


def nan_loss(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) about the first
    recorded step whose loss or gradient norm is NaN or infinite, else an empty list. With verl, a
    step with any metric that is NaN counts, too. `parameters` is not used.
    """
    for key, word in (("loss", "loss"), ("grad_norm", "gradient norm")):
        points = series(run, "trainer", key)
        bad = next((p for p in points if p[1] - p[1] != 0.0), None)  # NaN and both infinities
        if bad is not None:
            text = f"The {word} of step {bad[0]} is {bad[1]:g}."
            evidence = metric_evidence(run, "trainer", bad[0], f"{key} {bad[1]:g}")
            return _found(run, "nan-loss", text, [evidence], "critical", "root")
    points = series(run, "trainer", "not_finite")
    if not points:
        return []
    step = points[0][0]
    name = next(
        row["not_finite"] for row in run.history if row["step"] == step and row.get("not_finite")
    )
    evidence = metric_evidence(run, "trainer", step, f"{name} nan")
    text = f"{name} of step {step} is NaN."
    return _found(run, "nan-loss", text, [evidence], "critical", "root")


def few_trainable(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if almost no
    rollouts teach anything, because all rollouts of a group get the same reward, else an empty
    list. That is so if the share of useful rollouts was at most `parameters["low_percent"]` percent
    in each of the last `parameters["steps"]` steps (both must be given).

    If the logs do not show the share, there is also a finding after `steps` warnings of the
    orchestrator about too few useful rollouts, or after a mean reward of 1 in each of twice as many
    steps.
    """
    steps, low = int(parameters["steps"]), float(parameters["low_percent"])
    points = series(run, "orchestrator", "trainable")
    recent = last(points, steps)
    summary = (
        f"At most {low:g} % of the traces teach anything, for {steps} steps and more: the tasks "
        "are too easy or too hard."
    )
    if every(recent, lambda value: value <= low):
        evidence = _ends(run, "orchestrator", "trainable", recent)
        return _found(run, "few-trainable", summary, evidence, "info")
    warned = run.events_of("low-trainable")
    if not points and len(warned) >= steps:
        evidence = [warned[0].evidence(), warned[-1].evidence()]
        return _found(run, "few-trainable", summary, evidence, "info")
    solved = last(series(run, "orchestrator", "reward"), 2 * steps)
    if not points and every(solved, lambda value: value >= 1.0 - _ZERO):
        text = (
            f"Every reward is 1 for {2 * steps} steps and more: there is nothing left to learn "
            "from these tasks."
        )
        evidence = _ends(run, "orchestrator", "reward", solved)
        return _found(run, "few-trainable", text, evidence, "info")
    return []


def reward_plateau(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if the reward does
    not improve any more, else an empty list. For this, mean rewards over `window` steps in a row
    are compared. There is a finding if the best mean within the last `plateau_steps` steps is less
    than `min_gain` above the best mean before them. After `stop_steps` steps without improvement,
    the finding is a warning, so that the command `check` shows it. If the mean of the last `window`
    steps is at least `solved`, or is 0, there is no finding. `parameters` must have these five
    keys.
    """
    steps, width = int(parameters["plateau_steps"]), int(parameters["window"])
    stop, least = int(parameters["stop_steps"]), float(parameters["min_gain"])
    points = series(run, "orchestrator", "reward")
    recent = points[-width:]
    if not _flat(points, steps, width, least):
        return []
    if mean(recent) >= float(parameters["solved"]) or mean(recent) < _ZERO:
        return []
    if _flat(points, stop, width, least):
        text = (
            f"The reward has not improved for {stop} steps and more, the usual point to stop: "
            "each further step costs money. Keep the best checkpoint."
        )
        evidence = _ends(run, "orchestrator", "reward", points[-stop:])
        return _found(run, "reward-plateau", text, evidence, "warning", what="stop")
    text = (
        f"The reward has not improved for {steps} steps and more; {stop} are the usual point to "
        "stop and keep the best checkpoint."
    )
    evidence = _ends(run, "orchestrator", "reward", points[-steps:])
    return _found(run, "reward-plateau", text, evidence, "info")


def train_eval_gap(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if evaluations are
    clearly worse than training, else an empty list. That is so if, in one training environment, the
    reward of each of the last `evaluations` evaluations was more than `gap` below the mean training
    reward of the `window` steps before that evaluation. `parameters` must have these three keys.
    """
    needed, width = int(parameters["evaluations"]), int(parameters["window"])
    gap = float(parameters["gap"])
    rewards = series(run, "orchestrator", "reward")
    by_env: dict[str, list[Any]] = {}
    for event in run.events_of("eval"):
        if isinstance(event.event.values.get("reward"), float):
            by_env.setdefault(str(event.event.values.get("env", "")), []).append(event)
    for env, evaluations in by_env.items():
        recent = evaluations[-needed:]
        if len(recent) < needed or len(rewards) < width:
            continue
        if all(
            _train_reward(rewards, event, width) - event.event.values["reward"] > gap
            for event in recent
        ):
            text = (
                f"Training reward is more than {gap:g} above the last {needed} evaluations of "
                f"{env}: it learns the training set by heart."
            )
            evidence = [event.evidence() for event in recent]
            return _found(run, "train-eval-gap", text, evidence, "info", what=env)
    return []


def no_tool_calls(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if vLLM is set to a
    tool parser that does not fit the model, or if the model has called no tool in the last
    `parameters["steps"]` steps and their mean reward is at most `parameters["reward"]`. Else return
    an empty list. Both keys must be given.
    """
    if wrong := _parser(run):
        model, parser, fitting = wrong
        text = (
            f"vLLM reads tool calls with the parser {parser}, but {model} writes them for "
            f"{' or '.join(fitting)}."
        )
        evidence = [as_evidence("files", text, str(run.spec.config_path))]
        return _found(run, "no-tool-calls", text, evidence, "warning", "root", parser)
    steps = int(parameters["steps"])
    calls = last(series(run, "orchestrator", "tool_calls"), steps)
    rewards = last(series(run, "orchestrator", "reward"), steps)
    idle = every(calls, lambda value: value == 0)
    if not idle or not rewards or not mean(rewards) <= float(parameters["reward"]):
        return []
    text = f"The model has called no tool for {steps} steps and more, and the rewards are near 0."
    evidence = _ends(run, "orchestrator", "tool_calls", calls)
    return _found(run, "no-tool-calls", text, evidence, "warning", "root")


def _parser(run: RunFacts) -> tuple[str, str, tuple[str, ...]] | None:
    """Return (model, its parser, the parsers that fit) if the configured tool parser does not fit
    the model, or None.
    """
    model = run.setting("inference.vllm.model", "inference.model.name", "model.name")
    parser = run.setting("inference.vllm.tool_call_parser", "inference.model.tool_call_parser")
    if not isinstance(model, str) or not isinstance(parser, str) or parser == "auto":
        return None
    name = model.rpartition("/")[2].lower()
    # Distilled models have two names: DeepSeek-R1-Distill-Qwen writes in DeepSeek's format.
    fitting = next((PARSERS[word] for word in PARSERS if re.match(f"(?:meta-)?{word}", name)), ())
    if not fitting or parser in fitting:
        return None
    return (model, parser, fitting)


def _persistent(
    run: RunFacts,
    failure: str,
    side: str,
    key: str,
    steps: int,
    bad: Callable[[float], bool],
    text: str,
    *,
    severity: Severity = "warning",
    role: Role = "warning",
) -> list[Finding]:
    """Return a finding if a number was bad in each of the last `steps` steps."""
    recent = last(series(run, side, key), steps)
    if not every(recent, bad):
        return []
    summary = f"{text} So for {steps} steps and more."
    return _found(run, failure, summary, _ends(run, side, key, recent), severity, role)


def _ends(run: RunFacts, side: str, key: str, points: Sequence[Point]) -> list[Evidence]:
    """Return evidence for the first and the last of these steps."""
    ends = (points[0], points[-1]) if len(points) > 1 else (points[0],)
    rows = []
    for step, value in ends:
        rows.append(metric_evidence(run, side, step, f"{key} {value:g}"))
    return rows


def _flat(points: Sequence[Point], steps: int, width: int, least: float) -> bool:
    """Return True if the best mean of the last `steps` points is less than `least` above the best
    one before them. False if there are too few points to say.
    """
    if len(points) < steps + width:
        return False
    return _best(points[-steps:], width) - _best(points[:-steps], width) < least


def _best(points: Sequence[Point], width: int) -> float:
    """Return the largest mean over `width` steps in a row."""
    values = [value for _, value in points]
    total = sum(values[:width])
    best = total
    for old, new in zip(values, values[width:], strict=False):
        total += new - old
        best = max(best, total)
    return best / min(width, len(values))


def _train_reward(rewards: Sequence[Point], evaluation: Any, width: int) -> float:
    """Return the mean training reward of the `width` steps before an evaluation."""
    step = evaluation.event.step
    before = [p for p in rewards if step is None or p[0] <= step][-width:]
    return mean(before or rewards[-width:])


def _found(
    run: RunFacts,
    failure: str,
    text: str,
    evidence: Sequence[Evidence],
    severity: Severity,
    role: Role = "warning",
    what: str = "",
) -> list[Finding]:
    """Return a list with one finding of this module. `what` tells several findings of one failure
    apart.
    """
    return found(failure, run, text, evidence, f"health:{what}", severity=severity, role=role)
