"""Finds the steps that really trained on tokens. A run that falls apart prints steps too: of
batches without a token, with weights that no server took.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bs4_agent.detect.facts import LogEvent, RunFacts

_OLD = "prime-rl-2026-01"


def trained_steps(facts: RunFacts) -> list[int]:
    """Return the trainer's steps of this attempt that trained on tokens, in order.

    Steps that are no longer in the history are missing. The list is empty while no inference server
    has taken weights of this attempt, because until then it is not known that the loop is closed.
    """
    records, batches = [], {}
    for record in facts.history:
        if record["side"] == "trainer":
            records.append(record)
        elif record["side"] == "orchestrator":
            batches[record["step"]] = record
    first = min((int(record["step"]) for record in records), default=0)
    trained = []
    for record in records:
        step = record["step"]
        if _has_tokens(record, first) and _has_batch(facts, batches.get(step)):
            trained.append(int(step))
    if not trained or not _weights_taken(facts, min(trained)):
        return []
    return sorted(trained)


def _has_tokens(record: Mapping[str, Any], first: int) -> bool:
    """Return True if the trainer's step had tokens. The throughput is measured between two steps:
    both generations print 0 for the first step of every process.
    """
    throughput = record.get("throughput")
    if not isinstance(throughput, (int, float)):
        return True  # there is no value, or "nan" or "inf", which proves no empty batch
    return throughput > 0.0 or record["step"] == first


def _has_batch(facts: RunFacts, batch: Mapping[str, Any] | None) -> bool:
    """Return True if the batch of that step had tokens. The current generation ships no other
    batches; 2026-01 prints 0.0 tokens/s for an empty batch.
    """
    if facts.layout.own_log == "trainer":
        return True
    return batch is not None and batch.get("throughput") != 0.0


def _weights_taken(facts: RunFacts, step: int) -> bool:
    """Return True if the inference server has taken the weights of `step` or of a later step."""
    if facts.layout.own_log == "trainer":
        return True
    if facts.spec.trainer == _OLD:
        # 2026-01 counts policies from 1 and steps from 0.
        return _taken_old(facts) >= step + 1
    return _taken_current(facts) >= step


def _taken_old(facts: RunFacts) -> int:
    """Return the newest policy that the server has, or -1. It follows from the async level that the
    orchestrator prints with a batch.
    """
    newest = -1
    for event in _orchestrator_events(facts, "step"):
        level = event.event.values.get("async_level")
        if event.event.step is not None and isinstance(level, (int, float)):
            newest = max(newest, event.event.step - int(level))
    return newest


def _taken_current(facts: RunFacts) -> int:
    """Return the newest policy that the server certainly has, or -1.

    An update is announced before it is tried, and updates follow one another, so all but the last
    one have succeeded.
    """
    announced = _orchestrator_events(facts, "policy-update")
    return max((int(e.event.values.get("policy", -1)) for e in announced[:-1]), default=-1)


def _orchestrator_events(facts: RunFacts, kind: str) -> list[LogEvent]:
    """Return the orchestrator's log events of this kind."""
    return [e for e in facts.events if (e.event.side, e.event.kind) == ("orchestrator", kind)]
