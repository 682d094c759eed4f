"""What sending to an endpoint needs, opened once and kept until the endpoint changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from onceward.db import Connection
from onceward.outbox.endpoints import open_headers
from onceward.outbox.schedule import WAITS_S, quick_tries
from onceward.outbox.signing import LiveSecret, Signer
from onceward.trust import SecretBox

MOST_KEPT = 10_000

TARGETS = """
select e.endpoint_id, e.url, e.headers, e.active, e.retry_waits_s, e.version,
       k.key_id, k.private_key,
       array(select s.secret_id from onceward.endpoint_secrets s where s.endpoint_id = e.endpoint_id order by s.created_at)
           as secret_ids,
       array(select s.secret from onceward.endpoint_secrets s where s.endpoint_id = e.endpoint_id order by s.created_at)
           as secrets,
       array(select s.expires_at from onceward.endpoint_secrets s where s.endpoint_id = e.endpoint_id order by s.created_at)
           as expiries
  from onceward.endpoints e
  left join onceward.signing_keys k on e.ed25519 and k.organization_id is not distinct from e.organization_id
 where e.endpoint_id = any($1::uuid[])
"""


@dataclass(frozen=True, slots=True)
class Target:
    """One endpoint, ready to be sent to. `signer` is None for one that has been deleted."""

    endpoint_id: UUID
    version: int
    url: str
    active: bool
    headers: dict[str, str]
    signer: Signer | None
    waits_s: Sequence[float]
    quick: int


class Targets:
    """Keeps opened endpoints by version: a change in the database is a new version, so nothing stale is used."""

    def __init__(self, box: SecretBox) -> None:
        self._box = box
        self._kept: OrderedDict[UUID, Target] = OrderedDict()

    async def get(self, conn: Connection, wanted: Iterable[tuple[UUID, int]]) -> dict[UUID, Target]:
        """Those of the wanted (endpoint, version) that exist."""
        found: dict[UUID, Target] = {}
        missing: list[UUID] = []
        for endpoint_id, version in set(wanted):
            kept = self._kept.get(endpoint_id)
            if kept is not None and kept.version >= version:
                self._kept.move_to_end(endpoint_id)
                found[endpoint_id] = kept
            else:
                missing.append(endpoint_id)
        if missing:
            for row in await conn.fetch(TARGETS, missing):
                target = self._open(row)
                found[target.endpoint_id] = self._kept[target.endpoint_id] = target
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return found

    def _open(self, known: Any) -> Target:
        box = self._box
        secrets = [
            LiveSecret(box.open(sealed, table="onceward.endpoint_secrets", row=secret_id, column="secret"), expires_at)
            for secret_id, sealed, expires_at in zip(
                known["secret_ids"], known["secrets"], known["expiries"], strict=True
            )
        ]
        private = None
        if known["private_key"] is not None:
            seed = box.open(
                known["private_key"], table="onceward.signing_keys", row=known["key_id"], column="private_key"
            )
            private = Ed25519PrivateKey.from_private_bytes(seed)
        waits = WAITS_S if known["retry_waits_s"] is None else tuple(known["retry_waits_s"])
        return Target(
            endpoint_id=known["endpoint_id"],
            version=known["version"],
            url=known["url"],
            active=known["active"],
            headers=open_headers(box, known["endpoint_id"], known["headers"]),
            signer=Signer(secrets, private) if secrets else None,
            waits_s=waits,
            quick=quick_tries(waits),
        )
