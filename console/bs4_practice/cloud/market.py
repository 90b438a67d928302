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
    """One kind of machine that a provider rents out: `count` GPUs of the model `gpu`. `price` is in
    US dollars an hour for the whole machine; `bid` is the lowest price for an interruptible
    machine, or None if there are none. `reliability` is a share from 0 to 1, `cuda` the CUDA
    version, and `left` how many more machines of this kind can be rented.
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
    """A machine that was rented. `label` is the name that the tenant gave it, and `price` is in US
    dollars an hour. `spot` is True if it can be interrupted. `public_keys` may log in, and
    `start_command` is what the tenant wants run at the start. `made_t` is when it was rented, in
    seconds since the epoch. Until `hidden_until_m`, in monotonic seconds, the provider does not
    list it.

    `address` is (host, port) of its SSH server, or None while it has none, and `host_key` that
    server's public key ("TYPE BASE64") or "".
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
    """One of "starting", "running", "stopped" and "ended"."""
    raw: str = ""
    """A word that says why the machine was stopped or has ended, such as "outbid", or ""."""
    hidden_until_m: float = 0.0
    """The provider's list does not show the machine before this second of the monotonic clock."""
    address: tuple[str, int] | None = None
    host_key: str = ""
    body: dict[str, Any] = field(default_factory=dict)
    """The JSON body of the request that rented the machine; empty if it was not recorded."""


class Metal(Protocol):
    """The interface of the object that makes a rented machine of a Market reachable over SSH, and
    takes it away again.
    """

    def start(self, machine: Rented) -> tuple[tuple[str, int] | None, str]:
        """Start `machine`. Returns its SSH address as (host, port), or None if it gets none, and
        its SSH host key as "TYPE BASE64", or "" if it has none.
        """

    def end(self, machine: Rented) -> None:
        """Stop whatever `start` has started for `machine`. Does nothing if there is nothing to
        stop.
        """


class NoMetal:
    """A Metal (the object that makes a rented machine reachable over SSH) that starts nothing. The
    machine gets an address, but nothing answers there.
    """

    def start(self, machine: Rented) -> tuple[tuple[str, int] | None, str]:
        """Return the SSH address of the rented machine `machine`, as (host, port), and "" because
        it has no host key. Nothing listens at that address, so the machine seems to be out of
        reach.
        """
        return ("127.0.0.1", 9), ""

    def end(self, machine: Rented) -> None:
        """Do nothing, because `start` has not started anything for `machine`."""
        return


class PracticePods:
    """A Metal (the object that makes a rented machine reachable over SSH) that starts one practice
    pod for each machine that is rented on a Market, the imitation of all providers. The public keys
    of the rental may log in. The files of the pods lie below `root`, `generation` is the trainer on
    them ("2026-01", "current" or "verl"), and `settings` are further arguments of
    `bs4_practice.pod.start`.
    """

    def __init__(self, root: Path, generation: str = "current", **settings: Any) -> None:
        self.pods: dict[str, PracticePod] = {}
        self._root = root
        self._generation = generation
        self._settings = settings

    def start(self, machine: Rented) -> tuple[tuple[str, int] | None, str]:
        """Start a practice pod for `machine`. Returns the pod's SSH address as (host, port), and
        its SSH host key as "TYPE BASE64". Raises PodError if the pod does not come up.
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


#: What an account of a practice cloud has left, in US dollars.
CREDIT = 250.0


class Market:
    """All machines of all practice clouds, those for rent (`goods`) and those that are rented. It
    can be used from several threads. `boot_s` seconds after a machine was rented, the object
    `metal` (see Metal) starts something that stands for it, such as a practice pod. Without `metal`
    nothing answers at a machine's address.
    """

    def __init__(self, metal: Metal | None = None, *, boot_s: float = 0.2) -> None:
        self.metal = metal or NoMetal()
        self.boot_s = boot_s
        self.goods: list[Goods] = list(_goods())
        self.rented: dict[str, Rented] = {}
        self.keys: dict[str, dict[str, str]] = {}
        """provider -> name or id -> public key, of the account."""
        self.credit: dict[str, float] = {}
        """provider -> US dollars that the account has left, CREDIT if it is not there."""
        self._lock = threading.RLock()
        self._ids = itertools.count(1001)
        self._threads: list[threading.Thread] = []

    def for_sale(self, provider: str) -> list[Goods]:
        """Return the kinds of machines that can be rented from the provider now."""
        with self._lock:
            return [goods for goods in self.goods if goods.provider == provider and goods.left > 0]

    def find(self, provider: str, goods_id: str) -> Goods | None:
        """Return the kind of machine that the provider rents out under the id `goods_id`. Returns
        None if there is no such kind or none of it is left.
        """
        return next((goods for goods in self.for_sale(provider) if goods.id == goods_id), None)

    def rent(self, goods: Goods, label: str | None, **more: Any) -> Rented:
        """Rent a machine of the kind `goods` and return it at once; it comes up later by itself.
        `label` is the name that the tenant gives it, or None. `more` are further fields of Rented;
        a machine whose `state` is given as another one than "starting" never comes up.
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

    def credit_of(self, provider: str) -> float:
        """Return what the account at the provider has left, in US dollars."""
        return self.credit.get(provider, CREDIT)

    def of(self, provider: str, *, hidden: bool = False) -> list[Rented]:
        """Return the machines that the provider lists: those that have not ended. Machines that the
        provider does not list yet (see `hidden_until_m` of Rented) are included only with `hidden`.
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
        """Return the machine with the id `machine_id`, or None if the provider lists no such
        machine.
        """
        return next((machine for machine in self.of(provider) if machine.id == machine_id), None)

    def living(self) -> list[Rented]:
        """Return all machines of all providers that have not ended and so cost money, also those
        that their provider does not list yet.
        """
        with self._lock:
            return [machine for machine in self.rented.values() if machine.state != "ended"]

    def end(self, machine_id: str, raw: str = "") -> None:
        """End the rented machine with this id, because its tenant ends it or the provider takes it
        away, and end what runs on it. `raw` is the provider's own word for the end. Do nothing if
        the machine has ended already. Raises KeyError for an unknown machine.
        """
        with self._lock:
            machine = self.rented[machine_id]
            was, machine.state, machine.raw = machine.state, "ended", raw
        if was != "ended":
            self.metal.end(machine)

    def outbid(self, machine_id: str) -> None:
        """Stop an interruptible machine as if somebody had bid more for it: the provider still
        lists it, but with the state "stopped" and without an address. Raises KeyError if there is
        no such machine.
        """
        with self._lock:
            machine = self.rented[machine_id]
            machine.state, machine.raw, machine.address = "stopped", "outbid", None
        self.metal.end(machine)

    def close(self) -> None:
        """End all machines, and wait for those that are still coming up, for at most a minute each
        time.
        """
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
