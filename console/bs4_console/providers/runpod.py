"""RunPod, REST v2 (docs.runpod.io/api-reference-v2 and its openapi.json, 2026-08; v1 was retired in
November 2026).

v2 sells no interruptible pods. It refuses unknown fields by name. The catalog's price is for one
GPU and does not include the disk. SSH needs `22/tcp` among the ports and the image's own start
script. Only the direct address is used, because the proxy carries no SFTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import dropwhile, islice
from typing import Any

import httpx

from bs4_common.foreign_json import loads
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
    fingerprints,
    number,
)
from bs4_console.providers.shapes import Row, identity, inside, table, text
from bs4_console.secret import Secret

BASE_URL = "https://api.runpod.io/v2"
IMAGE = "runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404"
_STATES: dict[str, MachineState] = {
    "PROVISIONING": "starting",
    "STARTING": "starting",
    "RUNNING": "running",
    "EXITED": "stopped",
    "ERROR": "stopped",
    "TERMINATED": "ended",
}
#: Seconds for which the log stream is read for the fingerprints. It never ends by itself.
_LOG_S = 5.0
_LOG_BYTES = 1 << 20


class RunPod(Adapter):
    """The adapter for one account at RunPod: a Provider, as base.py describes it, that sends its
    requests to version 2 of RunPod's API.
    """

    name = "runpod"
    capabilities = Capabilities(stop=True, host_keys=True, cuda=True)

    def __init__(
        self, client: httpx.AsyncClient, key: tuple[Secret, ...], base_url: str = BASE_URL
    ) -> None:
        self._client = client
        self._key = key
        self._api = Api(self.name, client, base_url, key)

    async def offers(self, want: Want) -> list[Offer]:
        """Return the GPUs of RunPod's catalog that fit `want`, cheapest first. The list is empty if
        an interruptible machine is wanted, because version 2 of the API sells none. Raises a
        ProviderError if the provider declines or does not answer as it should.
        """
        if want.interruptible:
            return []
        found = []
        for cloud in ("SECURE", "COMMUNITY"):
            params = {
                "include": "AVAILABILITY",
                "product": "POD",
                "count": want.count,
                "cloud": cloud,
            }
            if want.cuda is not None:
                params["minCudaVersion"] = want.cuda
            for row in await self._rows("/catalog/gpus", "gpus", params):
                found.append(self._offer(row, want, cloud))
        return cheapest_first(found)

    def _offer(self, row: Row, want: Want, cloud: str) -> Offer | None:
        key = cloud.lower()
        gpu = gpus.canonical(str(row.get("id")), memory_gb=row.number("memory"))
        price = number(table(self.name, row, "price").get(key))
        most = number(inside(row.get("maxCount"), key))
        places = list(filter(want.accepts, _places(row)))
        fit = (
            gpus.fits(want.gpu, gpu)
            and row.get(key) is True
            and row.get("availability") in ("LOW", "MEDIUM", "HIGH")
            and (most is None or most >= want.count)
        )
        if not fit or price is None or price <= 0 or (want.region is not None and not places):
            return None
        return Offer(
            provider=self.name,
            id=f"{cloud}/{row.get('id')}",
            gpu=gpu,
            count=want.count,
            price=price * want.count,
            disk_gb=want.disk_gb,
            region=",".join(places) or "anywhere",
            notes=("the container disk costs more, the catalog does not say how much",),
            detail={
                "cloud": cloud,
                "gpu": row.get("id"),
                "places": places if want.region is not None else [],
            },
        )

    async def prepare(self, public_key: str) -> None:
        """Do nothing, because `create` sends the SSH public key itself. The keys of the account are
        not touched: the API could only replace all of them at once.
        """

    async def create(self, offer: Offer, want: Want, label: str, public_key: str) -> str:
        """Rent one pod of `offer` with one request, under the name `label`, and return its id.
        `want` gives the GPUs, the image and the disk, and `public_key` is the SSH key that will
        open the pod. Raises InDoubt if the answer names no pod, so that the result is unknown.
        Raises a ProviderError if the provider declines or does not answer as it should.
        """
        gpu: dict[str, Any] = {"id": offer.detail["gpu"], "count": want.count}
        if want.cuda is not None:
            gpu["minCudaVersion"] = want.cuda
        body: dict[str, Any] = {
            "name": label,
            "image": want.image or IMAGE,
            "cloud": offer.detail["cloud"],
            "gpu": gpu,
            "disk": want.disk_gb,
            "ports": ["22/tcp"],
            "env": {"PUBLIC_KEY": public_key},
            "startSsh": True,
        }
        if offer.detail["places"]:
            body["dataCenterIds"] = list(offer.detail["places"])
        answer = await self._api.spend("POST", "/pods", body, label)
        if not isinstance(answer, dict) or not isinstance(answer.get("id"), str):
            raise self._api.doubt("its answer names no pod.", label)
        return identity(self.name, answer.get("id"))

    async def machines(self) -> list[Machine]:
        """Return every pod of the RunPod account, whoever rented it. Raises a ProviderError if the
        provider declines or does not answer as it should.
        """
        return [self._machine(row) for row in await self._rows("/pods", "pods")]

    async def _read(self, machine_id: str) -> Machine:
        return self._machine(await self._table(f"/pods/{machine_id}"))

    async def terminate(self, machine: Machine) -> None:
        """Order RunPod to terminate a pod. Nothing is raised if the pod no longer exists. Raises a
        ProviderError if the provider declines or does not answer as it should.
        """
        await self._end("DELETE", f"/pods/{machine.id}")

    async def balance(self) -> Balance:
        """Return the balance of the account. The key needs RunPod's permission `billing:read`.
        Raises a ProviderError if the provider declines or does not answer as it should.
        """
        row = await self._table("/billing/balance")
        return Balance(
            credit=self._credit(row.get("balanceAmount")),
            prepaid=row.get("billingMode") != "POSTPAID",
        )

    async def host_keys(self, machine: Machine) -> tuple[str, ...]:
        """Return the fingerprints of the pod's SSH host keys, which RunPod's images print to their
        log when sshd starts. The log is read for 5 seconds, because it never ends. The tuple is
        empty if the fingerprints were not found (yet).
        """
        url = f"{self._api.base_url}/pods/{machine.id}/logs"
        headers = {
            "Authorization": f"Bearer {self._key[0].reveal()}",
            "Accept": "text/event-stream",
        }
        log = bytearray()
        try:
            async with (
                asyncio.timeout(_LOG_S),
                self._client.stream(
                    "GET", url, headers=headers, params={"source": "container", "tail": 1000}
                ) as response,
            ):
                if response.is_success:
                    # Not by lines: the pod may write one that has no end.
                    async for piece in response.aiter_bytes():
                        log += piece
                        if len(log) > _LOG_BYTES:
                            break
        except (TimeoutError, httpx.HTTPError):
            pass  # what was read until then counts
        lines = map(_log_line, log.decode("utf-8", "replace").splitlines())
        # The image's start script prints first. Fingerprints that a program prints later do not
        # count.
        from_start = dropwhile(lambda line: line.strip() != "SSH host keys:", lines)
        return fingerprints(islice(from_start, 1, 12))

    def _machine(self, row: Row) -> Machine:
        raw = str(row.get("status"))
        place = inside(row.get("ssh"), "direct")
        port = number(inside(place, "port"))
        return Machine(
            provider=self.name,
            id=identity(self.name, row.get("id")),
            label=row.text("name"),
            state=_STATES.get(raw, "unknown"),
            raw_state=raw,
            host=text(inside(place, "host")),
            port=None if port is None else int(port),
            user=text(inside(place, "username")) or "root",
            price=row.number("cost"),
            created_t=row.moment("createdAt"),
        )


def _places(row: Row) -> Iterator[str]:
    """Yield the data centers that have the GPU."""
    for place in row.get("dataCenters") or []:
        if isinstance(place, dict) and place.get("availability") != "NONE":
            yield str(place["id"])


def _log_line(event: str) -> str:
    """Return the log line in one event of the stream, or "" if it holds none."""
    if not event.startswith("data:"):
        return ""
    try:
        data = loads(event[5:])
    except ValueError:
        return ""
    if isinstance(data, dict):
        return str(data.get("line", ""))
    return ""
