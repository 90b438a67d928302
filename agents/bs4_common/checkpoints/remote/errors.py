"""The errors of a store, by what can be done about them."""

from __future__ import annotations

from bs4_common.errors import AgentError


class StoreError(AgentError):
    """Base class of the errors of an object store. The attribute `passing` is True if the same call
    may succeed later although nobody changes anything.
    """

    type = "store"
    passing = False


class StoreAuth(StoreError):
    """Raised if the object store's key is unknown or revoked, or does not allow the call."""

    type = "store-auth"


class StoreThrottled(StoreError):
    """Raised if the object store still rejects requests for now (HTTP status 429 or 503) after all
    retries.
    """

    type = "store-throttled"
    passing = True


class StoreUnreachable(StoreError):
    """Raised if the object store cannot be reached (DNS, TCP, TLS or a broken connection) after all
    retries.
    """

    type = "store-unreachable"
    passing = True


class StoreFull(StoreError):
    """Raised if a cap of the object store's account (storage, transactions or downloads) is
    reached. Calls keep failing until a person raises the cap.
    """

    type = "store-full"


class NotThere(StoreError):
    """Raised if the bucket does not exist, or the file does not exist in it."""

    type = "store-not-there"


class StoreDamaged(StoreError):
    """Raised if a file in the object store differs from what the list of files that was uploaded
    with it (the manifest), or the file latest.json, says.
    """

    type = "store-damaged"
