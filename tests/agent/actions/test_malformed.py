"""Whatever a field of a submission has, each kind of action answers it with an acceptance or with a
sentence, and never with a defect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.actions.departure import Departure
from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.actions.kinds import NAMES
from bs4_common.errors import AgentError, BadRequest
from bs4_common.ids import ulid
from tests.agent.actions.stopping import RELAUNCHES, RUN, StoppingAgent
from tests.agent.setup.places import RECIPE

LAUNCH: dict[str, Any] = {
    "run": RUN,
    "trainer": "prime-rl",
    "config": "config.toml",
    "cwd": "work",
    "output_dir": "out",
    "resume": None,
    "overrides": ["--a", "b"],
    "component": "rl",
    "processes": 1,
    "env": {"A": "b"},
    "container": "",
    "fresh": False,
}
RESTORE = {"run": RUN, "from": "b2://bucket/x", "step": 5, "trainer": "prime-rl", "cwd": "work"}
MERGE = {"run": RUN, "step": 5, "target": "", "adapter": "", "base": ""}
HASH = {"plan_hash": "a" * 64, "confirm_run": RUN, "run": RUN}
#: For each kind, what a console sends. The fields of an inner table are varied too.
BODIES: dict[str, list[dict[str, Any]]] = {
    "plan": [
        {"launch": LAUNCH, "record": {"a": 1}},
        {"setup": RECIPE},
        {"restore": {**RESTORE, "output_dir": "out", "config": "config.toml"}},
        {"merge": MERGE},
        {"backup": {"run": RUN, "step": 5, "target": ""}},
        {"playbook": RELAUNCHES, "run": RUN, "incident": ""},
    ],
    "stop": [{"run": RUN, "attempt": 0}],
    "adopt": [{"pid": 1, "run": "other"}],
    "mode": [{"run": RUN, "playbook": RELAUNCHES, "mode": "ask"}],
    "keep": [
        {"run": RUN, "last": 3, "at_least": 2, "milestones": 5, "synced": True, "best": "reward"}
    ],
    "sync": [
        {
            "run": RUN,
            "to": "b2://bucket/x",
            "every": 1,
            "milestones": 5,
            "keep_remote": 2,
            "limit_mib": 5.0,
            "weights": True,
            "once": False,
            "off": False,
        }
    ],
    "note": [{"run": RUN, "text": "a note", "checklist_every": 5, "checklist_step": 5}],
    "setup-stop": [{}],
    "handover": [{}],
    "release": [{"cursor": "1:0"}],
    "launch": [{**LAUNCH, "preflight": True, "wait": True}, HASH],
    "setup": [HASH],
    "restore": [HASH],
    "merge": [HASH],
    "backup": [HASH],
    "playbook": [{**HASH, "playbook": RELAUNCHES}],
}
WRONG: list[Any] = [
    *(None, 5, -1, 2.5, 10**40, float("nan"), True, False, "", "x", "a\0b", "~", "../..", "\ud800"),
    *([], [5], [[]], [None], ["a\0b"], {}, {"a": 5}, {"a": []}, {"": {}}, {"a": {"b": None}}),
]
#: What is told in a sentence that names the field.
NAMED: list[tuple[str, dict[str, Any], str]] = [
    ("launch", {**LAUNCH, "overrides": 5}, "`overrides` is no list of words"),
    ("launch", {**LAUNCH, "overrides": "--a"}, "`overrides` is no list of words"),
    ("launch", {**LAUNCH, "overrides": [["--a"]]}, "`overrides` is no text"),
    ("launch", {**LAUNCH, "cwd": {}}, "`cwd` is no text"),
    ("launch", {**LAUNCH, "config": "a\0b"}, "`config` has a NUL character"),
    ("launch", {**LAUNCH, "env": {"A": []}}, "`env.A` is no text"),
    ("launch", {**LAUNCH, "resume": True}, "True is no step to resume from"),
    ("plan", {"launch": {**LAUNCH, "overrides": 5}}, "`overrides` is no list of words"),
    ("plan", {"setup": {**RECIPE, "sync": 5}}, "`sync` is no list of words"),
    ("plan", {"setup": {**RECIPE, "environments": 5}}, "`environments` is no list of words"),
    ("plan", {"setup": {**RECIPE, "secrets": 5}}, "`secrets` is no list of words"),
    ("plan", {"setup": {**RECIPE, "variables": 5}}, "`variables` of a recipe is a table"),
    ("plan", {"setup": {**RECIPE, "uv_archives": {"x86_64": 5}}}, "is a table"),
    ("plan", {"setup": {"trainer": "credentials", "secrets": 5}}, "`secrets` is no list of words"),
]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoppingAgent]:
    """An agent that accepts and refuses, and carries nothing out."""

    def started(self: ActionExecutor, kind: Any, asked: Any, run: str, plan: Any, **_: Any) -> None:
        self.accept(asked, run)
        self.locks.let_go(kind.hold(run), asked.key)
        self.end(asked.key, "done")

    monkeypatch.setattr(ActionExecutor, "_start", started)
    monkeypatch.setattr(ActionExecutor, "start", lambda *_: True)
    monkeypatch.setattr(Departure, "_leave", lambda *_: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    made = StoppingAgent(tmp_path)
    made.runs.register(made.spec())
    yield made
    made.close()


def variants(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield `body` with each field replaced by each wrong value, and the fields of its tables."""
    for name, value in body.items():
        for wrong in WRONG:
            yield {**body, name: wrong}
        yield {other: kept for other, kept in body.items() if other != name}
        if isinstance(value, Mapping):
            for inner in variants(value):
                yield {**body, name: inner}


def test_the_table_has_every_kind(agent: StoppingAgent) -> None:
    assert set(BODIES) == set(agent.actions._kinds)
    planned = {name for body in BODIES["plan"] for name in body}
    assert set(NAMES) <= planned


@pytest.mark.parametrize("kind", BODIES)
def test_a_field_of_any_form_is_answered(agent: StoppingAgent, kind: str) -> None:
    for body in BODIES[kind]:
        for variant in variants({**body, "home": agent.actions.executor.home}):
            said = answered(agent, {"key": ulid(), "kind": kind, **variant})
            assert said == "accepted" or said.rstrip().endswith((".", ")")), (variant, said)


def answered(agent: StoppingAgent, body: dict[str, Any]) -> str:
    """Return "accepted" or the sentence of the refusal. Every other error fails the test."""
    try:
        return str(agent.actions.submit(body, "alice")["state"])
    except AgentError as error:
        return error.message
    except Exception as error:  # noqa: BLE001
        pytest.fail(f"{body!r}: {error!r}")


@pytest.mark.parametrize(("kind", "body", "sentence"), NAMED)
def test_the_sentence_names_the_field(
    agent: StoppingAgent, kind: str, body: dict[str, Any], sentence: str
) -> None:
    before = len(list(agent.book.records()))
    with pytest.raises(BadRequest) as raised:
        agent.submit({"kind": kind, **body}, "alice")
    assert sentence in raised.value.message
    assert len(list(agent.book.records())) == before
