"""Checks the content of a part of a checkpoint beside its marker. A marker only shows that the
writer came to its end, and not that the bytes are there.

Nothing is loaded and no pickle is opened. Only names, sizes and the headers at the front of the
files are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from bs4_common.files import open_regular, read_regular
from bs4_common.foreign_json import loads

_SHARD = re.compile(rb"__\d{1,6}_\d{1,6}\.distcp")
#: The most bytes of DCP's `.metadata` that are searched for names; that of a large model has some
#: MB.
_METADATA_MOST = 64 * 1024 * 1024
_HEADER_MOST = 64 * 1024 * 1024
_RANK = re.compile(r"(model|optim|extra_state)_world_size_(\d{1,5})_rank_(\d{1,5})\.pt")
#: The first bytes of a zip archive.
_ZIP = b"PK\x03\x04"
#: Bytes of the end record of a zip archive without a comment, as torch writes it.
_ZIP_END = 22
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_INDEX = "model.safetensors.index.json"


def wanting(part: str, directory: Path) -> str:
    """Return what is missing in the files of one part of a checkpoint, as a phrase, or "" if the
    files show that the part can be loaded. Marker files (such as STABLE, which a trainer writes
    when a part is complete) are not checked here; the caller has to do that first.

    `part` is the name of the part: trainer, orchestrator, broadcast (weights for the inference
    server) or weights, or verl's actor, critic or model; `directory` has its files. A part of any
    other name counts as complete, because its content is not known. Raises OSError if the disk
    fails; a file that vanishes during the check only counts as missing.
    """
    checks = {
        "trainer": _shards,
        "orchestrator": _progress,
        "broadcast": _weights,
        "weights": _weights,
        "actor": _ranks,
        "critic": _ranks,
        "model": _ranks,
    }
    if part in checks:
        return checks[part](directory)
    return ""


def _shards(directory: Path) -> str:
    """Check a checkpoint of torch's DCP. It names every shard in `.metadata` (a pickle, which is
    searched and not opened). A shard holds the output of torch.save for one tensor or object after
    the other (torch 2.13), so its last bytes end a zip archive.
    """
    shards = []
    for entry in _listed(directory):
        if _SHARD.fullmatch(entry.name.encode("utf-8", "surrogateescape")):
            shards.append(entry)
    metadata = directory / ".metadata"
    size = _size(metadata)
    if not size:
        return ".metadata is empty"
    if not shards:
        return "no shard (.distcp) beside .metadata"
    if why := _first(_empty, shards) or _first(_torn, shards):
        return why
    if size <= _METADATA_MOST:
        named = {name.decode() for name in _SHARD.findall(_read(metadata))}
        if lost := named.difference(shard.name for shard in shards):
            return f"{min(lost)} is named in .metadata and not there"
    return ""


def _first(check: Callable[[Path], str], files: Iterable[Path]) -> str:
    """Return the first phrase that is not "" of a check of the files, or ""."""
    return next(filter(None, map(check, files)), "")


def _empty(path: Path) -> str:
    """Return that the file is empty or gone, or ""."""
    if _size(path):
        return ""
    return f"{path.name} is empty"


def _ranks(directory: Path) -> str:
    """Check a checkpoint of verl: a file of each kind (model, optim, extra_state) for every rank of
    the world that wrote it, or a complete Hugging Face export (its SFT trainer up to 0.5), or
    Megatron's dist_ckpt. If there is an adapter beside these, it must be complete too.
    """
    found: dict[tuple[str, int], dict[int, Path]] = {}
    for path in _listed(directory):
        if (match := _RANK.fullmatch(path.name)) is not None:
            found.setdefault((match.group(1), int(match.group(2))), {})[int(match.group(3))] = path
    if all(part != "model" for part, _ in found):
        if (directory / "dist_ckpt").is_dir():
            if _listed(directory / "dist_ckpt"):
                return ""
            return "dist_ckpt is empty"
        if found:
            return "no model_world_size_* file"
        return _weights(directory)
    # A run that went on with another number of GPUs wrote its steps anew, so the files of one step
    # are of one world.
    for (part, world), ranks in sorted(found.items()):
        for rank in range(world):
            if rank not in ranks:
                return f"no {part}_world_size_{world}_rank_{rank}.pt"
        if cut := _first(_torn, ranks.values()):
            return cut
    adapter = directory / "lora_adapter"
    if adapter.is_dir():
        if not (adapter / "adapter_config.json").exists():
            return "no adapter_config.json in lora_adapter"
        if why := _weights(adapter):
            return f"lora_adapter: {why}"
    return ""


def _torn(path: Path) -> str:
    """Return why the file is incomplete, or "". torch saves zip archives, which write their
    directory last: a file that begins as a zip and does not end as one was cut off.
    """
    try:
        with open_regular(path) as handle:
            begins = handle.read(4)
            size = handle.seek(0, 2)
            handle.seek(max(0, size - _ZIP_END))
            ends = handle.read(_ZIP_END)
    except FileNotFoundError:
        return f"{path.name} vanished"
    if not size:
        return f"{path.name} is empty"
    if _ZIP.startswith(begins) and ends[:4] != b"PK\x05\x06":
        return f"{path.name} is cut off"
    return ""


def _progress(directory: Path) -> str:
    """Check the orchestrator's part of a checkpoint."""
    return _empty(directory / "progress.pt")


def _weights(directory: Path) -> str:
    """Check a model or an adapter: it needs at least one file of weights, no empty file, and every
    safetensors file must be as long as its own header says.
    """
    files = [path for path in _below(directory) if path.suffix in _WEIGHTS]
    if not files:
        return "no weights"
    for path in files:
        if why := _empty(path):
            return why
        if path.suffix == ".safetensors" and (short := _short(path)):
            return short
    lost = set(_indexed(directory / _INDEX)).difference(path.name for path in files)
    if lost:
        return f"{min(lost)} is named in {_INDEX} and not there"
    return ""


def _short(path: Path) -> str:
    """Return why a safetensors file is incomplete, or "". The format is 8 bytes of length (little
    endian), a JSON header with the offsets of every tensor, then the tensors.
    """
    size = _size(path) or 0
    try:
        with open_regular(path) as handle:
            length = int.from_bytes(handle.read(8), "little")
            if not 2 <= length <= min(size - 8, _HEADER_MOST):
                return f"{path.name} is cut off in its header"
            header = loads(handle.read(length))
        header.pop("__metadata__", None)
        ends = [int(entry["data_offsets"][1]) for entry in header.values()]
    except FileNotFoundError:
        return f"{path.name} vanished"
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError):
        return f"{path.name} has no readable header"
    end = 8 + length + max(ends, default=0)
    if size >= end:
        return ""
    return f"{path.name} has {size} of {end} bytes"


def _indexed(index: Path) -> list[str]:
    """Return the names of the weight files in an index. An index that cannot be read gives one
    name, which no file has.
    """
    if (_size(index) or 0) > _METADATA_MOST:
        return [f"a readable {index.name}"]
    raw = _read(index)
    try:
        names = loads(raw)["weight_map"].values() if raw else ()
        return [str(name) for name in names]
    except (ValueError, KeyError, AttributeError, TypeError):
        return [f"a readable {_INDEX}"]


def _below(directory: Path) -> list[Path]:
    """Return the files in the directory and one level down (2026-01 puts adapters into
    `lora_adapters/`).
    """
    found: list[Path] = []
    for path in _listed(directory):
        if path.is_file():
            found.append(path)
        elif path.is_dir():
            found += _listed(path)
    return found


def _listed(directory: Path) -> list[Path]:
    """Return the sorted entries of the directory, an empty list if it does not exist."""
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read(path: Path) -> bytes:
    """Return the bytes of the file, b"" if it does not exist."""
    try:
        return read_regular(path, _METADATA_MOST)
    except FileNotFoundError:
        return b""


def _size(path: Path) -> int | None:
    """Return the size of the file in bytes, or None if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
