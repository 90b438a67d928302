"""The current generation's config: known keys, run directory, and how shared values reach the
components.
"""

from __future__ import annotations

import copy
import uuid
from pathlib import Path

from ..config import Config, ConfigError, Tree, keys

KNOWN = {
    "": keys(
        "ckpt clean deployment dry_run env_vars inference log max_steps model monitors "
        "orchestrator output_dir resume rollout_transport run seq_len slurm tokenizer trainer "
        "weight_broadcast"
    ),
    "orchestrator": keys(
        "algo batch_size ckpt collect_inference_metrics concurrency env_server_base_port env_vars "
        "eval group_size heartbeat inference_metrics_roles log max_off_policy_steps max_steps "
        "model monitors num_train_workers output_dir pad_to_multiple_of renderer resume "
        "rollout_transport seq_len tasks_per_minute token_batch_size tokenizer train "
        "weight_broadcast"
    ),
    "ckpt": keys("interval keep_interval keep_last output_dir"),
    "resume": keys("dir step"),
    "run": keys("dir name"),
}

_MODEL = "Qwen/Qwen3-0.6B"


def source_name(source: Tree) -> str:
    """Return the name of a training environment: its own name, otherwise that of its task set,
    otherwise "default". `source` is the environment's table in the config.
    """
    return str(
        source.get("name") or (source.get("env", {}).get("taskset") or {}).get("id") or "default"
    )


def run_dir(config: Config) -> Path:
    """Return the run's directory: `run.dir` of the config, otherwise `output_dir/run.name`. If the
    config has no `run.name`, a name like `<environments>--<model>--<8 hex digits>` is made and put
    into the config.
    """
    if config.has("run.dir"):
        return Path(config.get("run.dir")).absolute()
    name = config.get("run.name")
    if name is None:
        sources = "-".join(
            source_name(source) for source in config.get("orchestrator.train.source", [])
        )
        model = str(config.get("model.name", _MODEL)).split("/")[-1].lower()
        name = f"{sources or 'rl'}--{model}--{uuid.uuid4().hex[:8]}"
        config.set("run.name", name)
    return Path(config.get("output_dir", "outputs")).absolute() / str(name)


def refuse_unsupported(config: Config) -> None:
    """Raise ConfigError if the config does not choose the file system for rollouts and weights.
    prime-rl's own defaults are ZMQ and NCCL, which this imitation of it does not have.
    """
    for table, default in (("rollout_transport", "zmq"), ("weight_broadcast", "nccl")):
        kind = config.get(f"{table}.type", default)
        if kind != "filesystem":
            raise ConfigError(
                f"--{table.replace('_', '-')}.type\nThe miniature trainer has only "
                f"'filesystem' (got '{kind}')"
            )


def split(config: Config, run: Path) -> tuple[Tree | None, Tree, Tree]:
    """Return the configs of the inference server (None if the run has none), the orchestrator and
    the trainer, made of the run's whole `config` with all shared values filled in. The launcher
    writes them to `configs/*.json`. `run` is the run's directory.
    """
    shared = {
        key: config.get(key)
        for key in (
            "max_steps",
            "ckpt",
            "resume",
            "rollout_transport",
            "weight_broadcast",
            "log",
            "monitors",
        )
    }
    orchestrator = _section(config, "orchestrator", shared) | {"output_dir": str(run)}
    trainer = _section(config, "trainer", shared) | {"output_dir": str(run)}
    model = config.get("model.name", _MODEL)
    for section in (orchestrator, trainer):
        section.setdefault("model", {}).setdefault("name", model)
    if config.has("seq_len"):
        orchestrator["seq_len"] = trainer["model"]["seq_len"] = config.get("seq_len")
    orchestrator["num_train_workers"] = config.get("deployment.num_train_gpus", 1)
    base_port = config.get("orchestrator.env_server_base_port", 5000)
    for number, source in enumerate(config.get("orchestrator.train.source", [])):
        serve = source.setdefault("serve", {})
        serve.setdefault("address", f"tcp://127.0.0.1:{base_port + number}")
    orchestrator["train"] = copy.deepcopy(config.get("orchestrator.train", {}))
    client = orchestrator["model"].setdefault("client", {})
    # whatever port the server has; the launcher compares them
    client.setdefault("base_url", "http://localhost:8000/v1")
    inference = None
    if config.has("inference"):
        inference = _section(config, "inference", {"log": config.get("log")})
        inference.setdefault("vllm", {}).setdefault("model", model)
        client.setdefault(
            "admin_base_url", [f"http://localhost:{config.get('inference.backend_port', 8100)}/v1"]
        )
    return inference, orchestrator, trainer


def _section(config: Config, name: str, shared: Tree) -> Tree:
    tree: Tree = copy.deepcopy(config.get(name, {}))
    for key, value in shared.items():
        if isinstance(value, dict):
            tree[key] = {**copy.deepcopy(value), **(tree.get(key) or {})}
        elif value is not None:
            tree.setdefault(key, value)
    return tree
