"""Enqueue from other drivers, and use a SQLAlchemy session inside a handler."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from onceward import Engine, Onceward, Permanent, Tx, enqueue_sql
from onceward.db import Database, RawJson
from onceward.sqlalchemy import SessionRolledBack, session_of
from onceward.testing import drain

app = Onceward("t")


@app.job
async def note(*, what: str, at: datetime | None = None) -> None: ...


CALL = (
    note.unique("k:%", within=timedelta(hours=2))
    .schedule_in(seconds=3600)
    .head_start(5)
    .tagged("a b", 'c"d')
    .max_attempts(4)
    .in_lane("l", limit=2)
    .call(what="100 % :p1 $1 'x'", at=datetime(2026, 1, 2, tzinfo=UTC))
)


@pytest.fixture
def engine(db: Database) -> Engine:
    return Engine(db, app.registry)


async def stored(db: Database) -> dict[str, Any]:
    rows = await db.fetch(
        "select w.task, w.queue, w.max_attempts, w.lane, j.args, j.tags, w.sort_at > onceward.now() as later,"
        " exists (select from onceward.unique_keys) as keyed from onceward.work w join onceward.jobs j using (id)"
    )
    [row] = rows
    await db.execute("truncate onceward.work, onceward.jobs, onceward.unique_keys, onceward.lanes cascade")
    return dict(row)


async def test_every_driver_writes_the_same_job(engine: Engine, db: Database, database_url: str) -> None:
    text, values = enqueue_sql(CALL)
    async with db.acquire() as conn:
        await conn.execute("begin")
        await conn.fetchrow(text, *values[:1], RawJson(values[1]), *values[2:])
        await conn.execute("commit")
    expected = await stored(db)
    assert expected["args"]["what"] == "100 % :p1 $1 'x'"
    assert expected["tags"] == ["a b", 'c"d']
    assert expected["later"]
    assert expected["keyed"]

    plain = await asyncpg.connect(database_url)
    await plain.fetchrow(text, *values)
    await plain.close()
    assert await stored(db) == expected

    text, values = enqueue_sql(CALL, paramstyle="format")
    with psycopg.connect(database_url) as sync, sync.transaction():
        sync.execute(text.encode(), values)
    assert await stored(db) == expected
    with psycopg.connect(database_url) as sync, psycopg.ClientCursor(sync) as cursor:  # as Django does by default
        cursor.execute(text.encode(), values)
    assert await stored(db) == expected

    text, named = enqueue_sql(CALL, paramstyle="named")
    sync_engine = sqlalchemy.create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with Session(sync_engine) as session, session.begin():
        row = session.execute(sqlalchemy.text(text), named).one()
        assert not row.duplicate
    sync_engine.dispose()
    assert await stored(db) == expected

    async_engine = create_async_engine(database_url.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(async_engine) as session, session.begin():
        await session.execute(sqlalchemy.text(text), named)
    await async_engine.dispose()
    assert await stored(db) == expected


def test_an_unknown_paramstyle_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="paramstyle is 'qmark': use"):
        enqueue_sql(note.call(what="x"), paramstyle="qmark")  # pyright: ignore[reportArgumentType, reportCallIssue]


# -- a session inside a handler ------------------------------------------------------------------------------------


class Base(DeclarativeBase):
    pass


class Parcel(Base):
    __tablename__ = "parcels"
    id: Mapped[int] = mapped_column(primary_key=True)
    contents: Mapped[Any] = mapped_column(JSONB)


async def test_a_session_writes_in_the_transaction_of_its_handler(db: Database) -> None:
    shop = Onceward("shop")
    seen: list[Any] = []

    @shop.job(retry=[])
    async def pack(tx: Tx, *, parcel: int, fail: bool) -> None:
        async with session_of(tx) as session:
            session.add(Parcel(id=parcel, contents={"books": [1, "two"]}))
            await session.commit()
            try:
                async with session.begin_nested():
                    session.add(Parcel(id=parcel + 100, contents=None))
                    await session.flush()
                    raise LookupError
            except LookupError:
                seen.append((await session.scalars(sqlalchemy.select(Parcel))).all()[-1].contents)
        await tx.execute("insert into parcels values ($1, $2)", parcel + 1000, {"plain": True})
        if fail:
            raise Permanent("no")

    engine = Engine(db, shop.registry)
    await db.execute("create table parcels (id int primary key, contents jsonb); grant all on parcels to onceward_app")
    await engine.enqueue(pack, parcel=1, fail=False)
    await engine.enqueue(pack, parcel=2, fail=True)
    await drain(engine)
    rows = [tuple(row) for row in await db.fetch("select * from parcels order by id")]
    assert rows == [(1, {"books": [1, "two"]}), (1001, {"plain": True})]
    assert seen[0] == {"books": [1, "two"]}


async def test_a_rolled_back_session_fails_its_handler(db: Database) -> None:
    await db.execute("create table parcels (id int primary key, contents jsonb); grant all on parcels to onceward_app")
    with pytest.raises(SessionRolledBack, match="raise an exception"):
        async with db.transaction() as tx:
            async with session_of(tx) as session:
                session.add(Parcel(id=1, contents=1))
                await session.flush()
                await session.rollback()
    assert await db.fetchval("select count(*) from parcels") == 0
