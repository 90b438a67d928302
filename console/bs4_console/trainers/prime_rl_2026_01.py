"""What is believed of prime-rl of January 2026, read from a24ec986b."""

from __future__ import annotations

from bs4_console.trainers.belief import (
    Believed,
    Calls,
    Constants,
    Entry,
    Fields,
    Known,
    Texts,
    Words,
    belief,
)
from bs4_console.trainers.prime_rl_2026_01_lines import LINES

_HEADER = "the time and level of every log line"
_LOGS = "where the logs of a run are found"
_CHECKPOINTS = "the list of checkpoints, and which of them are whole"
_HANDOVER = "step-desync, and what is moved aside before a start"
_CLEAN = "which logs and files are saved before a start removes them"
_COMPONENTS = "which process is which part of a run, and runs that were started by hand"
_STOP = "how a run is stopped, and whether all its processes end"
_EXITS = "what an exit code is taken to prove"
_DEATHS = "which part of a run failed, and why"
_OPTIONS = "how a run is launched, and what a config asks for"
_SERVER = "the address at which the inference server is asked"

_RL = "src/prime_rl/rl.py"
_PATHS = "src/prime_rl/utils/pathing.py"
_ORCHESTRATOR = "src/prime_rl/orchestrator/orchestrator.py"
_TRAIN = "src/prime_rl/trainer/rl/train.py"
_FILES = "src/prime_rl/transport/filesystem.py"
_RUNS = "src/prime_rl/trainer/runs.py"


_LAYOUT = (
    belief(
        "log-header",
        "line",
        "src/prime_rl/utils/logger.py",
        "setup_logger",
        Constants(("<dim>{time:HH:mm:ss}</dim>", " <level>{level: >7}</level>")),
        _HEADER,
    ),
    belief("logs-dir", "layout", _PATHS, "get_log_dir", Texts(("logs",)), _LOGS),
    belief(
        "checkpoints-dir", "layout", _PATHS, "get_ckpt_dir", Texts(("checkpoints",)), _CHECKPOINTS
    ),
    belief("weights-dir", "layout", _PATHS, "get_weights_dir", Texts(("weights",)), _CHECKPOINTS),
    belief("rollouts-dir", "layout", _PATHS, "get_rollout_dir", Texts(("rollouts",)), _HANDOVER),
    belief(
        "broadcasts-dir",
        "layout",
        _PATHS,
        "get_broadcast_dir",
        Texts(("broadcasts",)),
        _CHECKPOINTS,
    ),
    belief("step-dir", "layout", _PATHS, "get_step_path", Texts(("step_<step>",)), _CHECKPOINTS),
    belief(
        "orchestrator-dir",
        "layout",
        _RL,
        "RLConfig.auto_setup_output_dir",
        Texts(("run_default",)),
        _CHECKPOINTS,
    ),
    belief(
        "component-logs",
        "layout",
        _RL,
        "rl",
        Texts(
            (
                "inference.stdout",
                "teacher_inference.stdout",
                "orchestrator.stdout",
                "trainer.stdout",
            )
        ),
        _LOGS,
    ),
    belief(
        "trainer-part",
        "layout",
        "src/prime_rl/trainer/ckpt.py",
        "CheckpointManager.get_ckpt_path",
        Texts(("trainer",)),
        _CHECKPOINTS,
    ),
    belief(
        "orchestrator-part",
        "layout",
        "src/prime_rl/orchestrator/ckpt.py",
        "CheckpointManager.get_ckpt_path",
        Texts(("orchestrator",)),
        _CHECKPOINTS,
    ),
    belief(
        "orchestrator-files",
        "layout",
        "src/prime_rl/orchestrator/ckpt.py",
        "CheckpointManager._save_to_path",
        Texts(("progress.pt", "buffer")),
        _CHECKPOINTS,
    ),
    belief(
        "buffer-file",
        "layout",
        "src/prime_rl/orchestrator/buffer.py",
        "Buffer.save",
        Texts(("rollout_buffer.jsonl",)),
        _CHECKPOINTS,
    ),
    belief(
        "broadcast-marker",
        "layout",
        "src/prime_rl/trainer/rl/broadcast/filesystem.py",
        "FileSystemWeightBroadcast._notify_orchestrator",
        Texts(("STABLE",)),
        _CHECKPOINTS,
    ),
    belief(
        "orchestrator-config",
        "layout",
        _RUNS,
        "Runs.get_orchestrator_config",
        Texts(("configs", "orch.toml", "error.txt")),
        "why a trainer does not see its orchestrator",
    ),
    belief(
        "batch-files",
        "layout",
        _FILES,
        "",
        Texts(("rollouts.bin", "rollouts.bin.tmp")),
        _HANDOVER,
    ),
    belief(
        "micro-batch-files",
        "layout",
        _FILES,
        "FileSystemMicroBatchSender.send",
        Texts(("rank_<rank>.bin",)),
        _HANDOVER,
    ),
)

_PROCESSES = (
    *(
        belief(
            f"script-{script}",
            "command",
            "pyproject.toml",
            "",
            Entry(f"project.scripts.{script}", target),
            _COMPONENTS,
        )
        for script, target in (
            ("rl", "prime_rl.rl:main"),
            ("trainer", "prime_rl.trainer.rl.train:main"),
            ("orchestrator", "prime_rl.orchestrator.orchestrator:main"),
            ("inference", "prime_rl.inference.server:main"),
            ("sft", "prime_rl.trainer.sft.train:main"),
            ("eval", "prime_rl.eval.eval:main"),
        )
    ),
    belief(
        "inference-argv",
        "command",
        _RL,
        "rl",
        Words(("uv", "run", "inference", "@")),
        _COMPONENTS,
    ),
    belief(
        "orchestrator-argv",
        "command",
        _RL,
        "rl",
        Words(("uv", "run", "orchestrator", "@")),
        _COMPONENTS,
    ),
    belief(
        "trainer-argv",
        "command",
        _RL,
        "rl",
        Words(("torchrun", "--redirect=3", "--tee=3", "-m", "prime_rl.trainer.rl.train", "@")),
        _COMPONENTS,
    ),
    belief("tail-argv", "command", _RL, "rl", Words(("tail", "-F")), _COMPONENTS),
    *(
        belief(
            f"{part}-without-title",
            "title",
            file,
            "",
            Calls(("setproctitle", "set_proc_title"), ()),
            _COMPONENTS,
        )
        for part, file in (("launcher", _RL), ("orchestrator", _ORCHESTRATOR), ("trainer", _TRAIN))
    ),
)

_ENDS = (
    belief("launcher-exits", "exit", _RL, "rl", Calls(("exit",), ("exit 1", "exit 1")), _EXITS),
    belief(
        "launcher-ignores-exit-0",
        "exit",
        _RL,
        "monitor_process",
        Calls(("wait", "set"), ("wait", "set", "set")),
        "vllm-silent-death: an inference server that ends with 0 is not noticed",
    ),
    belief("trainer-catches", "exit", _TRAIN, "train", Calls(("catch",), ("catch True",)), _DEATHS),
    belief(
        "orchestrator-catches",
        "exit",
        _ORCHESTRATOR,
        "orchestrate",
        Calls(("catch",), ("catch True",)),
        _DEATHS,
    ),
    belief("launcher-no-handler", "shutdown", _RL, "", Calls(("signal",), ()), _STOP),
    belief(
        "launcher-order",
        "shutdown",
        _RL,
        "rl",
        Calls(
            ("cleanup_threads", "cleanup_processes"),
            ("cleanup_threads", "cleanup_processes") * 4,
        ),
        _STOP,
    ),
    belief(
        "threads-join",
        "shutdown",
        _RL,
        "cleanup_threads",
        Calls(("join",), ("join 5",)),
        _STOP,
    ),
    belief(
        "processes-end",
        "shutdown",
        _RL,
        "cleanup_processes",
        Calls(("terminate", "wait", "kill"), ("terminate", "wait 60", "kill")),
        _STOP,
    ),
)

_STATE = (
    belief(
        "clean-removes",
        "clean",
        _RL,
        "rl",
        Calls(
            ("rmtree",),
            (
                "rmtree get_log_dir",
                "rmtree get_log_dir orchestrator",
                "rmtree get_broadcast_dir orchestrator",
                "rmtree get_rollout_dir orchestrator",
            ),
        ),
        _CLEAN,
    ),
    belief(
        "packer-removes",
        "clean",
        "src/prime_rl/trainer/rl/packer.py",
        "Packer.__init__",
        Calls(("rmtree",), ("rmtree get_rollout_dir",)),
        _CLEAN,
    ),
    belief(
        "log-file-removed",
        "clean",
        "src/prime_rl/utils/logger.py",
        "setup_logger",
        Calls(("unlink",), ("unlink",)),
        _CLEAN,
    ),
    belief(
        "broadcasts-removed",
        "clean",
        "src/prime_rl/trainer/utils.py",
        "maybe_clean",
        Calls(("rmtree",), ("rmtree get_step_path",)),
        "how much a run's broadcasts will take",
    ),
    belief(
        "packer-step",
        "resume",
        _RUNS,
        "Runs._create_run_data",
        Calls(("max",), ("max prev_ckpt_steps",)),
        _HANDOVER,
    ),
    belief(
        "packer-step-dirs",
        "resume",
        _RUNS,
        "Runs._create_run_data",
        Texts(("checkpoints", "step_*")),
        _HANDOVER,
    ),
    belief(
        "packer-reads",
        "resume",
        _FILES,
        "FileSystemTrainingBatchReceiver._get_batch_path",
        Calls(("get_step_path",), ("get_step_path progress",)),
        _HANDOVER,
    ),
    belief(
        "orchestrator-reads",
        "resume",
        "src/prime_rl/orchestrator/ckpt.py",
        "CheckpointManager._load_from_path",
        Texts(("progress.pt", "buffer")),
        _CHECKPOINTS,
    ),
    belief(
        "orchestrator-reads-weights",
        "resume",
        _ORCHESTRATOR,
        "orchestrate",
        Calls(("update_weights",), ("update_weights get_broadcast_dir ckpt_step",)),
        _CHECKPOINTS,
    ),
    belief(
        "latest-step",
        "resume",
        _PATHS,
        "get_all_ckpt_steps",
        Texts(("step_*", "_")),
        "which step a resume at the latest takes",
    ),
)

_CONFIG = (
    belief(
        "rl-config",
        "config",
        _RL,
        "RLConfig",
        Fields(
            (
                ("clean", "True"),
                ("inference_gpu_ids", ""),
                ("trainer_gpu_ids", ""),
                ("teacher_gpu_ids", "None"),
                ("output_dir", ""),
                ("max_async_level", "None"),
                ("ckpt", "None"),
            )
        ),
        _OPTIONS,
    ),
    belief(
        "checkpoint-config",
        "config",
        _RL,
        "SharedCheckpointConfig",
        Fields(
            (
                ("interval", "None"),
                ("resume_step", "None"),
                ("keep_last", "None"),
                ("keep_interval", "None"),
            )
        ),
        _OPTIONS,
    ),
    belief(
        "orchestrator-checkpoint-config",
        "config",
        "src/prime_rl/orchestrator/config.py",
        "CheckpointConfig",
        Fields((("resume_step", "None"), ("keep_last", "None"), ("skip_buffer", "False"))),
        _CHECKPOINTS,
    ),
    belief(
        "orchestrator-config-fields",
        "config",
        "src/prime_rl/orchestrator/config.py",
        "OrchestratorConfig",
        Fields((("batch_size", "128"), ("rollouts_per_example", ""), ("output_dir", ""))),
        _OPTIONS,
    ),
    belief(
        "server-config",
        "config",
        "src/prime_rl/inference/config.py",
        "ServerConfig",
        Fields((("host", "None"), ("port", "8000"))),
        _SERVER,
    ),
    belief(
        "client-config",
        "config",
        "src/prime_rl/utils/config.py",
        "ClientConfig",
        Fields((("base_url", ""),)),
        _SERVER,
    ),
)

BELIEVED = Believed(
    id="prime-rl-2026-01",
    title="prime-rl of January 2026",
    code=("src/prime_rl",),
    known=(
        Known(commit="5c5560039", version="before 0.1", date="2025-07-07", read=False),
        Known(commit="dbe1b712c", version="0.1-389", date="2025-10-07", read=False),
        Known(commit="a24ec986b", version="0.2-21", date="2026-01-07", read=True),
        Known(commit="04da032d9", version="0.5.1.dev42", date="2026-04-07", read=False),
        Known(commit="1b028ca1d", version="0.6.1.dev61", date="2026-07-07", read=False),
    ),
    beliefs=(*LINES, *_LAYOUT, *_PROCESSES, *_ENDS, *_STATE, *_CONFIG),
)
