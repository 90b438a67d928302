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
    """Its directory on a pod, from the home directory, unless a person names another."""
    installed: bool
    """True if a set-up makes its environment and its versions are compared with those that are
    known to work. False if it comes in an image, of which the machine is judged before a config is
    chosen.
    """
    has_classes: bool
    """True if it has config classes of its own that can judge a config."""
    loads_environments: bool
    """True if it imports environments of the library verifiers."""
    needs_ports: bool
    """True if its inference server has ports that the config fixes."""
    includes: bool
    """True if a config may include other files (`toml_files`)."""
    launcher_log: Literal["launcher", "trainer"]
    """The source that holds what its launcher prints."""
    named_log: bool
    """True if the names of its logs tell what they are. False if their lines have to."""
    bytes_each: float
    """Bytes of a checkpoint for each parameter, where an agent is too old to tell them (as in
    configs.sizing: 8B took 31 GB, and 47 GB with the weights of January 2026).
    """
    keep_fewer: str
    """Words after "Launch with" that limit the number of checkpoints."""
    use_more_gpus: str
    """A sentence that says how a run is given more GPUs."""
    ahead: str = ""
    """The failure of a start that resumes from a step below newer ones; "" if there is none of its
    own.
    """
    rebuild_flash_attn: str = "`uv sync --all-extras` takes the one of the lock file"
    """How flash-attn is made to fit the installed torch."""
    module: str = ""
    """The module that has to be importable. Only for a trainer that is not installed from here."""
    keys: frozenset[str] = frozenset()
    """Keys that occur in its configs and in none of another trainer. One that ends in a dot is the
    beginning of a key. Empty if no key tells.
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
