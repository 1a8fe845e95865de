"""Addresses: which hosts are this machine, and which must never be asked."""

from __future__ import annotations

import ipaddress

# Where the machines of a cloud read their credentials. A configuration that points there is an
# attack or a mistake. Link-local addresses are refused as a whole.
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "metadata"})
_METADATA_ADDRESSES = frozenset(
    {
        ipaddress.ip_address("fd00:ec2::254"),  # AWS
        ipaddress.ip_address("100.100.100.200"),  # Alibaba
        ipaddress.ip_address("192.0.0.192"),  # Oracle
    }
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
    >>> is_metadata("metadata.google.internal."), is_metadata("metadata.example.com")
    (True, False)
    """
    address = _address(host)
    if address is None:
        return host.lower().rstrip(".") in _METADATA_NAMES
    return address.is_link_local or address in _METADATA_ADDRESSES


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
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
