"""Lambda Cloud (cloud.lambda.ai/api/v1; its published API description, 1.10).

Lambda sells whole instances on demand only, and no disk survives the end of an instance. It allows
one launch in 12 s and one other call a second. Its errors are told apart by their `code`. The user
is `ubuntu`, the port 22.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpx

from bs4_console.providers import gpus
from bs4_console.providers.adapter import Adapter
from bs4_console.providers.api import Api
from bs4_console.providers.base import (
    Capabilities,
    Machine,
    MachineState,
    Offer,
    Want,
    cheapest_first,
    key_name,
    number,
)
from bs4_console.providers.shapes import Row, identity, inside, table, with_key
from bs4_console.secret import Secret

BASE_URL = "https://cloud.lambda.ai/api/v1"
_STATES: dict[str, MachineState] = {
    "booting": "starting",
    "active": "running",
    "terminating": "stopped",
    "terminated": "ended",
    "preempted": "ended",
}


class Lambda(Adapter):
    """The adapter for one account at Lambda Cloud: a Provider, as base.py describes it, that sends
    its requests to Lambda's API.
    """

    name = "lambda"
    capabilities = Capabilities(start_command=True)

    def __init__(
        self,
        client: httpx.AsyncClient,
        key: tuple[Secret, ...],
        base_url: str = BASE_URL,
        pace_s: float = 1.0,
    ) -> None:
        """Make the adapter. `pace_s` is the number of seconds between two calls, which keeps the
        calls under the provider's limit.
        """
        self._api = Api(self.name, client, base_url, key, self._paced)
        self._key = key
        self._pace_s = pace_s
        self._next_m = 0.0
        self._key_name: str | None = None

    async def _paced(self) -> dict[str, str]:
        now = time.monotonic()
        turn = max(now, self._next_m)
        self._next_m = turn + self._pace_s
        if turn > now:
            await asyncio.sleep(turn - now)
        return {"Authorization": f"Bearer {self._key[0].reveal()}"}

    async def offers(self, want: Want) -> list[Offer]:
        """Return Lambda's instance types with free capacity that fit `want`, one offer for each
        region, cheapest first. The list is empty if an interruptible machine is wanted, because
        Lambda sells none. Raises a ProviderError if the provider declines or does not answer as it
        should.
        """
        if want.interruptible:
            return []
        found: list[Offer] = []
        kinds = await self._table("/instance-types", "data")
        for name, row in kinds.fields.items():
            if isinstance(row, dict):
                found += self._offers(name, Row(row), want)
        return cheapest_first(found)

    def _offers(self, name: str, row: Row, want: Want) -> Iterator[Offer]:
        """Yield one offer for each region with free capacity, if the instance type fits."""
        kind = table(self.name, row, "instance_type")
        specs = table(self.name, kind, "specs")
        cents = kind.number("price_cents_per_hour")
        disk = specs.number("storage_gib") or 0
        gpu = gpus.canonical(f"{name} {kind.get('gpu_description') or ''}")
        if cents is None or specs.get("gpus") != want.count or not gpus.fits(want.gpu, gpu):
            return
        for region in row.get("regions_with_capacity_available") or []:
            place = str(inside(region, "name"))
            if isinstance(region, dict) and disk >= want.disk_gb and want.accepts(place):
                yield Offer(
                    provider=self.name,
                    id=f"{name}/{place}",
                    gpu=gpu,
                    count=want.count,
                    price=cents / 100,
                    disk_gb=int(disk),
                    region=place,
                    detail={"instance_type_name": name, "region_name": place},
                )

    async def prepare(self, public_key: str) -> None:
        """Register this SSH public key with the account unless it is registered already. Remember
        the name under which it is registered, because a launch names exactly one registered key.
        Raises a ProviderError if the provider declines or does not answer as it should.
        """
        row = with_key(await self._rows("/ssh-keys", "data"), "public_key", public_key)
        if row is None:
            body = {"name": key_name(public_key), "public_key": public_key}
            row = table(self.name, await self._api.once("POST", "/ssh-keys", body=body), "data")
        self._key_name = row.text("name")

    async def create(self, offer: Offer, want: Want, label: str, public_key: str) -> str:
        """Launch one instance of `offer` with one request, under the name `label`, and return the
        instance's id. `want` gives the start command, and the key that `prepare` has registered
        opens the instance; `public_key` is not sent. Raises InDoubt if the answer does not name
        exactly one instance, so that the result is unknown. Raises a ProviderError if the provider
        declines or does not answer as it should.
        """
        body: dict[str, Any] = {
            **offer.detail,
            "ssh_key_names": [self._key_name],
            "file_system_names": [],
            "quantity": 1,
            "name": label,
        }
        if want.start_command:
            body["user_data"] = f"#!/bin/sh\n{want.start_command}\n"
        answer = await self._api.spend("POST", "/instance-operations/launch", body, label)
        ids = inside(inside(answer, "data"), "instance_ids")
        if not isinstance(ids, list) or len(ids) != 1:
            raise self._api.doubt("its answer does not name one instance.", label)
        return identity(self.name, ids[0])

    async def machines(self) -> list[Machine]:
        """Return every instance of the Lambda account, whoever launched it. Raises a ProviderError
        if the provider declines or does not answer as it should.
        """
        return [self._machine(row) for row in await self._rows("/instances", "data")]

    async def _read(self, machine_id: str) -> Machine:
        return self._machine(await self._table(f"/instances/{machine_id}", "data"))

    async def terminate(self, machine: Machine) -> None:
        """Order Lambda to terminate an instance. Nothing is raised if the instance no longer
        exists. Raises a ProviderError if the provider declines or does not answer as it should.
        """
        await self._end("POST", "/instance-operations/terminate", {"instance_ids": [machine.id]})

    def _machine(self, row: Row) -> Machine:
        raw = str(row.get("status"))
        cents = number(inside(row.get("instance_type"), "price_cents_per_hour"))
        host = row.text("ip")
        return Machine(
            provider=self.name,
            id=identity(self.name, row.get("id")),
            label=row.text("name"),
            state=_STATES.get(raw, "unknown"),
            raw_state=raw,
            host=host,
            port=22 if host else None,
            user="ubuntu",
            price=None if cents is None else cents / 100,
        )
