"""Accept only one body per transmission id, for senders whose signature covers only a checksum of the body.

PayPal signs a CRC32. An attacker who has seen one genuine request can create another body with the same checksum, and
the signature would be valid for it. So each transmission id is bound to a hash of its first body.
"""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

from onceward.db import Connection, Database
from onceward.inbox.source import Source
from onceward.providers.inbound.payload import event_key
from onceward.providers.inbound.provider import Rejected
from onceward.statements import read_statement

BIND = read_statement("inbox", "bind_transmission")

FORGET = "delete from onceward.webhook_transmissions where received_at < onceward.now() - $1::interval"


class Transmissions:
    """The transmissions that all nodes of this installation have accepted."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def bind(self, source: Source, transmission_id: str, body: bytes) -> None:
        """Bind the id to this body. Raise Rejected if the id is already bound to another body."""
        body_hash = sha256(body).digest()
        if await self._db.fetchval(BIND, source.webhook_id, event_key(transmission_id), body_hash) != body_hash:
            raise Rejected("bad_signature", "another body was received under this transmission id")


async def forget(conn: Connection, keep: timedelta) -> None:
    """Delete transmissions that are older than the period in which duplicates are detected."""
    await conn.execute(FORGET, keep)
