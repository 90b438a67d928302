"""A program that is a tree of processes: `tree.py NAME JSON`.

JSON = {"children": {NAME: JSON...}, "setsid", "deaf", "polite", "cleans", "lasts", "code"}. Unlike
the children of a script's `&`, these do not ignore SIGINT. `deaf`: says that it heard INT, TERM or
HUP and goes on; `polite`: says so and ends. `cleans`: on TERM ends its children and exits with 1,
as the current launcher does. `lasts`: seconds, then exit with `code`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time


def main(name: str, what: dict[str, object]) -> None:
    if what.get("setsid"):
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if what.get("deaf"):
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(
                signum,
                lambda s, f: (
                    os.write(2, f"{name} heard {signal.Signals(s).name}\n".encode()) and None
                ),
            )
    if what.get("polite"):
        signal.signal(
            signal.SIGINT,
            lambda s, f: (os.write(2, f"{name} heard SIGINT\n".encode()), os._exit(0)),
        )
    children = what.get("children") or {}
    assert isinstance(children, dict)
    started = [
        subprocess.Popen([sys.executable, "-IS", __file__, child, json.dumps(detail)])
        for child, detail in children.items()
    ]
    if what.get("cleans"):
        signal.signal(
            signal.SIGTERM,
            lambda s, f: (
                [child.terminate() for child in started],
                [c.wait() for c in started],
                os._exit(1),
            ),
        )
    print(f"{name} is up", flush=True)
    time.sleep(float(str(what.get("lasts", 60))))
    os._exit(int(str(what.get("code", 0))))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
