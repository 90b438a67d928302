"""Check the records of a pod before anything is made of them.

A pod can send anything. The folds (bs4_common.ledger, pods.state) and the screen take a record's
fields as they come, so each record is checked here once, where it enters: by type, size and range,
field by field. Fields that nobody reads are not checked, so that an older console understands a
newer agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bs4_common.greeting import AgentGreeting
from bs4_common.ledger import JournalRecord
from bs4_common.telemetry import StepRecord, Telemetry
from bs4_console.pods.gate.rules import (
    ACTION_STEP_MOST,
    ENTRIES,
    Shape,
    attempt,
    check_field,
    checks,
    flag,
    index,
    mapping,
    name,
    number,
    objects,
    phrases,
    rule,
    step,
    steps,
    tasks,
    text,
    texts,
    torn,
    wall,
    whole,
)
from bs4_console.printable import one_line, printable


@rule("a list of evidence")
def evidence(value: Any) -> bool:
    """Return True if `value` is a list of evidence for a failure: dictionaries, each with fields
    such as the file, line and text of a line of a log, in their proper types.
    """
    return objects(value) and all(map(_EVIDENCE.passes, value))


@rule("a list of texts and objects")
def things(value: Any) -> bool:
    """Return True if `value` is a list of at most ENTRIES (10,000) entries, each of which is a text
    or a dictionary about a process or a file. Of a dictionary, only its path, command, component
    and numbers are checked.
    """
    return (
        isinstance(value, list)
        and len(value) <= ENTRIES
        and all(text(entry) or _THING.passes(entry) for entry in value)
    )


@rule("an object that says what a step touches")
def shown(value: Any) -> bool:
    """Return True if `value` is a dictionary that says what a step of an action's plan touches, as
    `plans.Shown` describes it.
    """
    return _SHOWN.passes(value)


@rule("a list of the steps of a plan")
def planned(value: Any) -> bool:
    """Return True if `value` is a list of at most ACTION_STEP_MOST (1,000) steps of an action's
    plan, each a dictionary as `plans.PlanStep` describes it.
    """
    return (
        isinstance(value, list)
        and len(value) <= ACTION_STEP_MOST
        and all(map(_PLANNED.passes, value))
    )


@rule("an object with the steps of a plan")
def plan(value: Any) -> bool:
    """Return True if `value` is the plan of an action as a dictionary, as `plans.Plan` describes
    it. Fields that only some kinds of plan have are not checked.
    """
    return mapping(value) and _PLAN_BODY.passes(value)


_STAMP = Shape({"t": wall}, {"m": number, "b": name})

_HELLO = Shape(
    {},
    {
        "protocol": whole,
        "agent": text,
        "bundle": text,
        "build": whole,
        "home": text,
        "python": text,
        "pid": whole,
        "boot_id": text,
        "host": text,
        "look": flag,
        "coverage": phrases,
    },
)


_RUN = Shape(
    {"event": text, "run": name},
    {
        "trainer": text,
        "output_dir": text,
        "cwd": text,
        "config": text,
        "argv": texts,
        "max_steps": whole,
        "attempt": attempt,
        "started_t": wall,
        "ended_t": wall,
        "resume": step,
        "overrides": texts,
        "container": text,
        "runs": objects,
        "code": whole,
        "signal": whole,
        "good": flag,
        "detail": text,
    },
)
_EVIDENCE = Shape(
    {},
    {
        "source": text,
        "stream": text,
        "cursor": text,
        "file": text,
        "offset": whole,
        "line": whole,
        "text": text,
    },
)
_INCIDENT = Shape(
    {"event": text, "incident": name},
    {
        "failure": name,
        "title": text,
        "run": text,
        "attempt": attempt,
        "role": text,
        "severity": text,
        "summary": text,
        "playbook": text,
        "where": text,
        "evidence": evidence,
        "coverage": texts,
    },
)
_THING = Shape(
    {},
    {
        "path": text,
        "bytes": whole,
        "pid": whole,
        "start_ticks": whole,
        "component": text,
        "command": text,
    },
)
_SHOWN = Shape(
    {},
    {
        "processes": things,
        "directories": things,
        "entries": things,
        "left_alone": texts,
        "cwd": text,
    },
)
_PLANNED = Shape(
    {},
    {
        "kind": text,
        "title": text,
        "command": text,
        "shown": shown,
        "targets": things,
        "parameters": mapping,
    },
)
_PLAN_BODY = Shape(
    {},
    {
        "title": text,
        "run": text,
        "attempt": attempt,
        "danger": text,
        "typed_name": flag,
        "steps": planned,
        "resume": step,
        "verify": checks,
    },
)
_PLAN = Shape(
    {"action": name, "playbook": text, "b": name},
    {
        "run": text,
        "attempt": attempt,
        "home": text,
        "plan_hash": text,
        "expires_m": number,
        "expires_t": wall,
        "plan": plan,
        "refused": text,
    },
)
_ACTION = Shape(
    {"action": name, "event": text},
    {
        "kind": text,
        "who": text,
        "run": text,
        "playbook": text,
        "plan_hash": text,
        "incident": text,
        "body": mapping,
        "steps": tasks,
        "title": text,
        "command": text,
        "detail": text,
        "result": mapping,
    },
)
_SYNC = Shape(
    {"event": text, "run": name},
    {
        "to": text,
        "step": step,
        "bytes": number,
        "done": number,
        "total": number,
        "rate": number,
        "set_t": wall,
        "set_state": text,
        "held": text,
        "detail": text,
        "error": text,
        "names": texts,
        "steps": steps,
        "torn": torn,
        "pointer": step,
    },
)

#: The shape of each type of journal record. Records of other types change nothing in the fold.
JOURNAL: Mapping[str, Shape] = {
    "agent": Shape(
        {"event": text},
        {
            "version": text,
            "bundle": text,
            "pid": whole,
            "thread": text,
            "detail": text,
            "gap_s": number,
        },
    ),
    "run": _RUN,
    "incident": _INCIDENT,
    "plan": _PLAN,
    "action": _ACTION,
    "mode": Shape({"run": text, "playbook": name, "mode": text}),
    "note": Shape(
        {"run": text},
        {"text": text, "who": text, "checklist_every": whole, "checklist_step": whole},
    ),
    "gap": Shape({}, {"stream": text, "reason": text}),
    "order": Shape(
        {"run": name},
        {
            "last": whole,
            "at_least": whole,
            "milestones": whole,
            "synced": flag,
            "who": text,
            "best": text,
        },
    ),
    "guard": Shape({"run": name, "event": text}, {"detail": text}),
    "sync": _SYNC,
    "report": Shape(
        {"run": name, "attempt": attempt, "event": text},
        {"report": text, "bytes": whole, "sha256": text, "detail": text, "missing": texts},
    ),
}
_STEP_EVENTS = frozenset({"intent", "step-done", "step-skipped", "step-failed"})

_TELEMETRY = Shape({}, {"gpus": mapping, "host": mapping, "runs": objects, "coverage": phrases})
_GPUS = Shape(
    {},
    {
        "state": text,
        "detail": text,
        "driver": text,
        "pids": text,
        "age_s": number,
        "devices": objects,
        "xids": objects,
    },
)
_DEVICE = Shape(
    {"index": whole},
    {
        "uuid": text,
        "name": text,
        "util": number,
        "mem_util": number,
        "mem_used": number,
        "mem_total": number,
        "temp": number,
        "power": number,
        "power_limit": number,
        "sm_clock": number,
        "mem_clock": number,
        "ecc": number,
        "unaccounted": number,
        "procs": objects,
        "pcie": mapping,
        "nvlink": mapping,
    },
)
_HOST = Shape(
    {},
    {
        "cpu": number,
        "cores": number,
        "load1": number,
        "mem_used": number,
        "mem_total": number,
        "shm_used": number,
        "shm_total": number,
        "disks": objects,
        "net": mapping,
    },
)
_DISK = Shape({"path": text}, {"used": number, "total": number, "free": number})
_WATCHED = Shape({"run": name}, {"attempt": attempt, "components": objects})
_COMPONENT = Shape(
    {}, {"component": text, "pid": whole, "cpu": number, "rss": number, "state": text}
)

_STEP = Shape({"side": name, "step": step}, {"attempt": attempt, "log_t": wall, "at": mapping})


def telemetry(record: Any) -> Telemetry:
    """Check a record of a pod's telemetry stream, and return it with each text on one line and
    without characters that a terminal acts on. Raises RecordRefused if an agent would not write
    such a record there.
    """
    checked: Telemetry = check("telemetry", record)
    return checked


def training_step(record: Any) -> StepRecord:
    """Check a record of one training step of a run, and return it with each text on one line and
    without characters that a terminal acts on. Raises RecordRefused if an agent would not write
    such a record.
    """
    checked: StepRecord = check("steps", record)
    return checked


def journal(record: Any) -> JournalRecord:
    """Check a record of a pod's journal (the agent's log of actions and incidents), and return it
    with each text on one line and without characters that a terminal acts on; what a person wrote
    in a note may have several lines. Raises RecordRefused if an agent would not write such a
    record.
    """
    checked: JournalRecord = check("journal", record)
    return checked


def hello(greeting: Any) -> AgentGreeting:
    """Check the greeting of a pod's agent, which says who answers: its version, its home and so on.
    Return the greeting unchanged. Raises RecordRefused if a field has another type than it must
    have.
    """
    _HELLO.check(greeting)
    checked: AgentGreeting = greeting
    return checked


def check(stream: str, record: Any) -> Any:
    """Check a record that was read from a pod's stream: "journal", "telemetry", or "steps/RUN" for
    the training steps of a run. Return the record with each text on one line and without characters
    that a terminal acts on; what a person wrote in a note may have several lines. Raises
    RecordRefused if an agent would not write such a record to that stream. `journal`, `telemetry`
    and `training_step` return it with its type.
    """
    _STAMP.check(record)
    if stream == "journal":
        _check_journal(record)
    elif stream == "telemetry":
        _check_telemetry(record)
    else:
        _check_step(record)
    prose = record.get("text")
    harmless = one_line_each(record)
    if isinstance(prose, str):
        # What a person wrote in a note may have lines.
        harmless["text"] = printable(prose)
    return harmless


def one_line_each(value: Any) -> Any:
    """Return a JSON value in which every text, at any depth, is one line without characters that a
    terminal acts on. If nothing has to change, the object `value` itself is returned.
    """
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        pairs = {}
        for key, entry in value.items():
            pairs[one_line(key)] = one_line_each(entry)
        if all(pairs.get(key) is entry for key, entry in value.items()):
            return value
        return pairs
    if isinstance(value, list):
        entries = [one_line_each(entry) for entry in value]
        if all(new is old for new, old in zip(entries, value, strict=True)):
            return value
        return entries
    return value


def _check_journal(record: Any) -> None:
    shape = JOURNAL.get(str(record.get("type")))
    if shape is None:
        return
    shape.check(record)
    if record["type"] == "action" and record["event"] in _STEP_EVENTS:
        check_field("step", record.get("step"), index)
    if record["type"] == "incident" and record["event"] == "opened":
        check_field("failure", record.get("failure"), name)


def _check_telemetry(record: Any) -> None:
    _TELEMETRY.check(record)
    gpus, host = record.get("gpus") or {}, record.get("host") or {}
    _GPUS.check(gpus)
    for device in gpus.get("devices") or ():
        _DEVICE.check(device)
    _HOST.check(host)
    for disk in host.get("disks") or ():
        _DISK.check(disk)
    for watched in record.get("runs") or ():
        _WATCHED.check(watched)
        for component in watched.get("components") or ():
            _COMPONENT.check(component)


def _check_step(record: Any) -> None:
    _STEP.check(record)
    for key, value in record.items():
        # Agents write NaN and infinities as texts; see docs/wire.md.
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            check_field(key, value, number)
