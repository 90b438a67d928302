"""Send notices and the dead man's ping: limited in time, in order, and kept for the next cycle if a
receiver does not answer.
"""

from __future__ import annotations

import asyncio
import dataclasses
import http.client
import importlib
import json
import logging
import urllib.error
import urllib.request
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from bs4_console import __version__
from bs4_console.checks.recipients import Channel
from bs4_console.checks.transitions import Notice
from bs4_console.checks.verdict import CRITICAL, OK, UNKNOWN, WARNING, WORDS
from bs4_console.errors import ConsoleError, UsageError
from bs4_console.secret import redacted, redacted_values

#: Seconds that a receiver has for each step of one request.
TIMEOUT_S = 10.0
#: The number of notices that wait for a receiver that does not answer. If there are more, the
#: oldest are dropped, with a complaint.
KEPT = 100
#: Characters of a message. Discord takes 2000, and a person reads fewer.
TEXT_CHARS = 1500

_PRIORITY = {OK: "default", WARNING: "default", UNKNOWN: "high", CRITICAL: "urgent"}
_TAG = {OK: "white_check_mark", WARNING: "warning", UNKNOWN: "question", CRITICAL: "rotating_light"}


class NotSent(ConsoleError):
    """Raised when a receiver did not take a notice. The message names the channel and what
    happened, never the address.
    """


class Notifier:
    """Delivers the notices of `check --watch` to the channels of notify.toml. In each cycle of the
    watch it also pings those channels whose kind is healthchecks, a service that raises an alarm
    when the pings stop.

    `complain` is called with one sentence when a channel begins to fail, when it works again, and
    when a notice is dropped because 100 others (KEPT) wait already for a channel that fails.
    """

    def __init__(self, channels: Sequence[Channel], complain: Callable[[str], None]) -> None:
        """Keep the channels. Raises UsageError if one needs apprise and it is not installed, so
        that the failure comes at the start and not with the first critical notice.
        """
        self.channels = channels
        self._complain = complain
        self._waiting: dict[str, deque[Notice]] = {
            channel.name: deque(maxlen=KEPT) for channel in channels
        }
        self._failing: set[str] = set()
        for channel in channels:
            if channel.kind == "apprise":
                _apprise()  # fails at the start and not with the first critical notice

    async def tell(self, notices: Sequence[Notice], level: int, summary: str) -> None:
        """Send the notices of one cycle to every channel that wants them, after the notices of
        earlier cycles that the channel did not take. Then ping the channels of the kind
        healthchecks. `level` is the worst level of all pods (0 OK to 3 UNKNOWN) and `summary` a
        phrase about them; the pings carry both. A channel that fails raises nothing here.
        """
        await asyncio.gather(
            *(self._serve(channel, notices, level, summary) for channel in self.channels)
        )

    async def _serve(
        self, channel: Channel, notices: Sequence[Notice], level: int, summary: str
    ) -> None:
        """Send one channel its notices or its ping. A channel that fails keeps its notices for the
        next cycle.
        """
        waiting = self._waiting[channel.name]
        for notice in notices:
            if channel.wants(notice.level, notice.was):
                if len(waiting) == KEPT:
                    self._complain(
                        f"A notice for {channel.name} is dropped: {KEPT} others wait for it. "
                        "Look why it does not take them."
                    )
                waiting.append(notice)
        try:
            while waiting:
                await asyncio.to_thread(send, channel, waiting[0])
                waiting.popleft()
            if channel.kind == "healthchecks":
                await asyncio.to_thread(ping, channel, level, summary)
        except NotSent as error:
            if channel.name not in self._failing:
                self._complain(str(error))
            self._failing.add(channel.name)
        else:
            if channel.name in self._failing:
                self._complain(f"The channel {channel.name} takes notices again.")
            self._failing.discard(channel.name)


def send(channel: Channel, notice: Notice) -> None:
    """Send one notice to one channel now. To a channel of the kind healthchecks, which takes only
    pings, the notice goes as the content of a ping. Raises NotSent if the channel does not take it.
    """
    notice = dataclasses.replace(
        notice, **{key: redacted_values(value) for key, value in vars(notice).items()}
    )
    text = notice.text[:TEXT_CHARS]
    if channel.kind == "webhook":
        said = f"{notice.title} - {text}"
        # Slack and Mattermost show `text`, and Discord shows `content`. The rest is for programs.
        body = {"schema": "bs4.notice/1", "content": said, **notice.as_dict(), "text": said}
        _post(channel, json.dumps(body).encode(), {"Content-Type": "application/json"})
    elif channel.kind == "ntfy":
        headers = {
            "Title": _header(notice.title),
            "Priority": _PRIORITY[notice.level],
            "Tags": _TAG[notice.level],
        }
        _post(channel, text.encode(), headers)
    elif channel.kind == "apprise":
        _send_apprise(channel, notice.title, text)
    else:
        ping(channel, notice.level, f"{notice.title} - {text}")


def ping(channel: Channel, level: int, summary: str) -> None:
    """Send one ping, with `summary` as its content, to a channel of the kind healthchecks, a
    service that raises an alarm when the pings stop. It goes to the channel's address, or to
    `/fail` below that address if the channel has `fail` set and `level` is 2, CRITICAL. Raises
    NotSent if the channel does not take the ping.
    """
    suffix = "/fail" if channel.fail and level == CRITICAL else ""
    _post(
        channel,
        f"{WORDS[level]} - {redacted(summary)[:TEXT_CHARS]}".encode(),
        {"Content-Type": "text/plain; charset=utf-8"},
        suffix,
    )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which would carry the token to another server."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse to follow the redirect."""


_opener = urllib.request.build_opener(_NoRedirect)


def _post(channel: Channel, body: bytes, headers: dict[str, str], suffix: str = "") -> None:
    """Send one POST request. Raises NotSent, without the address in its message, if it fails."""
    headers = {**headers, "User-Agent": f"bs4-console/{__version__}"}
    if channel.token is not None:
        headers["Authorization"] = f"Bearer {channel.token.reveal()}"
    address = channel.url.reveal()
    try:
        request = urllib.request.Request(
            address.rstrip("/") + suffix if suffix else address, body, headers
        )
        with _opener.open(request, timeout=TIMEOUT_S):
            return  # 2xx: the body has nothing of use
    except urllib.error.HTTPError as error:
        error.close()
        raise _not_sent(channel, f"it answered with HTTP {error.code}") from None
    except urllib.error.URLError as error:
        detail = getattr(error.reason, "strerror", "") or type(error.reason).__name__
        raise _not_sent(channel, f"it cannot be reached ({detail})") from None
    except TimeoutError:
        raise _not_sent(channel, f"it did not answer within {TIMEOUT_S:.0f} s") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        # The messages of these errors may hold the address. Their class names do not.
        raise _not_sent(channel, f"the request failed ({type(error).__name__})") from None


def _not_sent(channel: Channel, why: str) -> NotSent:
    """Return the error for a channel that did not take a notice."""
    return NotSent(
        f"The channel {channel.name} ({channel.kind}) was not told: {why}.",
        "It is tried again; see notify.toml.",
    )


def _header(text: str) -> str:
    """Return text that is safe in a header. Headers are ASCII; other text is encoded by RFC 2047,
    which ntfy reads.
    """
    plain = " ".join(text.split())
    if plain.isascii():
        return plain
    return f"=?UTF-8?B?{b64encode(plain.encode()).decode()}?="


def _apprise() -> Any:
    """Return the module apprise. Raises UsageError if it is not installed."""
    try:
        module = importlib.import_module("apprise")
    except ImportError:
        raise UsageError(
            "notify.toml has a channel of kind apprise, which is an extra.",
            "Run `pip install 'bs4-console[apprise]'`.",
        ) from None
    # apprise logs addresses.
    logging.getLogger("apprise").addHandler(logging.NullHandler())
    logging.getLogger("apprise").propagate = False
    return module


def _send_apprise(channel: Channel, title: str, text: str) -> None:
    """Send one message by apprise. Raises NotSent if that fails."""
    target = _apprise().Apprise()
    if not target.add(channel.url.reveal()):
        raise _not_sent(channel, "apprise does not know that kind of address")
    if not target.notify(title=title, body=text):
        raise _not_sent(channel, "apprise could not deliver it")
