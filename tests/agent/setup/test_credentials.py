"""Secrets on the pod: where they lie, who can read them, and when they are gone."""

from __future__ import annotations

import json
import netrc
import os
import stat
from pathlib import Path

import pytest

from bs4_agent.paths import Home
from bs4_agent.setup import credentials
from bs4_agent.setup.credentials import Incoming
from bs4_agent.setup.recipe import read
from bs4_agent.setup.steps.credential import Credential
from bs4_common.errors import BadRequest
from tests.agent.setup.places import KEY, RECIPE, carry_out, context, place


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in ("NETRC", "HF_HOME", "HF_TOKEN_PATH", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return place(tmp_path).home


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


VALUES = {
    "wandb": {"key": "k" * 40},
    "huggingface": {"token": 'hf_"\\token'},
    "b2": {"key_id": "id/1234", "key": 'K"\\/+'},
}


@pytest.mark.parametrize("name", list(VALUES))
def test_what_is_stored_is_found_again_and_private(name: str, home: Home) -> None:
    assert credentials.stored(name, home) is None
    old = os.umask(0)
    try:
        credentials.store(name, VALUES[name], home)
    finally:
        os.umask(old)
    assert credentials.stored(name, home) == VALUES[name]
    assert mode(credentials.place(name, home)) == 0o600
    credentials.store(name, dict.fromkeys(VALUES[name], "other"), home)
    assert credentials.stored(name, home) == dict.fromkeys(VALUES[name], "other")
    assert not list(credentials.place(name, home).parent.glob("*.bs4-new"))


def test_other_machines_stay_in_netrc(home: Home, tmp_path: Path) -> None:
    path = tmp_path / ".netrc"
    path.write_text(
        "machine example.org login me password mine\nmachine api.wandb.ai\n  login user\n  "
        "password old\n"
        "machine api.wandb.ai.example.org\n  login a\n  password b\n\ndefault login anonymous "
        "password x\n"
    )
    path.chmod(0o644)
    credentials.store("wandb", {"key": "new-key"}, home)
    path.chmod(0o600)
    known = netrc.netrc(str(path))
    assert {host: known.authenticators(host)[2] for host in known.hosts} == {  # type: ignore[index]
        "example.org": "mine",
        "api.wandb.ai": "new-key",
        "api.wandb.ai.example.org": "b",
        "default": "x",
    }
    assert path.read_text().count("new-key") == 1
    assert "old" not in path.read_text()


def test_a_link_is_followed_and_stays_one(home: Home, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "netrc"
    real.parent.mkdir()
    real.write_text("")
    (tmp_path / ".netrc").symlink_to(real)
    credentials.store("wandb", {"key": "new-key"}, home)
    assert (tmp_path / ".netrc").is_symlink()
    assert "new-key" in real.read_text()


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"{}", ("b2",)),
        (b"no json secret-word", ("b2",)),
        (b'{"wandb": {"key": "secret-word"}}', ()),
        (b'{"b2": {"key": "secret-word"}}', ("b2",)),
        (b'{"wandb": {"key": "secret word"}}', ("wandb",)),
        (b'{"wandb": {"key": "secret-word\\n"}}', ("wandb",)),
        (b'{"wandb": {"key": "secret-word\\""}}', ("wandb",)),
        (b"", ("wandb",)),
    ],
)
def test_what_did_not_come_right_is_refused_without_a_word_of_it(
    payload: bytes, expected: tuple[str, ...]
) -> None:
    with pytest.raises(BadRequest) as refused:
        credentials.parse(payload, expected)
    assert "secret" not in refused.value.message


def test_values_wait_in_private_and_are_forgotten(home: Home) -> None:
    incoming = Incoming(home, KEY)
    incoming.keep(credentials.parse(json.dumps(VALUES).encode(), tuple(VALUES)))
    (file,) = (home.credentials / "incoming").iterdir()
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    assert incoming.get("wandb") == VALUES["wandb"]
    credentials.forget_all_but(home, {KEY})
    assert file.exists()
    credentials.forget_all_but(home, set())
    assert not file.exists()
    incoming.forget()  # once more does no harm


def test_the_step_keeps_what_came_and_closes_what_stood_open(home: Home, tmp_path: Path) -> None:
    where = place(tmp_path)
    at = context(where, read({**RECIPE, "secrets": ["wandb"]}))
    token = tmp_path / ".cache" / "huggingface" / "token"
    token.parent.mkdir(parents=True)
    token.write_text("hf_old")
    token.chmod(0o644)
    plans = Credential().plan(at)
    assert [planned.shown["done"] for planned in plans] == [False, False, True]
    assert "others can read" in plans[1].shown["now"]
    assert "none was given" in plans[2].shown["now"]
    Incoming(where.home, KEY).keep({"wandb": VALUES["wandb"]})
    carry_out(Credential(), at)
    assert mode(token) == 0o600
    assert token.read_text() == "hf_old"
    assert credentials.stored("wandb", where.home) == VALUES["wandb"]
    assert all("k" * 40 not in json.dumps(planned.as_dict()) for planned in Credential().plan(at))
