"""Addresses: which hosts are this machine, and which must never be asked."""

from __future__ import annotations

import ipaddress
from typing import TypeAlias

# Where the machines of a cloud read their credentials. A configuration that points there is an
# attack or a mistake. Link-local addresses are refused as a whole.
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "metadata"})
_METADATA_ADDRESSES = frozenset(
    {
        ipaddress.ip_address("fd00:ec2::254"),  # AWS
        ipaddress.ip_address("100.100.100.200"),  # Alibaba
        ipaddress.ip_address("192.0.0.192"),  # Oracle
        ipaddress.ip_address("168.63.129.16"),  # Azure, and public as far as anybody can tell
    }
)
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
# Of IPv6 nothing else is given out; what lies outside is private, obsolete or a translation.
_GIVEN_OUT = ipaddress.ip_network("2000::/3")
# Where the last 32 bits are an IPv4 address: NAT64 (RFC 6052, 8215), SIIT (RFC 2765), and the
# compatible addresses of RFC 4291.
_TRANSLATED = tuple(
    map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96", "::/96"))
)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "10.0.0.1", "example.com")]
    [True, True, True, False, False]
    """
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_metadata(host: str) -> bool:
    """Whether a host is one of those that hand out a machine's credentials.

    >>> [is_metadata(host) for host in ("169.254.169.254", "[::ffff:a9fe:a9fe]", "2852039166")]
    [True, True, True]
    >>> [is_metadata(host) for host in ("metadata.google.internal.", "64:ff9b::a9fe:a9fe")]
    [True, True]
    >>> is_metadata("metadata.example.com")
    False
    """
    address = _address(host)
    if address is None:
        return host.lower().rstrip(".") in _METADATA_NAMES
    reached = _reached(address)
    return reached.is_link_local or reached in _METADATA_ADDRESSES


def is_public(host: str) -> bool:
    """Whether a host is written as an address of the open internet, reachable from anywhere.

    >>> [is_public(host) for host in ("93.184.215.14", "10.0.0.1", "64:ff9b::a00:1", "::1", "name")]
    [True, False, False, False, False]
    >>> [is_public(host) for host in ("2606:4700::1111", "fec0::1", "::127.0.0.1", "fd00::1")]
    [True, False, False, False]
    """
    address = _address(host)
    if address is None:
        return False
    reached = _reached(address)
    is_given_out = reached.version == 4 or reached in _GIVEN_OUT
    return is_given_out and reached.is_global and not reached.is_multicast


def _reached(address: _Address) -> _Address:
    """Where packets to an address end up, if its network translates IPv6 to IPv4."""
    if isinstance(address, ipaddress.IPv6Address):
        is_local = address.is_loopback or address.is_unspecified  # `::1` holds no `0.0.0.1`
        if not is_local and any(address in network for network in _TRANSLATED):
            return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        return address.sixtofour or (address.teredo or (address,))[-1]
    return address


def _address(host: str) -> _Address | None:
    """The address that a host is written as, in any notation that a resolver takes; else None."""
    plain = host.strip("[]").rstrip(".")
    try:
        address = ipaddress.ip_address(
            int(plain, 0)
            if plain[:1].isdigit() and "." not in plain and ":" not in plain
            else plain
        )
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped
