"""The history of configs: version, parent and reason of each, in a file of its own, because the
trainers refuse keys they do not know.

The file is JSON: `{"configs": {NAME: {"current_version", "versions": {"v1": {"created", "based_on",
"reason", "digest"}}}}}`; the registry.json that people kept by hand (`notes` for `reason`) is read
as well. NAME is the config's path relative to the registry.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path as File
from typing import Any

from bs4_console.configs.document import read_text
from bs4_console.errors import UsageError


@dataclass(frozen=True)
class Version:
    """`based_on` is NAME:vN or vN of the same config; `digest` is of the values, so that comments
    may change freely.
    """

    version: str
    created: str = ""
    based_on: str = ""
    reason: str = ""
    digest: str = ""


class History:
    def __init__(self, file: File, data: dict[str, Any]) -> None:
        self.file = file
        self.data = data

    @classmethod
    def read(cls, file: File) -> History:
        if not file.exists():
            return cls(file, {"configs": {}})
        try:
            data = json.loads(read_text(file))
        except json.JSONDecodeError as error:
            raise UsageError(
                f"{file} is not JSON (line {error.lineno}).",
                "Correct it, or name another registry.",
            ) from None
        if not isinstance(data, dict) or not isinstance(data.setdefault("configs", {}), dict):
            raise UsageError(
                f"{file} is not a registry of configs.", "Name another file with --registry."
            )
        return cls(file, data)

    @staticmethod
    def digest(data: dict[str, Any]) -> str:
        """Of the values, whatever their order."""
        return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()[
            :16
        ]

    def key(self, config: File) -> str:
        """The name of a config here: as it is recorded (by its end), else its path from the
        registry.
        """
        path = os.path.relpath(config.resolve(), self.file.resolve().parent)
        names = []
        for name in self.data["configs"]:
            if name == path or File(name).name == config.name:
                names.append(name)
        return path if path in names or len(names) != 1 else names[0]

    def versions(self, name: str) -> list[Version]:
        """Oldest first; the current one last."""
        entry = self.data["configs"].get(name)
        if not isinstance(entry, dict) or not isinstance(entry.get("versions"), dict):
            return []
        found = []
        for version, fields in entry["versions"].items():
            if isinstance(fields, dict):
                found.append(_version(version, fields))
        found.sort(key=lambda item: _order(item.version))
        current = entry.get("current_version")
        return [item for item in found if item.version != current] + [
            item for item in found if item.version == current
        ]

    def has(self, parent: str, name: str) -> bool:
        config, _, version = parent.rpartition(":")
        if config:
            wanted = []
            for known in self.data["configs"]:
                if known == config or File(known).name == File(config).name:
                    wanted.append(known)
        else:
            wanted = [name]
        for known in wanted:
            for item in self.versions(known):
                if item.version == version:
                    return True
        return False

    def add(
        self, config: File, data: dict[str, Any], reason: str, created: str, based_on: str = ""
    ) -> Version:
        """Record the values as the next version. UsageError when they are those of the current one,
        or the parent is not known.
        """
        name = self.key(config)
        known = self.versions(name)
        digest = self.digest(data)
        if known and known[-1].digest == digest:
            raise UsageError(
                f"{name} has not changed since {known[-1].version}.", "Change it first."
            )
        if based_on and not self.has(based_on, name):
            raise UsageError(
                f"{based_on} is not in {self.file}.",
                "Record the parent first, or give another --based-on.",
            )
        number = max((_order(item.version)[0] for item in known), default=0) + 1
        version = Version(
            f"v{number}", created, based_on or (known[-1].version if known else ""), reason, digest
        )
        entry = self.data["configs"].setdefault(name, {"versions": {}})
        fields = asdict(version)
        entry["versions"][fields.pop("version")] = fields
        entry["current_version"] = version.version
        return version

    def write(self) -> None:
        """Replaced whole. The directory has to exist."""
        temporary = self.file.with_name(f".{self.file.name}.{os.getpid()}")
        temporary.write_text(
            json.dumps(self.data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        os.replace(temporary, self.file.resolve())


def _version(version: str, fields: dict[str, Any]) -> Version:
    reason = fields.get("reason", fields.get("notes", ""))
    return Version(
        version,
        str(fields.get("created", "")),
        str(fields.get("based_on", "")),
        str(reason),
        str(fields.get("digest", "")),
    )


def _order(version: str) -> tuple[int, str]:
    found = re.match(r"v?(\d+)", version)
    return (int(found[1]) if found else 0, version)
