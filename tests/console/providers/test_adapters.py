"""Every adapter against its practice cloud, over real HTTP: what it asks, what it makes of the
answers, and what it never does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from bs4_console import providers
from bs4_console.errors import ConsoleError
from bs4_console.providers.base import Balance, Machine, Offer, Provider, Want, label_of
from bs4_console.providers.errors import (
    BadAnswer,
    InDoubt,
    NotAllowed,
    RateLimited,
    Refused,
    ServerTrouble,
    Unreached,
    WrongKey,
)
from bs4_console.provision.book import Book
from bs4_console.provision.rent import Patience, Provisioner
from bs4_practice.cloud import Cloud

from .conftest import CONTEXT, PUBLIC_KEY, adapter, key_of

WANT = Want(gpu="H100", count=2, max_price=20.0, disk_gb=100)
LABEL = label_of("qwen-grpo", "01KAPRACTCE0000000000000AA")


async def _rented(provider: Provider, want: Want = WANT, label: str = LABEL) -> tuple[Offer, str]:
    await provider.prepare(PUBLIC_KEY)
    offer = (await provider.offers(want))[0]
    return offer, await provider.create(offer, want, label, PUBLIC_KEY)


async def _until(provider: Provider, machine_id: str, state: str) -> Machine:
    async with asyncio.timeout(60):
        while True:
            machine = await provider.machine(machine_id)
            if machine is not None and machine.state == state:
                return machine
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", providers.NAMES)
async def test_a_machine_from_offer_to_end(
    cloud: Cloud, client: httpx.AsyncClient, name: str
) -> None:
    provider = adapter(cloud, name, client)
    offer, machine_id = await _rented(provider)
    assert offer.gpu.startswith("H100")
    assert (offer.provider, offer.count) == (name, 2)
    first = await provider.machine(machine_id)
    assert first is not None
    assert first.label == LABEL
    machine = await _until(provider, machine_id, "running")
    assert machine.host == "127.0.0.1"
    assert machine.port == (22 if name in ("lambda", "verda") else 9)
    assert machine.user == ("ubuntu" if name == "lambda" else "root")
    assert [seen.id for seen in await provider.machines()] == [machine_id]
    assert machine.price is not None
    await provider.terminate(machine)
    assert await provider.machine(machine_id) is None
    assert await provider.machines() == []
    await provider.terminate(machine)  # a second order for what is gone is no error
    assert cloud.market.rented[machine_id].raw == ""  # nothing that costs was left


@pytest.mark.parametrize("name", providers.NAMES)
async def test_the_offers_of_one_search_are_the_same_on_the_next_and_fit(
    cloud: Cloud, client: httpx.AsyncClient, name: str
) -> None:
    provider = adapter(cloud, name, client)
    first, second = await provider.offers(WANT), await provider.offers(WANT)
    assert first
    assert [offer.key for offer in first] == [offer.key for offer in second]
    assert [offer.price for offer in first] == sorted(offer.price for offer in first)
    assert await provider.offers(Want(gpu="H100", count=16)) == []
    assert await provider.offers(Want(gpu="B200", count=2)) == []
    # whose disks have no end
    assert await provider.offers(Want(gpu="H100", count=2, disk_gb=90_000)) == [] or name in (
        "runpod",
        "verda",
    )
    assert await provider.offers(Want(gpu="H100", count=2, region="nowhere")) == []


async def test_what_an_account_has_left(cloud: Cloud, client: httpx.AsyncClient) -> None:
    cloud.market.credit = {"vast": 12.5, "runpod": -0.25, "prime": 99.0, "verda": 50.5}
    left = {name: await adapter(cloud, name, client).balance() for name in providers.NAMES}
    credit = {name: balance.credit for name, balance in left.items()}
    assert credit == {**cloud.market.credit, "lambda": None}
    assert left["lambda"].why
    assert cloud.sent("lambda", "balance") == []
    cloud.fault("vast", "balance", "empty")
    with pytest.raises(BadAnswer):  # never taken for an empty account
        await adapter(cloud, "vast", client).balance()


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"credit": 3.0, "balance": -1.0}, 3.0),
        ({"balance": 7.25}, 7.25),
        ({"credit": "nan", "balance": 4}, 4.0),
        ({"credit": 3.0, "currency": "USD"}, 3.0),
        ({"credit": 3.0, "currency": "eur"}, None),
        ({"credit": True}, None),
        ({}, None),
    ],
)
async def test_a_balance_is_a_number_of_us_dollars_or_an_error(
    row: dict[str, object], told: float | None
) -> None:
    answer = httpx.Response(200, json=row)
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: answer)) as client:
        vast = providers.make("vast", client, key=key_of("vast"), environment={})
        if told is None:
            with pytest.raises(BadAnswer):
                await vast.balance()
        else:
            assert (await vast.balance()).credit == told


async def test_a_low_balance_does_not_stop_who_gets_invoices() -> None:
    answer = httpx.Response(200, json={"balanceAmount": 0.0, "billingMode": "POSTPAID"})
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: answer)) as client:
        made = providers.make("runpod", client, key=key_of("runpod"), environment={})
        assert await made.balance() == Balance(credit=0.0, prepaid=False)


async def test_prices_are_for_the_whole_machine_with_its_disk(
    cloud: Cloud, client: httpx.AsyncClient
) -> None:
    prices = {}
    for name in providers.NAMES:
        prices[name] = (await adapter(cloud, name, client).offers(WANT))[0].price
    assert prices == {
        "vast": pytest.approx(3.90 + 100 * 0.0003),
        "runpod": pytest.approx(5.38),
        "prime": pytest.approx(3.98 + 100 * 0.00014),
        "lambda": pytest.approx(6.38),
        "verda": pytest.approx(4.58 + 100 * 0.2 / 730),
    }


async def test_interruptible_offers_come_only_from_those_who_sell_them(
    cloud: Cloud, client: httpx.AsyncClient
) -> None:
    want = Want(gpu="H100", count=2, interruptible=True)
    for name in providers.NAMES:
        provider = adapter(cloud, name, client)
        offers = await provider.offers(want)
        assert bool(offers) == provider.capabilities.interruptible
        assert all(offer.interruptible for offer in offers)
    vast = (await adapter(cloud, "vast", client).offers(want))[0]
    assert vast.price == pytest.approx(1.90 + 100 * 0.0003)


async def test_vast_is_searched_by_place_reliability_cuda_and_disk(
    cloud: Cloud, client: httpx.AsyncClient
) -> None:
    vast = adapter(cloud, "vast", client)

    async def ids(**more: object) -> list[str]:
        return [offer.id for offer in await vast.offers(Want(gpu="H100", count=2, **more))]  # type: ignore[arg-type]

    assert await ids() == ["503", "502", "501"]
    assert await ids(reliability=0.99) == ["502", "501"]
    assert await ids(cuda="12.8") == ["503", "502"]
    assert await ids(region="nl") == ["501"]
    assert [offer.id for offer in await vast.offers(Want(gpu="H100-PCIe", count=2))] == ["501"]


async def test_an_interruptible_vast_machine_is_rented_with_a_bid_and_not_on_demand(
    cloud: Cloud, client: httpx.AsyncClient
) -> None:
    vast = adapter(cloud, "vast", client)
    await _rented(vast, Want(gpu="H100", count=2, interruptible=True))
    (sent,) = cloud.sent("vast", "create")
    assert sent.body["price"] == pytest.approx(1.90)
    assert next(iter(cloud.market.rented.values())).spot


async def test_a_bid_that_is_too_low_leaves_a_stopped_machine_which_is_seen(
    cloud: Cloud, client: httpx.AsyncClient
) -> None:
    vast = adapter(cloud, "vast", client)
    want = Want(gpu="H100", count=2, interruptible=True)
    offer = (await vast.offers(want))[0]
    next(goods for goods in cloud.market.goods if goods.id == offer.id).bid = 9.0
    with pytest.raises(Refused):
        await vast.create(offer, want, LABEL, PUBLIC_KEY)
    (machine,) = await vast.machines()
    assert (machine.label, machine.state) == (LABEL, "stopped")
    assert "bid was too low" in machine.raw_state


async def test_an_outbid_machine_says_so(cloud: Cloud, client: httpx.AsyncClient) -> None:
    vast = adapter(cloud, "vast", client)
    _, machine_id = await _rented(vast, Want(gpu="H100", count=2, interruptible=True))
    await _until(vast, machine_id, "running")
    cloud.market.outbid(machine_id)
    machine = await _until(vast, machine_id, "stopped")
    assert "outbid" in machine.raw_state
    assert machine.host != "127.0.0.1"


@pytest.mark.parametrize("name", ["vast", "prime"])
async def test_lists_are_read_to_their_last_page(
    cloud: Cloud, client: httpx.AsyncClient, name: str
) -> None:
    """Vast's practice list has two machines a page, Prime's search two offers."""
    if name == "vast":
        for goods in cloud.market.for_sale("vast"):
            cloud.market.rent(goods, None)
            cloud.market.rent(goods, "somebody else's")
        assert len(await adapter(cloud, name, client).machines()) == 8
    else:
        assert len(await adapter(cloud, name, client).offers(Want(gpu="RTX-4090", count=2))) == 1
        assert {request.one("page") for request in cloud.sent("prime", "offers")} == {"1", "2"}


async def test_a_label_that_is_null_is_data(cloud: Cloud, client: httpx.AsyncClient) -> None:
    for name in providers.NAMES:
        goods = cloud.market.for_sale(name)[0]
        cloud.market.rent(goods, None, body={"hostname": "h"})
        assert [machine.label for machine in await adapter(cloud, name, client).machines()] == [
            None
        ]


@pytest.mark.parametrize("name", providers.NAMES)
@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("401", WrongKey),
        ("403", NotAllowed),
        ("429-daily", RateLimited),
        ("502-html", ServerTrouble),
        ("drop", Unreached),
        ("not-json", BadAnswer),
        ("redirect", BadAnswer),
        ("empty", BadAnswer),
    ],
)
async def test_a_list_that_fails_is_an_error_and_never_an_empty_list(
    cloud: Cloud, client: httpx.AsyncClient, name: str, kind: str, error: type[ConsoleError]
) -> None:
    provider = adapter(cloud, name, client)
    await provider.prepare(PUBLIC_KEY)
    cloud.fault(name, "list", kind, times=9)
    with pytest.raises(error) as caught:
        await provider.machines()
    assert caught.value.next_step
    assert name in caught.value.message


@pytest.mark.parametrize("name", providers.NAMES)
async def test_reads_are_tried_again_and_creates_never(
    cloud: Cloud, client: httpx.AsyncClient, name: str
) -> None:
    provider = adapter(cloud, name, client)
    await provider.prepare(PUBLIC_KEY)
    cloud.fault(name, "offers", "500", times=2)
    offer = (await provider.offers(WANT))[0]
    for kind in ("500", "500-after", "drop", "drop-after", "502-html", "not-json", "empty"):
        cloud.fault(name, "create", kind)
        if name == "verda" and kind == "not-json":
            # its answer is plain text by nature; the sentence is not an id, and that is tested
            # below
            continue
        with pytest.raises(InDoubt) as caught:
            await provider.create(offer, WANT, LABEL, PUBLIC_KEY)
        assert caught.value.label == LABEL
        cloud.heal()
    assert len(cloud.sent(name, "create")) == (6 if name == "verda" else 7)


async def test_a_sentence_is_no_id(cloud: Cloud, client: httpx.AsyncClient) -> None:
    provider = adapter(cloud, "verda", client)
    cloud.fault("verda", "create", "not-json")
    with pytest.raises(InDoubt):
        await _rented(provider)


@pytest.mark.parametrize("name", providers.NAMES)
async def test_a_daily_quota_is_not_asked_again(
    cloud: Cloud, client: httpx.AsyncClient, name: str
) -> None:
    provider = adapter(cloud, name, client)
    cloud.fault(name, "offers", "429-daily", times=9)
    with pytest.raises(RateLimited):
        await provider.offers(WANT)
    assert len(cloud.sent(name, "offers")) == 1


async def test_a_create_that_cannot_have_been_sent_is_not_in_doubt(
    cloud: Cloud, client: httpx.AsyncClient
) -> None:
    vast = adapter(cloud, "vast", client)
    offer = (await vast.offers(WANT))[0]
    away = providers.make(
        "vast",
        client,
        key=(providers.Secret("some-key-123"),),
        environment={"BS4_VAST_URL": "http://127.0.0.1:9"},
    )
    with pytest.raises(Refused) as caught:
        await away.create(offer, WANT, LABEL, PUBLIC_KEY)
    assert not isinstance(caught.value, InDoubt)


@pytest.mark.parametrize("name", providers.NAMES)
async def test_no_secret_goes_along_with_a_create_and_no_error_repeats_the_key(
    cloud: Cloud, client: httpx.AsyncClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("WANDB_API_KEY", "HF_TOKEN", "B2_APPLICATION_KEY"):
        monkeypatch.setenv(variable, "canary-7f3a")
    await _rented(adapter(cloud, name, client))
    (sent,) = cloud.sent(name, "create")
    text = str(sent.body)
    assert "canary" not in text
    assert Cloud.KEY not in text
    wrong = "wrong-key-is-long-enough"
    with pytest.raises(WrongKey) as caught:
        await adapter(cloud, name, client, wrong).machines()
    assert wrong not in str(caught.value) + repr(caught.value) + repr(caught.value.__cause__)


@pytest.mark.parametrize("name", providers.NAMES)
async def test_the_public_key_is_registered_once(
    cloud: Cloud, client: httpx.AsyncClient, name: str
) -> None:
    provider = adapter(cloud, name, client)
    await provider.prepare(PUBLIC_KEY)
    await adapter(cloud, name, client).prepare(PUBLIC_KEY.rsplit(" ", 1)[0] + " another-comment")
    await _rented(provider)
    assert len(cloud.sent(name, "add-key")) == (0 if name == "runpod" else 1)
    machine = next(iter(cloud.market.rented.values()))
    assert [key.split()[:2] for key in machine.public_keys] == [PUBLIC_KEY.split()[:2]]


async def test_host_keys_are_learned_over_the_providers_api(
    cloud: Cloud, client: httpx.AsyncClient
) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
    for name in providers.NAMES:
        provider = adapter(cloud, name, client)
        _, machine_id = await _rented(provider)
        machine = await _until(provider, machine_id, "running")
        assert await provider.host_keys(machine) == ()  # not told yet
        cloud.market.rented[machine_id].host_key = key
        told = await provider.host_keys(machine)
        assert bool(told) == provider.capabilities.host_keys
        assert all(mark.startswith("SHA256:") for mark in told)


# Half answers: nothing is concluded from them


async def _answering(
    name: str, answer: Callable[[httpx.Request], httpx.Response]
) -> AsyncIterator[Provider]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), verify=CONTEXT) as client:
        yield providers.make(name, client, key=key_of(name), environment={})


def _pods(first: int, last: int) -> list[dict[str, str]]:
    return [
        {"id": f"p{number}", "name": f"n{number}", "status": "ACTIVE"}
        for number in range(first, last)
    ]


async def test_a_list_of_pods_that_ends_before_its_own_count_is_no_list() -> None:
    async for prime in _answering(
        "prime", lambda _: httpx.Response(200, json={"data": [], "total_count": 3})
    ):
        with pytest.raises(BadAnswer):
            await prime.machines()
    # the same page for ever
    async for prime in _answering(
        "prime", lambda _: httpx.Response(200, json={"data": _pods(0, 100)})
    ):
        with pytest.raises(BadAnswer):
            await prime.machines()


@pytest.mark.parametrize(
    ("count", "most"),
    [({}, 100), ({"total_count": 150}, 100), ({"total_count": 150}, 40), ({"total_count": 0}, 100)],
)
async def test_pods_are_read_to_the_last_with_and_without_a_count(
    count: dict[str, int], most: int
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        first = int(request.url.params["offset"])
        return httpx.Response(200, json={"data": _pods(first, min(first + most, 150)), **count})

    async for prime in _answering("prime", answer):
        assert len(await prime.machines()) == 150


@pytest.mark.parametrize("held", [None, []])
async def test_what_vast_itself_calls_a_failure_says_nothing_of_machines(held: object) -> None:
    answer = {"success": False, "error": "x", "msg": "try later", "instances": held}
    async for vast in _answering("vast", lambda _: httpx.Response(200, json=answer)):
        with pytest.raises(BadAnswer):
            await vast.machine("7")
        with pytest.raises(BadAnswer):
            await vast.machines()


@pytest.mark.parametrize("name", providers.NAMES)
@pytest.mark.parametrize(
    ("page", "gone"),
    [
        (b"<html>not found</html>", False),
        (b"", False),
        (b'"not found"', False),
        (b'{"message": "not found"}', True),
    ],
)
async def test_only_the_apis_own_404_says_that_a_machine_is_gone(
    name: str, page: bytes, gone: bool
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/token"):
            return httpx.Response(200, json={"access_token": "practice-token", "expires_in": 3600})
        return httpx.Response(404, content=page)

    async for provider in _answering(name, answer):
        machine = Machine(provider=name, id="7", label=LABEL, state="running", raw_state="running")
        if gone:
            assert await provider.machine("7") is None
            await provider.terminate(machine)
        else:
            with pytest.raises(BadAnswer):
                await provider.machine("7")
            with pytest.raises(BadAnswer):
                await provider.terminate(machine)


# Verda: the volume, the currency


class _Verda:
    """One rented machine at Verda, with its volume."""

    def __init__(self, **terms: object) -> None:
        self.terms: dict[str, object] = {
            "currency": "usd",
            "disk": "usd",
            "status": "running",
            "volume": 200,
            "trouble": (),
        } | terms
        self.orders: list[tuple[str, dict[str, object]]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path, terms = request.url.path.removeprefix("/v1"), self.terms
        if path in terms["trouble"]:  # type: ignore[operator]
            return httpx.Response(403, json={"message": "no"})
        if request.method == "PUT":
            self.orders.append((path, json.loads(request.content)))
            if path == "/volumes":
                terms["volume"] = None
            return httpx.Response(202)
        row = {
            "id": "i1",
            "description": LABEL,
            "status": terms["status"],
            "price_per_hour": 4.0,
            "os_volume_id": "v1",
            "ip": "192.0.2.7",
        }
        kind = {
            "instance_type": "2H",
            "model": "H100",
            "name": "H100 SXM5 80GB",
            "gpu": {"number_of_gpus": 2},
            "price_per_hour": "4.00",
            "gpu_memory": {"size_in_gigabytes": 160},
            "currency": terms["currency"],
        }
        answers: dict[str, object] = {
            "/oauth2/token": {"access_token": "practice-token", "expires_in": 3600},
            "/instances": [row],
            "/instances/i1": row,
            "/instance-types": [kind],
            "/instance-availability": [{"location_code": "FIN-01", "availabilities": ["2H"]}],
            "/volume-types": [
                {
                    "type": "NVMe",
                    "price": {"price_per_month_per_gb": 0.73, "currency": terms["disk"]},
                }
            ],
        }
        if terms["volume"] is not None:
            answers["/volumes/v1"] = {
                "id": "v1",
                "name": LABEL,
                "size": terms["volume"],
                "status": "detached",
                "deleted_at": None,
            }
        return (
            httpx.Response(200, json=answers[path])
            if path in answers
            else httpx.Response(404, json={"message": "not found"})
        )


async def test_the_volume_of_a_machine_that_verda_took_back_costs_and_is_ended(
    tmp_path: Path,
) -> None:
    world = _Verda(status="discontinued")
    async for verda in _answering("verda", world):
        found = await verda.machine("i1")
        assert found is not None
        assert (found.state, found.raw_state) == ("stopped", "discontinued, its volume is left")
        assert [machine.state for machine in await verda.machines()] == ["stopped"]
        rent = Provisioner(
            [verda], Book(tmp_path / "book"), "tester", patience=Patience(poll_s=0.01)
        )
        await rent.terminate(found)
        assert world.orders == [
            ("/volumes", {"id": ["v1"], "action": "delete", "is_permanent": True})
        ]
        after = await verda.machine("i1")
        assert after is not None
        assert after.state == "ended"


async def test_whether_the_volume_is_gone_is_not_guessed() -> None:
    world = _Verda(status="discontinued", trouble=("/volumes/v1",))
    async for verda in _answering("verda", world):
        with pytest.raises(NotAllowed):
            await verda.machine("i1")
    running = _Verda(trouble=("/volumes/v1",))
    async for verda in _answering("verda", running):
        found = await verda.machine("i1")
        assert found is not None
        assert (found.state, found.price) == ("running", None)


async def test_the_price_of_a_machine_at_verda_is_that_of_its_offer() -> None:
    async for verda in _answering("verda", _Verda()):
        (offer,) = await verda.offers(Want(gpu="H100", count=2, disk_gb=200))
        found = await verda.machine("i1")
        assert found is not None
        assert offer.price == pytest.approx(4.2)
        assert found.price == pytest.approx(offer.price)
        assert [machine.price for machine in await verda.machines()] == [pytest.approx(4.2)]


async def test_no_other_currency_is_taken_for_dollars() -> None:
    async for verda in _answering("verda", _Verda(currency="eur")):
        with pytest.raises(BadAnswer, match="in EUR, not in US dollars"):
            await verda.offers(WANT)
    async for verda in _answering("verda", _Verda(disk="eur")):
        (offer,) = await verda.offers(Want(gpu="H100", count=2, disk_gb=200))
        assert offer.price == pytest.approx(4.0)
        assert offer.notes == ("its disk costs 0.2000 EUR an hour more",)
