"""The interface of a provider: it lists offers and machines, creates a machine and ends one. One
small adapter for each provider speaks its API.

No provider has an idempotency key. So nothing here ever repeats a create, and a create's label is
exact and unique: when a create is in doubt, provision/rent.py searches for its label.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, Protocol

#: starting: the machine was made and is not up yet. running: the provider says that it is up (SSH
#: may still take a moment). stopped: it exists, does not run, and may still cost money. ended: it
#: will never run again. unknown: the provider says so, or uses a word that is not known here.
MachineState = Literal["starting", "running", "stopped", "ended", "unknown"]

#: A machine that was searched for, and one that exists, as JSON objects with the fields of `Want`
#: and `Machine`.
WantRow = dict[str, str | float | bool | None]
MachineRow = dict[str, str | float | bool | None]
#: The same for an `Offer`, whose notes are a list.
OfferRow = dict[str, str | float | bool | list[str] | None]
_LABEL = re.compile(r"bs4-(?P<run>.+)-(?P<ulid>[0-9A-HJKMNP-TV-Z]{26})")
#: Characters of the run's name in a label. Vast takes labels of 60 characters, Lambda names of 64.
_RUN_CHARS = 28
_FINGERPRINT = re.compile(r"(?<![A-Za-z0-9])SHA256:[A-Za-z0-9+/]{43}")


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a provider's API can do; each field is True if it can. If a person searches for
    something that the API cannot do, such as an interruptible machine, the provider returns no
    offers.
    """

    interruptible: bool = False
    """The provider sells machines that it may take back."""
    stop: bool = False
    """A machine can be stopped and still exist. Its disk goes on costing money."""
    start_command: bool = False
    """A command that runs at every boot of the machine can be given when it is rented."""
    price_cap: bool = False
    """A price cap can be given when a machine is rented, and the provider refuses above it."""
    host_keys: bool = False
    """The machine's SSH host key can be read over the provider's API, so that no person has to
    compare it.
    """
    reliability: bool = False
    """Each offer says how reliable its machine was so far."""
    cuda: bool = False
    """Offers can be chosen by CUDA version."""


@dataclass(frozen=True, kw_only=True)
class Want:
    """The machine that a person searches for. `count` is the number of GPUs and `disk_gb` the size
    of the disk in GB. `max_price` is the most that the whole machine (not one GPU) may cost, in US
    dollars an hour, or None for no cap. With `interruptible`, machines are wanted that the provider
    may take back.
    """

    gpu: str
    """The console's name of the GPU: "H100" is any H100, "H100-SXM" only the SXM form."""
    count: int = 1
    max_price: float | None = None
    disk_gb: int = 100
    region: str | None = None
    """A part of the provider's own name of a place. Case does not matter."""
    reliability: float | None = None
    """The lowest reliability, from 0 to 1. Used only if the provider states it."""
    cuda: str | None = None
    """The lowest CUDA version, like "12.8". Used only if the provider can choose by it."""
    interruptible: bool = False
    image: str | None = None
    """The provider's own name of an image. None means the adapter's default, which has sshd and the
    user side of a CUDA driver.
    """
    start_command: str = ""
    """A command that runs at every boot of the machine, or ""."""

    def accepts(self, region: str) -> bool:
        """Return True if `region`, the provider's name of a place, contains the wanted region, or
        if no region is wanted.
        """
        return (self.region or "").lower() in region.lower()

    def as_dict(self) -> WantRow:
        """Return the fields as a dictionary, in the form that the journal of rented machines and
        JSON output use.
        """
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One machine that a provider offers for rent now, with its GPUs, disk, place and price. `gpu`
    is the console's name of its GPU, such as "H100-SXM", and `count` the number of GPUs.
    `reliability` is from 0 to 1, or None if the provider does not state it. `interruptible` is True
    if the provider may take the machine back.
    """

    provider: str
    id: str
    """Unique at the provider while the offer stands, and the same in the next search."""
    gpu: str
    count: int
    price: float
    """US dollars an hour for the whole machine with the wanted disk, as far as the API states
    prices (see `notes`).
    """
    disk_gb: int
    region: str
    reliability: float | None = None
    interruptible: bool = False
    notes: tuple[str, ...] = ()
    """Phrases that say what the price leaves out."""
    detail: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The provider's own fields of the offer, which are needed to rent it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "price", round(self.price, 4))

    @property
    def key(self) -> tuple[str, str]:
        """Return the provider's name and the offer's id, which together identify the offer."""
        return self.provider, self.id

    def as_dict(self) -> OfferRow:
        """Return the fields without `detail` as a dictionary, in the form that the journal of
        rented machines and JSON output use.
        """
        shown = vars(self) | {"notes": list(self.notes)}
        del shown["detail"]
        return shown


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One machine in an account, as its provider describes it now. `id` is the provider's id, and
    `label` the name that was given when it was rented, or None. `state` is "starting", "running",
    "stopped", "ended" or "unknown". `host`, `port` and `user` are its SSH address. `price` is in US
    dollars an hour, and `created_t` is a Unix time in seconds. A value that the provider has not
    given (yet) is None.
    """

    provider: str
    id: str
    label: str | None
    state: MachineState
    raw_state: str
    """The state in the provider's own words."""
    host: str | None = None
    port: int | None = None
    user: str = "root"
    price: float | None = None
    """US dollars an hour."""
    created_t: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The provider's own fields of the machine."""

    @property
    def name(self) -> str:
        """Return `provider:id`, the name by which a person identifies this machine."""
        return f"{self.provider}:{self.id}"

    def as_dict(self) -> MachineRow:
        """Return the fields without `detail` as a dictionary, for JSON output."""
        shown = dict(vars(self))
        del shown["detail"]
        return shown


@dataclass(frozen=True, kw_only=True)
class Balance:
    """What an account at a provider can still spend. `credit` is in US dollars. `credit` is None if
    the provider does not tell it, and `why` then says why. `prepaid` is False if the provider sends
    invoices, so that its machines go on when the credit is used up.
    """

    credit: float | None
    why: str = ""
    prepaid: bool = True


class Provider(Protocol):
    """The interface to one account at one provider. Every method may raise a ProviderError of
    errors.py when it calls the provider. Only `create` may raise InDoubt, the ProviderError that
    says that a request failed but that the machine may exist nevertheless.
    """

    name: str
    capabilities: Capabilities

    async def offers(self, want: Want) -> list[Offer]:
        """Return the offers that fit `want`, cheapest first, or an empty list. Offers above
        `want.max_price` are included, so that a person can see what the GPUs cost.
        """

    async def prepare(self, public_key: str) -> None:
        """Register this SSH public key with the account if the provider needs that, so that the key
        opens every machine that is created afterwards. This costs nothing.
        """

    async def create(self, offer: Offer, want: Want, label: str, public_key: str) -> str:
        """Rent the machine of `offer` with one request, name it `label`, and return the provider's
        id for the machine. `want` gives the disk, the image and the start command, and `public_key`
        is the SSH key that has to open the machine.

        Raises Refused if the request was surely not sent or the provider declined it, and InDoubt
        if the machine may exist after a failure.
        """

    async def machines(self) -> list[Machine]:
        """Return every machine of the account, including those that no console rented."""

    async def machine(self, machine_id: str) -> Machine | None:
        """Return the machine with this id at the provider, or None if the provider says that no
        such machine exists.
        """

    async def terminate(self, machine: Machine) -> None:
        """Order the provider to delete a machine and its disk. When this returns the order is
        accepted, but the machine may still exist: poll `machine` until it is gone.
        """

    async def balance(self) -> Balance:
        """Return what the account can still spend, in US dollars. The `credit` of the result is
        None if the provider's API does not tell it.
        """

    async def host_keys(self, machine: Machine) -> tuple[str, ...]:
        """Return the fingerprints ("SHA256:...") of the machine's SSH host keys, as the provider's
        API shows them, so that no person has to compare them. The tuple is empty if the API does
        not show them (yet).
        """


def label_of(run: str, ulid: str) -> str:
    """Return a new label `bs4-<run>-<ulid>` by which a rented machine is recognised. The ULID makes
    it unique. The run's name in it is only for people, and is cut to 28 characters.
    """
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", run).strip("-.")[:_RUN_CHARS] or "run"
    return f"bs4-{word}-{ulid}"


def is_ours(label: str | None) -> bool:
    """Return True if a machine's label is one that a console gave it. `label` is None for a machine
    without a label, which gives False.
    """
    return label is not None and ulid_of(label) is not None


def ulid_of(label: str) -> str | None:
    """Return the ULID in a machine's label that a console made, or None for any other label."""
    found = _LABEL.fullmatch(label)
    return found["ulid"] if found else None


def cheapest_first(offers: Iterable[Offer | None]) -> list[Offer]:
    """Return the offers sorted by price, the cheapest first. Entries that are None are left out."""
    return sorted(filter(None, offers), key=attrgetter("price"))


def fingerprints(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the fingerprints of SSH host keys ("SHA256:...") that occur in the lines of a log,
    each once. The tuple is empty if there are none.
    """
    return tuple(dict.fromkeys(_FINGERPRINT.findall("\n".join(lines))))


def key_name(public_key: str) -> str:
    """Return the name under which a public key is registered in an account: `bs4-console-` and part
    of the key's hash. Names must be unique in an account, and a person may have several keys.
    """
    return f"bs4-console-{hashlib.sha256(public_key.encode()).hexdigest()[:8]}"


def number(value: Any) -> float | None:
    """Return a JSON value as a float if it is a number or a string with a number, because providers
    send prices both ways. Return None for any other value, including NaN, infinity, and booleans.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    if abs(found) < 1e15:
        return found
    return None
