"""Environments: packages in the training environment's own site-packages, loaded by id as verifiers
does it.

A reward function that raises costs its rollout the reward and leaves a line in the log; nothing
ends because of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Score = Callable[[str, str], float]


def load(name: str, error: Callable[[str], None]) -> Score:
    """Return the function that gives the reward of an answer, `score(question, answer)`, of the
    environment with the name `name`. It returns 0.0 if the environment's own function raises an
    error. `error` is called with a line for the log if something goes wrong. Raises ValueError if
    the environment's package is not installed.
    """
    module = name.replace("-", "_").split("/")[-1]
    try:
        package: Any = importlib.import_module(module)
    except ImportError as failure:
        error(f"Failed to import environment module {module} for env_id {name}: {failure}")
        raise ValueError(
            f"Could not import '{name}' environment. Ensure the package for the '{name}' "
            "environment is installed."
        ) from failure

    def score(question: str, answer: str) -> float:
        try:
            return float(package.score(question, answer))
        except Exception as failure:  # noqa: BLE001
            # Verifiers' rubric does just this with other people's code.
            error(f"Error calling reward function {package.score.__name__}: {failure}")
            return 0.0

    return score
