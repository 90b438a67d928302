"""The sources of an earlier commit, from which a round can start."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.chaos.console import ROOT

#: The last commit before what both sides speak became a package of its own. Its agent has other
#: modules at other paths.
BEFORE_THE_SPLIT = "b7111998"


class NoSuchCommit(Exception):
    """Raised if this checkout does not have a commit, with what git says."""


def sources(commit: str, directory: Path) -> Path:
    """Return a new tree below `directory` with the files of `commit` and the wheels of this
    checkout. Raises NoSuchCommit if git cannot read that commit here.
    """
    archived = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=ROOT, capture_output=True, check=False
    )
    if archived.returncode != 0:
        raise NoSuchCommit(archived.stderr.decode(errors="replace").strip())
    place = directory / commit
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(place, filter="data")
    shutil.copytree(ROOT / "build" / "wheels", place / "build" / "wheels")
    return place
