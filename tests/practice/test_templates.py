"""The configs of practice pods, by the sizes that the look before a start reckons with."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_common.trainers import verl_needs
from bs4_common.trainers.base import LaunchSpec
from bs4_console.preflight import start
from bs4_console.preflight.checks import GIB, Wanted
from bs4_practice import workspace


@pytest.mark.parametrize(("config", "component"), [("rl", "rl"), ("sft", "sft")])
def test_the_checkpoints_of_verls_configs_fit_a_small_disk(
    config: str, component: str, short_dir: Path
) -> None:
    """Of their own model, a hundred of them: no practice machine is refused for its disk."""
    pod = workspace.create("small", "verl", short_dir / "w")
    spec = LaunchSpec(
        run="demo",
        trainer="verl",
        config=Path(f"configs/{config}.toml"),
        cwd=pod.project,
        output_dir=pod.project / "outputs",
        component=component,
    )
    needs = verl_needs.needs(spec, {})
    assert (needs["keep_last"], needs["interval"]) == (100, 5)
    assert (pod.project / needs["model"] / "config.json").is_file()
    wanted = Wanted(trainer="verl", config=str(spec.config), run="demo")
    for free, state in ((4 * GIB, "ok"), (0.5 * GIB, "blocking")):
        checks = start.judge({**needs, "checkpoints": [], "disk": {"free": free}}, wanted)  # type: ignore[typeddict-item]
        assert [one.state for one in checks if one.id == "disk-next-checkpoint"] == [state]
