"""Keep the texts of configs that runs were launched with, so that two runs can be compared, and an
earlier config can be had again after its file was changed.

A launch's record has a digest of the config's values and no text. When a run is seen, the config is
read from the pod, and kept only if it has that digest: a file that was changed since the launch is
not what the run was launched with. The texts lie in `<data>/runlog/configs/POD/DIGEST.toml`, mode
0600, with secrets redacted. A file is never written twice.

Each pod has texts of its own. A digest says nothing about comments, and a date and its text have
the same, so a pod that lies could else put its text in the place of another pod's.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bs4_common.credentials.forms import is_secret
from bs4_common.credentials.redaction import marker
from bs4_console import files
from bs4_console.ceilings import CONFIG_BYTES, CONFIGS
from bs4_console.configs.history import History
from bs4_console.errors import RemoteError
from bs4_console.locations import data_dir
from bs4_console.pods.gate.plans import Launched
from bs4_console.pods.session import PodSession
from bs4_console.run_log.record_fold import launches, other_names
from bs4_console.secret import redacted

_DIGEST = re.compile(r"[0-9a-f]{16}")
#: More configs are not read in one look at a pod.
_MOST = 20
#: The most dots in a line of a config, in keys and texts.
_DOTS = 200


class ConfigTexts:
    """The texts of the configs of one pod's runs, as they are kept on this machine. Each is found
    by its digest, a hash of the values in it. `pod` is the name of the pod, and `directory` holds
    the texts of all pods.
    """

    def __init__(self, pod: str, directory: Path | None = None) -> None:
        self._pod = pod
        self._all = directory or data_dir() / "runlog" / "configs"
        self.directory = self._all / pod

    def text(self, digest: str) -> str | None:
        """Return the text of the config whose values have the digest `digest`. Return None if no
        such text is kept for this pod, also under another name of the same machine, nor among those
        that an earlier version of this program kept for all pods together. Raises OSError if it
        cannot be read.
        """
        for directory in self._places():
            path = _path(directory, digest)
            if path is not None and path.is_file():
                return path.read_text(encoding="utf-8")
        return None

    def _places(self) -> Iterator[Path]:
        """Yield the directories in which a text of this pod may lie."""
        yield self.directory
        for name in other_names(self._pod):
            yield self._all / name
        yield self._all

    def holds(self, digest: str) -> bool:
        """Return True if the text of the config with this digest is kept for this pod."""
        path = _path(self.directory, digest)
        return path is not None and path.is_file()

    def keep(self, digest: str, text: str) -> bool:
        """Save the text of a config, with its secrets replaced, if its values have the digest
        (hash) `digest`, and return True. Return False and save nothing if they have another digest,
        if the text is not TOML, if it has a secret that cannot be replaced, or if the limit on
        saved configs (see docs/ceilings.md) is reached. Raises OSError if it cannot be written.
        """
        path = _path(self.directory, digest)
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return False  # half a character, which JSON can hold and no file
        if path is None or len(data) > CONFIG_BYTES or digest_of(text) != digest:
            return False
        if path.is_file():
            return True
        path.parent.mkdir(parents=True, exist_ok=True)
        if sum(1 for _ in path.parent.iterdir()) >= CONFIGS:
            return False
        shown = _without_secrets(text)
        if shown is None:
            return False
        files.replace(path, shown.encode())
        return True


def _path(directory: Path, digest: str) -> Path | None:
    """Return the file for a digest, or None if it is no digest: it may come from a pod."""
    if _DIGEST.fullmatch(digest) is None:
        return None
    return directory / f"{digest}.toml"


def digest_of(text: str) -> str:
    """Return the digest (a hash) of the values in the text of a config, in the form in which a
    launch records it. Return "" if the text is not TOML.
    """
    data = parsed(text)
    if data is None:
        return ""
    try:
        return History.digest(data)
    except (ValueError, RecursionError):
        return ""  # more digits than Python writes, or deeper than it nests: no trainer takes it


def parsed(text: str) -> dict[str, Any] | None:
    """Return the values in the text of a config as a dictionary. Return None if the text is no
    TOML. Return None too if a line has more dots than a trainer's config has, because Python's
    parser needs minutes for a key of thousands of parts.
    """
    if any(line.count(".") > _DOTS for line in text.split("\n")):
        return None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _without_secrets(text: str) -> str | None:
    """Return the text of a config redacted, or None if a value that stands under the name of a
    secret cannot be found in it as it is written there.
    """
    for value in _secrets(parsed(text) or {}, ()):
        if value not in text:
            return None
        text = text.replace(value, marker(""))
    return redacted(text)


def _secrets(value: Any, names: tuple[str, ...]) -> Iterator[str]:
    """Yield each text in a config's values whose name, or whose table and name together, are those
    of a secret. `names` are the keys that lead to `value`.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets(inner, (*names, name))
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, names)
    elif isinstance(value, str) and value and _names_secret(names, value):
        yield value


def _names_secret(names: tuple[str, ...], value: str) -> bool:
    """Return True if the name of a value, or its table and name together, are those of a secret."""
    return is_secret(names[-1], value) or is_secret("_".join(names[-2:]), value)


async def keep_of(live: PodSession) -> None:
    """Save on this machine the config of the newest launch of each run on the connected pod `live`,
    unless it is saved already. A config that cannot be read on the pod any more, or cannot be
    written here, is left out, and a note of the pod's state says so. Raises LinkError if the link
    is lost.
    """
    kept = ConfigTexts(live.state.name)
    wanted = []
    for run in reversed(live.state.runs):
        plans = launches(live.state, run)
        if plans:
            wanted.append(plans[max(plans)])
    for plan in wanted[:_MOST]:
        await keep_planned(live, plan, kept)


async def keep_planned(live: PodSession, plan: Launched, kept: ConfigTexts | None = None) -> None:
    """Save on this machine the text of the config of the launch `plan`, unless it is saved already.
    The text is read from the connected pod `live`. If it cannot be read there or written here, a
    note of the pod's state says so. Raises LinkError if the link is lost.

    `kept` is the store of this pod's config texts; None opens it.
    """
    kept = kept or ConfigTexts(live.state.name)
    path, digest = plan.config, plan.digest
    if not digest or not path:
        return  # the plan of an older agent
    try:
        if kept.holds(digest):
            return
        answer = await live.query("preflight", "config", config=path, cwd=plan.cwd)
        match answer.get("files"):
            case [[_, str(text)], *_]:
                if not kept.keep(digest, text):
                    live.state.notes["config text"] = (
                        f"{path} was not kept: it was changed since the launch, or is over a "
                        "ceiling (docs/ceilings.md)."
                    )
    except RemoteError as error:
        live.state.notes["config text"] = f"{path} was not kept: {error.message}"
    except OSError as error:
        live.state.notes["config text"] = f"{path} was not kept on this machine: {error}"
