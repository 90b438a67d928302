"""Judge whether the account that pays a rented pod can pay it for long enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bs4_console.errors import ConsoleError
from bs4_console.preflight.checks import Check, State, said
from bs4_console.provision.account import Account

_BALANCE = ("provider-balance", "balance of the provider")
#: Hours. A run that begins now is not to be stopped before somebody looks again.
SOON_H, AT_ONCE_H = 24.0, 1.0


def judge(accounts: Sequence[Account], failures: Mapping[str, ConsoleError]) -> list[Check]:
    """Return a check for each account at a provider, which says whether its credit lasts, and a
    check with the state "unknown" for each provider that did not answer. `failures` has their
    errors, by the provider's name. The rate of spending includes the pod itself, which is one of
    the account's machines. There is no check for a provider whose API tells no balance.
    """
    checks = []
    for account in accounts:
        if account.balance.credit is None:
            continue
        hours = account.hours()
        state: State = "ok"
        if account.balance.prepaid and hours is None:
            state = "unknown"
        elif hours is not None and hours < SOON_H:
            state = "blocking" if hours < AT_ONCE_H else "warning"
        checks.append(
            said(
                _BALANCE,
                state,
                f"{account.provider}: {account.told()}.",
                f"Add credit at {account.provider}: it takes machines away, some with their disk, "
                "when there is none.",
            )
        )
    for name, error in failures.items():
        checks.append(
            said(
                _BALANCE,
                "unknown",
                f"{name} could not be asked: {error.message}",
                f"`bs4-console provision balance --provider {name}` asks again.",
            )
        )
    return checks
