"""The HTTP calls to one provider, with failures as typed errors. Reads are repeated a few times. A
request that spends money is sent exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from bs4_common.foreign_json import loads
from bs4_console.providers.errors import (
    BadAnswer,
    InDoubt,
    NotAllowed,
    NotSent,
    NotThere,
    ProviderError,
    RateLimited,
    Refused,
    ServerTrouble,
    Unreached,
    WrongKey,
)
from bs4_console.providers.shapes import inside
from bs4_console.secret import Secret

#: Seconds for connecting, and for each wait for the next bytes of an answer. A create may take long
#: on the provider's side.
TIMEOUT = httpx.Timeout(60.0, connect=10.0)
#: Seconds to wait before a read is tried again. More tries would only hide that the provider is
#: away.
PAUSES_S = (0.5, 2.0)
#: An answer larger than this is refused. An account's machines or a market's offers are far
#: smaller.
MOST_BYTES = 16 << 20
_TEXT_CHARS = 200
#: The fields in which the APIs say why they failed.
_SAID = ("code", "error", "title", "message", "msg", "detail")
_LATER = "Try again; `bs4-console provision list` shows what exists."


@dataclass(frozen=True)
class _Answer:
    """What the provider has answered: the HTTP status, the header Retry-After and the body."""

    status: int
    retry_after: str | None
    content: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Api:
    """Sends requests to the API of one provider. `authorize` returns the headers that prove the
    account, and may first fetch a token. If it is not given, the first of the key's secrets is sent
    as a bearer token. Redirects are not followed, because they would carry the key to another
    server.
    """

    def __init__(
        self,
        provider: str,
        client: httpx.AsyncClient,
        base_url: str,
        secrets: tuple[Secret, ...],
        authorize: Callable[[], Awaitable[Mapping[str, str]]] | None = None,
        pauses_s: tuple[float, ...] = PAUSES_S,
    ) -> None:
        self.provider = provider
        self.base_url = base_url.rstrip("/")
        self._client = client
        self._secrets = list(secrets)
        self._authorize = authorize or self._bearer
        self._pauses_s = pauses_s

    def hide(self, secret: Secret) -> None:
        """Add another secret (a token that the API issued) that must not appear in any error
        message.
        """
        self._secrets.append(secret)

    async def get(self, path: str, params: Any = None) -> Any:
        """Return the JSON answer to a GET request for `path`, which is below the provider's
        address; `params` are the query parameters of the URL. The request is repeated up to twice
        if the provider cannot be reached, fails, or asks to wait for at most 10 seconds. Raises a
        ProviderError that says why there is no answer.
        """
        return await self._patiently(lambda: self.once("GET", path, params=params))

    async def ask(self, method: str, path: str, body: Any) -> Any:
        """Return the JSON answer to a request that only reads, such as a search, although the API
        wants it sent with the HTTP method `method` and the JSON body `body`. It is repeated up to
        twice if the provider cannot be reached, fails, or asks to wait for at most 10 seconds.
        Raises a ProviderError that says why there is no answer.
        """
        return await self._patiently(lambda: self.once(method, path, body=body))

    async def once(
        self, method: str, path: str, *, body: Any = None, params: Any = None, text: bool = False
    ) -> Any:
        """Send a request with the HTTP method `method` exactly once, without repeating it after an
        error. `body` is sent as JSON, and `params` are the query parameters of the URL. Return the
        JSON of the answer, None if the answer is empty, or the plain text of the answer if `text`
        is True. Raises a ProviderError that says what went wrong: BadAnswer if the answer is no
        JSON, is nested more than 64 levels deep or is larger than MOST_BYTES (16 MiB).
        """
        response = await self._send(method, path, body, params)
        if text:
            return response.content.decode("utf-8", "replace")
        if not response.content.strip():
            return None
        try:
            return loads(response.content)
        except ValueError:
            raise BadAnswer(
                self.provider, f"the answer to {method} {path} is no JSON.", _LATER
            ) from None

    async def spend(
        self, method: str, path: str, body: Any, label: str, *, text: bool = False
    ) -> Any:
        """Send the request that creates the machine `label` exactly once, because it costs money.
        It has the HTTP method `method` and the JSON body `body`. Return the JSON of the answer,
        None if the answer is empty, or its plain text if `text` is True.

        Raises NotSent if the request never left this machine, InDoubt if after an error the machine
        may exist, and another ProviderError if the provider refused.
        """
        try:
            return await self.once(method, path, body=body, text=text)
        except (Unreached, ServerTrouble, BadAnswer) as error:
            why = error.message.partition(": ")[2]
            if isinstance(error, Unreached) and not error.sent:
                raise NotSent(self.provider, why, error.next_step) from None
            raise self.doubt(why, label) from None

    def doubt(self, why: str, label: str) -> InDoubt:
        """Make the error for a request to create the machine `label` whose result is not known: the
        machine may or may not exist. `why` is a text that says what went wrong. The error is
        returned and not raised.
        """
        return InDoubt(
            self.provider,
            f"it is not known whether {label} was made: {why}",
            "Look before renting again: `bs4-console provision list`.",
            label,
        )

    async def _patiently(self, work: Callable[[], Awaitable[Any]]) -> Any:
        for pause in self._pauses_s:
            try:
                return await work()
            except RateLimited as error:
                if error.after_s is None or error.after_s > 10:
                    raise  # a daily quota, or longer than anybody waits here
                await asyncio.sleep(error.after_s)
            except (Unreached, ServerTrouble):
                await asyncio.sleep(pause)
        return await work()

    async def _send(self, method: str, path: str, body: Any, params: Any) -> _Answer:
        headers = {"Accept": "application/json", **await self._authorize()}
        try:
            request = self._client.build_request(
                method,
                self.base_url + path,
                json=body,
                params=params,
                headers=headers,
                timeout=TIMEOUT,
            )
            async with asyncio.timeout(120):
                response = await self._client.send(request, stream=True, follow_redirects=False)
                try:
                    content = await beginning(response, MOST_BYTES + 1)
                finally:
                    await response.aclose()
        except (
            httpx.ConnectError,
            httpx.ConnectTimeout,
            httpx.PoolTimeout,
            httpx.UnsupportedProtocol,
        ) as error:
            raise Unreached(
                self.provider,
                f"it cannot be reached ({self._clean(error)}).",
                "Check the network; try again.",
                sent=False,
            ) from None
        except (httpx.HTTPError, TimeoutError) as error:
            raise Unreached(
                self.provider,
                f"no answer to {method} {path} ({self._clean(error)}).",
                _LATER,
            ) from None
        if len(content) > MOST_BYTES:
            raise BadAnswer(
                self.provider,
                f"the answer to {method} {path} is larger than {MOST_BYTES} bytes.",
                _LATER,
            )
        answer = _Answer(response.status_code, response.headers.get("Retry-After"), content)
        if not answer.is_success:
            raise self._failure(method, path, answer)
        return answer

    def _failure(self, method: str, path: str, response: _Answer) -> ProviderError:
        status, said = response.status, self._said(response)
        what = f"{method} {path} was answered with {status}" + (f": {said}" if said else "") + "."
        if status == 401:
            return WrongKey(
                self.provider,
                f"the key is not accepted ({status}).",
                f"Store another: `bs4-console provision key {self.provider}`.",
            )
        if status == 403:
            return NotAllowed(
                self.provider, what, "Give the key the permission to read, create and end machines."
            )
        if status == 404 and not _is_object(response.content):
            # A proxy's page, or a wrong address: it does not say whether the thing exists.
            return BadAnswer(self.provider, f"{what[:-1]}, and not by its API.", _LATER)
        if status == 404:
            return NotThere(
                self.provider, what, "`bs4-console provision list` shows what there is."
            )
        if status == 429:
            return RateLimited(
                self.provider,
                what,
                "Wait, then try again.",
                _seconds(response.retry_after),
            )
        if status >= 500:
            return ServerTrouble(self.provider, what, _LATER)
        if 300 <= status < 400:
            return BadAnswer(
                self.provider,
                f"{method} {path} redirects elsewhere, which is not followed.",
                "Correct the base URL.",
            )
        return Refused(self.provider, what, "Change what is asked for, or take another offer.")

    def _said(self, response: _Answer) -> str:
        """Return the provider's own words on one line, shortened and without any key. Return "" if
        the answer holds none.
        """
        try:
            data = loads(response.content)
        except ValueError:
            return ""
        for part in (data, inside(data, "error")):
            words = []
            for key in _SAID:
                if isinstance(inside(part, key), str):
                    words.append(part[key])
            if words:
                return self._clean(", ".join(dict.fromkeys(words)))
        return ""

    def _clean(self, text: object) -> str:
        line = "".join(
            character if character.isprintable() else " "
            for character in (str(text) or type(text).__name__)
        )
        for secret in self._secrets:
            line = line.replace(secret.reveal(), "(hidden)")
        return line[:_TEXT_CHARS].rstrip(" .")

    async def _bearer(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._secrets[0].reveal()}"}


async def beginning(response: httpx.Response, most: int) -> bytes:
    """Return the first `most` bytes of the body of a response that is being received, or all of
    them if there are fewer. What a machine has written to its own log has no end that is certain.
    """
    found = bytearray()
    async for piece in response.aiter_bytes():
        found += piece
        if len(found) >= most:
            break
    return bytes(found[:most])


def _is_object(content: bytes) -> bool:
    try:
        return isinstance(loads(content), dict)
    except ValueError:
        return False


def _seconds(text: str | None) -> float | None:
    try:
        if text:
            return max(0.0, float(text))
        return None
    except ValueError:
        return None  # an HTTP date: longer than anybody waits here
