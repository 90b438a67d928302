"""Vast.ai: a market of single machines. API of console.vast.ai, as its own vast-cli speaks it
(2026-08).

Traps: an interruptible machine whose bid is too low is answered with an error and exists all the
same, stopped; a search for bids followed by a create without a price rents on demand at the full
price; a label may be null; 403 on the list does not mean that there is nothing.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import httpx

from bs4_console.providers import gpus
from bs4_console.providers.adapter import Adapter
from bs4_console.providers.api import Api, beginning
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
from bs4_console.providers.errors import BadAnswer, Refused
from bs4_console.providers.shapes import (
    Row,
    identity,
    inside,
    rows,
    same_key,
    table,
)
from bs4_console.secret import Secret

BASE_URL = "https://console.vast.ai"
IMAGE = "nvidia/cuda:12.8.1-devel-ubuntu22.04"
_STATES: dict[str | None, MachineState] = {
    None: "starting",
    "created": "starting",
    "loading": "starting",
    "rebooting": "starting",
    "running": "running",
    "stopped": "stopped",
    "exited": "stopped",
    "frozen": "stopped",
}
#: Prints the fingerprints of the machine's host keys to its own log, which is read over the API. So
#: the host key of the first connection can be checked.
_TELL = (
    'for key in /etc/ssh/ssh_host_*_key.pub; do echo "bs4-host-key $(ssh-keygen -lf "$key")"; done'
)
_LOG_TRIES = 10
#: Bytes of that log, which the machine itself writes. A thousand lines are some 100 KiB.
_LOG_BYTES = 4 << 20


class Vast(Adapter):
    """The adapter for one account at Vast.ai: a Provider, as base.py describes it, that sends its
    requests to Vast's API.
    """

    name = "vast"
    capabilities = Capabilities(
        interruptible=True,
        stop=True,
        start_command=True,
        host_keys=True,
        reliability=True,
        cuda=True,
    )

    def __init__(
        self, client: httpx.AsyncClient, key: tuple[Secret, ...], base_url: str = BASE_URL
    ) -> None:
        self._client = client
        self._api = Api(self.name, client, base_url, key)

    async def offers(self, want: Want) -> list[Offer]:
        """Return the offers that fit `want`, cheapest first, or an empty list. The price of an
        interruptible offer is the lowest bid that Vast accepts plus the cost of its storage. Raises
        a ProviderError if the provider declines or does not answer as it should.
        """
        query: dict[str, Any] = {
            "verified": {"eq": True},
            "external": {"eq": False},
            "rentable": {"eq": True},
            "rented": {"eq": False},
            "num_gpus": {"eq": want.count},
            "direct_port_count": {"gte": 1},
            "disk_space": {"gte": want.disk_gb},
            "order": [["dph_total", "asc"]],
            "type": "bid" if want.interruptible else "on-demand",
            "allocated_storage": float(want.disk_gb),
            "limit": 500,
        }
        if want.reliability is not None:
            query["reliability2"] = {"gte": want.reliability}
        if want.cuda is not None:
            query["cuda_max_good"] = {"gte": float(want.cuda)}
        answer = await self._api.ask("POST", "/api/v0/bundles/", query)
        return cheapest_first(self._offer(row, want) for row in rows(self.name, answer, "offers"))

    def _offer(self, row: Row, want: Want) -> Offer | None:
        """Return the offer of one row of the market, or None if it does not fit. Every filter of
        the search is applied here again, because the server may ignore a filter that it does not
        know.
        """
        ram = row.number("gpu_ram")
        gpu = gpus.canonical(
            str(row.get("gpu_name")), memory_gb=None if ram is None else ram / 1024
        )
        region = row.text("geolocation") or "?"
        reliability, cuda, disk = (
            number(row.get(key)) for key in ("reliability2", "cuda_max_good", "disk_space")
        )
        price, bid = row.number("dph_total"), row.number("min_bid")
        if price is not None and want.interruptible:
            storage = row.number("storage_total_cost") or 0.0
            price = None if bid is None else bid + storage
        fit = (
            gpus.fits(want.gpu, gpu)
            and row.get("num_gpus") == want.count
            and want.accepts(region)
            and (disk is None or disk >= want.disk_gb)
        )
        reaches = _reaches(reliability, want.reliability) and _reaches(cuda, number(want.cuda))
        if price is None or not fit or not reaches:
            return None
        down = row.number("inet_down_cost")
        notes = (f"traffic costs ${down:.3f} a GB more",) if down else ()
        return Offer(
            provider=self.name,
            id=identity(self.name, row.get("id")),
            gpu=gpu,
            count=want.count,
            price=price,
            disk_gb=want.disk_gb,
            region=region,
            reliability=reliability,
            interruptible=want.interruptible,
            notes=notes,
            detail={"bid": bid},
        )

    async def prepare(self, public_key: str) -> None:
        """Register this SSH public key with the account unless it is registered already. Vast puts
        all keys of the account on each new machine. Raises a ProviderError if the provider declines
        or does not answer as it should.
        """
        answer = await self._api.get("/api/v0/ssh/")
        known = answer.get("ssh_keys") if isinstance(answer, dict) else answer
        for row in rows(self.name, known):
            if same_key(row.get("public_key") or row.get("ssh_key"), public_key):
                return
        await self._api.once("POST", "/api/v0/ssh/", body={"ssh_key": public_key})

    async def create(self, offer: Offer, want: Want, label: str, public_key: str) -> str:
        """Rent the machine of `offer` with one request, under the label `label`, and return its id.
        For an interruptible machine, the lowest bid of the offer is paid. `want` gives the image,
        the disk and the start command. A key that `prepare` has registered opens the machine;
        `public_key` itself is not sent.

        Raises Refused if an interruptible offer states no bid, and InDoubt if the answer names no
        machine, so that the result is unknown. Raises a ProviderError if the provider declines or
        does not answer as it should.
        """
        bid = offer.detail.get("bid")
        if offer.interruptible and bid is None:
            raise Refused(
                self.name,
                f"offer {offer.id} is for bids and names no lowest one.",
                "Take another offer.",
            )
        body: dict[str, Any] = {
            "client_id": "me",
            "image": want.image or IMAGE,
            "disk": float(want.disk_gb),
            "label": label,
            "env": {},
            "runtype": "ssh_direc ssh_proxy",
            "price": math.ceil(bid * 1000) / 1000
            if offer.interruptible and bid is not None
            else None,
            "onstart": "\n".join(filter(None, (_TELL, want.start_command))),
            "cancel_unavail": True,
        }
        answer = await self._api.spend("PUT", f"/api/v0/asks/{offer.id}/", body, label)
        if (
            not isinstance(answer, dict)
            or not answer.get("success")
            or not isinstance(answer.get("new_contract"), int)
        ):
            raise self._api.doubt("its answer names no machine.", label)
        return str(answer["new_contract"])

    async def machines(self) -> list[Machine]:
        """Return every machine of the Vast account, whoever rented it. The API lists them in pages
        of 25. Raises a ProviderError if the provider declines or does not answer as it should.
        """
        found: list[Machine] = []
        after: str | None = None
        while True:
            params = {"limit": 25, "order_by": '[{"col":"id","dir":"asc"}]', "select_filters": "{}"}
            answer = _told(
                await self._api.get(
                    "/api/v1/instances/", params | ({"after_token": after} if after else {})
                )
            )
            for row in rows(self.name, answer, "instances"):
                found.append(self._machine(row))
            after = answer.text("next_token")
            if after is None:
                return found

    async def _read(self, machine_id: str) -> Machine | None:
        answer = _told(await self._api.get(f"/api/v0/instances/{machine_id}/", {"owner": "me"}))
        row = answer.get("instances")
        if "instances" in answer.fields and not row:
            return None
        return self._machine(table(self.name, row))

    async def terminate(self, machine: Machine) -> None:
        """Order Vast to delete a machine and its disk. Nothing is raised if the machine no longer
        exists. Raises a ProviderError if the provider declines or does not answer as it should.
        """
        await self._end("DELETE", f"/api/v0/instances/{machine.id}/", {})

    async def balance(self) -> Balance:
        """Return the credit of the account, or its balance if the answer has no credit. Raises a
        ProviderError if the provider declines or does not answer as it should.
        """
        row = _told(await self._api.get("/api/v0/users/current/"))
        credit = self._credit(row.get("credit"), row.get("balance"), currency=row.get("currency"))
        return Balance(credit=credit)

    async def host_keys(self, machine: Machine) -> tuple[str, ...]:
        """Return the fingerprints of the machine's SSH host keys, which the console's start command
        prints to the machine's log. The tuple is empty if the log does not hold them (yet). Raises
        a ProviderError if the provider declines or does not answer as it should.
        """
        answer = await self._api.ask(
            "PUT", f"/api/v0/instances/request_logs/{machine.id}/", {"tail": "1000"}
        )
        place = inside(answer, "result_url")
        if not isinstance(place, str) or not place.startswith(("https://", "http://127.0.0.1")):
            return ()
        for _ in range(_LOG_TRIES):  # the log appears there a moment later
            try:
                # A signed address of their file store, which must not see our key.
                async with self._client.stream(
                    "GET", place, timeout=10, follow_redirects=False
                ) as response:
                    log = b""
                    if response.is_success:
                        log = await beginning(response, _LOG_BYTES)
            except httpx.HTTPError:
                return ()
            if response.is_success:
                lines = log.decode("utf-8", "replace").splitlines()
                return fingerprints(line for line in lines if line.startswith("bs4-host-key "))
            await asyncio.sleep(0.3)
        return ()

    def _machine(self, row: Row) -> Machine:
        actual, intended = row.text("actual_status"), row.text("intended_status")
        state = _STATES.get(actual, "unknown")
        raw = actual or "being provisioned"
        if state == "stopped" and intended == "running":
            raw = f"{actual}, though meant to run (outbid)"
        elif actual is None and intended == "stopped":
            state, raw = "stopped", "never started (its bid was too low)"
        mapped = inside(row.get("ports"), "22/tcp")
        direct = None
        if isinstance(mapped, list) and mapped:
            direct = number(inside(mapped[0], "HostPort"))
        address = row.text("public_ipaddr")
        host, port = row.text("ssh_host"), row.number("ssh_port")
        if direct is not None and address is not None:
            host, port = address.strip(), direct
        return Machine(
            provider=self.name,
            id=identity(self.name, row.get("id")),
            label=row.text("label"),
            state=state,
            raw_state=raw,
            host=host,
            port=None if port is None else int(port),
            user="root",
            price=row.number("dph_total"),
            created_t=row.moment("start_date"),
        )


def _told(answer: Any) -> Row:
    """Return the JSON object of an answer. Raises BadAnswer if the object itself reports a failure,
    although the status is 200: nothing else in it can be trusted.
    """
    found = table(Vast.name, answer)
    if found.get("success") is False:
        raise BadAnswer(
            Vast.name,
            "it answers, and says that it failed.",
            "Try again; `bs4-console provision list` shows what exists.",
        )
    return found


def _reaches(value: float | None, least: float | None) -> bool:
    """Return True if the value is known and at least `least`, or nothing is asked for."""
    return least is None or (value is not None and value >= least)
