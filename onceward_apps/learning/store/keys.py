"""SQL for the keys that sign links and badges."""

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
BADGE_KEY = "select private_key from learning.badge_keys where organization_id = onceward.organization()"
# The update returns the key of another transaction that was faster.
KEEP_BADGE_KEY = """
insert into learning.badge_keys (organization_id, private_key) values (onceward.organization(), $1)
on conflict (organization_id) do update set private_key = learning.badge_keys.private_key returning private_key
"""


async def signing_key(tx: Tx) -> bytes:
    """Return the key of the organization. The first call creates it."""
    key = await tx.fetchval(READ_KEY)
    while key is None:  # another transaction may have created it after this statement began
        key = await tx.fetchval(SIGNING_KEY, secrets.token_bytes(32))
    return bytes(key)


async def badge_key(tx: Tx) -> bytes | None:
    key = await tx.fetchval(BADGE_KEY)
    return None if key is None else bytes(key)


async def keep_badge_key(tx: Tx, private_key: bytes) -> bytes:
    """Store a new key, and return the key that counts: another transaction may have stored one before."""
    return bytes(await tx.fetchval(KEEP_BADGE_KEY, private_key))
