"""SQL that finds the organization of an id, before the transaction acts for one."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from onceward import Tx

FIND = """
select organization from unnest($1::text[], $2::text[]) with ordinality as i (kind, id, n)
 cross join lateral learning.organization_of(i.kind, i.id) as organization
 where organization is not null
 order by organization is distinct from onceward.organization(), n limit 1
"""


async def find(tx: Tx, ids: Sequence[tuple[str, str | None]]) -> UUID | None:
    """Return the organization that the first known id belongs to. The transaction's own organization comes first."""
    known = [(kind, id) for kind, id in ids if id]
    if not known:
        return None
    return await tx.fetchval(FIND, [kind for kind, _ in known], [id for _, id in known])
