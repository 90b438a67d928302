"""Secrets on the pod: how they come, where they lie, and that nobody else sees them.

A value arrives as the payload of the frame that confirms a set-up: in no argv, no header, no
journal. It waits in a file of mode 0600 until its step has put it where the one program that needs
it reads it by itself, and is removed with the end of the action. No launch needs a secret in its
environment: W&B reads ~/.netrc, Hugging Face its token file, and the sync of checkpoints the file
below our home.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from bs4_agent.errors import BadRequest
from bs4_agent.foreign_json import loads
from bs4_agent.paths import Home
from bs4_agent.runs.files import read_json, sync_directory

#: Name -> the values that belong to it.
NAMES: Mapping[str, tuple[str, ...]] = {
    "wandb": ("key",),
    "huggingface": ("token",),
    "b2": ("key_id", "key"),
}
WANDB_HOST = "api.wandb.ai"
#: What a token file and an HTTP header take; a netrc file has its own ideas of quotes, backslashes
#: and comments.
_VALUE = re.compile(r"[!-~]{4,500}")
_IN_NETRC = re.compile(r"[^\"'\\#]+")
_ENTRY = re.compile(
    rf"(?ms)^[ \t]*machine\s+{re.escape(WANDB_HOST)}(?=\s).*?(?=^[ "
    r"\t]*(?:machine|default|macdef)\b|\Z)"
)
_PASSWORD = re.compile(r"\bpassword\s+(\S+)")


def parse(payload: bytes, expected: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """`{name: {field: value}}`. BadRequest never repeats what was sent."""
    if not payload and not expected:
        return {}
    try:
        data = loads(payload)
    except ValueError:
        raise BadRequest(
            "The credentials that came are no JSON object; send them with a bs4-console of "
            "this version."
        ) from None
    if not isinstance(data, dict) or set(data) != set(expected):
        raise BadRequest(
            f"The plan is for the credentials {', '.join(expected) or 'none'}, others came; "
            "make a new plan."
        )
    for name in expected:
        values = data[name]
        if not isinstance(values, dict) or set(values) != set(NAMES[name]):
            raise BadRequest(
                f"The credential {name} needs {' and '.join(NAMES[name])}, and nothing else."
            )
        if not all(isinstance(value, str) and _VALUE.fullmatch(value) for value in values.values()):
            raise BadRequest(
                f"The credential {name} holds spaces or control characters, or is too short "
                "or long; copy it again."
            )
        if name == "wandb" and _IN_NETRC.fullmatch(values["key"]) is None:
            raise BadRequest(
                "The W&B key holds a quote, a backslash or a #, which ~/.netrc cannot; no "
                "key of W&B does: copy it again."
            )
    return data


class Incoming:
    """The values of one action, for as long as it is not ended: on disk, so that it can go on after
    the agent was killed.
    """

    def __init__(self, home: Home, key: str) -> None:
        self._path = home.credentials / "incoming" / f"{key}.json"

    def keep(self, values: Mapping[str, Mapping[str, str]]) -> None:
        if values:
            write_private(self._path, json.dumps(values))

    def get(self, name: str) -> dict[str, str] | None:
        found = (read_json(self._path) or {}).get(name)
        if isinstance(found, dict):
            return found
        return None

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


def forget_all_but(home: Home, keys: set[str]) -> None:
    """Values whose action ended while nobody was there to remove them."""
    directory = home.credentials / "incoming"
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.stem not in keys:
            path.unlink(missing_ok=True)


def place(name: str, home: Home) -> Path:
    """The file that the program which needs it reads by itself."""
    if name == "wandb":
        return Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    if name == "huggingface":
        cache = Path(
            os.environ.get("HF_HOME")
            or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
        )
        return Path(os.environ.get("HF_TOKEN_PATH") or cache / "token")
    return home.credentials / "b2.json"


def stored(name: str, home: Home) -> dict[str, str] | None:
    """What lies there now, None for nothing."""
    path = place(name, home)
    if name == "b2":
        found = read_json(path)
        if found is None:
            return None
        rows = {}
        for field in NAMES["b2"]:
            rows[field] = str(found.get(field, ""))
        return rows
    text = ""
    if path.is_file():
        text = path.read_text(encoding="utf-8", errors="replace")
    if name == "huggingface":
        if text.strip():
            return {"token": text.strip()}
        return None
    entry = _ENTRY.search(text)
    password = _PASSWORD.search(entry[0]) if entry else None
    if password:
        return {"key": password[1]}
    return None


def private(path: Path) -> bool:
    """Whether only its owner can read it; so for a file that is not there."""
    try:
        return not stat.S_IMODE(path.stat().st_mode) & 0o077
    except FileNotFoundError:
        return True


def store(name: str, values: Mapping[str, str], home: Home) -> None:
    """Replaces what was there under this name, and nothing else in that file."""
    path = place(name, home)
    if name == "b2":
        write_private(path, json.dumps(dict(values)))
    elif name == "huggingface":
        write_private(path, values["token"])
    else:
        text = ""
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
        rest = _ENTRY.sub("", text)
        entry = f"machine {WANDB_HOST}\n  login user\n  password {values['key']}\n"
        # Before the others: nothing that follows `default` or sits in a macro would be found.
        write_private(path, entry + rest)


def write_private(path: Path, text: str) -> None:
    """One rename; never for a moment readable by others, and through a symbolic link to where it
    leads.
    """
    path = path.resolve()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.bs4-new")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(fd)
    temporary.replace(path)
    sync_directory(path.parent)
