"""The record of a launch, made on the pod: what of it may travel, and the config files that it
names.

What has the form of a key stays: it would lie in the store and in journals. A new machine has its
keys from the console's own 0600 files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bs4_agent.checkpoints import tracking
from bs4_agent.checkpoints.remote.launched import CONFIGS, Launched
from bs4_agent.checkpoints.remote.layout import checked
from bs4_agent.credentials.forms import secret_held
from bs4_agent.errors import BadRequest
from bs4_agent.trainers import settings
from bs4_agent.trainers.base import LaunchSpec
from bs4_agent.trainers.settings import UNKNOWN_CONFIG, BadConfig

#: Which devices, network cards and interpreter a machine has is its own: with another one's a run
#: does not start, or trains elsewhere.
_MACHINES = re.compile(
    r"(?:CUDA|NVIDIA|HIP|ROCR)_VISIBLE_DEVICES|CUDA_(?:HOME|PATH)|(?:NCCL|GLOO|"
    r"TP)_SOCKET_IFNAME|NCCL_IB_\w+|VIRTUAL_ENV|UV_PROJECT_ENVIRONMENT"
)
#: A further config file that is larger is none; and more of them than this are no launch.
_FILE_BYTES, _FILES = 1 << 20, 64


def of(spec: LaunchSpec) -> Launched:
    """Of what `spec` was started with; its files are `config_files`."""
    words, given = tracking.untracked(spec)
    overrides, left_out = without_keys(words)
    held = []
    for name, value in given.items():
        if secret_held(f"{name}={value}"):
            held.append(name)
    bound = []
    for name in given:
        if name not in held and _MACHINES.fullmatch(name):
            bound.append(name)
    env = {}
    for name, value in given.items():
        if name not in (*held, *bound):
            env[name] = value
    for name in held:
        left_out.append(f"the variable {name}, which holds what looks like a key")
    for name in bound:
        left_out.append(f"the variable {name}, which is of its machine")
    if spec.container:
        left_out += [f"the container {spec.container}, which is of its machine"]
    else:
        left_out += []
    return Launched(overrides, env, spec.component, spec.processes, left_out=left_out)


def without_keys(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(the options that hold nothing of the form of a key, what was left out as in Launched)."""
    kept: list[str] = []
    left_out = []
    for option in _options(words):
        if kind := secret_held(" ".join(option)):
            left_out.append(
                f"the option {option[0].partition('=')[0]}, which holds what looks like {kind}"
            )
        else:
            kept += option
    return kept, left_out


def _options(words: Sequence[str]) -> Iterator[list[str]]:
    """Each option with its values; a word that belongs to none by itself (verl's are all such)."""
    option: list[str] = []
    for word in words:
        if option and (word.startswith("--") or not option[0].startswith("--")):
            yield option
            option = []
        option.append(word)
    if option:
        yield option


@dataclass(frozen=True)
class ConfigFiles:
    """`main`: what the config is called in a manifest, "" where it is not there. `files`: name in
    the manifest -> the file, the config among them. `named` is `files` of Launched, `left_out` as
    there.
    """

    main: str = ""
    files: Mapping[str, Path] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    left_out: Sequence[str] = ()


def config_files(spec: LaunchSpec, output_dir: Path) -> ConfigFiles:
    """The config, the files behind each `@` of the options, and those that they include
    (`toml_files`), as they lie to each other.

    BadRequest when the config itself has a name that no store takes.
    """
    main = None
    if spec.config != UNKNOWN_CONFIG:
        main = _lexical(spec.cwd, spec.config)
    words = {
        word: _lexical(spec.cwd, word)
        for before, word in zip(spec.overrides, spec.overrides[1:], strict=False)
        if before == "@"
    }
    found = _Walk()
    if main is not None and spec.config_path.is_file():
        found.files[main] = spec.config_path
        found.include(main, spec.config_path)
    for word, path in words.items():
        found.add(path, spec.cwd / word)
    names = _names(found, main, output_dir)
    named = {word: names[path] for word, path in words.items() if path in names}
    return ConfigFiles(
        names.get(main, "") if main is not None else "",
        {name: found.files[path] for path, name in names.items()},
        named,
        found.left_out,
    )


class _Walk:
    """`files`: where a file seems to lie, by the names alone -> as it is read. A copy lies so to
    the others as this one seems to.
    """

    def __init__(self) -> None:
        self.files: dict[Path, Path] = {}
        self.left_out: list[str] = []

    def add(self, place: Path, file: Path) -> None:
        if place in self.files:
            return
        try:
            good = (
                file.is_file() and file.stat().st_size <= _FILE_BYTES and len(self.files) < _FILES
            )
            text = ""
            if good:
                text = file.read_text("utf-8", "replace")
        except OSError:
            good = False
        if not good:
            self.left_out.append(f"the config file {place}, which is not there or is none")
            return
        if kind := secret_held(text):
            self.left_out.append(f"the config file {place}, which holds what looks like {kind}")
            return
        self.files[place] = file
        self.include(place, file)

    def include(self, place: Path, file: Path) -> None:
        try:
            more = settings.load_toml(file).get("toml_files")
        except BadConfig:
            # it goes as it is: the trainer said what is wrong with it, or reads it as something
            # else
            return
        for name in more if isinstance(more, list) else ():
            if Path(str(name)).is_absolute():
                self.left_out.append(
                    f"the config file {name}, which {place.name} includes by its place on "
                    "that machine"
                )
            else:
                self.add(_lexical(place.parent, str(name)), file.parent / str(name))


def _names(found: _Walk, main: Path | None, output_dir: Path) -> dict[Path, str]:
    """By place, the name in the manifest. A config that stands alone keeps the one that it has
    below the output directory.
    """
    if main is not None and list(found.files) == [main]:
        inside = main.is_relative_to(output_dir) and found.files[main].is_relative_to(output_dir)
        return {
            main: checked(
                main.relative_to(output_dir).as_posix() if inside else f"{CONFIGS}/{main.name}"
            )
        }
    names: dict[Path, str] = {}
    root = ""
    if found.files:
        root = os.path.commonpath([path.parent for path in found.files])
    for path in found.files:
        name = f"{CONFIGS}/{path.relative_to(root).as_posix()}"
        try:
            names[path] = checked(name)
        except BadRequest:
            if path == main:
                raise
            found.left_out.append(f"the config file {path}, whose name no store takes")
    return names


def _lexical(base: Path, name: str | Path) -> Path:
    return Path(os.path.normpath(base / name))
