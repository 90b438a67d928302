"""The world outside the pod: the model hub and W&B."""

from __future__ import annotations

from bs4_practice import stubs
from bs4_practice.person import edit_config, recover, restore_and_recover
from bs4_practice.scenario import BOTH, OLD, Act, Scenario, advance, nothing, start
from bs4_practice.stage import Stage


def hub_that_answers(status: int) -> Act:
    """Return a function that breaks a pod (the `inject` of a Scenario): it removes the model from
    the pod's cache, starts a model hub that answers requests without a token with the HTTP status
    `status`, and launches the run, which has no token. It does not wait for the run's first step.
    """

    async def act(stage: Stage) -> None:
        stubs.forget_model(stage)
        await stubs.start_hub(stage, status)
        await start(stage)

    return act


async def log_in(stage: Stage) -> None:
    """Save the token that the practice model hub accepts, as `hf auth login` does, and have the
    agent resume the run. Raises StageError if it cannot be resumed.
    """
    stubs.leave_token(stage)
    await recover(stage)


async def cut_off_from_the_hub(stage: Stage) -> None:
    """Remove the model from the pod's cache, and launch the run while no model hub answers. Does
    not wait for the run's first step. Raises StageError if the run cannot be started.
    """
    stubs.forget_model(stage)
    await start(stage)


async def bring_the_network_back(stage: Stage) -> None:
    """Start a model hub that asks for a token, save the token, and have the agent resume the run.
    Raises StageError if it cannot be resumed, and TimeoutError if the hub does not listen within 20
    seconds.
    """
    await stubs.start_hub(stage, 401)
    await log_in(stage)


async def name_a_model_nobody_has(stage: Stage) -> None:
    """Start a model hub, put the name of a model that the hub does not have into the config, and
    launch the run. Does not wait for the run's first step. Raises StageError if the run cannot be
    started.
    """
    await stubs.start_hub(stage, 401)
    edit_config(stage, {"model.name": "PrimeIntellect/Qwen3-0.6B-Reverse-Txt"})
    await start(stage)


def _monitor(stage: Stage, offline: bool = False) -> dict[str, object]:
    table = "wandb" if stage.trainer == OLD else "monitors.wandb"
    return {f"{table}.project": "practice", **({f"{table}.offline": True} if offline else {})}


async def report_without_a_key(stage: Stage) -> None:
    """Launch a run that is to report to W&B, on a pod that has no W&B key. Does not wait for the
    run's first step. Raises StageError if the run cannot be started.
    """
    edit_config(stage, _monitor(stage))
    await start(stage)


async def report_to_nobody(stage: Stage) -> None:
    """Save a W&B key in the pod's `~/.netrc`, and launch a run that is to report to W&B, which a
    practice pod cannot reach. Does not wait for the run's first step. Raises StageError if the run
    cannot be started.
    """
    netrc = stage.pod.home / ".netrc"
    netrc.touch(mode=0o600)
    netrc.write_text("machine api.wandb.ai\n  login user\n  password practice\n")
    await report_without_a_key(stage)


async def end_an_offline_run(stage: Stage) -> None:
    """Launch a run that writes its W&B records to files only (offline), wait until step 6 has
    finished, and stop it. The records are left unsent. Raises StageError if step 6 takes longer
    than two minutes.
    """
    edit_config(stage, _monitor(stage, offline=True))
    await stage.launch()
    await advance(stage, "demo", 6)
    await stage.must("stop", run="demo")


ALL = (
    Scenario("hub-auth", "hub-auth", BOTH, nothing, hub_that_answers(401), repair=log_in),
    Scenario("hub-gated", "hub-gated", BOTH, nothing, hub_that_answers(403), repair=log_in),
    Scenario(
        "hub-rate-limited", "hub-rate-limited", BOTH, nothing, hub_that_answers(429), repair=log_in
    ),
    Scenario(
        "hub-offline-uncached",
        "hub-offline-uncached",
        BOTH,
        nothing,
        cut_off_from_the_hub,
        repair=bring_the_network_back,
    ),
    Scenario(
        "model-not-found",
        "model-not-found",
        BOTH,
        nothing,
        name_a_model_nobody_has,
        repair=restore_and_recover,
    ),
    Scenario(
        "wandb-auth", "wandb-auth", BOTH, nothing, report_without_a_key, repair=restore_and_recover
    ),
    Scenario(
        "wandb-unreachable",
        "wandb-unreachable",
        BOTH,
        nothing,
        report_to_nobody,
        repair=restore_and_recover,
        pod={"pace": 0.02},
    ),
    Scenario("wandb-offline-unsynced", "wandb-offline-unsynced", BOTH, nothing, end_an_offline_run),
)
