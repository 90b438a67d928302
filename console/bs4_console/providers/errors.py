"""What can go wrong between the console and a provider, each with the next thing to do. No text
ever holds a key.
"""

from __future__ import annotations

from bs4_console.errors import FINDING, UNREACHABLE, USAGE, ConsoleError


class ProviderError(ConsoleError):
    """`provider` is its name."""

    exit_code = UNREACHABLE

    def __init__(self, provider: str, message: str, next_step: str = "") -> None:
        super().__init__(f"{provider}: {message}", next_step)
        self.provider = provider


class NoKey(ProviderError):
    exit_code = USAGE


class WrongKey(ProviderError):
    """The provider does not know the key (401)."""


class NotAllowed(ProviderError):
    """The key is known and may not do this (403). It says nothing about what exists: never
    "none".
    """


class RateLimited(ProviderError):
    """429. `after_s`: how long the provider asks to wait, if it says."""

    retry = True

    def __init__(
        self, provider: str, message: str, next_step: str = "", after_s: float | None = None
    ) -> None:
        super().__init__(provider, message, next_step)
        self.after_s = after_s


class Unreached(ProviderError):
    """No answer. `sent` False: the connection was never made, so the provider cannot have seen the
    request.
    """

    retry = True

    def __init__(
        self, provider: str, message: str, next_step: str = "", *, sent: bool = True
    ) -> None:
        super().__init__(provider, message, next_step)
        self.sent = sent


class ServerTrouble(ProviderError):
    """5xx: the provider failed; what it did before that is unknown."""

    retry = True


class BadAnswer(ProviderError):
    """An answer that is not what the API promises (no JSON, a redirect, a missing field, half a
    list): nothing is known by it.
    """


class NotThere(ProviderError):
    """404 in the API's own JSON: no such machine, offer or path. (Any other page with 404 is a
    BadAnswer.)
    """

    exit_code = USAGE


class Refused(ProviderError):
    """The provider understood and said no (no capacity, no credit, a bad field), or was surely
    never asked.
    """

    exit_code = FINDING


class NotSent(Refused):
    """The request never left this machine: nothing can have come of it."""


class InDoubt(ProviderError):
    """A create whose end is not known: the machine may exist. `label` is what to look for."""

    def __init__(self, provider: str, message: str, next_step: str, label: str) -> None:
        super().__init__(provider, message, next_step)
        self.label = label
