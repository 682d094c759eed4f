"""The keys of the audit chain. The database stores them encrypted, so that who has the database alone can make no link.

A key is created when the first entries are sealed, and `onceward secrets rotate` adds another. Old keys stay, encrypted
with the current secret key, so that old links can always be checked.
"""

from __future__ import annotations

import secrets
from uuid import UUID, uuid4

from onceward.db import Connection
from onceward.feature import SealedColumn
from onceward.trust.errors import SecretError
from onceward.trust.secrets import SecretBox

COLUMN = SealedColumn("onceward.audit_keys", "key_id", "key")
NEWEST = "select key_id, key from onceward.audit_keys order by created_at desc, key_id limit 1"
KEY_BYTES = 32


async def add_key(conn: Connection, box: SecretBox) -> tuple[UUID, bytes]:
    """Create the key that seals from now on."""
    key_id, key = uuid4(), secrets.token_bytes(KEY_BYTES)
    sealed = box.seal(key, table=COLUMN.table, row=key_id, column=COLUMN.column)
    await conn.execute("insert into onceward.audit_keys (key_id, key) values ($1, $2)", key_id, sealed)
    return key_id, key


async def current_key(conn: Connection, box: SecretBox) -> tuple[UUID, bytes]:
    """Return the key that seals, and create it if there is none. Raises `SecretError` if this process cannot open
    it."""
    row = await conn.fetchrow(NEWEST)
    return await add_key(conn, box) if row is None else (row["key_id"], _opened(box, row["key_id"], row["key"]))


async def all_keys(conn: Connection, box: SecretBox) -> dict[UUID, bytes | SecretError]:
    """Return every key by its id, or why it cannot be opened."""
    keys: dict[UUID, bytes | SecretError] = {}
    for row in await conn.fetch("select key_id, key from onceward.audit_keys"):
        try:
            keys[row["key_id"]] = _opened(box, row["key_id"], row["key"])
        except SecretError as error:
            keys[row["key_id"]] = error
    return keys


def _opened(box: SecretBox, key_id: UUID, sealed: bytes) -> bytes:
    return box.open(bytes(sealed), table=COLUMN.table, row=key_id, column=COLUMN.column)
