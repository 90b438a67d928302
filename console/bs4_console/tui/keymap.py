"""The user's own keys: `keys.toml` in the config directory."""

from __future__ import annotations

from collections.abc import Mapping

from bs4_console.core.errors import UsageError


def load_keymap() -> Mapping[str, str]:
    """{command id: key} of the `[keys]` table; empty without the file. UsageError names the file when it cannot be read."""
    import tomllib

    from bs4_console.core.locations import config_dir

    path = config_dir() / "keys.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}.", "Correct that line, or move the file away.") from error
    keys = data.get("keys", {})
    if not isinstance(keys, dict) or not all(isinstance(key, str) for key in keys.values()):
        raise UsageError(f"{path}: `keys` must be a table of texts.", 'Write each line as command-id = "key" under [keys].')
    return keys
