"""Build the two bundles into build/bundle, where the wheel takes them from: `python tools/build_bundle.py [--fetch]`.

--fetch downloads the wheels that agents/bundle.lock (for every machine the agent runs on) and agents/bundle_b2.lock (pure Python) pin
into build/wheels first (nothing when all are there).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "console"), str(ROOT / "agents")]

from bs4_console.core.errors import ConsoleError  # noqa: E402 (the checkout's own code, before it is installed)
from bs4_console.transport import bundle, bundle_b2  # noqa: E402


def fetch() -> None:
    """`pip download --require-hashes` once per machine; pip refuses whatever does not have a pinned hash."""
    wanted = [(platform, "cp", ("abi3", "none"), bundle.LOCK) for platform in bundle.MACHINES.values()]
    for platform, implementation, abis, lock in [*wanted, ("any", "py", ("none",), bundle_b2.LOCK)]:
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--require-hashes", "--no-deps", "--only-binary=:all:"),
            *("--platform", platform, "--implementation", implementation, "--python-version", ".".join(map(str, bundle.PYTHON_MIN))),
            *(word for abi in abis for word in ("--abi", abi)),
            *("--dest", str(ROOT / "build" / "wheels"), "--requirement", str(ROOT / "agents" / lock)),
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
        second = bundle_b2.from_checkout(ROOT)
    except ConsoleError as error:
        print(f"build_bundle: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"build_bundle: pip could not fetch the pinned wheels (exit {error.returncode}); see its message above.", file=sys.stderr)
        return 1
    bundle.write(built, ROOT / "build" / "bundle")
    bundle.write(second, ROOT / "build" / "bundle", bundle_b2.ARCHIVE, bundle_b2.DESCRIPTION)
    print(f"build/bundle/{bundle.ARCHIVE}: {len(built.data):,} bytes, {built.name}, version {built.version}, build {built.build}")
    print(f"build/bundle/{bundle_b2.ARCHIVE}: {len(second.data):,} bytes, {second.name}, b2sdk {second.version}")
    return 0


def _complete() -> bool:
    try:
        bundle.wheels(ROOT)
        bundle.wheels(ROOT, bundle_b2.LOCK)
    except ConsoleError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
