"""The plan of a rent: the offers in their order, the caps, and the hash that a person confirms."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TypedDict

from bs4_console import files, locations
from bs4_console.errors import ConsoleError, RefusedError
from bs4_console.providers.base import Offer, OfferRow, Want, WantRow
from bs4_console.provision.errors import NoOffers

#: Seconds for which a plan can be confirmed, as for every other plan.
PLAN_S = 900.0


class SavedPlan(TypedDict):
    """A plan to rent a machine for the run `run`, in the form in which it is saved and shown. A
    person confirms it by `plan_hash`. `want` is what was searched for, and `offers` are tried in
    their order. Money is in US dollars: `max_spend` is the most that the run may cost in all (None:
    no cap), `spent` what it has cost so far, and `planned` the most that the machine can cost in
    the planned `hours`. `another` permits a second machine for a run that has one. `pod` and
    `identity` are the name of the pod and its private key file, or "" if they were not given.
    `notes` are sentences for a person.
    """

    plan_hash: str
    expires: float
    """The Unix time in seconds until which the plan is valid."""
    run: str
    want: WantRow
    offers: list[OfferRow]
    max_price: float
    """The most that the whole machine may cost, in US dollars an hour."""
    max_spend: float | None
    hours: float
    spent: float
    planned: float
    another: bool
    pod: str
    identity: str
    notes: list[str]


@dataclass(frozen=True)
class SearchResult:
    """The result of a search over all providers. `offers` are the offers that fit, cheapest first.
    `failures` has the error of each provider that did not answer, by the provider's name.
    """

    offers: tuple[Offer, ...]
    failures: Mapping[str, ConsoleError]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What would be rented for a run, within which limits. A person confirms the plan by its hash.
    `want` describes the machine that was searched for, and `offers` are tried in their order.
    `max_price` is in US dollars an hour, `max_spend` in US dollars for the whole run (None: no
    cap), `hours` the planned hours, and `spent` the US dollars that the run has cost so far. The
    plan is valid until `expires_t`, a Unix time in seconds. `another` permits a second machine for
    a run that has one. `pod` is the name that the machine gets in the inventory ("": that of the
    run), and `identity` the private key file that opens it ("": the usual one).
    """

    run: str
    want: Want
    offers: tuple[Offer, ...]
    """The offers in the order in which they are tried."""
    max_price: float
    max_spend: float | None
    hours: float
    spent: float
    expires_t: float
    another: bool = False
    pod: str = ""
    identity: str = ""
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def planned(self) -> float:
        """Return the most that the machine can cost in the planned hours, in US dollars: the
        highest price of the plan's offers times the hours.
        """
        return self.hours * max(self.offers, key=attrgetter("price")).price

    @property
    def hash(self) -> str:
        """Return the SHA-256, in hexadecimal digits, by which a person confirms the plan. It covers
        the run, the wanted machine, the offers with their prices, the limits of price and spending,
        the hours, and the pod's name and key file if they were given.
        """
        said = {
            "run": self.run,
            "want": self.want.as_dict(),
            "offers": [[o.provider, o.id, round(o.price, 2)] for o in self.offers],
            "max_price": self.max_price,
            "max_spend": self.max_spend,
            "hours": self.hours,
            "another": self.another,
        }
        if self.pod or self.identity:
            said["pod"] = [self.pod, self.identity]
        return hashlib.sha256(
            json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
        ).hexdigest()

    def as_dict(self) -> SavedPlan:
        """Return the plan as a dictionary of JSON values, in the form in which it is saved and
        shown.
        """
        return {
            "plan_hash": self.hash,
            "expires": self.expires_t,
            "run": self.run,
            "want": self.want.as_dict(),
            "offers": [offer.as_dict() for offer in self.offers],
            "max_price": self.max_price,
            "max_spend": self.max_spend,
            "hours": self.hours,
            "spent": round(self.spent, 4),
            "planned": round(self.planned, 4),
            "another": self.another,
            "pod": self.pod,
            "identity": self.identity,
            "notes": list(self.notes),
        }

    def keep(self) -> None:
        """Save the plan on this machine, so that `provision create --plan HASH` can carry it out
        later. Saved plans that are older than a day are deleted. Raises OSError if it cannot be
        written.
        """
        for old in _plan_file("x").parent.glob("*.json"):
            if time.time() - old.stat().st_mtime > 86400:
                old.unlink(missing_ok=True)
        files.replace(_plan_file(self.hash), json.dumps(self.as_dict()).encode())

    @staticmethod
    def kept(prefix: str) -> Plan:
        """Return the plan that is saved on this machine and whose hash begins with `prefix` (at
        least 8 characters). Raises RefusedError if no saved plan or more than one matches, or if
        its file was changed.
        """
        saved = _plan_file("x").parent.glob("*.json")
        places = [path for path in saved if path.stem.startswith(prefix)]
        if len(places) != 1 or len(prefix) < 8:
            raise RefusedError(
                f"Nothing was rented: there is no plan {prefix}.",
                "Make one with `provision create ... --plan`.",
            )
        data = json.loads(places[0].read_bytes())
        plan = Plan(
            run=data["run"],
            want=Want(**data["want"]),
            offers=tuple(
                Offer(**{**offer, "notes": tuple(offer["notes"])}) for offer in data["offers"]
            ),
            max_price=data["max_price"],
            max_spend=data["max_spend"],
            hours=data["hours"],
            spent=data["spent"],
            expires_t=data["expires"],
            another=data["another"],
            pod=data.get("pod", ""),
            identity=data.get("identity", ""),
        )
        if plan.hash != data["plan_hash"] or not plan.hash.startswith(prefix):
            raise RefusedError(
                f"Nothing was rented: the plan in {places[0]} was changed.", "Make a new one."
            )
        return plan


def no_offers(want: Want, found: SearchResult) -> NoOffers:
    """Return the error for a search that has found no affordable offer. It is returned and not
    raised. `want` is what was searched for, and `found` the result of the search. The message names
    the cheapest offer above the price cap (the highest price that is allowed), if there is one, and
    the providers that did not answer.
    """
    asked = f"{want.count}x {want.gpu}" + (" interruptible" if want.interruptible else "")
    failed = "".join(f" {name} could not be asked." for name in found.failures)
    if not found.offers:
        return NoOffers(
            f"No offer for {asked} fits.{failed}", "Ask for another GPU, place or disk.", None
        )
    best = found.offers[0]
    least = f"the cheapest is ${best.price:.2f} at {best.provider} ({best.region})"
    return NoOffers(
        f"No offer for {asked} under ${want.max_price:.2f} an hour; {least}.{failed}",
        "Raise the price cap for the whole machine, or ask for another GPU or provider.",
        best,
    )


def _plan_file(digest: str) -> Path:
    return locations.state_dir() / "provision" / f"{digest}.json"
