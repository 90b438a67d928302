"""The user's own keys: `keys.toml` in the config directory, checked. A line that is wrong is
reported and ignored; the others count.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from bs4_console.tui import commands

#: Keys that move the cursor in tables and logs. No command may have them.
MOVING = frozenset(
    {
        "up",
        "down",
        "left",
        "right",
        "pageup",
        "pagedown",
        "home",
        "end",
        "j",
        "k",
        "g",
        "G",
        "0",
        *commands.DIGITS,
    }
)
#: Keys that cannot be changed, so that a person can always leave.
FIXED = frozenset({"ctrl+c"})
_MODIFIERS = frozenset({"ctrl", "alt", "shift", "super", "hyper", "meta"})


def load_keymap() -> tuple[dict[str, str], list[str]]:
    """Read the person's own keys from keys.toml in the config directory. Return them as {command
    id: key}, and a list of sentences about what is wrong in the file. The dict is empty if the file
    does not exist or cannot be used. Whether the ids and keys exist is not checked here but by
    `check`.
    """
    from bs4_console.locations import config_dir

    path = config_dir() / "keys.toml"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        return {}, [f"{path} cannot be read ({error.strerror}); the usual keys are used."]
    import tomllib

    try:
        data = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return {}, [
            (
                f"{path} is not valid TOML ({error}); the usual keys are used until that line is "
                "corrected."
            )
        ]
    keys = data.get("keys", {})
    if not isinstance(keys, dict):
        return {}, [
            f'{path}: `keys` is no table; write each line as command-id = "key" under [keys].'
        ]
    complaints = [
        f"{path} has {name!r} outside of [keys]; it is left out." for name in data if name != "keys"
    ]
    for name, key in list(keys.items()):
        if not isinstance(key, str):
            complaints.append(f'keys.toml: {name} = {key!r} is no text; write {name} = "key".')
            del keys[name]
    return keys, complaints


def check(wanted: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Check the person's own keys. `wanted` is {command id: a key, or several with commas between
    them}. Return those that can be used as {command id: Textual's names of the keys}, and a list
    with a sentence for each one that cannot be used. That is so if there is no such command or key,
    if another command on the same screen has the key, or if the key is reserved, to move the cursor
    or to leave the program.
    """
    accepted: dict[str, str] = {}
    complaints: list[str] = []
    for name, keys in wanted.items():
        named = ["comma"] if keys == "," else [key.strip() for key in keys.split(",")]
        spelled = {key: spell(key) for key in named}
        usual = "its usual key stays"
        if name not in commands.BY_ID:
            complaints.append(f"keys.toml: there is no command {name!r}{_near(name)}.")
        elif bad := [key for key, word in spelled.items() if not word]:
            complaints.append(
                f"keys.toml: {bad[0]!r} for {name} is no key, {usual}; write one like x, R, "
                "ctrl+r, f5 or question_mark."
            )
        elif taken := [word for word in spelled.values() if word in MOVING | FIXED]:
            complaints.append(
                f"keys.toml: {commands.key_text(taken[0])!r} for {name} is taken "
                f"({_why(taken[0])}), {usual}."
            )
        else:
            accepted[name] = ",".join(spelled.values())
    while clash := _clash(accepted):
        name, other, key = clash
        del accepted[name]
        complaints.append(
            f"keys.toml: {commands.key_text(key)!r} is the key of both {other} and {name}; "
            f"{name} keeps its usual one."
        )
    return accepted, complaints


def spell(key: str) -> str:
    """Return Textual's name of a key that a person has written as `key`: "?" becomes
    "question_mark", "R" stays "R". Return "" if there is no such key.
    """
    from textual.keys import Keys, _character_to_key

    *modifiers, base = [key] if key == "+" else key.split("+")
    if not base or not set(modifiers) <= _MODIFIERS:
        return ""
    known = {member.value for member in Keys}
    if len(base) == 1 and base.isprintable() and base != " ":
        return "+".join([*modifiers, _character_to_key(base)])
    if len(base) > 1 and (base in known or base in _named()):
        return "+".join([*modifiers, base])
    if len(base) > 1 and key in known:
        return key
    return ""


def _named() -> frozenset[str]:
    """Return Textual's names of the signs on a keyboard: question_mark, semicolon, ..."""
    from textual.keys import _character_to_key

    return frozenset(_character_to_key(chr(code)) for code in range(0x21, 0x7F))


def _clash(accepted: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Return the first two commands that would have the same key on one screen, as (the user's
    entry, the other command, the key). Return None if there are none.
    """
    keys = {}
    for c in commands.COMMANDS:
        keys[c.id] = accepted.get(c.id, ",".join(c.keys)).split(",")
    for name in reversed(list(accepted)):
        for command in commands.COMMANDS:
            if command.id != name and command.where & commands.BY_ID[name].where:
                for key in keys[name]:
                    if key in keys[command.id]:
                        return name, command.id, key
    return None


def _why(key: str) -> str:
    if key in FIXED:
        return "it always leaves"
    return "it moves about"


def _near(name: str) -> str:
    near = difflib.get_close_matches(name, commands.BY_ID, n=1)
    if near:
        return f", did you mean {near[0]}"
    return "; `?` and docs/commands.md list them"
