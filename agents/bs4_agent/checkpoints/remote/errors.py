"""The errors of a store, by what can be done about them."""

from __future__ import annotations

from bs4_agent.errors import AgentError


class StoreError(AgentError):
    """Base of the errors of a store. `passing` is True if the same call may succeed later without
    anybody doing anything.
    """

    type = "store"
    passing = False


class StoreAuth(StoreError):
    """Raised if the key is unknown, revoked, or not allowed to do this."""

    type = "store-auth"


class StoreThrottled(StoreError):
    """Raised if the store takes no more for now (429, 503), after all retries."""

    type = "store-throttled"
    passing = True


class StoreUnreachable(StoreError):
    """Raised if there is no answer (DNS, TCP, TLS, a broken connection), after all retries."""

    type = "store-unreachable"
    passing = True


class StoreFull(StoreError):
    """Raised if a cap of the account (storage, transactions, download) is reached. Nothing works
    until somebody raises it.
    """

    type = "store-full"


class NotThere(StoreError):
    """Raised if there is no such bucket, or no such file in it."""

    type = "store-not-there"


class StoreDamaged(StoreError):
    """Raised if the store holds something else than its manifest or pointer says."""

    type = "store-damaged"
