"""Servers that the agent asks and stores that it lists: neither what they answer nor the address
that a config gives for them keeps the agent from its other work.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.observe import prober
from bs4_agent.observe.prober import Prober, Watched
from bs4_agent.probes.vllm import health
from bs4_common.checkpoints.remote import legacy_layout
from bs4_common.checkpoints.remote.b2 import B2Store
from bs4_common.checkpoints.remote.errors import NotThere, StoreDamaged
from bs4_common.checkpoints.remote.layout import Layout
from bs4_common.checkpoints.remote.manifest import File, Manifest
from bs4_common.checkpoints.remote.pointer import Pointer
from bs4_common.checkpoints.remote.store import Entry, Store
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.settings import BadConfig
from tests.agent.runs.practice import until

HUGE = 10**400


@pytest.fixture
def serve() -> Iterator[Callable[[bytes], str]]:
    """Return a function that starts a server with one answer for all, and returns its URL."""
    opened: list[socket.socket] = []

    def start(answer: bytes) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        opened.append(server)

        def run() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        threading.Thread(target=run, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server in opened:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


@pytest.mark.parametrize("digit", [b"9", b"0"])
def test_a_length_of_five_thousand_digits_is_a_bad_answer(
    digit: bytes, serve: Callable[[bytes], str]
) -> None:
    url = serve(b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n" % (digit * 5000))
    assert health(url, 60.0).error == "bad-answer"


@pytest.mark.parametrize(
    "odd",
    ["http://10.1.2.3:8000", "http://inference-0:8000", "http://127.0.0.1:99999", "http://[x:1"],
)
def test_a_server_that_cannot_be_probed_keeps_no_other_from_being_probed(
    odd: str, serve: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prober, "ROUND_S", 0.01)
    good = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    both = [Watched("odd", 1, odd, 0.0, None), Watched("good", 1, good, 0.0, None)]
    probed, stop = Prober(lambda: both), threading.Event()
    ended: list[Exception] = []

    def run() -> None:
        try:
            probed.run(stop)
        except Exception as error:  # noqa: BLE001
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: ended or probed.probe("good", 1).health == "ok")
        assert ended == []
        assert probed.probe("odd", 1).health == "unknown"
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("trainer", ["prime-rl", "prime-rl-2026-01"])
@pytest.mark.parametrize(
    "text",
    [
        "[inference.server]\nport = 99999\n",
        "[inference.server]\nport = inf\n",
        '[inference.server]\nhost = "a:b]c"\n',
        '[orchestrator.client]\nbase_url = ["http://[x/v1"]\n'
        '[orchestrator.model.client]\nbase_url = ["http://[x/v1"]\n',
        "[orchestrator.client]\nbase_url = []\n[orchestrator.model.client]\nbase_url = [5]\n",
    ],
)
def test_an_address_that_is_none_is_said_as_an_error_of_the_config(
    trainer: str, text: str, tmp_path: Path
) -> None:
    config = tmp_path / "rl.toml"
    config.write_text(text)
    spec = LaunchSpec(
        run="run", trainer=trainer, config=config, cwd=tmp_path, output_dir=tmp_path / "out"
    )
    found = registry.get(trainer)
    for asked in (found.inference_url, found.serves):
        try:
            asked(spec)
        except BadConfig:
            continue


def manifest(**values: object) -> bytes:
    """Return a sound manifest with other values for some of its fields."""
    one = Manifest(
        run="run",
        trainer="prime-rl",
        step=5,
        attempt=1,
        created_t=1.0,
        files=[File("a", 3, "0" * 40)],
        parts={},
    )
    return json.dumps({**json.loads(one.encode()), **values}).encode()


@pytest.mark.parametrize(
    "values",
    [
        {"created_t": HUGE},
        {"created_t": float("nan")},
        {"step": HUGE},
        {"bytes": HUGE, "files": [{"path": "a", "size": HUGE, "sha1": "0" * 40}]},
    ],
)
def test_numbers_that_no_checkpoint_has_make_a_damaged_manifest(values: dict[str, Any]) -> None:
    assert Manifest.decode(manifest()).step == 5
    with pytest.raises(StoreDamaged):
        Manifest.decode(manifest(**values))


def test_an_infinite_size_makes_a_damaged_pointer() -> None:
    sound = json.loads(Pointer(step=5, run="run", t=1.0, manifest="m").encode())
    with pytest.raises(StoreDamaged):
        Pointer.decode(json.dumps({**sound, "bytes": float("inf")}).encode())


class _Listing:
    """A store that lists these names and has no content."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def entries(self, prefix: str) -> list[Entry]:
        return [Entry(name, 5, "0" * 40, 1.0, "v") for name in self._names]

    def read(self, name: str, most: int) -> bytes:
        raise NotThere(name)


@pytest.mark.parametrize("odd", ["..", "../../../escaped", "trainer/../../x", "/etc/x", "a//b"])
def test_a_listed_name_that_is_no_plain_path_is_no_file_of_a_checkpoint(odd: str) -> None:
    layout = Layout("place", "run")
    top = f"{layout.root}step_5/"
    names = (f"{top}.metadata", f"{top}__0_0.distcp")
    listing: Any = _Listing(*names, f"{top}{odd}")
    store: Store = listing
    [step] = legacy_layout.read(store, layout).steps
    assert sorted(step.files) == [".metadata", "__0_0.distcp"]


@pytest.mark.parametrize("call", [lambda s: s.entries("run/"), lambda s: s.versions("run/a")])
def test_a_listing_that_has_always_a_next_page_ends(call: Callable[[B2Store], object]) -> None:
    page = {"files": [], "nextFileName": "run/a", "nextFileId": "v"}
    session = SimpleNamespace(
        list_file_names=lambda *_: page,
        list_file_versions=lambda *_: page,
    )
    bucket: Any = SimpleNamespace(name="bucket", id_="id", api=SimpleNamespace(session=session))
    with pytest.raises(StoreDamaged):
        call(B2Store(bucket))
