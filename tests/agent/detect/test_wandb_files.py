"""What W&B's client leaves on disk: real directories, and records as its core writes them (format
seen in wandb 0.31).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bs4_common.failures import wandb_files
from bs4_common.failures.environment import Tracked

STAMP = "20261120_101500"


def varint(number: int) -> bytes:
    out = b""
    while True:
        number, low = number >> 7, number & 0x7F
        out += bytes([low | (0x80 if number else 0)])
        if not number:
            return out


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def history(step: int, metrics: dict[str, float], *, by_item: bool = False) -> bytes:
    items = b"".join(
        field(1, field(2, k.encode()) + field(16, json.dumps(v).encode()))
        for k, v in metrics.items()
    )
    if by_item:
        return field(2, items + field(1, field(1, b"_step") + field(16, str(step).encode())))
    return field(2, items + field(2, field(1, step)))


RUN = field(17, field(1, b"a1") + field(3, b"proj") + field(8, b"demo-trainer"))


def record(path: Path, records: list[bytes]) -> None:
    """As the client's core: fragments in blocks of 32 KiB."""
    data = b":W&B" + b"\xe1\xbe\x00"
    for number, payload in enumerate(records):
        message, first = field(1, number + 1) + payload, True
        while True:
            room = 32768 - len(data) % 32768
            if room < 7:
                data += bytes(room)
                continue
            part, message = message[: room - 7], message[room - 7 :]
            kind = (1 if not message else 2) if first else (4 if not message else 3)
            data += bytes(4) + len(part).to_bytes(2, "little") + bytes([kind]) + part
            first = False
            if not message:
                break
    path.write_bytes(data)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "wandb"


def directory(root: Path, name: str = f"run-{STAMP}-a1", *records: bytes) -> Path:
    path = root / name
    (path / "logs").mkdir(parents=True)
    record(path / f"run-{name.rsplit('-', 1)[1]}.wandb", list(records))
    return path


def test_a_directory_says_what_it_is(root: Path) -> None:
    directory(
        root, f"offline-run-{STAMP}-a1", RUN, history(0, {"loss": 1.0}), history(4, {"loss": 0.2})
    )
    (one,) = wandb_files.directories([root])
    assert (one.offline, one.synced, one.id, one.began) == (True, False, "a1", STAMP)
    assert wandb_files.newest_step(one) == 4
    assert wandb_files.names(one) == {"id": "a1", "project": "proj", "name": "demo-trainer"}
    assert wandb_files.exit_code(one) is None


def test_the_end_and_the_code_of_a_run(root: Path) -> None:
    directory(root, f"run-{STAMP}-a1", RUN, history(4, {}, by_item=True), field(18, field(1, 3)))
    (one,) = wandb_files.directories([root])
    assert (wandb_files.newest_step(one), wandb_files.exit_code(one)) == (4, 3)


def test_of_a_long_record_only_the_ends_are_read(root: Path) -> None:
    steps = [history(n, {f"metric{k}": float(n) for k in range(40)}) for n in range(400)]
    big = history(400, {"k" * 50_000: 1.0})  # one record over three blocks
    directory(root, f"run-{STAMP}-a1", RUN, *steps, big, history(401, {"loss": 0.1}))
    (one,) = wandb_files.directories([root])
    assert (one.path / "run-a1.wandb").stat().st_size > 10 * 32768
    assert wandb_files.newest_step(one) == 401
    assert wandb_files.names(one)["project"] == "proj"


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_record_that_is_being_written(root: Path, cut: int) -> None:
    path = directory(
        root,
        f"run-{STAMP}-a1",
        RUN,
        history(3, {"loss": 1.0}),
        history(4, {"loss": 0.5, "reward": 0.25, "entropy": 0.1}),
    )
    file = path / "run-a1.wandb"
    file.write_bytes(file.read_bytes()[:-cut])
    (one,) = wandb_files.directories([root])
    assert wandb_files.newest_step(one) == 3


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b":W&B",
        b"not one",
        b":W&B\xe1\xbe\x00" + os.urandom(70_000),
        b":W&B\xe1\xbe\x00" + b"\xff" * 40_000,
    ],
)
def test_what_is_no_record_tells_nothing(root: Path, data: bytes) -> None:
    path = directory(root)
    (path / "run-a1.wandb").write_bytes(data)
    (one,) = wandb_files.directories([root])
    assert (wandb_files.newest_step(one), wandb_files.names(one)) == (None, {})


def test_a_summary_file_is_believed_first(root: Path) -> None:
    path = directory(root, f"run-{STAMP}-a1", RUN, history(4, {}))
    (path / "files").mkdir()
    (path / "files" / "wandb-summary.json").write_text('{"_step": 9, "loss": 0.1}')
    (one,) = wandb_files.directories([root])
    assert wandb_files.newest_step(one) == 9


def test_the_directories_of_one_attempt(root: Path) -> None:
    for name in (
        "run-20261119_235955-old",
        "run-20261120_000002-a1",
        "run-20261120_000107-b2",
        "latest-run",
    ):
        directory(root, name)
    kept = {one.id for one in wandb_files.together(wandb_files.directories([root]))}
    assert kept == {"old", "a1", "b2"}, "a minute apart over midnight is one start"
    directory(root, "run-20261120_030000-c3")
    assert {one.id for one in wandb_files.together(wandb_files.directories([root]))} == {"c3"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "wandb: \U0001f680 View run at https://wandb.ai/team/proj/runs/a1",
            Tracked("trainer", "a1", "proj", "team", "https://wandb.ai"),
        ),
        (
            (
                "\x1b[1;34mwandb\x1b[0m: View run \x1b[33mdemo\x1b[0m at: "
                "\x1b[34mhttp://127.0.0.1:80/team/my%20proj/runs/a1\x1b[0m"
            ),
            Tracked("trainer", "a1", "my proj", "team", "http://127.0.0.1:80"),
        ),
        ("wandb: View project at https://wandb.ai/team/proj", None),
        ("View run at https://wandb.ai/team", None),
    ],
)
def test_where_a_run_is_shown(tmp_path: Path, line: str, found: Tracked | None) -> None:
    (tmp_path / "trainer.log").write_text(
        f"10:00:00    INFO Starting\n{line}\n10:00:01    INFO Going on\n"
    )
    assert wandb_files.address(tmp_path / "trainer.log", "trainer") == found
    assert wandb_files.address(tmp_path / "gone.log", "trainer") is None
