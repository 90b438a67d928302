"""Complete configs that nothing is wrong with, to be made wrong in one place. `<-` marks the line
on which a finding is expected.
"""

from __future__ import annotations

from pathlib import Path

from bs4_console.configs.findings import Finding
from bs4_console.configs.lint import lint
from bs4_console.configs.view import Given

JANUARY = """\
# Config version: v3
# Based on: v2
# env_version: 0.1.1
#   uv run rl @ config.toml --ckpt --ckpt.interval 5 --ckpt.keep-last 3
max_steps = 1000
inference_gpu_ids = [0]
trainer_gpu_ids = [1]
clean = false

[model]
name = "Qwen/Qwen3-8B"

[ckpt]
interval = 5
keep_last = 3

[wandb]
project = "practice"
name = "practice-1"

[trainer.optim]
lr = 1e-5

[trainer.model]
seq_len = 4096

[trainer.model.ac]
freq = 1

[trainer.model.lora]
rank = 8
alpha = 32

[orchestrator]
batch_size = 128
rollouts_per_example = 8
seq_len = 4096
oversampling_factor = 2.0
lora_name = "qwen3-8b-practice"

[orchestrator.sampling]
max_tokens = 2048
temperature = 0.7

[orchestrator.buffer]
online_difficulty_filtering = true

[[orchestrator.env]]
id = "owner/some-env"

[orchestrator.env.args]
executor_backend = "local"
network_access = false

[inference]
gpu_memory_utilization = 0.9

[inference.model]
enable_auto_tool_choice = true
tool_call_parser = "hermes"
enforce_eager = true
max_model_len = 4096
"""

CURRENT = """\
#   uv run rl @ config.toml --run.name practice-1
max_steps = 1000

[model]
name = "Qwen/Qwen3-8B"

[run]
name = "practice-1"

[deployment]
num_infer_gpus = 1
num_train_gpus = 1

[ckpt]
interval = 5
keep_last = 3

[monitors.wandb]
project = "practice"
name = "practice-1"

[trainer.optim]
lr = 1e-5

[trainer.model]
seq_len = 4096

[trainer.model.lora]
rank = 8
alpha = 32

[orchestrator]
batch_size = 128
group_size = 8
seq_len = 4096

[orchestrator.model.lora]
name = "qwen3-8b-practice"

[orchestrator.train.sampling]
max_completion_tokens = 2048

[[orchestrator.train.source]]
name = "some-env"

[orchestrator.train.source.env.taskset]
id = "some-env"
network_access = false

[orchestrator.train.source.env.agent.harness]
id = "null"

[inference.vllm]
max_model_len = 4096
tool_call_parser = "hermes"
"""

VERL = """\
#!/bin/bash
export RUN_ID=$1
export VERL_FILE_LOGGER_PATH=/data/metrics.$ATTEMPT.jsonl
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.max_prompt_length=1024 \\
    data.max_response_length=1536 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 \\
    actor_rollout_ref.rollout.n=4 \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.65 \\
    actor_rollout_ref.rollout.max_num_batched_tokens=16384 \\
    trainer.n_gpus_per_node=1 \\
    trainer.nnodes=1 \\
    trainer.logger='["console","file"]' \\
    trainer.save_freq=20 \\
    trainer.max_actor_ckpt_to_keep=3 \\
    trainer.resume_mode=disable \\
    trainer.resume_from_path=null \\
    trainer.total_training_steps=220 \\
    trainer.default_local_dir=/data/checkpoints \\
    hydra.run.dir=/data/hydra/$ATTEMPT "$@"
"""

BASES = {"prime-rl-2026-01": JANUARY, "prime-rl": CURRENT, "verl": VERL}
NAMES = {"prime-rl-2026-01": "config.toml", "prime-rl": "config.toml", "verl": "train.sh"}


def changed(trainer: str, *changes: tuple[str, str]) -> str:
    """The base with texts replaced; each has to be there."""
    text = BASES[trainer]
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def findings(directory: Path, trainer: str, text: str, **given: object) -> list[Finding]:
    file = directory / NAMES[trainer]
    file.write_text(text.replace(" # <-", ""))
    return lint(file, trainer, Given(**given))  # type: ignore[arg-type]


def marked(text: str) -> list[int]:
    return [n for n, line in enumerate(text.split("\n"), 1) if "# <-" in line]
