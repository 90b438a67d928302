"""What services say of a pod's credentials: real sockets, nobody's keys, and no key in any
answer.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.probes import service_script, services
from bs4_common.errors import StepFailed
from tests.support.services import KEY, KEY_ID, STORE_KEY, TOKEN, Services, serving

_NAMES = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_TOKEN_PATH",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "HF_ENDPOINT",
    "WANDB_API_KEY",
    "WANDB_MODE",
    "WANDB_BASE_URL",
    "NETRC",
    "B2_APPLICATION_KEY_ID",
    "B2_APPLICATION_KEY",
    "B2_ACCOUNT_INFO",
    "XDG_CONFIG_HOME",
    "BS4_HUB_URL",
    "BS4_WANDB_URL",
    "BS4_B2_URL",
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without anything, and an environment that names nothing."""
    for name in _NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def there() -> Iterator[Services]:
    with serving() as running:
        yield running


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def all_credentials(home: Path) -> Path:
    write(home / ".cache" / "huggingface" / "token", TOKEN + "\n")
    write(home / ".netrc", f"machine api.wandb.ai\n  login user\n  password {KEY}\n").chmod(0o600)
    return write(home / "b2.json", json.dumps({"key_id": KEY_ID, "key": STORE_KEY}))


def ask(there: Services, model: str = "", **more: Any) -> dict[str, Any]:
    return service_script.ask({"urls": there.urls, "model": model, **more})


def test_good_credentials_are_found_in_their_files_and_never_told(
    home: Path, there: Services
) -> None:
    file = all_credentials(home)
    answer = services.probe(
        {"urls": there.urls, "model": "owner/small", "b2_file": str(file)},
        environment={"HOME": str(home)},
    )
    assert {
        name: (answer[name]["token"], answer[name]["state"]) for name in ("hub", "wandb", "b2")
    } == dict.fromkeys(("hub", "wandb", "b2"), ("file", "ok"))
    assert answer["b2"]["missing"] == []
    assert answer["model"]["status"] == 200
    assert answer["model"]["config"]["architectures"] == ["Qwen3ForCausalLM"]
    told = json.dumps(answer)
    assert not [secret for secret in (TOKEN, KEY, KEY_ID, STORE_KEY, "somebody") if secret in told]


def test_wrong_credentials_are_refused(
    home: Path, there: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    monkeypatch.setenv("WANDB_API_KEY", "other")
    monkeypatch.setenv("B2_APPLICATION_KEY_ID", "other")
    monkeypatch.setenv("B2_APPLICATION_KEY", "other")
    answer = ask(there)
    assert {
        name: (answer[name]["token"], answer[name]["state"]) for name in ("hub", "wandb", "b2")
    } == dict.fromkeys(("hub", "wandb", "b2"), ("environment", "refused"))


def test_a_key_that_belongs_to_nobody_is_answered_with_200_and_refused(
    home: Path, there: Services
) -> None:
    all_credentials(home)
    there.viewer = False
    assert ask(there)["wandb"]["state"] == "refused"


def test_a_bucket_key_that_may_not_delete_says_so(home: Path, there: Services) -> None:
    file = all_credentials(home)
    there.capabilities = ["listFiles", "readFiles", "writeFiles"]
    assert ask(there, b2_file=str(file))["b2"]["missing"] == ["deleteFiles"]


def token_of(role: str, **more: Any) -> dict[str, Any]:
    return {"auth": {"type": "access_token", "accessToken": {"role": role, **more}}}


def fine(*permissions: str, everywhere: tuple[str, ...] = ()) -> dict[str, Any]:
    scoped = [{"entity": {"type": "user"}, "permissions": list(permissions)}]
    return token_of("fineGrained", fineGrained={"scoped": scoped, "global": list(everywhere)})


@pytest.mark.parametrize(
    ("said", "writes"),
    [
        (token_of("read"), False),
        (token_of("write"), True),
        (fine("repo.content.read"), False),
        (fine("repo.content.read", "repo.write"), True),
        (fine("repo.content.read", everywhere=("discussion.write",)), True),
        (token_of("fineGrained"), None),
        (token_of("fineGrained", fineGrained={"scoped": 7, "global": "x.write"}), False),
        (token_of("of tomorrow"), None),
        ({"auth": []}, None),
        ({}, None),
    ],
)
def test_whether_the_hubs_token_may_write(
    home: Path, there: Services, said: dict[str, Any], writes: bool | None
) -> None:
    all_credentials(home)
    there.whoami = said
    answer = ask(there, only=["hub"])["hub"]
    assert (answer["state"], answer["writes"]) == ("ok", writes)


def test_the_account_file_of_b2_is_read(home: Path, there: Services) -> None:
    path = home / ".config" / "b2" / "account_info"
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE account (account_id_or_app_key_id TEXT, application_key TEXT)"
        )
        database.execute("INSERT INTO account VALUES (?, ?)", (KEY_ID, STORE_KEY))
    database.close()
    assert (ask(there)["b2"]["token"], ask(there)["b2"]["state"]) == ("file", "ok")


def test_nothing_there_is_absent_and_asks_nobody(home: Path, there: Services) -> None:
    answer = ask(there)
    assert {answer[name]["state"] for name in ("hub", "wandb", "b2")} == {"absent"}
    assert answer["model"] is None
    assert there.asked == []


def test_no_network_is_unknown(home: Path) -> None:
    # bound and not listening: refused, and no other test can get the port
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        all_credentials(home)
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        answer = service_script.ask(
            {
                "urls": {"hub": url, "wandb": url, "b2": url},
                "model": "owner/small",
                "b2_file": str(home / "b2.json"),
            }
        )
    assert {answer[name]["state"] for name in ("hub", "wandb", "b2")} == {"unknown"}
    assert "refused" in answer["hub"]["detail"]
    assert (answer["model"]["status"], answer["model"]["cached"], answer["clock"]) == (
        None,
        False,
        None,
    )


def test_a_broken_service_is_unknown_and_no_fault_of_the_key(home: Path, there: Services) -> None:
    all_credentials(home)
    there.statuses["/api/whoami-v2"] = 503
    hub = ask(there)["hub"]
    assert (hub["token"], hub["state"], hub["detail"]) == ("file", "unknown", "HTTP 503")


def test_offline_modes_ask_nobody(
    home: Path, there: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_credentials(home)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("WANDB_MODE", "offline")
    answer = ask(there, "owner/small")
    assert (answer["hub"]["state"], answer["wandb"]["state"]) == ("offline", "offline")
    assert answer["model"]["detail"] == "HF_HUB_OFFLINE is set"
    assert there.asked == []


def test_gated_models_are_described_to_all_and_read_by_few(home: Path, there: Services) -> None:
    there.models["owner/gated"] = {"gated": "manual"}
    answer = ask(there, "owner/gated")["model"]
    assert (answer["status"], answer["gated"]) == (403, True)
    all_credentials(home)
    assert ask(there, "owner/gated")["model"]["status"] == 200


def test_a_model_that_is_not_there_and_one_in_the_cache(home: Path, there: Services) -> None:
    assert ask(there, "owner/none")["model"]["status"] == 404
    config = (
        home
        / ".cache"
        / "huggingface"
        / "hub"
        / "models--owner--kept"
        / "snapshots"
        / "a1"
        / "config.json"
    )
    write(
        config, json.dumps({"architectures": ["LlamaForCausalLM"], "vision_config": {"depth": 3}})
    )
    answer = ask(there, "owner/kept")["model"]
    assert (answer["cached"], answer["config"]) == (
        True,
        {"architectures": ["LlamaForCausalLM"], "vision_config": True},
    )


@pytest.mark.parametrize("model", ["", "/models/own", "./own", "own"])
def test_what_is_no_id_of_the_hub_is_not_asked(home: Path, there: Services, model: str) -> None:
    assert ask(there, model)["model"] is None
    assert there.asked == []


def test_a_download_that_is_redirected_elsewhere_does_not_take_the_token_along(
    home: Path, there: Services
) -> None:
    all_credentials(home)
    with serving("127.0.0.2") as other:
        other.models = there.models
        there.redirect["/owner/small/resolve/main/config.json"] = (
            f"{other.url}/owner/small/resolve/main/config.json"
        )
        assert ask(there, "owner/small")["model"]["status"] == 200
        assert other.asked == [("/owner/small/resolve/main/config.json", "")]


def test_the_clock_is_compared_with_the_services_date(home: Path, there: Services) -> None:
    all_credentials(home)
    there.date = time.time() - 600
    clock = ask(there)["clock"]
    assert clock["service"] == "127.0.0.1"
    assert 595 < clock["offset_s"] < 660


def test_a_probe_that_does_not_come_to_an_end_is_an_error_with_the_next_step(home: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        all_credentials(home)
        with pytest.raises(StepFailed, match="could not be asked"):
            services.probe({"urls": {"hub": url}}, timeout=1.0, environment=dict(os.environ))
