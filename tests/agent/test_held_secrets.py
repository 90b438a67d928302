"""What an agent knows to be secret on its pod, and that nothing it copies shows it."""

from __future__ import annotations

import json
import os
import shlex
import urllib.parse
from base64 import b64encode
from pathlib import Path

import pytest

from bs4_agent.credentials.held import HeldSecrets
from bs4_agent.paths import Home
from bs4_agent.setup.credentials import Incoming

VALUE = 'cAnAry"of\\the/pod+7'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    made = Home(tmp_path / "home")
    made.create()
    return made


def shows(secrets: HeldSecrets, value: str) -> bool:
    """Return True if a copy of a text in which the value stands in some form has one of them."""
    forms = [
        value,
        json.dumps(value)[1:-1],
        urllib.parse.quote(value, safe=""),
        b64encode(value.encode()).decode()[:-4],
    ]
    data = "\n".join(f"x {form} y" for form in forms).encode()
    copy = secrets.redacted_bytes(data)
    assert len(copy) == len(data)
    return any(form.encode() in copy for form in forms)


def test_files_are_known_and_looked_at_again_when_they_change(home: Home, tmp_path: Path) -> None:
    secrets = HeldSecrets(home, {})
    netrc = "cAnAry-of-another-machine"
    assert shows(secrets, netrc)
    (tmp_path / "netrc").write_text(
        f"machine other.example login me password {netrc}\nmachine b\n  password cAnAry-second-b\n"
    )
    (tmp_path / "token").write_text("cAnAry-without-a-form\n")
    home.credentials.mkdir()
    (home.credentials / "b2.json").write_text(json.dumps({"key_id": "cAnAry-id-1", "key": VALUE}))
    Incoming(home, "K").keep({"wandb": {"key": "cAnAry-on-its-way"}})
    for value in (
        netrc,
        "cAnAry-second-b",
        "cAnAry-without-a-form",
        "cAnAry-id-1",
        VALUE,
        "cAnAry-on-its-way",
    ):
        assert not shows(secrets, value), value
    (tmp_path / "token").write_text("cAnAry-that-is-new\n")
    os.utime(tmp_path / "token", (1, 1))
    assert not shows(secrets, "cAnAry-that-is-new")
    assert not shows(secrets, "cAnAry-without-a-form"), "an old log may still hold it"


def test_environments_and_command_lines_are_known_by_the_names_in_them(home: Home) -> None:
    secrets = HeldSecrets(home, {"MY_SERVICE_TOKEN": VALUE, "HOME": "/home/somebody"})
    assert not shows(secrets, VALUE)
    assert shows(secrets, "/home/somebody")
    secrets.learn_words(["--judge.api-key", "cAnAry-word-1", "JUDGE_PASSWORD=cAnAry-word-2", "--x"])
    assert not shows(secrets, "cAnAry-word-1")
    assert not shows(secrets, "cAnAry-word-2")


def test_a_copy_that_begins_inside_a_private_key_does_not_show_its_rest(home: Home) -> None:
    before = b"starting\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\n"
    data = b"cAnAryInTheMiddle0\ncAnAryAtTheEnd00==\n-----END OPENSSH PRIVATE KEY-----\nstep 4\n"
    copy = HeldSecrets(home, {}).redacted_bytes(data, before)
    assert b"cAnAry" not in copy
    assert copy.endswith(b"\nstep 4\n")
    assert HeldSecrets(home, {}).redacted_bytes(data, b"step 3\n") == data


def test_a_command_shows_no_value_of_its_words(home: Home) -> None:
    words = ["uv", "run", f"--judge.api-key={VALUE} it's one word", "--b.token", "cAnAry; rm -r"]
    record = {"steps": [{"command": shlex.join(words)}], "plan": {"spec": {"overrides": words}}}
    copy = HeldSecrets(home, {}).redacted_values(record)
    assert "cAnAry" not in str(copy)
    assert "one word" not in str(copy)
    assert copy["steps"][0]["command"].startswith("uv run ")


def test_an_unreadable_or_odd_file_stops_nothing(home: Home, tmp_path: Path) -> None:
    home.credentials.mkdir()
    (home.credentials / "b2.json").write_text("[" * 5000)
    (tmp_path / "token").mkdir()
    assert HeldSecrets(home, {}).redacted_values({"a": ["b", 1, None]}) == {"a": ["b", 1, None]}
