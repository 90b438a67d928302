"""The config of 2026-01: the known keys, the defaults, and how shared values reach the three
components.
"""

from __future__ import annotations

import copy
from typing import Any

from ..config import Config, Tree, keys

KNOWN = {
    "": keys(
        "bench ckpt clean inference inference_gpu_ids log max_async_level max_model_len max_steps "
        "model orchestrator output_dir seq_len teacher_gpu_ids teacher_inference toml_files "
        "trainer trainer_gpu_ids wandb weight_broadcast"
    ),
    "orchestrator": keys(
        "advantage batch_size bench buffer ckpt client env eval heartbeat log lora_name "
        "mask_env_responses max_async_level max_concurrent max_off_policy_steps max_steps model "
        "num_train_workers output_dir oversampling_factor prime_monitor rollout_transport "
        "rollouts_per_example sampling seed seq_len strict_async_level teacher_model toml_files "
        "trajectory_strategy val wandb weight_broadcast workers_per_env"
    ),
    "ckpt": keys("interval keep_interval keep_last resume_step toml_files"),
}

_MODEL = "Qwen/Qwen3-0.6B"


def split(config: Config) -> tuple[Tree | None, Tree, Tree]:
    """Return the configs of the inference server (None if the run has none), the orchestrator and
    the trainer, made of the run's whole `config`. Values that they share replace those in their own
    tables without a warning, as in prime-rl.
    """
    output_dir = str(config.get("output_dir", "outputs"))
    shared: dict[str, Any] = {
        key: config.get(key)
        for key in ("max_steps", "max_async_level", "ckpt", "log", "wandb", "weight_broadcast")
        if config.has(key)
    }
    orchestrator = _section(config, "orchestrator", shared) | {
        "output_dir": f"{output_dir}/run_default"
    }
    trainer = _section(config, "trainer", shared) | {"output_dir": output_dir}
    model = config.get("model.name", _MODEL)
    for section in (orchestrator, trainer):
        section.setdefault("model", {}).setdefault("name", model)
    if config.has("seq_len"):
        orchestrator["seq_len"] = trainer["model"]["seq_len"] = config.get("seq_len")
    inference = None
    if config.has("inference"):
        inference = _section(config, "inference", {})
        inference.setdefault("model", {}).setdefault("name", model)
        if config.has("max_model_len"):
            inference["model"]["max_model_len"] = config.get("max_model_len")
    return inference, orchestrator, trainer


def _section(config: Config, name: str, shared: Tree) -> Tree:
    tree: Tree = copy.deepcopy(config.get(name, {}))
    for key, value in shared.items():
        if isinstance(value, dict):
            tree[key] = {**(tree.get(key) or {}), **copy.deepcopy(value)}
        else:
            tree[key] = value
    return tree
