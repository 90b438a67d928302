"""Record the version, parent and reason of each config in a file beside the configs. The trainers
refuse keys that they do not know, so the configs themselves cannot hold them.

The file is JSON: `{"configs": {NAME: {"current_version", "versions": {"v1": {"created", "based_on",
"reason", "digest"}}}}}`. A registry.json that was kept by hand (`notes` in place of `reason`) is
read as well, with its `active_configs` {USE: "NAME:vN"}, which say what is in use and are never
changed here. NAME is the config's path relative to the registry.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path as File
from typing import Any, TypedDict, cast

from bs4_console.configs.document import read_text
from bs4_console.errors import UsageError
from bs4_console.typed_json import record


class Registry(TypedDict, total=False):
    """The content of the registry, the JSON file with the recorded versions of all configs of a
    project. A person may have written it, so it is not checked yet.
    """

    configs: dict[str, Any]
    """By the name of a config: its current version, and all its versions."""
    active_configs: object
    """By a name for a purpose: the config and version that are in use for it, as NAME:vN."""


class Recorded(TypedDict, total=False):
    """One version of a config as the registry (the JSON file with the recorded versions) holds it.
    A person may have written the file, so the values are not checked yet; they should be texts.
    `created` is a date, `based_on` the version before, `reason` why this version was made, and
    `digest` the hash of its values.
    """

    created: object
    based_on: object
    reason: object
    notes: object
    """The reason, in a registry that a person has written."""
    digest: object


@dataclass(frozen=True)
class Version:
    """One recorded version of a config. `version` is its number as "vN", `created` its time as
    text, and `reason` why it was made. `based_on` is the version from which it was made: NAME:vN,
    or vN of the same config. `digest` is a hash of the values without the comments, so comments may
    change freely.
    """

    version: str
    created: str = ""
    based_on: str = ""
    reason: str = ""
    digest: str = ""


class History:
    """The recorded versions of all configs of a project. They are kept together in one JSON file,
    which is called the registry.
    """

    def __init__(self, file: File, data: Registry) -> None:
        self.file = file
        self.data = data

    @classmethod
    def read(cls, file: File) -> History:
        """Return the recorded versions from the JSON file `file`, or an empty History if the file
        does not exist. Raises UsageError if the file is not JSON or does not hold recorded
        versions.
        """
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
        return cls(file, cast(Registry, data))

    @staticmethod
    def digest(data: object) -> str:
        """Return a hash of the values of a config, as 16 hexadecimal digits. It does not depend on
        the order of the keys.
        """
        text = json.dumps(data, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def key(self, config: File) -> str:
        """Return the name under which the registry (the file of recorded versions) has the versions
        of a config, or would have them. It is the path of the config's file relative to the
        registry's directory. But if nothing is recorded under that path, and exactly one recorded
        config has the same file name, it is the name of that config.
        """
        path = os.path.relpath(config.resolve(), self.file.resolve().parent)
        names = self._named(path, config.name)
        if path in names or len(names) != 1:
            return path
        return names[0]

    def _named(self, path: str, file_name: str) -> list[str]:
        """Return the recorded names that are `path` or end with `file_name`."""
        found = []
        for name in self.data["configs"]:
            if name == path or File(name).name == file_name:
                found.append(name)
        return found

    def versions(self, name: str) -> list[Version]:
        """Return the recorded versions of the config `name`, oldest first, so that the current one
        is last. Return an empty list if the config is not recorded.
        """
        entry = self.data["configs"].get(name)
        if not isinstance(entry, dict) or not isinstance(entry.get("versions"), dict):
            return []
        found = []
        for version, fields in entry["versions"].items():
            if isinstance(fields, dict):
                found.append(_version(version, record(fields, Recorded)))
        current = entry.get("current_version")
        return sorted(found, key=lambda item: (item.version == current, _order(item.version)))

    def active(self, name: str) -> dict[str, str]:
        """Return {purpose: version} with every purpose for which the config `name` is in use. The
        purposes are names that a person has written into the table `active_configs` of the registry
        file, each with a config as NAME:vN. The version is "" if the table does not name one.
        """
        found = {}
        uses = self.data.get("active_configs")
        for use, place in uses.items() if isinstance(uses, dict) else ():
            config, _, version = str(place).partition(":")
            if name in self._named(config, File(config).name):
                found[str(use)] = version
        return found

    def has(self, parent: str, name: str) -> bool:
        """Return True if the registry (the file of recorded versions) has the version `parent`.
        `parent` is written NAME:vN, or vN for a version of the config `name`.
        """
        config, _, version = parent.rpartition(":")
        for known in self._named(config, File(config).name) if config else [name]:
            for item in self.versions(known):
                if item.version == version:
                    return True
        return False

    def add(
        self, config: File, digest: str, reason: str, created: str, based_on: str = ""
    ) -> Version:
        """Add the values of a config to this object as the config's next version, and return that
        version. Call `write` to save it.

        `digest` is the hash of the values (see `digest`). `created` is the time as text, and
        `reason` says why the version was made. `based_on` is the version from which it was made,
        NAME:vN or vN; "" means the config's version before. Raises UsageError if the values are the
        same as in the current version, or if the version `based_on` is not recorded.
        """
        name = self.key(config)
        known = self.versions(name)
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
        """Save the recorded versions: the registry file is replaced in one step. Raises OSError if
        it cannot be written, for example because its directory does not exist.
        """
        temporary = self.file.with_name(f".{self.file.name}.{os.getpid()}")
        temporary.write_text(
            json.dumps(self.data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        os.replace(temporary, self.file.resolve())


def _version(version: str, fields: Recorded) -> Version:
    return Version(
        version,
        str(fields.get("created", "")),
        str(fields.get("based_on", "")),
        str(fields.get("reason", fields.get("notes", ""))),
        str(fields.get("digest", "")),
    )


def _order(version: str) -> tuple[int, str]:
    found = re.match(r"v?(\d+)", version)
    return (int(found[1]) if found else 0, version)
