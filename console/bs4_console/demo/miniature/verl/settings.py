"""Hydra's words over the defaults of ppo_trainer.yaml, as far as the miniature needs them."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    "data.train_batch_size": 1024,
    "actor_rollout_ref.actor.optim.lr": 1e-6,
    "hydra.run.dir": "outputs",
}
#: Tables that any key may be set in: the miniature has no schema for them.
_OPEN = ("actor_rollout_ref.", "algorithm.", "critic.", "data.", "reward_model.", "custom_reward_function.", "ray_kwargs.", "trainer.")


class Refused(ValueError):
    """What Hydra says of a word that it cannot apply."""


def parse(words: Sequence[str]) -> dict[str, Any]:
    """The settings; Refused for a key outside the tables that is not added with a plus."""
    found = dict(DEFAULTS)
    for word in words:
        key, equals, value = word.partition("=")
        name = key.lstrip("+~")
        if not equals:
            raise Refused(f"no viable alternative at input '{word}'")
        if not key.startswith("+") and name not in DEFAULTS and not name.startswith(_OPEN) and not name.startswith("hydra."):
            raise Refused(
                f"Could not override '{name}'.\nTo append to your config use +{word}\nKey '{name.split('.')[-1]}' is not in struct"
            )
        found[name] = _value(value)
    place = str(found["trainer.default_local_dir"])
    found["trainer.default_local_dir"] = re.sub(r"\$\{([\w.]+)\}", lambda match: str(found[match.group(1)]), place)
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
