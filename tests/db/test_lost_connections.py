"""A lost connection is distinguished from a failed statement and from a failed handler."""

from __future__ import annotations

import asyncpg
import pytest

from onceward.db import BROKEN, Database, OutcomeUnknown, lost_connection

CUT_ITSELF = "select pg_terminate_backend(pg_backend_pid())"


async def raised_by(db: Database, statement: str) -> BaseException:
    with pytest.raises((*BROKEN, asyncpg.PostgresError)) as raised:
        await db.execute(statement)
    return raised.value


async def test_a_session_that_was_terminated_is_a_lost_connection(db: Database) -> None:
    assert lost_connection(await raised_by(db, CUT_ITSELF))


async def test_a_statement_that_fails_is_not_a_lost_connection(db: Database) -> None:
    assert not lost_connection(await raised_by(db, "select 1 / 0"))
    assert not lost_connection(await raised_by(db, "select pg_cancel_backend(pg_backend_pid()), pg_sleep(5)"))


async def test_an_error_that_was_raised_because_of_a_lost_connection_counts_as_one(db: Database) -> None:
    error = ValueError("no report")
    error.__cause__ = await raised_by(db, CUT_ITSELF)
    assert lost_connection(error)


async def test_a_handlers_own_os_error_is_not_a_lost_connection(db: Database) -> None:
    with pytest.raises(ConnectionResetError) as raised:
        async with db.acquire() as conn:
            await conn.execute("select 1")
            raise ConnectionResetError("by the peer of some other socket")
    assert not lost_connection(raised.value)


async def test_an_unknown_commit_is_a_lost_connection() -> None:
    assert lost_connection(OutcomeUnknown("the connection was lost during COMMIT"))
    assert not lost_connection(None)
