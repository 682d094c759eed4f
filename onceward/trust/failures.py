"""Slow down guessing: after too many wrong credentials from one place, nothing is looked at for a while.

Counted in the database, so it holds over any number of nodes; only a failure writes.
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
returning failures
"""

REMAINING = """
select ceil(extract(epoch from since + make_interval(secs => $2) - clock_timestamp()))::int
from onceward.auth_failures
where client = $1 and failures >= $3 and since > clock_timestamp() - make_interval(secs => $2)
"""


@dataclass(frozen=True, slots=True)
class FailureLimit:
    """At most `failures` wrong credentials per client within `window_s`."""

    failures: int = 20
    window_s: int = 60

    async def check(self, conn: Connection, client: str) -> None:
        """Raise `TooManyFailures` while the client has used up its tries."""
        left = await conn.fetchval(REMAINING, fingerprint(client), float(self.window_s), self.failures)
        if left is not None:
            raise TooManyFailures(max(1, left))

    async def count(self, conn: Connection, client: str) -> int:
        """One more wrong credential; returns how many there were in this window."""
        return await conn.fetchval(COUNT, fingerprint(client), float(self.window_s))


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
