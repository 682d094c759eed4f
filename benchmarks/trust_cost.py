"""Measure what row-level security, cause and audit add to a transaction of two statements (insert and update).

    python benchmarks/trust_cost.py [--rounds 7] [--transactions 500] [--url postgresql://...]

One client, cases interleaved, median over the rounds. Commits do not wait for the disk, so that storage noise does
not hide the differences between statements. With fsync the ratios are closer to 1.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

from onceward.db import Cause, Database, Transaction, migrate
from onceward.db.embedded import EmbeddedPostgres
from onceward.runtime import FEATURES
from onceward.trust import create_organization, record

SETUP = """
create table plain (id bigserial primary key, organization_id uuid not null, name text not null, sold boolean);
create table guarded (like plain including all);
create table caused (like plain including all, caused_by bigint default onceward.cause());
create index on caused (caused_by) where caused_by is not null;
select onceward.protect('guarded');
select onceward.protect('caused');
grant usage on all sequences in schema public to onceward_app;
"""

Case = Callable[[Database, UUID, int], Awaitable[None]]


async def pair(tx: Transaction, table: str, organization: UUID, number: int) -> None:
    """Run the two statements. The WHERE is present in every case, as in a real handler."""
    row = await tx.fetchval(
        f"insert into {table} (organization_id, name) values ($1, $2) returning id", organization, f"seat {number}"
    )
    await tx.execute(f"update {table} set sold = true where organization_id = $1 and id = $2", organization, row)


async def plain(db: Database, organization: UUID, number: int) -> None:
    async with db.transaction(role="engine") as tx:
        await pair(tx, "plain", organization, number)


async def guarded(db: Database, organization: UUID, number: int) -> None:
    async with db.transaction(organization=organization) as tx:
        await pair(tx, "guarded", organization, number)


async def caused(db: Database, organization: UUID, number: int) -> None:
    async with db.transaction(organization=organization, cause=Cause("event", number + 1)) as tx:
        await pair(tx, "caused", organization, number)


async def audited(db: Database, organization: UUID, number: int) -> None:
    async with db.transaction(organization=organization, cause=Cause("event", number + 1)) as tx:
        await pair(tx, "caused", organization, number)
        await record(
            tx, "seat.sold", entity_type="seat", entity_id=number, changes={"sold": {"from": None, "to": True}}
        )


CASES: dict[str, Case] = {
    "two statements, no policy": plain,
    "+ role, organization, policies": guarded,
    "+ cause": caused,
    "+ audit entry": audited,
}


async def measure(url: str, rounds: int, transactions: int) -> None:
    db = await Database.open(url, min_size=1, max_size=2)
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.migrations)
            await conn.execute(
                "alter database " + await conn.fetchval("select current_database()") + " set synchronous_commit = off"
            )
            await conn.execute(SETUP)
        await db.pool.expire_connections()
        async with db.transaction(role="engine") as tx:
            organization = (await create_organization(tx, "bench", actor="bench")).organization_id
        seconds: dict[str, list[float]] = {name: [] for name in CASES}
        for round_number in range(rounds + 1):
            for name, case in CASES.items():
                began = time.perf_counter()
                for number in range(transactions):
                    await case(db, organization, number)
                if round_number:  # the first round is a warm-up
                    seconds[name].append((time.perf_counter() - began) / transactions)
        report({name: statistics.median(values) for name, values in seconds.items()})
    finally:
        await db.close()


def report(medians: dict[str, float]) -> None:
    first = next(iter(medians.values()))
    print(f"{'case':<34}{'us per transaction':>20}{'ratio':>8}")
    for name, value in medians.items():
        print(f"{name:<34}{value * 1e6:>20.0f}{value / first:>8.2f}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--transactions", type=int, default=500)
    options.add_argument("--url", help="an empty database (default: a temporary embedded one)")
    given = options.parse_args()
    if given.url:
        asyncio.run(measure(given.url, given.rounds, given.transactions))
        return
    directory = Path(tempfile.gettempdir()) / f"onceward-bench-{os.getpid()}"
    server = EmbeddedPostgres(directory)
    try:
        asyncio.run(measure(server.start(), given.rounds, given.transactions))
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
