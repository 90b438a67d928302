"""The agent's bundle: the same sources give the same bytes, and only pinned wheels get in."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from bs4_console.errors import ConsoleError
from bs4_console.transport import bundle

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkout with wheels of its own."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    root = tmp_path / "checkout"
    agent = root / "agents" / "bs4_agent"
    (agent / "probes").mkdir(parents=True)
    (agent / "__pycache__").mkdir()
    common = root / "agents" / "bs4_common"
    common.mkdir()
    (common / "wire.py").write_text("LIMIT = 1\n")
    (agent / "__init__.py").write_text('__version__ = "0.1.0"\n')
    (agent / "probes" / "disk.py").write_text("print(1)\n")
    (agent / "__pycache__" / "x.pyc").write_text("no")
    (root / "playbooks" / "family").mkdir(parents=True)
    (root / "playbooks" / "family" / "a.yaml").write_text("id: a\n")
    (root / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')
    wheels = root / "build" / "wheels"
    wheels.mkdir(parents=True)
    hashes = []
    for name, member in (
        ("psutil-7.2.2-cp36-abi3-manylinux2014_x86_64.whl", "psutil/x86.so"),
        ("psutil-7.2.2-cp36-abi3-manylinux2014_aarch64.whl", "psutil/arm.so"),
        ("nvidia_ml_py-13-py3-none-any.whl", "pynvml.py"),
    ):
        with zipfile.ZipFile(wheels / name, "w") as archive:
            archive.writestr(member, name)
            archive.writestr("x.dist-info/RECORD", "left out")
            archive.writestr("x.dist-info/LICENSE", "kept")
        hashes.append(hashlib.sha256((wheels / name).read_bytes()).hexdigest())
    (root / "agents" / "bundle.lock").write_text(
        "x==1 \\\n" + "".join(f"    --hash=sha256:{digest}\n" for digest in hashes)
    )
    return root


def names(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getnames()


def test_it_holds_the_agent_the_playbooks_and_the_wheels_for_both_machines(checkout: Path) -> None:
    built = bundle.from_checkout(checkout, b'{"playbooks": []}')
    assert names(built.data) == sorted(
        [
            "bs4_agent/__init__.py",
            "bs4_agent/probes/disk.py",
            "bs4_common/wire.py",
            "bundle.json",
            "playbooks.json",
            "lib/pynvml.py",
            "lib/x.dist-info/LICENSE",
            "lib-x86_64/psutil/x86.so",
            "lib-x86_64/x.dist-info/LICENSE",
            "lib-aarch64/psutil/arm.so",
            "lib-aarch64/x.dist-info/LICENSE",
        ]
    )
    assert built.describe() | {"unpacked": 0, "build": 0} == {
        "sha256": hashlib.sha256(built.data).hexdigest(),
        "name": built.name,
        "version": "0.1.0",
        "build": 0,
        "python_min": "3.10",
        "unpacked": 0,
    }
    assert built.unpacked > sum(len(name) for name in names(built.data))


def test_the_same_sources_give_the_same_bytes(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = bundle.from_checkout(checkout, b"{}")
    assert first.data[4:8] == bytes(4)  # gzip's time of making
    shutil.rmtree(checkout / "build" / "cache")
    for path in sorted(checkout.rglob("*.py"), reverse=True):
        os.utime(path, (1, 1))
        path.chmod(0o644)
    assert bundle.from_checkout(checkout, b"{}").data == first.data
    copy = shutil.copytree(checkout, tmp_path / "elsewhere")
    shutil.rmtree(copy / "build" / "cache")
    assert bundle.from_checkout(copy, b"{}").data == first.data
    assert bundle.from_checkout(checkout, b'{"changed": 1}').name != first.name


def test_what_was_built_is_taken_again_until_something_changes(checkout: Path) -> None:
    first = bundle.from_checkout(checkout, b"{}")
    (cached,) = (checkout / "build" / "cache").iterdir()
    before = cached.stat().st_mtime_ns
    assert bundle.from_checkout(checkout, b"{}") == first
    assert cached.stat().st_mtime_ns == before
    source = checkout / "agents" / "bs4_agent" / "__init__.py"
    source.write_text('__version__ = "0.1.1"\n')
    os.utime(source, (2_000_000_000, 2_000_000_000))
    edited = bundle.from_checkout(checkout, b"{}")
    assert edited.name != first.name
    assert edited.order > first.order


def test_a_wheel_that_is_missing_or_changed_is_refused_with_the_command(checkout: Path) -> None:
    wheel = checkout / "build" / "wheels" / "nvidia_ml_py-13-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes() + b"x")
    with pytest.raises(ConsoleError, match="1 of the 3 wheels") as caught:
        bundle.from_checkout(checkout, b"{}")
    assert "tools/build_bundle.py --fetch" in caught.value.next_step


def test_the_build_number_is_the_last_commit_unless_the_sources_were_edited(checkout: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("no git on this machine")
    environment = {**os.environ, "GIT_COMMITTER_DATE": "1700000123 +0000", "HOME": str(checkout)}
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (
        ["init", "-q"],
        ["add", "agents", "playbooks"],
        [*identity, "commit", "-q", "-m", "x"],
    ):
        subprocess.run(
            ["git", "-C", str(checkout), *arguments],
            check=True,
            env=environment,
            capture_output=True,
        )
    assert bundle.build_number(checkout) == 1_700_000_123
    source = checkout / "agents" / "bs4_agent" / "__init__.py"
    source.write_text("# edited\n")
    os.utime(source, (2_000_000_000, 2_000_000_000))
    assert bundle.build_number(checkout) == 2_000_000_000


def test_a_source_archive_keeps_the_build_number_of_its_checkout(checkout: Path) -> None:
    """Its files have the times of its making, or none."""
    (checkout / bundle.RECORDED_NUMBER).write_text("1700000456\n")
    assert bundle.build_number(checkout) == 1_700_000_456


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (("0.1.0", 5), ("0.1.0", 6)),
        (("0.9.0", 9), ("0.10.0", 1)),
        (("0.1.0", 9), ("1.0.0", 0)),
        (("0.1", 1), ("0.1.1", 0)),
    ],
)
def test_bundles_are_ordered_by_version_then_build(
    older: tuple[str, int], newer: tuple[str, int]
) -> None:
    assert bundle.order(*older) < bundle.order(*newer)


def test_a_built_bundle_is_read_back_and_a_damaged_one_refused(
    checkout: Path, tmp_path: Path
) -> None:
    built = bundle.from_checkout(checkout, b"{}")
    bundle.write(built, tmp_path / "out")
    assert bundle.read(tmp_path / "out") == built
    (tmp_path / "out" / bundle.ARCHIVE).write_bytes(built.data[:-1])
    with pytest.raises(ConsoleError, match="damaged"):
        bundle.read(tmp_path / "out")
    with pytest.raises(ConsoleError, match="no agent bundle"):
        bundle.read(tmp_path / "nothing")


def test_this_checkout_builds_an_agent_that_starts(tmp_path: Path) -> None:
    """The real sources, the real pinned wheels, unpacked and started as a pod would."""
    try:
        bundle.wheels(ROOT, ROOT / "build")
    except ConsoleError as error:
        pytest.skip(str(error))
    built = bundle.from_checkout(ROOT, bundle.compiled_playbooks())
    with tarfile.open(fileobj=io.BytesIO(built.data)) as archive:
        # Debian 12's Python 3.11.2 has no extraction filters yet.
        for member in archive:
            target = tmp_path / built.name / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            content = archive.extractfile(member)
            assert content is not None
            target.write_bytes(content.read())
    unpacked = tmp_path / built.name
    about = json.loads((unpacked / "bundle.json").read_text())
    assert about == {
        "version": built.version,
        "build": built.build,
        "hash": built.name,
        "python_min": "3.10",
    }
    on_disk = sum(
        -(-path.stat().st_size // 4096) * 4096 for path in unpacked.rglob("*") if path.is_file()
    )
    assert on_disk < built.unpacked < 4 * on_disk
    assert len(built.data) < 1_000_000
    script = (
        "import sys, pathlib; sys.path[:0] = [sys.argv[1]]\n"
        "import runpy; module = runpy.run_path(sys.argv[1] + '/bs4_agent/bootstrap.py')\n"
        "sys.path[:1] = module['library_paths'](pathlib.Path(sys.argv[1]), 'test')\n"
        "import psutil, pynvml, tomlkit, bs4_agent; print(psutil.__file__, pynvml.__file__, "
        "tomlkit.__file__, bs4_agent.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(unpacked)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(word.startswith(str(unpacked)) for word in done.stdout.split())


SOURCE = b'''"""The module.

Two paragraphs."""

from __future__ import annotations

LINE = 6


class Thing:
    """A thing."""

    size: int = 0
    """Bytes."""

    def f(self) -> str: return "a"  # one line

    async def g(self) -> int:
        """Return the line
        of the next statement."""; x = 1
        return LINE + x


def only() -> None:
    """Do nothing."""
'''


def test_docstrings_stay_here_and_lines_keep_their_numbers() -> None:
    slim = bundle.without_docstrings(SOURCE)
    assert b"The module" not in slim
    assert b"A thing" not in slim
    assert b"of the next" in slim, "a statement stands behind it"
    assert slim.count(b"\n") == SOURCE.count(b"\n")

    def places(source: bytes) -> list[tuple[str, int]]:
        return [
            (type(node).__name__, node.lineno)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.stmt)
        ]

    assert places(slim) == places(SOURCE)


def test_the_agents_modules_are_slim_and_nothing_else_is(checkout: Path) -> None:
    members = {
        "bs4_agent/a.py": b'"""Text."""\nX = 1\n',
        "bs4_common/a.py": b'"""Text."""\nX = 1\n',
        "lib/pynvml.py": b'"""Licence."""\n',
        "playbooks.json": b"{}",
    }
    archive = bundle.assemble(members, "0.1.0", 1).data
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        found = {name: packed.extractfile(name).read() for name in members}  # type: ignore[union-attr]
    slim = dict.fromkeys(("bs4_agent/a.py", "bs4_common/a.py"), b'""\nX = 1\n')
    assert found == {**members, **slim}
