"""Signing keys that are rotated: a ring is the keys of an organization one after the other, newest first.

The newest key signs. Every key of the ring checks, so what was signed before a rotation stays valid. An app stores the
ring as one encrypted value; a ring of one key is the key itself.
"""

from __future__ import annotations

import secrets

KEY_BYTES = 32
MOST_KEYS = 10


def ring_keys(ring: bytes) -> list[bytes]:
    """Return the keys of a ring, the one that signs first."""
    return [ring[at : at + KEY_BYTES] for at in range(0, len(ring), KEY_BYTES)]


def rotated(ring: bytes) -> bytes:
    """Return the ring with a new key in front. A ring with too many keys loses its oldest: what it signed ends."""
    return (secrets.token_bytes(KEY_BYTES) + ring)[: KEY_BYTES * MOST_KEYS]
