"""A client that hangs up is no error of a practice server; an exception in its handler is one."""

from __future__ import annotations

import pytest

from bs4_practice.http_server import HttpServer


def handled(error: Exception, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what the server prints about a request that ended with `error`."""
    with HttpServer(("127.0.0.1", 0), lambda *_: None) as server:  # type: ignore[arg-type]
        try:
            raise error
        except type(error):
            server.handle_error(None, ("127.0.0.1", 1))
    return capsys.readouterr().err


@pytest.mark.parametrize("error", [BrokenPipeError(32, "gone"), ConnectionResetError(104, "reset")])
def test_a_client_that_hung_up_is_not_printed(
    error: OSError, capsys: pytest.CaptureFixture[str]
) -> None:
    assert handled(error, capsys) == ""


def test_an_exception_of_the_handler_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "ValueError: wrong" in handled(ValueError("wrong"), capsys)
