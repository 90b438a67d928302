"""Mirrors of pods on which the run demo lived, at chosen times and prices: a recorded pod whose
times are moved. And machines that were rented then.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bs4_console.providers.base import Offer, Want
from bs4_console.provision.book import Book

_GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "data" / "prime-rl-2026-01" / "mirror"
_HOME = "01M852K9WF76CYP02P280NFJBY"
#: When the recorded run began and ended.
_BEGAN, _ENDED = 1795466832.882, 1795466849.619
_HOUR_S = 3600.0


def plant(
    pod: Path,
    began_t: float,
    hours: float,
    price: float | None,
    *,
    home: str = _HOME,
    ended: bool = True,
    config: tuple[str, str] | None = None,
) -> Path:
    """Write the mirror of a pod with the agent's home `home` into the directory `pod`, and return
    the directory of that home. Its run demo began at `began_t`, had two attempts in `hours`, and
    was launched at `price`. Without `ended`, nobody has seen the end of the second attempt.
    `config` is the digest and the version of the config that it was launched with.
    """

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            told = {key: moved(inner) for key, inner in value.items()}
            if isinstance(told.get("spec"), dict):
                told["record"] = {**(told.get("record") or {}), "price": price}
                if config is not None:
                    values, version = config
                    told["config"] = {**told["config"], "values": values, "version": version}
            return told
        if isinstance(value, list):
            return [moved(inner) for inner in value]
        if isinstance(value, float) and abs(value - _BEGAN) < 100:
            return began_t + (value - _BEGAN) / (_ENDED - _BEGAN) * hours * _HOUR_S
        return value

    for stream in ("journal", "steps/demo"):
        kept = []
        for line in (_GOLDEN / _HOME / stream / "1.data").read_text().splitlines():
            record = json.loads(line.lstrip("\0"))
            second = record.get("type") == "run" and record.get("attempt") == 2
            if second and not ended and record["event"] in ("attempt-ended", "process-gone"):
                continue
            kept.append(json.dumps(moved(record)) + "\n")
        directory = pod / home / stream
        directory.mkdir(parents=True)
        (directory / "1.data").write_text("".join(kept))
    (pod / "home").write_text(home)
    return pod / home


def rent(
    pod: str,
    made_t: float,
    gone_t: float | None,
    price: float,
    provider: str,
    *,
    run: str = "",
    path: Path | None = None,
) -> None:
    """Write to the journal of rented machines at `path` (None: the console's) that the machine of
    `pod` was rented at these times, for the run `run` ("": one of the name of the pod).
    """
    book = Book(path)
    offer = Offer(
        provider=provider, id="o", gpu="H100", count=1, price=price, disk_gb=100, region=""
    )
    intent = book.intend(run or pod, offer, Want(gpu="H100"), "somebody")
    book.note(intent, "made", machine=f"m-{pod}")
    book.note(intent, "pod", pod=pod)
    if gone_t is not None:
        book.note(intent, "gone")
    lines = [json.loads(line) for line in book.path.read_text().splitlines()]
    for line in lines:
        if line["intent"] == intent.ulid:
            line["t"] = gone_t if line["event"] == "gone" else made_t
    book.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
