"""The keys that sign links and badges: one of each for an organization, encrypted in the database."""

from __future__ import annotations

import secrets

from onceward import SealedColumn, Tx
from onceward.trust import ring_keys, rotated
from onceward_apps.learning.app import BADGE_KEY, SIGNING_KEY


async def signing_key(tx: Tx) -> bytes:
    """Return the key of the transaction's organization for signed links. The first call creates it."""
    return await _read(tx, SIGNING_KEY) or await _keep(tx, SIGNING_KEY, secrets.token_bytes(32))


async def rotate_signing_key(tx: Tx, *, actor: str) -> int:
    """Sign with a new key from now on. The older keys still check what they signed. Returns how many keys there are."""
    assert tx.organization is not None
    await signing_key(tx)  # creates the first one
    sealed = await tx.fetchval(
        "select key from learning.signing_keys where organization_id = onceward.organization() for update"
    )
    ring = rotated(tx.engine.unseal(SIGNING_KEY, sealed, row=tx.organization))
    await tx.execute(
        "update learning.signing_keys set key = $1 where organization_id = onceward.organization()",
        tx.engine.seal(SIGNING_KEY, ring, row=tx.organization),
    )
    await tx.audit("signing_key.rotated", entity_type="organization", entity_id=tx.organization, actor=actor)
    return len(ring_keys(ring))


async def badge_keys(tx: Tx) -> list[bytes]:
    """Return the private keys of badges, the one that signs first. The list is empty before the first badge."""
    return _documents(await _read(tx, BADGE_KEY) or b"")


async def keep_badge_key(tx: Tx, private_key: bytes) -> list[bytes]:
    """Store the first key, and return the keys that count: another transaction may have stored one before."""
    return _documents(await _keep(tx, BADGE_KEY, private_key))


async def rotate_badge_key(tx: Tx, private_key: bytes, *, actor: str) -> int:
    """Sign badges with this key from now on. The older keys stay published. Returns how many keys there are."""
    assert tx.organization is not None
    sealed = await tx.fetchval(
        "select private_key from learning.badge_keys where organization_id = onceward.organization() for update"
    )
    if sealed is None:
        known = await keep_badge_key(tx, private_key)
    else:
        known = [private_key, *_documents(tx.engine.unseal(BADGE_KEY, sealed, row=tx.organization))]
        await tx.execute(
            "update learning.badge_keys set private_key = $1 where organization_id = onceward.organization()",
            tx.engine.seal(BADGE_KEY, b"".join(known), row=tx.organization),
        )
    await tx.audit("badge_key.rotated", entity_type="organization", entity_id=tx.organization, actor=actor)
    return len(known)


def _documents(ring: bytes) -> list[bytes]:
    """Split keys that were stored one after the other. Each is a DER document, which begins with its length."""
    keys: list[bytes] = []
    while ring:
        size = ring[1]
        header = 2
        if size & 0x80:
            header += size & 0x7F
            size = int.from_bytes(ring[2:header], "big")
        keys.append(ring[: header + size])
        ring = ring[header + size :]
    return keys


async def _read(tx: Tx, key: SealedColumn) -> bytes | None:
    assert tx.organization is not None
    sealed = await tx.fetchval(f"select {key.column} from {key.table} where organization_id = onceward.organization()")
    return None if sealed is None else tx.engine.unseal(key, sealed, row=tx.organization)


async def _keep(tx: Tx, key: SealedColumn, plain: bytes) -> bytes:
    assert tx.organization is not None
    # The update returns the key of another transaction that was faster.
    sealed = await tx.fetchval(
        f"insert into {key.table} ({key.column}) values ($1) on conflict (organization_id)"
        f" do update set {key.column} = {key} returning {key.column}",
        tx.engine.seal(key, plain, row=tx.organization),
    )
    return tx.engine.unseal(key, sealed, row=tx.organization)
