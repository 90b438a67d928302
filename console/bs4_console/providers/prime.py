"""Prime Intellect: machines of several clouds behind one API, as its own prime-cli speaks it
(2025-12; docs.primeintellect.ai).

`sshConnection` is a string like `root@host -p 22`, a list of such strings, or [null]. It is parsed
and never run. A machine is up when it is ACTIVE and its installation is finished. The paths of
lists end with a slash, because the API redirects without it.
"""

from __future__ import annotations

import re
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
    key_name,
    number,
)
from bs4_console.providers.errors import BadAnswer
from bs4_console.providers.shapes import Row, identity, inside, rows, table, with_key
from bs4_console.secret import Secret

BASE_URL = "https://api.primeintellect.ai"
IMAGE = "ubuntu_22_cuda_12"
_STATES: dict[str, MachineState] = {
    "PENDING": "starting",
    "PROVISIONING": "starting",
    "INSTALLING": "starting",
    "ACTIVE": "running",
    "STOPPED": "stopped",
    "TERMINATED": "ended",
    "DELETED": "ended",
}
_SSH = re.compile(
    r"(?:(?P<user>[a-z_][\w-]*)@)?(?P<host>[A-Za-z0-9.:-]+?)(?:\s+-p\s+(?P<port>\d{1,5}))?"
)
_PAGES, _PAGE = 50, 100


class Prime(Adapter):
    """The adapter for one account at Prime Intellect: a Provider, as base.py describes it, that
    sends its requests to Prime's API.
    """

    name = "prime"
    capabilities = Capabilities(interruptible=True, stop=True, price_cap=True)

    def __init__(
        self, client: httpx.AsyncClient, key: tuple[Secret, ...], base_url: str = BASE_URL
    ) -> None:
        self._api = Api(
            self.name, client, f"{base_url.rstrip('/').removesuffix('/api/v1')}/api/v1", key
        )
        self._key_id: str | None = None

    async def offers(self, want: Want) -> list[Offer]:
        """Return the offers that fit `want`, cheapest first, or an empty list. At most 50 pages of
        Prime's offers are read. Raises a ProviderError if the provider declines or does not answer
        as it should.
        """
        found: list[Offer | None] = []
        seen = 0
        for page in range(1, _PAGES + 1):
            params = {"gpu_count": str(want.count), "page": page, "page_size": 100}
            answer = await self._table("/availability/gpus", params=params)
            items = rows(self.name, answer, "items")
            found += [self._offer(row, want) for row in items]
            seen += len(items)
            if not items or seen >= (answer.number("totalCount") or 0):
                break
        return cheapest_first(found)

    def _offer(self, row: Row, want: Want) -> Offer | None:
        gpu = gpus.canonical(
            str(row.get("gpuType")),
            memory_gb=row.number("gpuMemory"),
            socket=row.text("socket"),
        )
        prices = row.get("prices")
        price = number(inside(prices, "communityPrice"))
        if price is None:
            price = number(inside(prices, "onDemand"))
        disk, disk_price, notes = _disk(row.get("disk"), want.disk_gb)
        place = row.text("dataCenter") or ""
        region = "/".join(filter(None, (row.text("country"), place))) or "?"
        spot = row.get("isSpot") is True
        fit = (
            gpus.fits(want.gpu, gpu)
            and row.get("gpuCount") == want.count
            and row.get("stockStatus") not in ("Unavailable", None)
            and inside(prices, "currency") in ("USD", None)
            and spot == want.interruptible
            and want.accepts(region)
        )
        if not fit or disk is None or price is None or price <= 0:
            return None
        words = (
            row.get("provider"),
            row.get("cloudId"),
            place,
            row.get("socket"),
            row.get("security"),
        )
        return Offer(
            provider=self.name,
            id="/".join(str(word) for word in words if word),
            gpu=gpu,
            count=want.count,
            price=price + disk_price,
            disk_gb=disk,
            region=region,
            interruptible=spot,
            notes=notes,
            detail=row.fields,
        )

    async def prepare(self, public_key: str) -> None:
        """Register this SSH public key with the account unless it is registered already. Remember
        the id that the provider has given the key, because `create` has to send it. Raises a
        ProviderError if the provider declines or does not answer as it should.
        """
        known = await self._rows("/ssh_keys/", "data", {"offset": 0, "limit": 100})
        row = with_key(known, "publicKey", public_key)
        if row is None:
            body = {"name": key_name(public_key), "publicKey": public_key}
            made = await self._api.once("POST", "/ssh_keys/", body=body)
            row = table(self.name, made.get("data", made) if isinstance(made, dict) else made)
        self._key_id = identity(self.name, row.get("id"))

    async def create(self, offer: Offer, want: Want, label: str, public_key: str) -> str:
        """Rent one pod of `offer` with one request, under the name `label`, and return its id.
        `want` gives the number of GPUs, the image and the price cap. The key that `prepare` has
        registered opens the pod; `public_key` itself is not sent. Raises InDoubt if the answer
        names no pod, so that the result is unknown. Raises a ProviderError if the provider declines
        or does not answer as it should.
        """
        row = offer.detail
        images = row.get("images") or []
        image = want.image or (IMAGE if IMAGE in images or not images else str(images[0]))
        pod: dict[str, Any] = {
            "name": label,
            "cloudId": row.get("cloudId"),
            "gpuType": row.get("gpuType"),
            "socket": row.get("socket"),
            "gpuCount": want.count,
            "diskSize": None if "fixed disk" in " ".join(offer.notes) else offer.disk_gb,
            "image": image,
            "dataCenterId": row.get("dataCenter"),
            "country": row.get("country"),
            "security": row.get("security"),
            "maxPrice": want.max_price,
            "sshKeyId": self._key_id,
            "autoRestart": False,
            "envVars": [],
        }
        provider = {}
        if row.get("provider"):
            provider = {"type": row["provider"]}
        body: dict[str, Any] = {"pod": pod, "provider": provider, "disks": [], "team": None}
        answer = await self._api.spend("POST", "/pods/", body, label)
        if not isinstance(answer, dict) or not isinstance(answer.get("id"), str):
            raise self._api.doubt("its answer names no pod.", label)
        return identity(self.name, answer.get("id"))

    async def machines(self) -> list[Machine]:
        """Return every pod of the account. Raises BadAnswer if fewer pods are listed than the API
        counts. If the API gives no usable count, the first page that is not full is taken as the
        last. Raises a ProviderError if the provider declines or does not answer as it should.
        """
        found: dict[str, Machine] = {}
        for _ in range(_PAGES):
            answer = await self._table("/pods/", params={"offset": len(found), "limit": _PAGE})
            data = rows(self.name, answer, "data")
            before = len(found)
            for row in data:
                machine = self._machine(row)
                found[machine.id] = machine
            total = answer.number("total_count")
            if len(found) == total or ((total is None or total < len(found)) and len(data) < _PAGE):
                return list(found.values())
            if len(found) == before:
                break
        raise BadAnswer(
            self.name,
            f"its list of pods ends after {len(found)}, before all were told.",
            "Try again.",
        )

    async def _read(self, machine_id: str) -> Machine:
        return self._machine(await self._table(f"/pods/{machine_id}"))

    async def terminate(self, machine: Machine) -> None:
        """Order Prime to terminate a pod. Nothing is raised if the pod no longer exists. Raises a
        ProviderError if the provider declines or does not answer as it should.
        """
        await self._end("DELETE", f"/pods/{machine.id}")

    async def balance(self) -> Balance:
        """Return the balance of the account's wallet. Raises a ProviderError if the provider
        declines or does not answer as it should.
        """
        row = await self._table("/billing/wallet", params={"limit": 1})
        return Balance(credit=self._credit(row.get("balance_usd"), currency=row.get("currency")))

    def _machine(self, row: Row) -> Machine:
        raw = str(row.get("status"))
        state = _STATES.get(raw, "unknown")
        installed = row.get("installationStatus")
        if state == "running" and installed not in (None, "FINISHED"):
            state, raw = "starting", f"{raw}, installation {str(installed).lower()}"
        if failure := row.text("installationFailure"):
            state, raw = "unknown", f"{raw}: {failure[:120]}"
        user, host, port = _ssh(row.get("sshConnection"))
        return Machine(
            provider=self.name,
            id=identity(self.name, row.get("id")),
            label=row.text("name"),
            state=state,
            raw_state=raw,
            host=host,
            port=port,
            user=user,
            price=row.number("priceHr"),
            created_t=row.moment("createdAt"),
        )


def _ssh(value: Any) -> tuple[str, str | None, int | None]:
    """Return user, host and port of the first address. Host and port are None if there is none."""
    words = value if isinstance(value, list) else [value]
    first = next((word for word in words if isinstance(word, str)), "")
    found = _SSH.fullmatch(first.removeprefix("ssh ").strip())
    if found is None:
        return "root", None, None
    return found["user"] or "root", found["host"], int(found["port"] or 22)


def _disk(disk: Any, wanted: int) -> tuple[int | None, float, tuple[str, ...]]:
    """Return the size of the machine's disk in GB, its price in US dollars an hour, and notes for
    the person. The size is None if the disk cannot be as large as `wanted` GB.
    """
    if not isinstance(disk, dict):
        return None, 0.0, ()
    least, usual, most = (number(disk.get(key)) for key in ("minCount", "defaultCount", "maxCount"))
    if most is None:  # it comes with one size
        if usual is not None and usual < wanted:
            return (None, 0.0, ())
        return (int(usual or wanted), 0.0, ("fixed disk",))
    size = max(wanted, int(least or 0))
    if size > most:
        return None, 0.0, ()
    charged = float(size)
    if disk.get("defaultIncludedInPrice"):
        charged = max(0.0, size - (usual or 0.0))
    return size, charged * (number(disk.get("pricePerUnit")) or 0.0), ()
