"""What a store can answer, by what is to be done about it."""

from __future__ import annotations

from bs4_agent.errors import AgentError


class StoreError(AgentError):
    """Base of what a store answers. `passing`: the same call may succeed later without anybody
    doing anything.
    """

    type = "store"
    passing = False


class StoreAuth(StoreError):
    """The key is unknown, revoked, or may not do this here."""

    type = "store-auth"


class StoreThrottled(StoreError):
    """The store takes no more for now (429, 503), after all retries."""

    type = "store-throttled"
    passing = True


class StoreUnreachable(StoreError):
    """No answer: DNS, TCP, TLS, a connection that broke, after all retries."""

    type = "store-unreachable"
    passing = True


class StoreFull(StoreError):
    """A cap of the account (storage, transactions, download) is reached: nothing goes on before
    somebody raises it.
    """

    type = "store-full"


class NotThere(StoreError):
    """No such bucket, or no such file in it."""

    type = "store-not-there"


class StoreDamaged(StoreError):
    """What the store holds is not what its manifest or pointer says."""

    type = "store-damaged"
