"""Prime Intellect's side: availability in pages, pods of several clouds, a connection that is a
string, a list, or [null].
"""

from __future__ import annotations

import time
from typing import Any

from bs4_practice.cloud.market import Goods, Market, Rented
from bs4_practice.cloud.server import Answer, Request, Route

_DISK_GB_HOUR = 0.00014
_STATES = {"starting": "PROVISIONING", "running": "ACTIVE", "stopped": "STOPPED"}


def allowed(request: Request, key: str) -> bool:
    """Return True if the request carries `key`, the API key of the account."""
    return request.headers.get("authorization") == f"Bearer {key}"


def failure(status: int, text: str) -> Answer:
    """Return an error answer in the form of Prime Intellect's API. `status` is its HTTP status and
    `text` its message.
    """
    return Answer(status, {"detail": f"{text}, says the practice cloud"})


def _row(goods: Goods, spot: bool) -> dict[str, Any]:
    disk = {
        "minCount": 80,
        "defaultCount": 120,
        "maxCount": goods.disk_gb,
        "pricePerUnit": _DISK_GB_HOUR,
        "step": 1,
    }
    return {
        "cloudId": f"cloud-{goods.id}",
        "gpuType": goods.id,
        "socket": "SXM5" if "H100" in goods.id else "PCIe",
        "provider": "datacrunch",
        "region": "eu_north",
        "dataCenter": f"{goods.region}-03",
        "country": goods.region,
        "gpuCount": goods.count,
        "gpuMemory": 80 if "H100" in goods.id else 24,
        "disk": {**disk, "defaultIncludedInPrice": False, "additionalInfo": None},
        "stockStatus": "Available",
        "security": "secure_cloud",
        "prices": {
            "onDemand": goods.bid if spot else goods.price,
            "communityPrice": None,
            "isVariable": None,
            "currency": "USD",
        },
        "images": ["cuda_12_4_pytorch_2_6", "ubuntu_22_cuda_12"],
        "isSpot": spot or None,
    }


def _availability(market: Market, request: Request) -> Answer:
    count = int(request.one("gpu_count", "1"))
    rows = [
        _row(goods, spot)
        for goods in market.for_sale("prime")
        for spot in (False, True)
        if goods.count == count and (goods.bid or not spot)
    ]
    page, size = int(request.one("page", "1")), 2
    return Answer(200, {"items": rows[(page - 1) * size : page * size], "totalCount": len(rows)})


def _pod(machine: Rented) -> dict[str, Any]:
    host, port = machine.address or (None, None)
    up = machine.state == "running" and host is not None
    return {
        "id": machine.id,
        "name": machine.label,
        "gpuName": machine.goods.id,
        "gpuCount": machine.goods.count,
        "status": _STATES[machine.state],
        "createdAt": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(machine.made_t)),
        "providerType": "datacrunch",
        "installationStatus": "FINISHED" if up else "PENDING",
        "installationFailure": None,
        "installationProgress": 100 if up else 10,
        "teamId": None,
        "resources": {},
        "sshConnection": f"root@{host} -p {port}" if up else [None],
        "ip": host if up else [None],
        "priceHr": machine.price,
        "isSpot": machine.spot,
    }


def _create(market: Market, request: Request) -> Answer:
    pod = request.body["pod"]
    goods = market.find("prime", str(pod.get("gpuType")))
    if (
        goods is None
        or goods.count != pod.get("gpuCount")
        or pod.get("cloudId") != f"cloud-{goods.id}"
    ):
        return failure(422, "no such offer")
    key = market.keys.get("prime", {}).get(str(pod.get("sshKeyId")))
    price = goods.price + (pod.get("diskSize") or 0) * _DISK_GB_HOUR
    if pod.get("maxPrice") is not None and pod["maxPrice"] < goods.price:
        return failure(400, "price above maxPrice")
    made = market.rent(
        goods,
        pod.get("name"),
        public_keys=() if key is None else (key,),
        body=request.body,
        price=price,
    )
    return Answer(200, _pod(made))


def _list(market: Market, request: Request) -> Answer:
    mine = market.of("prime")
    offset, limit = int(request.one("offset", "0")), int(request.one("limit", "100"))
    return Answer(
        200,
        {
            "total_count": len(mine),
            "offset": offset,
            "limit": limit,
            "data": [_pod(machine) for machine in mine[offset : offset + limit]],
        },
    )


def _get(market: Market, request: Request, machine_id: str) -> Answer:
    machine = market.get("prime", machine_id)
    return failure(404, "Pod not found") if machine is None else Answer(200, _pod(machine))


def _end(market: Market, request: Request, machine_id: str) -> Answer:
    if market.get("prime", machine_id) is None:
        return failure(404, "Pod not found")
    market.end(machine_id)
    return Answer(200, {"status": "success"})


def _keys(market: Market, request: Request) -> Answer:
    known = market.keys.get("prime", {})
    return Answer(
        200,
        {
            "total_count": len(known),
            "data": [{"id": name, "name": name, "publicKey": key} for name, key in known.items()],
        },
    )


def _add_key(market: Market, request: Request) -> Answer:
    known = market.keys.setdefault("prime", {})
    name = f"key-{len(known) + 1}"
    known[name] = request.body["publicKey"]
    return Answer(200, {"id": name, "name": request.body["name"], "publicKey": known[name]})


def _slash(market: Market, request: Request) -> Answer:
    return Answer(307, None, {"Location": f"http://{request.headers['host']}{request.path}/"})


def _wallet(market: Market, request: Request) -> Answer:
    wallet: dict[str, Any] = {
        "wallet_id": "wal_practice",
        "team_id": None,
        "balance_usd": market.credit_of("prime"),
        "currency": "USD",
        "total_billings": 0,
        "recent_billings": [],
    }
    return Answer(200, wallet)


ROUTES: list[Route] = [
    ("GET", r"/api/v1/billing/wallet", "balance", _wallet),
    ("POST", r"/api/v1/pods", "redirected", _slash),
    ("GET", r"/api/v1/pods", "redirected", _slash),
    ("GET", r"/api/v1/availability/gpus", "offers", _availability),
    ("POST", r"/api/v1/pods/", "create", _create),
    ("GET", r"/api/v1/pods/", "list", _list),
    ("GET", r"/api/v1/pods/([^/]+)", "get", _get),
    ("DELETE", r"/api/v1/pods/([^/]+)", "terminate", _end),
    ("GET", r"/api/v1/ssh_keys/", "keys", _keys),
    ("POST", r"/api/v1/ssh_keys/", "add-key", _add_key),
]
