"""What the adapters of all providers share."""

from __future__ import annotations

import contextlib
from typing import Any

from bs4_console.providers.api import Api
from bs4_console.providers.base import Balance, Machine, number
from bs4_console.providers.errors import BadAnswer, NotThere
from bs4_console.providers.shapes import Row, rows, table


class Adapter:
    """The base class of the adapters, each of which makes one provider's API usable in the same way
    for one account there; an adapter is a Provider, as base.py describes it. A subclass sets `name`
    and `_api`, and implements `_read`, which makes a Machine from the provider's record of it.
    """

    name: str
    _api: Api

    async def machine(self, machine_id: str) -> Machine | None:
        """Return the machine with this id at the provider, or None if the provider says that no
        such machine exists.
        """
        try:
            return await self._read(machine_id)
        except NotThere:
            return None

    async def host_keys(self, machine: Machine) -> tuple[str, ...]:
        """Return an empty tuple, because this provider's API does not give a machine's SSH host
        keys.
        """
        return ()

    async def balance(self) -> Balance:
        """Return a Balance without a credit, because this provider's API does not tell one."""
        return Balance(credit=None, why="its API has no balance")

    def _credit(self, *amounts: object, currency: object = None) -> float:
        """Return the first of the amounts in an answer that is a number. Raises BadAnswer if none
        is one, or if the answer says a currency that is not US dollars.
        """
        in_dollars = str(currency or "usd").lower() == "usd"
        for amount in amounts:
            found = number(amount)
            if found is not None and in_dollars:
                return found
        raise BadAnswer(
            self.name,
            "its answer holds no balance in US dollars.",
            "Look at the provider's page.",
        )

    async def _read(self, machine_id: str) -> Machine | None:
        """Return the machine with this id. Raises NotThere, or returns None, if it does not
        exist.
        """
        raise NotImplementedError

    async def _end(self, method: str, path: str, body: Any = None) -> None:
        """Send the order that ends a machine. A machine that no longer exists is not an error."""
        with contextlib.suppress(NotThere):
            await self._api.once(method, path, body=body)

    async def _rows(self, path: str, key: str | None = None, params: Any = None) -> list[Row]:
        """Return the objects of the list that the API answers, or of the list at `key`."""
        return rows(self.name, await self._api.get(path, params), key)

    async def _table(self, path: str, key: str | None = None, params: Any = None) -> Row:
        """Return the object that the API answers, or the object at `key`."""
        return table(self.name, await self._api.get(path, params), key)
