"""`python -m bs4_agent boot [--via NAME] | boot --stopping`: the command of a boot hook, and the
command it runs when the pod is told to stop.

It starts the installed agent and does nothing else. The agent decides if a run is resumed, by the
mode that is stored for it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from bs4_agent.lifecycle.attach import started
from bs4_agent.lifecycle.handover import read_record
from bs4_agent.paths import Home
from bs4_agent.runs.ending import wait_gone
from bs4_common.clock import stamp
from bs4_common.errors import AgentError
from bs4_common.files import write_json

USAGE, FAILED = 2, 3
#: The record of when a hook last started the agent, and which hook, so that a person sees that it
#: works.
RECORD = "boot.json"
#: Seconds for the agent to record where the runs stood, of the five that some providers give.
LEAVE_S = 2.0


def main(arguments: Sequence[str]) -> int:
    """Run the command `boot`, which the pod calls when it starts (a boot hook). Start the installed
    agent, and record when and by which hook that was done: `arguments` is empty or `--via NAME`,
    with the hook's name. If `arguments` is `--stopping`, tell the running agent to end and wait up
    to 2 seconds for it; runs are left alone.

    Return the exit code: 0 if that succeeded, or if no agent ran that could be stopped; 3 if it
    failed; and 2 for wrong arguments. Nothing is raised; a sentence about the error is on standard
    error.
    """
    home = Home.from_environment()
    try:
        if list(arguments) == ["--stopping"]:
            return _stopping(home)
        if arguments and (len(arguments) != 2 or arguments[0] != "--via"):
            usage = "usage: python -m bs4_agent boot [--via NAME] | boot --stopping"
            print(usage, file=sys.stderr)  # noqa: T201
            return USAGE
        return _boot(home, arguments[1] if arguments else "")
    except (AgentError, OSError) as error:
        print(f"bs4-agent: {error}", file=sys.stderr)  # noqa: T201
        return FAILED


def _boot(home: Home, via: str) -> int:
    """Start the agent and record when and by which hook."""
    # The hook of a service manager has no terminal's environment, and neither has cron. The agent
    # finds what it needs by itself.
    os.chdir("/")
    started(home).close()
    record = read_record(home)
    write_json(
        home.root / RECORD,
        {**stamp(), "via": via[:40], "pid": record.identity.pid if record is not None else None},
    )
    print("bs4-agent: the agent runs", flush=True)  # noqa: T201
    return 0


def _stopping(home: Home) -> int:
    """Send TERM to the agent and to no other process, so that it records where each run stood.
    Whoever stops the pod ends the runs.
    """
    record = read_record(home)
    if record is None or not record.alive:
        return 0
    record.identity.send(signal.SIGTERM)
    if wait_gone([record.identity], LEAVE_S):
        return FAILED
    return 0
