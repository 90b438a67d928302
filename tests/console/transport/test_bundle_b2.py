"""The second bundle: pinned, the same bytes each time, brought once, and enough for a worker that
sees nothing else.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from bs4_console.errors import ConsoleError, DeployFailed, NoAgent
from bs4_console.pods.inventory import Pod
from bs4_console.transport import bundle, bundle_b2
from bs4_console.transport.deploy_b2 import bring
from bs4_console.transport.local import LocalTransport
from tests.support import bundles

POD = Pod(name="here", host="127.0.0.1", provider="local")
ROOT = Path(__file__).resolve().parents[3]


def quiet(_: str) -> None:
    return


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "a home"


@pytest.fixture
def local(home: Path) -> LocalTransport:
    return LocalTransport(POD, environment={"BS4_HOME": str(home)}, bundle=bundles.stub)


async def _with_agent(local: LocalTransport) -> None:
    duplex = await local.open(quiet)
    await duplex.read()
    await duplex.close()


def _small(text: bytes = b"x = 1\n") -> bundle.Bundle:
    return bundle.assemble(
        {"one/__init__.py": text, "one-1.0.dist-info/METADATA": b"Version: 1.0\n"}, "1.0", 0
    )


def test_the_same_wheels_give_the_same_bytes() -> None:
    first, second = (bundle_b2.from_checkout(ROOT) for _ in range(2))
    assert first == second
    assert first.version == "2.13.1"
    with tarfile.open(fileobj=io.BytesIO(first.data)) as archive:
        names = archive.getnames()
    assert "b2sdk/__init__.py" in names
    assert "b2sdk-2.13.1.dist-info/METADATA" in names
    assert not [name for name in names if name.endswith(".so")]


def test_a_wheel_that_is_missing_is_said_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / bundle_b2.LOCK).write_text(f"b2sdk==1 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(
        ConsoleError,
        match=r"1 of the 1 wheels that agents/bundle_b2.lock pins .*build_bundle.py --fetch",
    ):
        bundle_b2.from_checkout(tmp_path)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    built = _small()
    bundle.write(built, tmp_path, bundle_b2.ARCHIVE, bundle_b2.DESCRIPTION)
    assert bundle.read(tmp_path, bundle_b2.ARCHIVE, bundle_b2.DESCRIPTION) == built
    (tmp_path / bundle_b2.ARCHIVE).write_bytes(b"x")
    with pytest.raises(ConsoleError, match=r"b2.tar.gz is damaged"):
        bundle.read(tmp_path, bundle_b2.ARCHIVE, bundle_b2.DESCRIPTION)


async def test_it_is_brought_once(local: LocalTransport, home: Path) -> None:
    await _with_agent(local)
    said: list[str] = []
    assert await bring(local, said.append, _small) is True
    assert await bring(local, said.append, _small) is False
    assert len(said) == 1
    current = home / "b2-current"
    assert current.resolve() == home / "b2" / _small().name
    assert (current / "one" / "__init__.py").read_bytes() == b"x = 1\n"
    assert (current / "ok").is_file()
    assert (current / "one").stat().st_mode & 0o077 == 0
    assert [path.name for path in (home / "b2").iterdir()] == [_small().name]
    assert (home / "current").resolve().parent == home / "agent"  # the agent's own is not touched


async def test_another_one_takes_its_place(local: LocalTransport, home: Path) -> None:
    await _with_agent(local)
    for text in (b"x = 1\n", b"x = 2\n", b"x = 3\n"):
        await bring(local, quiet, lambda text=text: _small(text))
    assert ((home / "b2-current").resolve() / "one" / "__init__.py").read_bytes() == b"x = 3\n"
    assert {path.name for path in (home / "b2").iterdir()} == {
        _small(b"x = 2\n").name,
        _small(b"x = 3\n").name,
    }


async def test_without_an_agent_nothing_is_brought(local: LocalTransport, home: Path) -> None:
    with pytest.raises(NoAgent, match=r"bs4-console deploy --pod"):
        await bring(local, quiet, _small)
    assert not (home / "b2").exists()


async def test_what_arrives_damaged_is_thrown_away(local: LocalTransport, home: Path) -> None:
    await _with_agent(local)
    good = _small()
    bad = bundle.Bundle(
        good.data[:-5] + b"xxxxx", good.sha256, good.name, good.version, good.build, good.unpacked
    )
    with pytest.raises(DeployFailed, match="could not be installed"):
        await bring(local, quiet, lambda: bad)
    assert not (home / "b2-current").exists()
    assert not list((home / "b2").glob("*")) if (home / "b2").exists() else True


def test_a_worker_needs_nothing_but_the_two_bundles(tmp_path: Path) -> None:
    """As on a pod: no site-packages, only what the archives hold."""
    places = []
    for number, data in enumerate((bundle.shipped().data, bundle_b2.shipped().data)):
        place = tmp_path / str(number)
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(place, filter="data")
        places.append(place)
    machine = next(places[0].glob("lib-x86_64" if sys.maxsize else ""))
    path = [str(machine), str(places[0] / "lib"), str(places[0]), str(places[1])]
    code = (
        f"import sys, json; sys.path[:0] = {path!r}\n"
        "from bs4_common.checkpoints.remote import b2\n"
        "from bs4_agent.checkpoints.remote import worker\n"
        "import b2sdk, requests, urllib3, certifi\n"
        "print(json.dumps([m.__file__ for m in (b2sdk, requests, urllib3, certifi)]))"
    )
    done = subprocess.run(
        [sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=True
    )
    assert all(file.startswith(str(places[1])) for file in json.loads(done.stdout))
