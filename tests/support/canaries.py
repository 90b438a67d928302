"""Secrets that must be nowhere: the forms in which they would be found, and a look at everything
that could hold one.
"""

from __future__ import annotations

import base64
import html
import json
import threading
import urllib.parse
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from tests.support.trees import below


def forms(secret: str) -> list[bytes]:
    """Plain, escaped for JSON, URLs and markup, in hexadecimal, and the part of its base64 that is
    the same whatever stands around it.
    """
    raw = secret.encode()
    found = {
        raw,
        json.dumps(secret)[1:-1].encode(),
        html.escape(secret).encode(),
        raw.hex().encode(),
    }
    found |= {
        urllib.parse.quote(secret, safe="").encode(),
        urllib.parse.quote(secret).encode(),
        urllib.parse.quote_plus(secret).encode(),
    }
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + raw)[4 if shift else 0 : -4]
        found |= {text, text.replace(b"+", b"-").replace(b"/", b"_")}
    return sorted(found)


class Canaries:
    """`secrets`: name -> value."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.secrets = dict(secrets)
        self._forms = {name: forms(value) for name, value in secrets.items()}

    def within(self, data: bytes) -> list[str]:
        """The names of those that `data` holds in any form."""
        return [
            name for name, shapes in self._forms.items() if any(shape in data for shape in shapes)
        ]

    def within_files(
        self, roots: Iterable[Path], *, but: Collection[Path] = ()
    ) -> dict[str, list[str]]:
        """Of every regular file below the roots that holds one, by path; links are not followed."""
        allowed = {path.resolve() for path in but}
        found = {}
        for path in (path for root in roots for path in below(root)):
            if path.is_symlink() or not path.is_file() or path.resolve() in allowed:
                continue
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue  # a run that goes on removes what it wrote
            if names := self.within(data) + self.within(str(path).encode()):
                found[str(path)] = names
        return found


class Lookout:
    """Looks at the command line and the environment of every process of this machine, again and
    again, until the block ends.
    """

    def __init__(self, canaries: Canaries) -> None:
        self._canaries = canaries
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lookout", daemon=True)
        self._found: set[tuple[str, str, str]] = set()
        self._seen: dict[str, bytes] = {}
        self.passes = 0

    @property
    def found(self) -> set[tuple[str, str, str]]:
        """(what, command, name of the secret)."""
        return self._found.copy()

    def __enter__(self) -> Lookout:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            for process in Path("/proc").iterdir():
                if process.name.isdigit():
                    self._look(process)
            self.passes += 1

    def _look(self, process: Path) -> None:
        """The environment once for each program that a process becomes: that is all it can see of
        it, and reading is what takes time.
        """
        try:
            command = (process / "cmdline").read_bytes()
            new = self._seen.get(process.name) != command
            environment = (process / "environ").read_bytes() if new else b""
        except OSError:
            return  # it has ended, or is somebody else's
        if not new:
            return
        self._seen[process.name] = command
        shown = command[:200].replace(b"\0", b" ").decode("utf-8", "replace")
        self._found |= {("cmdline", shown, name) for name in self._canaries.within(command)}
        self._found |= {("environ", shown, name) for name in self._canaries.within(environment)}
