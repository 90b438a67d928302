"""The command `pods key`: the line for a pod's authorized_keys with which a key may only look."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bs4_console.cli.output import emit
from bs4_console.errors import NotApplicableError, UsageError
from bs4_console.pods.inventory import Inventory, Pod

#: The key for which the line is made if none is named.
DEFAULT = "~/.ssh/bs4-look"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pods key` to its parser."""
    parser.add_argument("name", help="which pod of the inventory")
    parser.add_argument(
        "--observe",
        action="store_true",
        required=True,
        help="the key may look and not act: the pod runs the agent's reading channel for it, and "
        "nothing else",
    )
    parser.add_argument(
        "--identity",
        metavar="FILE",
        default=DEFAULT,
        help=f"the key; its public half stands beside it as FILE.pub ({DEFAULT})",
    )


def run(options: argparse.Namespace) -> int:
    """Print the line that a person puts into ~/.ssh/authorized_keys on the pod, so that the SSH key
    of --identity can be used to look at the pod and not to act on it. Return 0. The pod is not
    contacted. Raises UsageError if there is no such public key, or if the same key opens the pod
    already for this console. Raises NotApplicableError if the pod is this machine.
    """
    from bs4_console.transport import looking
    from bs4_console.transport.hostkeys import fingerprint

    pod = Inventory().get(options.name)
    if pod.is_local:
        raise NotApplicableError(
            f"{pod.name} is this machine, which needs no key.", "Name a pod that SSH reaches."
        )
    private = Path(options.identity.removesuffix(".pub"))
    public = _public(private)
    key = looking.plain(public)
    _refuse_same(pod, private, key)
    text = looking.line(public, f"bs4-look@{pod.name}")
    if options.json:
        emit("pod-key", pod=pod.name, line=text, fingerprint=fingerprint(key))
        return 0
    print(text)
    sys.stderr.write(
        f"Put this line into ~/.ssh/authorized_keys on {pod.name}, and no other line for this "
        f"key. The key opens {pod.name} for whoever has {private}, to look and not to act.\n"
    )
    return 0


def _public(private: Path) -> str:
    """Return the text of the public half of a key. Raises UsageError if it cannot be read."""
    path = Path(f"{private}.pub").expanduser()
    try:
        return path.read_text("ascii")
    except FileNotFoundError as error:
        raise UsageError(
            f"There is no public key {path}.",
            f"Make a key for looking: `ssh-keygen -t ed25519 -f {private}`.",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read as a public key.", "Name another with --identity."
        ) from error


def _refuse_same(pod: Pod, private: Path, key: str) -> None:
    """Raise UsageError if the key is the one that opens the pod for this console. sshd uses the
    first line of a key, so a second one that restricts it may have no effect.
    """
    from bs4_console.transport import looking

    if pod.identity_file is None:
        return
    own = Path(f"{pod.identity_file}.pub").expanduser()
    if own.is_file() and looking.plain(own.read_text("ascii", "replace")) == key:
        raise UsageError(
            f"{private} opens {pod.name} already, and a key that may act cannot also be one that "
            "only looks.",
            f"Make another: `ssh-keygen -t ed25519 -f {DEFAULT}`.",
        )
