"""The model registry, and the hub as it answers over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from bs4_console import models
from bs4_console.cli.main import main
from bs4_console.configs.families import known_bad
from bs4_console.errors import UsageError
from bs4_practice.http_server import HttpServer

CANARY = "canary"
ANSWERS: dict[str, tuple[int, object]] = {
    "/api/models/example/text": (200, {"id": "example/text", "gated": False}),
    "/example/text/resolve/main/config.json": (200, {"architectures": ["LlamaForCausalLM"]}),
    "/api/models/example/gated": (200, {"id": "example/gated", "gated": "manual"}),
    "/example/gated/resolve/main/config.json": (403, {}),
    "/api/models/example/eyes": (200, {"id": "example/eyes", "gated": False}),
    "/example/eyes/resolve/main/config.json": (
        200,
        {"architectures": ["EyesForConditionalGeneration"], "vision_config": {}},
    ),
    "/api/models/example/adapter": (200, {"id": "example/adapter", "gated": False}),
    "/api/models/example/broken": (200, ["no object"]),
    "/api/models/example/down": (503, {}),
    "/api/models/Qwen/Qwen3-VL-8B-Instruct": (404, {}),
}


class Hub(HttpServer):
    tokens: list[str]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Hub)
        self.server.tokens.append(self.headers.get("Authorization", ""))
        if self.path.startswith("/api/models/example/away"):
            self.send_response(302)
            # The same server under another name: another host for whoever holds a token.
            self.send_header(
                "Location", f"http://127.0.0.2:{self.server.server_port}/api/models/example/text"
            )
            self.end_headers()
            return
        code, data = ANSWERS.get(self.path, (404, {}))
        body = json.dumps(data).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    # Its name in the base class.
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def hub() -> Iterator[Hub]:
    # also as 127.0.0.2: another host, without a name that a bare machine may not know
    server = Hub(("0.0.0.0", 0), Handler)
    server.tokens = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def told(hub: Hub, name: str, token: str = "") -> dict[str, str]:
    return {
        r.check: r.level
        for r in models.ask_hub(
            name, base=f"http://127.0.0.1:{hub.server_port}", token=token, timeout=10
        )
    }


def test_every_fact_has_a_source_with_a_date() -> None:
    known = models.registry()
    assert len(known) >= 40
    for model in known.values():
        for fact in [*model.baselines, *([model.price] if model.price else [])]:
            assert fact.source.date.year == 2026
        assert all(0 <= b.solved <= 1 for b in model.baselines), model.name
        assert model.active_b is None or (
            model.params_b is not None and model.active_b < model.params_b
        ), model.name
        assert model.tool_calls in ("yes", "no", "broken", "unknown")
        assert model.kind in ("text", "vision", "closed")
        assert model.impl in ("native", "hf", "")


def test_what_is_blocked_here_is_known_bad_to_lint() -> None:
    blocked = [m for m in models.registry().values() if m.blocked]
    assert len(blocked) >= 4
    for model in blocked:
        assert known_bad(model.hub.upper(), "prime-rl-2026-01") == (model.blocked["reason"], True)
    assert known_bad("openai/gpt-oss-20b", "prime-rl") == (
        "vLLM's loader for it breaks on reloaded weights",
        False,
    )
    assert known_bad("Qwen/Qwen2.5-7B-Instruct", "prime-rl") is None


def test_a_model_that_is_not_listed_has_the_one_that_was_meant() -> None:
    (remark,) = models.verify("qwen3-8b", "verl")
    assert remark.fix.startswith("Did you mean Qwen/Qwen3-8B? Ask the hub: ")
    (remark,) = models.verify("nobody/zzzz", "verl")
    assert remark.fix.startswith("Ask the hub: ")


def test_a_model_is_found_by_either_name_in_any_case() -> None:
    assert (
        models.get("QWEN/qwen3-vl-8B-instruct")
        is models.get("Qwen/Qwen3-VL-8B-Instruct")
        is not None
    )
    assert models.get("example/none") is None


@pytest.mark.parametrize(
    ("name", "trainer", "check", "level"),
    [
        ("openai/gpt-oss-20b", "prime-rl-2026-01", "blocked", "error"),
        ("openai/gpt-oss-20b", "prime-rl", "blocked", "warning"),
        ("mistralai/mistral-small-3.2-24b-instruct", "prime-rl", "blocked", "error"),
        ("Qwen/Qwen3-VL-8B-Instruct", "prime-rl", "text-only", "error"),
        ("qwen/qwen3-vl-30b-a3b-instruct", "prime-rl", "text-only", "error"),
        ("openai/gpt-5-nano", "prime-rl", "weights", "error"),
        ("anthropic/claude-opus-4.5", "prime-rl", "weights", "error"),
        ("x-ai/grok-4", "verl", "weights", "error"),
        ("google/gemma-3-12b-it", "prime-rl", "problem", "warning"),
        ("Qwen/Qwen3-8B", "prime-rl", "tool-calls", "warning"),
        ("example/new", "prime-rl", "known", "warning"),
        ("meta-llama/llama-3.1-70b-instruct", "prime-rl", "known", "info"),
    ],
)
def test_verify(name: str, trainer: str, check: str, level: str) -> None:
    assert (check, level) in [(r.check, r.level) for r in models.verify(name, trainer)]


def test_a_trainer_with_which_it_was_not_tried_is_named() -> None:
    for trainer, says in (("prime-rl-2026-01", "Choose another"), ("verl", "With verl it is not")):
        (fix,) = [
            remark.fix
            for remark in models.verify("openai/gpt-oss-20b", trainer)
            if remark.check == "blocked"
        ]
        assert fix.startswith(says)


def test_what_trained_well_has_no_error() -> None:
    for name in ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-8B", "Qwen/Qwen3-4B-Instruct"):
        assert all(r.level != "error" for r in models.verify(name, "prime-rl-2026-01"))


def test_no_model_id() -> None:
    for name in ("../etc", "a b", "", "x/y/z"):
        with pytest.raises(UsageError, match="OWNER/NAME"):
            models.verify(name, "prime-rl")


def test_the_hub(hub: Hub) -> None:
    assert told(hub, "example/text") == {"exists": "info", "text-only": "info"}
    assert told(hub, "example/eyes")["text-only"] == "error"
    assert told(hub, "example/gated") == {"gated": "error"}
    assert told(hub, "example/none") == {"exists": "error"}
    assert told(hub, "example/adapter") == {"exists": "info", "config": "error"}
    assert told(hub, "example/broken") == {"hub": "warning"}
    assert told(hub, "example/down") == {"hub": "warning"}
    # The registry knows its name there.
    assert told(hub, "qwen/qwen3-vl-8b-instruct") == {"exists": "error"}


def test_a_token_does_not_follow_to_another_host(hub: Hub) -> None:
    models.ask_hub(
        "example/away", base=f"http://127.0.0.1:{hub.server_port}", token=CANARY, timeout=10
    )
    assert hub.tokens[:2] == ["Bearer canary", ""]


def test_a_hub_that_is_not_there() -> None:
    (remark,) = models.ask_hub("example/text", base="http://127.0.0.1:9", timeout=5)
    assert (remark.check, remark.level) == ("hub", "warning")


@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", 0),
        ("anthropic/claude-opus-4.5", 1),
        ("openai/gpt-5.1", 1),
        ("google/gemini-2.5-pro", 1),
        ("deepseek/deepseek-chat", 1),
        ("qwen/qwen3-max", 1),
        ("qwen/qwen3-vl-8b-instruct", 1),
        ("example/nobody-knows-it", 3),
    ],
)
def test_verify_tells_by_its_exit_code(model: str, code: int) -> None:
    assert main(["models", "verify", model]) == code


def test_verify_is_about_the_trainer_that_was_named() -> None:
    """As docs/models.md says: what was blocked on January alone is a warning elsewhere."""
    words = ["models", "verify", "openai/gpt-oss-20b"]
    for trainer, code in (("prime-rl-2026-01", 1), ("prime-rl", 0), ("verl", 0)):
        assert main([*words, "--trainer", trainer]) == code
    assert main(words) == 0


def test_a_hub_that_does_not_answer_leaves_it_unknown(hub: Hub) -> None:
    address = f"http://127.0.0.1:{hub.server_port}"
    assert main(["models", "verify", "example/down", "--hub", "--hub-url", address]) == 3
    assert main(["models", "verify", "example/text", "--hub", "--hub-url", address]) == 0
    assert main(["models", "verify", "example/none", "--hub", "--hub-url", address]) == 1


def test_what_nothing_is_known_of_is_neither_good_nor_bad(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for model, ok in (("Qwen/Qwen3-8B", True), ("openai/gpt-5.1", False), ("example/new", None)):
        main(["models", "verify", model, "--json"])
        assert json.loads(capsys.readouterr().out)["ok"] is ok


def test_the_command(
    hub: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "canary")
    address = f"http://127.0.0.1:{hub.server_port}"
    assert main(["models", "verify", "example/text", "--hub", "--hub-url", address, "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["ok"] is True
    assert "canary" not in out
    assert set(hub.tokens) == {"Bearer canary"}
    assert main(["models", "verify", "example/eyes", "--hub", "--hub-url", address]) == 1
    assert "vision_config" in capsys.readouterr().out
    assert main(["models", "list", "--trainable", "--trainer", "prime-rl-2026-01", "--json"]) == 0
    names = {m["name"] for m in json.loads(capsys.readouterr().out)["models"]}
    assert "Qwen/Qwen3-8B" in names
    assert not names & {"openai/gpt-oss-20b", "openai/gpt-5-nano", "qwen/qwen3-vl-8b-instruct"}
    assert main(["models", "show", "openai/gpt-oss-20b"]) == 0
    shown = capsys.readouterr().out
    assert "49.2% (benchmark" in shown
    assert "2026-01-05" in shown
    assert main(["models", "show", "example/none"]) == 2
