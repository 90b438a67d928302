"""The account that pays a rented pod: how long its credit lasts, and what a preflight says."""

from __future__ import annotations

import math
from pathlib import Path

import httpx
import pytest

from bs4_console.cli import preflight
from bs4_console.pods.inventory import Pod
from bs4_console.preflight import account as preflight_account
from bs4_console.providers import keys
from bs4_console.providers.base import Balance, Want
from bs4_console.providers.errors import Unreached
from bs4_console.provision.account import Account, account_of
from bs4_practice import cloud as clouds
from bs4_practice.cloud import Cloud
from tests.console.providers.conftest import CONTEXT, PUBLIC_KEY, adapter


def _account(credit: float | None, rate: float | None, prepaid: bool = True) -> Account:
    balance = Balance(credit=credit, why="" if credit else "nobody knows", prepaid=prepaid)
    return Account(provider="vast", balance=balance, rate=rate)


@pytest.mark.parametrize(
    ("account", "hours", "state"),
    [
        (_account(48.0, 2.0), 24.0, "ok"),
        (_account(47.0, 2.0), 23.5, "warning"),
        (_account(1.9, 2.0), 0.95, "blocking"),
        (_account(0.0, 0.0), 0.0, "blocking"),
        (_account(-3.0, 2.0), 0.0, "blocking"),
        (_account(0.5, 0.0), math.inf, "ok"),
        (_account(5.0, None), None, "unknown"),
        (_account(-3.0, 2.0, prepaid=False), None, "ok"),
    ],
)
def test_how_long_the_credit_lasts(account: Account, hours: float | None, state: str) -> None:
    assert account.hours() == hours
    (check,) = preflight_account.judge([account], {})
    assert (check.id, check.state) == ("provider-balance", state)
    assert account.told() in check.why


def test_who_tells_no_balance_gets_no_check_and_who_does_not_answer_an_unknown_one() -> None:
    assert preflight_account.judge([_account(None, 2.0)], {}) == []
    away = Unreached("vast", "no answer.", "Try again.", sent=False)
    (check,) = preflight_account.judge([], {"vast": away})
    assert (check.state, "no answer" in check.why) == ("unknown", True)
    assert "provision balance --provider vast" in check.fix


async def test_the_machines_of_the_account_are_its_rate() -> None:
    with clouds.running(boot_s=0.02) as cloud:
        async with httpx.AsyncClient(verify=CONTEXT) as client:
            provider = adapter(cloud, "runpod", client)
            want = Want(gpu="H100", count=2)
            offer = (await provider.offers(want))[0]
            assert (await account_of(provider)).hours() == math.inf
            await provider.create(offer, want, "mine", PUBLIC_KEY)
            cloud.market.credit["runpod"] = 2 * offer.price
            found = await account_of(provider)
            assert found.rate == pytest.approx(offer.price)
            assert found.hours() == pytest.approx(2.0)
            assert found.hours(offer.price) == pytest.approx(1.0)
            assert "2.0 hours" in found.told()


async def test_a_preflight_asks_for_a_rented_pod_with_a_key_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name.lower()))
    rented = Pod(name="a", host="192.0.2.1", provider="vast", instance="7")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("VAST_API_KEY", raising=False)
    assert await preflight._paid(rented) == []
    keys.store("vast", f"{Cloud.KEY}\n", in_file=True)
    assert await preflight._paid(Pod(name="b", host="192.0.2.1")) == []
    with clouds.running() as cloud:
        monkeypatch.setenv("BS4_VAST_URL", cloud.url("vast"))
        cloud.market.credit["vast"] = 0.0
        (check,) = await preflight._paid(rented)
    assert check.state == "blocking"
    assert Cloud.KEY not in check.why
