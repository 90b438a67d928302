"""What a pod answers to a code sync is checked before anything is made of it: whatever is wrong
with it is one clear error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bs4_console.pods.inventory import Pod
from bs4_console.pods.port import Completed
from bs4_console.setup import code_sync_answer
from bs4_console.setup.code_sync import Sync, SyncFailed

PLACES = {"root": "/r", "store": "/s"}
GOOD = {
    "list": {**PLACES, "files": {"old.py": [1, 2.0, ""]}, "links": []},
    "prepare": {**PLACES, "archive": "/s/a"},
    "place": PLACES,
    "trash": {**PLACES, "moved": 1},
}


class Liar:
    """A pod that answers one question, `op`, as a test says, and the others as the program does."""

    def __init__(self, op: str, printed: bytes) -> None:
        self._op, self._printed = op, printed

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        op = json.loads(stdin)["op"]
        printed = self._printed if op == self._op else json.dumps(GOOD[op]).encode()
        return Completed(0, printed, b"")

    async def upload(self, path: str, data: bytes) -> None:
        """Take the data."""


def sync(tmp_path: Path, op: str, printed: bytes) -> Sync:
    source = tmp_path / "src"
    source.mkdir(exist_ok=True)
    (source / "new.py").write_text("x")
    return Sync(
        pod=Pod(name="evil", host="localhost", provider="local"),
        machine=Liar(op, printed),
        source=source,
        target="code",
        delete=True,
        stamp="stamp",
    )


def answer(op: str, **fields: Any) -> bytes:
    return json.dumps({**GOOD[op], **fields}).encode()


ODD_LISTS = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"root": "\xff"}',
    "no object": b"[1]",
    "null": b"null",
    "nested deep": b"[" * 100_000 + b"]" * 100_000,
    "nested deep in a field": answer("list")[:-1] + b',"x":' + b"[" * 90 + b"]" * 90 + b"}",
    "a number of 9,000 digits": b'{"root":' + b"9" * 9_000 + b"}",
    "no files": json.dumps(PLACES).encode(),
    "files as a list": answer("list", files=[1]),
    "a file that is null": answer("list", files={"new.py": None}),
    "a file of two values": answer("list", files={"new.py": [1, 2]}),
    "a size that is a text": answer("list", files={"new.py": ["1", 2, ""]}),
    "a time that is NaN": answer("list", files={"new.py": [1, float("nan"), ""]}),
    "a time that is a text": answer("list", files={"new.py": [1, "2", ""]}),
    "a link that is a list": answer("list", files={"new.py": [1, 2, ["x"]]}),
    "a name with NUL": answer("list", files={"a\0b": [1, 2, ""]}),
    "a name of half a pair": answer("list", files={"\ud800": [1, 2, ""]}),
    "a name that is too long": answer("list", files={"x" * 5_000: [1, 2, ""]}),
    "links as a number": answer("list", links=7),
    "a link that is no text": answer("list", links=[{}]),
    "a root that is a list": answer("list", root=["/r"]),
    "a store that is null": answer("list", store=None),
}


@pytest.mark.parametrize("name", ODD_LISTS)
async def test_an_odd_list_of_files_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SyncFailed, match="evil gave no usable answer about code: ") as caught:
        await sync(tmp_path, "list", ODD_LISTS[name]).plan()
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    ("op", "printed"),
    [
        ("prepare", answer("prepare", archive=5)),
        ("prepare", json.dumps(PLACES).encode()),
        ("place", b"[]"),
        ("trash", answer("trash", moved="all")),
        ("trash", json.dumps(PLACES).encode()),
    ],
)
async def test_an_odd_answer_while_code_is_sent_is_refused(
    op: str, printed: bytes, tmp_path: Path
) -> None:
    one = sync(tmp_path, op, printed)
    plan = await one.plan()
    with pytest.raises(SyncFailed, match="evil gave no usable answer about code: "):
        await one.carry_out(plan)


@pytest.mark.parametrize("number", [4, 9])
async def test_more_files_than_a_checkout_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(code_sync_answer, "FILES", 3)
    many = answer("list", files={f"f{n}": [1, 2, ""] for n in range(number)})
    with pytest.raises(SyncFailed, match="more than 3 files"):
        await sync(tmp_path, "list", many).plan()


async def test_a_name_that_is_not_utf8_is_kept(tmp_path: Path) -> None:
    odd = b"caf\xe9.py".decode("utf-8", "surrogateescape")
    plan = await sync(tmp_path, "list", answer("list", files={odd: [1, 2, ""]})).plan()
    assert plan.gone == [odd]
