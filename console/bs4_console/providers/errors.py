"""The errors between the console and a provider, each with the next thing to do. No text ever
contains a key.
"""

from __future__ import annotations

from bs4_console.errors import FINDING, UNREACHABLE, USAGE, ConsoleError


class ProviderError(ConsoleError):
    """The base of all errors of a call to a provider. `provider` is the provider's name."""

    exit_code = UNREACHABLE

    def __init__(self, provider: str, message: str, next_step: str = "") -> None:
        super().__init__(f"{provider}: {message}", next_step)
        self.provider = provider


class NoKey(ProviderError):
    """Raised if this machine has no key for the provider."""

    exit_code = USAGE


class WrongKey(ProviderError):
    """Raised if the provider does not know the key (status 401)."""


class NotAllowed(ProviderError):
    """Raised if the provider knows the key and does not permit it this call (status 403). The
    answer says nothing about which machines exist.
    """


class RateLimited(ProviderError):
    """Raised if the provider received too many requests (status 429). `after_s` is the number of
    seconds that it asks to wait, or None if it names none.
    """

    retry = True

    def __init__(
        self, provider: str, message: str, next_step: str = "", after_s: float | None = None
    ) -> None:
        super().__init__(provider, message, next_step)
        self.after_s = after_s


class Unreached(ProviderError):
    """Raised if the provider did not answer. `sent` is False if no connection was made, so that the
    provider cannot have seen the request.
    """

    retry = True

    def __init__(
        self, provider: str, message: str, next_step: str = "", *, sent: bool = True
    ) -> None:
        super().__init__(provider, message, next_step)
        self.sent = sent


class ServerTrouble(ProviderError):
    """Raised if the provider failed (status 5xx). It is unknown what it did before."""

    retry = True


class BadAnswer(ProviderError):
    """Raised if an answer is not what the API promises: no JSON, a redirect, a missing field, half
    a list. Such an answer says nothing about what exists.
    """


class NotThere(ProviderError):
    """Raised if the API answered status 404 in its own JSON: the machine, offer or path does not
    exist. (Any other page with status 404 is a BadAnswer.)
    """

    exit_code = USAGE


class Refused(ProviderError):
    """Raised if the provider understood the request and declined it (no capacity, no credit, a bad
    field), or surely never received it.
    """

    exit_code = FINDING


class NotSent(Refused):
    """Raised if the request never left this machine, so that it had no effect."""


class InDoubt(ProviderError):
    """Raised if a create failed and the machine may exist. `label` is the label to search for."""

    def __init__(self, provider: str, message: str, next_step: str, label: str) -> None:
        super().__init__(provider, message, next_step)
        self.label = label
