"""Accept one key with one content only, for senders whose signature leaves a gap.

If only a checksum of the body is signed, each transmission id is bound to a hash of its first body. If the delivery id
is not signed, with `once_per_body` each body is bound to its first delivery id.
"""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

from onceward.db import Connection, Database
from onceward.inbox.source import Source
from onceward.statements import read_statement
from onceward.webhooks.payload import event_key
from onceward.webhooks.provider import Binding, Rejected

BIND = read_statement("inbox", "bind_transmission")

FORGET = "delete from onceward.webhook_transmissions where received_at < onceward.now() - $1::interval"


class Transmissions:
    """The transmissions that all nodes of this installation have accepted."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def bind(self, source: Source, binding: Binding) -> None:
        """Bind the key to this content. Raise Rejected if the key is already bound to another one."""
        content = sha256(binding.content).digest()
        if await self._db.fetchval(BIND, source.webhook_id, event_key(binding.key), content) != content:
            raise Rejected("bad_signature", binding.problem)


async def forget(conn: Connection, keep: timedelta) -> None:
    """Delete transmissions that are older than the period in which duplicates are detected."""
    await conn.execute(FORGET, keep)
