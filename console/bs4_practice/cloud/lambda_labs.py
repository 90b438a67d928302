"""Lambda's side: instance types with regions that have capacity, launches with exactly one known
key, errors by code.
"""

from __future__ import annotations

from typing import Any

from bs4_practice.cloud.market import Market, Rented
from bs4_practice.cloud.server import Answer, Request, Route

_STATES = {"starting": "booting", "running": "active", "stopped": "unhealthy"}


def allowed(request: Request, key: str) -> bool:
    """Return True if the request carries `key`, the API key of the account."""
    return request.headers.get("authorization") == f"Bearer {key}"


def failure(status: int, text: str) -> Answer:
    """Return an error answer in the form of Lambda's API. `status` is its HTTP status and `text`
    its message.
    """
    code = {401: "global/invalid-api-key", 404: "global/object-does-not-exist"}.get(
        status, "instance-operations/launch/insufficient-capacity"
    )
    return Answer(status, {"error": {"code": code, "message": text, "suggestion": "try again"}})


def _types(market: Market, request: Request) -> Answer:
    data = {
        goods.id: {
            "instance_type": {
                "name": goods.id,
                "description": "2x H100",
                "gpu_description": goods.gpu,
                "price_cents_per_hour": round(goods.price * 100),
                "specs": {
                    "vcpus": 52,
                    "memory_gib": 450,
                    "storage_gib": goods.disk_gb,
                    "gpus": goods.count,
                },
            },
            "regions_with_capacity_available": [
                {"name": goods.region, "description": "Texas, USA"}
            ],
        }
        for goods in market.for_sale("lambda")
    }
    return Answer(200, {"data": data})


def _launch(market: Market, request: Request) -> Answer:
    body = request.body
    goods = market.find("lambda", body["instance_type_name"])
    known = market.keys.get("lambda", {})
    if len(body["ssh_key_names"]) != 1 or body["ssh_key_names"][0] not in known:
        return Answer(
            400,
            {
                "error": {
                    "code": "global/invalid-parameters",
                    "message": "exactly one known SSH key",
                    "suggestion": "",
                }
            },
        )
    if goods is None or goods.region != body["region_name"]:
        return failure(400, "not enough capacity")
    made = market.rent(
        goods, body.get("name"), public_keys=(known[body["ssh_key_names"][0]],), body=body
    )
    return Answer(200, {"data": {"instance_ids": [made.id]}})


def _instance(machine: Rented) -> dict[str, Any]:
    kind = {"name": machine.goods.id, "price_cents_per_hour": round(machine.price * 100)}
    up = machine.state == "running" and machine.address is not None
    return {
        "id": machine.id,
        "name": machine.label,
        "status": _STATES[machine.state],
        "region": {"name": machine.goods.region},
        "instance_type": kind,
        "ssh_key_names": [],
        **({"ip": machine.address[0]} if up and machine.address else {}),
    }


def _list(market: Market, request: Request) -> Answer:
    return Answer(200, {"data": [_instance(machine) for machine in market.of("lambda")]})


def _get(market: Market, request: Request, machine_id: str) -> Answer:
    machine = market.get("lambda", machine_id)
    return (
        failure(404, "no such instance")
        if machine is None
        else Answer(200, {"data": _instance(machine)})
    )


def _end(market: Market, request: Request) -> Answer:
    found = [
        machine for machine in market.of("lambda") if machine.id in request.body["instance_ids"]
    ]
    if not found:
        return failure(404, "no such instance")
    for machine in found:
        market.end(machine.id)
    return Answer(
        200,
        {
            "data": {
                "terminated_instances": [
                    {"id": machine.id, "status": "terminating"} for machine in found
                ]
            }
        },
    )


def _keys(market: Market, request: Request) -> Answer:
    return Answer(
        200,
        {
            "data": [
                {"id": name, "name": name, "public_key": key}
                for name, key in market.keys.get("lambda", {}).items()
            ]
        },
    )


def _add_key(market: Market, request: Request) -> Answer:
    known = market.keys.setdefault("lambda", {})
    known[request.body["name"]] = request.body["public_key"]
    return Answer(
        200,
        {
            "data": {
                "id": "k1",
                "name": request.body["name"],
                "public_key": request.body["public_key"],
            }
        },
    )


ROUTES: list[Route] = [
    ("GET", r"/instance-types", "offers", _types),
    ("POST", r"/instance-operations/launch", "create", _launch),
    ("GET", r"/instances", "list", _list),
    ("GET", r"/instances/([^/]+)", "get", _get),
    ("POST", r"/instance-operations/terminate", "terminate", _end),
    ("GET", r"/ssh-keys", "keys", _keys),
    ("POST", r"/ssh-keys", "add-key", _add_key),
]
