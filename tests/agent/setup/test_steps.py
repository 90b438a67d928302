"""The steps of a set-up on real files and with the real git: each is done once, and half of it is
never taken for the whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from bs4_agent.setup.place import SetupContext
from bs4_agent.setup.recipe import read
from bs4_agent.setup.steps.checkout import Checkout
from bs4_agent.setup.steps.environment import Environments
from bs4_agent.setup.steps.launches import Limits, Profile, Variables
from bs4_agent.setup.steps.programs import Tools, Uv
from bs4_agent.setup.steps.sync import Sync
from bs4_common.errors import NotApplicable, PlanChanged, StepFailed
from bs4_practice.http_server import HttpServer
from tests.agent.setup.places import RECIPE, carry_out, context, place

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    for name in (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_CONFIG_GLOBAL",
        "XDG_CONFIG_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    return home


def at(user: Path, **changes: Any) -> SetupContext:
    return context(place(user), read({**RECIPE, **changes}))


def program(user: Path, name: str, text: str) -> Path:
    path = user / ".local" / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def test_the_profile_gets_one_block_and_keeps_everything_else(user: Path) -> None:
    (user / ".bashrc").write_text("alias ll='ls -l'")
    (user / ".bashrc").chmod(0o640)
    carry_out(Profile(), at(user))
    carry_out(Profile(), at(user, nofile=8192))
    for name in (".profile", ".bashrc"):
        text = (user / name).read_text()
        assert text.count(">>> bs4-console >>>") == 1
        assert "8192" in text
        assert "4096" not in text
    assert (user / ".bashrc").read_text().startswith("alias ll='ls -l'\n# >>>")
    assert (user / ".bashrc").stat().st_mode & 0o777 == 0o640


def test_a_shell_takes_the_profile_in_and_finds_uv(user: Path) -> None:
    there = at(user)
    carry_out(Variables(), there)
    carry_out(Profile(), there)
    program(user, "uv", "echo uv 9\n")
    told = subprocess.run(
        [
            "sh",
            "-ec",
            (
                '. "$HOME/.profile"; . "$HOME/.profile"; uv; echo $VLLM_WORKER_MULTIPROC_METHOD; '
                'echo "$PATH"'
            ),
        ],
        env={"HOME": str(user), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == ["uv 9", "spawn", f"{user}/.local/bin:/usr/bin:/bin"]
    assert told.stderr == ""


def test_limits_are_an_order_and_say_what_the_machine_allows(user: Path) -> None:
    (planned,) = Limits().plan(context(place(user, hard=2000), read(RECIPE)))
    assert "hard limit is 2000" in planned.shown["now"]
    assert "ulimit -n 2000" in planned.command
    carry_out(Limits(), at(user))
    assert at(user).place.home.limits.read_text().strip() == '{"nofile":4096}'


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A directory and the address at which it is served over HTTP."""
    directory = tmp_path / "served"
    directory.mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=str(directory))
    with HttpServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield directory, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def wheel(path: Path, text: str, member: str = "uv-0.9.18.data/scripts/uv") -> str:
    """Make a wheel with this shell script as the program uv, and return its SHA-256."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, "#!/bin/sh\n" + text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pinned(url: str, sha256: str, machine: str = os.uname().machine) -> dict[str, Any]:
    return {machine: {"url": url, "sha256": sha256}}


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")


@needs_curl
def test_uv_is_unpacked_from_the_wheel_that_is_pinned(user: Path, served: tuple[Path, str]) -> None:
    directory, address = served
    sha256 = wheel(directory / "uv.whl", "echo uv 0.9.18\n")
    there = at(user, uv_archives=pinned(f"{address}/uv.whl", sha256))
    assert carry_out(Uv(), there) == ["uv 0.9.18"]
    assert carry_out(Uv(), there) == []
    assert (user / ".local" / "bin" / "uv").stat().st_mode & 0o777 == 0o755
    assert list((user / ".bs4" / "setup").iterdir()) == []
    program(user, "uv", "echo Python 3.11\n")  # something else of that name is no uv
    assert not Uv().plan(there)[0].shown["done"]


@needs_curl
def test_nothing_of_another_archive_is_run_or_kept(user: Path, served: tuple[Path, str]) -> None:
    directory, address = served
    ran = user / "ran"
    wheel(directory / "uv.whl", f"touch {ran}; echo uv 0.9.18\n")
    there = at(user, uv_archives=pinned(f"{address}/uv.whl", "0" * 64))
    with pytest.raises(StepFailed, match="Nothing of it was run"):
        carry_out(Uv(), there)
    sha256 = wheel(directory / "other.whl", "", "elsewhere/uv")
    there = at(user, uv_archives=pinned(f"{address}/other.whl", sha256))
    with pytest.raises(StepFailed, match="holds no program uv"):
        carry_out(Uv(), there)
    (directory / "script.sh").write_text(f"touch {ran}\n")
    sha256 = hashlib.sha256((directory / "script.sh").read_bytes()).hexdigest()
    there = at(user, uv_archives=pinned(f"{address}/script.sh", sha256))
    with pytest.raises(StepFailed, match="cannot be unpacked"):
        carry_out(Uv(), there)
    assert not ran.exists()
    assert not (user / ".local" / "bin" / "uv").exists()
    assert list((user / ".bs4" / "setup").iterdir()) == []


def test_a_machine_type_without_a_pinned_archive_is_refused(user: Path) -> None:
    there = at(user, uv_archives=pinned("https://example.org/uv.whl", "0" * 64, "riscv64"))
    (planned,) = Uv().plan(there)
    assert f"no archive of uv is pinned for {os.uname().machine}" in planned.shown["now"]
    assert planned.command == ""
    with pytest.raises(StepFailed, match="by hand"):
        Uv().act(there, planned, [], lambda text: None)


def test_what_cannot_be_installed_is_said_by_name(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(user / "nothing"))
    there = at(user)
    (planned,) = Tools().plan(there)
    assert "missing: git, curl" in planned.shown["now"]
    with pytest.raises(StepFailed, match="by hand"):
        Tools().act(there, planned, [], lambda text: None)
    program(user, "git", "exit 0\n")
    program(user, "uv", "echo uv 9\n")
    assert Tools().plan(there)[0].shown["done"]  # curl is for uv alone


def test_apt_brings_what_is_missing(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(user / "nothing"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    there = at(user)
    program(user, "apt-get", "exit 0\n")
    with pytest.raises(StepFailed, match="still not on the PATH"):
        carry_out(Tools(), there)
    body = "#!/bin/sh\\n"
    program(
        user,
        "apt-get",
        f'for p in git curl; do f=$HOME/.local/bin/$p; printf "{body}" > $f; /bin/chmod 755 '
        "$f; done\n",
    )
    assert carry_out(Tools(), there) == ["installed"]


def git(directory: Path, *words: str) -> str:
    nobody = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *nobody, *words], cwd=directory, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def remote(user: Path, tmp_path: Path) -> tuple[Path, str, str]:
    """A repository and two of its revisions."""
    directory = tmp_path / "remote"
    directory.mkdir()
    git(directory, "init", "--quiet", "--initial-branch", "main")
    found = []
    for text in ("one", "two"):
        (directory / "file").write_text(text)
        git(directory, "add", "--all")
        git(directory, "commit", "--quiet", "--message", text)
        found.append(git(directory, "rev-parse", "HEAD"))
    return directory, found[0], found[1]


@needs_git
def test_a_clone_is_whole_or_not_there(user: Path, remote: tuple[Path, str, str]) -> None:
    directory, old, _ = remote
    half = user / ".prime-rl.bs4-part"
    (half / ".git").mkdir(parents=True)
    (half / ".git" / "objects").write_text("half")
    there = at(user, repository=str(directory), revision=old[:9])
    assert "half a clone" in Checkout().plan(there)[0].shown["now"]
    carry_out(Checkout(), there)
    assert (user / "prime-rl" / "file").read_text() == "one"
    assert not half.exists()


@needs_git
def test_submodules_come_without_a_key_and_survive_the_rename(
    user: Path, remote: tuple[Path, str, str], tmp_path: Path
) -> None:
    directory, _, _ = remote
    part = tmp_path / "hub" / "someone" / "part.git"
    part.mkdir(parents=True)
    git(part, "init", "--quiet", "--initial-branch", "main")
    git(part, "commit", "--quiet", "--allow-empty", "--message", "part")
    held = git(part, "rev-parse", "HEAD")
    (directory / ".gitmodules").write_text(
        '[submodule "part"]\n\tpath = deps/part\n\turl = git@github.com:someone/part.git\n'
    )
    git(directory, "update-index", "--add", "--cacheinfo", f"160000,{held},deps/part")
    git(directory, "add", ".gitmodules")
    git(directory, "commit", "--quiet", "--message", "with a part")
    # Where https leads to here.
    (user / ".gitconfig").write_text(
        f'[url "file://{tmp_path}/hub/"]\n\tinsteadOf = https://github.com/\n[protocol '
        '"file"]\n\tallow = always\n'
    )
    carry_out(
        Checkout(),
        at(user, repository=str(directory), revision=git(directory, "rev-parse", "HEAD")),
    )
    assert git(user / "prime-rl" / "deps" / "part", "rev-parse", "HEAD") == held


@needs_git
def test_a_clone_that_fails_leaves_nothing_that_could_be_used(
    user: Path, remote: tuple[Path, str, str]
) -> None:
    directory, _, _ = remote
    there = at(user, repository=str(directory), revision="feedfacefeed")
    with pytest.raises(StepFailed, match="checkout"):
        carry_out(Checkout(), there)
    assert not (user / "prime-rl").exists()


@needs_git
def test_a_checkout_moves_to_the_revision_and_somebodys_work_stays(
    user: Path, remote: tuple[Path, str, str]
) -> None:
    directory, old, new = remote
    carry_out(Checkout(), at(user, repository=str(directory), revision=old))
    there = at(user, repository=str(directory), revision=new)
    (planned,) = Checkout().plan(there)
    tree = user / "prime-rl"
    (tree / "file").write_text("mine")
    with pytest.raises(NotApplicable, match="1 changed files"):
        Checkout().plan(there)
    with pytest.raises(PlanChanged, match="changed files"):
        Checkout().check(there, planned)
    # at its own revision it may be edited
    assert carry_out(Checkout(), at(user, repository=str(directory), revision=old)) == []
    git(tree, "checkout", "--quiet", "--", "file")
    (tree / "notes.txt").write_text("untracked")
    carry_out(Checkout(), there)
    assert ((tree / "file").read_text(), (tree / "notes.txt").read_text()) == ("two", "untracked")


@needs_git
def test_what_appeared_since_the_plan_is_not_touched(
    user: Path, remote: tuple[Path, str, str]
) -> None:
    directory, old, _ = remote
    there = at(user, repository=str(directory), revision=old)
    (planned,) = Checkout().plan(there)
    (user / "prime-rl").mkdir()
    (user / "prime-rl" / "mine").touch()
    with pytest.raises(PlanChanged, match="no checkout of git"):
        Checkout().check(there, planned)
    with pytest.raises(NotApplicable, match="no checkout of git"):
        Checkout().plan(there)


def venv(user: Path) -> Path:
    """A training environment as far as a step looks: its interpreter, and the command."""
    directory = user / "prime-rl" / ".venv" / "bin"
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("python", "rl"):
        (directory / name).unlink(missing_ok=True)
        (directory / name).symlink_to(shutil.which("python3") or "/usr/bin/python3")
    return directory


def test_what_an_image_brought_without_git_is_left_as_it_is(user: Path) -> None:
    there, january = at(user), at(user, trainer="prime-rl-2026-01")
    rl = venv(user) / "rl"
    rl.unlink()
    rl.write_text("#!/opt/python\nfrom prime_rl.entrypoints.rl import main\n")
    for step in (Checkout(), Sync()):
        assert carry_out(step, there) == []
    assert "its revision is not known" in Checkout().plan(there)[0].shown["now"]
    assert "what the image brought" in Sync().plan(there)[0].shown["now"]
    with pytest.raises(
        NotApplicable, match=r"no checkout of git \(the trainer in it is prime-rl\)"
    ):
        Checkout().plan(january)
    (rl.parent / "python").unlink()
    with pytest.raises(NotApplicable, match="no checkout of git;"):
        Checkout().plan(there)


def test_a_sync_that_did_not_end_is_not_taken_for_one(user: Path) -> None:
    there = at(user)
    directory = venv(user)
    (user / "prime-rl" / "uv.lock").write_text("version = 1")
    (planned,) = Sync().plan(there)
    assert "whole or not" in planned.shown["now"]
    program(user, "uv", "exit 1\n")
    with pytest.raises(StepFailed):
        carry_out(Sync(), there)
    program(user, "uv", "exit 0\n")
    assert carry_out(Sync(), there) == ["~/prime-rl/.venv is whole"]
    (user / "prime-rl" / "uv.lock").write_text("version = 2")
    assert not Sync().plan(there)[0].shown["done"]
    carry_out(Sync(), there)
    (directory / "rl").unlink()
    (user / "prime-rl" / ".venv" / ".bs4-synced").unlink()
    with pytest.raises(StepFailed, match="rl is not there"):
        carry_out(Sync(), there)


def test_an_environment_counts_when_it_can_be_imported(user: Path) -> None:
    there = at(user, environments=["owner/some-env"])
    assert "no training environment" in Environments().plan(there)[0].shown["now"]
    answer, packages = (
        user / "answer",
        user / "prime-rl" / ".venv" / "lib" / "python3.12" / "site-packages",
    )
    python = venv(user) / "python"
    python.unlink()
    python.write_text(f"#!/bin/sh\ncat {answer}\n")
    python.chmod(0o755)
    answer.write_text('["some_env", "ModuleNotFoundError: No module"]\n')
    uv = program(user, "uv", f"""echo '["some_env", "ImportError: needs more"]' > {answer}\n""")
    with pytest.raises(StepFailed, match="needs more"):
        carry_out(Environments(), there)
    done = f"""echo '["some_env", null]' > {answer}; mkdir -p {packages}/some_env-0.1.0.dist-info"""
    program(user, "uv", f"""echo "$@ in $VIRTUAL_ENV" > {user}/asked; {done}\n""")
    assert carry_out(Environments(), there) == ["some-env 0.1.0 loads"]
    assert (
        user / "asked"
    ).read_text() == f"tool run prime env install owner/some-env in {user}/prime-rl/.venv\n"
    assert (
        there.place.jobs.ran
        == [[str(uv), "tool", "run", "prime", "env", "install", "owner/some-env"]] * 2
    )  # type: ignore[attr-defined]
    assert (
        "0.1.0 is installed, not 2.0"
        in Environments().plan(at(user, environments=["owner/some-env@2.0"]))[0].shown["now"]
    )
