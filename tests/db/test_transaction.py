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


async def test_the_context_opens_commits_and_rolls_back(db: Database) -> None:
    await db.execute("create table t (x int); grant all on t to onceward_app")
    async with db.acquire() as conn:
        async with Transaction(conn) as tx:
            await tx.execute("insert into t values (1)")
        assert not tx.is_open
        with pytest.raises(RuntimeError):
            async with Transaction(conn) as tx:
                await tx.execute("insert into t values (2)")
                raise RuntimeError
        assert not conn.is_in_transaction()
    assert await db.fetchval("select array_agg(x) from t") == [1]


async def test_the_context_uses_a_transaction_that_the_last_commit_opened_and_a_commit_of_the_block(
    db: Database,
) -> None:
    await db.execute("create table t (x int); grant all on t to onceward_app")
    async with db.acquire() as conn:
        first, second = Transaction(conn), Transaction(conn)
        async with first:
            await first.commit(then=second)
        assert second.is_open, "the end of the first block must not end the second transaction"
        async with second:
            await second.execute("insert into t values (2)")
            await second.commit("select 1")
    assert await db.fetchval("select array_agg(x) from t") == [2]


async def test_a_commit_that_fails_leaves_no_transaction_behind(db: Database) -> None:
    await db.execute("create table t (x int unique deferrable initially deferred); grant all on t to onceward_app")
    async with db.acquire() as conn:
        tx = Transaction(conn)
        with pytest.raises(asyncpg.UniqueViolationError):
            async with tx:
                await tx.execute("insert into t values (1), (1)")
        assert not tx.is_open
        assert not conn.is_in_transaction()
    assert await db.fetchval("select count(*) from t") == 0


async def test_one_transaction_continues_another_on_the_same_connection(db: Database) -> None:
    await db.execute("create table t (x int); grant all on t to onceward_app")
    called: list[int] = []
    async with db.acquire() as conn, Transaction(conn, role="engine", lock_timeout_s=2) as outer:
        assert await outer.fetchval("show lock_timeout") == "2s"
        await outer.execute("insert into t values (1)")
        inner = Transaction(conn)
        await inner.take_over(outer, "savepoint here")
        async with inner:
            assert await inner.fetchval("select current_user") == "onceward_app"
            await inner.execute("insert into t values (2)")
            inner.after_commit(lambda: called.append(2))
            await inner.rollback_to("here")
            inner.after_commit(lambda: called.append(1))
        assert not outer.is_open
    assert await db.fetchval("select array_agg(x) from t") == [1]
    assert called == [1], "what was undone must not run after the commit"
