"""What a provider's API answers is read up to a ceiling, and parsed within limits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from bs4_console.providers import api, runpod
from bs4_console.providers.api import Api
from bs4_console.providers.errors import BadAnswer, InDoubt, ServerTrouble
from bs4_console.secret import Secret

PIECE = b"x" * 65_536
DEEP = b"[" * 100_000 + b"]" * 100_000


class Endless(httpx.AsyncByteStream):
    """A body that has no end. It ends the test that reads on far behind the ceiling."""

    def __init__(self) -> None:
        self.sent, self.closed = 0, False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.sent += len(PIECE)
            assert self.sent < 4 * api.MOST_BYTES, "the console reads without an end"
            yield PIECE

    async def aclose(self) -> None:
        self.closed = True


def answering(status: int, body: bytes | Endless) -> Api:
    content = {"stream": body} if isinstance(body, Endless) else {"content": body}
    transport = httpx.MockTransport(lambda _: httpx.Response(status, **content))  # type: ignore[arg-type]
    client = httpx.AsyncClient(transport=transport)
    return Api("evil", client, "http://127.0.0.1:1", (Secret("key-of-a-test"),), pauses_s=())


@pytest.mark.parametrize("status", [200, 404, 500])
async def test_an_answer_without_an_end_is_given_up_at_the_ceiling(status: int) -> None:
    body = Endless()
    with pytest.raises(BadAnswer, match=f"GET /x is larger than {api.MOST_BYTES} bytes"):
        await answering(status, body).get("/x")
    assert body.sent <= api.MOST_BYTES + len(PIECE)
    assert body.closed


async def test_a_create_that_is_answered_without_an_end_is_in_doubt() -> None:
    with pytest.raises(InDoubt, match="larger than"):
        await answering(200, Endless()).spend("POST", "/x", {}, "bs4-1")


async def test_an_answer_at_the_ceiling_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "MOST_BYTES", 9)
    assert await answering(200, b'"1234567"').get("/x") == "1234567"
    with pytest.raises(BadAnswer):
        await answering(200, b'"12345678"').get("/x")


async def test_an_answer_that_is_nested_deep_is_no_json() -> None:
    with pytest.raises(BadAnswer, match="is no JSON"):
        await answering(200, DEEP).get("/x")


async def test_an_error_that_is_nested_deep_is_told_by_its_status() -> None:
    with pytest.raises(ServerTrouble, match="answered with 500"):
        await answering(500, DEEP).get("/x")
    with pytest.raises(BadAnswer, match="not by its API"):
        await answering(404, DEEP).get("/x")


def test_a_line_of_a_pods_log_that_is_nested_deep_is_none() -> None:
    assert runpod._log_line(f"data:{DEEP.decode()}") == ""
