"""The environment variables that a set-up has ordered for every launch in one checkout. They are
never secrets (see setup/recipe.py).
"""

from __future__ import annotations

from pathlib import Path

from bs4_agent.paths import Home


def inherited(home: Home, cwd: Path) -> dict[str, str]:
    """Return the environment variables (name: value) that a set-up of the pod has recorded for
    every launch in the working directory `cwd`. The result is empty if there are none.
    """
    try:
        lines = home.variables(cwd).read_text().splitlines()
    except FileNotFoundError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)
