"""Verda's side: tokens, prices in strings, a plain id for an answer, no delete while it provisions,
volumes that stay unless named.
"""

from __future__ import annotations

import re
from typing import Any

from bs4_practice.cloud.market import Market, Rented
from bs4_practice.cloud.server import Answer, Cloud, Request, Route

_TOKEN = "practice-token-abcdefgh"  # noqa: S105 (what the practice cloud gives)
_STATES = {"starting": "provisioning", "running": "running", "stopped": "offline"}


def allowed(request: Request, key: str) -> bool:
    """Return True if the request carries the access token that the practice cloud gives out. `key`,
    the account's key, is not used: only the call for the token checks it.
    """
    return request.headers.get("authorization") == f"Bearer {_TOKEN}"


def failure(status: int, text: str) -> Answer:
    """Return an error answer in the form of Verda's API. `status` is its HTTP status and `text` its
    message.
    """
    return Answer(status, {"code": "invalid_request", "message": text})


def _token(market: Market, request: Request) -> Answer:
    body = request.body or {}
    if body.get("client_id") != "practice-client" or body.get("client_secret") != Cloud.KEY:
        return failure(401, "Invalid client id or client secret")
    return Answer(
        200,
        {
            "access_token": _TOKEN,
            "refresh_token": "r",
            "scope": "fullAccess",
            "token_type": "Bearer",
            "expires_in": 3600,
        },
    )


def _types(market: Market, request: Request) -> Answer:
    rows = [
        {
            "id": f"t-{goods.id}",
            "instance_type": goods.id,
            "price_per_hour": f"{goods.price:.4f}",
            "spot_price": f"{goods.bid or goods.price:.4f}",
            "description": "",
            "model": "H100",
            "name": goods.gpu,
            "gpu": {"description": goods.gpu, "number_of_gpus": goods.count},
            "gpu_memory": {"description": "", "size_in_gigabytes": 80 * goods.count},
            "currency": "usd",
        }
        for goods in market.for_sale("verda")
    ]
    return Answer(200, rows)


def _availability(market: Market, request: Request) -> Answer:
    return Answer(
        200,
        [
            {"location_code": goods.region, "availabilities": [goods.id]}
            for goods in market.for_sale("verda")
        ],
    )


def _volumes(market: Market, request: Request) -> Answer:
    return Answer(
        200, [{"type": "NVMe", "price": {"price_per_month_per_gb": 0.2, "currency": "usd"}}]
    )


def _volume(market: Market, request: Request, volume_id: str) -> Answer:
    machine = market.get("verda", volume_id.removeprefix("vol-"))
    if machine is None:
        return failure(404, "Volume not found")
    size = machine.body["os_volume"]["size"]
    return Answer(
        200,
        {
            "id": volume_id,
            "name": machine.label,
            "size": size,
            "status": "attached",
            "deleted_at": None,
        },
    )


def _instance(machine: Rented) -> dict[str, Any]:
    return {
        "id": machine.id,
        "hostname": machine.body["hostname"],
        "description": machine.label,
        "status": _STATES[machine.state],
        "ip": machine.address[0] if machine.address and machine.state == "running" else None,
        "price_per_hour": machine.price,
        "os_volume_id": f"vol-{machine.id}",
        "location": machine.goods.region,
        "created_at": "2026-11-22T10:00:00.000Z",
        "instance_type": machine.goods.id,
        "is_spot": machine.spot,
    }


def _create(market: Market, request: Request) -> Answer:
    body = request.body
    goods = market.find("verda", body["instance_type"])
    if goods is None or goods.region != body["location_code"]:
        return failure(503, "Not enough resources")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,59}", body["hostname"]) or not body["ssh_key_ids"][0]:
        return failure(400, "Invalid hostname or key")
    key = market.keys.get("verda", {}).get(body["ssh_key_ids"][0])
    made = market.rent(
        goods,
        body["description"],
        public_keys=() if key is None else (key,),
        body=body,
        spot=body["is_spot"],
        price=goods.bid if body["is_spot"] and goods.bid else goods.price,
    )
    return Answer(202, made.id.encode(), {"Content-Type": "text/plain"})


def _list(market: Market, request: Request) -> Answer:
    return Answer(200, [_instance(machine) for machine in market.of("verda")])


def _get(market: Market, request: Request, machine_id: str) -> Answer:
    machine = market.get("verda", machine_id)
    return (
        failure(404, "Instance not found") if machine is None else Answer(200, _instance(machine))
    )


def _action(market: Market, request: Request) -> Answer:
    body = request.body
    machine = market.get("verda", body["id"][0])
    if machine is None:
        return failure(404, "Instance not found")
    if machine.state == "starting":
        return failure(400, "Can't discontinue a provisioning instance")
    market.end(
        machine.id, "" if f"vol-{machine.id}" in (body.get("volume_ids") or []) else "volume left"
    )
    return Answer(202)


def _keys(market: Market, request: Request) -> Answer:
    return Answer(
        200,
        [
            {"id": name, "name": name, "key": key}
            for name, key in market.keys.get("verda", {}).items()
        ],
    )


def _add_key(market: Market, request: Request) -> Answer:
    known = market.keys.setdefault("verda", {})
    name = f"key-{len(known) + 1}"
    known[name] = request.body["key"]
    return Answer(201, name.encode(), {"Content-Type": "text/plain"})


def _balance(market: Market, request: Request) -> Answer:
    return Answer(200, {"amount": market.credit_of("verda"), "currency": "usd"})


ROUTES: list[Route] = [
    ("GET", r"/balance", "balance", _balance),
    ("POST", r"/oauth2/token", "token", _token),
    ("GET", r"/instance-types", "offers", _types),
    ("GET", r"/instance-availability", "availability", _availability),
    ("GET", r"/volume-types", "volume-types", _volumes),
    ("GET", r"/volumes/([^/]+)", "volume", _volume),
    ("POST", r"/instances", "create", _create),
    ("GET", r"/instances", "list", _list),
    ("GET", r"/instances/([^/]+)", "get", _get),
    ("PUT", r"/instances", "terminate", _action),
    ("GET", r"/sshkeys", "keys", _keys),
    ("POST", r"/sshkeys", "add-key", _add_key),
]
