"""Checks the content of a part of a checkpoint beside its marker. A marker only shows that the
writer came to its end, and not that the bytes are there.

Nothing is loaded and no pickle is opened. Only names, sizes and the headers at the front of the
files are read.
"""

from __future__ import annotations

import re
from pathlib import Path

from bs4_agent.foreign_json import loads

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
    """Return what is missing in a part whose markers are there, as a phrase. Return "" if its files
    show that it can be loaded.

    `part` is trainer, orchestrator, broadcast or weights, or verl's actor, critic or model; the
    content of other parts is not known and counts as complete. Raises OSError from the disk, except
    for files that vanish in the meantime, which count as missing.
    """
    look = {
        "trainer": _shards,
        "orchestrator": _progress,
        "broadcast": _weights,
        "weights": _weights,
    }.get(part)
    if part in ("actor", "critic", "model"):
        look = _ranks
    else:
        look = look
    if look is None:
        return ""
    return look(directory)


def _shards(directory: Path) -> str:
    """Check a checkpoint of torch's DCP. It names every shard in `.metadata` (a pickle, which is
    searched and not opened). A shard holds the output of torch.save for one tensor or object after
    the other (torch 2.13), so its last bytes end a zip archive.
    """
    found = {}
    for entry in _listed(directory):
        if _SHARD.fullmatch(entry.name.encode("utf-8", "surrogateescape")):
            found[entry.name] = _size(entry)
    metadata = directory / ".metadata"
    size = _size(metadata)
    if not size:
        return ".metadata is empty"
    if not found:
        return "no shard (.distcp) beside .metadata"
    if empty := sorted(name for name, size in found.items() if not size):
        return f"{empty[0]} is empty"
    if cut := next(filter(None, (_torn(directory / name) for name in sorted(found))), ""):
        return cut
    if size <= _METADATA_MOST:
        named = set()
        for match in _SHARD.findall(_read(metadata)):
            named.add(match.decode())
    else:
        named = set()
    lost = sorted(named - set(found))
    if lost:
        return f"{lost[0]} is named in .metadata and not there"
    return ""


def _ranks(directory: Path) -> str:
    """Check a checkpoint of verl: a file of each kind (model, optim, extra_state) for every rank of
    the world that wrote it, or a complete Hugging Face export (its SFT trainer up to 0.5), or
    Megatron's dist_ckpt. If there is an adapter beside these, it must be complete too.
    """
    found: dict[tuple[str, int], dict[int, Path]] = {}
    for path in _listed(directory):
        if (match := _RANK.fullmatch(path.name)) is not None:
            found.setdefault((match.group(1), int(match.group(2))), {})[int(match.group(3))] = path
    worlds = {world for part, world in found if part == "model"}
    if not worlds:
        if (directory / "dist_ckpt").is_dir():
            if _listed(directory / "dist_ckpt"):
                return ""
            return "dist_ckpt is empty"
        if not found:
            return _weights(directory)
        return "no model_world_size_* file"
    # A run that went on with another number of GPUs wrote its steps anew, so the files of one step
    # are of one world.
    for (kind, world), ranks in sorted(found.items()):
        lost = None
        for rank in range(world):
            if rank not in ranks:
                lost = rank
                break
        if lost is not None:
            return f"no {kind}_world_size_{world}_rank_{lost}.pt"
        for path in ranks.values():
            if cut := _torn(path):
                return cut
    adapter = directory / "lora_adapter"
    if adapter.is_dir():
        if not (adapter / "adapter_config.json").exists():
            return "no adapter_config.json in lora_adapter"
        if why := _weights(adapter):
            return f"lora_adapter: {why}"
        return ""
    return ""


def _torn(path: Path) -> str:
    """Return why the file is incomplete, or "". torch saves zip archives, which write their
    directory last: a file that begins as a zip and does not end as one was cut off.
    """
    try:
        with path.open("rb") as handle:
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
    if _size(directory / "progress.pt"):
        return ""
    return "progress.pt is empty"


def _weights(directory: Path) -> str:
    """Check a model or an adapter: it needs at least one file of weights, no empty file, and every
    safetensors file must be as long as its own header says.
    """
    files = [path for path in _below(directory) if path.suffix in _WEIGHTS]
    if not files:
        return "no weights"
    for path in files:
        if not _size(path):
            return f"{path.name} is empty"
        if path.suffix == ".safetensors" and (short := _short(path)):
            return short
    present = {path.name for path in files}
    lost = sorted(set(_indexed(directory / _INDEX)) - present)
    if lost:
        return f"{lost[0]} is named in {_INDEX} and not there"
    return ""


def _short(path: Path) -> str:
    """Return why a safetensors file is incomplete, or "". The format is 8 bytes of length (little
    endian), a JSON header with the offsets of every tensor, then the tensors.
    """
    size = _size(path) or 0
    try:
        with path.open("rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            if not 2 <= length <= min(size - 8, _HEADER_MOST):
                return f"{path.name} is cut off in its header"
            header = loads(handle.read(length))
        ends = []
        for name, entry in header.items():
            if name != "__metadata__":
                ends.append(int(entry["data_offsets"][1]))
    except FileNotFoundError:
        return f"{path.name} vanished"
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return f"{path.name} has no readable header"
    end = 8 + length + max(ends, default=0)
    if size >= end:
        return ""
    return f"{path.name} has {size} of {end} bytes"


def _indexed(index: Path) -> list[str]:
    """Return the names of the weight files in an index. An index that cannot be read gives one
    name, which no file has.
    """
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
            found += [path]
        elif path.is_dir():
            found += _listed(path)
        else:
            found += []
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
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _size(path: Path) -> int | None:
    """Return the size of the file in bytes, or None if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
