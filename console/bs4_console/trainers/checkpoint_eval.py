"""How the trainers evaluate a checkpoint after training, each by its own program."""

from __future__ import annotations

from bs4_console.errors import NotApplicableError

#: What a person does where the trainer has no program that loads a checkpoint and evaluates it.
_OTHERWISE = {
    "prime-rl": "It evaluates while it trains: set [orchestrator.eval] and its interval in the "
    "config. `bs4-console runs show RUN` has the results.",
    "verl": "It validates while it trains: set trainer.test_freq in the config. `bs4-console runs "
    "show RUN` has the results.",
}


def options(
    trainer: str, *, weights: str, step: int, server: str, examples: int | None
) -> tuple[str, ...]:
    """Return the command-line options with which the trainer's own program `eval` evaluates one
    checkpoint. `trainer` is the trainer's id. `weights` is the directory of checkpoints and `step`
    the training step; the program loads `step_STEP` below that directory into the inference server
    at the URL `server`. `examples` is how many examples of each environment are used, or None for
    as many as the config says.

    Raises NotApplicableError for a trainer whose program cannot do that.
    """
    if trainer in _OTHERWISE:
        raise NotApplicableError(
            f"{trainer} has no program that evaluates a checkpoint.", _OTHERWISE[trainer]
        )
    words = ["--weights-dir", weights, "--steps", str(step), "--no-eval-base"]
    words += ["--client.base-url", server]
    if examples is not None:
        words += ["--num-examples", str(examples)]
    return tuple(words)
