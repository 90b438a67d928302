"""Any file of the pod as a stream: opened by asking, followed, closed again; one with secrets is
not opened at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bs4_agent.paths import Home
from bs4_agent.streams import files, registry
from bs4_agent.streams.registry import Streams
from bs4_common.errors import AgentError, BadRequest, Refused, UnknownStream


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "bs4")
    home.create()
    return home


@pytest.fixture
def streams(home: Home) -> Iterator[Streams]:
    streams = Streams()
    streams.opens(files.PREFIX, partial(files.open_file, home))
    yield streams
    streams.close()


@pytest.mark.usefixtures("in_one_slice")
def test_a_file_is_read_followed_and_searched_and_in_no_list(
    streams: Streams, home: Home, tmp_path: Path
) -> None:
    path = tmp_path / "judge.log"
    path.write_text("one\ntwo\n")
    name = f"file/{path}"
    chunk = streams.read(name, "start")
    assert chunk.data == b"one\ntwo\n"
    with path.open("a") as handle:
        handle.write("three\n")
    assert streams.read(name, chunk.next, wait=10.0).data == b"three\n"
    hits = streams.query(name, "search", {"pattern": "tw"})["hits"]
    assert [hit["text"] for hit in hits] == ["two"]
    assert streams.query("*", "list", {})["streams"] == []
    assert not list(home.state.iterdir()), "it left a trace"


def test_from_the_home_directory(
    streams: Streams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.txt").write_text("here\n")
    assert streams.read("file/~/a.txt", "start").data == b"here\n"


def test_a_file_that_is_set_aside_goes_on_as_a_log_does(streams: Streams, tmp_path: Path) -> None:
    path = tmp_path / "judge.log"
    path.write_text("old\n")
    chunk = streams.read(f"file/{path}", "start")
    path.rename(tmp_path / "judge.log.1")
    path.write_text("new\n")
    cursor, data = chunk.next, b""
    while not data:
        chunk = streams.read(f"file/{path}", cursor, wait=10.0)
        cursor, data = chunk.next, chunk.data
    assert data == b"new\n"


SECRET = (
    ".wandb_api_key",
    "passwords.txt",
    ".netrc",
    "_netrc",
    ".ssh/config",
    "id_ed25519",
    "deep/id_rsa",
    ".cache/huggingface/token",
    "wandb_token",
    ".git-credentials",
    ".aws/config",
    "credentials.json",
    "key.pem",
    "server.key",
    ".env",
    ".env.local",
    "kaggle.json",
    ".docker/config.json",
    ".npmrc",
    "shadow",
    "client_secret.json",
    "secrets.yaml",
    "bs4/credentials/b2.json",
    "bs4/withheld/0f0f.json",
    "bs4/environment/prime-rl.env",
)


@pytest.mark.parametrize("name", SECRET)
def test_what_may_hold_credentials_is_not_opened(
    streams: Streams, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("xyzzy\n")
    link = tmp_path / "harmless.log"
    link.symlink_to(path)
    for way in (path, link, path.parent / ".." / path.parent.name / path.name):
        with pytest.raises(Refused, match=r"may hold credentials and is never shown; use a shell"):
            streams.read(f"file/{way}", "start")


@pytest.mark.parametrize(
    "name",
    [
        "tokens.log",
        "tokenizer.json",
        "secretary.log",
        "environment.yml",
        "trainer.stdout",
        "credit.csv",
        "id_map.txt",
    ],
)
def test_names_that_only_sound_like_it(streams: Streams, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("plain\n")
    assert streams.read(f"file/{tmp_path / name}", "start").data == b"plain\n"


def test_a_private_key_is_known_by_its_beginning(streams: Streams, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nxyzzy\n")
    with pytest.raises(Refused, match="holds a private key"):
        streams.read(f"file/{tmp_path}/notes.txt", "start")


@pytest.mark.parametrize(
    ("path", "error", "says"),
    [
        ("/proc/self/environ", Refused, "belongs to the system"),
        ("/dev/null", Refused, "belongs to the system"),
        ("/sys/kernel/mm", Refused, "belongs to the system"),
        ("logs/a.log", BadRequest, "begin it with / or ~/"),
        ("/a\0b", BadRequest, "begin it with / or ~/"),
        ("{}", BadRequest, "is a directory; name a file"),
        ("{}/fifo", BadRequest, "is no regular file"),
        ("{}/none", UnknownStream, r"cannot be opened \(No such file or directory\)"),
        ("{}/loop", UnknownStream, "cannot be opened"),
    ],
)
def test_what_is_no_file_to_read(
    streams: Streams, tmp_path: Path, path: str, error: type[AgentError], says: str
) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(error, match=says):
        streams.read(f"file/{path.format(tmp_path)}", "start")


def test_only_so_many_are_open_and_the_longest_unused_goes(
    streams: Streams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "OPENED", 3)
    names = []
    for number in range(5):
        path = tmp_path / f"{number}.log"
        path.write_text(f"{number}\n")
        names.append(f"file/{path}")
        streams.read(names[-1], "start")
        streams.read(names[0], "start")
    assert set(streams.names()) == {names[0], names[3], names[4]}
    assert streams.read(names[1], "start").data == b"1\n"


def test_a_cursor_from_before_never_means_other_bytes(
    streams: Streams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\n")
    earlier = streams.read(f"file/{path}", "start", limit=4)
    monkeypatch.setattr(registry, "OPENED_S", -1.0)
    monkeypatch.setattr("time.time", partial(float, path.stat().st_mtime + 1000))
    streams._close_unused()
    assert streams.names() == []
    path.write_text("other\n")
    again = streams.read(f"file/{path}", earlier.next)
    assert again.gap is not None
    assert again.data == b""
