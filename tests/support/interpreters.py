"""Which Python a test pod has: found on this machine, shown to the pod, the others taken out of its
sight.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.pod import ANY_PYTHON, NotHere

#: Every place where the agent looks for a Python, as patterns below the pod's root. Home is the
#: pod's own and empty.
_PLACES = (
    "/usr/bin/python3*",
    "/usr/local/bin/python3*",
    "/bin/python3*",
    "/opt/conda/bin/python3*",
    "/opt/*/bin/python3*",
    "/venv/*/bin/python3*",
)


def find(version: str) -> Path:
    """An interpreter of `version` ("3.8") on this machine, as its resolved executable; NotHere when
    there is none.
    """
    home = Path.home()
    patterns = (
        (Path("/usr/bin"), f"python{version}"),
        (Path("/usr/local/bin"), f"python{version}"),
        (home / ".pyenv/versions", f"{version}.*/bin/python{version}"),
        (home / ".local/share/uv/python", f"cpython-{version}.*/bin/python{version}"),
        (Path("/opt"), f"python*/bin/python{version}"),
    )
    for base, pattern in patterns:
        for found in sorted(base.glob(pattern)) if base.is_dir() else ():
            if os.access(found, os.X_OK):
                return found.resolve()
    on_path = shutil.which(f"python{version}")
    if on_path:
        return Path(on_path).resolve()
    raise NotHere(f"no Python {version} on this machine")


def in_pod(version: str, root: Path) -> list[str]:
    """Shell lines that give the pod at `root` (not yet entered) the wanted Python."""
    if version == ANY_PYTHON:
        return [] if _system_has_one() else _transplant(Path(sys.executable).resolve(), root)
    hide = ["rm -f " + " ".join(f"{root}{place}" for place in _PLACES)]
    return hide if not version else hide + _transplant(find(version), root)


def _system_has_one() -> bool:
    for candidate in ("/usr/bin/python3", "/usr/local/bin/python3"):
        test = [candidate, "-I", "-c", "import sys, ctypes; sys.exit(sys.version_info < (3, 10))"]
        if (
            os.access(candidate, os.X_OK)
            and subprocess.run(test, check=False, capture_output=True).returncode == 0
        ):
            return True
    return False


def _transplant(executable: Path, root: Path) -> list[str]:
    """Bind the interpreter's whole prefix to /opt/python (homes are hidden) and link python3 to it;
    /usr is there already.
    """
    name = executable.name
    target = f"/usr/bin/{name}"
    lines = []
    if executable.parent.parent == Path("/usr"):
        # Hidden with the others above: put a copy back.
        lines.append(f"cp {shlex.quote(str(executable))} {root}{target}")
    else:
        prefix = shlex.quote(str(executable.parent.parent))
        target = f"/opt/python/bin/{name}"
        lines.append(f"mkdir -p {root}/opt/python; mount --bind -o ro {prefix} {root}/opt/python")
        # A shared libpython is found by an absolute path that no longer holds; /usr/lib is always
        # searched.
        lines.append(
            f"for so in {prefix}/lib/libpython*.so*; do ln -sf /opt/python/lib/$(basename "
            f"$so) {root}/usr/lib/; done"
        )
    lines.append(f"ln -sf {target} {root}/usr/local/bin/python3")
    return lines
