"""The real agent with short pauses: `python real_agent.py SECONDS` looks at its home that often."""

from __future__ import annotations

import sys

from bs4_agent import daemon
from bs4_agent.lifecycle import home_watch


def main() -> int:
    """Run the agent of BS4_HOME until it ends, and return its exit code."""
    home_watch.LOOK_S = float(sys.argv[1])
    daemon.playbooks = lambda: b'{"playbooks": []}'  # those of a bundle; a checkout has none
    return daemon.main([])


if __name__ == "__main__":
    sys.exit(main())
