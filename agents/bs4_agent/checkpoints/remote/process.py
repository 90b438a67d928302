"""Starts programs that talk to a store. They run apart from the agent, which has no TLS, and have
the second bundle on their path.

The bundle (b2sdk and what it needs, pure Python) is in `~/.bs4/b2/<hash>/`; `~/.bs4/b2-current`
names the one in use. It comes with the first order to sync or to restore.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from bs4_agent.paths import Home
from bs4_common.errors import NotApplicable

# -I and -S as for the agent itself: nothing is imported from the environment, the user's site or
# the working directory.
_PROGRAM = (
    "import sys; sys.path[:0] = sys.argv.pop(1).split('\\n'); import runpy; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def library(home: Home) -> Path | None:
    """Return the directory from which b2sdk, the client of the object store, can be imported. That
    is the directory to which the link `b2-current` in the agent's home leads, if a console has sent
    b2sdk to the pod. Otherwise it is the agent's own Python environment, if that has b2sdk, as on a
    developer's machine. Return None if b2sdk is not on this pod.
    """
    bundle = home.root / "b2-current"
    if (bundle / "ok").is_file():
        return bundle.resolve()
    found = importlib.util.find_spec("b2sdk")
    if found is not None and found.origin is not None:
        return Path(found.origin).parents[1]
    return None


def command(home: Home, module: str, *arguments: str) -> list[str]:
    """Return the argv that runs a module of the agent in a process of its own that can import
    b2sdk. It contains no secret. Raises NotApplicable if b2sdk is not on this pod.
    """
    place = library(home)
    if place is None:
        raise NotApplicable(
            "This pod has no b2sdk, which speaks with the store; send it with `bs4-console "
            "checkpoints sync --pod POD --run RUN --to ...`."
        )
    # It comes after the agent's own path, whose libraries must not be hidden by other versions.
    return own(module, *arguments, further=str(place))


def own(module: str, *arguments: str, further: str = "") -> list[str]:
    """Return the argv that runs a module of the agent in a process of its own with the agent's
    import path. The directory `further` is added to the end of that path, unless it is "".
    """
    path = list(dict.fromkeys(entry for entry in (*sys.path, further) if entry))
    return [sys.executable, "-IS", "-c", _PROGRAM, "\n".join(path), module, *arguments]
