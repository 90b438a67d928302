"""What a launch leaves open, out of the config on the pod."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_console.errors import RemoteError, UsageError
from bs4_console.launch import config, guide
from bs4_console.launch.guide import LaunchRequest

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "configs").glob("*/*.toml"))
RL = "[trainer]\nsave_freq = 5\n[actor_rollout_ref.rollout]\nn = 4\n"
SFT = "[trainer]\nsave_freq = 5\n[model]\npartial_pretrain = 'a/b'\n"
OPEN = LaunchRequest(run="demo", trainer="", config="c.toml", cwd="", component="")


class Pod:
    """Configs by directory."""

    def __init__(self, **files: str) -> None:
        self.files, self.asked = files, list[str]()

    async def query(self, stream: str, op: str, **body: Any) -> dict[str, Any]:
        assert (stream, op) == ("preflight", "config")
        self.asked.append(body["cwd"])
        if (text := self.files.get(body["cwd"].replace("-", "_"))) is None:
            raise RemoteError("bad-config", "It cannot be read.")
        return {"files": [[f"/root/{body['cwd']}/c.toml", text]]}


async def resolved(pod: Pod, asked: LaunchRequest, **more: Any) -> LaunchRequest:
    return await config.resolved(pod, asked, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "component"), [(RL, "rl"), (SFT, "sft")])
async def test_a_config_of_verl_says_that_it_is_one(text: str, component: str) -> None:
    pod = Pod(verl=text)
    assert await resolved(pod, OPEN) == replace(
        OPEN, trainer="verl", component=component, cwd="verl"
    )
    assert pod.asked == ["prime-rl", "verl"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_examples_are_told_apart(path: Path) -> None:
    found = config.told(path.read_text())
    assert found == (
        None if path.parent.name != "verl" else ("verl", "sft" if "-sft-" in path.name else "rl")
    )


async def test_what_was_said_stands() -> None:
    pod = Pod(elsewhere=SFT)
    asked = replace(OPEN, trainer="verl", component="rl", cwd="elsewhere")
    assert await resolved(pod, asked) == asked
    old = replace(OPEN, trainer="prime-rl")
    assert await resolved(Pod(), old) == replace(old, cwd="prime-rl", component="rl")
    # Before a set-up there is nothing to read.
    pod = Pod()
    assert await resolved(pod, old, setup=True) == replace(old, cwd="prime-rl", component="rl")
    assert pod.asked == []


async def test_another_trainer_than_the_configs_is_a_mistake() -> None:
    with pytest.raises(UsageError, match=r"a config of verl, not of prime-rl") as error:
        await resolved(Pod(prime_rl=RL), replace(OPEN, trainer="prime-rl"))
    assert "Name verl" in error.value.next_step


@pytest.mark.parametrize(
    "pod", [Pod(prime_rl="[orchestrator]\nbatch_size = 8\n"), Pod(prime_rl="[broken")]
)
async def test_which_prime_rl_it_is_has_to_be_said(pod: Pod) -> None:
    with pytest.raises(UsageError, match=r"^c.toml does not tell which trainer"):
        await resolved(pod, OPEN)
    assert await resolved(pod, OPEN, otherwise="prime-rl") == replace(
        OPEN, trainer="prime-rl", cwd="prime-rl", component="rl"
    )


async def test_a_config_that_is_not_there_is_nobodys() -> None:
    with pytest.raises(
        UsageError, match=r"^c.toml cannot be read in prime-rl or verl, so it does not tell"
    ):
        await resolved(Pod(), OPEN, otherwise="prime-rl")
    with pytest.raises(UsageError, match=r"^/srv/c.toml cannot be read, so"):
        await resolved(Pod(), replace(OPEN, config="/srv/c.toml"))
    said = replace(OPEN, trainer="verl", cwd="verl", component="rl")
    assert await resolved(Pod(), said) == said, (
        "the look before the start says what is wrong with it"
    )


@pytest.mark.parametrize(("trainer", "source"), [("verl", "trainer"), ("prime-rl", "launcher")])
def test_a_start_that_failed_names_the_log_that_says_why(trainer: str, source: str) -> None:
    """verl prints through its driver, so there is no log of a launcher."""
    state = SimpleNamespace(
        name="p", runs={"demo": SimpleNamespace(view=SimpleNamespace(trainer=trainer))}, streams=[]
    )
    action = SimpleNamespace(run="demo", state="failed", detail="it ended", result={})
    assert f"--source {source}`" in guide.verdict(action, state)[1]  # type: ignore[arg-type]
    state.streams = ["log/demo/eval", "log/other/launcher"]
    assert "--source eval`" in guide.verdict(action, state)[1]  # type: ignore[arg-type]


async def test_another_error_of_the_pod_is_no_missing_config() -> None:
    class Broken(Pod):
        async def query(self, stream: str, op: str, **body: Any) -> dict[str, Any]:
            raise RemoteError("unknown-stream", "There is none.")

    with pytest.raises(RemoteError):
        await resolved(Broken(), OPEN)
