"""Transmissions whose signature covers only a checksum of the body: the first body under a transmission id is the only one.

PayPal signs a CRC32. Who has seen one genuine request can make another body with the same checksum, and its signature
would pass. So each transmission id is bound to a hash of the body that it first came with.
"""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

from onceward.db import Connection, Database
from onceward.inbox.source import Source
from onceward.providers.inbound.payload import event_key
from onceward.providers.inbound.provider import Rejected

BIND = """
insert into onceward.webhook_transmissions as t (webhook_id, transmission_id, body_sha256) values ($1, $2, $3)
on conflict (webhook_id, transmission_id) do update set body_sha256 = t.body_sha256
returning t.body_sha256
"""

FORGET = "delete from onceward.webhook_transmissions where received_at < onceward.now() - $1::interval"


class Transmissions:
    """What this installation has accepted, on all nodes."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def bind(self, source: Source, transmission_id: str, body: bytes) -> None:
        """Bind the id to this body; raises Rejected if another body came under it before."""
        given = sha256(body).digest()
        if await self._db.fetchval(BIND, source.webhook_id, event_key(transmission_id), given) != given:
            raise Rejected("bad_signature", "another body was received under this transmission id")


async def forget(conn: Connection, keep: timedelta) -> None:
    """Remove what is older than the horizon of duplicates."""
    await conn.execute(FORGET, keep)
