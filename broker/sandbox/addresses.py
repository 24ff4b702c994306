"""
Where a name leads: the addresses that a connection may go to.

A name in a scope is a promise about a name; whoever runs its DNS decides the address. So an
address that is not of the public internet is reached only where the ticket names the address
itself, or ``localhost``, whose meaning is fixed (RFC 6761). A name with one such address among
others is refused as a whole, since which of them is used is no promise either.

Decided here: which addresses are public. Not decided here: which names and ports are admitted
(``broker.hosts``, by ``egress``).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from broker.errors import InputError

Lookup = Callable[[str, int], Sequence[str]]

# What `is_global` of the standard library lets through, or did in one of its releases.
_NOT_PUBLIC: Final = tuple(
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15"),
        *("224.0.0.0/4", "240.0.0.0/4", "fec0::/10", "ff00::/8", "64:ff9b:1::/48", "5f00::/16"),
        *("3fff::/20",),
    )
)
_NAT64: Final = ip_network("64:ff9b::/96")


def look_up(host: str, port: int) -> list[str]:
    """
    Return the addresses of a host, by the machine's own resolver.

    Raises:
        OSError: it has none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def is_public(text: str) -> bool:
    """
    Return whether an address is one of the public internet, and leads nowhere else by a mapping.

    >>> is_public("93.184.216.34"), is_public("169.254.169.254"), is_public("::ffff:10.0.0.1")
    (True, False, False)
    """
    try:
        address: IPv4Address | IPv6Address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        inner = _carried(address)
        if inner is not None:
            return is_public(str(inner))
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address in net for net in _NOT_PUBLIC if net.version == address.version)


def _carried(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


def reached(
    host: str, port: int, named: Callable[[str, int], bool], lookup: Lookup = look_up
) -> list[str]:
    """
    Return the addresses that a connection to an admitted host may go to; looked up once.

    Args:
        host: the canonical name or address, IPv6 in brackets.
        port: the port.
        named: whether the ticket names an address, with this port, itself.
        lookup: the resolver.

    Raises:
        InputError: the host has no address, or one that is not public and not named.

    >>> reached("a.example", 443, lambda *_: False, lambda *_: ["10.0.0.7"])
    Traceback (most recent call last):
    ...
    broker.errors.InputError: `a.example` leads to 10.0.0.7, which is not public: name that \
address in hosts too, if it is meant
    """
    if host.startswith("["):
        return [host[1:-1]]  # admitted by its own spelling
    if host.replace(".", "").isdigit():
        return [host]
    try:
        found = list(lookup(host, port))
    except (OSError, UnicodeError) as error:
        raise InputError(f"`{host}` has no address: {error}") from None
    local = host == "localhost" or host.endswith(".localhost")
    for address in found:
        if local and ip_address(address.partition("%")[0]).is_loopback:
            continue
        spelled = f"[{address}]" if ":" in address else address
        if not is_public(address) and not named(spelled, port):
            raise InputError(
                f"`{host}` leads to {address}, which is not public: name that address in hosts "
                "too, if it is meant"
            )
    if not found:
        raise InputError(f"`{host}` has no address")
    return found
