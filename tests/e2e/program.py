"""Stands for `sft` and `eval` (`evals`) of prime-rl: the lines of their own format strings, where
each generation writes them.

Runs on the pod under the name of the program; whoever puts it there sets GENERATION. The config's
name says what becomes of it: good, dying (ends with 1 before it has shown anything), silent (ends
with 0 and shows nothing).
"""

import json
import sys
import time
from pathlib import Path
from typing import TextIO

GENERATION = "current"

WHAT, CONFIG = Path(sys.argv[0]).name, Path(sys.argv[2] if len(sys.argv) > 2 else "").stem
STEPS = {
    "2026-01": "Step 0 | Time: 31.27s | Loss: 1.2000 | Grad. Norm: 0.1420 | LR: 3.00e-06 | "
    "Throughput: 20311 tokens/s | MFU: 12.3%"
    " | Peak Mem.: 41.2/79.1 GiB (52.1%)",
    "current": "Step 1 |   31.3s | Loss 1.2000 | Grad. Norm 0.1420 | LR 3.00e-06 | Throughput "
    "20311 tokens/s | MFU 12.3%"
    " | Peak Mem. 41.2/79.1 GiB (52.1%)",
}
EVALUATED = {
    "2026-01": (
        "Evaluated reverse-text in 12.40s (Avg@4=0.3100, Completion Length: 120.50 (±30.25, "
        "∈[10.00, 400.00]), Truncated: 3.1%)"
    ),
    "current": (
        "Evaluated reverse-text (Step 0) |   3m 3s | Reward 0.3750 | Turns 1.0 | Branches 1.0 | "
        "Error 0.8% | Truncation 1.6%"
    ),
}
FATAL = {
    "2026-01": "An error has been caught in function 'eval', process 'MainProcess' (7):",
    "current": "Fatal error in run_evals",
}


def say(level: str, message: str, to: TextIO = sys.stdout) -> None:
    if "--log.json-logging" in sys.argv:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        to.write(
            json.dumps(
                {
                    "timestamp": stamp,
                    "level": level,
                    "message": message,
                    "module": "x",
                    "function": "f",
                    "line": 1,
                }
            )
            + "\n"
        )
    else:
        to.write(f"{time.strftime('%H:%M:%S')} {level: >7} {message}\n")
    to.flush()


def sft(log: TextIO) -> None:
    say("INFO", "Starting SFT trainer in World(world_size=1)", log)
    say(
        "INFO",
        "Starting from step 0 (total_tokens=0, total_samples=0, dataset_state={'step': 0})",
        log,
    )
    if CONFIG == "dying":
        log.write("RuntimeError: the data set has no column called messages\n")
        sys.exit(1)
    time.sleep(0.5)
    say("SUCCESS", STEPS[GENERATION], log)
    time.sleep(1.0)
    say("SUCCESS", "SFT trainer finished!", log)


def launch_sft() -> None:
    """The current generation's launcher: the trainer has a log of its own."""
    out, name = (
        Path(sys.argv[sys.argv.index(option) + 1]) for option in ("--output-dir", "--run.name")
    )
    attempt = out / name / "logs" / "attempt_1"
    attempt.mkdir(parents=True)
    (attempt.parent / "latest").symlink_to("attempt_1")
    say("SUCCESS", "Startup complete. Showing trainer logs...")
    try:
        with (attempt / "trainer.log").open("w") as log:
            sft(log)
    except SystemExit:
        say("ERROR", "Trainer failed with exit code 1")
        raise
    say("SUCCESS", "SFT training finished!")


def evaluate() -> None:
    if CONFIG == "dying":
        say("ERROR", FATAL[GENERATION])
        sys.exit(1)
    time.sleep(0.5)
    if CONFIG == "good":
        say("SUCCESS", EVALUATED[GENERATION])
        time.sleep(20)


if __name__ == "__main__":
    if WHAT != "sft":
        evaluate()
    elif GENERATION == "current":
        launch_sft()
    else:
        sft(sys.stdout)
