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
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from bs4_common.credentials.forms import is_secret
from bs4_common.credentials.known import KnownValues
from bs4_common.credentials.redaction import holds_marker, marker
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
#: A text in quotes, or a comment. In a text that is TOML, a quote begins nothing else.
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)
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
                return path.read_bytes().decode()
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


def hidden(text: str) -> list[str] | None:
    """Return the names of the settings in the text of a config whose values are redacted, in whole
    or in part, such as "client.api_key". Return None if the text is no TOML.
    """
    values = parsed(text)
    if values is None:
        return None
    return [".".join(names) for names, value in _strings(values, ()) if holds_marker(value)]


def _without_secrets(text: str) -> str | None:
    """Return the text of a config, a TOML document, redacted: each secret is replaced where it
    stands, one of eight characters or more also in comments and other texts, and every other value
    stays. Return None if that cannot be done.
    """
    values = parsed(text) or {}
    secrets = {value for names, value in _strings(values, ()) if _names_secret(names, value)}
    elsewhere = KnownValues("")
    for value in secrets:
        elsewhere.add(value)
    if secrets:
        text = _without(text, secrets)
    shown = redacted(elsewhere.replace(text, lambda _, kind: marker(kind)))
    if not _differs_by_secrets(values, parsed(shown)):
        return None
    return shown


def _without(text: str, secrets: Collection[str]) -> str:
    """Return the text of a config with a marker in place of each value that stands under the name
    of a secret. `secrets` are those values. The same text elsewhere, as another setting's value or
    as a name, stays: what stands where is found by parsing it with a mark in each such place.
    """
    mark = "bs4-place-"
    while mark in text:
        mark += "-"
    tokens: dict[str, re.Match[str]] = {}
    standing: dict[str, str] = {}
    for token in _TOKEN.finditer(text):
        if token[0].startswith("#"):
            continue
        value = tomllib.loads(f"x = {token[0]}")["x"]
        if value in secrets:
            place = f"{mark}{len(tokens)}"
            tokens[place], standing[place] = token, value
    marked = _put(text, {token: f'"{place}"' for place, token in tokens.items()})
    found = {}
    for names, place in _strings(parsed(marked) or {}, ()):
        if place in tokens:
            known = tuple(standing.get(name, name) for name in names)
            if _names_secret(known, standing[place]):
                found[tokens[place]] = f'"{marker("")}"'
    return _put(text, found)


def _put(text: str, found: Mapping[re.Match[str], str]) -> str:
    """Return the text with each match, in the order in which they stand in it, replaced."""
    parts, end = [], 0
    for match in sorted(found, key=re.Match.start):
        parts += [text[end : match.start()], found[match]]
        end = match.end()
    return "".join([*parts, text[end:]])


def _differs_by_secrets(before: Any, after: Any) -> bool:
    """Return True if two configs have the same settings, and the same values but for texts of which
    at least a part was redacted.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        same_names = list(before) == list(after)
        return same_names and all(_differs_by_secrets(before[n], after[n]) for n in before)
    if isinstance(before, list) and isinstance(after, list):
        same_length = len(before) == len(after)
        return same_length and all(map(_differs_by_secrets, before, after))
    if isinstance(before, str) and isinstance(after, str):
        return before == after or holds_marker(after)
    return type(before) is type(after) and repr(before) == repr(after)


def _strings(value: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each text in a config's values that is not "", with the keys that lead to it. `names`
    are the keys that lead to `value`.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _strings(inner, (*names, name))
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, names)
    elif isinstance(value, str) and value:
        yield names, value


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
    """Save on this machine the text of the config with which a run was launched by the plan `plan`,
    unless it is saved already. The text is read from the connected pod `live`. If it cannot be read
    there or written here, a note that says so is added to the pod's state. Raises LinkError if the
    link is lost.

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
                        f"{path} was not kept: it was changed since the launch, has a secret that "
                        "cannot be replaced, or is over a ceiling (docs/ceilings.md)."
                    )
    except RemoteError as error:
        live.state.notes["config text"] = f"{path} was not kept: {error.message}"
    except OSError as error:
        live.state.notes["config text"] = f"{path} was not kept on this machine: {error}"
