"""Slow down guessing: after too many wrong credentials from one place, every further wrong one is answered so.

Counted in the database, so it holds over any number of nodes; only a failure asks and writes. A right credential is
never refused for its neighbours' wrong ones: all of ours are 256 random bits, which no number of tries finds, and
otherwise anybody behind the same proxy could lock everybody else out.
"""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass

from onceward.db import Connection
from onceward.trust.errors import TooManyFailures

COUNT = """
insert into onceward.auth_failures as f (client, failures, since) values ($1, 1, clock_timestamp())
on conflict (client) do update set
    failures = case when f.since < clock_timestamp() - make_interval(secs => $2) then 1 else f.failures + 1 end,
    since = case when f.since < clock_timestamp() - make_interval(secs => $2) then clock_timestamp() else f.since end
returning failures,
    ceil(extract(epoch from since + make_interval(secs => $2) - clock_timestamp()))::int as left_s
"""


@dataclass(frozen=True, slots=True)
class FailureLimit:
    """At most `failures` wrong credentials per client within `window_s`."""

    failures: int = 20
    window_s: int = 60

    async def count(self, conn: Connection, client: str) -> None:
        """One more wrong credential; raises `TooManyFailures` when the client has used up its tries."""
        row = await conn.fetchrow(COUNT, fingerprint(client), float(self.window_s))
        if row is not None and row["failures"] > self.failures:
            raise TooManyFailures(max(1, row["left_s"]))


def fingerprint(client: str) -> bytes:
    """An address as it is kept: hashed; for IPv6 the /64, because one host has as many addresses as it likes."""
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
    """Drop counts nobody will ask for again."""
    return await conn.fetchval(
        "with gone as (delete from onceward.auth_failures"
        " where since < clock_timestamp() - make_interval(secs => $1) returning 1) select count(*) from gone",
        float(older_than_s),
    )
