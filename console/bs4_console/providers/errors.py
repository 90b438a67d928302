"""The errors between the console and a provider, each with the next thing to do. No text ever
contains a key.
"""

from __future__ import annotations

from bs4_console.errors import FINDING, UNREACHABLE, USAGE, ConsoleError


class ProviderError(ConsoleError):
    """The base of all errors that a call to a provider can raise. `provider` is the provider's
    name.
    """

    exit_code = UNREACHABLE

    def __init__(self, provider: str, message: str, next_step: str = "") -> None:
        super().__init__(f"{provider}: {message}", next_step)
        self.provider = provider


class NoKey(ProviderError):
    """Raised if no API key for the provider is found on this machine."""

    exit_code = USAGE


class WrongKey(ProviderError):
    """Raised if the provider does not accept the API key (status 401)."""


class NotAllowed(ProviderError):
    """Raised if the provider accepts the API key but does not permit this call with it (status
    403). Nothing can be concluded from it about which machines exist.
    """


class RateLimited(ProviderError):
    """Raised if the provider received too many requests from this account (status 429). `after_s`
    is the number of seconds that the provider asks the caller to wait, or None if it did not say.
    """

    retry = True

    def __init__(
        self, provider: str, message: str, next_step: str = "", after_s: float | None = None
    ) -> None:
        super().__init__(provider, message, next_step)
        self.after_s = after_s


class Unreached(ProviderError):
    """Raised if no answer came from the provider. `sent` is False if no connection was made, so
    that the provider cannot have received the request.
    """

    retry = True

    def __init__(
        self, provider: str, message: str, next_step: str = "", *, sent: bool = True
    ) -> None:
        super().__init__(provider, message, next_step)
        self.sent = sent


class ServerTrouble(ProviderError):
    """Raised if the provider failed with an error of its own (status 5xx). It may or may not have
    carried out the request before that.
    """

    retry = True


class BadAnswer(ProviderError):
    """Raised if an answer is not what the API promises: no JSON, a redirect, a missing field, or an
    incomplete list. Which machines exist cannot be concluded from it.
    """


class NotThere(ProviderError):
    """Raised if the API says, with status 404 and its own JSON, that the machine, offer or path
    does not exist. Any other page with status 404 raises BadAnswer instead.
    """

    exit_code = USAGE


class Refused(ProviderError):
    """Raised if the provider declined a request (no capacity, no credit, a wrong field) or surely
    never received it. Nothing was created.
    """

    exit_code = FINDING


class NotSent(Refused):
    """Raised if a request never left this machine. It cannot have created anything or cost any
    money at the provider.
    """


class InDoubt(ProviderError):
    """Raised if a request to create a machine failed, but the machine may exist nevertheless.
    `label` is the label by which to search for that machine.
    """

    def __init__(self, provider: str, message: str, next_step: str, label: str) -> None:
        super().__init__(provider, message, next_step)
        self.label = label
