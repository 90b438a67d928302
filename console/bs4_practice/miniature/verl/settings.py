"""Hydra's words over the defaults of ppo_trainer.yaml, as far as the miniature needs them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

DEFAULTS: dict[str, Any] = {
    "trainer.project_name": "verl_examples",
    "trainer.experiment_name": "gsm8k",
    "trainer.default_local_dir": "checkpoints/${trainer.project_name}/${trainer.experiment_name}",
    "trainer.logger": ["console", "wandb"],
    "trainer.n_gpus_per_node": 8,
    "trainer.total_training_steps": None,
    "trainer.total_epochs": 30,
    "trainer.save_freq": -1,
    "trainer.test_freq": -1,
    "trainer.val_before_train": True,
    "trainer.resume_mode": "auto",
    "trainer.resume_from_path": None,
    "trainer.max_actor_ckpt_to_keep": None,
    "trainer.ray_wait_register_center_timeout": 300,
    "data.train_batch_size": 1024,
    "data.max_prompt_length": 512,
    "data.max_response_length": 512,
    "actor_rollout_ref.actor.optim.lr": 1e-6,
    "actor_rollout_ref.actor.fsdp_config.param_offload": False,
    "actor_rollout_ref.model.lora_adapter_path": None,
    "actor_rollout_ref.rollout.gpu_memory_utilization": 0.5,
    "actor_rollout_ref.rollout.name": "vllm",
    "actor_rollout_ref.rollout.max_model_len": None,
    "actor_rollout_ref.rollout.multi_turn.enable": False,
    "hydra.run.dir": "outputs",
}
#: sft_trainer.yaml's, of 0.6.
SFT_DEFAULTS: dict[str, Any] = {
    "trainer.project_name": "gsm8k-sft",
    "trainer.experiment_name": "test",
    "trainer.default_local_dir": "checkpoints/${trainer.project_name}/${trainer.experiment_name}",
    "trainer.logger": ["console", "wandb"],
    "trainer.n_gpus_per_node": 8,
    "trainer.total_training_steps": None,
    "trainer.total_epochs": 4,
    "trainer.save_freq": -1,
    "trainer.test_freq": -1,
    "trainer.resume_mode": "auto",
    "trainer.resume_from_path": None,
    "trainer.max_ckpt_to_keep": None,
    "data.train_batch_size": 256,
    "optim.lr": 1e-5,
    "hydra.run.dir": "outputs",
}
SFT_OPEN = (
    "data.",
    "model.",
    "optim.",
    "trainer.",
    "ulysses_sequence_parallel_size",
    "use_remove_padding",
)
#: Tables that any key may be set in: the miniature has no schema for them.
_OPEN = (
    "actor_rollout_ref.",
    "algorithm.",
    "critic.",
    "data.",
    "reward_model.",
    "custom_reward_function.",
    "ray_kwargs.",
    "trainer.",
)


class Refused(ValueError):
    """Raised when Hydra cannot apply a word of the command line; the message is what Hydra says of
    it.
    """


def parse(
    words: Sequence[str], defaults: Mapping[str, Any] = DEFAULTS, tables: tuple[str, ...] = _OPEN
) -> dict[str, Any]:
    """Return the settings, as {dotted name: value}, that the words of a command line ("key=value",
    "+key=value") make of `defaults`. A key that is not in `defaults` needs the plus, unless it
    begins with "hydra." or with one of `tables`. Raises Refused for a word without "=" and for a
    key without a plus that needs it.
    """
    found = dict(defaults)
    for word in words:
        key, equals, value = word.partition("=")
        name = key.lstrip("+~")
        if not equals:
            raise Refused(f"no viable alternative at input '{word}'")
        if (
            not key.startswith("+")
            and name not in defaults
            and not name.startswith(tables)
            and not name.startswith("hydra.")
        ):
            raise Refused(
                f"Could not override '{name}'.\nTo append to your config use +{word}\nKey "
                f"'{name.split('.')[-1]}' is not in struct"
            )
        found[name] = _value(value)
    place = str(found["trainer.default_local_dir"])
    found["trainer.default_local_dir"] = re.sub(
        r"\$\{([\w.]+)\}", lambda match: str(found[match.group(1)]), place
    )
    return found


def _value(text: str) -> Any:
    if text[:1] == text[-1:] == "'" and len(text) > 1:
        return text[1:-1].replace("\\'", "'")
    if text.startswith("["):
        return [_value(item.strip()) for item in text.strip("[]").split(",") if item.strip()]
    if text.lower() in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
