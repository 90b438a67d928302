"""Bundles for deploy tests: the real bootstrap and a real psutil of this machine, with a stub in
place of the agent.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import psutil

from bs4_console.transport import bundle

_ROOT = Path(__file__).resolve().parents[2]

#: Says hello as one JSON line, then echoes lines: what was put where, and that the pipe works both
#: ways.
STUB = """
import json, os, sys
import psutil

def main(arguments):
    told = {"argv": arguments, "bundle": os.environ.get("BS4_BUNDLE")}
    told |= {"home": os.environ.get("BS4_HOME"), "psutil": psutil.__file__}
    told |= {"pid": os.getpid(), "python": list(sys.version_info[:2])}
    told["isolated"] = sys.flags.isolated
    print(json.dumps(told), flush=True)
    for line in sys.stdin:
        print("echo " + line, end="", flush=True)
    return 0
"""


def stub(
    *,
    main: str = STUB,
    version: str = "0.1.0",
    build: int = 1,
    unpacked: int | None = None,
    machine: str | None = None,
) -> bundle.Bundle:
    """A small bundle. `unpacked` overrides the honest size; `machine` puts psutil where only that
    machine finds it.
    """
    agent = _ROOT / "agents" / "bs4_agent"
    members = {
        "playbooks.json": b'{"playbooks": []}',
        "bs4_agent/__init__.py": (agent / "__init__.py").read_bytes(),
        "bs4_agent/bootstrap.py": (agent / "bootstrap.py").read_bytes(),
        "bs4_agent/__main__.py": main.encode(),
    }
    native = f"lib-{machine or os.uname().machine}"
    for path in Path(psutil.__file__).parent.iterdir():
        if path.suffix in (".py", ".so"):
            members[f"{native}/psutil/{path.name}"] = path.read_bytes()
    made = bundle.assemble(members, version, build)
    return made if unpacked is None else replace(made, unpacked=unpacked)
