"""The record of a launch, made on the pod: which of its options and variables may travel, and the
config files that it names.

A value that looks like a key is left out, because it would be in the store and in journals. A new
machine gets its keys from the console's own 0600 files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bs4_common.checkpoints import tracking
from bs4_common.checkpoints.remote.launched import CONFIGS, Launched
from bs4_common.checkpoints.remote.layout import checked
from bs4_common.credentials.forms import BY_NAME, secret_held
from bs4_common.credentials.redaction import holds_marker
from bs4_common.errors import BadRequest
from bs4_common.trainers import settings
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.settings import UNKNOWN_CONFIG, BadConfig

#: Variables about devices, network cards and the interpreter, which belong to one machine: with
#: those of another machine, a run does not start or trains elsewhere.
_MACHINES = re.compile(
    r"(?:CUDA|NVIDIA|HIP|ROCR)_VISIBLE_DEVICES|CUDA_(?:HOME|PATH)|(?:NCCL|GLOO|"
    r"TP)_SOCKET_IFNAME|NCCL_IB_\w+|VIRTUAL_ENV|UV_PROJECT_ENVIRONMENT"
)
#: The most bytes of a further config file, and the most files of one launch.
_FILE_BYTES, _FILES = 1 << 20, 64


def record_of(spec: LaunchSpec) -> Launched:
    """Return the record of the launch that `spec` describes, in the form in which a manifest (the
    list of a checkpoint's files in the object store) has it. Its options and environment variables
    are without secrets, without W&B ids and without those that belong to this machine only, such as
    CUDA_VISIBLE_DEVICES. Its field `files` is empty; `config_files` finds the files.
    """
    words, given = tracking.untracked(spec)
    overrides, left_out = without_keys(words)
    env, bound = {}, []
    for name, value in given.items():
        if secret_held(f"{name}={value}"):
            left_out.append(f"the variable {name}, which holds what looks like a key")
        elif _MACHINES.fullmatch(name):
            bound.append(f"the variable {name}, which is of its machine")
        else:
            env[name] = value
    if spec.container:
        bound.append(f"the container {spec.container}, which is of its machine")
    left_out += bound
    return Launched(overrides, env, spec.component, spec.processes, left_out=left_out)


def without_keys(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the words of a command line, `words`, by options. Return two lists: the words of all
    options that seem to hold no secret, and one phrase for each option that was left out because it
    looks as if it holds a secret key.
    """
    kept: list[str] = []
    left_out = []
    for option in _options(words):
        kind = secret_held(" ".join(option))
        if kind is None and any(map(holds_marker, option)):
            kind = BY_NAME
        if kind is not None:
            left_out.append(
                f"the option {option[0].partition('=')[0]}, which holds what looks like {kind}"
            )
        else:
            kept += option
    return kept, left_out


def _options(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield each option together with its values. A word that belongs to no option comes alone, as
    all words of verl do.
    """
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
    """The config files with which a run was launched. In a manifest (the list of a checkpoint's
    files in the object store), each of them has a name, which is a relative path.

    `files` maps the name of each file to its path on the pod, including the main config. `main` is
    the name of the main config, "" if that file does not exist. `named` maps each word that follows
    an `@` on the command line to the name of the file that the word means. `left_out` has a phrase
    for each file that could not be included.
    """

    main: str = ""
    files: Mapping[str, Path] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    left_out: Sequence[str] = ()


def config_files(spec: LaunchSpec, output_dir: Path) -> ConfigFiles:
    """Return the config files of a launch: the main config, the file after each `@` on the command
    line, and every file that one of these includes by its key `toml_files`. The names of the files
    in the result keep their relative positions, so that the includes still work after a restore.

    Raises BadRequest if the main config has a name that the object store does not accept.
    """
    main = None if spec.config == UNKNOWN_CONFIG else _lexical(spec.cwd, spec.config)
    words = {}
    for before, word in pairwise(spec.overrides):
        if before == "@":
            words[word] = _lexical(spec.cwd, word)
    found = _Walk()
    if main is not None and spec.config_path.is_file():
        found.files[main] = spec.config_path
        found.include(main, spec.config_path)
    for word, path in words.items():
        found.add(path, spec.cwd / word)
    names = _names(found, main, output_dir)
    return ConfigFiles(
        names.get(main, "") if main is not None else "",
        {name: found.files[path] for path, name in names.items()},
        {word: names[path] for word, path in words.items() if path in names},
        found.left_out,
    )


class _Walk:
    """Collects config files and the files that they include. `files` maps the path that each file
    has without following links to the path from which it is read. The copies in the store have the
    same relative positions as the first of these paths. `left_out` has a phrase for each file that
    was not collected.
    """

    def __init__(self) -> None:
        self.files: dict[Path, Path] = {}
        self.left_out: list[str] = []

    def add(self, place: Path, file: Path) -> None:
        """Collect the file and its includes. A missing, oversized or secret file is noted in
        `left_out` instead.
        """
        if place in self.files:
            return
        try:
            good = (
                file.is_file() and file.stat().st_size <= _FILE_BYTES and len(self.files) < _FILES
            )
            text = file.read_text("utf-8", "replace") if good else ""
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
        """Collect the files that the config at `place` includes."""
        try:
            more = settings.load_toml(file).get("toml_files")
        except BadConfig:
            # It is copied as it is: the trainer reported its error, or reads it as another format.
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
    """Return the name in the manifest for each place. A config that stands alone keeps the name
    that it has below the output directory.
    """
    if main is not None and list(found.files) == [main]:
        inside = main.is_relative_to(output_dir) and found.files[main].is_relative_to(output_dir)
        return {
            main: checked(
                main.relative_to(output_dir).as_posix() if inside else f"{CONFIGS}/{main.name}"
            )
        }
    names: dict[Path, str] = {}
    root = os.path.commonpath([path.parent for path in found.files]) if found.files else ""
    for path in found.files:
        try:
            names[path] = checked(f"{CONFIGS}/{path.relative_to(root).as_posix()}")
        except BadRequest:
            if path == main:
                raise
            found.left_out.append(f"the config file {path}, whose name no store takes")
    return names


def _lexical(base: Path, name: str | Path) -> Path:
    """Return the path of `name` below `base`, without following links."""
    return Path(os.path.normpath(base / name))
