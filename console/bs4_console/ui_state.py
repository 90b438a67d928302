"""The state of the screen, saved in `screen.json` in the state directory so that the next start
opens as the screen was left. Losing the file does no harm.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from bs4_console.locations import state_dir

FILE = "screen.json"
#: The console never writes a longer file.
LIMIT_BYTES = 1 << 20
#: The settings that describe one position together. They are never mixed with another console's.
_POSITION = ("pod", "run", "place", "source", "incident")


@dataclass(kw_only=True)
class Settings:
    """What the screen remembers from one start of the console to the next.

    `theme` is the name of the colours. `filter`, `group` and `sort` are how the fleet screen's
    table is filtered, grouped and sorted, each "" for not, and with `show_old` it also shows pods
    and runs that are long over. `pod` and `run` name the row that the fleet screen's cursor was on.
    `place` is the screen that was open above it: "fleet" (none), "pod", "run", "log", "incident",
    "journal" or "gpus". `source` says which log, such as "trainer", and `incident` is the id of the
    incident. `silenced` lists pods ("POD") and runs ("POD/RUN") whose alerts make no sound; with
    `quiet` no alert makes a sound.
    """

    theme: str = ""
    filter: str = ""
    group: str = ""
    sort: str = ""
    show_old: bool = False
    pod: str = ""
    run: str = ""
    place: str = ""
    source: str = ""
    incident: str = ""
    quiet: bool = False
    silenced: list[str] = field(default_factory=list)
    pins: list[dict[str, str]] = field(default_factory=list)
    """The places to which a person can jump by the keys 1 to 9. Each has `pod`, `run` and `place`,
    and `source` or `incident` if it is a log or an incident.
    """


def path() -> Path:
    """Return the path of the file on this machine in which the screen's settings are saved. The
    file need not exist.
    """
    return state_dir() / FILE


def load() -> tuple[Settings, str]:
    """Read the saved settings of the screen. Return them with an error message for the person,
    which is "" if all is well. If the file does not exist or cannot be used, the settings are the
    defaults. Entries that this console does not know are ignored.
    """
    try:
        content = path().read_bytes()
    except FileNotFoundError:
        return Settings(), ""
    except OSError as error:
        return Settings(), f"{path()} cannot be read ({error.strerror}); the screen opens as new."
    data = None
    if len(content) <= LIMIT_BYTES:
        with contextlib.suppress(ValueError, RecursionError):
            data = json.loads(content)
    if not isinstance(data, dict):
        return Settings(), f"{path()} is damaged; the screen opens as new."
    known = Settings()
    for entry in fields(Settings):
        value = data.get(entry.name)
        if isinstance(value, type(getattr(known, entry.name))):
            setattr(known, entry.name, value)
    known.pins = [
        pin
        for pin in known.pins
        if isinstance(pin, dict) and all(isinstance(value, str) for value in pin.values())
    ]
    known.silenced = [name for name in known.silenced if isinstance(name, str)]
    return known, ""


def save(settings: Settings) -> str:
    """Save all settings of the screen. Return "" on success, else an error message for a person."""
    from bs4_console import files

    try:
        files.replace(path(), json.dumps(asdict(settings), indent=1).encode())
    except OSError as error:
        return _not_written(error)
    return ""


def _not_written(error: OSError) -> str:
    """Return the sentence about a file that could not be written."""
    return f"{path()} cannot be written ({error.strerror}); the screen will open as new next time."


def keep(mine: Settings, before: Settings) -> str:
    """Save those settings of the screen in which `mine` differs from `before`, the settings as they
    were read at the start. The others stay in the file as they are, because another console may
    have changed them meanwhile. Return "" on success, else an error message for the person.
    """
    from bs4_console import files

    old, new = asdict(before), asdict(mine)
    changed = {name for name in new if new[name] != old[name]}
    if changed.intersection(_POSITION):
        changed.update(_POSITION)
    if not changed:
        return ""
    try:
        with files.exclusive(path()):
            kept, _ = load()
            for name in changed:
                setattr(kept, name, getattr(mine, name))
            return save(kept)
    except OSError as error:
        return _not_written(error)
