"""Measure posted journals: a sale of four entries, one transaction per journal."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable

from benchmarks.measure import Measurement, Size, compare, pgbench, rate
from onceward.db import Database, migrate
from onceward.ledger import Entry, Kind, open_account, post
from onceward.runtime import FEATURES

CASES = ("post",)
CLIENTS = 16
SALE = (
    Entry("cash", "revenue", 8000, "EUR"),
    Entry("discount", "revenue", 1000, "EUR"),
    Entry("cash", "tax", 1520, "EUR"),
    Entry("cash", "fees", 200, "EUR"),
)
KINDS: dict[str, Kind] = {
    "cash": "asset",
    "discount": "expense",
    "revenue": "revenue",
    "tax": "liability",
    "fees": "liability",
}

BASELINE = """
create schema if not exists onceward_bench;
create or replace function onceward_bench.sale(organization uuid) returns bigint language plpgsql as $$
begin
    perform set_config('onceward.organization', organization::text, true);
    return (onceward.ledger_post(
        gen_random_uuid()::text, '{cash,discount,cash,cash}', '{revenue,revenue,tax,fees}', '{8000,1000,1520,200}',
        '{EUR,EUR,EUR,EUR}')).journal_id;
end
$$;
"""


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run the case `post`; the baseline is the same function called by pgbench."""
    if only not in (None, *CASES):
        return []
    for_s = size.pick(10.0, 3.0, 0.2)
    db = await Database.open(url, min_size=CLIENTS, max_size=CLIENTS)
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.migrations)
            await conn.execute(BASELINE)
        organization = await _open_books(db)

        async def ours() -> float:
            return await rate([_poster(db, organization)] * CLIENTS, for_s=for_s)

        async def theirs() -> float:
            script = f"select onceward_bench.sale('{organization}');"
            return len(SALE) * await pgbench(url, script, clients=CLIENTS, for_s=for_s)

        baseline = "the same function under pgbench"
        measured = await compare(
            "ledger", "post", ours, unit="entries/s", baseline=baseline, theirs=theirs, turns=size.turns()
        )
        return [measured]
    finally:
        await db.execute("drop schema if exists onceward_bench cascade")
        await db.close()


async def _open_books(db: Database) -> uuid.UUID:
    organization = uuid.uuid4()
    async with db.transaction(organization=organization) as tx:
        for code, kind in KINDS.items():
            await open_account(tx, code, currency="EUR", kind=kind)
    return organization


def _poster(db: Database, organization: uuid.UUID) -> Callable[[], Awaitable[int]]:
    async def sell() -> int:
        async with db.transaction(organization=organization) as tx:
            await post(tx, SALE, key=str(uuid.uuid4()))
        return len(SALE)

    return sell
