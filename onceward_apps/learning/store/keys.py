"""SQL for the key that signs links."""

from __future__ import annotations

import secrets

from onceward import Tx

SIGNING_KEY = """
with made as (
    insert into learning.signing_keys (organization_id, key) values (onceward.organization(), $1)
    on conflict (organization_id) do nothing returning key
)
select key from made union all select key from learning.signing_keys where organization_id = onceward.organization() limit 1
"""
READ_KEY = "select key from learning.signing_keys where organization_id = onceward.organization()"


async def signing_key(tx: Tx) -> bytes:
    """Return the key of the organization. The first call creates it."""
    key = await tx.fetchval(READ_KEY)
    while key is None:  # another transaction may have created it after this statement began
        key = await tx.fetchval(SIGNING_KEY, secrets.token_bytes(32))
    return bytes(key)
