"""Detectors for an inference server that is gone although nothing reports it.

There are three ways, all measured on a real vLLM. The server ends with exit code 0 if its engine is
killed during generation, and prime-rl's launchers ignore that. A stopped engine leaves /health at
200 and looks idle. A server that was started apart from the launcher is no child of the run.

The run does not hang for ever: the clients' retries end, and minutes later the run ends by itself
with another message. So the same failure is also read from the logs of a run that has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from bs4_common.credentials.forms import shown_command
from bs4_common.failures.compiled import Parameters
from bs4_common.failures.detectors.reporting import found
from bs4_common.failures.evidence import Evidence, as_evidence, process_evidence
from bs4_common.failures.facts import Facts, Finding, LogEvent, RunFacts
from bs4_common.runs.model import Member
from bs4_common.states import SeenState

_JUST_BEFORE_S = 60.0
_TROUBLE = ("inference-lost", "error", "server-error")
#: States of an attempt that is over; "files" is a finished directory.
_OVER: tuple[SeenState, ...] = ("ended", "lost", "files")
#: The message of the clients' library if nothing listens any more, after all of its retries (48 to
#: 56 s).
_REFUSED = "Connection error."
#: The message of the orchestrator when it dies of a weight update that reached no server.
_NO_UPDATE = "All connection attempts failed"


def inference_silent(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if the run's
    inference server has ended or hangs while the run continues, or, for a run that is over, if the
    server had ended after an error before the run did. Else return an empty list. A server hangs if
    `parameters["probes"]` requests for one token in a row (default 2) got no answer although its
    health check answers. A server that the launcher ends once the work is done is no failure.
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
    if not was_ready or not run.alive("trainer", "rank", "launcher") or _outlived_the_work(run):
        return []
    return _exited(run) or _hung(run, int(parameters.get("probes", 2))) or _gone(run)


def inference_exited_clean(
    facts: Facts, run: RunFacts, parameters: Parameters
) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if the inference
    server was told to end and shut down cleanly (exit code 0 or unknown), and the launcher let the
    run continue without it. Else return an empty list. A server that ended after an error is found
    by `inference_silent` instead. `parameters` is not used.
    """
    if run.state in _OVER:
        return _ended_in_order(run)
    if (
        run.state != "running"
        or run.good_end
        or run.stop_requested
        or run.spec.component != "rl"
        or not _orderly(run)
        or not _unnoticed(run)
    ):
        return []
    gone, said = run.first("inference"), run.last_event("terminating", "inference")
    if gone is None or said is None or not run.alive("trainer", "rank", "orchestrator"):
        return []
    end = run.exit_of(gone)
    if end is not None and end.code != 0:
        return []
    evidence = [
        process_evidence(
            gone.identity, "the inference server has ended in order; the run goes on without it"
        ),
        said.evidence(),
    ]
    text = "The inference server has shut down in order, and the launcher waits on."
    return _clean(run, text, evidence, _exit_anchor(gone))


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
    for event in (*troubles[:1], said, refused):
        evidence.append(event.evidence())
    text = "The inference server had ended after an error before the run did, and nobody noticed."
    return _silent(run, text, evidence, _anchor_of_end(run, said))


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
    return _clean(run, text, [said.evidence(), refused.evidence()], _anchor_of_end(run, said))


def _left_alone(run: RunFacts) -> LogEvent | None:
    """Return the log line that shows that the orchestrator found no server while the run continued,
    or None if there is none.

    A launcher that ends its children for another reason leaves the clients no time to finish their
    retries. A launcher that saw the server fail reports it, and a run that made a step with tokens
    afterwards had a server.
    """
    if run.good_end or run.stop_requested or run.spec.component != "rl":
        return None
    if any(map(_is_inference, run.events_of("child-failed", "launcher"))):
        return None
    after = [
        event
        for event in run.events
        if event.event.side == "orchestrator"
        and (event.event.kind in ("rollout-failed", "step") or _is_refused(event))
    ]
    if not after or not (_is_refused(after[-1]) or _is_empty(after[-1])):
        return None
    return next((event for event in reversed(after) if _is_refused(event)), None)


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
    gone = run.first("inference")
    if gone is not None:
        return _exit_anchor(gone)
    return f"log:{said.stream or said.file}:{said.cursor or said.offset}"


def _exit_anchor(gone: Member) -> str:
    """Return the anchor of a finding about the end of this process."""
    return f"exit:{gone.identity.pid}:{gone.identity.start_ticks}"


def _unnoticed(run: RunFacts) -> bool:
    """Return True if no inference server lives and the launcher does not react to that."""
    return not (
        run.alive("inference")
        or run.last_event("child-failed", "launcher")
        or run.last_event("terminating", "launcher")
    )


def _outlived_the_work(run: RunFacts) -> bool:
    """Return True if the run's work is done and the server wrote nothing of an end before that."""
    done = run.winding_down
    return done is not None and not any(
        event.event.side == "inference"
        and event.event.kind in ("inference-lost", "terminating")
        and event.m < done.m
        for event in run.events
    )


def _orderly(run: RunFacts) -> bool:
    """Return True if the server's log shows an orderly shutdown, and before it no lost engine and,
    in the last minute, no error and no answer with 500.

    A server whose engine was killed ends with the same words and the same exit code. Failures after
    those words are requests that the shutdown has cut off.
    """
    end: LogEvent | None = None
    for event in reversed(run.events):
        if event.event.side != "inference":
            continue
        if end is None:
            end = event if event.event.kind == "terminating" else None
        elif event.event.kind in _TROUBLE:
            late = event.m >= end.m - _JUST_BEFORE_S
            if late or event.event.kind == "inference-lost":
                return False
    return end is not None


def _exited(run: RunFacts) -> list[Finding]:
    """Return a finding if the server was the launcher's child and is gone. The launcher knows its
    exit code: for a code other than 0 it would have reported that at once and ended the run itself,
    which is not silent.
    """
    gone = run.first("inference")
    if gone is None or not _unnoticed(run) or _orderly(run):
        return []
    evidence = [
        process_evidence(
            gone.identity, "the inference server has ended; the launcher goes on without it"
        )
    ]
    for m in run.alive("engine", "worker"):
        evidence.append(process_evidence(m.identity, f"{m.component} is still there"))
    text = "The inference server has ended and nobody noticed."
    return _silent(run, text, evidence, _exit_anchor(gone))


def _hung(run: RunFacts, probes: int) -> list[Finding]:
    """Return a finding if the server answers /health and none of the last `probes` one-token
    requests.
    """
    server = run.server
    if server.failures < probes or server.health != "ok":
        return []
    text = (
        f"{server.url}: {server.failures} one-token requests in a row got no answer, although "
        "/health answers 200"
    )
    evidence = [as_evidence("probe", text)]
    for m in run.alive("engine", "worker"):
        text = f"{m.component} {shown_command(m.cmdline, 60)}"
        evidence.append(process_evidence(m.identity, text))
    anchor = f"hung:{server.url}:{run.attempt}:{run.trainer_side.last_step}"
    return _silent(run, "The inference server is up and answers nothing.", evidence, anchor)


def _gone(run: RunFacts) -> list[Finding]:
    """Return a finding if a separately started server is gone. No child of the run has ended, so
    refused connections from the pod itself are proof enough once the server had answered.
    """
    server = run.server
    if (
        run.ever("inference")
        or server.ever_ok_m is None
        or server.health not in ("refused", "reset")
    ):
        return []
    text = f"{server.url}: the server that this run uses was answering and now refuses connections"
    evidence = [as_evidence("probe", text)]
    if lost := run.last_event("inference-lost"):
        evidence.append(lost.evidence())
    # The last step is a part of the anchors: a later silence of the attempt is another incident.
    anchor = f"gone:{server.url}:{run.attempt}:{run.trainer_side.last_step}"
    return _silent(run, "The separately started inference server is gone.", evidence, anchor)


def _silent(
    run: RunFacts, summary: str, evidence: Sequence[Evidence], anchor: str
) -> list[Finding]:
    """Return a finding of a silent death. Without a complete checkpoint, its playbook starts the
    run afresh.
    """
    return found(
        "vllm-silent-death",
        run,
        summary,
        evidence,
        anchor,
        playbook=run.fallback,
        severity="critical",
        role="root",
    )


def _clean(run: RunFacts, summary: str, evidence: Sequence[Evidence], anchor: str) -> list[Finding]:
    """Return a finding of a server that has shut down in order."""
    return found(
        "inference-exited-clean",
        run,
        summary,
        evidence,
        anchor,
        severity="critical",
        role="root",
    )
