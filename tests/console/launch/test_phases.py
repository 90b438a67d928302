"""Phase files, and when a phase of a run is over: by what is saved, by the rewards, by hand; never
by a link that was lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bs4_console.errors import RefusedError, UsageError
from bs4_console.launch import phases
from bs4_console.launch.phases import Until
from bs4_console.pods.state import PodState

GOOD = """
run = "curriculum"
trainer = "prime-rl-2026-01"
output_dir = "outputs/curriculum"
[[phases]]
name = "bootstrap"
config = "configs/bootstrap.toml"
until = { step = 200 }
[[phases]]
name = "primer"
config = "configs/primer.toml"
until = { reward = 0.3, steps = 4 }
overrides = ["--max-steps", "400"]
[[phases]]
config = "configs/tiered.toml"
until = { by = "hand" }
[[phases]]
config = "configs/all.toml"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "phases.toml"
    path.write_text(text)
    return path


def test_a_phase_file_is_read_whole(tmp_path: Path) -> None:
    found = phases.read(written(tmp_path, GOOD))
    assert [phase.name for phase in found.phases] == ["bootstrap", "primer", "tiered", "all"]
    assert [phase.until for phase in found.phases] == [
        Until(step=200),
        Until(reward=0.3, steps=4),
        Until(by_hand=True),
        Until(),
    ]
    asked = found.asked(found.phases[1])
    assert (asked.run, asked.config, asked.output_dir, asked.resume) == (
        "curriculum",
        "configs/primer.toml",
        "outputs/curriculum",
        "auto",
    )
    assert asked.overrides == ("--max-steps", "400")
    assert found.after(found.phases[0]) == found.phases[1]
    assert found.after(found.phases[3]) is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('run = "curriculum"', ""), "has no run"),
        (("prime-rl-2026-01", "prime"), "no trainer 'prime'"),
        (("until = { step = 200 }", ""), "phase 1 does not say when it is over"),
        (("{ step = 200 }", '{ step = "soon" }'), "until of phase 1 is"),
        (("{ step = 200 }", "{ step = 200, reward = 1 }"), "until of phase 1 is"),
        (("reward = 0.3, steps = 4", "reward = 0.3"), "until of phase 2 is"),
        (('by = "hand"', 'by = "luck"'), "until of phase 3 is"),
        (('name = "primer"', 'name = "bootstrap"'), "two phases have the same name"),
        (('config = "configs/bootstrap.toml"', ""), "phase 1 names no config"),
        (("until = { step", "untill = { step"), "'untill', which nobody reads"),
        (('["--max-steps", "400"]', '"--max-steps 400"'), "overrides of phase 2"),
        (("[[phases]]", "[phases]"), "is not TOML"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_place(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        phases.read(written(tmp_path, GOOD.replace(*change)))


class Live:
    """A session as far as phases look at one: a state, the pod's answer about checkpoints, and its
    plans.
    """

    def __init__(self, resumable: int | None = None) -> None:
        self.state = PodState(name="pod")
        self.resumable = resumable
        self.config: dict[str, Any] = {"lora_name": "a"}
        self.resume: int | None = resumable
        self._seq = 0
        self.journal(
            "run", event="registered", run="curriculum", trainer="prime-rl-2026-01", config="c.toml"
        )

    def journal(self, type_: str, **fields: Any) -> None:
        self._seq += 1
        self.state.apply_journal(
            {
                "t": float(self._seq),
                "m": 1.0,
                "b": "b",
                "seq": self._seq,
                "prev": "",
                "type": type_,
                **fields,
            }
        )

    def launched(self, phase: str, lora: str = "a") -> None:
        plan = {"record": {"phase": phase} if phase else {}, "config": {"lora_name": lora}}
        key = f"K{self._seq:025}"
        self.journal(
            "action",
            action=key,
            kind="launch",
            run="curriculum",
            event="accepted",
            body={"plan": plan},
        )
        self.journal(
            "action", action=key, run="curriculum", event="done", result={"attempt": 1, "step": 1}
        )
        self.journal("run", event="attempt-started", run="curriculum", attempt=1)

    def rewards(self, *values: float) -> None:
        for step, value in enumerate(values):
            self.state.apply_step(
                "curriculum", {"t": 1.0, "side": "orchestrator", "step": step, "reward": value}
            )

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        assert (stream, op, parameters) == ("checkpoints", "list", {"run": "curriculum"})
        return {"checkpoints": [], "resumable": self.resumable, "next": None}

    async def submit(self, kind: str, **body: Any) -> str:
        assert kind == "plan"
        key = f"P{self._seq:025}"
        plan = {
            "config": self.config,
            "resume": self.resume,
            "asked": body["launch"],
            "record": body["record"],
        }
        self.journal("action", action=key, kind="plan", run="curriculum", event="accepted")
        self.journal(
            "plan", action=key, playbook="launch", run="curriculum", plan_hash=key, plan=plan
        )
        self.journal("action", action=key, run="curriculum", event="done")
        return key

    async def follow_action(self, key: str) -> Any:
        yield self.state.ledger.actions[key]


@pytest.fixture
def wanted(tmp_path: Path) -> phases.Phases:
    return phases.read(written(tmp_path, GOOD))


async def test_before_the_first_launch_there_is_no_phase(wanted: phases.Phases) -> None:
    now = await phases.standing(Live(), wanted)  # type: ignore[arg-type]
    assert (now.phase, now.due) == (None, False)


@pytest.mark.parametrize(("saved", "due"), [(None, False), (199, False), (200, True), (205, True)])
async def test_a_step_counts_when_it_is_saved_whole(
    wanted: phases.Phases, saved: int | None, due: bool
) -> None:
    live = Live(saved)
    live.launched("bootstrap")
    live.state.apply_step("curriculum", {"t": 1.0, "side": "trainer", "step": 230})
    now = await phases.standing(live, wanted)  # type: ignore[arg-type]
    assert (now.phase and now.phase.name, now.due, now.resumable, now.live) == (
        "bootstrap",
        due,
        saved,
        True,
    )
    assert "200 is wanted" in now.why


@pytest.mark.parametrize(
    ("rewards", "saved", "due"),
    [
        ((0.4, 0.4), 5, False),
        ((0.1, 0.2, 0.3, 0.5), 5, False),
        ((0.0, 0.3, 0.3, 0.3, 0.3), 5, True),
        ((0.3, 0.3, 0.3, 0.3), None, False),
    ],
)
async def test_the_reward_is_the_mean_of_the_last_steps(
    wanted: phases.Phases, rewards: tuple[float, ...], saved: int | None, due: bool
) -> None:
    live = Live(saved)
    live.launched("bootstrap")
    live.launched("primer")
    live.rewards(*rewards)
    assert (await phases.standing(live, wanted)).due is due  # type: ignore[arg-type]


async def test_by_hand_is_never_due_by_itself(wanted: phases.Phases) -> None:
    live = Live(1000)
    live.launched("tiered")
    now = await phases.standing(live, wanted)  # type: ignore[arg-type]
    assert (now.due, "by hand" in now.why) == (False, True)


async def test_a_run_that_is_not_of_the_file_is_left_alone(wanted: phases.Phases) -> None:
    for name, says in (("", "launched without phases"), ("warmup", "of phase 'warmup'")):
        live = Live(5)
        live.launched(name)
        with pytest.raises(UsageError, match=says):
            await phases.standing(live, wanted)  # type: ignore[arg-type]


async def test_a_switch_keeps_the_adapter_and_goes_on_from_a_checkpoint(
    wanted: phases.Phases,
) -> None:
    live = Live(205)
    live.launched("bootstrap")
    view = await phases.plan_of(live, wanted, wanted.phases[1], 2.0)  # type: ignore[arg-type]
    assert view.plan["record"] == {"price": 2.0, "phase": "primer"}
    assert view.plan["asked"]["resume"] == "auto"
    live.config = {"lora_name": "another"}
    with pytest.raises(RefusedError, match=r"names the adapter another, the run has a"):
        await phases.plan_of(live, wanted, wanted.phases[1], None)  # type: ignore[arg-type]
    live.config, live.resume = {"lora_name": "a"}, None
    with pytest.raises(RefusedError, match="no complete checkpoint that primer could go on from"):
        await phases.plan_of(live, wanted, wanted.phases[1], None)  # type: ignore[arg-type]
