"""A console in a process of its own, to be killed: `console_process.py JSON`.

JSON: {"name", "host", "port", "user", "key_path", "known_hosts", "mirror", "submit": the
confirmation or null, "follow": key or null}. Prints one JSON line for each change of the action
that it follows; the first says which action that is, once it has been accepted.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from bs4_console.pods.inventory import Pod
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.ssh import SshTransport


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def main(order: dict[str, Any]) -> None:
    entry = Pod(
        name=order["name"],
        host=order["host"],
        port=order["port"],
        user=order["user"],
        identity_file=order["key_path"],
        ssh_config=False,
    )
    hostkeys = HostKeys(Path(order["known_hosts"]))
    session = PodSession(
        PodState(name=entry.name),
        lambda: SshTransport(entry, hostkeys),
        Mirror(Path(order["mirror"])),
        "victim",
    )
    life = asyncio.create_task(session.run())
    await session.synced(60)
    key = order["follow"] or await session.submit("playbook", **order["submit"])
    say(accepted=key)
    async for action in session.follow_action(key):
        steps = [step.state for step in action.steps]
        say(state=action.state, steps=steps, result=action.result, who=action.who)
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
