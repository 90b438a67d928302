"""What lies in a directory of the pod, for a person who types a path: bounded, and no name of a
file that is never shown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.paths import Home
from bs4_agent.streams import listing
from bs4_agent.streams.listing import Listing
from bs4_common.errors import AgentError, BadRequest, Refused

Ask = Callable[[str], dict[str, Any]]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    home = Home(tmp_path / "bs4")
    home.create()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(listing, "LOOK_S", 60.0)  # a busy machine may take as long
    asked = Listing(home)
    return lambda path: asked.ask("paths", {"path": path})


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("xyzzy\n")


def test_names_that_go_on_as_the_path_does_directories_with_a_slash(
    ask: Ask, tmp_path: Path
) -> None:
    write(
        tmp_path,
        "logs/trainer.log",
        "logs/trainer.log.1",
        "logs/old/a",
        "logs/orchestrator.log",
        "logs/.hidden",
    )
    (tmp_path / "logs/link").symlink_to(tmp_path / "logs/old")
    found = ask(f"{tmp_path}/logs/")
    assert found == {
        "directory": f"{tmp_path}/logs/",
        "names": ["link/", "old/", "orchestrator.log", "trainer.log", "trainer.log.1"],
        "more": False,
        "next": None,
    }
    assert ask("~/logs/tr") == {
        "directory": "~/logs/",
        "names": ["trainer.log", "trainer.log.1"],
        "more": False,
        "next": None,
    }
    assert ask("~/logs/.")["names"] == [".hidden"]
    assert ask("~/logs/nothing")["names"] == []


def test_what_is_never_shown_is_never_offered(ask: Ask, tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.log",
        "key.pem",
        ".netrc",
        ".ssh/config",
        ".env",
        "wandb_token",
        "bs4/credentials/b2.json",
        "bs4/environment/x",
        ".ok",
    )
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    write(tmp_path, "bad\x1b[2Jname")
    (tmp_path / os.fsdecode(b"\xff\xfe")).write_text("no text\n")
    assert ask("~/")["names"] == ["a.log", "bs4/"]
    assert ask("~/.")["names"] == [".ok"]
    assert {"credentials/", "environment/"}.isdisjoint(ask("~/bs4/")["names"])
    assert {"proc/", "sys/", "dev/"}.isdisjoint(ask("/")["names"])
    assert "tmp/" in ask("/")["names"]


@pytest.mark.parametrize(
    ("path", "error", "says"),
    [
        ("/proc/self/", Refused, "belongs to the system"),
        ("/dev/s", Refused, "belongs to the system"),
        ("~/.ssh/", Refused, "may hold credentials and is never shown; use a shell"),
        ("~/keys/", Refused, "may hold credentials and is never shown; use a shell"),
        ("~/bs4/credentials/", Refused, "may hold credentials"),
        ("logs/", BadRequest, "begin it with / or ~/"),
        ("~", BadRequest, "begin it with / or ~/"),
        ("/a\0/", BadRequest, "begin it with / or ~/"),
        ("~/none/", BadRequest, r"cannot be listed \(No such file or directory\)"),
        ("~/a.log/", BadRequest, r"cannot be listed \(Not a directory\)"),
    ],
)
def test_what_is_against_it_is_said_in_one_sentence(
    ask: Ask, tmp_path: Path, path: str, error: type[AgentError], says: str
) -> None:
    write(tmp_path, ".ssh/config", "a.log")
    (tmp_path / "keys").symlink_to(tmp_path / ".ssh")
    with pytest.raises(error, match=says) as caught:
        ask(path)
    assert "\n" not in caught.value.message


def test_a_full_directory_gives_a_part_and_says_that_there_is_more(
    ask: Ask, tmp_path: Path
) -> None:
    write(
        tmp_path,
        *(f"many/{n:04}.log" for n in range(300)),
        *(f"long/{n}{'ü' * 120}" for n in range(60)),
    )
    found = ask("~/many/")
    assert found["more"]
    assert len(found["names"]) == listing.NAMES
    assert found["names"][0] == "0000.log"
    assert ask("~/many/029") == {
        "directory": "~/many/",
        "names": [f"029{n}.log" for n in range(10)],
        "more": False,
        "next": None,
    }
    assert ask("~/long/")["more"]
    assert len(json.dumps(ask("~/long/"))) < 32 * 1024


def test_a_directory_that_takes_too_long_gives_what_it_has(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, *(f"many/{n}" for n in range(20)))
    monkeypatch.setattr(listing, "LOOKED", 5)
    found = ask("~/many/")
    assert len(found["names"]) == 5
    assert found["more"]
