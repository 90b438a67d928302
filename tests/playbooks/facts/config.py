"""Settings that a run will regret, and the same settings where they are right."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bs4_common.failures.environment import ConsoleFacts, ProcessFacts
from bs4_common.failures.facts import Facts, GpuFacts, Side
from bs4_common.runs.model import Member
from tests.agent.facts import event, identity, member
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import (
    CONFIG,
    GIB,
    NEW,
    NOW,
    VERL,
    WALL,
    around,
    gpus,
    look,
    run,
    starting,
)


def with_config(changes: dict[str, Any], *without: str, **more: Any) -> Facts:
    config = {
        key: value
        for key, value in {**CONFIG, **changes}.items()
        if not any(key.startswith(one) for one in without)
    }
    return look(starting(config=config, **more), gpus=gpus())


@positive("checkpoints-off")
def no_table_and_no_option() -> Facts:
    config = {key: value for key, value in CONFIG.items() if not key.startswith("ckpt")}
    return look(run(config=config, checkpoints=[]))


@positive("checkpoints-off")
def verl_at_its_default() -> Facts:
    return look(run(VERL, config={"trainer.save_freq": -1}, checkpoints=[]))


@negative("checkpoints-off")
def the_first_save_is_still_to_come() -> Facts:
    return look(run(checkpoints=[]))


@negative("checkpoints-off")
def three_steps_are_too_few_to_tell() -> Facts:
    config = {key: value for key, value in CONFIG.items() if not key.startswith("ckpt")}
    return look(run(config=config, checkpoints=[], trainer_side=Side(1, NOW, 2)))


@negative(
    "checkpoints-off", "keep-last-missing", "curriculum-noop", "shared-gpu-budget", "model-too-big"
)
def settings_that_nobody_knows() -> Facts:
    return look(run(config=None, checkpoints=[], environment=None), gpus=gpus())


@positive("curriculum-noop")
def phases_in_the_arguments() -> Facts:
    return with_config({"orchestrator.env.0.args.curriculum_phase": 2})


@negative("curriculum-noop")
def a_curriculum_of_the_trainer_itself() -> Facts:
    return with_config({"orchestrator.train.source.0.curriculum.sampler": "easy"})


@positive("shared-gpu-budget")
def nine_tenths_of_a_shared_card() -> Facts:
    return with_config({"trainer_gpu_ids": [0]})


@positive("shared-gpu-budget")
def refused_for_its_own_trainer() -> Facts:
    refused = event(
        "gpu-memory", "inference", "ValueError: Free memory on device cuda:0 is less than desired"
    )
    return with_config(
        {"trainer_gpu_ids": "[0]", "inference.gpu_memory_utilization": 0.7}, events=[refused]
    )


@negative("shared-gpu-budget")
def less_than_half_of_a_shared_card() -> Facts:
    return with_config({"trainer_gpu_ids": [0], "inference.gpu_memory_utilization": 0.45})


@negative("shared-gpu-budget")
def a_card_each() -> Facts:
    return with_config({"inference.gpu_memory_utilization": 0.9})


def model(name: str, gib: int = 24, **more: Any) -> Facts:
    small = GpuFacts(
        state="ok", pids="local", used={0: 0, 1: 0}, total={0: gib * GIB, 1: gib * GIB}
    )
    return dataclasses.replace(with_config({"model.name": name, **more}), gpus=small)


@positive("model-too-big")
def eight_billion_on_24_gib() -> Facts:
    return model("Qwen/Qwen3-8B")


@positive("model-too-big")
def twenty_billion_on_48_gib() -> Facts:
    return model("org/Thing-20B-Instruct", 48)


@negative("model-too-big")
def three_billion_on_24_gib() -> Facts:
    return model("Qwen/Qwen2.5-3B")


@negative("model-too-big")
def a_quantised_one() -> Facts:
    return model("org/Thing-20B-AWQ", 24)


@negative("model-too-big")
def a_big_one_on_four_trainer_gpus() -> Facts:
    return model("Qwen/Qwen3-8B", 24, trainer_gpu_ids=[1, 2, 3, 4])


@positive("run-rejected")
def an_error_file_of_this_start() -> Facts:
    return look(
        starting(
            environment=around(
                rejected="ValueError: LoRA rank 64 exceeds 32\n", rejected_t=WALL - 10
            )
        )
    )


@negative("run-rejected")
def an_error_file_of_an_earlier_start() -> Facts:
    return look(
        starting(
            environment=around(
                rejected="ValueError: LoRA rank 64 exceeds 32\n", rejected_t=WALL - 5000
            )
        )
    )


@positive("run-dir-collision")
def two_launchers_in_one_directory() -> Facts:
    return look(run(), run(name="second"))


@negative("run-dir-collision")
def the_other_one_has_ended() -> Facts:
    return look(run(), run(name="second", state="ended"))


@negative("run-dir-collision")
def directories_of_their_own() -> Facts:
    second = run(NEW, name="second")
    return look(
        run(),
        dataclasses.replace(
            second,
            layout=dataclasses.replace(
                second.layout, run_dir=Path("/home/u/prime-rl/outputs/second")
            ),
        ),
    )


def command(*words: str) -> Facts:
    return look(
        run(
            members=[
                Member(
                    identity=identity(10),
                    component="launcher",
                    cmdline=words,
                    alive=True,
                    proof="descent",
                    attempt=1,
                )
            ]
        )
    )


@positive("secrets-exposed")
def a_hub_token_among_the_words() -> Facts:
    return command("uv", "run", "rl", "--env", "HF_TOKEN=hf_" + "aB3" * 11)


@positive("secrets-exposed")
def a_secret_by_its_name() -> Facts:
    return command("serve", "--api-key", "Zx9" * 9)


def rollout(*words: str, pid: int = 20) -> Member:
    """A program that verifiers v1 starts for one rollout: URL and key first, the task last."""
    program = (
        "/root/.cache/uv/environments-v2/f3/bin/python3",
        "/root/.cache/verifiers/runtimes/scripts/f3.py",
    )
    return Member(
        identity=identity(pid),
        component=None,
        cmdline=(*program, *words),
        alive=True,
        proof="descent",
        attempt=1,
    )


OWN_KEY = "kS0dJtX5b3oYw_5cVnq-Yg"
PROXY = "http://127.0.0.1:40123/v1"


@positive("secrets-exposed")
def a_key_for_a_proxy_elsewhere() -> Facts:
    return look(
        run(NEW, members=[rollout("--base-url=http://10.0.0.7:40123/v1", f"--api-key={OWN_KEY}")])
    )


@positive("secrets-exposed")
def a_key_for_a_name_that_begins_like_loopback() -> Facts:
    url = "https://127.0.0.1.example.org/v1"
    return look(run(NEW, members=[rollout(f"--base-url={url}", f"--api-key={OWN_KEY}")]))


@positive("secrets-exposed")
def a_second_key_beside_the_own_one() -> Facts:
    words = [f"--base-url={PROXY}", f"--api-key={OWN_KEY}", f"--judge-api-key={OWN_KEY[::-1]}"]
    return look(run(NEW, members=[rollout(*words)]))


@positive("secrets-exposed")
def two_proxies_one_of_them_elsewhere() -> Facts:
    words = [f"--base-url={PROXY}", "--base-url=https://api.example.org/v1", f"--api-key={OWN_KEY}"]
    return look(run(NEW, members=[rollout(*words)]))


@positive("secrets-exposed")
def a_hub_token_sent_to_loopback() -> Facts:
    return look(run(NEW, members=[rollout(f"--base-url={PROXY}", "--api-key=hf_" + "aB3" * 11)]))


@positive("secrets-exposed")
def a_loopback_url_only_in_the_task() -> Facts:
    return look(
        run(
            NEW,
            members=[rollout(f"--api-key={OWN_KEY}", f"--prompt=Ask --base-url={PROXY} for it")],
        )
    )


@negative("secrets-exposed")
def a_program_a_rollout_with_the_key_of_its_own_proxy() -> Facts:
    words = (
        f"--base-url={PROXY}",
        f"--api-key={OWN_KEY}",
        "--model=Qwen/Qwen3-0.6B",
        "--prompt=Reverse the text: token09",
    )
    return look(run(NEW, members=[rollout(*words, pid=pid) for pid in range(20, 28)]))


@negative("secrets-exposed")
def the_same_in_the_words_of_mini_swe_agent() -> Facts:
    words = (
        "-c",
        f"model.model_kwargs.api_base={PROXY}",
        "-c",
        f"model.model_kwargs.api_key={OWN_KEY}",
    )
    return look(run(NEW, members=[rollout(*words)]))


@negative("secrets-exposed")
def url_and_key_as_words_of_their_own() -> Facts:
    words = ("--base-url", "http://[::1]:40123/v1", "--api-key", OWN_KEY)
    return look(run(NEW, members=[rollout(*words)]))


@negative("secrets-exposed")
def words_about_tokens() -> Facts:
    return command(
        "uv",
        "run",
        "rl",
        "--orchestrator.sampling.max_tokens",
        "2048",
        "--api-key-file",
        "/root/.netrc",
    )


@positive("path-drift")
def minutes_old_and_no_log() -> Facts:
    elsewhere = ProcessFacts(
        identity=identity(10), component="launcher", cwd=Path("/root/prime-rl-official")
    )
    return look(
        run(started_m=NOW - 400, environment=around(logs_found=False, processes=[elsewhere]))
    )


@positive("path-drift")
def steps_under_two_prefixes() -> Facts:
    rows = [
        {"run": "demo", "prefix": prefix, "step": 5}
        for prefix in ("b2://b/demo", "b2://b/demo/checkpoints")
    ]
    return look(run(), console=ConsoleFacts(remote=rows))


@negative("path-drift")
def logs_come_within_a_minute() -> Facts:
    return look(run(started_m=NOW - 60, environment=around(logs_found=False)))


@negative("path-drift")
def its_launcher_still_downloads_the_model() -> Facts:
    """Real prime-rl fetches the model and imports its trainer before it starts anything that writes
    a log.
    """
    alone = [member(10, "launcher"), member(11, "uv")]
    return look(run(NEW, started_m=NOW - 400, members=alone, environment=around(logs_found=False)))


@negative("path-drift")
def it_writes_where_it_should() -> Facts:
    return look(run(started_m=NOW - 4000))


@positive("phase-switch-lineage")
def the_adapter_was_renamed() -> Facts:
    return look(
        run(
            resume=5,
            environment=around(
                lineage={"lora_name": "phase2"}, lineage_before={"lora_name": "phase1"}
            ),
        )
    )


@negative("phase-switch-lineage")
def the_names_stay() -> Facts:
    return look(
        run(
            resume=5,
            environment=around(lineage={"lora_name": "r16"}, lineage_before={"lora_name": "r16"}),
        )
    )


@negative("phase-switch-lineage")
def another_name_for_a_fresh_start() -> Facts:
    return look(
        run(environment=around(lineage={"lora_name": "b"}, lineage_before={"lora_name": "a"}))
    )
