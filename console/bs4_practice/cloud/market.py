"""What all practice clouds share: goods, machines that come up in time, and what their owners may
do to them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import threading
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bs4_practice import pod as practice
from bs4_practice.pod import PracticePod

_T = TypeVar("_T")


@dataclass
class Goods:
    """One kind of machine that is for sale. Prices are in US dollars an hour for the whole machine;
    `bid` is the lowest bid for an interruptible machine, or None if there is none. `left` is how
    many more can be had.
    """

    provider: str
    id: str
    gpu: str
    count: int
    price: float
    bid: float | None = None
    region: str = "NL"
    reliability: float = 0.995
    cuda: float = 12.8
    disk_gb: int = 500
    left: int = 3


@dataclass
class Rented:
    """One machine that was rented. `price` is in US dollars an hour. `made_t` is when it was made,
    in wall clock seconds.
    """

    id: str
    provider: str
    label: str | None
    goods: Goods
    price: float
    spot: bool = False
    public_keys: tuple[str, ...] = ()
    start_command: str = ""
    made_t: float = field(default_factory=time.time)
    state: str = "starting"
    """starting, running, stopped, ended; `raw` is what the provider calls it where that is more."""
    raw: str = ""
    hidden_until_m: float = 0.0
    """Until then the list does not show it."""
    address: tuple[str, int] | None = None
    host_key: str = ""
    body: dict[str, Any] = field(default_factory=dict)
    """What its create asked for."""


class Metal(Protocol):
    """What stands behind the machines of a market: something that makes them reachable over SSH,
    and takes them away.
    """

    def start(self, machine: Rented) -> tuple[tuple[str, int] | None, str]:
        """Bring `machine` up, and return its SSH address (host, port) and host key (`type base64`).
        The address is None if it has none, and the key is "" if it has none.
        """

    def end(self, machine: Rented) -> None:
        """Give back what stands behind `machine`. Do nothing if there is nothing."""


class NoMetal:
    """Machines that only exist in the books: their address answers nothing."""

    def start(self, machine: Rented) -> tuple[tuple[str, int] | None, str]:
        """Return an address on which nothing listens, and no host key."""
        return ("127.0.0.1", 9), ""

    def end(self, machine: Rented) -> None:
        """Do nothing."""
        return


class PracticePods:
    """Machines that are practice pods, each of which is opened by the public keys of its rental.
    `settings` are further arguments of `pod.start`, and the pods' files lie below `root`.
    """

    def __init__(self, root: Path, generation: str = "current", **settings: Any) -> None:
        self.pods: dict[str, PracticePod] = {}
        self._root = root
        self._generation = generation
        self._settings = settings

    def start(self, machine: Rented) -> tuple[tuple[str, int] | None, str]:
        """Start a practice pod for `machine`, and return its SSH address (host, port) and its host
        key. Raises PodError if it does not come up.
        """
        name = f"m{machine.id.rpartition('-')[2]}"  # short: unix sockets lie below it
        pod = _apart(
            practice.start(
                name,
                self._generation,
                self._root / name,
                gpus=machine.goods.count,
                **self._settings,
            )
        )
        # The file is read at each login: what the tenant's create named opens the door beside the
        # pod's own key.
        with pod.key_path.with_suffix(".pub").open("a") as handle:
            handle.writelines(f"{key}\n" for key in machine.public_keys)
        self.pods[machine.id] = pod
        return (pod.host, pod.port), pod.known_host_key

    def end(self, machine: Rented) -> None:
        """End the practice pod of `machine` with everything that runs in it. Do nothing if there is
        none.
        """
        pod = self.pods.pop(machine.id, None)
        if pod is not None:
            _apart(pod.stop())


class Market:
    """Everything that is for sale and rented, of all providers, safe to use from several threads.
    Machines begin to come up `boot_s` seconds after they were rented. `metal` makes them real;
    without it they exist in the books only.
    """

    def __init__(self, metal: Metal | None = None, *, boot_s: float = 0.2) -> None:
        self.metal = metal or NoMetal()
        self.boot_s = boot_s
        self.goods: list[Goods] = list(_goods())
        self.rented: dict[str, Rented] = {}
        self.keys: dict[str, dict[str, str]] = {}
        """provider -> name or id -> public key, of the account."""
        self._lock = threading.RLock()
        self._ids = itertools.count(1001)
        self._threads: list[threading.Thread] = []

    def for_sale(self, provider: str) -> list[Goods]:
        """Return the kinds of machines of the provider of which some are left."""
        with self._lock:
            return [goods for goods in self.goods if goods.provider == provider and goods.left > 0]

    def find(self, provider: str, goods_id: str) -> Goods | None:
        """Return the provider's kind of machine with this id, or None if it is not for sale."""
        return next((goods for goods in self.for_sale(provider) if goods.id == goods_id), None)

    def rent(self, goods: Goods, label: str | None, **more: Any) -> Rented:
        """Rent a machine of the kind `goods` and return it at once. The machine comes up later by
        itself. `more` holds further fields of `Rented`; with a `state` other than "starting" the
        machine never comes up.
        """
        with self._lock:
            number = next(self._ids)
            machine_id = str(number) if goods.provider == "vast" else f"{goods.provider}-{number}"
            machine = Rented(
                machine_id, goods.provider, label, goods, **{"price": goods.price, **more}
            )
            goods.left -= 1
            self.rented[machine_id] = machine
            if machine.state == "starting":
                thread = threading.Thread(
                    target=self._boot, args=(machine,), name=f"boot {machine_id}", daemon=True
                )
                self._threads.append(thread)
                thread.start()
            return machine

    def of(self, provider: str, *, hidden: bool = False) -> list[Rented]:
        """Return the machines that the provider lists: all that have not ended. Machines that a
        delayed listing does not show yet are left out unless `hidden` is True.
        """
        with self._lock:
            now = time.monotonic()
            mine = [machine for machine in self.rented.values() if machine.provider == provider]
            return [
                machine
                for machine in mine
                if machine.state != "ended" and (hidden or machine.hidden_until_m <= now)
            ]

    def get(self, provider: str, machine_id: str) -> Rented | None:
        """Return the machine with this id, or None if the provider does not list it."""
        return next((machine for machine in self.of(provider) if machine.id == machine_id), None)

    def living(self) -> list[Rented]:
        """Return every machine that somebody pays for, listed or not."""
        with self._lock:
            return [machine for machine in self.rented.values() if machine.state != "ended"]

    def end(self, machine_id: str, raw: str = "") -> None:
        """End the machine, whether its tenant ends it or the provider takes it away, and free what
        stands behind it. `raw` is the provider's own word for the end. Do nothing if the machine
        has ended. Raises KeyError for an unknown machine.
        """
        with self._lock:
            machine = self.rented[machine_id]
            was, machine.state, machine.raw = machine.state, "ended", raw
        if was != "ended":
            self.metal.end(machine)

    def outbid(self, machine_id: str) -> None:
        """Pause an interruptible machine for a higher bid: it is listed and meant to run, but does
        not. Raises KeyError for an unknown machine.
        """
        with self._lock:
            machine = self.rented[machine_id]
            machine.state, machine.raw, machine.address = "stopped", "outbid", None
        self.metal.end(machine)

    def close(self) -> None:
        """End all machines. Returns when none is coming up any more."""
        for machine_id in list(self.rented):
            self.end(machine_id)
        for thread in self._threads:
            thread.join(60)
        for machine_id in list(self.rented):  # one that was still coming up
            self.metal.end(self.rented[machine_id])

    def _boot(self, machine: Rented) -> None:
        time.sleep(self.boot_s)
        address, host_key = self.metal.start(machine)
        with self._lock:
            if machine.state == "starting":
                machine.address, machine.host_key, machine.state = address, host_key, "running"
                return
        self.metal.end(machine)


def _apart(work: Coroutine[Any, Any, _T]) -> _T:
    """Done in a loop of its own, whoever asks: a request's thread, or a test that has a loop
    already.
    """
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _goods() -> list[Goods]:
    """The same few machines everywhere, at prices that tell the providers apart."""
    return [
        Goods("vast", "501", "H100 PCIE", 2, 5.73, 3.10, "Netherlands, NL", 0.991, 12.4),
        Goods("vast", "502", "H100 SXM", 2, 4.40, 2.20, "Texas, US", 0.998, 12.8),
        Goods("vast", "503", "H100 SXM", 2, 3.90, 1.90, "Quebec, CA", 0.82, 12.8),
        Goods("vast", "504", "RTX 4090", 2, 0.52, 0.31, "Netherlands, NL", 0.994, 12.8, 200),
        Goods(
            "runpod", "NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", 2, 5.38, region="US-KS-2"
        ),
        Goods(
            "runpod",
            "NVIDIA GeForce RTX 4090",
            "NVIDIA GeForce RTX 4090",
            2,
            1.38,
            region="EU-RO-1",
        ),
        Goods("prime", "H100_80GB", "H100_80GB", 2, 3.98, 1.99, "FI"),
        Goods("prime", "RTX4090_24GB", "RTX4090_24GB", 2, 0.90, None, "US"),
        Goods(
            "lambda",
            "gpu_2x_h100_sxm5",
            "H100 (80 GB SXM5)",
            2,
            6.38,
            region="us-south-2",
            disk_gb=5500,
        ),
        Goods("verda", "2H100.80S.60V", "H100 SXM5 80GB", 2, 4.58, 1.98, "FIN-01"),
    ]
