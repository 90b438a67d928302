"""Build the agent's bundle into build/bundle, where the wheel takes it from: `python tools/build_bundle.py [--fetch]`.

--fetch downloads the wheels that agents/bundle.lock pins, for every machine the agent runs on, into build/wheels first
(nothing when all are there).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "console"), str(ROOT / "agents")]

from bs4_console.core.errors import ConsoleError  # noqa: E402 (the checkout's own code, before it is installed)
from bs4_console.transport import bundle  # noqa: E402


def fetch() -> None:
    """`pip download --require-hashes` once per machine; pip refuses whatever does not have a pinned hash."""
    for platform in bundle.MACHINES.values():
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--require-hashes", "--no-deps", "--only-binary=:all:"),
            *("--platform", platform, "--implementation", "cp", "--python-version", ".".join(map(str, bundle.PYTHON_MIN))),
            *("--abi", "abi3", "--abi", "none"),
            *("--dest", str(ROOT / "build" / "wheels"), "--requirement", str(ROOT / "agents" / bundle.LOCK)),
        ]
        subprocess.run(command, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fetch", action="store_true", help="download the pinned wheels that are missing")
    arguments = parser.parse_args()
    try:
        if arguments.fetch and not _complete():
            fetch()
        built = bundle.from_checkout(ROOT, bundle.compiled_playbooks())
    except ConsoleError as error:
        print(f"build_bundle: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"build_bundle: pip could not fetch the pinned wheels (exit {error.returncode}); see its message above.", file=sys.stderr)
        return 1
    bundle.write(built, ROOT / "build" / "bundle")
    print(f"build/bundle/{bundle.ARCHIVE}: {len(built.data):,} bytes, {built.name}, version {built.version}, build {built.build}")
    return 0


def _complete() -> bool:
    try:
        bundle.wheels(ROOT)
    except ConsoleError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
