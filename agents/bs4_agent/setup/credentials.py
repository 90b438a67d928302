"""Secrets on the pod: how they arrive, in which file they are kept, and how other users are kept
from reading them.

A value arrives as the payload of the frame that confirms a set-up, so it is in no argv, no header
and no journal. It waits in a file of mode 0600 until its step has put it into the file that the one
program that needs it reads by itself. The waiting file is removed when the action ends. No launch
needs a secret in its environment: W&B reads ~/.netrc, Hugging Face reads its token file, and the
sync of checkpoints reads the file below the agent's home.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from bs4_agent.paths import Home
from bs4_common.errors import BadRequest, NotApplicable
from bs4_common.files import private, read_json, sync_directory
from bs4_common.foreign_json import loads

#: The fields of each credential, by its name.
NAMES: Mapping[str, tuple[str, ...]] = {
    "wandb": ("key",),
    "huggingface": ("token",),
    "b2": ("key_id", "key"),
}
WANDB_HOST = "api.wandb.ai"
#: The characters that a token file and an HTTP header accept. A netrc file has special rules for
#: quotes, backslashes and comments.
_VALUE = re.compile(r"[!-~]{4,500}")
_IN_NETRC = re.compile(r"[^\"'\\#]+")
_ENTRY = re.compile(
    rf"(?ms)^[ \t]*machine\s+{re.escape(WANDB_HOST)}(?=\s).*?(?=^[ "
    r"\t]*(?:machine|default|macdef)\b|\Z)"
)
_PASSWORD = re.compile(r"\bpassword\s+(\S+)")


def parse(payload: bytes, expected: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Read the secrets that a person sends to confirm a set-up, and return them as `{credential:
    {field: value}}`. Return {} if none are expected and none were sent.

    `expected` has the names of the credentials that the plan needs; `payload` must have exactly
    these. Raises BadRequest if a value is missing, malformed or unexpected. Its message never
    repeats what was sent.
    """
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
    """The secrets that a person has sent with one action. They are stored in a private file in the
    agent's home until the action ends, so that the action can continue after the agent was killed.
    """

    def __init__(self, home: Home, key: str) -> None:
        self._path = home.credentials / "incoming" / f"{key}.json"

    def keep(self, values: Mapping[str, Mapping[str, str]]) -> None:
        """Store the secrets in the action's private file. `values` maps the name of a credential to
        its fields. Nothing is written if it is empty.
        """
        if values:
            write_private(self._path, json.dumps(values))

    def get(self, name: str) -> dict[str, str] | None:
        """Return the fields of the credential `name`, as {field: value}, or None if this action did
        not bring it.
        """
        found = (read_json(self._path) or {}).get(name)
        if isinstance(found, dict):
            return found
        return None

    def forget(self) -> None:
        """Delete the stored secrets of the action. Do nothing if none are stored."""
        self._path.unlink(missing_ok=True)


def forget_all_but(home: Home, keys: set[str]) -> None:
    """Delete the stored secrets of every action whose key is not in `keys`, the keys of the actions
    that are under way. An action that is not among them has ended while no agent was running.
    """
    directory = home.credentials / "incoming"
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.stem not in keys:
            path.unlink(missing_ok=True)


def place(name: str, home: Home) -> Path:
    """Return the path of the file in which programs look for the credential `name`, for example
    ~/.netrc for "wandb". `home` is the agent's home directory.
    """
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
    """Return the fields of the credential `name`, as {field: value}, from its file on the pod, or
    None if none is stored. `home` is the agent's home directory.
    """
    path = place(name, home)
    if name == "b2":
        found = read_json(path)
        if found is None:
            return None
        return {field: str(found.get(field, "")) for field in NAMES["b2"]}
    text = _text(path, "replace")
    if name == "huggingface":
        if text.strip():
            return {"token": text.strip()}
        return None
    entry = _ENTRY.search(text)
    if entry and (password := _PASSWORD.search(entry[0])):
        return {"key": password[1]}
    return None


def store_key(home: Home) -> dict[str, str]:
    """Return the key of the object store that is stored on this pod, with the fields `key_id` and
    `key`. `home` is the agent's home directory. Raises NotApplicable if there is no key, and
    StoreAuth if other users can read its file.
    """
    from bs4_common.checkpoints.remote.errors import StoreAuth  # loaded only for those who sync

    path = place("b2", home)
    if not private(path):
        raise StoreAuth(
            f"{path} can be read by others, so its key is not used; make it 0600 (`chmod "
            "600`) and give it a new key."
        )
    key = stored("b2", home)
    if key is None:
        raise NotApplicable(
            f"There is no key for the store on this pod ({path}); put it there with `bs4-console "
            "pods setup POD --credentials -`."
        )
    return key


def store(name: str, values: Mapping[str, str], home: Home) -> None:
    """Write the credential `name` into its file on the pod, readable by its owner only. `values`
    has its fields. If the file has other entries, as ~/.netrc may have, they stay, and only an
    older value of the same credential is replaced. `home` is the agent's home directory.
    """
    path = place(name, home)
    if name == "b2":
        write_private(path, json.dumps(dict(values)))
    elif name == "huggingface":
        write_private(path, values["token"])
    else:
        rest = _ENTRY.sub("", _text(path, "surrogateescape"))
        entry = f"machine {WANDB_HOST}\n  login user\n  password {values['key']}\n"
        # It goes before the other entries: an entry after `default` or in a macro would not be
        # found.
        write_private(path, entry + rest)


def _text(path: Path, errors: str) -> str:
    """Return the text of the file, "" if there is none. `errors` says how bytes that are not UTF-8
    are read.
    """
    if path.is_file():
        return path.read_text(encoding="utf-8", errors=errors)
    return ""


def write_private(path: Path, text: str) -> None:
    """Replace the content of the file `path` by `text` in one step, with mode 0600, so that other
    users can never read the text. If `path` is a symbolic link, the file to which it points is
    replaced. Raises OSError if it cannot be written.
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
