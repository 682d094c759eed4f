"""What an API key is restricted to besides its scopes: apps, sources, and the addresses from which it may be used."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onceward.trust.errors import TrustError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
MOST = 50
"""The most apps, sources or addresses of one key."""


@dataclass(frozen=True, slots=True)
class KeyRestrictions:
    """Nothing in a list means no restriction. `checked` creates it from texts."""

    apps: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()

    @classmethod
    def checked(
        cls, apps: Iterable[str] = (), sources: Iterable[str] = (), addresses: Iterable[str] = ()
    ) -> KeyRestrictions:
        """Return the restrictions in one form. Raises `TrustError`, which names the field and the value."""
        return cls(_names("apps", apps), _names("sources", sources), _networks(addresses))


def allows(addresses: Sequence[str], client: str) -> bool:
    """Return whether the list of networks contains the address of the client. An empty list contains every address."""
    if not addresses:
        return True
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in ipaddress.ip_network(each) for each in addresses)


def _names(field: str, given: Iterable[str]) -> tuple[str, ...]:
    names = sorted({each.strip() for each in given if each.strip()})
    wrong = [each for each in names if NAME.fullmatch(each) is None]
    if wrong or len(names) > MOST:
        raise TrustError(f"{field} {wrong or len(names)!r}: give at most {MOST} names of letters, digits, - and _")
    return tuple(names)


def _networks(given: Iterable[str]) -> tuple[str, ...]:
    networks: set[str] = set()
    for each in given:
        text = each.strip()
        if not text:
            continue
        try:
            networks.add(str(ipaddress.ip_network(text)))
        except ValueError:
            raise TrustError(
                f"addresses {text[:60]!r}: write an address like 203.0.113.7 or a network like 203.0.113.0/24, whose"
                " last part is zero"
            ) from None
    if len(networks) > MOST:
        raise TrustError(f"addresses: give at most {MOST}, not {len(networks)}")
    return tuple(sorted(networks))
