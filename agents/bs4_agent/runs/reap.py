"""The script that a shim becomes: `reap.py ATTEMPT_DIR LAUNCHER_PID AGENT_HOME CHECK_S`. CHECK_S is
the number of seconds between two checks of the agent. An empty AGENT_HOME means that no agent is
revived.
"""

import os
import sys

_HERE = os.path.abspath(__file__)  # noqa: PTH100
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(_HERE))))

from bs4_agent.runs.agent_watch import AgentWatch  # noqa: E402
from bs4_agent.runs.reaper import Reaper  # noqa: E402

if __name__ == "__main__":
    _, directory, launcher, home, every_s = sys.argv
    Reaper(
        directory, int(launcher), AgentWatch(directory, home, float(every_s)) if home else None
    ).run()
