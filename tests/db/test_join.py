"""A handler that continues the transaction of another one joins it with its first statement, whatever that statement
is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from onceward.db import Cause, Database, RoleChanged, RolledBack, Transaction, TransactionEnded

WHO = "select current_setting('onceward.cause') || ' ' || current_setting('onceward.organization')"
ORGANIZATION = UUID(int=7)
SECOND = f"job:2 {ORGANIZATION}"


@pytest.fixture
async def open_tx(db: Database) -> AsyncGenerator[Transaction]:
    await db.execute("create table notes (n int primary key, who text); grant all on notes to onceward_app")
    async with db.acquire() as conn:
        tx = Transaction(conn, cause=Cause("job", 1))
        await tx.open()
        yield tx


def following(tx: Transaction, id: int = 2) -> Transaction:
    then = Transaction(tx.conn, cause=Cause("job", id), organization=ORGANIZATION)
    then.follow(tx)
    return then


async def by_cursor(tx: Transaction) -> None:
    async for _ in tx.conn.cursor(f"insert into notes values (2, ({WHO})) returning n"):
        pass


STATEMENTS: dict[str, Callable[[Transaction], Awaitable[Any]]] = {
    "script": lambda tx: tx.execute(f"insert into notes values (2, ({WHO})); select 1"),
    "prepared": lambda tx: tx.execute(f"insert into notes values ($1, ({WHO}))", 2),
    "rows": lambda tx: tx.fetch(f"insert into notes values ($1, ({WHO})) returning n", 2),
    "row": lambda tx: tx.fetchrow(f"insert into notes values (2, ({WHO})) returning n"),
    "value": lambda tx: tx.fetchval(f"insert into notes values (2, ({WHO})) returning n"),
    "many": lambda tx: tx.executemany(f"insert into notes values ($1, ({WHO}))", [(2,), (3,)]),
    "copy": lambda tx: tx.conn.copy_records_to_table("copied", records=[(2,)], columns=["n"]),
    "cursor": by_cursor,
}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("how", STATEMENTS)
async def test_the_first_statement_acts_for_its_own_cause_and_organization(
    db: Database, open_tx: Transaction, how: str, known: bool
) -> None:
    """A statement that asyncpg has prepared before carries the join in the same packet; any other one follows it."""
    await db.execute(
        f"create table if not exists copied (n int, who text default ({WHO[7:]})); grant all on copied to onceward_app"
    )
    tx = open_tx
    if known:
        await tx.execute("savepoint before")
        await STATEMENTS[how](tx)
        await tx.execute("rollback to savepoint before")
    then = following(tx)
    assert not then.has_begun
    await STATEMENTS[how](then)
    assert then.has_begun
    assert await then.fetchval("select who from notes where n = 2 union all select who from copied") == SECOND
    await then.commit("select 1")
    assert await db.fetchval("select count(*) from (select from notes union all select from copied) n") == (
        2 if how == "many" else 1
    )


async def test_a_prepared_statement_and_its_join_take_one_packet(open_tx: Transaction) -> None:
    transport: Any = open_tx.conn._transport  # pyright: ignore
    packets: list[bytes] = []

    class Counted:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def write(self, data: bytes) -> None:
            packets.append(bytes(data))
            real.write(data)

    query = "select $1::int"
    await open_tx.fetchval(query, 1)
    then = following(open_tx)
    await then.fetchval(query, 1)  # the first join of a session is prepared
    third = following(then, 3)
    real, transport.real = transport.real, Counted()
    assert await third.fetchval(query, 3) == 3
    transport.real = real
    assert len(packets) == 1
    assert b"job:3" in packets[0]
    await third.rollback()


async def test_a_handler_without_a_statement_leaves_the_session_as_it_is(open_tx: Transaction) -> None:
    silent = following(open_tx)
    then = following(silent, 3)
    assert await then.fetchval(WHO) == f"job:3 {ORGANIZATION}"
    last = following(then, 4)
    await last.commit("insert into notes values (9)")
    assert not silent.has_begun
    assert not last.has_begun


@pytest.mark.parametrize("sent", [False, True])
async def test_an_argument_that_asyncpg_refuses_sends_nothing(open_tx: Transaction, sent: bool) -> None:
    query = "insert into notes values ($1::int, $2)"
    await open_tx.execute(query, 1, "first")
    then = following(open_tx)
    if sent:
        await then.execute(query, 2, "second")
        then = following(then, 3)
    with pytest.raises(asyncpg.DataError):
        await then.execute(query, "no number", "x")
    assert not then.has_begun
    await then.execute("savepoint s")
    assert then.has_begun
    assert (await then.fetchval(WHO)).startswith(f"job:{3 if sent else 2} ")
    await then.commit("select 1")


async def test_a_statement_that_fails_has_joined(open_tx: Transaction) -> None:
    query = "insert into notes values ($1, 'x')"
    await open_tx.execute(query, 1)
    then = following(open_tx)
    with pytest.raises(asyncpg.UniqueViolationError):
        await then.execute(query, 1)
    assert then.has_begun
    await then.rollback()
    assert not then.was_ended


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("before", "error"),
    [
        ("select 1/0", RolledBack),
        ("commit; begin", TransactionEnded),
        ("set local role onceward_engine", RoleChanged),
        ("set local onceward.cause = 'job:9'", RoleChanged),
    ],
)
async def test_what_the_handler_before_did_to_the_transaction_is_an_error_of_the_first_statement_and_stays_one(
    open_tx: Transaction, before: str, error: type[Exception], known: bool
) -> None:
    query = "insert into notes values ($1, 'x')" if known else "select $1::int + 1"
    await open_tx.execute("insert into notes values ($1, 'x')", 1)
    await (joined := following(open_tx)).fetchval("select 1 where $1", True)
    if before == "select 1/0":
        with pytest.raises(asyncpg.DivisionByZeroError):
            await joined.execute(before)
    else:
        await open_tx.conn.execute(before)
    then = following(joined, 3)
    for _ in range(2):
        with pytest.raises(error):
            await then.execute(query, 2)
    assert not then.has_begun
    await then.rollback()
    async with Transaction(open_tx.conn, role="engine") as check:
        assert await check.fetchval("select count(*) from notes where n = 2") == 0
