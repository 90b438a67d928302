"""What every provider of machines is to the console: offers, one create, looks, an end. One small
adapter each speaks its API.

No provider has an idempotency key. So nothing here ever repeats a create, and a create's label is
exact and unique: who is in doubt looks for that label (provision/rent.py does).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

#: starting: it was made and is not up yet. running: up by the provider's word (SSH may still take a
#: moment). stopped: it exists, does not run, and may still cost. ended: it will never run again.
#: unknown: the provider says so, or says a word that is not known.
MachineState = Literal["starting", "running", "stopped", "ended", "unknown"]

_LABEL = re.compile(r"bs4-(?P<run>.+)-(?P<ulid>[0-9A-HJKMNP-TV-Z]{26})")
#: Characters of the run's name in a label. Vast takes labels of 60 characters, Lambda names of 64.
_RUN_CHARS = 28


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a provider's API can do. A wish that it cannot meet gives no offers, and that is
    said.
    """

    interruptible: bool = False
    """It sells machines that may be taken back."""
    stop: bool = False
    """A machine can exist without running (its disk goes on costing)."""
    start_command: bool = False
    """A command can be given that runs at every boot."""
    price_cap: bool = False
    """The create itself refuses above a price."""
    host_keys: bool = False
    """The machine's SSH host key can be learned over the provider's authenticated API, so that no
    person has to compare it.
    """
    reliability: bool = False
    """Offers tell how reliable the machine was."""
    cuda: bool = False
    """Offers can be chosen by CUDA version."""


@dataclass(frozen=True, kw_only=True)
class Want:
    """What is looked for. `max_price` is US dollars an hour for the whole machine, never for one
    GPU.
    """

    gpu: str
    """As in gpus.py: "H100" is any H100, "H100-SXM" only that."""
    count: int = 1
    max_price: float | None = None
    disk_gb: int = 100
    region: str | None = None
    """A part of the provider's own word for a place; case does not matter."""
    reliability: float | None = None
    """At least this much of 1.0, where the provider tells it."""
    cuda: str | None = None
    """At least this version, "12.8", where the provider can choose by it."""
    interruptible: bool = False
    image: str | None = None
    """The provider's word for an image; None: the adapter's default, which has sshd and a CUDA
    driver's user side.
    """
    start_command: str = ""

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One machine that could be had now."""

    provider: str
    id: str
    """Unique at the provider while the offer stands; the same on the next search."""
    gpu: str
    count: int
    price: float
    """US dollars an hour for the whole machine with the disk wanted, as far as the API tells prices
    (see `notes`).
    """
    disk_gb: int
    region: str
    reliability: float | None = None
    interruptible: bool = False
    notes: tuple[str, ...] = ()
    """What the price leaves out, in phrases."""
    detail: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The provider's own fields that its create needs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "price", round(self.price, 4))

    @property
    def key(self) -> tuple[str, str]:
        return self.provider, self.id

    def as_dict(self) -> dict[str, Any]:
        shown = {}
        for key, value in vars(self).items():
            if key != "detail":
                shown[key] = value
        return {**shown, "notes": list(self.notes)}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One machine as its provider describes it now. What is not known (yet) is None."""

    provider: str
    id: str
    label: str | None
    state: MachineState
    raw_state: str
    """In the provider's own words."""
    host: str | None = None
    port: int | None = None
    user: str = "root"
    price: float | None = None
    """US dollars an hour."""
    created_t: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """`provider:id`, which is how a person names exactly one."""
        return f"{self.provider}:{self.id}"

    def as_dict(self) -> dict[str, Any]:
        rows = {}
        for key, value in vars(self).items():
            if key != "detail":
                rows[key] = value
        return rows


class Provider(Protocol):
    """One account at one provider. Every call may raise a ProviderError of errors.py; only `create`
    may raise InDoubt.
    """

    name: str
    capabilities: Capabilities

    async def offers(self, want: Want) -> list[Offer]:
        """What fits, cheapest first; empty when nothing does. The price cap is not applied: who
        compares wants to see more.
        """
        ...

    async def prepare(self, public_key: str) -> None:
        """Make sure that this SSH public key will open what is created; costs nothing."""
        ...

    async def create(self, offer: Offer, want: Want, label: str, public_key: str) -> str:
        """Rent it, once, and give its id. Refused: it surely was not sent, or the provider says no.
        InDoubt: it may exist.
        """
        ...

    async def machines(self) -> list[Machine]:
        """Every machine of the account, of all labels."""
        ...

    async def machine(self, machine_id: str) -> Machine | None:
        """That one; None when the provider says that there is none."""
        ...

    async def terminate(self, machine: Machine) -> None:
        """Ask for its end, disk included. Returns when the provider took the order, which is no
        proof: look until it is gone.
        """
        ...

    async def host_keys(self, machine: Machine) -> tuple[str, ...]:
        """Fingerprints ("SHA256:...") of its SSH host keys over the provider's API; empty where it
        cannot tell (yet).
        """
        ...


def label_of(run: str, ulid: str) -> str:
    """`bs4-<run>-<ulid>`: unique by its ULID; the run's name is for people and cut where it is
    long.
    """
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", run).strip("-.")[:_RUN_CHARS] or "run"
    return f"bs4-{word}-{ulid}"


def is_ours(label: str | None) -> bool:
    """Whether a console made this label; a label may be missing (null) or anybody's."""
    return label is not None and _LABEL.fullmatch(label) is not None


def ulid_of(label: str) -> str | None:
    found = _LABEL.fullmatch(label)
    if found:
        return found["ulid"]
    return None


def key_name(public_key: str) -> str:
    """How a public key is called in an account: names are unique there, and a person may have
    several keys.
    """
    return f"bs4-console-{hashlib.sha256(public_key.encode()).hexdigest()[:8]}"


FINGERPRINT = re.compile(r"(?<![A-Za-z0-9])SHA256:[A-Za-z0-9+/]{43}")


def number(value: Any) -> float | None:
    """A JSON number, or a number in a string (prices come as both); None for everything else, NaN
    and infinity included.
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
