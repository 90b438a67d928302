"""Each rule on configs that break it, with the line, and on near misses that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.configs.catalog import rules
from bs4_console.configs.lint import is_unbounded
from bs4_console.configs.view import Given
from tests.console.configs.bases import BASES, NAMES, changed, findings, marked

OLD, NEW, VERL = "prime-rl-2026-01", "prime-rl", "verl"

#: (rule, trainer, changes): the rule is found on the marked line.
WRONG: list[tuple[str, str, list[tuple[str, str]]]] = [
    (
        "R01",
        OLD,
        [("seq_len = 4096\n\n[trainer.model.ac]", "seq_len = 2048 # <-\n\n[trainer.model.ac]")],
    ),
    (
        "R01",
        OLD,
        [
            ("[trainer.model]\nseq_len = 4096\n", ""),
            ("seq_len = 4096\nover", "seq_len = 4096 # <-\nover"),
        ],
    ),
    ("R01", NEW, [("[trainer.model]\nseq_len = 4096", "[trainer.model]\nseq_len = 1024 # <-")]),
    ("R02", OLD, [("max_steps = 1000", "max_steps = 1000\nseq_len = 8192 # <-")]),
    ("R02", OLD, [("max_steps = 1000", "seq_len = 4096 # <-\nmax_steps = 1000")]),
    ("R02", NEW, [("max_steps = 1000", "max_steps = 1000\nseq_len = 8192 # <-")]),
    ("R02", OLD, [("[model]\n", "[model]\nseq_len = 4096 # <-\n")]),
    ("R02", NEW, [("[trainer.optim]", "[trainer]\nseq_len = 4096 # <-\n[trainer.optim]")]),
    (
        "R04",
        OLD,
        [
            ('lora_name = "qwen3-8b-practice"\n', ""),
            ("[trainer.model.lora]", '[trainer.model.lora]\nlora_name = "x" # <-'),
        ],
    ),
    ("R03", OLD, [("[trainer.model.lora]", "[trainer.model.experimental.lora] # <-")]),
    ("R03", OLD, [("[trainer.model.lora]", "[trainer.lora] # <-")]),
    ("R03", NEW, [("[trainer.model.lora]", "[trainer.model.experimental.lora] # <-")]),
    ("R03", NEW, [("[trainer.model.lora]", "[model.lora] # <-")]),
    (
        "R04",
        OLD,
        [
            ('lora_name = "qwen3-8b-practice"\n', ""),
            ("[trainer.model.lora]", "[trainer.model.lora] # <-"),
        ],
    ),
    ("R04", OLD, [('lora_name = "qwen3-8b-practice"', 'lora_name = "" # <-')]),
    ("R05", OLD, [("temperature = 0.7", "temperature = 0.7\ntop_p = 0.95 # <-")]),
    (
        "R05",
        OLD,
        [
            (
                "[orchestrator.sampling]\nmax_tokens = 2048\ntemperature = 0.7",
                "[orchestrator]\nsampling.top_p = 1 # <-",
            ),
            ("[orchestrator]\nbatch", "[orchestrator.log]\n[x]\nbatch"),
        ],
    ),
    (
        "R06",
        OLD,
        [("batch_size = 128", "batch_size = 128\nmask_truncated_completions = true # <-")],
    ),
    ("R06", OLD, [("temperature = 0.7", "zero_truncated_completions = false # <-")]),
    ("R07", OLD, [("online_difficulty_filtering = true", 'type = "online-difficulty" # <-')]),
    (
        "R07",
        OLD,
        [
            (
                "online_difficulty_filtering = true",
                "online_difficulty_filtering = true\noversampling_factor = 2.0 # <-",
            )
        ],
    ),
    (
        "R07",
        OLD,
        [("batch_size = 128", "batch_size = 128\nonline_difficulty_filtering = true # <-")],
    ),
    ("R08", OLD, [("max_tokens = 2048", "max_tokens = 4000 # <-")]),
    ("R08", OLD, [("max_tokens = 2048", "max_tokens = 2597 # <-")]),
    ("R08", NEW, [("max_completion_tokens = 2048", "max_completion_tokens = 3000 # <-")]),
    (
        "R08",
        VERL,
        [
            ("data.max_response_length=1536", "data.max_response_length=1536 # <-"),
            ("trainer.nnodes=1", "actor_rollout_ref.rollout.max_model_len=2048"),
        ],
    ),
    (
        "R09",
        OLD,
        [
            ("[trainer.model.ac]\nfreq = 1\n", ""),
            ("seq_len = 4096\n", 'seq_len = 4096\nac = "selective" # <-\n'),
        ],
    ),
    (
        "R09",
        OLD,
        [
            ("[trainer.model.ac]\nfreq = 1\n", ""),
            ("seq_len = 4096\n", "seq_len = 4096\nac = true # <-\n"),
        ],
    ),
    ("R10", OLD, [("[trainer.model]\n", "[trainer.model]\nfsdp_cpu_offload = true # <-\n")]),
    ("R10", OLD, [("[model]\n", "[model]\nfsdp_cpu_offload = true # <-\n")]),
    (
        "R10",
        NEW,
        [
            (
                "[trainer.model]\n",
                "[trainer.model]\noptim_cpu_offload = false\nfsdp_cpu_offload = true # <-\n",
            )
        ],
    ),
    (
        "R11",
        OLD,
        [
            ("trainer_gpu_ids = [1]", "trainer_gpu_ids = [0]"),
            ("utilization = 0.9", "utilization = 0.51 # <-"),
        ],
    ),
    (
        "R11",
        OLD,
        [
            ("trainer_gpu_ids = [1]", "trainer_gpu_ids = [0]"),
            ("[trainer.model.ac]\nfreq = 1\n", ""),
            ("inference_gpu_ids = [0]", "inference_gpu_ids = [0] # <-"),
        ],
    ),
    (
        "R11",
        OLD,
        [("trainer_gpu_ids = [1]", "trainer_gpu_ids = [0]"), ("freq = 1", "freq = 2 # <-")],
    ),
    ("R12", OLD, [("[[orchestrator.env]]", "[orchestrator.env] # <-")]),
    (
        "R12",
        OLD,
        [
            ("[[orchestrator.env]]", "[orchestrator.environment] # <-"),
            ("[orchestrator.env.args]", "[orchestrator.environment.args]"),
        ],
    ),
    ("R12", OLD, [('id = "owner/some-env"', 'id = "owner/some-env"\nmode = "tiered" # <-')]),
    (
        "R13",
        OLD,
        [("enforce_eager = true", "enforce_eager = true\nenable_prefix_caching = true # <-")],
    ),
    (
        "R13",
        OLD,
        [("gpu_memory_utilization = 0.9", "gpu_memory_utilization = 0.9\nmax_num_seqs = 512 # <-")],
    ),
    ("R13", OLD, [("gpu_memory_utilization = 0.9", "max_num_batched_tokens = 8192 # <-")]),
    (
        "R14",
        OLD,
        [("enforce_eager = true", 'enforce_eager = true\ntokenizer_mode = "mistral" # <-')],
    ),
    ("R14", OLD, [("enforce_eager = true", 'enforce_eager = true\nload_format = "mistral" # <-')]),
    (
        "R15",
        OLD,
        [
            ("max_steps = 1000", 'max_steps = 1000\n[config] # <-\nversion = "v2"\n[log]\n'),
            ("inference_gpu_ids = [0]\ntrainer_gpu_ids = [1]\nclean = false", ""),
        ],
    ),
    ("R15", NEW, [("[model]", '[config] # <-\nversion = "v2"\n\n[model]')]),
    ("R16", OLD, [("batch_size = 128", "batch_size = 100 # <-")]),
    ("R16", NEW, [("batch_size = 128", "batch_size = 12 # <-")]),
    ("R16", NEW, [("batch_size = 128\ngroup_size = 8", "group_size = 12 # <-")]),
    (
        "R17",
        OLD,
        [("#   uv run rl @ config.toml --ckpt", "#   uv run rl @config.toml # <- --ckpt")],
    ),
    ("R17", NEW, [("uv run rl @ config.toml", "uv run rl @configs/config.toml # <-")]),
    ("R17", OLD, [("uv run rl @ config.toml", "uv run rl config.toml # <-")]),
    ("R17", NEW, [("uv run rl @ config.toml", "rl ./config.toml --dry-run # <-")]),
    ("R18", OLD, [("uv run rl @ config.toml", "uv run prime-rl @ config.toml # <-")]),
    ("R18", NEW, [("uv run rl @ config.toml", "uv run prime-rl @ config.toml # <-")]),
    (
        "R19",
        OLD,
        [
            (" --ckpt --ckpt.interval 5 --ckpt.keep-last 3", ""),
            ("[ckpt]\ninterval = 5\nkeep_last = 3\n", ""),
            ("max_steps = 1000", "max_steps = 1000 # <-"),
        ],
    ),
    ("R19", OLD, [(" --ckpt.keep-last 3", ""), ("keep_last = 3\n", ""), ("[ckpt]", "[ckpt] # <-")]),
    ("R21", OLD, [('tool_call_parser = "hermes"', 'tool_call_parser = "mistral" # <-')]),
    ("R21", OLD, [("enable_auto_tool_choice = true", "enable_auto_tool_choice = false # <-")]),
    (
        "R21",
        OLD,
        [
            ("enable_auto_tool_choice = true\n", ""),
            ('tool_call_parser = "hermes"', 'tool_call_parser = "hermes" # <-'),
        ],
    ),
    (
        "R21",
        NEW,
        [
            ("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct"),
            ('tool_call_parser = "hermes"', 'tool_call_parser = "hermes" # <-'),
        ],
    ),
    ("R22", OLD, [("enforce_eager = true", "enforce_eager = false # <-")]),
    ("R22", OLD, [("enforce_eager = true\n", ""), ("[inference.model]", "[inference.model] # <-")]),
    (
        "R22",
        OLD,
        [("#   uv run rl", "#   VLLM_USE_V1=1 uv run rl"), ("keep-last 3", "keep-last 3 # <-")],
    ),
    ("R23", OLD, [('executor_backend = "local"', 'executor_backend = "prime" # <-')]),
    ("R24", OLD, [('name = "Qwen/Qwen3-8B"', 'name = "openai/gpt-oss-20b" # <-')]),
    (
        "R24",
        OLD,
        [
            ('name = "Qwen/Qwen3-8B"', 'name = "mistralai/Ministral-3-8B-Instruct-2512" # <-'),
            ("hermes", "mistral"),
        ],
    ),
    ("R24", OLD, [('name = "Qwen/Qwen3-8B"', 'name = "Qwen/Qwen3-VL-8B-Instruct" # <-')]),
    ("R24", NEW, [('name = "Qwen/Qwen3-8B"', 'name = "Qwen/Qwen2.5-VL-7B-Instruct" # <-')]),
    ("R25", OLD, [("trainer_gpu_ids = [1]", "trainer_gpu_ids = [0] # <-")]),
    (
        "R25",
        OLD,
        [
            ("inference_gpu_ids = [0]", "inference_gpu_ids = [0, 1]"),
            ("trainer_gpu_ids = [1]", "trainer_gpu_ids = [1, 2] # <-"),
        ],
    ),
    ("R25", OLD, [("inference_gpu_ids = [0]", "inference_gpu_ids = [0, 0] # <-")]),
    ("R25", NEW, [("num_train_gpus = 1", "num_train_gpus = 8 # <-")]),
    ("R29", OLD, [("max_tokens = 2048", "max_tokens = 10000 # <-")]),
    (
        "R29",
        NEW,
        [
            ("max_completion_tokens = 2048", "max_completion_tokens = 4097 # <-"),
            ("max_model_len = 4096", "max_model_len = 9000"),
        ],
    ),
    ("R30", OLD, [("[ckpt]\ninterval = 5\nkeep_last = 3", "[trainer.ckpt] # <-\ninterval = 5")]),
    (
        "R30",
        OLD,
        [
            (
                "[ckpt]\ninterval = 5\nkeep_last = 3",
                "[trainer.ckpt]\ninterval = 5 # <-\n[orchestrator.ckpt]\ninterval = 10",
            )
        ],
    ),
    (
        "R30",
        OLD,
        [
            (
                "[ckpt]\ninterval = 5\nkeep_last = 3",
                "[trainer.ckpt]\nresume_step = 5 # <-\n[orchestrator.ckpt]\nresume_step = 10",
            )
        ],
    ),
    ("R31", OLD, [("[ckpt]", '[weight_broadcast]\ntype = "nccl" # <-\n\n[ckpt]')]),
    (
        "R31",
        OLD,
        [
            ("[trainer.model.lora]\nrank = 8\nalpha = 32\n", ""),
            ("[ckpt]", '[weight_broadcast]\ntype = "nccl"\n\n[ckpt]'),
            ("clean = false", "max_async_level = 2 # <-"),
        ],
    ),
    (
        "R31",
        OLD,
        [
            ("[trainer.model.lora]\nrank = 8\nalpha = 32\n", ""),
            ("[ckpt]", '[weight_broadcast]\ntype = "nccl"\n\n[ckpt]'),
            ("inference_gpu_ids = [0]", "inference_gpu_ids = [0, 2] # <-"),
        ],
    ),
    (
        "R32",
        OLD,
        [("network_access = false", "network_access = false\ncurriculum_enabled = true # <-")],
    ),
    ("R33", OLD, [("network_access = false", "network_access = true # <-")]),
    ("R33", NEW, [("network_access = false", "network_access = true # <-")]),
    (
        "P01",
        NEW,
        [("[trainer.optim]", "[trainer.metrics_server]\nport = 8000 # <-\n\n[trainer.optim]")],
    ),
    ("P01", NEW, [("[trainer.optim]", "[trainer.metrics_server] # <-\n\n[trainer.optim]")]),
    (
        "P01",
        NEW,
        [
            ("[trainer.optim]", "[trainer.metrics_server]\nport = 9000 # <-\n\n[trainer.optim]"),
            ("[inference.vllm]", "[inference.server]\nport = 9000\n\n[inference.vllm]"),
        ],
    ),
    ("P02", NEW, [("max_steps = 1000", "max_steps = 1000\ndry_run = true\nclean = true # <-")]),
    (
        "P02",
        NEW,
        [
            ("[run]", "[resume] # <-\nstep = 5\n[run]"),
            ("max_steps = 1000", "max_steps = 1000\ndry_run = true"),
        ],
    ),
    ("P02", NEW, [("--run.name practice-1", "--run.name practice-1 --dry-run --clean # <-")]),
    (
        "P04",
        NEW,
        [("interval = 5", 'interval = 5\noutput_dir = "/big"'), ("[run]", "[resume] # <-\n[run]")],
    ),
    (
        "P04",
        NEW,
        [
            ("interval = 5", 'interval = 5\noutput_dir = "/big"'),
            ("--run.name practice-1", "--run.name practice-1 --resume # <-"),
        ],
    ),
    ("P06", NEW, [("max_steps = 1000", "max_steps = 1000\ninference_gpu_ids = [0] # <-")]),
    ("P06", NEW, [("group_size = 8", "rollouts_per_example = 8 # <-")]),
    ("P06", NEW, [("[monitors.wandb]", "[wandb] # <-")]),
    (
        "P06",
        NEW,
        [
            (
                "[[orchestrator.train.source]]",
                '[[orchestrator.env]] # <-\nid = "x"\n\n[[orchestrator.train.source]]',
            )
        ],
    ),
    ("P06", NEW, [("keep_last = 3", "keep_last = 3\nresume_step = 5 # <-")]),
    (
        "P06",
        NEW,
        [("[inference.vllm]", "[inference.model] # <-\nenforce_eager = true\n\n[inference.vllm]")],
    ),
    ("P06", OLD, [("rollouts_per_example = 8", "group_size = 8 # <-")]),
    ("P06", OLD, [("[ckpt]", "[deployment] # <-\nnum_infer_gpus = 1\n\n[ckpt]")]),
    ("P06", OLD, [("[wandb]", "[monitors.wandb] # <-")]),
    ("P06", OLD, [("max_tokens = 2048", "max_completion_tokens = 2048 # <-")]),
    ("P07", OLD, [("clean = false", "clean = true # <-")]),
    (
        "P07",
        OLD,
        [("clean = false\n", ""), ("keep_last = 3", "keep_last = 3\nresume_step = 5 # <-")],
    ),
    (
        "V01",
        VERL,
        [("    trainer.total_training_steps=220 \\\n", ""), ("main_ppo \\", "main_ppo \\ # <-")],
    ),
    ("V02", VERL, [("trainer.resume_mode=disable", "trainer.resume_mode=off # <-")]),
    ("V02", VERL, [("trainer.resume_mode=disable", "trainer.resume_mode=resume_path # <-")]),
    ("V03", VERL, [("rollout.n=4", "rollout.n=8 # <-")]),
    ("V03", VERL, [("utilization=0.65", "utilization=0.88 # <-")]),
    ("V03", VERL, [("batched_tokens=16384", "batched_tokens=32768 # <-")]),
    ("V04", VERL, [("trainer.nnodes=1", "actor_rollout_ref.model.lora_rank=32 # <-")]),
    (
        "V04",
        VERL,
        [
            (
                "trainer.nnodes=1",
                (
                    "actor_rollout_ref.model.lora_rank=32 "
                    "actor_rollout_ref.rollout.load_format=dummy "
                    "actor_rollout_ref.model.use_shm=True # <-"
                ),
            )
        ],
    ),
    (
        "V04",
        VERL,
        [
            ("trainer.nnodes=1", "actor_rollout_ref.model.lora_rank=32"),
            ("rollout.name=vllm", "rollout.name=sglang # <-"),
        ],
    ),
    (
        "V05",
        VERL,
        [("trainer.nnodes=1", "actor_rollout_ref.model.lora_adapter_path=/data/adapter # <-")],
    ),
    ("V06", VERL, [("trainer.save_freq=20", "trainer.save_freq=-1 # <-")]),
    (
        "V06",
        VERL,
        [("    trainer.max_actor_ckpt_to_keep=3 \\\n", ""), ("main_ppo \\", "main_ppo \\ # <-")],
    ),
    (
        "V07",
        VERL,
        [
            (
                "trainer.default_local_dir=/data/checkpoints",
                "trainer.default_local_dir=checkpoints # <-",
            )
        ],
    ),
    ("V07", VERL, [("hydra.run.dir=/data/hydra/$ATTEMPT", "hydra.run.dir=train/outputs # <-")]),
    ("V08", VERL, [("parallel_size=1", "parallel_size=2 # <-")]),
    (
        "V08",
        VERL,
        [
            ("    actor_rollout_ref.rollout.tensor_model_parallel_size=1 \\\n", ""),
            ("n_gpus_per_node=1", "n_gpus_per_node=3 # <-"),
        ],
    ),
    (
        "V07",
        VERL,
        [
            (
                "VERL_FILE_LOGGER_PATH=/data/metrics.$ATTEMPT.jsonl",
                "VERL_FILE_LOGGER_PATH=/data/metrics.jsonl # <-",
            )
        ],
    ),
    ("schema", OLD, [("lr = 1e-5", "lr = -1.0 # <-")]),
    ("schema", OLD, [("batch_size = 128", 'batch_size = "many" # <-')]),
    ("schema", OLD, [("temperature = 0.7", "temperatur = 0.7 # <-")]),
    ("schema", OLD, [("[trainer.model]\n", '[trainer.model]\nattn = "flash" # <-\n')]),
    ("schema", NEW, [("[trainer.optim]\n", '[trainer.optim]\ntype = "adam" # <-\n')]),
    ("schema", NEW, [("[trainer.optim]\n", "[trainer]\nmax_steps = 5 # <-\n[trainer.optim]\n")]),
    ("schema", NEW, [("group_size = 8", "group_size = 8\ntoken_batch_size = 100 # <-")]),
    ("schema", NEW, [("[run]", '[weight_broadcast]\ntype = "nccl" # <-\n[run]')]),
    (
        "schema",
        NEW,
        [
            ("rank = 8\nalpha = 32", "rank = 8"),
            ('name = "qwen3-8b-practice"', 'name = "qwen3-8b-practice"\nalpha = 16 # <-'),
        ],
    ),
    ("toml", OLD, [("max_steps = 1000", "max_steps = 1000\nmax_steps = 5 # <-")]),
    ("toml", NEW, [("[run]", "[run # <-")]),
    (
        "schema",
        NEW,
        [
            (
                "[model]",
                '[model.vlm] # <-\nvision_encoder_attr = "a"\nlanguage_model_attr = "b"\n\n[model]',
            )
        ],
    ),
    (
        "schema",
        NEW,
        [
            (
                "[trainer.optim]",
                '[trainer.scheduler]\ntype = "linear"\ndecay_steps = 995 # <-\n\n[trainer.optim]',
            )
        ],
    ),
    (
        "schema",
        NEW,
        [
            (
                "[trainer.optim]",
                '[trainer.scheduler]\ntype = "cosine"\nwarmup_steps = 1000 # <-\n\n[trainer.optim]',
            )
        ],
    ),
    (
        "schema",
        NEW,
        [
            (
                "[trainer.optim]",
                (
                    '[trainer.scheduler]\ntype = "linear" # <-\nwarmup_steps = 0\ndecay_steps = '
                    "0\n\n[trainer.optim]"
                ),
            )
        ],
    ),
]

#: (rule, trainer, changes): the same words, and the rule has to keep silent.
FINE: list[tuple[str, str, list[tuple[str, str]]]] = [
    ("R01", OLD, [("[trainer.model]\nseq_len = 4096", "[trainer.model]\nseq_len = 8192")]),
    (
        "R01",
        OLD,
        [
            ("[trainer.model]\nseq_len = 4096\n", ""),
            ("seq_len = 4096", "seq_len = 2048"),
            ("max_tokens = 2048", "max_tokens = 512"),
        ],
    ),
    ("R02", NEW, [("max_steps = 1000", "max_steps = 1000\nseq_len = 4096")]),
    (
        "R03",
        OLD,
        [
            ("[trainer.model.lora]\nrank = 8\nalpha = 32\n", ""),
            ("seq_len = 4096\n", "seq_len = 4096\nlora = { rank = 8, alpha = 32 }\n"),
        ],
    ),
    (
        "R04",
        OLD,
        [
            ('lora_name = "qwen3-8b-practice"\n', ""),
            ("[trainer.model.lora]\nrank = 8\nalpha = 32\n", ""),
        ],
    ),
    (
        "R05",
        OLD,
        [
            (
                "[inference]",
                "[orchestrator.eval]\n[orchestrator.eval.sampling]\ntop_p = 0.9\n\n[inference]",
            )
        ],
    ),
    ("R05", OLD, [("temperature = 0.7", "temperature = 0.7 # no top_p = 0.95 here")]),
    (
        "R07",
        OLD,
        [
            (
                "online_difficulty_filtering = true",
                "online_difficulty_filtering = false\neasy_threshold = 0.9",
            )
        ],
    ),
    ("R08", OLD, [("max_tokens = 2048", "max_tokens = 2596")]),
    ("R08", OLD, [("max_tokens = 2048", "max_tokens = 4096"), ("max_model_len = 4096\n", "")]),
    (
        "R09",
        OLD,
        [
            ("[trainer.model.ac]\nfreq = 1\n", ""),
            ("seq_len = 4096\n", "seq_len = 4096\nac = { freq = 2 }\n"),
        ],
    ),
    ("R10", OLD, [("[trainer.model]\n", "[trainer.model]\nfsdp_cpu_offload = false\n")]),
    (
        "R10",
        OLD,
        [
            ("[trainer.model]\n", "[trainer.model]\nfsdp_cpu_offload = true\n"),
            ("[trainer.model.lora]\nrank = 8\nalpha = 32\n", ""),
        ],
    ),
    ("R11", OLD, [("utilization = 0.9", "utilization = 0.95")]),
    ("R12", OLD, [('id = "owner/some-env"', 'id = "owner/some-env"\nname = "mine"')]),
    (
        "R12",
        OLD,
        [
            (
                (
                    '[[orchestrator.env]]\nid = "owner/some-env"\n\n[orchestrator.env.args]\n'
                    'executor_backend = "local"\nnetwork_access = false\n'
                ),
                "",
            ),
            (
                "batch_size = 128",
                'env = [{ id = "a" }, { id = "b", args = { x = 1 } }]\nbatch_size = 128',
            ),
        ],
    ),
    (
        "R13",
        NEW,
        [
            (
                "[inference.vllm]",
                (
                    "[inference.vllm]\nenable_prefix_caching = true\nmax_num_seqs = 256\n"
                    "max_num_batched_tokens = 8192"
                ),
            )
        ],
    ),
    ("R14", OLD, [("[orchestrator.env.args]", '[orchestrator.env.args]\nload_format = "x"')]),
    ("R15", OLD, [("# Config version: v3", "# [config]\n# version = v3")]),
    ("R16", OLD, [("batch_size = 128", "batch_size = 8")]),
    ("R16", NEW, [("batch_size = 128", "token_batch_size = 100001")]),
    ("R17", NEW, [("#   uv run rl @ config.toml", "# Take for eval base.toml; url config.toml")]),
    ("R17", OLD, [("# Based on: v2", "# Ask url @someone, mail rl@example.com")]),
    (
        "R18",
        OLD,
        [("# Based on: v2", "# Written for prime-rl of January; `uv run rl @ x` starts it")],
    ),
    ("R19", OLD, [("[ckpt]\ninterval = 5\nkeep_last = 3\n", "")]),
    ("R19", OLD, [(" --ckpt --ckpt.interval 5 --ckpt.keep-last 3", "")]),
    (
        "R19",
        OLD,
        [
            (
                " --ckpt --ckpt.interval 5 --ckpt.keep-last 3",
                " \\\n#     --ckpt --ckpt.interval 5 \\\n#     --ckpt.keep-last 3",
            ),
            ("[ckpt]\ninterval = 5\nkeep_last = 3\n", ""),
        ],
    ),
    (
        "R21",
        OLD,
        [("Qwen/Qwen3-8B", "mistralai/Mistral-7B-Instruct-v0.3"), ('"hermes"', '"mistral"')],
    ),
    (
        "R21",
        OLD,
        [
            ("Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"),
            ('"hermes"', '"deepseek_v3"'),
        ],
    ),
    ("R21", NEW, [('tool_call_parser = "hermes"', 'tool_call_parser = "auto"')]),
    ("R22", NEW, []),
    ("R23", OLD, [('executor_backend = "local"\n', "")]),
    ("R24", OLD, [('name = "Qwen/Qwen3-8B"', 'name = "Qwen/Qwen3-Evlution-8B"')]),
    (
        "R24",
        NEW,
        [
            (
                "[model]",
                (
                    '[model.vlm]\nvision_encoder_attr = "model.visual"\nlanguage_model_attr = '
                    '"model.language_model"\n\n[model]'
                ),
            ),
            ("Qwen3-8B", "Qwen3-VL-8B"),
            (
                "[trainer.model]\n",
                (
                    '[trainer.model]\nimpl = "custom"\noptimization_dtype = "bfloat16"\n'
                    'reduce_dtype = "bfloat16"\n'
                ),
            ),
        ],
    ),
    (
        "schema",
        NEW,
        [
            (
                "[trainer.optim]",
                '[trainer.scheduler]\ntype = "linear"\nwarmup_steps = 0\n\n[trainer.optim]',
            )
        ],
    ),
    ("R25", OLD, [("trainer_gpu_ids = [1]", "trainer_gpu_ids = [1, 2, 3]")]),
    ("R25", NEW, [("num_train_gpus = 1", "num_train_gpus = 7")]),
    (
        "R29",
        OLD,
        [
            ("max_tokens = 2048", "max_tokens = 4096"),
            ("max_model_len = 4096", "max_model_len = 8192"),
        ],
    ),
    ("R29", OLD, [("max_tokens = 2048", "max_tokens = 4096"), ("max_model_len = 4096\n", "")]),
    (
        "R30",
        OLD,
        [
            (
                "[ckpt]\ninterval = 5\nkeep_last = 3",
                "[trainer.ckpt]\ninterval = 5\n[orchestrator.ckpt]\ninterval = 5",
            )
        ],
    ),
    ("R30", OLD, [("[ckpt]", "[trainer.ckpt]\nskip_progress = true\n[ckpt]")]),
    (
        "R31",
        OLD,
        [
            ("[ckpt]", '[weight_broadcast]\ntype = "filesystem"\n\n[ckpt]'),
            ("clean = false", "max_async_level = 2"),
        ],
    ),
    (
        "R31",
        OLD,
        [
            ("[trainer.model.lora]\nrank = 8\nalpha = 32\n", ""),
            ("[ckpt]", '[weight_broadcast]\ntype = "nccl"\n\n[ckpt]'),
        ],
    ),
    ("R32", OLD, [("network_access = false", 'curriculum = "none"')]),
    ("P01", NEW, [("[trainer.optim]", "[trainer.metrics_server]\nport = 8009\n\n[trainer.optim]")]),
    ("P02", NEW, [("max_steps = 1000", "max_steps = 1000\ndry_run = true\nclean = false")]),
    ("P02", NEW, [("max_steps = 1000", "max_steps = 1000\nclean = true")]),
    (
        "P04",
        NEW,
        [
            ("interval = 5", 'interval = 5\noutput_dir = "/big"'),
            ("[run]", "[resume]\nstep = 10\n[run]"),
        ],
    ),
    ("P04", NEW, [("[run]", "[resume]\n[run]")]),
    ("P06", OLD, [("[orchestrator.env.args]", "[orchestrator.env.args]\ngroup_size = 8")]),
    ("P06", NEW, [("network_access = false", "rollouts_per_example = 4")]),
    ("P07", OLD, [("keep_last = 3", "keep_last = 3\nresume_step = 5")]),
    ("V02", VERL, [("trainer.resume_mode=disable", "trainer.resume_mode=auto")]),
    (
        "V02",
        VERL,
        [
            ("trainer.resume_mode=disable", "trainer.resume_mode=resume_path"),
            ("resume_from_path=null", "resume_from_path=/data/global_step_5"),
        ],
    ),
    (
        "V03",
        VERL,
        [("rollout.n=4", "rollout.n=8"), ("max_response_length=1536", "max_response_length=512")],
    ),
    (
        "V03",
        VERL,
        [
            ("rollout.n=4", "rollout.n=8"),
            ("n_gpus_per_node=1", "n_gpus_per_node=8"),
            ("utilization=0.65", "utilization=0.8"),
        ],
    ),
    ("V04", VERL, [("trainer.nnodes=1", "actor_rollout_ref.model.lora_rank=0")]),
    (
        "V04",
        VERL,
        [
            (
                "trainer.nnodes=1",
                (
                    "actor_rollout_ref.model.lora_rank=32 "
                    "actor_rollout_ref.rollout.load_format=safetensors "
                    "actor_rollout_ref.model.use_shm=True"
                ),
            )
        ],
    ),
    (
        "V05",
        VERL,
        [
            (
                "trainer.nnodes=1",
                (
                    "+actor_rollout_ref.model.lora_adapter_path=/data/a "
                    "actor_rollout_ref.rollout.load_format=safetensors "
                    "actor_rollout_ref.model.use_shm=True"
                ),
            )
        ],
    ),
    ("V07", VERL, [("default_local_dir=/data/checkpoints", "default_local_dir=$DATA/checkpoints")]),
    (
        "V08",
        VERL,
        [("parallel_size=1", "parallel_size=4"), ("n_gpus_per_node=1", "n_gpus_per_node=8")],
    ),
    ("V08", VERL, [("parallel_size=1", "parallel_size=2"), ("nnodes=1", "nnodes=2")]),
    ("V08", VERL, [("parallel_size=1", "parallel_size=2"), ("per_node=1", "per_node=$GPUS")]),
    (
        "V07",
        VERL,
        [("hydra.run.dir=/data/hydra/$ATTEMPT", "hydra.run.dir='outputs/${now:%H-%M-%S}'")],
    ),
    (
        "schema",
        OLD,
        [
            ("lr = 1e-5", 'lr = "1e-5"'),
            ("batch_size = 128", "batch_size = 128.0"),
            ("max_steps = 1000", 'max_steps = "1000"'),
        ],
    ),
    ("schema", OLD, [("[trainer.model]\n", '[trainer.model]\ncompile = "None"\ncp = true\n')]),
    ("schema", NEW, [("lr = 1e-5", 'lr = 1\nmax_norm = "None"')]),
    ("schema", NEW, [("[trainer.optim]", "[trainer.model.compile]\n[trainer.optim]")]),
]


@pytest.mark.parametrize("trainer", BASES)
def test_the_bases_are_clean(tmp_path: Path, trainer: str) -> None:
    assert findings(tmp_path, trainer, BASES[trainer]) == []


@pytest.mark.parametrize(("rule", "trainer", "changes"), WRONG)
def test_a_config_that_breaks_the_rule(
    tmp_path: Path, rule: str, trainer: str, changes: list[tuple[str, str]]
) -> None:
    text = changed(trainer, *changes)
    found = findings(tmp_path, trainer, text)
    assert {item.line for item in found if item.id == rule} & set(marked(text)), [
        item.as_dict() for item in found
    ]
    assert next(item.level for item in found if item.id == rule) in ("error", "warning")
    if rule not in ("schema", "toml"):
        line = marked(text)[0]
        assert not [
            item for item in found if (item.id, item.level, item.line) == ("schema", "error", line)
        ], "the rule explains it; the schema need not"


@pytest.mark.parametrize(("rule", "trainer", "changes"), FINE)
def test_a_near_miss(
    tmp_path: Path, rule: str, trainer: str, changes: list[tuple[str, str]]
) -> None:
    found = findings(tmp_path, trainer, changed(trainer, *changes))
    assert [item.as_dict() for item in found if item.id == rule] == []
    assert [item.as_dict() for item in found if item.level == "error"] == []


@pytest.mark.parametrize(("trainer", "key"), [(OLD, "max_tokens"), (NEW, "max_completion_tokens")])
def test_an_answer_and_a_prompt_whose_length_is_given_fit_the_sequence(
    tmp_path: Path, trainer: str, key: str
) -> None:
    """Where nobody says how long a prompt is, the trainers' own examples would be warned of."""
    text = changed(trainer, (f"{key} = 2048", f"{key} = 2597"), ("max_model_len = 4096\n", ""))
    for given, warned in (
        ({}, False),
        ({"prompt_tokens": 1499}, False),
        ({"prompt_tokens": 1500}, True),
    ):
        found = [
            item.message for item in findings(tmp_path, trainer, text, **given) if item.id == "R29"
        ]
        assert len(found) == warned, given


@pytest.mark.parametrize(("trainer", "key"), [(OLD, "max_tokens"), (NEW, "max_completion_tokens")])
def test_an_answer_fits_the_models_context_where_the_server_has_no_limit_of_its_own(
    tmp_path: Path, trainer: str, key: str
) -> None:
    whole = (f"{key} = 2048", f"{key} = 4096")
    unset = changed(trainer, whole, ("max_model_len = 4096\n", ""))
    larger = changed(trainer, whole, ("max_model_len = 4096", "max_model_len = 8192"))
    for text, given, refused in (
        (unset, {}, False),
        (unset, {"context": 32768}, False),
        (unset, {"context": 4096}, True),
        (larger, {"context": 4096}, False),
    ):
        found = [item for item in findings(tmp_path, trainer, text, **given) if item.id == "R08"]
        assert [("the model's context" in one.message) for one in found] == [True] * refused
        file = tmp_path / NAMES[trainer]
        known = Given(**given)  # type: ignore[arg-type]
        assert is_unbounded(file, trainer, known) == (text is unset and not given)


def test_every_rule_of_the_file_alone_has_a_case() -> None:
    here = {rule for rule, _, _ in WRONG}
    assert {name for name, rule in rules().items() if not rule.needs} - here - {"yaml"} == set()


def test_levels_are_those_of_the_catalog(tmp_path: Path) -> None:
    softer = {"R02", "R04", "R24", "schema"}
    for rule, trainer, changes in WRONG:
        for item in findings(tmp_path, trainer, changed(trainer, *changes)):
            if item.id == rule and rule not in softer:
                assert item.level == rules()[rule].level, rule


SMALL = [
    ("trainer_gpu_ids = [1]", "trainer_gpu_ids = [0]"),
    ("seq_len = 4096\n\n[trainer.model.ac]", "seq_len = 2048\n\n[trainer.model.ac]"),
    ("seq_len = 4096\nover", "seq_len = 2048\nover"),
    ("batch_size = 128\nrollouts_per_example = 8", "batch_size = 8\nrollouts_per_example = 2"),
    ("utilization = 0.9", "utilization = 0.5"),
]


def test_one_gpu_with_the_small_settings_is_fine(tmp_path: Path) -> None:
    assert findings(tmp_path, OLD, changed(OLD, *SMALL)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("utilization = 0.5", "utilization = 0.6 # <-"),
        ("batch_size = 8", "batch_size = 16 # <-"),
        ("rollouts_per_example = 2", "rollouts_per_example = 4 # <-"),
        ("max_model_len = 4096", "max_model_len = 8192 # <-"),
        ("enforce_eager = true", "enforce_eager = false # <-"),
    ],
)
def test_one_gpu_and_one_setting_too_large(tmp_path: Path, old: str, new: str) -> None:
    text = changed(OLD, *SMALL).replace(old, new)
    found = findings(tmp_path, OLD, text)
    assert [item.line for item in found if item.id == "R11"] == marked(text)
    assert "R25" in {item.id for item in found}
