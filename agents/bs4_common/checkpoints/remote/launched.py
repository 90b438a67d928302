"""The record of a launch: what a run was started with beside its config. It is in the store with
each of the run's steps.

A new machine has none of it. Without its further arguments, its environment and the files that
these name, a run would go on there as another run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

#: The place of configs that are outside the run's output directory. The files of one launch keep
#: their relative positions there.
CONFIGS = ".bs4/config"


class LaunchedFields(TypedDict):
    """How a run was launched, as JSON values: the form that a `Launched` (see its fields) has in a
    manifest, which lists a checkpoint's files in the object store.
    """

    overrides: list[str]
    env: dict[str, str]
    component: str
    processes: int
    files: dict[str, str]
    left_out: list[str]


@dataclass(frozen=True)
class Launched:
    """The record of how a run was launched. It is part of the manifest, the list of a checkpoint's
    files in the object store.

    `overrides` (further words of the command line), `env` (environment variables), `component` (the
    program that was started, for example "rl") and `processes` (the number of its ranks) are those
    of a LaunchSpec without W&B's ids, which a manifest has in a field of its own. `files` maps each
    word that follows an `@` in `overrides` to the name that the config file has in the manifest.
    `left_out` has one phrase for each part of the launch that is not recorded, which also says why;
    secret keys are never recorded.
    """

    overrides: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    component: str = "rl"
    processes: int = 1
    files: Mapping[str, str] = field(default_factory=dict)
    left_out: Sequence[str] = ()

    def words(self, place: Callable[[str], object]) -> tuple[str, ...]:
        """Return the options for a launch on this pod: `overrides`, with each config file after an
        `@` replaced by its path on this pod. `place` is called with the name that a config file has
        in `files`, and returns that path.
        """
        found: list[str] = []
        for word in self.overrides:
            named = bool(found) and found[-1] == "@" and word in self.files
            found.append(str(place(self.files[word])) if named else word)
        return tuple(found)

    def as_dict(self) -> LaunchedFields:
        """Return the record as a dictionary of JSON values, in the form in which a manifest (the
        list of a checkpoint's files in the object store) has it.
        """
        return {
            "overrides": list(self.overrides),
            "env": dict(self.env),
            "component": self.component,
            "processes": self.processes,
            "files": dict(self.files),
            "left_out": list(self.left_out),
        }

    @classmethod
    def from_dict(cls, data: LaunchedFields) -> Launched:
        """Return the record in `data`, a dictionary that `as_dict` has made and that was read from
        a manifest, the list of a checkpoint's files in the object store. Raises ValueError,
        TypeError, KeyError or AttributeError if it is malformed.
        """
        processes = data["processes"]
        if (
            type(processes) is not int
            or not isinstance(data["overrides"], list)
            or not isinstance(data["left_out"], list)
        ):
            raise ValueError("the record of the launch is none")
        return cls(
            tuple(map(str, data["overrides"])),
            {str(name): str(value) for name, value in data["env"].items()},
            str(data["component"]),
            processes,
            {str(word): str(path) for word, path in data["files"].items()},
            tuple(map(str, data["left_out"])),
        )
