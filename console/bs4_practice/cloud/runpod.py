"""RunPod's side, REST v2: unknown fields are refused by name, errors are RFC 9457 problems, lists
are wrapped.
"""

from __future__ import annotations

import json
import time
from typing import Any

from bs4_practice.cloud.fingerprints import fingerprint
from bs4_practice.cloud.market import Market, Rented
from bs4_practice.cloud.server import Answer, Request, Route

_FIELDS = {
    "name",
    "image",
    "cloud",
    "cpu",
    "gpu",
    "dataCenterIds",
    "globalNetworking",
    "mounts",
    "startJupyter",
    "startSsh",
    "templateId",
    "args",
    "disk",
    "ports",
    "env",
    "registry",
}
_STATES = {"starting": "PROVISIONING", "running": "RUNNING", "stopped": "EXITED"}


def allowed(request: Request, key: str) -> bool:
    """Return True if the request carries `key`, the API key of the account."""
    return request.headers.get("authorization") == f"Bearer {key}"


def failure(status: int, text: str) -> Answer:
    """Return an error answer in the form of RunPod's API. `status` is its HTTP status and `text`
    its message.
    """
    return Answer(
        status, {"title": text, "status": status, "detail": f"{text}, says the practice cloud"}
    )


def _gpus(market: Market, request: Request) -> Answer:
    count, secure = int(request.one("count", "1")), request.one("cloud", "SECURE") == "SECURE"
    if request.one("include") == "AVAILABILITY" and not request.one("product"):
        return failure(400, "product is required")
    rows = [
        {
            "id": goods.id,
            "name": goods.gpu.removeprefix("NVIDIA "),
            "pool": None,
            "manufacturer": "NVIDIA",
            "memory": 80 if "H100" in goods.id else 24,
            "secure": True,
            "community": False,
            "price": {"secure": goods.price / goods.count, "community": 0.0},
            "maxCount": {"secure": 8, "community": 0},
            "availability": "HIGH" if secure and count <= 8 else "NONE",
            "dataCenters": [{"id": goods.region, "name": goods.region, "availability": "HIGH"}],
        }
        for goods in market.for_sale("runpod")
    ]
    return Answer(200, {"gpus": rows})


def _pod(machine: Rented) -> dict[str, Any]:
    host, port = machine.address or (None, None)
    direct = (
        {"host": host, "port": port, "username": "root", "command": f"ssh root@{host} -p {port}"}
        if host
        else None
    )
    proxy = {
        "host": "ssh.runpod.io",
        "port": 22,
        "username": f"{machine.id}-64411eb2",
        "command": "",
    }
    return {
        "id": machine.id,
        "name": machine.label,
        "image": "runpod/pytorch",
        "args": "",
        "disk": 50,
        "ports": ["22/tcp"],
        "env": {},
        "registry": None,
        "status": _STATES[machine.state],
        "actions": ["terminate"],
        "mounts": {},
        "gpu": {"id": machine.goods.id, "count": machine.goods.count},
        "cloud": "SECURE",
        "dataCenterId": machine.goods.region,
        "cudaVersion": "12.8",
        "ssh": {"proxy": proxy, "direct": direct if machine.state == "running" else None},
        "template": None,
        "cost": machine.price if machine.state != "stopped" else 0.0,
        "locked": False,
        "globalNetworking": {"enabled": False},
        "runtime": None,
        "createdAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(machine.made_t)),
        "startedAt": None,
    }


def _create(market: Market, request: Request) -> Answer:
    body = request.body
    if unknown := sorted(set(body) - _FIELDS):
        return Answer(
            422,
            {
                "title": "Unprocessable",
                "status": 422,
                "detail": "bad body",
                "errors": [f"$: {unknown[0]!r} not allowed"],
            },
        )
    if not body.get("name") or not body.get("image") or ("gpu" in body) == ("cpu" in body):
        return failure(422, "name, image and exactly one of gpu or cpu are required")
    goods = market.find("runpod", body["gpu"]["id"])
    if goods is None or body["gpu"].get("count", 1) != goods.count:
        return failure(400, "no instances available")
    keys = (
        (body["env"]["PUBLIC_KEY"],)
        if body.get("startSsh") and "PUBLIC_KEY" in body.get("env", {})
        else ()
    )
    return Answer(201, _pod(market.rent(goods, body["name"], public_keys=keys, body=body)))


def _list(market: Market, request: Request) -> Answer:
    return Answer(200, {"pods": [_pod(machine) for machine in market.of("runpod")]})


def _get(market: Market, request: Request, machine_id: str) -> Answer:
    machine = market.get("runpod", machine_id)
    return failure(404, "pod not found") if machine is None else Answer(200, _pod(machine))


def _end(market: Market, request: Request, machine_id: str) -> Answer:
    if market.get("runpod", machine_id) is None:
        return failure(404, "pod not found")
    market.end(machine_id)
    return Answer(204)


def _logs(market: Market, request: Request, machine_id: str) -> Answer:
    machine = market.get("runpod", machine_id)
    if machine is None:
        return failure(404, "pod not found")
    mark = (
        f"256 {fingerprint(machine.host_key)} root@practice (ED25519)" if machine.host_key else ""
    )
    lines = ["Pod started", "SSH host keys:", "Key: /etc/ssh/ssh_host_ed25519_key.pub", mark]
    events = [
        f"id: {n}\ndata: {json.dumps({'ts': str(n), 'source': 'container', 'line': line})}\n\n"
        for n, line in enumerate(lines)
    ]
    return Answer(200, "".join(events).encode(), {"Content-Type": "text/event-stream"})


def _balance(market: Market, request: Request) -> Answer:
    return Answer(200, {"balanceAmount": market.credit_of("runpod"), "billingMode": "PREPAID"})


ROUTES: list[Route] = [
    ("GET", r"/billing/balance", "balance", _balance),
    ("GET", r"/catalog/gpus", "offers", _gpus),
    ("POST", r"/pods", "create", _create),
    ("GET", r"/pods", "list", _list),
    ("GET", r"/pods/([^/]+)", "get", _get),
    ("DELETE", r"/pods/([^/]+)", "terminate", _end),
    ("GET", r"/pods/([^/]+)/logs", "logs", _logs),
]
