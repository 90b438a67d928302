"""Deciding if an address leads to this machine and nowhere else."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

#: Characters outside those that a URL may consist of here. Different programs read a backslash, an
#: at sign or a blank differently: `http://evil.example\@127.0.0.1/` leads to either of its hosts.
_ODD = re.compile(r"[^A-Za-z0-9:/.\[\]?&=%~+,_-]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST = re.compile(r"[0-9a-z.:-]+")


def is_loopback(address: str, *, listening: bool = False) -> bool:
    """Return True if `address` (a URL, `host:port` or a host) certainly leads to this machine
    itself and nowhere else. Return False if it does not, or in doubt.

    A program that connects to `0.0.0.0` or `::` reaches its own machine, so these two give True.
    With `listening`, `address` is one at which a program listens; there they mean all networks and
    give False.
    """
    if not address or _ODD.search(address):
        return False
    if _is_own(address, listening):
        return True
    if _SCHEME.match(address) is None:
        address = f"http://{address}"
    try:
        parts = urlsplit(address)
        host, _port = parts.hostname, parts.port  # a port that is no number is a ValueError
    except ValueError:
        return False
    return host is not None and _is_own(host, listening)


def _is_own(host: str, listening: bool) -> bool:
    """Return True if a host name or address is this machine's loopback."""
    if host in ("localhost", "localhost."):
        return True
    if _HOST.fullmatch(host) is None:
        return False
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    if mapped is not None:
        found = mapped
    if found.is_unspecified:
        return not listening
    return found.is_loopback
