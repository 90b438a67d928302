"""The bytes that a console sends ahead: the beginning of its channel, which comes with the command
that attaches and not behind it. A console that is far away saves a round trip by it.

The console's command (console/bs4_console/transport/need.py) looks for this file, because an older
bundle knows nothing of such bytes. It passes them in an environment variable.
"""

from __future__ import annotations

import base64
import binascii
import os

from bs4_common.errors import ProtocolError
from bs4_common.wire import AHEAD_LIMIT, AHEAD_VARIABLE


def take() -> bytes:
    """Return the bytes that a console has sent together with the command that started this process,
    or b"" if it sent none. They are in an environment variable, which is removed, so that no
    process that this one starts inherits it. Raises ProtocolError if there are more than 4,096
    bytes or the variable is no base64.
    """
    text = os.environ.pop(AHEAD_VARIABLE, "")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError(
            f"{AHEAD_VARIABLE} holds no base64; only the command of a bs4-console sets it."
        ) from None
    if len(data) > AHEAD_LIMIT:
        raise ProtocolError(
            f"{AHEAD_VARIABLE} holds {len(data)} bytes, and {AHEAD_LIMIT} are the most; only the "
            "command of a bs4-console sets it."
        )
    return data
