"""An agent with nothing but streams and the socket, for tests that kill it: `python tiny_agent.py
attach [--start] | daemon`.

BS4_HOME/tiny.json says what it serves: {"logs": {stream: {"path", "attempt", "archive": directory
or null}}, "version", "build"}. Actions: `handover` makes it leave (refused with `busy` when
tiny.json says "busy"; once a file exists when it names one with "leave_with", as one does that
carries out a step), `note` writes to the journal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bs4_agent.channel.server import Server
from bs4_agent.lifecycle import attach, handover
from bs4_agent.lifecycle.handover import Build
from bs4_agent.paths import Home
from bs4_agent.streams.registry import Streams
from bs4_common.clock import boot_id, stamp
from bs4_common.errors import Busy, NotApplicable
from bs4_common.journal import Journal
from bs4_common.streams.logs import LogStream
from bs4_common.streams.segments import SegmentStream


def settings(home: Home) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((home.root / "tiny.json").read_text())
    return loaded


def own_build(home: Home) -> Build:
    told = {**settings(home), **json.loads(os.environ.get("TINY_BUILD", "{}"))}
    return Build(told.get("version", "0.1.0"), told.get("build", 1), told.get("bundle", "tiny"))


def leave_with(file: Path, leaving: threading.Event) -> None:
    while not file.exists():
        time.sleep(0.02)
    leaving.set()


def daemon(home: Home) -> int:
    claim = handover.claim(home, handover.LEAVE_S if "--wait" in sys.argv else handover.CLAIM_S)
    build = own_build(home)
    streams = Streams()
    journal = Journal(SegmentStream(home.state / "journal", 1 << 20, keep_unreleased=True))
    streams.add("journal", journal.stream)
    for name, log in settings(home)["logs"].items():
        archive = Path(log["archive"]) if log["archive"] else None
        stream = LogStream(name, archive, home.state / "logs" / f"{name.replace('/', '_')}.json")
        stream.follow(Path(log["path"]), log["attempt"])
        streams.add(name, stream)
    leaving = threading.Event()

    def submit(action: dict[str, Any], who: str) -> dict[str, Any]:
        if action["kind"] == "handover":
            if settings(home).get("busy"):
                raise Busy("A step is being carried out; try again in a minute.")
            journal.append("agent", event="handover", sync=True)
            if (file := settings(home).get("leave_with")) is None:
                leaving.set()
            else:
                threading.Thread(target=leave_with, args=(Path(file), leaving), daemon=True).start()
        elif action["kind"] == "note":
            journal.append("note", run=None, text=action["text"], who=who)
        else:
            raise NotApplicable("A tiny agent can only note and leave; use one of these.")
        return {"action": action["key"], "state": "accepted"}

    def hello() -> dict[str, Any]:
        return {
            "agent": build.version,
            "bundle": build.bundle,
            "pid": os.getpid(),
            "boot_id": boot_id(),
            **stamp(),
        }

    server = Server(home.socket(build.bundle), streams, submit, hello)
    server.bind()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    handover.write_record(home, server.path, build)
    journal.append("agent", event="started", pid=os.getpid())
    leaving.wait()
    server.stop()
    thread.join()
    streams.close()
    handover.mark_stopped(home)
    os.close(claim)
    return 0


def main() -> int:
    home = Home.from_environment()
    if sys.argv[1] == "daemon":
        return daemon(home)
    handover.AT_ONCE_S = float(os.environ.get("TINY_AT_ONCE_S", handover.AT_ONCE_S))
    attach.START_S = float(os.environ.get("TINY_START_S", attach.START_S))
    attach.LINGER_S = float(os.environ.get("TINY_LINGER_S", attach.LINGER_S))
    Build.own = lambda: own_build(home)  # type: ignore[method-assign]  # the tests choose which agent is newer
    return attach.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
