"""A whole preflight on real practice pods: nothing against a healthy one, and everything named that
was broken in one go.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bs4_console.preflight.examine import Preflight, Wanted, examine
from bs4_practice import faults, stubs
from bs4_practice.miniature.install import site_packages
from bs4_practice.stage import Stage, staged
from bs4_practice.workspace import MODEL
from tests.support.services import KEY, TOKEN, Services, serving

pytestmark = [pytest.mark.long, pytest.mark.beside]

OLD, NEW = "prime-rl-2026-01", "prime-rl"
#: What this machine decides and not the pod: its limits, the Python that the practice environment
#: is made from, its disk.
OF_THE_MACHINE = {
    "fd-limit-low",
    "stack",
    "disk-high",
    "disk-full",
    "disk-next-checkpoint",
    "dev-shm-full",
    # The miniature trainer has none of the real one's source.
    "trainer-source",
}
HEALTHY = {
    OLD: {
        "seq_len = 512\n": "clean = false\n",
        "[ckpt]": "[ckpt]\nkeep_last = 2",
        "[orchestrator]": "[orchestrator]\nseq_len = 512",
        "[trainer.optim]": "[trainer.model]\nseq_len = 512\n\n[trainer.optim]",
        "[inference.server]": "[inference.model]\nenforce_eager = true\n\n[inference.server]",
    },
    NEW: {
        "[ckpt]": "[ckpt]\nkeep_last = 2",
        "[orchestrator]": '[orchestrator.renderer]\nname = "default"\n\n[orchestrator]',
    },
}
WANDB = {
    OLD: '\n[wandb]\nproject = "practice"\nname = "one"\n',
    NEW: '\n[monitors.wandb]\nproject = "practice"\nname = "one"\n',
}


@contextlib.asynccontextmanager
async def practising(trainer: str) -> AsyncIterator[tuple[Stage, Services]]:
    """A healthy pod: a config that lint has nothing against, all credentials good, services that
    answer.
    """
    with serving() as services:
        services.models[MODEL] = {"gated": False}
        async with staged(trainer) as stage:
            text = stage.pod.config_path.read_text()
            for old, new in HEALTHY[trainer].items():
                assert old in text
                text = text.replace(old, new, 1)
            stage.pod.config_path.write_text(text + WANDB[trainer])
            token = stage.pod.home / ".cache" / "huggingface" / "token"
            token.write_text(TOKEN)
            netrc = stage.pod.home / ".netrc"
            netrc.write_text(f"machine api.wandb.ai\n  login user\n  password {KEY}\n")
            netrc.chmod(0o600)
            yield stage, services


async def look(stage: Stage, services: Services, **more: object) -> Preflight:
    wanted = Wanted(
        trainer=stage.trainer, config="configs/rl.toml", run="demo", urls=services.urls, **more
    )  # type: ignore[arg-type]
    found = await asyncio.wait_for(examine(stage.session, wanted), 240)
    told = json.dumps([check.as_dict() for check in found.checks]) + json.dumps(dict(found.facts))
    assert TOKEN not in told
    assert KEY not in told
    assert not [
        check for check in found.checks if check.state in ("warning", "blocking") and not check.fix
    ]
    return found


def states(found: Preflight, state: str) -> set[str]:
    return {check.id for check in found.checks if check.state == state}


async def break_everything(stage: Stage, services: Services) -> None:
    """As it comes about: a port taken, GPU memory left behind, an environment gone, another
    prime-rl installed, keys that expired, a config that was edited, a model that lost its licence,
    a checkpoint on one side only, and a clock that is late.
    """
    pod = stage.pod
    await faults.hold_port(pod, pod.api_port)
    if pod.library is not None:
        await faults.start_orphan_engine(pod)
    packages = site_packages(pod.project)
    shutil.rmtree(packages / "reverse_text")
    (next(packages.glob("prime_rl-*.dist-info")) / "METADATA").unlink()
    next(packages.glob("prime_rl-*.dist-info")).rmdir()
    (pod.home / ".cache" / "huggingface" / "token").write_text("hf_expired")
    (pod.home / ".netrc").write_text("machine api.wandb.ai\n  login user\n  password expired\n")
    with pod.config_path.open("a") as config:
        config.write("\n[config]\nversion = 3\n")
    stubs.forget_model(stage)
    services.models[MODEL] = {"gated": "manual"}
    step = (
        pod.run_dir
        / ("run_default/checkpoints" if stage.trainer == OLD else "checkpoints")
        / "step_15"
        / "orchestrator"
    )
    step.mkdir(parents=True)
    (step / "progress.pt").write_bytes(b"x")
    services.date = 1_000_000_000.0


BROKEN = {
    "port-in-use",
    "env-not-installed",
    "P06",
    "hub-auth",
    "wandb-auth",
    "R15",
    "hub-gated",
    "clock",
    "stale-checkpoint-deadlock",
}


@pytest.mark.parametrize("trainer", [OLD, NEW])
async def test_a_healthy_pod_has_nothing_against_it_and_a_broken_one_all_that_is_broken(
    trainer: str,
) -> None:
    async with practising(trainer) as (stage, services):
        found = await look(stage, services)
        bad = {
            (check.id, check.state, check.why)
            for check in found.checks
            if check.state != "ok" and check.id not in OF_THE_MACHINE
        }
        assert bad == set()
        assert {
            "launch",
            "port-in-use",
            "stale-gpu-process",
            "env-not-installed",
            "hub-auth",
            "model-not-found",
            "clock",
        } <= states(found, "ok")
        assert not (stage.pod.run_dir / "logs").exists()  # it started nothing
        before = sorted(str(path) for path in stage.pod.project.rglob("*"))

        await break_everything(stage, services)
        found = await look(stage, services)
        expected = BROKEN | ({"stale-gpu-process"} if stage.pod.library is not None else set())
        assert expected <= states(found, "blocking"), found.checks
        held = next(
            check
            for check in found.checks
            if check.id == "port-in-use" and check.state == "blocking"
        )
        assert str(stage.pod.api_port) in held.why
        added = set(map(str, stage.pod.project.rglob("*"))) - set(before) - await followed(stage)
        assert {Path(name).name for name in added} <= {
            "step_15",
            "orchestrator",
            "progress.pt",
            "checkpoints",
            "run_default",
            "outputs",
            stage.pod.run_name,
        }


async def followed(stage: Stage) -> set[str]:
    """What the agent keeps of runs. None was launched, but a server that this test starts by hand
    is one to the agent, if it looks for such starts before that server is killed: a matter of the
    machine's load.
    """
    kept = stage.pod.project / ".bs4"
    if not kept.exists():
        return set()
    await stage.until(
        lambda: {place.name for place in kept.iterdir()} <= set(stage.session.state.runs),
        60,
        "its runs alone there",
    )
    assert "demo" not in stage.session.state.runs
    return {str(path) for path in (kept, *kept.rglob("*"))}


async def test_what_cannot_be_asked_is_unknown_and_the_pod_alone_needs_no_config() -> None:
    async with staged(NEW) as stage:
        found = await asyncio.wait_for(examine(stage.session, Wanted()), 240)
        assert not {"launch", "config-rejected"} & {check.id for check in found.checks}
        (stage.pod.home / ".cache" / "huggingface" / "token").write_text(TOKEN)
        shutil.rmtree(stage.pod.project / ".venv")
        found = await asyncio.wait_for(
            examine(stage.session, Wanted(trainer=NEW, config="configs/rl.toml", run="demo")), 240
        )
        # nobody answers where its services would be
        assert {"hub-auth", "stack", "env-not-installed"} <= states(found, "unknown")
        assert "uv-missing" in states(found, "blocking")
        gone = await asyncio.wait_for(
            examine(stage.session, Wanted(trainer=NEW, config="configs/none.toml", run="demo")), 240
        )
        assert [(check.id, check.state) for check in gone.checks] == [
            ("config-rejected", "blocking")
        ]
