"""Crash a handler of the ticket shop at any statement or gate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from onceward import Tx
from onceward.db import Transaction
from onceward.testing import Crash, give_back
from onceward.work import gate
from tests.ticketing.office import Office

VERBS = ("fetch", "fetchrow", "fetchval", "execute")


class CrashAt:
    """Crashes at the nth statement or gate; without n it only counts them."""

    def __init__(self, at: int | None) -> None:
        self.passed: list[str] = []
        self.at = at

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) == self.at:
            raise Crash(name)


def install(patch: pytest.MonkeyPatch, counter: CrashAt, *, transactions: type[Transaction] = Tx) -> None:
    """Put the counter before every statement of such transactions and at every gate of the engine."""
    for verb in VERBS:
        real = getattr(transactions, verb)

        def counted(real: Any) -> Any:
            async def run(self: Any, query: str, *args: Any) -> Any:
                counter(query.strip().split("\n")[0][:60])
                return await real(self, query, *args)

            return run

        patch.setattr(transactions, verb, counted(real))
    patch.setattr(gate, "hook", counter)


async def deliver(office: Office, payload: dict[str, Any], at: int | None) -> list[str]:
    """Deliver a webhook with a crash at the nth statement or gate, then again as the payment service does.

    Returns the statements and gates that the first delivery passed.
    """
    counter = CrashAt(at)
    with pytest.MonkeyPatch.context() as patch:
        install(patch, counter)
        try:
            await office.webhook(payload)
            await office.drain()
        except Crash:
            pass
    await give_back(office.engine)
    reply = await office.webhook(payload)
    assert reply.status == 200, reply
    await office.drain()
    return counter.passed


async def crash_at_each_statement(office: Office, run: Callable[[], Awaitable[object]], *, tables: str) -> list[str]:
    """Run with a crash before the first statement, then before the second, and so on until it ends without one.

    A crash must leave every row of these tables as it was. Return the statements of the run that ended.
    """
    before = await rows_of(office, tables)
    for at in count(1):
        counter = CrashAt(at)
        with pytest.MonkeyPatch.context() as patch:
            install(patch, counter, transactions=Transaction)
            try:
                await run()
            except Crash:
                pass
            else:
                return counter.passed
        assert await rows_of(office, tables) == before, f"a crash at {at} ({counter.passed[-1]}) left something behind"
    raise AssertionError("unreachable")


async def rows_of(office: Office, tables: str) -> dict[str, str]:
    """Return a digest of all rows of each table."""
    each = " union all ".join(
        f"select '{table}' as name, coalesce(md5(string_agg(t::text, '' order by t::text)), '') as rows from {table} t"
        for table in tables.split()
    )
    return {row["name"]: row["rows"] for row in await office.db.fetch(each)}
