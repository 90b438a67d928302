"""Detectors for an inference server that is gone although nothing reports it.

There are three ways, all measured on a real vLLM. The server ends with exit code 0 if its engine is
killed during generation, and prime-rl's launchers ignore that. A stopped engine leaves /health at
200 and looks idle. A server that was started apart from the launcher is no child of the run.

The run does not hang for ever: the clients' retries end, and minutes later the run ends by itself
with another message. So the same failure is also read from the logs of a run that has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bs4_agent.credentials.forms import shown_command
from bs4_agent.detect.facts import Facts, Finding, LogEvent, RunFacts, process_evidence

_JUST_BEFORE_S = 60.0
_TROUBLE = ("inference-lost", "error", "server-error")
#: States of an attempt that is over; "files" is a finished directory.
_OVER = ("ended", "lost", "files")
#: The message of the clients' library if nothing listens any more, after all of its retries (48 to
#: 56 s).
_REFUSED = "Connection error."
#: The message of the orchestrator when it dies of a weight update that reached no server.
_NO_UPDATE = "All connection attempts failed"


def inference_silent(
    facts: Facts, run: RunFacts, parameters: Mapping[str, Any]
) -> Sequence[Finding]:
    """Return a finding if the inference server is gone or hangs while its run continues, or if it
    was gone before its run ended. `probes` is how many one-token requests must fail in a row
    (default 2).
    """
    if run.state in _OVER:
        return _ended_silently(run)
    if run.state != "running" or run.good_end or run.stop_requested or run.spec.component != "rl":
        return []
    was_ready = (
        run.server.ever_ok_m is not None
        or run.last_event("ready") is not None
        or run.orchestrator_side.steps > 0
    )
    if not was_ready or not (run.alive("trainer") or run.alive("rank") or run.alive("launcher")):
        return []
    for judge in (_exited, _hung, _gone):
        if finding := judge(facts, run, parameters):
            return [finding]
    return []


def inference_exited_clean(
    facts: Facts, run: RunFacts, parameters: Mapping[str, Any]
) -> Sequence[Finding]:
    """Return a finding if the inference server was asked to end and did so in order, with exit code
    0, and the launcher does not react. A dead engine is another failure.
    """
    if run.state in _OVER:
        return _ended_in_order(run)
    if (
        run.state != "running"
        or run.good_end
        or run.stop_requested
        or run.spec.component != "rl"
        or not _orderly(run)
    ):
        return []
    if (
        run.alive("inference")
        or run.last_event("child-failed", "launcher")
        or run.last_event("terminating", "launcher")
    ):
        return []
    gone = None
    for m in run.members:
        if m.component == "inference":
            gone = m
            break
    said = run.last_event("terminating", "inference")
    if (
        gone is None
        or said is None
        or not (run.alive("trainer") or run.alive("rank") or run.alive("orchestrator"))
    ):
        return []
    code = next((e.code for e in run.exits if e.identity == gone.identity), 0)
    if code != 0:
        return []
    evidence = [
        process_evidence(
            gone.identity, "the inference server has ended in order; the run goes on without it"
        ),
        said.evidence(),
    ]
    text = "The inference server has shut down in order, and the launcher waits on."
    return [
        Finding(
            failure="inference-exited-clean",
            run=run.name,
            attempt=run.attempt,
            summary=text,
            evidence=evidence,
            anchor=f"exit:{gone.identity.pid}:{gone.identity.start_ticks}",
        )
    ]


def _ended_silently(run: RunFacts) -> list[Finding]:
    """Return a finding if an ended run's server had ended after an error before the run did."""
    refused = _left_alone(run)
    said = run.last_event("terminating", "inference")
    if refused is None or said is None or _orderly(run):
        return []
    troubles = []
    for e in run.events:
        if e.event.side == "inference" and e.event.kind in _TROUBLE:
            troubles.append(e)
    evidence = []
    for e in (*troubles[:1], said, refused):
        evidence.append(e.evidence())
    text = "The inference server had ended after an error before the run did, and nobody noticed."
    return [_finding(run, text, evidence, _anchor_of_end(run, said))]


def _ended_in_order(run: RunFacts) -> list[Finding]:
    """Return a finding if an ended run's server had shut down in order before the run did."""
    refused = _left_alone(run)
    said = run.last_event("terminating", "inference")
    if refused is None or said is None or not _orderly(run):
        return []
    text = (
        "The inference server had shut down in order before the run ended, and the launcher had "
        "waited on."
    )
    anchor = _anchor_of_end(run, said)
    return [
        Finding(
            failure="inference-exited-clean",
            run=run.name,
            attempt=run.attempt,
            summary=text,
            evidence=[said.evidence(), refused.evidence()],
            anchor=anchor,
        )
    ]


def _left_alone(run: RunFacts) -> LogEvent | None:
    """Return the log line that shows that the orchestrator found no server while the run continued,
    or None if there is none.

    A launcher that ends its children for another reason leaves the clients no time to finish their
    retries. A launcher that saw the server fail reports it, and a run that made a step with tokens
    afterwards had a server.
    """
    if run.good_end or run.stop_requested or run.spec.component != "rl":
        return None
    if any(
        e.event.kind == "child-failed" and e.event.side == "launcher" and _is_inference(e)
        for e in run.events
    ):
        return None
    kinds = ("rollout-failed", "step", "fatal")
    said = []
    for e in run.events:
        if e.event.side == "orchestrator" and e.event.kind in kinds:
            said.append(e)
    after = []
    for e in said:
        if e.event.kind != "fatal" or _is_refused(e):
            after.append(e)
    if not after or not (_is_refused(after[-1]) or _is_empty(after[-1])):
        return None
    for e in reversed(after):
        if _is_refused(e):
            return e
    return None


def _is_inference(event: LogEvent) -> bool:
    """Return True if the event is about the inference process."""
    return str(event.event.values.get("process", "")).lower() == "inference"


def _is_refused(event: LogEvent) -> bool:
    """Return True if the event shows that no server accepted the connection."""
    if event.event.kind == "fatal":
        return _NO_UPDATE in str(event.event.values.get("error", ""))
    return event.event.kind == "rollout-failed" and _REFUSED in event.text


def _is_empty(event: LogEvent) -> bool:
    """Return True if the event is a step without a token (2026-01 continues until its batch is
    empty).
    """
    return event.event.kind == "step" and event.event.values.get("throughput") == 0.0


def _anchor_of_end(run: RunFacts, said: LogEvent) -> str:
    """Return the anchor that the live run has if its processes are known, so that the incident
    stays the same.
    """
    gone = None
    for m in run.members:
        if m.component == "inference":
            gone = m
            break
    if gone is not None:
        return f"exit:{gone.identity.pid}:{gone.identity.start_ticks}"
    return f"log:{said.stream or said.file}:{said.cursor or said.offset}"


def _orderly(run: RunFacts) -> bool:
    """Return True if the server's log shows an orderly shutdown, and before it no lost engine and,
    in the last minute, no error and no answer with 500.

    A server whose engine was killed ends with the same words and the same exit code. Failures after
    those words are requests that the shutdown has cut off.
    """
    words = []
    for e in run.events:
        if e.event.side == "inference" and e.event.kind in ("terminating", *_TROUBLE):
            words.append(e)
    said = None
    for index in reversed(range(len(words))):
        if words[index].event.kind == "terminating":
            said = index
            break
    if said is None:
        return False
    end = words[said].m
    return not any(
        e.event.kind == "inference-lost" or e.m >= end - _JUST_BEFORE_S
        for e in words[:said]
        if e.event.kind in _TROUBLE
    )


def _exited(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Finding | None:
    """Return a finding if the server was the launcher's child and is gone. The launcher knows its
    exit code: for a code other than 0 it would have reported that at once and ended the run itself,
    which is not silent.
    """
    if (
        run.alive("inference")
        or run.last_event("child-failed", "launcher")
        or run.last_event("terminating", "launcher")
        or _orderly(run)
    ):
        return None
    gone = None
    for m in run.members:
        if m.component == "inference":
            gone = m
            break
    if gone is None:
        return None
    evidence = [
        process_evidence(
            gone.identity, "the inference server has ended; the launcher goes on without it"
        )
    ]
    for m in run.alive("engine") + run.alive("worker"):
        evidence.append(process_evidence(m.identity, f"{m.component} is still there"))
    anchor = f"exit:{gone.identity.pid}:{gone.identity.start_ticks}"
    return _finding(run, "The inference server has ended and nobody noticed.", evidence, anchor)


def _hung(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Finding | None:
    """Return a finding if the server answers /health and no one-token request."""
    server = run.server
    if server.failures < int(parameters.get("probes", 2)) or server.health != "ok":
        return None
    stopped = run.alive("engine") + run.alive("worker")
    evidence = [
        _probe(
            run,
            f"{server.failures} one-token requests in a row got no answer, although /health "
            "answers 200",
        )
    ]
    for m in stopped:
        evidence.append(
            process_evidence(m.identity, f"{m.component} {shown_command(m.cmdline, 60)}")
        )
    return _finding(
        run,
        "The inference server is up and answers nothing.",
        evidence,
        f"hung:{server.url}:{run.attempt}:{_anchor(run)}",
    )


def _gone(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Finding | None:
    """Return a finding if a separately started server is gone. No child of the run has ended, so
    refused connections from the pod itself are proof enough once the server had answered.
    """
    server = run.server
    if (
        run.ever("inference")
        or server.ever_ok_m is None
        or server.health not in ("refused", "reset")
    ):
        return None
    evidence = [
        _probe(run, "the server that this run uses was answering and now refuses connections")
    ]
    if lost := run.last_event("inference-lost"):
        evidence.append(lost.evidence())
    return _finding(
        run,
        "The separately started inference server is gone.",
        evidence,
        f"gone:{server.url}:{run.attempt}:{_anchor(run)}",
    )


def _anchor(run: RunFacts) -> str:
    """Return the last step before the silence, so that a second hang of the same attempt is another
    incident.
    """
    return str(run.trainer_side.last_step)


def _probe(run: RunFacts, text: str) -> dict[str, Any]:
    """Return evidence from a probe of the server."""
    return {
        "source": "probe",
        "stream": "",
        "cursor": "",
        "file": "",
        "offset": 0,
        "line": 0,
        "text": f"{run.server.url}: {text}",
    }


def _finding(run: RunFacts, summary: str, evidence: list[dict[str, Any]], anchor: str) -> Finding:
    """Return a finding of a silent death. Without a complete checkpoint, its playbook starts the
    run afresh.
    """
    resumable = any(c.complete for c in run.checkpoints)
    return Finding(
        failure="vllm-silent-death",
        run=run.name,
        attempt=run.attempt,
        summary=summary,
        evidence=evidence,
        anchor=anchor,
        playbook=None if resumable else "start-afresh",
    )
