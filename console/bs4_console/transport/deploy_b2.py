"""Brings the second bundle to a pod that has an agent. It does nothing if the bundle is there, and
takes one upload and one command if it is not.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from bs4_console.errors import DeployFailed, LinkError, NoAgent, NoSpace
from bs4_console.transport.bundle import Bundle
from bs4_console.transport.bundle_b2 import shipped
from bs4_console.transport.deploy import install_argv
from bs4_console.transport.remote import Remote, printable

Progress = Callable[[str], None]

# Each of our lines begins with the token, because start-up files may print too. $1 is the token, $2
# the hash name.
_LOOK = (
    'B=${BS4_HOME:-$HOME/.bs4}; p=; if [ -r "$B/current/ok" ]; then read -r p < "$B/current/ok"; '
    "fi; "
    'echo; echo "$1 home $B"; echo "$1 python $p"; '
    'if [ -r "$B/b2-current/ok" ] && [ -r "$B/b2/$2/ok" ]; then { read -r x; read -r n; } < '
    '"$B/b2-current/ok"; '
    'if [ "$n" = "$2" ]; then echo "$1 there"; exit 0; fi; fi; '
    '[ -n "$p" ] || exit 0; umask 077; mkdir -p "$B/b2" && echo "$1 ready"'
)
_SECONDS = 300.0


async def bring(remote: Remote, progress: Progress, bundle: Callable[[], Bundle] = shipped) -> bool:
    """Install b2sdk, the library for object stores, on the machine `remote` if it is missing, so
    that the agent can use an object store. Return True if it was installed now, and False if it was
    there already. `progress` is called with short phrases for a person, and `bundle` returns the
    bundle to install.

    Raises NoAgent if the machine has no agent, and NoSpace or DeployFailed if the installation
    fails. The pod is then as it was before. Raises Unreachable if the pod does not answer in time.
    """
    wanted, token = bundle(), f"bs4-{secrets.token_hex(6)}"
    done = await remote.run(["sh", "-c", _LOOK, "bs4", token, wanted.name])
    said = _ours(done.stdout, token)
    home, python = said.get("home", ""), said.get("python", "")
    if not home or not python:
        name = remote.label.removeprefix("pod ")
        raise NoAgent(
            f"No agent lies on {remote.label}.",
            f"Put it there with `bs4-console deploy --pod {name}`.",
        )
    if "there" in said:
        return False
    if "ready" not in said:
        detail = printable(done.stderr.decode(errors="replace").strip())
        raise DeployFailed(
            f"{home} on {remote.label} cannot be written: {detail}.",
            "Make the home directory writable.",
        )
    progress(f"uploading b2sdk ({len(wanted.data) // 1024} KiB)")
    archive = f"{home}/b2/.{wanted.name}.{secrets.token_hex(4)}.tar.gz"
    try:
        await remote.upload(archive, wanted.data)
    except LinkError:
        await remote.run(
            ["sh", "-c", 'rm -f "$1"; rmdir "${1%/*}" 2>/dev/null; true', "sh", archive]
        )
        raise
    argv = install_argv(python, token, archive, wanted, "library")
    done = await remote.run(argv, timeout=_SECONDS)
    said = _ours(done.stdout, token)
    if "ready" in said:
        return True
    kind, _, detail = said.get(
        "failed", f"error {printable(done.stderr.decode(errors='replace').strip()[-200:])}"
    ).partition(" ")
    if kind == "no-space":
        raise NoSpace(
            f"The disk of {remote.label} is full: {detail}.",
            f"b2sdk needs {wanted.unpacked // 1024} KiB in the home directory.",
        )
    raise DeployFailed(
        f"b2sdk could not be installed on {remote.label}: {detail}.",
        "Nothing was left behind; look at its home directory.",
    )


def _ours(output: bytes, token: str) -> dict[str, str]:
    """Return the lines that begin with our token, as the rest of the line by its first word."""
    found = {}
    for line in output.decode(errors="replace").splitlines():
        mark, _, rest = printable(line.strip()).partition(" ")
        if mark == token:
            word, _, value = rest.partition(" ")
            found[word] = value
    return found
