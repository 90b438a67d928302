"""What a verl run is told: Hydra's words (`key=value`, `+key=value`, `~key`) on the command line, and a TOML file that stands for them.

A launch from here takes a TOML file whose dotted keys are the overrides (`[trainer] save_freq = 20` is `trainer.save_freq=20`; a key that
Hydra has to add is written with its plus: `"+override_config" = 1`). Words of the command line win over the file, later ones over earlier
ones, as in Hydra.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.trainers import settings
from bs4_agent.trainers.base import LaunchSpec
from bs4_agent.trainers.settings import UNKNOWN_CONFIG, BadConfig

_WORD = re.compile(r"(?P<prefix>\+{0,2}|~)(?P<key>[A-Za-z_][\w./@:-]{0,200}?)(?:=(?P<value>.*))?", re.DOTALL)
#: What Hydra's grammar takes without quotes and reads as it stands.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%?*-]+")
_INTEGER = re.compile(r"[-+]?\d{1,18}")
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?")


def overrides(words: Sequence[str]) -> dict[str, Any]:
    """`key=value` words as flat settings with plain values; a key that `~` takes away is left out, and so is what is no override."""
    found: dict[str, Any] = {}
    for word in words:
        match = None if word.startswith("-") else _WORD.fullmatch(word)
        if match is None or (match["value"] is None and match["prefix"] != "~"):
            continue
        if match["prefix"] == "~":
            found.pop(match["key"], None)
        else:
            found[match["key"]] = plain(match["value"])
    return found


def is_override(word: str) -> bool:
    """Whether Hydra would take this word for an override."""
    match = None if word.startswith("-") else _WORD.fullmatch(word)
    return match is not None and (match["value"] is not None or match["prefix"] == "~")


def without(words: Sequence[str], keys: Sequence[str]) -> list[str]:
    """The overrides among `words` that set none of `keys`; whatever is no override stays out of a command line too."""
    kept = []
    for word in words:
        match = _WORD.fullmatch(word)
        if is_override(word) and match is not None and match["key"] not in keys:
            kept.append(word)
    return kept


def plain(text: str) -> Any:
    """A value of the command line: numbers, booleans, null (None), lists of plain words; everything else stays text, quotes taken off."""
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace(f"\\{text[0]}", text[0])
    if text.startswith("[") and text.endswith("]"):
        return [plain(item) for item in text[1:-1].split(",") if item.strip()]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() in ("null", "none", ""):
        return None
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def word(key: str, value: Any) -> str:
    """The override that sets `key`; a plus anywhere in a dotted key goes to its front, where Hydra wants it."""
    plus = max((len(part) - len(part.lstrip("+")) for part in key.split(".")), default=0)
    return f"{'+' * plus}{'.'.join(part.lstrip('+') for part in key.split('.'))}={_written(value)}"


def _written(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_written(item) for item in value)}]"
    if isinstance(value, Mapping):
        raise BadConfig("A list of tables cannot be said to Hydra; give verl this setting in its own YAML config.")
    text = str(value)
    if _PLAIN.fullmatch(text) or isinstance(value, (int, float)):
        return text
    if "${" in text:
        return text  # Hydra's own interpolation
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"


def of_file(spec: LaunchSpec, *, watching: bool = False) -> dict[str, Any]:
    """The file's settings, flat, keys as written (with their plus). BadConfig where it cannot be read, {} then when only `watching`."""
    if spec.config == UNKNOWN_CONFIG:
        return {}
    try:
        return _flat(settings.load_toml(spec.config_path), "")
    except BadConfig:
        if not watching:
            raise
        return {}


def flat(spec: LaunchSpec, words: Sequence[str] = ()) -> dict[str, Any]:
    """Every setting that is known of this run: the file's, then the spec's own words, then `words` (what was really started)."""
    written = {
        key: value for name, value in of_file(spec, watching=True).items() if (key := ".".join(p.lstrip("+") for p in name.split(".")))
    }
    return {**written, **overrides(spec.overrides), **overrides(words)}


def recorded(run: Path) -> list[str]:
    """The words that a finished run was started with, as Hydra wrote them down: `.hydra/overrides.yaml` of the newest attempt, a YAML list
    with one word a line. [] where there is none. Of a run with one fixed hydra.run.dir only the last start is there."""
    numbered = sorted((path for path in (run / "hydra").glob("*") if path.name.isdigit()), key=lambda path: -int(path.name))
    for place in (*numbered, run):
        try:
            lines = (place / ".hydra" / "overrides.yaml").read_text(errors="replace").splitlines()
        except OSError:
            continue
        words = [line[2:].strip() for line in lines if line.startswith("- ")]
        # YAML quotes a word where it has to: 'a: b' with '' for one quote, "..." with escapes as JSON has them.
        return [w[1:-1].replace("''", "'") if w[:1] == w[-1:] == "'" and len(w) > 1 else w.strip('"') for w in words]
    return []


def integer(found: Mapping[str, Any], *keys: str) -> int | None:
    """The first of these that is a whole number."""
    return next((value for key in keys if isinstance(value := found.get(key), int) and not isinstance(value, bool)), None)


def text(found: Mapping[str, Any], key: str) -> str | None:
    value = found.get(key)
    return value if isinstance(value, str) and value else None


def version(cwd: Path) -> tuple[int, int] | None:
    """(major, minor) of the verl that a run in `cwd` imports: a checkout's own file, else what the environment beside it has installed.
    None where neither is there (an image's own interpreter)."""
    for place in (cwd, cwd / "verl", cwd / "train" / "verl"):
        try:
            found = _numbers((place / "verl" / "version" / "version").read_text(errors="replace"))
        except OSError:
            continue
        if found is not None:
            return found
    for installed in sorted((cwd / ".venv" / "lib").glob("python3*/site-packages/verl-*.dist-info")):
        if (found := _numbers(installed.name.removeprefix("verl-"))) is not None:
            return found
    return None


def _numbers(said: str) -> tuple[int, int] | None:
    match = re.match(r"\s*(\d{1,4})\.(\d{1,4})", said)
    return (int(match.group(1)), int(match.group(2))) if match else None


def _flat(table: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = None if value == "None" else value
    return found
