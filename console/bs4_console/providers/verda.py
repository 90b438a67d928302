"""Verda (formerly DataCrunch), https://api.verda.com/v1, as its own Python library speaks it (1.25,
2026-04).

Login is by OAuth2 client credentials. Prices are strings. A create answers with the plain id. The
exact label goes into `description`, because hostnames are lower case and short. A volume goes on
costing money unless the delete names it; this holds also for a machine that Verda took back. Such a
machine is `stopped` and not `ended` while its volume exists. A machine that is still provisioning
cannot be deleted.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import httpx

from bs4_console.providers import gpus
from bs4_console.providers.adapter import Adapter
from bs4_console.providers.api import Api
from bs4_console.providers.base import (
    Balance,
    Capabilities,
    Machine,
    MachineState,
    Offer,
    Want,
    cheapest_first,
    is_ours,
    key_name,
    number,
    ulid_of,
)
from bs4_console.providers.errors import BadAnswer, NotThere, ProviderError
from bs4_console.providers.shapes import Row, identity, inside, table, with_key
from bs4_console.secret import Secret

BASE_URL = "https://api.verda.com/v1"
IMAGE = "ubuntu-24.04-cuda-12.8-open-docker"
_STATES: dict[str, MachineState] = {
    "ordered": "starting",
    "new": "starting",
    "validating": "starting",
    "provisioning": "starting",
    "restoring": "starting",
    "running": "running",
    "offline": "stopped",
    "starting_hibernation": "stopped",
    "hibernating": "stopped",
    "deleting": "stopped",
    "discontinued": "ended",
    "notfound": "ended",
    "no_capacity": "ended",
}
_HOURS_A_MONTH = 730.0


class Verda(Adapter):
    """The adapter for one account at Verda: a Provider, as base.py describes it, that sends its
    requests to Verda's API.
    """

    name = "verda"
    capabilities = Capabilities(interruptible=True, stop=True)

    def __init__(
        self, client: httpx.AsyncClient, key: tuple[Secret, ...], base_url: str = BASE_URL
    ) -> None:
        """Make the adapter. `key` is the client id and the client secret."""
        self._open = Api(self.name, client, base_url, key, _nothing)
        self._api = Api(self.name, client, base_url, key, self._token)
        self._key = key
        self._bearer: Secret | None = None
        self._until_m = 0.0
        self._asking = asyncio.Lock()
        self._key_id: str | None = None
        self._disk_types: list[Row] | None = None

    async def _token(self) -> dict[str, str]:
        async with self._asking:
            if self._bearer is None or time.monotonic() > self._until_m:
                body = {
                    "grant_type": "client_credentials",
                    "client_id": self._key[0].reveal(),
                    "client_secret": self._key[1].reveal(),
                }
                answer = table(self.name, await self._open.ask("POST", "/oauth2/token", body))
                token = answer.text("access_token")
                if token is None:
                    raise BadAnswer(self.name, "its answer holds no token.", "Try again.")
                self._bearer = Secret(token)
                self._api.hide(self._bearer)
                self._until_m = time.monotonic() + max(
                    0.0, (answer.number("expires_in") or 0.0) - 60
                )
            return {"Authorization": f"Bearer {self._bearer.reveal()}"}

    async def offers(self, want: Want) -> list[Offer]:
        """Return Verda's instance types that fit `want`, one offer for each location that has them,
        cheapest first, or an empty list. Raises BadAnswer if the prices are not in US dollars.
        Raises a ProviderError if the provider declines or does not answer as it should.
        """
        kinds = await self._rows("/instance-types", params={"currency": "usd"})
        spot = {"isSpot": str(want.interruptible).lower()}
        places = await self._rows("/instance-availability", params=spot)
        disk, notes = await self._disk_price(want.disk_gb)
        found = []
        for row in kinds:
            price = number(row.get("spot_price" if want.interruptible else "price_per_hour"))
            gpu = gpus.canonical(f"{row.get('model') or ''} {row.get('name') or ''} {_size(row)}")
            count = table(self.name, row, "gpu").get("number_of_gpus")
            if price is None or price <= 0 or count != want.count or not gpus.fits(want.gpu, gpu):
                continue
            if not _dollars(currency := row.get("currency")):
                raise BadAnswer(
                    self.name,
                    f"its prices are in {str(currency)[:8].upper()}, not in US dollars: they "
                    "are not compared.",
                    "Let the account be billed in US dollars, or leave it out with --provider.",
                )
            kind = str(row.get("instance_type"))
            for entry in places:
                place = str(entry.get("location_code"))
                if kind in (entry.get("availabilities") or []) and want.accepts(place):
                    found.append(
                        Offer(
                            provider=self.name,
                            id=f"{kind}/{place}",
                            gpu=gpu,
                            count=want.count,
                            price=price + disk,
                            disk_gb=want.disk_gb,
                            region=place,
                            interruptible=want.interruptible,
                            notes=notes,
                            detail={"instance_type": kind, "location_code": place},
                        )
                    )
        return cheapest_first(found)

    async def _disk_price(self, size_gb: float) -> tuple[float, tuple[str, ...]]:
        """Return the price of a disk in US dollars an hour, and notes on costs that the price
        leaves out.
        """
        if self._disk_types is None:
            self._disk_types = await self._rows("/volume-types")
        for row in self._disk_types:
            if row.get("type") == "NVMe":
                price = table(self.name, row, "price")
                cost = size_gb * (price.number("price_per_month_per_gb") or 0.0) / _HOURS_A_MONTH
                if _dollars(currency := price.get("currency")):
                    return cost, ()
                return 0.0, (f"its disk costs {cost:.4f} {str(currency)[:8].upper()} an hour more",)
        return 0.0, ()

    async def prepare(self, public_key: str) -> None:
        """Register this SSH public key with the account unless it is registered already. Remember
        the id that the provider has given the key, because `create` has to send it. Raises a
        ProviderError if the provider declines or does not answer as it should.
        """
        row = with_key(await self._rows("/sshkeys"), "key", public_key)
        if row is not None:
            known = row.get("id")
        else:
            body = {"name": key_name(public_key), "key": public_key}
            made = await self._api.once("POST", "/sshkeys", body=body, text=True)
            known = made.strip().strip('"')
        self._key_id = identity(self.name, known)

    async def create(self, offer: Offer, want: Want, label: str, public_key: str) -> str:
        """Rent one instance of `offer` with one request, with `label` as its description, and
        return its id. `want` gives the image and the size of the volume. The key that `prepare` has
        registered opens the instance; `public_key` itself is not sent. Raises InDoubt if the answer
        is not an id, so that the result is unknown. Raises a ProviderError if the provider declines
        or does not answer as it should.
        """
        volume = {"name": label, "size": want.disk_gb}
        body = {
            **offer.detail,
            "image": want.image or IMAGE,
            "ssh_key_ids": [self._key_id],
            "startup_script_id": None,
            "hostname": f"bs4-{(ulid_of(label) or label)[-26:].lower()}",
            "description": label,
            "is_spot": offer.interruptible,
            "contract": "SPOT" if offer.interruptible else "PAY_AS_YOU_GO",
            "os_volume": {**volume, "on_spot_discontinue": "keep_detached"}
            if offer.interruptible
            else volume,
            "volumes": [],
            "existing_volumes": [],
        }
        answer = await self._api.spend("POST", "/instances", body, label, text=True)
        try:
            return identity(self.name, answer.strip().strip('"'))
        except BadAnswer:
            raise self._api.doubt("its answer is no id.", label) from None

    async def machines(self) -> list[Machine]:
        """Return every instance of the account. For an instance that a console rented, the price
        includes the volume that was rented with it. Raises a ProviderError if the provider declines
        or does not answer as it should.
        """
        found = await self._rows("/instances")
        return [await self._whole(self._machine(row)) for row in found]

    async def _read(self, machine_id: str) -> Machine:
        return await self._whole(self._machine(await self._table(f"/instances/{machine_id}")))

    async def terminate(self, machine: Machine) -> None:
        """Order Verda to delete an instance and its volume, or only the volume if the instance has
        gone already. Nothing is raised if the instance no longer exists. Raises a ProviderError if
        the provider declines or does not answer as it should.
        """
        volume = machine.detail.get("os_volume_id")
        path = "/instances"
        body: dict[str, Any] = {
            "id": [machine.id],
            "action": "delete",
            "volume_ids": [volume] if volume else [],
        }
        if machine.detail.get("left"):
            path, body = "/volumes", {"id": [volume], "action": "delete", "is_permanent": True}
        await self._end("PUT", path, body)

    async def balance(self) -> Balance:
        """Return the balance of the project to which the API key belongs. Raises a ProviderError if
        the provider declines or does not answer as it should.
        """
        row = await self._table("/balance", params={"currency": "usd"})
        return Balance(credit=self._credit(row.get("amount"), currency=row.get("currency")))

    async def _whole(self, machine: Machine) -> Machine:
        """Return the machine with the cost of its volume added. One of our machines that will never
        run again is `stopped` and not `ended` while its volume exists, because the volume costs
        money by itself.
        """
        volume = machine.detail.get("os_volume_id")
        if not is_ours(machine.label) or volume is None:
            return machine
        try:
            size = await self._volume_gb(volume)
            if machine.state != "ended":
                disk, _ = await self._disk_price(size or 0.0)
                return replace(
                    machine, price=None if machine.price is None else machine.price + disk
                )
        except ProviderError:
            if machine.state == "ended":
                raise
            # The machine is known to run. What it costs in all is not known.
            return replace(machine, price=None)
        if size is None:
            return machine
        return replace(
            machine,
            state="stopped",
            raw_state=f"{machine.raw_state}, its volume is left",
            host=None,
            port=None,
            price=None,
            detail={**machine.detail, "left": True},
        )

    async def _volume_gb(self, volume: str) -> float | None:
        """Return the volume's size in GB, or None if it is deleted or in the trash."""
        try:
            row = await self._table(f"/volumes/{volume}")
        except NotThere:
            return None
        if row.get("deleted_at") is not None or row.get("status") == "deleted":
            return None
        return row.number("size") or 0.0

    def _machine(self, row: Row) -> Machine:
        raw = str(row.get("status"))
        host = row.text("ip")
        volume = row.get("os_volume_id")
        return Machine(
            provider=self.name,
            id=identity(self.name, row.get("id")),
            label=row.text("description"),
            state=_STATES.get(raw, "unknown"),
            raw_state=raw,
            host=host,
            port=22 if host else None,
            user="root",
            price=row.number("price_per_hour") if _dollars(row.get("currency")) else None,
            created_t=row.moment("created_at"),
            detail={
                "os_volume_id": identity(self.name, volume, "os_volume_id") if volume else None
            },
        )


def _dollars(currency: Any) -> bool:
    """Return True if a price is in US dollars. The request asks for US dollars, so a missing
    currency is taken as US dollars.
    """
    return currency is None or str(currency).lower() == "usd"


async def _nothing() -> dict[str, str]:
    return {}


def _size(row: Row) -> str:
    total = number(inside(row.get("gpu_memory"), "size_in_gigabytes"))
    count = number(inside(row.get("gpu"), "number_of_gpus"))
    if total and count:
        return f"{total / count:.0f}GB"
    return ""
