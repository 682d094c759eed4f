"""A cache of decrypted endpoints: everything that a worker needs to send to them, until they change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from onceward.db import Connection
from onceward.http import ClientIdentity
from onceward.lazy import lazy_module
from onceward.outbox.endpoint_auth import client_identity
from onceward.outbox.endpoints import open_headers, read_auth
from onceward.outbox.schedule import WAITS_S, quick_tries
from onceward.outbox.signing import LiveSecret, Signer
from onceward.statements import read_statement
from onceward.trust import SecretBox

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ed25519
else:
    ed25519 = lazy_module("cryptography.hazmat.primitives.asymmetric.ed25519")

MOST_CACHED = 10_000

TARGETS = read_statement("outbox", "load_targets")


@dataclass(frozen=True, slots=True)
class Target:
    """One endpoint with decrypted secrets and headers. `signer` is None if the endpoint was deleted."""

    endpoint_id: UUID
    version: int
    url: str
    active: bool
    headers: dict[str, str]
    signer: Signer | None
    waits_s: Sequence[float]
    quick: int
    filter: str | None = None
    transform: str | None = None
    auth: dict[str, Any] | None = None
    identity: ClientIdentity | None = None
    """The client certificate."""


class Targets:
    """Caches endpoints by version. Every change in the database creates a new version, so no stale entry is used."""

    def __init__(self, box: SecretBox) -> None:
        self._box = box
        self._cache: OrderedDict[UUID, Target] = OrderedDict()

    async def get(self, conn: Connection, requested: Iterable[tuple[UUID, int]]) -> dict[UUID, Target]:
        """Return the requested endpoints that exist, each in the requested version or a newer one."""
        targets: dict[UUID, Target] = {}
        missing: list[UUID] = []
        for endpoint_id, version in set(requested):
            cached = self._cache.get(endpoint_id)
            if cached is not None and cached.version >= version:
                self._cache.move_to_end(endpoint_id)
                targets[endpoint_id] = cached
            else:
                missing.append(endpoint_id)
        if missing:
            for row in await conn.fetch(TARGETS, missing):
                target = self._open(row)
                targets[target.endpoint_id] = self._cache[target.endpoint_id] = target
            while len(self._cache) > MOST_CACHED:
                self._cache.popitem(last=False)
        return targets

    def _open(self, row: Any) -> Target:
        box = self._box
        secrets = [
            LiveSecret(box.open(sealed, table="onceward.endpoint_secrets", row=secret_id, column="secret"), expires_at)
            for secret_id, sealed, expires_at in zip(row["secret_ids"], row["secrets"], row["expiries"], strict=True)
        ]
        private = None
        if row["private_key"] is not None:
            seed = box.open(row["private_key"], table="onceward.signing_keys", row=row["key_id"], column="private_key")
            private = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
        auth = read_auth(box, row["endpoint_id"], row["auth"])
        waits = WAITS_S if row["retry_waits_s"] is None else tuple(row["retry_waits_s"])
        return Target(
            endpoint_id=row["endpoint_id"],
            version=row["version"],
            url=row["url"],
            active=row["active"],
            headers=open_headers(box, row["endpoint_id"], row["headers"]),
            signer=Signer(secrets, private) if secrets else None,
            waits_s=waits,
            quick=quick_tries(waits),
            filter=row["filter"],
            transform=row["transform"],
            auth=auth,
            identity=None if auth is None else client_identity(auth, row["endpoint_id"], row["version"]),
        )
