"""The key that signs tickets and orders: one for each organization, encrypted in the database."""

from __future__ import annotations

import secrets
from typing import Any

from onceward import Engine, Tx
from onceward.trust import ring_keys, rotated
from onceward_apps.ticketing.app import SIGNING_KEY

READ_KEY = "select key from ticketing.signing_keys where organization_id = onceward.organization()"
# The update returns the key of another transaction that was faster.
KEEP_KEY = """
insert into ticketing.signing_keys (key) values ($1)
on conflict (organization_id) do update set key = ticketing.signing_keys.key returning key
"""


async def signing_key(tx: Tx) -> bytes:
    """Return the key of the transaction's organization. The first call creates it."""
    assert tx.organization is not None
    sealed = await tx.fetchval(READ_KEY)
    if sealed is None:
        made = tx.engine.seal(SIGNING_KEY, secrets.token_bytes(32), row=tx.organization)
        sealed = await tx.fetchval(KEEP_KEY, made)
    return tx.engine.unseal(SIGNING_KEY, sealed, row=tx.organization)


async def rotate_signing_key(tx: Tx, *, actor: str) -> int:
    """Sign with a new key from now on. The older keys still check what they signed. Returns how many keys there are."""
    assert tx.organization is not None
    await signing_key(tx)  # creates the first one
    sealed = await tx.fetchval(f"{READ_KEY} for update")
    ring = rotated(tx.engine.unseal(SIGNING_KEY, sealed, row=tx.organization))
    await tx.execute(
        "update ticketing.signing_keys set key = $1 where organization_id = onceward.organization()",
        tx.engine.seal(SIGNING_KEY, ring, row=tx.organization),
    )
    await tx.audit("signing_key.rotated", entity_type="organization", entity_id=tx.organization, actor=actor)
    return len(ring_keys(ring))


def key_of(engine: Engine, row: Any) -> bytes:
    """Decrypt the key of a row that was read with its `organization_id` and its `sealed_key`, without a round trip."""
    return engine.unseal(SIGNING_KEY, row["sealed_key"], row=row["organization_id"])
