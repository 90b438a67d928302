"""What a run was started with beside its config: the record of its launch, which lies in the store
with each of its steps.

A new machine has none of it. Without its further arguments, its environment and the files that
these name, a run would go on there as another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Where configs go that lie outside the run's output directory; the files of one launch lie there
#: as they lie to each other.
CONFIGS = ".bs4/config"


@dataclass(frozen=True)
class Launched:
    """`overrides`, `env`, `component` and `processes` as in a LaunchSpec, without W&B's ids, which
    a manifest has by themselves. `files`: the word behind an `@` of `overrides` -> the file of the
    manifest that it stands for. `left_out`: what of the launch is not here (keys never are), and
    why, each as the end of a sentence.
    """

    overrides: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    component: str = "rl"
    processes: int = 1
    files: Mapping[str, str] = field(default_factory=dict)
    left_out: Sequence[str] = ()

    def words(self, place: Callable[[str], object]) -> tuple[str, ...]:
        """`overrides` for a machine on which `place` says where a file of the manifest lies."""
        found: list[str] = []
        for word in self.overrides:
            named = bool(found) and found[-1] == "@" and word in self.files
            found.append(str(place(self.files[word])) if named else word)
        return tuple(found)

    def as_dict(self) -> dict[str, Any]:
        return {
            "overrides": list(self.overrides),
            "env": dict(self.env),
            "component": self.component,
            "processes": self.processes,
            "files": dict(self.files),
            "left_out": list(self.left_out),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Launched:
        """ValueError, TypeError, KeyError, AttributeError for what is no such record."""
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
