"""The last record of an agent that receives SIGTERM: the position of each living run, written
within a second, and nothing else.

RunPod gives about five seconds between SIGTERM and SIGKILL. An upload that begins then is cut off,
and a trainer that is ended then saves nothing. So no upload is begun, and nothing of the run is
touched. A later resume reads from this record what there was.
"""

from __future__ import annotations

import threading
import time

from bs4_agent.actions.steps import Recorder
from bs4_agent.paths import Home
from bs4_agent.runs.registry import Runs
from bs4_common.clock import stamp
from bs4_common.errors import AgentError
from bs4_common.failures.facts import Intent
from bs4_common.files import read_passing, write_json
from bs4_common.ledger import Ledger
from bs4_common.runs.model import Run

#: Seconds for scanning the files; if a network disk does not answer in time, `local_step` stays
#: unknown.
LOOK_S = 0.6
NAME = "intent.json"


def write(home: Home, runs: Runs, ledger: Ledger, record: Recorder, signal: str) -> list[Intent]:
    """Save how far each living run has come, because the agent was ordered to end by the signal
    named `signal` (for example "SIGTERM"). Return one Intent (the run's newest checkpoints) for
    each of these runs. The Intents are saved twice in the agent's home directory: first with what
    the agent has in memory, then with what a scan of the checkpoint files finds within 0.6 seconds.
    `record` is the function that writes the second version into the journal too.
    """
    living = [run for run in runs.all() if run.live and run.attempt is not None]
    entries = [_entry(run, ledger) for run in living]
    _keep(home, signal, entries)
    looking = threading.Thread(
        target=_look, args=(runs, living, entries), name="intent", daemon=True
    )
    looking.start()
    looking.join(LOOK_S)
    entries = [entry.copy() for entry in entries]
    _keep(home, signal, entries)
    record("intent", sync=True, event="leaving", signal=signal, runs=entries)
    return entries


def intent_of(home: Home, run: str, attempt: int) -> Intent | None:
    """Return the Intent (the run's newest checkpoints) that `write` saved for this attempt when the
    agent was last ordered to end, with `t` (Unix time in seconds) and `signal` (the signal's name)
    added. Return None if none was saved, or only those of other attempts.
    """
    told = read_passing(home.root / NAME) or {}
    for entry in told.get("runs") or ():
        if (entry.get("run"), entry.get("attempt")) == (run, attempt):
            found: Intent = entry
            found["t"], found["signal"] = told.get("t"), told.get("signal")
            return found
    return None


def _entry(run: Run, ledger: Ledger) -> Intent:
    """Return the entry of the run with what is in memory."""
    synced = ledger.syncs.get(run.name)
    return {
        "run": run.name,
        "attempt": 0 if run.attempt is None else run.attempt.number,
        "local_step": None,
        "local_known": False,
        "remote_step": None if synced is None else synced.pointer,
    }


def _keep(home: Home, signal: str, entries: list[Intent]) -> None:
    """Write the entries to the file."""
    write_json(home.root / NAME, {**stamp(), "signal": signal, "runs": entries})


def _look(runs: Runs, living: list[Run], entries: list[Intent]) -> None:
    """Scan the files of the living runs and add the result to their entries, for at most `LOOK_S`
    seconds.
    """
    # Only an agent that leaves checks the content.
    from bs4_common.checkpoints.sets import (
        complete_sets,
        step_sets,
        verify,
    )

    deadline = time.monotonic() + LOOK_S
    for run, entry in zip(living, entries, strict=True):
        if time.monotonic() > deadline:
            return
        try:
            for one in complete_sets(step_sets(runs.trainer(run), run.spec)):
                if not verify(one):
                    entry["local_step"] = one.step
                    break
        except (AgentError, OSError):
            continue  # it stays unknown
        entry["local_known"] = True
