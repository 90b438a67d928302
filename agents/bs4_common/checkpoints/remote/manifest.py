"""The manifest of one step in the store. It is written before the step's data, so that missing
files can be named.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from bs4_common.checkpoints.remote.errors import StoreDamaged
from bs4_common.checkpoints.remote.launched import CONFIGS, Launched
from bs4_common.checkpoints.remote.layout import checked
from bs4_common.digest import sha256
from bs4_common.errors import BadRequest
from bs4_common.failures.compiled import canonical
from bs4_common.foreign_json import EXACT_INTEGER, loads, wall_second

SCHEMA = "bs4.manifest/1"
#: The most bytes of a manifest. A run with 1000 ranks has some thousand files of 200 bytes here.
MOST = 16 * 1024 * 1024
_SHA1_LENGTH = 40


class FileRow(TypedDict, total=False):
    """One file in the JSON of a manifest (the list of a checkpoint's files in the object store),
    before it is checked, so that the values may be anything. `File` says what they should be.
    """

    path: object
    size: object
    sha1: object
    sha256: object


@dataclass(frozen=True)
class File:
    """One file of a checkpoint as a manifest (the list of all files of a checkpoint in the object
    store) describes it. `path` is relative to the run's output directory, and `size` is in bytes.
    `sha1` and `sha256` are digests of its content in hexadecimal digits; `sha256` is None if it was
    not computed.
    """

    path: str
    size: int
    sha1: str
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The list of all files of one checkpoint step in the object store, with what a restore needs
    to know.

    `created_t` is the pod's Unix time in seconds. `parts` maps the name of a part (trainer,
    orchestrator, weights, or broadcast: weights for the inference server) to its directory,
    relative to the output directory. `config` is the config file with which a resume is started, ""
    if it is not known. `wandb` maps "trainer" and "orchestrator" to their W&B run ids, as far as
    they are known. `launch` is the record of the launch, None if the program that uploaded the step
    kept no record.
    """

    run: str
    trainer: str
    step: int
    attempt: int
    created_t: float
    files: Sequence[File]
    parts: Mapping[str, str]
    config: str = ""
    wandb: Mapping[str, str] = field(default_factory=dict)
    launch: Launched | None = None

    @property
    def bytes(self) -> int:
        """Return the size of all files in the manifest, in bytes."""
        return sum(file.size for file in self.files)

    def encode(self) -> builtins.bytes:
        """Return the manifest as JSON bytes that are always the same for equal manifests: with
        sorted keys and without spaces.
        """
        files = []
        for file in sorted(self.files, key=lambda one: one.path):
            row: dict[str, Any] = {"path": file.path, "size": file.size, "sha1": file.sha1}
            files.append(row | ({"sha256": file.sha256} if file.sha256 else {}))
        return b"%s\n" % canonical(
            {
                "schema": SCHEMA,
                "run": self.run,
                "trainer": self.trainer,
                "step": self.step,
                "attempt": self.attempt,
                "created_t": round(self.created_t, 3),
                "files": files,
                "parts": dict(self.parts),
                "config": self.config,
                "wandb": dict(self.wandb),
                "bytes": self.bytes,
                **({} if self.launch is None else {"launch": self.launch.as_dict()}),
            }
        )

    @property
    def sha256(self) -> str:
        """Return the SHA-256 digest of `encode()`, in hexadecimal digits. The file latest.json,
        which names a run's newest step, also has this digest.
        """
        return digest(self.encode())

    @classmethod
    def decode(cls, data: builtins.bytes, what: str = "The manifest") -> Manifest:
        """Return the manifest in `data`, which are the bytes that `encode` has made. Every path in
        it is checked to stay below the run's output directory. `what` is the name of the manifest
        in error messages. Raises StoreDamaged if it is malformed.
        """
        try:
            raw = loads(data)
            if raw["schema"] != SCHEMA:
                raise StoreDamaged(
                    f"{what} has the schema {str(raw['schema'])[:40]!r}, this version reads "
                    f"{SCHEMA}; use a newer bs4-console."
                )
            files = [_file(row) for row in raw["files"]]
            launch = raw.get("launch")
            found = cls(
                run=str(raw["run"]),
                trainer=str(raw["trainer"]),
                step=_count(raw["step"]),
                attempt=_count(raw["attempt"]),
                created_t=_time(raw["created_t"]),
                files=files,
                parts={str(name): checked(str(path)) for name, path in raw["parts"].items()},
                config=str(raw.get("config") or ""),
                wandb={
                    str(name): str(value)
                    for name, value in (raw.get("wandb") or {}).items()
                    if value
                },
                launch=None if launch is None else Launched.from_dict(launch),
            )
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            BadRequest,
        ) as error:
            raise StoreDamaged(
                f"{what} cannot be read ({type(error).__name__}: {str(error)[:120]}); "
                "another step may be whole."
            ) from error
        paths = {file.path for file in files}
        sound = bool(files) and len(paths) == len(files)
        if not sound or _count(raw.get("bytes", -1)) != found.bytes:
            raise StoreDamaged(
                f"{what} contradicts itself (files: {len(files)}, bytes: {raw.get('bytes')}); "
                "another step may be whole."
            )
        named = {found.config} if found.config else set()
        if found.launch is not None:
            named.update(found.launch.files.values())
        if not named <= {p for p in paths if p == found.config or p.startswith(f"{CONFIGS}/")}:
            raise StoreDamaged(
                f"{what} names a config that is none of its files; another step may be whole."
            )
        return found


def digest(data: bytes) -> str:
    """Return the SHA-256 digest of the data, in hex."""
    return sha256(data).hexdigest()


def _file(row: FileRow) -> File:
    """Return the file in one row. Raises ValueError if it is malformed."""
    sha1, other = str(row["sha1"]), row.get("sha256")
    if len(sha1) != _SHA1_LENGTH or not set(sha1) <= set("0123456789abcdef"):
        raise ValueError(f"{sha1[:60]!r} is no SHA-1")
    return File(
        checked(str(row["path"])), _count(row["size"]), sha1, None if other is None else str(other)
    )


def _time(value: Any) -> float:
    """Return the value if it is a Unix time in seconds. Raises ValueError otherwise."""
    found = wall_second(value)
    if found is None:
        raise ValueError(f"{str(value)[:40]!r} is no time")
    return found


def _count(value: Any) -> int:
    """Return the value if it is a whole number of at least 0, and not so large that no file, step
    or size has it. Raises ValueError otherwise.
    """
    if type(value) is not int or not 0 <= value <= EXACT_INTEGER:
        raise ValueError(f"{str(value)[:40]!r} is no count")
    return int(value)
