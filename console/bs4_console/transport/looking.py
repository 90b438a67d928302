"""Keys that may look at a pod and not act on it: their line for authorized_keys, and what the pod
answers to such a key when it is asked for anything else.

The pod holds the key to this, not the console: its sshd runs the line's command whatever a client
asks for, and that command is the agent's `look` (agents/bs4_agent/lifecycle/looking.py).
"""

from __future__ import annotations

from bs4_console.errors import ConsoleError, LooksOnly, NoAgent, UsageError
from bs4_console.transport.asyncssh_import import asyncssh
from bs4_console.transport.remote import Ending

#: Begins the pod's refusals, and its exit statuses: no agent runs, and the request was none of a
#: console that attaches.
_MARK = "bs4-look: "
_NO_AGENT, _REFUSED = 3, 4

#: The forced command. It takes nothing from the client: with IFS empty and globbing off, no word of
#: a variable is split or expanded, so that it needs no double quotes, which not every SSH server
#: reads alike in this place. The file `ok` is the one that need.py's script reads.
_COMMAND = (
    "sh -c 'IFS=; set -f; B=${BS4_HOME:-$HOME/.bs4}; p=; c=; "
    "if [ -r $B/current/ok ]; then { read -r p; read -r c; } < $B/current/ok; fi; "
    "case $p in /*) exec $p -IS $B/agent/$c/bs4_agent/bootstrap.py look;; esac; "
    f"echo {_MARK}no agent is installed on this pod >&2; exit {_NO_AGENT}'"
)


def line(public_key: str, comment: str) -> str:
    """Return the line for ~/.ssh/authorized_keys on a pod that lets the key `public_key` read what
    is on the pod but not act. `comment` is put at its end. Raises UsageError if `public_key` is no
    public key.
    """
    return f'command="{_COMMAND}",restrict {plain(public_key)} {comment}'


def plain(public_key: str) -> str:
    """Return a public key as the text of its type and its data, without a comment. Raises
    UsageError if the text is no public key, or if it is a line for authorized_keys that has options
    before the key.
    """
    try:
        key = asyncssh.import_public_key(public_key)
    except (asyncssh.KeyImportError, ValueError) as error:
        raise UsageError(
            f"That is no public key: {error}.", "Name the file that ends with .pub."
        ) from error
    return " ".join(key.export_public_key("openssh").decode().split()[:2])


def refusal(label: str, ending: Ending) -> ConsoleError | None:
    """Return the error for a command that the pod has refused because the login's key may only
    read. Return None if the command ended in another way. `label` names the pod in the message, and
    `ending` says how the command ended.
    """
    said = ending.stderr.strip().splitlines()
    if not said or not said[-1].startswith(_MARK):
        return None
    name = label.removeprefix("pod ")
    if ending.exit_status == _NO_AGENT:
        return NoAgent(
            f"No agent runs on {label}, and the key of this login may only look and starts none.",
            f"Start it with a key that may act: `bs4-console deploy --pod {name}`.",
        )
    return LooksOnly(label)
