"""What an account at a provider has left, and how long that lasts with its machines."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bs4_console.providers.base import Balance, Provider


@dataclass(frozen=True, kw_only=True)
class Account:
    """One account at the provider `provider`: `balance` is what it can still spend, and `rate` what
    all its machines cost together in US dollars an hour. The rate is None if the price of a machine
    is not known.
    """

    provider: str
    balance: Balance
    rate: float | None

    def hours(self, more: float = 0.0) -> float | None:
        """Return the hours after which the account's credit is used up, if its machines stay and
        `more` US dollars an hour are spent in addition. Return infinity if nothing costs anything.
        Return None if the credit or the rate is not known, or if the provider sends invoices, so
        that nothing ends with the credit.
        """
        credit = self.balance.credit
        if credit is None or self.rate is None or not self.balance.prepaid:
            return None
        if credit <= 0:
            return 0.0
        rate = self.rate + more
        return credit / rate if rate > 0 else math.inf

    def told(self, more: float = 0.0) -> str:
        """Return a clause for a person that says how long the account's credit lasts if `more` US
        dollars an hour are spent in addition to its machines, or why that is not known.
        """
        if self.balance.credit is None:
            return self.balance.why
        left = f"${self.balance.credit:.2f} left"
        hours = self.hours(more)
        if not self.balance.prepaid:
            return f"{left}, and invoices are sent: no machine is stopped for it"
        if hours is None or self.rate is None:
            return f"{left}, and the price of a machine is not known"
        if hours == 0:
            return f"{left}: it is used up"
        if math.isinf(hours):
            return f"{left}, and no machine costs anything now"
        return f"{left}, enough for {hours:.1f} hours at ${self.rate + more:.2f} an hour"


async def account_of(provider: Provider) -> Account:
    """Ask a provider for the balance of its account and for its machines, and return both as an
    Account. Raises a ProviderError if it does not answer.
    """
    balance = await provider.balance()
    prices = [machine.price for machine in await provider.machines() if machine.state != "ended"]
    rate = None if None in prices else sum(price for price in prices if price is not None)
    return Account(provider=provider.name, balance=balance, rate=rate)
