"""Rules for the lines of `sft` and `eval`, which are programs of their own beside `rl`: a24ec986b
and 559b44772.

SFT's step lines are in the log of a trainer and differ from RL's: there is no entropy, and the peak
memory is printed with the GPU's own.
"""

from __future__ import annotations

from bs4_common.trainers.grammar import Rule

_PEAK = "<peak_mem_gib>/<_gpu_gib> GiB (<_share>%)"
#: SFT adds the state of its data set to the line that both trainers have.
_POSITION = (
    "Starting from step <step:i> (total_tokens=<total_tokens:i>, "
    "total_samples=<total_samples:i>, dataset_state=<_state:t>)"
)

_BOTH = (
    Rule("trainer", "INFO", _POSITION, "starting", {"what": "position"}),
    Rule(
        "trainer", "INFO", "Starting SFT trainer in", "starting", {"what": "process"}, whole=False
    ),
    Rule("trainer", "SUCCESS", "SFT trainer finished!", "finished"),
)

V2026_01_PROGRAMS = (
    *_BOTH,
    Rule(
        "trainer",
        "SUCCESS",
        "Step <step:i> | Time: <time_s>s | Loss: <loss> | Grad. Norm: <grad_norm> | LR: <lr> | "
        "Throughput: <throughput> tokens/s"
        f" | MFU: <mfu>% | Peak Mem.: {_PEAK}{{ | Max Vio: <max_vio>}}",
        "step",
    ),
    Rule(
        "eval",
        "INFO",
        "Starting evals for <model:w> in environments <envs:t>",
        "starting",
        {"what": "process"},
    ),
    Rule("eval", "INFO", "Waiting for inference pool to be ready", "waiting-inference"),
    Rule("eval", "SUCCESS", "Inference pool is healthy and serves <model:w>", "ready"),
    Rule(
        "eval",
        "SUCCESS",
        "Evaluated <env:w> in <time_s>s (Avg@<k:i>=<reward>{, Pass@<pass_k:i>: "
        "<pass_rate>{<_more:t>}}, Completion Length: <completion_len>"
        " (±<completion_std>, ∈[<completion_min>, <completion_max>]), Truncated: <truncation>%)",
        "eval",
    ),
    Rule(
        "eval",
        "ERROR",
        "An error has been caught in function '<function:t>',",
        "fatal",
        whole=False,
    ),
    Rule("eval", "SUCCESS", "Eval finished!", "finished"),
)

CURRENT_PROGRAMS = (
    *_BOTH,
    Rule(
        "trainer",
        "SUCCESS",
        "Step <step:i> | <time_s:d> | Loss <loss>{ | Grad. Norm <grad_norm>} | LR <lr> | "
        "Throughput <throughput> tokens/s | MFU <mfu>%"
        f" | Peak Mem. {_PEAK}{{ | Max Vio <max_vio>}}{{ | Routing Conf. <routing_conf>}}",
        "step",
    ),
    Rule(
        "launcher",
        "SUCCESS",
        "Startup complete. Showing trainer logs...",
        "starting",
        {"what": "complete"},
    ),
    Rule("launcher", "SUCCESS", "SFT training finished!", "finished"),
    *(
        Rule(
            source,
            "SUCCESS",
            "Evaluated <env:w> (Step <step:i>) | <time_s:d> | Reward <reward> | Turns <turns> | "
            "Branches <branches> | Error <error>%"
            " | Truncation <truncation>%",
            "eval",
        )
        for source in ("eval", "evals")
    ),
    Rule("eval", "ERROR", "Fatal error in <function:w>", "fatal"),
    Rule("evals", "ERROR", "Fatal error in <function:w>", "fatal"),
)
