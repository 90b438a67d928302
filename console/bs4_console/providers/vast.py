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
from bs4_console.providers.api import Api
from bs4_console.providers.base import (
    FINGERPRINT,
    Capabilities,
    Machine,
    MachineState,
    Offer,
    Want,
    number,
)
from bs4_console.providers.errors import BadAnswer, NotThere, Refused
from bs4_console.providers.shapes import identity, moment, rows, table, text
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


class Vast:
    """One account at Vast.ai."""

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
        """Return the offers of the market that fit `want`, cheapest first. An interruptible offer's
        price is its lowest bid and its storage.
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
        found = (self._offer(row, want) for row in rows(self.name, answer, "offers"))
        return sorted(
            (offer for offer in found if offer is not None), key=lambda offer: offer.price
        )

    def _offer(self, row: dict[str, Any], want: Want) -> Offer | None:
        """Return the offer of one row of the market, or None if it does not fit. Every filter of
        the search is applied here again, because the server may ignore a filter that it does not
        know.
        """
        ram = number(row.get("gpu_ram"))
        gpu = gpus.canonical(
            str(row.get("gpu_name")), memory_gb=None if ram is None else ram / 1024
        )
        region = text(row.get("geolocation")) or "?"
        reliability, cuda, disk = (
            number(row.get(key)) for key in ("reliability2", "cuda_max_good", "disk_space")
        )
        total, bid = number(row.get("dph_total")), number(row.get("min_bid"))
        storage = number(row.get("storage_total_cost")) or 0.0
        if total is None:
            price = None
        elif not want.interruptible:
            price = total
        elif bid is None:
            price = None
        else:
            price = bid + storage
        fit = (
            gpus.fits(want.gpu, gpu)
            and row.get("num_gpus") == want.count
            and (disk is None or disk >= want.disk_gb)
            and (want.region is None or want.region.lower() in region.lower())
            and (
                want.reliability is None
                or (reliability is not None and reliability >= want.reliability)
            )
            and (want.cuda is None or (cuda is not None and cuda >= float(want.cuda)))
        )
        if price is None or not fit:
            return None
        down = number(row.get("inet_down_cost"))
        notes = () if not down else (f"traffic costs ${down:.3f} a GB more",)
        return Offer(
            provider=self.name,
            id=identity(self.name, row),
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
        """Make sure that the account has this SSH public key. Vast puts the account's keys on every
        machine when it is made.
        """
        answer = await self._api.get("/api/v0/ssh/")
        known = rows(self.name, answer.get("ssh_keys") if isinstance(answer, dict) else answer)
        if not any(
            _same_key(row.get("public_key") or row.get("ssh_key"), public_key) for row in known
        ):
            await self._api.once("POST", "/api/v0/ssh/", body={"ssh_key": public_key})

    async def create(self, offer: Offer, want: Want, label: str, public_key: str) -> str:
        """Rent the offered machine with one request and return its id. An interruptible machine is
        rented at its lowest bid.

        Raises Refused if an interruptible offer names no bid, and InDoubt if the answer names no
        machine.
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
        """Return every machine of the account, read in pages of 25."""
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
            after = text(answer.get("next_token"))
            if after is None:
                return found

    async def machine(self, machine_id: str) -> Machine | None:
        """Return the machine with this id, or None if Vast says that it does not exist."""
        try:
            answer = _told(await self._api.get(f"/api/v0/instances/{machine_id}/", {"owner": "me"}))
        except NotThere:
            return None
        row = answer.get("instances")
        if "instances" in answer and not row:
            return None
        return self._machine(table(self.name, row))

    async def terminate(self, machine: Machine) -> None:
        """Order the end of a machine and its disk. It is not an error if the machine no longer
        exists.
        """
        try:
            await self._api.once("DELETE", f"/api/v0/instances/{machine.id}/", body={})
        except NotThere:
            return

    async def host_keys(self, machine: Machine) -> tuple[str, ...]:
        """Return the fingerprints of the machine's SSH host keys, which its start command prints to
        the log. The tuple is empty if the log does not hold them (yet).
        """
        answer = await self._api.ask(
            "PUT", f"/api/v0/instances/request_logs/{machine.id}/", {"tail": "1000"}
        )
        place = None
        if isinstance(answer, dict):
            place = answer.get("result_url")
        if not isinstance(place, str) or not place.startswith(("https://", "http://127.0.0.1")):
            return ()
        for _ in range(_LOG_TRIES):  # the log appears there a moment later
            try:
                # A signed address of their file store, which must not see our key.
                response = await self._client.get(place, timeout=10, follow_redirects=False)
            except httpx.HTTPError:
                return ()
            if response.is_success:
                lines = []
                for line in response.text.splitlines():
                    if line.startswith("bs4-host-key "):
                        lines.append(line)
                return tuple(
                    dict.fromkeys(found for line in lines for found in FINGERPRINT.findall(line))
                )
            await asyncio.sleep(0.3)
        return ()

    def _machine(self, row: dict[str, Any]) -> Machine:
        actual, intended = text(row.get("actual_status")), text(row.get("intended_status"))
        state = _STATES.get(actual, "unknown")
        raw = actual or "being provisioned"
        if state == "stopped" and intended == "running":
            raw = f"{actual}, though meant to run (outbid)"
        elif actual is None and intended == "stopped":
            state, raw = "stopped", "never started (its bid was too low)"
        ports = row.get("ports")
        mapped = None
        if isinstance(ports, dict):
            mapped = ports.get("22/tcp")
        direct = None
        if isinstance(mapped, list) and mapped and isinstance(mapped[0], dict):
            direct = number(mapped[0].get("HostPort"))
        address = text(row.get("public_ipaddr"))
        host, port = text(row.get("ssh_host")), number(row.get("ssh_port"))
        if direct is not None and address is not None:
            host, port = address.strip(), direct
        return Machine(
            provider=self.name,
            id=identity(self.name, row),
            label=text(row.get("label")),
            state=state,
            raw_state=raw,
            host=host,
            port=None if port is None else int(port),
            user="root",
            price=number(row.get("dph_total")),
            created_t=moment(row.get("start_date")),
        )


def _told(answer: Any) -> dict[str, Any]:
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


def _same_key(known: Any, wanted: str) -> bool:
    """Return True if both public keys have the same type and data. Comments may differ."""
    return isinstance(known, str) and known.split()[:2] == wanted.split()[:2]
