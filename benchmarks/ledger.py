"""Measure posted journals: a sale of four entries, one transaction per journal.

post     one statement per journal (`post_alone`); the baseline is the same function called by pgbench
post-tx  a transaction block per journal (`post`); the baseline is the same four statements in pgbench
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable

from benchmarks.measure import Measurement, Size, compare, pgbench, rate
from onceward.db import Database, migrate
from onceward.ledger import Entry, Kind, open_account, post, post_alone
from onceward.runtime import FEATURES

CASES = ("post", "post-tx")
CLIENTS = 16
SALE = (
    Entry("cash", "revenue", 8000, "EUR"),
    Entry("discount", "revenue", 1000, "EUR"),
    Entry("cash", "tax", 1520, "EUR"),
    Entry("cash", "fees", 200, "EUR"),
)
COLUMNS = (
    "'{cash,discount,cash,cash}'",
    "'{revenue,revenue,tax,fees}'",
    "'{8000,1000,1520,200}'",
    "'{EUR,EUR,EUR,EUR}'",
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
    return (onceward.ledger_post_alone(
        organization, gen_random_uuid()::text, '{cash,discount,cash,cash}', '{revenue,revenue,tax,fees}',
        '{8000,1000,1520,200}', '{EUR,EUR,EUR,EUR}', null, false)).journal_id;
end
$$;
"""


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run the cases, each beside its baseline."""
    if only not in (None, *CASES):
        return []
    for_s = size.pick(10.0, 3.0, 0.2)
    db = await Database.open(url, min_size=CLIENTS, max_size=CLIENTS)
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.migrations)
            await conn.execute(BASELINE)
        organization = await _open_books(db)

        single = f"select onceward_bench.sale('{organization}');"
        results: list[Measurement] = []
        for name, poster, script, baseline in (
            ("post", _poster_alone(db, organization), single, "the same function under pgbench"),
            ("post-tx", _poster(db, organization), _block(organization), "the same statements under pgbench"),
        ):
            if only in (None, name):
                results.append(await _compared(name, url, poster, script, baseline, size, for_s))
        return results
    finally:
        await db.execute("drop schema if exists onceward_bench cascade")
        await db.close()


async def _compared(
    name: str, url: str, poster: Callable[[], Awaitable[int]], script: str, baseline: str, size: Size, for_s: float
) -> Measurement:
    async def ours() -> float:
        return await rate([poster] * CLIENTS, for_s=for_s)

    async def theirs() -> float:
        return len(SALE) * await pgbench(url, script, clients=CLIENTS, for_s=for_s)

    return await compare("ledger", name, ours, unit="entries/s", baseline=baseline, theirs=theirs, turns=size.turns())


def _block(organization: uuid.UUID) -> str:
    return f"""begin;
set local role onceward_app;
set local onceward.organization = '{organization}';
select journal_id, fresh from onceward.ledger_post(gen_random_uuid()::text, {", ".join(COLUMNS)}, null, false);
commit;
"""


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


def _poster_alone(db: Database, organization: uuid.UUID) -> Callable[[], Awaitable[int]]:
    async def sell() -> int:
        await post_alone(db, organization, SALE, key=str(uuid.uuid4()))
        return len(SALE)

    return sell
