"""What a practice pod needs besides to be bare: a repository to clone, and a wheel of uv to fetch,
both on this machine.

git is the real one. `curl` stands for the network: whatever address it is asked for, it brings that
wheel. What it holds is the miniature's uv, so everything behind it behaves as on a pod that was set
up beforehand.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

_FILES = {
    "pyproject.toml": '[project]\nname = "prime-rl"\nversion = "0.1.0"\n',
    "uv.lock": "version = 1\n",
    ".gitignore": ".venv/\noutputs/\nwandb/\n",
    "README.md": "A miniature for practice.\n",
}
_CURL = """#!/bin/sh
# Whatever is asked for: the wheel of uv.
while [ $# -gt 0 ]; do
    if [ "$1" = -o ]; then out=$2; fi
    shift
done
cp {wheel} "$out"
"""
_UV = """#!/bin/sh
# The miniature's uv is an interpreter, which would take this question for its own.
if [ "$1" = --version ]; then echo "uv 0.9.18"; exit; fi
if [ ! -e "$HOME/.local/share/uv/bin/uv" ]; then
{python} - {demo} "$HOME/.local/share/uv" <<'END'
import sys
import zipfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from miniature.install import install_uv
install_uv(Path(sys.argv[2]), sys.executable)
END
fi
exec "$HOME/.local/share/uv/bin/uv" "$@"
"""


def usable() -> bool:
    """Return True if this machine has git, which a bare practice pod (one without uv and prime-rl)
    needs.
    """
    return shutil.which("git") is not None


def stubs(root: Path) -> Path:
    """Write the programs that stand in for the network of a bare practice pod (one without uv and
    prime-rl) into `root/stubs`, and return that directory. It holds the wheel of uv, and a program
    `curl` that returns this wheel whatever address it is given. The directory is to stand first on
    the pod's PATH. A wheel from an earlier start of the pod is kept.
    """
    directory = root / "stubs"
    directory.mkdir(exist_ok=True)
    # Those of an earlier start of this pod stay: a recipe may name their hash.
    if not (directory / "uv.whl").exists():
        program = _UV.format(
            python=shlex.quote(sys.executable), demo=shlex.quote(str(Path(__file__).parent))
        )
        pack(root, program)
    curl = directory / "curl"
    curl.write_text(_CURL.format(wheel=shlex.quote(str(directory / "uv.whl"))))
    curl.chmod(0o755)
    return directory


def pack(root: Path, program: str) -> None:
    """Write the wheel of uv to `root/stubs/uv.whl`, with the shell script `program` as its uv. The
    hash of the file depends on nothing but the script, so that the wheel of a pod that is rented
    later has the same hash.
    """
    with zipfile.ZipFile(root / "stubs" / "uv.whl", "w") as wheel:
        wheel.writestr(zipfile.ZipInfo("uv-0.9.18.data/scripts/uv"), program)


def packed(root: Path) -> str:
    """Return the text of the shell script that stands in for the program uv in the wheel
    `root/stubs/uv.whl`, which `pack` has written.
    """
    with zipfile.ZipFile(root / "stubs" / "uv.whl") as wheel:
        return wheel.read("uv-0.9.18.data/scripts/uv").decode()


def uv_address(root: Path) -> str:
    """Return the value for the option `--uv` of a pod's set-up: a URL that ends with the SHA-256 of
    the wheel `root/stubs/uv.whl`. The URL is never really opened.
    """
    found = hashlib.sha256((root / "stubs" / "uv.whl").read_bytes()).hexdigest()
    return f"https://example.org/uv.whl#sha256={found}"


def without_uv(root: Path, directories: list[Path]) -> list[Path]:
    """Return a list of directories for a PATH in which uv cannot be found. It is `directories`,
    with each directory that holds uv replaced by a new one below `root/stubs`, which has links to
    all the other programs of that directory.
    """
    return [
        _links(root / "stubs" / f"bin{number}", found) if (found / "uv").exists() else found
        for number, found in enumerate(directories)
    ]


def _links(directory: Path, of: Path) -> Path:
    directory.mkdir(exist_ok=True)
    for program in of.iterdir():
        link = directory / program.name
        if program.name not in ("uv", "uvx") and not link.is_symlink():
            link.symlink_to(program)
    return directory


def repository(root: Path) -> Path:
    """Write the files of the practice project (but no training configs) into
    `root/remote/prime-rl`, and return that directory. It is no git repository until `commit` is
    called for it.
    """
    directory = root / "remote" / "prime-rl"
    (directory / "configs").mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        (directory / name).write_text(text)
    return directory


def commit(directory: Path) -> str:
    """Make a git repository of `directory` with all its files, and return the hash of the commit,
    which a pod is to check out. Raises CalledProcessError if git fails.
    """
    _git(directory, "init", "--quiet", "--initial-branch", "main")
    _git(directory, "add", "--all")
    _git(directory, "commit", "--quiet", "--allow-empty", "--message", "A miniature for practice")
    return _git(directory, "rev-parse", "HEAD")


def _git(directory: Path, *words: str) -> str:
    nobody = [
        "-c",
        "user.name=practice",
        "-c",
        "user.email=practice@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    own = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    own = {
        name: value
        for name, value in own.items()
        if name not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    }
    done = subprocess.run(
        ["git", *nobody, *words], cwd=directory, env=own, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
