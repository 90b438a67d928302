"""The pods that a person knows: `pods.toml` in the config directory. It is edited in place, so its
comments and order stay.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from bs4_console import files, locations
from bs4_console.errors import UsageError
from bs4_console.suggest import did_you_mean

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# Text that is passed to ssh as a host, user or jump: no white space, no control characters, no
# leading dash (an option), no quotes or shell signs.
_WORD = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.:%@\[\],+-]*")

#: A number beyond it is no price, and may have too many digits for a float.
_PRICE_MOST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Pod:
    """One pod as the inventory describes it. For a field of its SSH address, None means that
    ~/.ssh/config decides, or else SSH's own default.

    `host` may be an alias of ~/.ssh/config. `identity_file` is the path of a private key. `jump` is
    a ProxyJump list ("user@host:port,..."). If `ssh_config` is False, ~/.ssh/config is ignored.
    `read_only` forbids every action. `tags` and `notes` are a person's own words about the pod.
    `provider` and `instance` name the rented machine; provider "local" is this machine, without
    SSH. `price` is in US dollars an hour, or None if unknown.
    """

    name: str
    host: str
    port: int | None = None
    user: str | None = None
    identity_file: str | None = None
    jump: str | None = None
    ssh_config: bool = True
    read_only: bool = False
    tags: tuple[str, ...] = ()
    provider: str | None = None
    instance: str | None = None
    notes: str = ""
    price: float | None = None

    @property
    def is_local(self) -> bool:
        """Return True if the pod is this machine, which is reached without SSH."""
        return self.provider == "local"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"{self.name!r} cannot name a pod.",
                "Use up to 63 letters, digits, '.', '_' and '-', starting with a letter or digit.",
            )
        for what, value in (("host", self.host), ("user", self.user), ("jump", self.jump)):
            if value is not None and not _WORD.fullmatch(value):
                raise UsageError(
                    f"Pod {self.name}: {value!r} is not a valid {what}.",
                    f"Give a {what} of one word without blanks.",
                )
        if self.port is not None and not 1 <= self.port <= 65535:
            raise UsageError(
                f"Pod {self.name}: port {self.port} does not exist.", "Give a port from 1 to 65535."
            )
        if self.price is not None and not math.isfinite(self.price):
            raise UsageError(
                f"Pod {self.name}: {self.price} is not a price.",
                "Give price in US dollars an hour, such as 2.49.",
            )

    @property
    def address(self) -> str:
        """Return the pod's SSH address as user@host:port. The user or port is left out if the
        inventory does not give it.
        """
        user = f"{self.user}@" if self.user else ""
        if ":" in self.host and self.port:
            host = f"[{self.host}]"
        else:
            host = self.host
        return f"{user}{host}" + (f":{self.port}" if self.port else "")


_TYPES: Mapping[str, type] = {
    "host": str,
    "port": int,
    "user": str,
    "identity_file": str,
    "jump": str,
    "ssh_config": bool,
    "read_only": bool,
    "tags": list,
    "provider": str,
    "instance": str,
    "notes": str,
    "price": float,
}
_DEFAULTS = {field.name: field.default for field in fields(Pod)}


class Inventory:
    """The pods in one file, such as pods.toml. Every method reads the file anew, because a person
    may edit it while the console is open.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or locations.config_dir() / "pods.toml"

    def list(self) -> tuple[Pod, ...]:
        """Return all pods in the order of the file, or none if the file does not exist. Raises
        UsageError, which names the file and the line or pod, if the file has a mistake.
        """
        return tuple(self._pods(self._read()))

    def get(self, name: str) -> Pod:
        """Return the pod with that name. Raises UsageError if the inventory has no such pod; the
        message suggests the most similar name.
        """
        known = {pod.name: pod for pod in self.list()}
        if name not in known:
            raise self._unknown(name, known)
        return known[name]

    def add(self, pod: Pod) -> None:
        """Append a pod to the inventory's file. Raises UsageError if a pod with that name is there
        already.
        """

        def append(document: tomlkit.TOMLDocument) -> None:
            if any(known.name == pod.name for known in self._pods(document)):
                raise UsageError(
                    f"A pod named {pod.name} is already there.",
                    f"Choose another name, or run `bs4-console pods remove {pod.name}` first.",
                )
            table = tomlkit.table()
            for key in _TYPES:
                value = getattr(pod, key)
                if value != _DEFAULTS[key]:
                    table[key] = list(value) if isinstance(value, tuple) else value
            if "pods" not in document:
                document["pods"] = tomlkit.table(is_super_table=True)
            document["pods"][pod.name] = table

        self._edit(append)

    def remove(self, name: str) -> Pod:
        """Remove the pod with that name from the inventory's file and return what it was. Raises
        UsageError if the inventory has no such pod.
        """
        removed = self.get(name)

        def drop(document: tomlkit.TOMLDocument) -> None:
            pods = document["pods"]
            if not isinstance(pods, Mapping) or name not in pods:
                raise self._unknown(name, ())
            del pods[name]  # type: ignore[attr-defined]

        self._edit(drop)
        return removed

    def _edit(self, change: Callable[[tomlkit.TOMLDocument], None]) -> None:
        with files.exclusive(self.path):
            document = self._read()
            change(document)
            files.replace(self.path, tomlkit.dumps(document).encode())

    def _read(self) -> tomlkit.TOMLDocument:
        try:
            return tomlkit.parse(self.path.read_text())
        except FileNotFoundError:
            return tomlkit.document()
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.path} is not UTF-8 text.", "Save it as UTF-8.") from error
        except (TOMLKitError, ArithmeticError, RecursionError, ValueError) as error:
            # tomlkit raises its own errors only for some of what is no TOML.
            raise UsageError(
                f"{self.path} is not valid TOML: {error}.",
                "Correct that line, or move the file away.",
            ) from error

    def _pods(self, document: tomlkit.TOMLDocument) -> Iterator[Pod]:
        pods = document.get("pods", {})
        if not isinstance(pods, Mapping):
            raise UsageError(
                f"{self.path}: `pods` is not a table.", "Write each pod as [pods.NAME]."
            )
        for name, table in pods.items():
            yield self._pod(name, table)

    def _pod(self, name: str, table: object) -> Pod:
        """Return the pod that one table of the file describes. Raises UsageError if it is wrong."""
        if not isinstance(table, Mapping):
            raise UsageError(
                f"{self.path}: pods.{name} is not a table.",
                f"Write it as [pods.{name}] with host = ... below.",
            )
        values: dict[str, Any] = {}
        for key, item in table.items():
            if key not in _TYPES:
                raise UsageError(
                    f"{self.path}: pod {name} has an unknown setting {key!r}.",
                    did_you_mean(key, _TYPES),
                )
            value = item.unwrap() if hasattr(item, "unwrap") else item
            wanted = _TYPES[key]
            if wanted is float and type(value) is int and abs(value) < _PRICE_MOST:
                value = float(value)
            if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
                raise UsageError(
                    f"{self.path}: pod {name}: {key} = {value!r} is not of type {wanted.__name__}.",
                    "Correct that line.",
                )
            if isinstance(value, list):
                values[key] = tuple(str(tag) for tag in value)
            else:
                values[key] = value
        if "host" not in values:
            raise UsageError(
                f"{self.path}: pod {name} has no host.", 'Add host = "..." below its heading.'
            )
        return Pod(name=name, **values)

    def _unknown(self, name: str, known: Mapping[str, Pod] | tuple[()]) -> UsageError:
        if not known:
            return UsageError(
                f"There is no pod named {name}: the inventory is empty.",
                "Add it with `bs4-console pods add`.",
            )
        return UsageError(
            f"There is no pod named {name}.",
            did_you_mean(name, known) + " `bs4-console pods list` shows all.",
        )
