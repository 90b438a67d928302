"""Says which names and addresses lead to this machine."""

from __future__ import annotations

import ipaddress
import itertools
import socket

import psutil


def own_addresses() -> set[str]:
    """Return all IP addresses of this machine."""
    entries = itertools.chain.from_iterable(psutil.net_if_addrs().values())
    return {entry.address.partition("%")[0] for entry in entries}


def leads_here(host: str) -> bool:
    """Return True if `host`, a name or an address in any spelling, leads to this machine: to one of
    its addresses, to a loopback address, or to 0.0.0.0 or ::. A name is looked up, which may take
    half a minute. Raises OSError if it is not known, or has characters beyond ASCII.
    """
    try:
        # Of bytes, no tables of international names are loaded.
        name = host.rstrip(".").encode("ascii")
    except UnicodeEncodeError:
        raise OSError(f"{host!r} is no name of a host") from None
    own = own_addresses()
    for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM):
        text = str(found[4][0]).partition("%")[0]
        address = ipaddress.ip_address(text)
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if address.is_loopback or address.is_unspecified or str(address) in own:
            return True
    return False
