"""Build what a pod is sent, from the sources and the wheels that agents/*.lock pin by hash.

    --fetch             download the pinned wheels that are missing into build/wheels
    --into DIRECTORY    write both bundles there, as a wheel of the console carries them
    --source DIRECTORY  write there what a source archive needs to do the same offline

The last two fetch what is missing from build/wheels into a directory of their own: they change
nothing in the sources. They need pip, PyYAML and jsonschema (pyproject.toml, `build-system`).
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "console"), str(ROOT / "agents")]

# The checkout's own code, before it is installed.
from bs4_console.errors import ConsoleError  # noqa: E402
from bs4_console.transport import bundle, bundle_b2  # noqa: E402


def fetch(work: Path) -> None:
    """Download the wheels that agents/*.lock pin by hash into the directory `wheels/` in `work`.
    pip refuses a file that does not have one of these hashes. Raises ConsoleError if a wheel cannot
    be downloaded or is refused.
    """
    agent = [
        (platform, "cp", ("abi3", "none"), bundle.LOCK) for platform in bundle.MACHINES.values()
    ]
    for platform, implementation, abis, lock in [*agent, ("any", "py", ("none",), bundle_b2.LOCK)]:
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--require-hashes", "--no-deps", "--only-binary=:all:"),
            *("--platform", platform, "--implementation", implementation),
            *("--python-version", ".".join(map(str, bundle.PYTHON_MIN))),
            *(word for abi in abis for word in ("--abi", abi)),
            *("--dest", str(work / "wheels"), "--requirement", str(ROOT / "agents" / lock)),
        ]
        done = subprocess.run(command, check=False)
        if done.returncode != 0:
            raise ConsoleError(
                f"pip could not fetch the wheels that agents/{lock} pins (exit "
                f"{done.returncode}; its message is above).",
                "Build where a package index can be reached, or from the source archive, "
                "which carries them.",
            )


@contextlib.contextmanager
def complete() -> Iterator[Path]:
    """Yield a directory whose `wheels/` holds every pinned wheel. It is `build` if all of them are
    there. Otherwise it is a temporary directory, to which they are downloaded and which is removed
    when the `with` block ends. Raises ConsoleError if they cannot be downloaded.
    """
    if not missing(ROOT / "build"):
        yield ROOT / "build"
        return
    print(
        "Fetching the wheels of the agent's bundle, pinned by hash in agents/*.lock (1.5 MB).",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="bs4-wheels-") as directory:
        fetch(Path(directory))
        yield Path(directory)


def missing(work: Path) -> bool:
    """Return True if the directory `wheels/` of `work` lacks one of the wheels that the lock files
    in agents/ list, or has it with another hash.
    """
    try:
        bundle.wheels(ROOT, work)
        bundle.wheels(ROOT, work, bundle_b2.LOCK)
    except ConsoleError:
        return True
    return False


def write_bundles(directory: Path) -> None:
    """Write into `directory` the two archives that the console sends to pods, each with a file that
    describes it: the agent's, and that of b2sdk, the library for object stores. Print one line
    about each.
    """
    with complete() as work:
        agent = bundle.from_checkout(ROOT, bundle.compiled_playbooks(), work=work)
        b2 = bundle_b2.from_checkout(ROOT, work=work)
    bundle.write(agent, directory)
    bundle.write(b2, directory, bundle_b2.ARCHIVE, bundle_b2.DESCRIPTION)
    print(
        f"{bundle.ARCHIVE}: {len(agent.data):,} bytes, {agent.name}, version "
        f"{agent.version}, build {agent.build}"
    )
    print(f"{bundle_b2.ARCHIVE}: {len(b2.data):,} bytes, {b2.name}, b2sdk {b2.version}")


def write_source(directory: Path) -> None:
    """Write into `directory` what a source archive must contain, so that the bundles can be built
    from it without git and network: the pinned wheels and the build number. Raises ConsoleError if
    the wheels cannot be downloaded. Raises FileExistsError if `directory` already has
    `build/wheels` or `agents`.
    """
    (directory / "build" / "wheels").mkdir(parents=True)
    with complete() as work:
        for lock in (bundle.LOCK, bundle_b2.LOCK):
            for wheel in bundle.wheels(ROOT, work, lock):
                shutil.copy(wheel, directory / "build" / "wheels")
    recorded = directory / bundle.RECORDED_NUMBER
    recorded.parent.mkdir()
    recorded.write_text(f"{bundle.build_number(ROOT)}\n")


def main() -> int:
    """Do what the one option of the command line says (see the top of this file). Return the exit
    code: 0, or 1 after an error, which is printed on standard error.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--fetch", action="store_true")
    what.add_argument("--into", type=Path, metavar="DIRECTORY")
    what.add_argument("--source", type=Path, metavar="DIRECTORY")
    arguments = parser.parse_args()
    try:
        if arguments.into:
            write_bundles(arguments.into)
        elif arguments.source:
            write_source(arguments.source)
        elif missing(ROOT / "build"):
            fetch(ROOT / "build")
    except ConsoleError as error:
        print(f"build_bundle: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
