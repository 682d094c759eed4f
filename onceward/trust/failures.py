"""Limit guessing: after too many wrong credentials from one client, each further wrong one raises `TooManyFailures`.

The database counts, so the limit holds across all nodes; only a wrong credential reads and writes the count. A correct
credential is always accepted. Our credentials have 256 random bits and cannot be guessed, and otherwise one client
could lock out everybody behind the same proxy.
"""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass

from onceward.db import Connection
from onceward.statements import read_statement
from onceward.trust.errors import TooManyFailures

COUNT = read_statement("trust", "count_failure")


@dataclass(frozen=True, slots=True)
class FailureLimit:
    """At most `failures` wrong credentials per client within `window_s`."""

    failures: int = 20
    window_s: int = 60

    async def count(self, conn: Connection, client: str) -> None:
        """Count one wrong credential. Raises `TooManyFailures` if the client is over the limit."""
        row = await conn.fetchrow(COUNT, fingerprint(client), float(self.window_s))
        if row is not None and row["failures"] > self.failures:
            raise TooManyFailures(max(1, row["left_s"]))


def fingerprint(client: str) -> bytes:
    """Return the hash under which an address is stored. For IPv6 it is that of the /64, which one host controls."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return hashlib.sha256(client.encode()).digest()
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return hashlib.sha256(str(address.ipv4_mapped).encode()).digest()
        network = ipaddress.ip_network((int(address) >> 64 << 64, 64))
        return hashlib.sha256(str(network).encode()).digest()
    return hashlib.sha256(str(address).encode()).digest()


async def forget_old(conn: Connection, *, older_than_s: int = 3600) -> int:
    """Delete counts whose time window has passed. Returns how many."""
    return await conn.fetchval(
        "with gone as (delete from onceward.auth_failures"
        " where since < clock_timestamp() - make_interval(secs => $1) returning 1) select count(*) from gone",
        float(older_than_s),
    )
