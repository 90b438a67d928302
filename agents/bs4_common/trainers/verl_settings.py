"""The settings of a verl run: Hydra's words (`key=value`, `+key=value`, `~key`) on the command
line, and a TOML file in their place.

A launch from here takes a TOML file whose dotted keys are the overrides (`[trainer] save_freq = 20`
is `trainer.save_freq=20`; a key that Hydra has to add is written with its plus: `"+override_config"
= 1`). Words of the command line win over the file, later ones over earlier ones, as in Hydra. Two
tables are none of Hydra's. The variables of `[environment]` are those of the run. `[plan] steps`
says how many steps were planned, which verl itself does not know unless it is configured to end
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_common.files import read_regular
from bs4_common.trainers import settings
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.settings import UNKNOWN_CONFIG, BadConfig, FlatSettings, Settings

_WORD = re.compile(
    r"(?P<prefix>\+{0,2}|~)(?P<key>[A-Za-z_][\w./@:-]{0,200}?)(?:=(?P<value>.*))?", re.DOTALL
)
#: The file's tables that are no overrides.
_ENVIRONMENT, _PLAN = "environment", "plan"
#: The number of planned steps, as a key of the settings.
PLANNED = "plan.steps"
#: Where a checkout of verl may be, relative to the directory in which a run is started: there, or
#: as a submodule.
_CHECKOUTS = ("", "verl", "train/verl")
#: The release that brought the file logger.
_FILE_LOGGER = (0, 6)
#: A text that Hydra's grammar takes without quotes and reads as it is.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%?*-]+")
_INTEGER = re.compile(r"[-+]?\d{1,18}")
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?")


def overrides(words: Sequence[str], before: FlatSettings | None = None) -> FlatSettings:
    """Return the settings `before` (None for no settings), changed by the overrides among `words`,
    the words of a command line: `key=value` sets a key and `~key` removes it; all other words are
    ignored. The result is one table with dotted keys and plain values. `before` itself is not
    changed.
    """
    found = dict(before or FlatSettings())
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None or (match["value"] is None and match["prefix"] != "~"):
            continue
        if match["prefix"] == "~":
            found.pop(match["key"], None)
        else:
            found[match["key"]] = plain(match["value"])
    return FlatSettings(found)


def is_override(word: str) -> bool:
    """Return True if Hydra, which reads verl's command line, would take this word as an override:
    `key=value`, `+key=value` or `~key`.
    """
    match = _WORD.fullmatch(word)
    return match is not None and (match["value"] is not None or match["prefix"] == "~")


def without(words: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Return those of `words` that are overrides (such as `key=value`) of keys that are not in
    `keys`. All other words are left out.
    """
    kept = []
    for word in words:
        match = _WORD.fullmatch(word)
        if is_override(word) and match is not None and match["key"] not in keys:
            kept.append(word)
    return kept


def plain(text: str) -> Any:
    """Return the value for which `text`, the part after `=` in a word of the command line, stands:
    a number, a boolean, None for null, or a list of such values. Any other text is returned as
    text, without quotes around it.
    """
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
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def word(key: str, value: Any) -> str:
    """Return the word of the command line that sets `key` to `value`, such as `+a.b=1`. A plus
    anywhere in the dotted key is moved to its front, where Hydra needs it. Raises BadConfig for a
    list of tables, which cannot be written as a word.
    """
    plus = max((len(part) - len(part.lstrip("+")) for part in key.split(".")), default=0)
    return f"{'+' * plus}{bare(key)}={_written(value)}"


def _written(value: Any) -> str:
    """Return a value as Hydra's grammar writes it. Raises BadConfig for a table."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_written(item) for item in value)}]"
    if isinstance(value, Mapping):
        raise BadConfig(
            "A list of tables cannot be said to Hydra; give verl this setting in its own "
            "YAML config."
        )
    text = str(value)
    if _PLAIN.fullmatch(text) or isinstance(value, (int, float)):
        return text
    if "${" in text:
        return text  # Hydra's own interpolation
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"


def of_file(spec: LaunchSpec, *, watching: bool = False) -> FlatSettings:
    """Return the settings in the config file of `spec` as one table with dotted keys. The keys are
    as the file writes them, so some begin with a plus sign, which Hydra needs for a new key. The
    table is empty if the config is not known.

    Raises BadConfig if the file cannot be read; with `watching`, an empty table is returned
    instead.
    """
    tables = _file(spec, watching=watching).data
    given = {key: value for key, value in tables.items() if key not in (_ENVIRONMENT, _PLAN)}
    return _flat(Settings(given), "")


def variables(spec: LaunchSpec) -> dict[str, str]:
    """Return the environment variables that the table `environment` of the config file sets, by
    name, and PYTHONPATH if verl lies in the project as a submodule. Raises BadConfig if the file or
    that table cannot be used.
    """
    table = _file(spec, watching=False).data.get(_ENVIRONMENT, {})
    if not isinstance(table, Mapping) or not all(
        isinstance(value, (str, int, float)) for value in table.values()
    ):
        raise BadConfig(
            f"[{_ENVIRONMENT}] of {spec.config_path} is a table of names and plain values; "
            "correct it."
        )
    place = spec.cwd
    for name in _CHECKOUTS:
        if _said(path := spec.cwd / name) is not None:
            place = path
            break
    found = {}
    if place != spec.cwd:
        found = {"PYTHONPATH": str(place)}
    return {**found, **{str(name): str(value) for name, value in table.items()}}


def planned(spec: LaunchSpec, *, watching: bool = False) -> int | None:
    """Return the number of training steps that the table `plan` of the config file sets, or None if
    the file has no such number. Raises BadConfig if the value is no whole number above 0 or if the
    file cannot be read; with `watching`, None is returned instead.
    """
    table = _file(spec, watching=watching).data.get(_PLAN, {})
    steps = table.get("steps") if isinstance(table, Mapping) else table
    if steps is None or (isinstance(steps, int) and not isinstance(steps, bool) and steps > 0):
        return steps
    if watching:
        return None
    raise BadConfig(f"[{_PLAN}] steps of {spec.config_path} is a whole number above 0; correct it.")


def _file(spec: LaunchSpec, *, watching: bool) -> Settings:
    """Return the tables of the spec's config file. If it cannot be read, raise BadConfig, or return
    none if `watching`.
    """
    if spec.config == UNKNOWN_CONFIG:
        return Settings({})
    try:
        return settings.load_toml(spec.config_path)
    except BadConfig:
        if not watching:
            raise
        return Settings({})


def bare(key: str) -> str:
    """Return a dotted key of the settings without the plus signs that Hydra needs before a key that
    is new.
    """
    return ".".join(part.lstrip("+") for part in key.split("."))


def component_of(keys: Iterable[str]) -> str | None:
    """Return which component of verl a config is for, judged by the dotted keys of its settings. It
    is "rl" if there are, for example, settings of an actor, and "sft" if `model` or `optim` is a
    table at the top. Return None if the keys do not show it.
    """
    known = {bare(key).partition(".")[0] for key in keys}
    if known & {
        "actor_rollout_ref",
        "algorithm",
        "critic",
        "reward_model",
        "custom_reward_function",
    }:
        return "rl"
    if known & {"model", "optim"}:
        return "sft"
    return None


def loggers(known: FlatSettings, version: tuple[int, int] | None) -> list[Any]:
    """Return the loggers with which the agent starts verl. They are those that the settings `known`
    name, and the file logger if this `version` of verl, (major, minor), has one.

    If the settings name none, they are "console" and the file logger. If in addition this version
    has no file logger or is not known (None), they are verl's own default, "console" and "wandb",
    of which the second needs a login.
    """
    given = known.get("trainer.logger")
    if isinstance(given, (list, tuple)):
        asked = given
    elif given is not None:
        asked = [given]
    else:
        asked = ["console", "wandb"]
    if "file" in asked or version is None or version < _FILE_LOGGER:
        return list(asked)
    return [*(asked if given is not None else ["console"]), "file"]


def model(known: FlatSettings) -> str:
    """Return the name or path of the model that is trained, or "" if the settings name none."""
    for key in ("actor_rollout_ref.model.path", "model.partial_pretrain", "model.path"):
        if (value := known.text(key)) is not None:
            return value
    return ""


def adapter(known: FlatSettings) -> bool:
    """Return True if only an adapter (LoRA) is trained and not the whole model."""
    ranks = (
        "actor_rollout_ref.model.lora_rank",
        "actor_rollout_ref.model.lora.rank",
        "model.lora_rank",
        "model.lora.rank",
    )
    return (
        bool(known.integer(*ranks))
        or known.text("actor_rollout_ref.model.lora_adapter_path") is not None
    )


def flat(spec: LaunchSpec, words: Sequence[str] = ()) -> FlatSettings:
    """Return every known setting of the run as one table with dotted keys. It has those of the
    spec's config file, changed by the spec's overrides, and then by `words`, the words of the
    command with which the run was really started. A config that cannot be read counts as empty.
    """
    found = {}
    for name, value in of_file(spec, watching=True).items():
        found[bare(name)] = value
    if (steps := planned(spec, watching=True)) is not None:
        found[PLANNED] = steps
    return overrides([*spec.overrides, *words], FlatSettings(found))


def recorded(run: Path) -> FlatSettings:
    """Return the overrides with which a finished run was started, by dotted key, as Hydra recorded
    them in the run directory `run`, in `.hydra/overrides.yaml` of the newest attempt. The result is
    empty if there is no such file.
    """
    numbered = sorted(
        (path for path in (run / "hydra").glob("*") if path.name.isdigit()),
        key=lambda path: -int(path.name),
    )
    for place in (*numbered, run):
        try:
            said = read_regular(place / ".hydra" / "overrides.yaml")
            lines = said.decode(errors="replace").splitlines()
        except OSError:
            continue
        found = []
        for line in lines:
            if line.startswith("- "):
                found.append(_unquoted(line[2:].strip()))
        return overrides(found)
    return FlatSettings()


def _unquoted(text: str) -> str:
    """Return a word without YAML's quotes. YAML quotes a word if it has to: 'a: b' with '' for one
    quote, "..." with escapes as in JSON.
    """
    if text[:1] == text[-1:] == "'" and len(text) > 1:
        return text[1:-1].replace("''", "'")
    return text.strip('"')


def local_dir(known: FlatSettings) -> str | None:
    """Return the directory of the checkpoints as the settings `known` name it. Return None if they
    do not name one, or if the name refers to other settings (`${...}`).
    """
    given = known.text("trainer.default_local_dir") or known.text("trainer.checkpoints_dir")
    if given is not None and "${" not in given:
        return given
    return None


def names(known: FlatSettings) -> tuple[str | None, str | None]:
    """Return the name of the project and the name of the experiment in the settings `known`. Each
    of the two is None if the settings do not have it.
    """
    return known.text("trainer.project_name"), known.text("trainer.experiment_name")


def version(cwd: Path) -> tuple[int, int] | None:
    """Return the version of verl, (major, minor), that a run in the directory `cwd` imports. It is
    the version of a checkout of verl there, or else of the verl that is installed in `.venv` there.
    Return None if there is neither, as when the interpreter is that of a container's image.
    """
    for name in _CHECKOUTS:
        if (found := _said(cwd / name)) is not None:
            return found
    for installed in sorted(
        (cwd / ".venv" / "lib").glob("python3*/site-packages/verl-*.dist-info")
    ):
        if (found := _numbers(installed.name.removeprefix("verl-"))) is not None:
            return found
    return None


def _said(checkout: Path) -> tuple[int, int] | None:
    """Return the version in a checkout's own file, or None if there is none."""
    try:
        said = read_regular(checkout / "verl" / "version" / "version", 4096)
        return _numbers(said.decode(errors="replace"))
    except OSError:
        return None


def _numbers(said: str) -> tuple[int, int] | None:
    """Return the major and minor version in a text, or None."""
    match = re.match(r"\s*(\d{1,4})\.(\d{1,4})", said)
    if match:
        return (int(match[1]), int(match[2]))
    return None


def _flat(tables: Settings, prefix: str) -> FlatSettings:
    """Return nested tables as one table with dotted keys. The word "None" becomes None."""
    found: dict[str, Any] = {}
    for key, value in tables.data.items():
        if isinstance(value, Mapping):
            found.update(_flat(Settings(value), f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = None if value == "None" else value
    return FlatSettings(found)
