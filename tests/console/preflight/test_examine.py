"""The whole of a preflight over an agent that answers by hand: order, slices, hostile answers, and
the level.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
import types
from typing import Any

import pytest

from bs4_console.errors import ChannelLost, NotApplicableError, RemoteError
from bs4_console.preflight import questions
from bs4_console.preflight.examine import Check, Preflight, Wanted, examine
from tests.console.preflight.test_pod import pod
from tests.console.preflight.test_services import GOOD, model
from tests.console.preflight.test_stack import VERSIONS
from tests.console.preflight.test_start import run

OLD = "prime-rl-2026-01"
CONFIG = """
seq_len = 4096
[model]
name = "own/small"
[ckpt]
interval = 5
keep_last = 2
[orchestrator]
batch_size = 64
rollouts_per_example = 4
[orchestrator.sampling]
max_tokens = 1024
[[orchestrator.env]]
id = "reverse-text"
[inference.model]
max_model_len = 4096
enforce_eager = true
[trainer.optim]
lr = 1e-5
"""
FACTS = {
    "pod": pod(environment={}),
    "run": run(
        model="own/small-8B",
        command="uv run rl @ rl.toml --ckpt --ckpt.interval 5 --ckpt.keep-last 2",
    ),
    "schema": {"class": "prime_rl.rl.RLConfig", "errors": [], "warnings": []},
    "stack": {"python": "/p", "versions": VERSIONS[OLD], "imports": {"reverse_text": None}},
    "services": {
        "hub": GOOD,
        "wandb": GOOD,
        "b2": {**GOOD, "missing": []},
        "model": model(),
        "clock": None,
    },
}


#: What is unknown of every pod here, because none has the source of a trainer.
NO_SOURCE = ("trainer-source",)


class Agent:
    """Answers `look` in as many slices as it has parts."""

    def __init__(self, facts: Any = None, config: str = CONFIG, *, endless: bool = False) -> None:
        self.facts = FACTS if facts is None else facts
        self.config, self.endless = config, endless
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        assert stream == "preflight"
        if op == "source":
            return {"root": "", "files": [], "refused": [], "next": None}
        self.asked.append((op, parameters))
        if op == "clock":
            return {"t": time.time()}
        if op == "config":
            if not self.config:
                raise RemoteError("bad-config", "The config cannot be read.")
            return {"files": [["/home/u/prime-rl/rl.toml", self.config]]}
        count = sum(1 for name, _ in self.asked if name == "look")
        parts = (
            dict(list(self.facts.items())[:count]) if isinstance(self.facts, dict) else self.facts
        )
        done = not self.endless and (
            not isinstance(self.facts, dict) or len(parts) == len(self.facts)
        )
        waiting = [name for name in FACTS if name not in parts]
        return {"facts": parts, "waiting": waiting, "next": None if done else parameters}


START = Wanted(trainer=OLD, config="rl.toml", run="demo")


async def test_a_good_start_has_nothing_against_it() -> None:
    agent = Agent()
    found = await examine(agent, START)
    bad = [
        (check.id, check.why)
        for check in found.checks
        if check.state != "ok" and check.id not in ("R02", "R22", *NO_SOURCE)
    ]
    assert bad == []
    assert found.blocking == ()
    assert [op for op, _ in agent.asked].count("look") == len(FACTS)
    assert agent.asked[-1][1]["resume"] == "auto"


async def test_the_source_is_asked_for_while_the_pod_examines_itself_and_forbids_nothing() -> None:
    """Each is answered only once the other was asked for, so that they cost no time together."""
    asked, looked = asyncio.Event(), asyncio.Event()

    class Slow(Agent):
        async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
            if op == "source":
                asked.set()
                await looked.wait()
                raise RemoteError("bad-request", "'source' is no question of a preflight")
            if op == "look":
                looked.set()
                await asyncio.wait_for(asked.wait(), 60)
            return await super().query(stream, op, **parameters)

    found = await examine(Slow(), START)
    (check,) = [check for check in found.checks if check.id == "trainer-source"]
    assert (check.state, found.blocking, found.level) == ("unknown", (), 3)
    assert "older than this console" in check.why


async def test_a_look_that_fails_leaves_no_question_behind() -> None:
    class Failing(Agent):
        async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
            if op == "source":
                await asyncio.Event().wait()
            if op == "look":
                raise RemoteError("bad-request", "4 preflights are under way on this pod")
            return await super().query(stream, op, **parameters)

    with pytest.raises(RemoteError):
        await examine(Failing(), START)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_pod_alone_asks_for_no_config_and_no_run() -> None:
    agent = Agent({"pod": FACTS["pod"], "stack": FACTS["stack"], "services": FACTS["services"]})
    found = await examine(agent, Wanted())
    assert "config" not in [op for op, _ in agent.asked]
    assert "trainer" not in agent.asked[-1][1]
    assert not {"launch", "disk-next-checkpoint"} & {check.id for check in found.checks}
    assert found.level == 0


async def test_lint_speaks_with_the_lines_of_the_pods_file() -> None:
    found = await examine(
        Agent(config=CONFIG.replace("max_tokens = 1024", "max_tokens = 4000\ntop_p = 0.9")), START
    )
    by_id = {check.id: check for check in found.checks}
    assert (by_id["R05"].state, by_id["R05"].title) == ("blocking", "rl.toml, line 13")
    assert by_id["R08"].state == "blocking"
    assert "config-rejected" not in by_id
    assert found.level == 2


async def test_of_a_config_that_cannot_be_read_nothing_else_is_said() -> None:
    """A start without it would have another step, other GPUs and another model."""
    found = await examine(Agent(FACTS, config=""), START)
    (check,) = found.checks
    assert (check.id, check.state) == ("config-rejected", "blocking")
    assert check.why == "The config cannot be read."
    assert check.fix == "Name a file that exists on the pod."


async def test_a_model_that_lint_refuses_is_not_refused_twice() -> None:
    name = "mistralai/Ministral-3-8B-Instruct-2512"
    facts = {
        **FACTS,
        "run": run(model=name),
        "services": {**FACTS["services"], "model": model(id=name)},
    }
    found = await examine(Agent(facts, config=CONFIG.replace("own/small", name)), START)
    assert [check.id for check in found.blocking] == ["R24"]


async def test_what_does_not_answer_in_time_is_unknown_and_never_ok() -> None:
    found = await examine(Agent({"pod": FACTS["pod"]}, endless=True), START, timeout=0.0)
    unknown = {check.id for check in found.of("unknown")}
    assert {"launch", "hub-auth", "env-not-installed", "stack", "disk-next-checkpoint"} <= unknown
    assert found.level == 3
    assert "within 0 s" in found.of("unknown")[0].why


async def test_the_config_of_a_part_by_itself_is_judged_by_its_own_schema() -> None:
    inference = dataclasses.replace(START, component="inference")
    found = await examine(Agent(config="[server]\nport = 1\n"), inference)
    assert [
        check.state for check in found.checks if check.id in ("config-rejected", "toml", "schema")
    ] == ["ok"]
    assert found.blocking == ()
    agent = Agent(
        {**FACTS, "schema": {"unknown": "it cannot be imported"}},
        config='[server]\nport = "x"\n[orchestrator]\nseed = 1\n',
    )
    found = await examine(agent, inference)
    told = [(check.state, check.title) for check in found.checks if check.id == "schema"]
    assert told == [
        ("blocking", "rl.toml, line 2"),
        ("blocking", "rl.toml, line 3"),
        ("unknown", "the trainer's own schema"),
    ]


async def test_the_trainers_own_classes_are_right_of_the_two() -> None:
    """A key that only the shipped schema does not know is no error; one that only the trainer does
    not know is one, on its line.
    """
    config = CONFIG.replace("[trainer.optim]", "[trainer.model]\nbrand_new = 1\n[trainer.optim]")
    refused = (await examine(Agent({**FACTS, "schema": {"unknown": "-"}}, config), START)).blocking
    assert [check.id for check in refused] == ["schema"]
    assert (await examine(Agent(config=config), START)).blocking == ()
    own = [
        {
            "loc": ["orchestrator", "batch_size"],
            "kind": "extra_forbidden",
            "message": "Extra inputs are not permitted",
        }
    ]
    agent = Agent(
        {**FACTS, "schema": {"class": "prime_rl.rl.RLConfig", "errors": own, "warnings": []}}
    )
    (check,) = (await examine(agent, START)).blocking
    line = CONFIG.split("\n").index("batch_size = 64") + 1
    assert (check.id, check.title) == ("schema", f"rl.toml, line {line}")
    assert "prime_rl.rl.RLConfig on the pod" in check.fix


async def test_the_memory_of_a_gpu_is_reckoned_from_the_config_on_the_pod() -> None:
    config = CONFIG.replace("own/small", "Qwen/Qwen3-8B")
    found = await examine(Agent(config=config), START)
    told = "\n".join(found.memory)
    assert "8B x 4 bytes / 1 GPU" in told
    assert "of 80 a GPU: DOES NOT FIT" in told, (
        "all weights of 8B with their optimizer are more than one GPU"
    )
    assert (
        "Not estimated"
        in (
            await examine(
                Agent({**FACTS, "pod": pod(gpus={"devices": []}, environment={})}, config), START
            )
        ).memory[0]
    )
    unsized = (await examine(Agent(), START)).memory
    assert unsized == ("Not estimated: The name own/small does not say how large the model is.",)
    assert (
        await examine(Agent(config=config), dataclasses.replace(START, component="inference"))
    ).memory == ()


class Cut(Agent):
    """A session whose link is lost in the first look."""

    state = types.SimpleNamespace(name="far")

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        if op == "look" and "look" not in [name for name, _ in self.asked]:
            self.asked.append((op, parameters))
            raise ChannelLost("The connection ended.", "It is being made again.")
        return await super().query(stream, op, **parameters)


async def test_a_look_survives_a_link_that_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_AGAIN_S", 0.0)
    found = await examine(Cut(), START)
    assert found.blocking == ()
    with pytest.raises(ChannelLost):
        await examine(Cut(), START, timeout=0.0)


async def test_an_agent_that_knows_no_preflight_is_to_be_replaced() -> None:
    class Old(Agent):
        async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
            raise RemoteError("unknown-stream", "There is no stream 'preflight'")

    with pytest.raises(NotApplicableError, match="older than this console"):
        await examine(Old(), START)


HOSTILE: list[Any] = [
    [],
    "no",
    {"pod": 3, "run": [], "stack": None, "services": "x"},
    {
        "pod": {"gpus": 7},
        "run": {},
        "stack": {"python": 1, "versions": [], "imports": 2},
        "services": {"hub": 1, "model": []},
    },
    {
        "pod": {"gpus": {"state": "ok", "devices": [1, {"index": {}}], "holders": [None]}},
        "run": {"ports": [{}], "findings": [{}], "checkpoints": [{"step": "x"}]},
        "stack": {"python": "/p", "versions": {"torch": 3}, "imports": {"x": 4}},
        "services": {"clock": {"offset_s": "no"}},
    },
    {
        "pod": {
            "gpus": {
                "state": "ok",
                "devices": [{"index": {}, "used": 5e9}],
                "holders": [{"gpu": {}, "run": ["x"]}],
            }
        },
        "run": {
            "ports": [{"port": {}, "holder": 3}],
            "keep_last": float("inf"),
            "interval": 0,
            "checkpoints": [{"step": float("inf")}],
        },
        "stack": {"python": "/p", "versions": {"torch": "x", "cuda": "."}, "imports": {"x": None}},
        "services": {
            "clock": {"offset_s": float("nan")},
            "model": {"id": 3, "status": 404, "config": {"architectures": 3}},
        },
    },
]


@pytest.mark.parametrize("facts", HOSTILE)
async def test_a_hostile_agent_makes_unknowns_and_no_traceback(facts: Any) -> None:
    found = await examine(Agent(facts), START)
    assert found.level in (2, 3)


def test_the_level_counts_as_check_does() -> None:
    def level(*states: Any) -> int:
        return Preflight(tuple(Check("x", "x", state, "") for state in states)).level

    assert (
        level("ok"),
        level("ok", "warning"),
        level("warning", "unknown"),
        level("unknown", "blocking", "ok"),
    ) == (0, 1, 3, 2)
    assert level() == 3


@pytest.mark.parametrize("config", ["configs/rl.toml", "/home/u/prime-rl/configs/rl.toml"])
@pytest.mark.parametrize(
    ("text", "refused"), [("[optim]\nlr = 1e-6\n", []), ("no_such = 1\n", [True])]
)
async def test_a_file_that_an_option_names_is_judged_as_it_lies_on_the_pod(
    config: str, text: str, refused: list[bool]
) -> None:
    """It was looked for on this machine, so that every launch with one was refused."""
    words = ("--trainer", "@", "parts/trainer.toml")

    class Named(Agent):
        async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
            answer = await super().query(stream, op, **parameters)
            if op == "config":
                assert parameters["named"] == ["parts/trainer.toml"]
                return {
                    "files": [
                        ["/home/u/prime-rl/configs/rl.toml", CONFIG],
                        ["/home/u/prime-rl/parts/trainer.toml", text],
                    ]
                }
            return answer

    command = f"uv run rl @ {config} {' '.join(words)} --ckpt --ckpt.interval 5"
    facts = {
        **FACTS,
        "run": run(model="own/small-8B", command=command),
        "schema": {"unknown": "it cannot be imported"},
    }
    found = await examine(Named(facts), dataclasses.replace(START, config=config, overrides=words))
    assert ["no_such" in check.why for check in found.blocking] == refused
