"""The data sets that a config trains and evaluates on: their splits, sizes, and the rows that they
have in common.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from bs4_console.configs.view import View
from bs4_console.errors import RemoteError
from bs4_console.printable import one_line
from bs4_console.setup import dataset_probe
from bs4_console.setup.dataset_probe import Wanted


@dataclass(frozen=True, kw_only=True)
class Split:
    """One split (train, test, ...) of a data set, with its number of rows. `rows` is None if it is
    not known; the reason is then in `error` or `note`. `place` is the data set's path or name, and
    `use` what a config takes it for ("train" or "eval"), or "". `limit` is how many examples the
    config takes of it, or None for all.
    """

    use: str
    place: str
    split: str
    rows: int | None
    limit: int | None
    note: str
    error: str

    @property
    def name(self) -> str:
        """Return a name of the split for sentences, such as "train of data.parquet (eval)"."""
        use = f" ({self.use})" if self.use else ""
        return f"{self.split or 'data'} of {self.place}{use}"


@dataclass(frozen=True)
class Overlap:
    """The number of rows that two splits of data sets have in common. `rows` is how many rows of
    the split `other` are also in the split `one`. `one` and `other` are positions in the list
    `Found.splits`.
    """

    one: int
    other: int
    rows: int


@dataclass(frozen=True)
class Found:
    """The splits that were read, and how many rows each two of them have in common. A pair whose
    rows could not be compared has no entry in `overlaps`.
    """

    splits: Sequence[Split]
    overlaps: Sequence[Overlap]

    def wrong(self) -> list[str]:
        """Return sentences about what is wrong with the splits: rows that are in two splits whose
        uses differ or are not known, so that what was trained on would be evaluated on, and a
        config that takes more rows than a split has. The list is empty if nothing is wrong.
        """
        told = []
        for overlap in self.overlaps:
            one, other = self.splits[overlap.one], self.splits[overlap.other]
            if overlap.rows and (not one.use or one.use != other.use):
                told.append(
                    f"{overlap.rows} of {other.rows} rows of {other.name} are in {one.name} too."
                )
        for split in self.splits:
            if split.rows is not None and (split.limit or 0) > split.rows:
                told.append(
                    f"The config takes {split.limit} examples of {split.name}, which has "
                    f"{split.rows}."
                )
        return told


def of_config(config: View) -> list[Wanted]:
    """Return the data sets that a config names for training and evaluation: for verl those of
    `data.train_files` and `data.val_files`, for supervised fine-tuning (SFT) that of `data.name`,
    and for both versions of prime-rl those of its environments. The list is empty if it names none.
    """
    found = []
    for use, key in (("train", "data.train_files"), ("eval", "data.val_files")):
        files = config.written(key) or []
        for place in [files] if isinstance(files, str) else files:
            found.append(Wanted("path", str(place), use))
    for use, key in (("train", "data"), ("eval", "val.data")):
        if name := config.written(f"{key}.name"):
            for split in config.written(f"{key}.splits") or ["train"]:
                found.append(Wanted("path", str(name), use, str(split)))
    for use, key in (("train", "orchestrator.env"), ("eval", "orchestrator.eval.env")):
        for env in config.tables(key):
            limit = _limit(config, use, env.get("num_examples"))
            place, arguments = str(env.get("id", "")), dict(env.table("args").values)
            found.append(Wanted("environment", place, use, use, limit, arguments))
    for use in ("train", "eval"):
        for source in config.tables(f"orchestrator.{use}.source"):
            taskset = dict(source.table("env").table("taskset").values)
            limit = _limit(config, use, source.get("num_examples"))
            place = str(taskset.pop("id", ""))
            found.append(Wanted("environment", place, use, use, limit, taskset))
    return found


def _limit(config: View, use: str, own: Any) -> int | None:
    """Return how many examples an evaluation takes, by its own number or that of all evaluations,
    or None for all.
    """
    number = own
    if number is None:
        number = config.written("orchestrator.eval.num_examples")
    if use == "eval" and isinstance(number, int) and number > 0:
        return number
    return None


def program(wanted: Sequence[Wanted]) -> bytes:
    """Return the source, as bytes, of a Python program that counts the rows of the data sets
    `wanted` and prints the answer (see `dataset_probe.main`). A Python with the project's packages
    reads it from its standard input. The arguments of environments are in the program, so that they
    appear on no command line.
    """
    asked = json.dumps([asdict(one) for one in wanted])
    source = Path(dataset_probe.__file__).read_text()
    return f"{source}\n\nmain({asked!r})\n".encode()


def read(output: bytes, place: str) -> Found:
    """Return the splits of data sets (train, test, ...) with their numbers of rows, and how many
    rows each two splits have in common. `output` is what the program that the function `program`
    returns has printed. `place` names the machine on which that program ran, for messages. Raises
    RemoteError if the output has no answer, or not one that the program can print.
    """
    lines = output.decode(errors="replace").splitlines()
    answer = next((line for line in lines if line.startswith(dataset_probe.MARK)), "")
    try:
        told = json.loads(answer[len(dataset_probe.MARK) :])
        splits = [Split(**entry) for entry in told["sets"]]
        overlaps = [Overlap(**entry) for entry in told["overlaps"]]
        for overlap in overlaps:
            if not 0 <= overlap.one < overlap.other < len(splits) or overlap.rows < 0:
                raise ValueError(overlap)
        return Found([_checked(split) for split in splits], overlaps)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise RemoteError(
            "splits",
            f"The program that counts rows on {place} gave no answer; its words are above.",
        ) from error


def _checked(split: Split) -> Split:
    """Return the split with texts that a terminal only prints. Raises ValueError or AttributeError
    for other types than the program's.
    """
    for number in (split.rows, split.limit):
        if number is not None and (type(number) is not int or number < 0):
            raise ValueError(number)
    return replace(
        split,
        use=one_line(split.use),
        place=one_line(split.place),
        split=one_line(split.split),
        note=one_line(split.note),
        error=one_line(split.error),
    )


def pairs(found: Found) -> list[str]:
    """Return a sentence for each pair of splits whose rows were compared and that have no row in
    common.
    """
    shared = {(o.one, o.other): o.rows for o in found.overlaps}
    told = []
    for one, other in combinations(range(len(found.splits)), 2):
        if shared.get((one, other)) == 0:
            names = found.splits[one].name, found.splits[other].name
            told.append(f"{names[0]} and {names[1]} have no row in common.")
    return told
