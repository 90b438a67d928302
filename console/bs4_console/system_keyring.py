"""The keyring of the operating system, for keys that this console stores: the Keychain of macOS, or
the Secret Service or KWallet of a Linux desktop. It needs the extra `keyring`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.errors import UsageError

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

#: The name under which all entries of this console stand in a keyring.
SERVICE = "bs4-console"
#: The keyring library's own bound of what it recommends. Below it are backends that keep a key in a
#: plain file, or keep nothing.
_RECOMMENDED = 1


class KeyringFailed(UsageError):
    """Raised if the system's keyring does not return or store an entry, for example because it is
    locked.
    """


def why_unusable() -> str:
    """Return "" if this machine has a keyring that can be used, or a clause that says why not."""
    try:
        backend = _backend()
    except ImportError:
        return "the extra is not installed: `pip install 'bs4-console[keyring]'`"
    if backend is None:
        return "this machine has none that is unlocked by its system"
    return ""


def put(name: str, text: str) -> None:
    """Store `text` in the system's keyring under `name`, in place of the text that was there.
    Raises KeyringFailed if the keyring refuses it.
    """
    from keyring.errors import KeyringError

    try:
        _opened(name).set_password(SERVICE, name, text)
    except KeyringError as error:
        raise _failed(name, f"did not take the key ({type(error).__name__})") from None


def get(name: str) -> str:
    """Return the text that the system's keyring has under `name`. Raises KeyringFailed if it has
    none, or if it cannot be used now.
    """
    backend = _opened(name)
    from keyring.errors import KeyringError

    try:
        found = backend.get_password(SERVICE, name)
    except KeyringError as error:
        raise _failed(name, f"did not give the key ({type(error).__name__})") from None
    if not found:
        raise _failed(name, "has no such key")
    return found


def forget(name: str) -> None:
    """Remove the entry `name` from the system's keyring. Do nothing if there is no such entry.
    Raises KeyringFailed if the keyring cannot be used now.
    """
    backend = _opened(name)
    from keyring.errors import KeyringError, PasswordDeleteError

    try:
        backend.delete_password(SERVICE, name)
    except PasswordDeleteError:
        return
    except KeyringError as error:
        raise _failed(name, f"did not remove the key ({type(error).__name__})") from None


def _opened(name: str) -> KeyringBackend:
    """Return the keyring of this machine. Raises KeyringFailed if it has none."""
    if why := why_unusable():
        raise KeyringFailed(
            f"The key for {name} is in the keyring, and no keyring can be used here: {why}.",
            f"Use one, or store the key again: `bs4-console provision key {name}`.",
        )
    backend = _backend()
    if backend is None:
        raise RuntimeError("the keyring went away between two looks")
    return backend


def _backend() -> KeyringBackend | None:
    """Return the keyring of this machine, or None if it has none that the library recommends.
    Raises ImportError without the extra.
    """
    import keyring

    backend = keyring.get_keyring()
    if backend.priority >= _RECOMMENDED:
        return backend
    return None


def _failed(name: str, what: str) -> KeyringFailed:
    return KeyringFailed(
        f"The keyring {what}: {name}.",
        f"Unlock it, or store the key in a file: `bs4-console provision key {name} --file`.",
    )
