"""What is believed of the current prime-rl, read from 559b44772 of August 2026."""

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
from bs4_console.trainers.prime_rl_lines import LINES

_HEADER = "the time and level of every log line"
_METRICS = "the numbers of a step, which are those of metrics.jsonl where that exists"
_LOGS = "where the logs of a run are found, and which attempt they belong to"
_ROLLOUTS = "rollouts and what is computed from them"
_CHECKPOINTS = "the list of checkpoints, and which of them are whole"
_CLEAN = "what a start removes, and why a start is refused"
_COMPONENTS = "which process is which part of a run, and runs that were started by hand"
_STOP = "how a run is stopped, and whether all its processes end"
_EXITS = "what an exit code is taken to prove"
_OPTIONS = "how a run is launched, and what a config asks for"
_RESUME = "which step a resume takes, and resume-latest-partial"
_SERVER = "the address at which the inference server is asked"

_RL = "src/prime_rl/entrypoints/rl.py"
_PATHS = "src/prime_rl/utils/pathing.py"
_PROCESS = "src/prime_rl/utils/process.py"
_ORCHESTRATOR = "src/prime_rl/orchestrator/orchestrator.py"
_TRAIN = "src/prime_rl/trainer/rl/train.py"
_CONFIGS = "packages/prime-rl-configs/src/prime_rl/configs"


_FORMATS = (
    belief(
        "log-header",
        "line",
        "src/prime_rl/utils/logger.py",
        "setup_logger",
        Constants(("<dim>{time:HH:mm:ss}</dim>", " <level>{level: >7}</level>")),
        _HEADER,
    ),
    belief(
        "log-json",
        "line",
        "src/prime_rl/utils/logger.py",
        "build_log_entry",
        Texts(
            (
                "timestamp",
                "level",
                "message",
                "module",
                "exception",
                "type",
                "progress",
                "desc",
                "current",
                "total",
                "percent",
                "step",
            )
        ),
        _HEADER,
    ),
    belief(
        "metrics-file",
        "metric",
        "src/prime_rl/monitors/file.py",
        "FileMonitor.log_metrics",
        Texts(("step", "time")),
        _METRICS,
    ),
    belief(
        "metrics-trainer",
        "metric",
        _TRAIN,
        "train",
        Texts(
            (
                "perf/throughput",
                "perf/mfu",
                "perf/peak_memory",
                "optim/lr",
                "optim/grad_norm",
                "time/wait_for_batch",
                "time/forward_backward",
                "time/broadcast_weights",
            )
        ),
        _METRICS,
    ),
    belief(
        "metrics-orchestrator",
        "metric",
        _ORCHESTRATOR,
        "Orchestrator.finalize_train_batch",
        Texts(("progress/tokens", "time/pack", "time/wait_for_policy", "off_policy/max")),
        _METRICS,
    ),
)

_LAYOUT = (
    belief("logs-dir", "layout", _PATHS, "get_log_dir", Texts(("logs",)), _LOGS),
    belief(
        "attempt-dirs",
        "layout",
        _PATHS,
        "create_attempt_log_dir",
        Texts(("attempt_<n>", "attempt_*", "latest")),
        _LOGS,
    ),
    belief(
        "component-logs",
        "layout",
        _RL,
        "rl_local",
        Texts(("inference.log", "orchestrator.log", "trainer.log", "<name>.log")),
        _LOGS,
    ),
    belief("configs-dir", "layout", _PATHS, "get_config_dir", Texts(("configs",)), _OPTIONS),
    belief(
        "component-configs",
        "layout",
        _RL,
        "",
        Texts(("trainer.json", "orchestrator.json", "inference.json", "envs")),
        "what is read of a run that was started by hand",
    ),
    belief(
        "checkpoints-dir", "layout", _PATHS, "get_ckpt_dir", Texts(("checkpoints",)), _CHECKPOINTS
    ),
    belief("rollouts-dir", "layout", _PATHS, "get_rollout_dir", Texts(("rollouts",)), _ROLLOUTS),
    belief(
        "broadcasts-dir",
        "layout",
        _PATHS,
        "get_broadcast_dir",
        Texts(("broadcasts",)),
        "how much a run's broadcasts will take",
    ),
    belief("step-dir", "layout", _PATHS, "get_step_path", Texts(("step_<step>",)), _CHECKPOINTS),
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
        "CheckpointManager.save",
        Texts(("progress.pt",)),
        _CHECKPOINTS,
    ),
    belief(
        "orchestrator-file-whole",
        "layout",
        "src/prime_rl/orchestrator/ckpt.py",
        "CheckpointManager.save",
        Calls(("replace",), ("replace tmp_name",)),
        _CHECKPOINTS,
    ),
    belief(
        "traces",
        "layout",
        "src/prime_rl/monitors/file.py",
        "FileMonitor.log_episodes.write",
        Texts(("rollouts", "step_<step>", "traces.jsonl")),
        _ROLLOUTS,
    ),
    belief(
        "broadcast-marker",
        "layout",
        "src/prime_rl/transports/weights/filesystem.py",
        "FileSystemWeightBroadcast._notify_orchestrator",
        Texts(("STABLE",)),
        _CHECKPOINTS,
    ),
)

_PROCESSES = (
    *(
        belief(
            f"script-{script}",
            "command",
            "pyproject.toml",
            "",
            Entry(f"project.scripts.{script}", f"prime_rl.entrypoints.{module}:main"),
            _COMPONENTS,
        )
        for script, module in (
            ("rl", "rl"),
            ("sft", "sft"),
            ("inference", "inference"),
            ("trainer", "trainer"),
            ("orchestrator", "orchestrator"),
            ("evals", "evals"),
            ("env-server", "env_server"),
        )
    ),
    belief("title-prefix", "title", _PROCESS, "", Texts(("PRIME-RL",)), _COMPONENTS),
    belief(
        "title-form", "title", _PROCESS, "set_proc_title", Texts(("<prefix>::<name>",)), _COMPONENTS
    ),
    *(
        belief(
            f"title-{title}".lower(),
            "title",
            file,
            "main",
            Calls(("set_proc_title",), (f"set_proc_title {title}",)),
            _COMPONENTS,
        )
        for title, file in (
            ("Launcher", _RL),
            ("Inference", "src/prime_rl/entrypoints/inference.py"),
            ("EnvServer", "src/prime_rl/entrypoints/env_server.py"),
            ("Orchestrator", "src/prime_rl/entrypoints/orchestrator.py"),
            ("Trainer", _TRAIN),
            ("SFT", "src/prime_rl/entrypoints/sft.py"),
            ("SFTTrainer", "src/prime_rl/trainer/sft/train.py"),
            ("Evals", "src/prime_rl/entrypoints/evals.py"),
        )
    ),
    belief("inference-argv", "command", _RL, "rl_local", Words(("inference", "@")), _COMPONENTS),
    belief(
        "orchestrator-argv",
        "command",
        _RL,
        "rl_local",
        Words(("orchestrator", "@")),
        _COMPONENTS,
    ),
    belief("env-server-argv", "command", _RL, "rl_local", Words(("env-server", "@")), _COMPONENTS),
    belief(
        "trainer-argv",
        "command",
        _RL,
        "rl_local",
        Words(
            (
                "torchrun",
                "--role=trainer",
                "--redirect=3",
                "--tee=3",
                "-m",
                "prime_rl.trainer.rl.train",
                "@",
            )
        ),
        _COMPONENTS,
    ),
    belief("tail-argv", "command", _RL, "rl_local", Texts(("tail -F '<log>'",)), _COMPONENTS),
    belief(
        "router-argv",
        "command",
        "src/prime_rl/entrypoints/inference.py",
        "start_router",
        Words(("vllm-router", "--port", "--worker-urls")),
        _SERVER,
    ),
)

_ENDS = (
    belief("launcher-exits", "exit", _RL, "rl_local", Calls(("exit",), ("exit 1",) * 5), _EXITS),
    belief(
        "orchestrator-exit-0",
        "exit",
        _ORCHESTRATOR,
        "Orchestrator.stop",
        Calls(("_exit",), ("_exit 0",)),
        _EXITS,
    ),
    belief(
        "fatal-exits",
        "exit",
        "src/prime_rl/utils/utils.py",
        "clean_exit",
        Calls(("exit",), ("exit 1", "exit 1")),
        _EXITS,
    ),
    belief(
        "launcher-ignores-exit-0",
        "exit",
        _PROCESS,
        "monitor_process",
        Calls(("wait", "set"), ("wait", "set")),
        "vllm-silent-death: an inference server that ends with 0 is not noticed",
    ),
    belief(
        "launcher-handler",
        "shutdown",
        _RL,
        "",
        Calls(("signal",), ("signal SIGTERM sigterm_handler",)),
        _STOP,
    ),
    belief(
        "launcher-order",
        "shutdown",
        _RL,
        "rl_local",
        Calls(
            ("cleanup_threads", "cleanup_processes"),
            ("cleanup_threads", "cleanup_processes") * 7,
        ),
        _STOP,
    ),
    belief(
        "threads-join",
        "shutdown",
        _PROCESS,
        "cleanup_threads",
        Calls(("join",), ("join 5",)),
        _STOP,
    ),
    belief(
        "processes-end",
        "shutdown",
        _PROCESS,
        "cleanup_processes",
        Calls(
            ("cleanup_process", "wait"),
            ("cleanup_process SIGTERM", "wait 60", "cleanup_process SIGKILL"),
        ),
        _STOP,
    ),
    belief(
        "router-takes-engine",
        "shutdown",
        "src/prime_rl/entrypoints/inference.py",
        "inference_local.watch_router",
        Calls(("kill",), ("kill SIGTERM",)),
        _STOP,
    ),
)

_STATE = (
    belief(
        "clean-removes",
        "clean",
        _PATHS,
        "validate_run_dir",
        Calls(("rmtree",), ("rmtree d",)),
        _CLEAN,
    ),
    belief(
        "used-directory",
        "clean",
        _PATHS,
        "validate_run_dir",
        Calls(("FileExistsError",), ("FileExistsError",)),
        _CLEAN,
    ),
    belief(
        "future-steps",
        "clean",
        _PATHS,
        "clean_future_steps",
        Calls(("get_rollout_dir", "get_broadcast_dir"), ("get_rollout_dir", "get_broadcast_dir")),
        _CLEAN,
    ),
    belief(
        "future-steps-removed",
        "clean",
        _PATHS,
        "clean_future_steps",
        Calls(("rmtree",), ("rmtree get_step_path",)),
        _CLEAN,
    ),
    belief(
        "start-cleans",
        "clean",
        _RL,
        "rl",
        Calls(
            ("validate_run_dir", "clean_future_steps", "rl_local"),
            (
                "validate_run_dir",
                "clean_future_steps resume_step",
                "clean_future_steps 1",
                "rl_local",
            ),
        ),
        _CLEAN,
    ),
    belief(
        "latest-step",
        "resume",
        _PATHS,
        "get_all_ckpt_steps",
        Texts(("step_*", "_")),
        _RESUME,
    ),
    belief(
        "launcher-resume-step",
        "resume",
        _RL,
        "rl",
        Calls(("resolve_latest_ckpt_step",), ("resolve_latest_ckpt_step get_ckpt_dir",)),
        _RESUME,
    ),
    belief(
        "orchestrator-resume-step",
        "resume",
        _ORCHESTRATOR,
        "Orchestrator.setup",
        Calls(("resolve_latest_ckpt_step",), ("resolve_latest_ckpt_step ckpt_dir",)),
        _RESUME,
    ),
    belief(
        "orchestrator-reads",
        "resume",
        "src/prime_rl/orchestrator/ckpt.py",
        "CheckpointManager.load",
        Texts(("progress.pt", "progress", "train_source")),
        _CHECKPOINTS,
    ),
)

_CONFIG = (
    belief(
        "rl-config",
        "config",
        f"{_CONFIGS}/rl.py",
        "RLConfig",
        Fields(
            (
                ("output_dir", ""),
                ("clean", "False"),
                ("resume", "None"),
                ("dry_run", "False"),
                ("ckpt", "None"),
                ("slurm", "None"),
            )
        ),
        _OPTIONS,
    ),
    belief(
        "run-config",
        "config",
        f"{_CONFIGS}/shared.py",
        "RunConfig",
        Fields((("name", "None"), ("dir", "None"))),
        _OPTIONS,
    ),
    belief(
        "resume-config",
        "config",
        f"{_CONFIGS}/shared.py",
        "ResumeConfig",
        Fields((("step", "None"), ("dir", "None"))),
        _OPTIONS,
    ),
    belief(
        "checkpoint-config",
        "config",
        f"{_CONFIGS}/rl.py",
        "SharedCheckpointConfig",
        Fields(
            (
                ("output_dir", "None"),
                ("interval", "None"),
                ("keep_last", "None"),
                ("keep_interval", "None"),
            )
        ),
        _OPTIONS,
    ),
    belief(
        "log-config",
        "config",
        f"{_CONFIGS}/rl.py",
        "SharedLogConfig",
        Fields((("json_logging", "False"),)),
        _HEADER,
    ),
    belief(
        "component-log-config",
        "config",
        f"{_CONFIGS}/shared.py",
        "LogConfig",
        Fields((("json_logging", "False"), ("interval", "10.0"))),
        "whether an orchestrator between two steps is alive, and run-stalled",
    ),
    belief(
        "deployment-config",
        "config",
        f"{_CONFIGS}/rl.py",
        "SingleNodeDeploymentConfig",
        Fields((("num_train_gpus", "1"), ("num_infer_gpus", "1"))),
        _OPTIONS,
    ),
    belief(
        "metrics-config",
        "config",
        f"{_CONFIGS}/monitors.py",
        "FileMonitorConfig",
        Fields((("path", ""),)),
        _METRICS,
    ),
    belief(
        "metrics-default",
        "config",
        f"{_CONFIGS}/monitors.py",
        "FileMonitorConfig",
        Texts(("metrics.jsonl",)),
        _METRICS,
    ),
    belief(
        "server-config",
        "config",
        f"{_CONFIGS}/inference.py",
        "ServerConfig",
        Fields((("host", ""), ("port", "8000"))),
        _SERVER,
    ),
    belief(
        "inference-config",
        "config",
        f"{_CONFIGS}/inference.py",
        "InferenceConfig",
        Fields((("router", ""), ("backend_port", "8100"))),
        _SERVER,
    ),
    belief(
        "client-config",
        "config",
        f"{_CONFIGS}/shared.py",
        "ClientConfig",
        Fields((("base_url", "'http://localhost:8000/v1'"), ("admin_base_url", "None"))),
        _SERVER,
    ),
    belief(
        "transport-config",
        "config",
        f"{_CONFIGS}/shared.py",
        "ZMQTransportConfig",
        Fields((("port", "5555"),)),
        "the ports that are checked before a launch",
    ),
)

BELIEVED = Believed(
    id="prime-rl",
    title="prime-rl, the current generation",
    code=("src/prime_rl", "packages"),
    known=(
        Known(commit="7eade4f7e", version="0.4.1.dev37", date="2026-02-20", read=False),
        Known(commit="1d9ca9255", version="0.5.1.dev215", date="2026-05-20", read=False),
        Known(commit="1b028ca1d", version="0.6.1.dev61", date="2026-07-07", read=False),
        Known(commit="559b44772", version="0.8.1.dev67", date="2026-08-21", read=True),
    ),
    beliefs=(*LINES, *_FORMATS, *_LAYOUT, *_PROCESSES, *_ENDS, *_STATE, *_CONFIG),
)
