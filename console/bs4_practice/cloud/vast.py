"""Vast.ai's side: bundles, asks, instances. Operators of the search, null labels, a too low bid
that leaves a stopped machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bs4_practice.cloud.fingerprints import fingerprint
from bs4_practice.cloud.market import Goods, Market, Rented
from bs4_practice.cloud.server import Answer, Request, Route

_STORAGE_GB_HOUR = 0.0003
_PAGE = 2
#: What docker shows for a port that is open on every address.
_ANY = "0.0.0.0"  # noqa: S104
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda have, want: have == want,
    "gte": lambda have, want: have >= want,
    "lte": lambda have, want: have <= want,
    "in": lambda have, want: have in want,
}


def allowed(request: Request, key: str) -> bool:
    """Return True if the request carries `key`, the API key of the account."""
    return request.headers.get("authorization") == f"Bearer {key}"


def failure(status: int, text: str) -> Answer:
    """Return an error answer in the form of Vast's API. `status` is its HTTP status and `text` its
    message.
    """
    return Answer(
        status, {"success": False, "error": text, "msg": f"{text}, says the practice cloud"}
    )


def _offer(goods: Goods, storage_gb: float, bids: bool) -> dict[str, Any]:
    storage = storage_gb * _STORAGE_GB_HOUR
    return {
        "id": int(goods.id),
        "ask_contract_id": int(goods.id),
        "gpu_name": goods.gpu,
        "num_gpus": goods.count,
        "gpu_ram": 81559,
        "dph_base": goods.bid if bids else goods.price,
        "dph_total": ((goods.bid or goods.price) if bids else goods.price) + storage,
        "storage_total_cost": storage,
        "min_bid": goods.bid,
        "reliability2": goods.reliability,
        "cuda_max_good": goods.cuda,
        "disk_space": float(goods.disk_gb),
        "geolocation": goods.region,
        "machine_id": int(goods.id) + 7000,
        "rentable": True,
        "rented": False,
        "verified": True,
        "external": False,
        "direct_port_count": 40,
        "inet_down_cost": 0.003,
    }


def _search(market: Market, request: Request) -> Answer:
    query = request.body
    rows = [
        _offer(goods, query.get("allocated_storage", 5.0), query.get("type") == "bid")
        for goods in market.for_sale("vast")
    ]
    for name, test in query.items():
        if isinstance(test, dict):
            for operator, wanted in test.items():
                rows = [
                    row for row in rows if name in row and _OPERATORS[operator](row[name], wanted)
                ]
    for column, direction in reversed(query.get("order", [])):
        rows.sort(key=lambda row: row[column], reverse=direction == "desc")
    return Answer(200, {"offers": rows[: query.get("limit", 64)]})


def _create(market: Market, request: Request, ask: str) -> Answer:
    goods, body = market.find("vast", ask), request.body
    if goods is None:
        return failure(404, "no_such_ask")
    keys = tuple(market.keys.get("vast", {}).values())
    more: dict[str, Any] = {
        "public_keys": keys,
        "start_command": body.get("onstart") or "",
        "body": body,
    }
    storage = body["disk"] * _STORAGE_GB_HOUR
    if body.get("price") is None:
        made = market.rent(goods, body.get("label"), **{**more, "price": goods.price + storage})
        return Answer(200, {"success": True, "new_contract": int(made.id)})
    more |= {"price": body["price"] + storage, "spot": True}
    if goods.bid is None or body["price"] < goods.bid:
        market.rent(goods, body.get("label"), **{**more, "state": "stopped", "raw": "low bid"})
        return failure(400, "bid_too_low")
    made = market.rent(goods, body.get("label"), **more)
    return Answer(200, {"success": True, "new_contract": int(made.id)})


def _instance(machine: Rented) -> dict[str, Any]:
    actual = {
        "starting": "loading",
        "running": "running",
        "stopped": None if machine.raw == "low bid" else "exited",
    }[machine.state]
    host, port = machine.address or (None, None)
    direct = machine.state == "running" and port is not None
    return {
        "id": int(machine.id),
        "label": machine.label,
        "actual_status": actual,
        "intended_status": "stopped" if machine.raw == "low bid" else "running",
        "cur_state": machine.state,
        "status_msg": "",
        "public_ipaddr": f"{host} " if host else None,
        "ssh_host": "ssh4.vast.ai",
        "ssh_port": 10600,
        "ports": {"22/tcp": [{"HostIp": _ANY, "HostPort": str(port)}]} if direct else None,
        "dph_total": machine.price,
        "start_date": machine.made_t,
        "gpu_name": machine.goods.gpu,
        "num_gpus": machine.goods.count,
        "extra_env": [],
    }


def _list(market: Market, request: Request) -> Answer:
    """Small pages, so that whoever reads only the first is found out."""
    mine = sorted(market.of("vast"), key=lambda machine: int(machine.id))
    after = int(json.loads(request.one("after_token", "0")))
    page = [machine for machine in mine if int(machine.id) > after][:_PAGE]
    more = page and page[-1] is not mine[-1]
    body = {
        "success": True,
        "total_instances": len(mine),
        "instances": [_instance(machine) for machine in page],
    }
    return Answer(200, {**body, "next_token": page[-1].id if more else None})


def _get(market: Market, request: Request, machine_id: str) -> Answer:
    machine = market.get("vast", machine_id)
    return Answer(200, {"instances": None if machine is None else _instance(machine)})


def _end(market: Market, request: Request, machine_id: str) -> Answer:
    if market.get("vast", machine_id) is None:
        return failure(404, "no_such_instance")
    market.end(machine_id)
    return Answer(200, {"success": True})


def _keys(market: Market, request: Request) -> Answer:
    return Answer(
        200,
        [{"id": int(name), "public_key": key} for name, key in market.keys.get("vast", {}).items()],
    )


def _add_key(market: Market, request: Request) -> Answer:
    known = market.keys.setdefault("vast", {})
    known[str(len(known) + 1)] = request.body["ssh_key"]
    return Answer(200, {"success": True})


def _logs(market: Market, request: Request, machine_id: str) -> Answer:
    host = request.headers["host"]
    return Answer(200, {"success": True, "result_url": f"http://{host}/vast/log/{machine_id}"})


def _log_file(market: Market, request: Request, machine_id: str) -> Answer:
    machine = market.get("vast", machine_id)
    if "authorization" in request.headers:
        # as object stores say to a signed address with a key beside it
        return failure(400, "only one auth mechanism allowed")
    if machine is None or not machine.host_key or "bs4-host-key" not in machine.start_command:
        return Answer(404, b"")
    return Answer(
        200, f"bs4-host-key 256 {fingerprint(machine.host_key)} root@practice (ED25519)\n".encode()
    )


def _user(market: Market, request: Request) -> Answer:
    user = {
        "id": 1,
        "email": "tester@example.org",
        "credit": market.credit_of("vast"),
        "balance": 0.0,
    }
    return Answer(200, user)


ROUTES: list[Route] = [
    ("GET", r"/api/v0/users/current/", "balance", _user),
    ("POST", r"/api/v0/bundles/", "offers", _search),
    ("PUT", r"/api/v0/asks/(\d+)/", "create", _create),
    ("GET", r"/api/v1/instances/", "list", _list),
    ("GET", r"/api/v0/instances/(\d+)/", "get", _get),
    ("DELETE", r"/api/v0/instances/(\d+)/", "terminate", _end),
    ("GET", r"/api/v0/ssh/", "keys", _keys),
    ("POST", r"/api/v0/ssh/", "add-key", _add_key),
    ("PUT", r"/api/v0/instances/request_logs/(\d+)/", "logs", _logs),
    ("GET", r"/log/(\d+)", "log-file", _log_file),
]
