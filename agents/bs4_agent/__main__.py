"""`python -m bs4_agent COMMAND`: the commands of the agent on a pod. Each command imports only what
it needs, so attach and shim stay small.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

USAGE = 2


def main(arguments: Sequence[str]) -> int:
    """Run the agent's command line and return its exit code. The first of `arguments` is the
    command: attach, look, daemon, shim, boot or version; the others belong to that command. An
    unknown command prints the usage to standard error and returns 2.
    """
    command, *rest = arguments or [""]
    if command == "attach":
        from bs4_agent.lifecycle import attach

        return attach.main(rest)
    if command == "look":
        from bs4_agent.lifecycle import looking

        return looking.main(rest)
    if command == "daemon":
        from bs4_agent import daemon

        return daemon.main(rest)
    if command == "shim":
        from bs4_agent import shim

        return shim.main(rest)
    if command == "boot":
        from bs4_agent.lifecycle import boot

        return boot.main(rest)
    if command == "version":
        return _version()
    usage = (
        "usage: python -m bs4_agent attach [--start] | look | daemon | shim --attempt DIR | boot | "
        "version"
    )
    print(usage, file=sys.stderr)  # noqa: T201
    return USAGE


def _version() -> int:
    """Print one JSON line that describes this bundle, and return 0. It decides if another bundle is
    deployed.
    """
    import json

    from bs4_agent.lifecycle.handover import Build
    from bs4_common.wire import PROTOCOLS

    own = Build.own()
    python = ".".join(map(str, sys.version_info[:3]))
    answer = {
        "version": own.version,
        "build": own.build,
        "bundle": own.bundle,
        "protocols": PROTOCOLS,
        "python": python,
    }
    print(json.dumps(answer))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
