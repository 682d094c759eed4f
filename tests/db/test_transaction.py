"""Transactions: one commit, a role and an organization, and honesty about an outcome nobody saw."""

from __future__ import annotations

import asyncio
import contextlib
import uuid

import asyncpg
import pytest

from onceward.db import Cause, Database, OutcomeUnknown, RolledBack, Transaction, Unavailable, quote
from onceward.db.lost import is_gone


async def test_a_transaction_acts_as_the_app_role_for_its_organization(db: Database) -> None:
    organization = uuid.uuid4()
    async with db.transaction(organization=organization, cause=Cause("event", 7)) as tx:
        row = await tx.fetchrow("select current_user as who, onceward.organization() as o, onceward.cause() as c")
        assert row is not None
        assert (row["who"], row["o"], row["c"]) == ("onceward_app", organization, 7)
    assert await db.fetchval("select onceward.organization()") is None


async def test_what_raises_rolls_back_and_calls_nothing_after_commit(db: Database) -> None:
    await db.execute("create table t (x int); grant all on t to onceward_app")
    called: list[int] = []
    with pytest.raises(RuntimeError):
        async with db.transaction() as tx:
            await tx.execute("insert into t values (1)")
            tx.after_commit(lambda: called.append(1))
            raise RuntimeError
    assert await db.fetchval("select count(*) from t") == 0
    async with db.transaction() as tx:
        tx.after_commit(lambda: called.append(2))
    assert called == [2]


async def test_the_last_statement_can_prevent_the_commit(db: Database) -> None:
    await db.execute("create table t (x int); grant all on t to onceward_app")
    async with db.acquire() as conn:
        tx = Transaction(conn)
        await tx.open()
        await tx.execute("insert into t values (1)")
        with pytest.raises(Exception, match="division"):
            await tx.commit("select 1/0")
        await tx.rollback()
    assert await db.fetchval("select count(*) from t") == 0


async def test_a_connection_lost_in_commit_is_an_unknown_outcome(db: Database) -> None:
    async with db.acquire() as conn:
        tx = Transaction(conn)
        await tx.open()
        with pytest.raises(OutcomeUnknown):
            await tx.commit("select pg_terminate_backend(pg_backend_pid())")


async def test_a_connection_lost_before_commit_is_not_an_unknown_outcome(db: Database) -> None:
    async with db.acquire() as conn:
        tx = Transaction(conn)
        await tx.open()
        await db.execute("select pg_terminate_backend($1)", conn.get_server_pid())
        async with asyncio.timeout(10):
            while not is_gone(conn):
                await asyncio.sleep(0.01)
        with pytest.raises(Unavailable, match="before COMMIT"):
            await tx.commit()


@pytest.mark.parametrize("last", ["", "select 1"])
@pytest.mark.parametrize("carried", [False, True])
async def test_a_commit_after_a_swallowed_error_raises_and_runs_nothing_that_waits_for_it(
    db: Database, last: str, carried: bool
) -> None:
    await db.execute("create table t (x int); grant all on t to onceward_app")
    ran: list[str] = []
    async with db.acquire() as conn:
        tx = Transaction(conn)
        await tx.open()
        await tx.execute("insert into t values (1)")
        tx.after_commit(lambda: ran.append("after"))
        with contextlib.suppress(asyncpg.DivisionByZeroError):
            await tx.execute("select 1/0")
        following = Transaction(conn) if carried else None
        with pytest.raises(RolledBack, match="caught the error"):
            await tx.commit(last, then=following)
        await tx.rollback()
        assert following is None or not following.is_open
        assert not conn.is_in_transaction()
    assert ran == []
    assert await db.fetchval("select count(*) from t") == 0


@pytest.mark.parametrize("text", ["it's", "back\\slash", "'; drop table x; --", "é\n\t", "\\'"])
async def test_quoting_gives_back_the_same_text(db: Database, text: str) -> None:
    assert await db.fetchval(f"select {quote(text)}") == text


def test_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quote("a\x00b")
