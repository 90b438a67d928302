"""The trainers as the console treats them: one record for each, which the other topics ask. Nothing
outside asks which trainer it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """What the console does differently for one trainer than for others, as a record of facts and
    texts. `id` is the trainer's id, such as "prime-rl" or "verl".
    """

    id: str
    home: str
    """The directory in which the trainer is installed on a pod, relative to the home directory
    there, unless a person names another.
    """
    installed: bool
    """True if `pods setup` can install the trainer, and its version is compared with those that are
    known to work. False if the trainer comes in a container image; then a machine can be checked
    before a config is chosen.
    """
    has_classes: bool
    """True if the trainer has Python classes for its config that can check one."""
    loads_environments: bool
    """True if the trainer imports environments of the library verifiers."""
    needs_ports: bool
    """True if the trainer's inference server has ports that the config fixes."""
    includes: bool
    """True if a config of the trainer may include other files by its key `toml_files`."""
    launcher_log: Literal["launcher", "trainer"]
    """The log in which what the trainer's launcher prints is found."""
    named_log: bool
    """True if the name of a log file tells which program of the trainer wrote it. False if that is
    found out from the lines in it.
    """
    bytes_each: float
    """Bytes of a checkpoint for each parameter of the model, for use where an agent is too old to
    tell them (as in configs.sizing: 8B took 31 GB, and 47 GB with the weights of January 2026).
    """
    keep_fewer: str
    """Words that follow "Launch with" in a message, and say how the number of checkpoints is
    limited.
    """
    use_more_gpus: str
    """A sentence that says how a run is given more GPUs."""
    ahead: str = ""
    """The id of the known failure that follows if a run resumes from a step while checkpoints of
    newer steps are still there; "" if this trainer has no failure of its own for that.
    """
    rebuild_flash_attn: str = "`uv sync --all-extras` takes the one of the lock file"
    """Words that say how flash-attn is made to fit the installed torch."""
    module: str = ""
    """The Python module that has to be importable on the pod, for a trainer that `pods setup` does
    not install; else "".
    """
    keys: frozenset[str] = frozenset()
    """Dotted keys that occur in configs of this trainer and in none of another. One that ends in a
    dot stands for all keys that begin with it. Empty if no key tells the trainer.
    """


PRIME_RL_2026_01 = Trainer(
    id="prime-rl-2026-01",
    home="prime-rl",
    installed=True,
    has_classes=True,
    loads_environments=True,
    needs_ports=True,
    includes=True,
    launcher_log="launcher",
    named_log=True,
    bytes_each=6.0,
    keep_fewer="`--ckpt.keep-last 3`, or set it in [ckpt]",
    use_more_gpus="Name them in inference_gpu_ids and trainer_gpu_ids",
    ahead="step-desync",
)
PRIME_RL = Trainer(
    id="prime-rl",
    home="prime-rl",
    installed=True,
    has_classes=True,
    loads_environments=True,
    needs_ports=True,
    includes=False,
    launcher_log="launcher",
    named_log=True,
    bytes_each=4.0,
    keep_fewer="`--ckpt.keep-last 3`, or set it in [ckpt]",
    use_more_gpus="Raise deployment.num_infer_gpus and deployment.num_train_gpus",
    ahead="resume-latest-partial",
)
VERL = Trainer(
    id="verl",
    home="verl",
    installed=False,
    has_classes=False,
    loads_environments=False,
    needs_ports=False,
    includes=False,
    launcher_log="trainer",
    named_log=False,
    bytes_each=12.0,
    keep_fewer="`-- trainer.max_actor_ckpt_to_keep=3`, or set it in [trainer]",
    use_more_gpus="Raise trainer.n_gpus_per_node",
    rebuild_flash_attn="`pip install --no-build-isolation --force-reinstall --no-deps flash-attn` "
    "builds it against this torch",
    module="verl",
    keys=frozenset(
        {
            "actor_rollout_ref.",
            "trainer.critic_warmup",
            "trainer.default_local_dir",
            "trainer.experiment_name",
            "trainer.logger",
            "trainer.n_gpus_per_node",
            "trainer.nnodes",
            "trainer.project_name",
            "trainer.resume_mode",
            "trainer.save_freq",
            "trainer.test_freq",
            "trainer.total_epochs",
            "trainer.total_training_steps",
            "trainer.val_before_train",
        }
    ),
)
TRAINERS = {one.id: one for one in (PRIME_RL_2026_01, PRIME_RL, VERL)}
#: Those whose environment a set-up can make.
INSTALLED = tuple(one.id for one in TRAINERS.values() if one.installed)


def homes() -> list[str]:
    """Return the directories, relative to the home directory of a pod, in which the trainers are
    installed by default, each once.
    """
    return list(dict.fromkeys(one.home for one in TRAINERS.values()))


def of(trainer: str) -> Trainer:
    """Return the record of the trainer with the id `trainer`. For "" and for an id that is not
    known here, return the record of the current prime-rl.
    """
    return TRAINERS.get(trainer, PRIME_RL)
