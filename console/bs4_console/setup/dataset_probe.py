"""Counts the rows of data sets and the rows that two of them have in common, by the libraries of a
project. The text of this file is the input of the project's own interpreter, here or on a pod, with
a last line that calls `main`. So it imports nothing of this package.

A row counts as the same in two sets if its question is the same; what differs beside it (an index,
the name of its split) does not matter.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Kind = Literal["path", "environment"]
#: Stands before the answer, because a library may print lines of its own.
MARK = "bs4-splits:"
#: The names of the column with the question. The first one that a row has is used.
QUESTIONS = ("prompt", "question", "problem", "instruction", "messages", "conversations", "text")
#: What one row may not have in common with itself in another split. Used without a question.
PLACES = ("id", "idx", "index", "example_id", "split", "extra_info", "info")


@dataclass(frozen=True)
class Wanted:
    """One data set whose rows are to be counted. With `kind` "path", `place` is a file, a directory
    or the name of a data set on the Hugging Face hub. With "environment" it is the id of an
    environment of the library verifiers, which gets `arguments`. `use` says what a config takes the
    data set for ("train" or "eval"), or "". `split` names one split; "" means all. `limit` is how
    many examples the config takes of it, or None for all.
    """

    kind: Kind
    place: str
    use: str = ""
    split: str = ""
    limit: int | None = None
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Counted:
    """One split of a data set as it was read: `rows` is its number of rows, and `hashes` has a hash
    of each row. Each is None if it is not known, for example if the rows are not on this machine;
    the reason is then in `note` or `error`.
    """

    split: str
    rows: int | None
    hashes: list[str] | None
    note: str = ""
    error: str = ""


def main(asked: str) -> None:
    """Count the rows of data sets, and print the result as one line of JSON: {"sets": [{"use",
    "place", "split", "rows", "limit", "error", "note"}], "overlaps": [{"one", "other", "rows"}]}.
    `one` and `other` are positions in `sets`, and `rows` is how many rows both have. `asked` is a
    JSON list with the fields of Wanted for each data set. If one cannot be read, its `rows` is null
    and `error` says why.
    """
    sets = []
    keys: list[list[str] | None] = []
    with contextlib.redirect_stdout(sys.stderr):
        for entry in json.loads(asked):
            one = Wanted(**entry)
            for counted in _read(one):
                told = {"use": one.use, "place": one.place, "limit": one.limit, **asdict(counted)}
                keys.append(told.pop("hashes"))
                sets.append(told)
    overlaps = []
    for second, others in enumerate(keys):
        for first, held in enumerate(keys[:second]):
            if held is not None and others is not None:
                common = sum(map(frozenset(held).__contains__, others))
                overlaps.append({"one": first, "other": second, "rows": common})
    print(MARK, json.dumps({"sets": sets, "overlaps": overlaps}))  # noqa: T201 (its answer)


def _read(one: Wanted) -> list[Counted]:
    """Return what one wanted set has."""
    try:
        if one.kind == "path":
            return _path(one)
        return _environment(one)
    except Exception as error:  # noqa: BLE001 (a library or an environment raises anything)
        return [Counted("", None, None, error=f"{type(error).__name__}: {error}"[:300])]


def _counted(split: str, rows: Iterable[Any], note: str = "") -> Counted:
    """Return the entry of a split whose rows are all here."""
    hashes = list(map(_key, rows))
    return Counted(split, len(hashes), hashes, note)


def _key(row: Any) -> str:
    """Return the hash of a row's question."""
    told = row
    if isinstance(row, dict):
        told = {name: value for name, value in row.items() if name not in PLACES}
        for name in QUESTIONS:
            if row.get(name):
                told = row[name]
                break
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _path(one: Wanted) -> list[Counted]:
    """Read files, a directory that the library `datasets` has written or can read, or what the hub
    says of a data set.
    """
    place = Path(one.place).expanduser()
    if place.is_file():
        return [_counted(one.split or place.stem, _file(place))]
    datasets = importlib.import_module("datasets")
    found = []
    if not place.is_dir():
        for name, known in (datasets.load_dataset_builder(one.place).info.splits or {}).items():
            note = "as the hub says; its rows are not here"
            found.append(Counted(name, known.num_examples, None, note))
    else:
        if (place / "dataset_dict.json").exists() or (place / "state.json").exists():
            data = datasets.load_from_disk(str(place))
        else:
            data = datasets.load_dataset(str(place))
        if not isinstance(data, dict):
            data = {str(data.split or "all"): data}
        for name, rows in data.items():
            found.append(_counted(name, rows))
    for counted in found:
        if counted.split == one.split:
            return [counted]
    if one.split:
        raise LookupError(f"it has no split {one.split}, only {[c.split for c in found]}"[:200])
    return found


def _file(place: Path) -> list[Any]:
    """Return the rows of a file: JSON, JSON lines or Parquet."""
    if place.suffix == ".parquet":
        parquet = importlib.import_module("pyarrow.parquet")
        return list(parquet.read_table(place).to_pylist())
    text = place.read_text(encoding="utf-8")
    if place.suffix != ".json":
        return list(map(json.loads, filter(str.strip, text.split("\n"))))
    rows = json.loads(text)
    if not isinstance(rows, list):
        raise TypeError("the file holds no list of rows")
    return rows


def _environment(one: Wanted) -> list[Counted]:
    """Load an environment of verifiers: a taskset of its v1, else one of before, which has a data
    set to train on and one to evaluate on. `split` chooses one of the two.
    """
    taskset = _taskset(one)
    if taskset is not None:
        if type(taskset).INFINITE:
            return [Counted("tasks", None, None, "without an end")]
        return [_counted("tasks", (task.data.model_dump(mode="json") for task in taskset))]
    verifiers = importlib.import_module("verifiers")
    name = one.place.rsplit("/", 1)[-1].split("@", 1)[0]
    environment = verifiers.load_environment(name, **one.arguments)
    found = []
    if one.split in ("", "train"):
        found.append(_counted("train", environment.get_dataset()))
    if one.split in ("", "eval"):
        own = getattr(environment, "eval_dataset", None) is not None
        if not own and getattr(environment, "eval_dataset_source", None) is not None:
            own = environment.build_eval_dataset() is not None
        if own:
            found.append(_counted("eval", environment.get_eval_dataset()))
        elif one.split:
            note = "it has none to evaluate on, so verifiers takes the one to train on"
            found.append(_counted("train", environment.get_dataset(), note))
    return found


def _taskset(one: Wanted) -> Any:
    """Return the taskset with this name of verifiers' v1, or None if there is none."""
    try:
        v1 = importlib.import_module("verifiers.v1")
    except ImportError:
        return None
    try:
        config = v1.EnvConfig.model_validate({"taskset": {**one.arguments, "id": one.place}})
    except (AttributeError, TypeError):
        return None  # the package has no taskset: it is an environment of before
    return v1.load_taskset(config.taskset)
