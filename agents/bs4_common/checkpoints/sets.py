"""Everything on the disk that belongs to one step: what a resume needs, and the weights and
broadcasts of that step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_common.checkpoints.content import wanting
from bs4_common.checkpoints.inventory import inventory, lacks_marker, measure, step_directories
from bs4_common.trainers.base import LaunchSpec, RunLayout, Trainer

#: Parts that exist between two checkpoints too. Alone they do not make a checkpoint.
LOOSE = frozenset({"broadcast", "weights"})
#: The last-written marker of a part that its generation does not need for a resume.
_MARKERS: Mapping[str, Sequence[str]] = {"broadcast": ("STABLE",), "weights": ()}


@dataclass(frozen=True)
class Part:
    """One part of a checkpoint step on the disk, for example the trainer's. `bytes` is its size.
    `why` says why the part is incomplete, and is "" if it is complete. `t` is the time at which its
    newest file was written, as a Unix time in seconds.
    """

    name: str
    path: Path
    bytes: int
    t: float
    why: str

    @property
    def whole(self) -> bool:
        """Return True if this part of the checkpoint is complete, which is so if `why` is ""."""
        return not self.why


@dataclass(frozen=True)
class StepSet:
    """Everything that the disk has of one step of a run.

    `complete` is True if a resume by the run's version of the trainer can start from it. `parts`
    maps the name of each part (for example "trainer") to the Part. `missing` maps each part that a
    resume needs and that is absent or incomplete to the reason. `directories` are the step
    directories, without repeats; these are moved when the step is removed.
    """

    step: int
    complete: bool
    parts: Mapping[str, Part]
    missing: Mapping[str, str]
    directories: Sequence[Path]

    @property
    def bytes(self) -> int:
        """Return the size of all parts of the step on the disk, in bytes."""
        return sum(part.bytes for part in self.parts.values())

    @property
    def t(self) -> float:
        """Return the time at which the step's files were last written to, as a Unix time in
        seconds, or 0 if no part has a file.
        """
        return max((part.t for part in self.parts.values()), default=0.0)

    @property
    def saved_t(self) -> float:
        """Return the time at which the first of its parts was complete, as a Unix time in seconds,
        or 0 if no part has a file. A trainer that resumes from the step may write another part of
        it again, such as its broadcast.
        """
        return min((part.t for part in self.parts.values() if part.t), default=0.0)

    @property
    def checkpoint(self) -> bool:
        """Return True if the trainer began to save a checkpoint of this step, and False if it only
        published the step's weights.
        """
        return self.complete or not LOOSE.issuperset(self.parts) or not self.parts

    @property
    def emptied(self) -> bool:
        """Return True if the step's directory exists but no part of a checkpoint in it has a byte.
        verl's own deletion of old checkpoints leaves a step in this state: it empties `actor`, and
        `data.pt` beside it stays.
        """
        return not self.complete and bool(self.directories) and self.bytes == 0


def step_sets(trainer: Trainer, spec: LaunchSpec) -> list[StepSet]:
    """Return every step of the run that has any file on the disk, complete or not, oldest first.
    The list is empty if there is none.
    """
    rules = {rule.name: rule for rule in trainer.parts(spec)}
    needed = [rule.name for rule in rules.values() if rule.required]
    known = {c.step: c for c in inventory(trainer, spec)}
    extra = {}
    for name, root in _extra(trainer, spec, rules).items():
        extra[name] = step_directories(root)
    found = []
    for step in sorted(set(known).union(*extra.values())):
        parts: dict[str, Part] = {}
        directories: list[Path] = []
        missing = dict.fromkeys(needed, "not there")
        if (checkpoint := known.get(step)) is not None:
            for name, path in checkpoint.parts.items():
                parts[name] = _part(name, path, rules[name].markers)
            directories += checkpoint.directories.values()
            missing = dict.fromkeys(checkpoint.missing, "not there") | dict(checkpoint.lacking)
        for name, steps in extra.items():
            if step in steps:
                parts[name] = _part(name, steps[step], _MARKERS[name])
                directories.append(steps[step])
        found.append(StepSet(step, not missing, parts, missing, directories))
    return found


def numbers(sets: Iterable[StepSet]) -> list[int]:
    """Return the training steps of these sets (a set has the files of one step), in the same
    order.
    """
    return [one.step for one in sets]


def set_of(sets: Iterable[StepSet], step: int) -> StepSet | None:
    """Return the set (the files of one training step) of `step`, or None if `sets` does not contain
    it.
    """
    return next((one for one in sets if one.step == step), None)


def complete_sets(sets: Iterable[StepSet]) -> list[StepSet]:
    """Return the sets (each has the files of one training step) from which a resume can start,
    newest first.
    """
    return sorted((one for one in sets if one.complete), key=lambda one: -one.step)


def verify(one: StepSet) -> str:
    """Read the files of a complete checkpoint again and return why it cannot be relied on after
    all, as a phrase, or "" if it is good. No cached result is used. Raises OSError if the disk
    fails.
    """
    if not one.complete:
        name, why = next(iter(one.missing.items()))
        return f"{name}: {why}"
    for part in one.parts.values():
        if not part.path.is_dir():
            return f"{part.name}: gone"
        if part.name not in LOOSE or part.whole:
            markers = _MARKERS.get(part.name, ())
            if why := lacks_marker(part.path, markers) or wanting(part.name, part.path):
                return f"{part.name}: {why}"
    return ""


def resolved_configs(layout: RunLayout) -> list[Path]:
    """Return the paths of the config files in which the run's launcher wrote the settings that are
    really in force, after it had merged files and options; empty if there are none.
    """
    configs = layout.run_dir / "configs"
    return sorted([*configs.glob("*.json"), *configs.glob("*.toml")])


def _part(name: str, path: Path, markers: Sequence[str]) -> Part:
    """Return the part at `path` with its size and state."""
    size, t, why = measure(name, path, markers)
    return Part(name, path, size, t, why)


def _extra(trainer: Trainer, spec: LaunchSpec, rules: Collection[str]) -> dict[str, Path]:
    """Return the directories of weights and broadcasts that are no part of this generation's
    checkpoints, by name.
    """
    layout = trainer.layout(spec)
    roots = {"broadcast": layout.broadcasts, "weights": layout.weights}
    found = {}
    for name, root in roots.items():
        if root and name not in rules:
            found[name] = root
    return found
