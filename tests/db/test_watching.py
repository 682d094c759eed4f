"""The text of a statement says whether others may share its transaction."""

from __future__ import annotations

import pytest

from onceward.db import Database
from onceward.db.statement_watch import Lasts, NotInSharedTransaction, Watch, lasts

NOT = [
    "select 1",
    "  (select 1) union all (select 2)",
    "-- commit\nselect 1",
    "/* commit; */ insert into t values ('; commit')",
    "update \"set\" set a = $1 where b = 'x;y'",
    "with x as (delete from t returning *) select * from x",
    "insert into t values ($$; commit; $$)",
    "select E'it\\'s; commit'",
    "merge into t using s on true when matched then delete",
    "reset role",
]
SAVEPOINTS = ["savepoint a", "release savepoint a", "release a", "rollback to savepoint a", "rollback work to a"]
TO_THE_END = [
    "set local statement_timeout = 1",
    "select set_config('a.b', 'c', true)",
    "create temp table t (n int)",
    "select 1 into temp t",
    "declare c cursor for select 1",
    "do $$ begin end $$",
    "call p()",
    "select pg_advisory_xact_lock(1)",
    "lock table t",
    "set constraints all immediate",
    "prepare p as select 1",
    "listen x",
    "select 1; set role none",
]
ENDS = [
    "commit",
    "COMMIT AND CHAIN",
    "  end",
    "abort",
    "rollback",
    "rollback and chain",
    "select 1; commit; begin",
    "select 'a--b'; commit",
    "select E'\\''; commit --'",
    "select 1 /* x */ ; -- y\n commit",
    "prepare transaction 'x'",
    "/* /* */ -- */ ; commit",
    "select $a$ $b$ $a$; commit",
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        *((each, Lasts.NOT) for each in NOT),
        *((each, Lasts.SAVEPOINT) for each in SAVEPOINTS),
        *((each, Lasts.TO_THE_END) for each in TO_THE_END),
        *((each, Lasts.ENDS) for each in ENDS),
    ],
)
def test_a_statement_is_known_by_its_text(query: str, expected: Lasts) -> None:
    assert lasts(query) is expected


async def test_every_way_to_send_a_statement_is_watched(db: Database) -> None:
    async with db.acquire() as conn:

        async def by_cursor() -> None:
            async for _ in conn.cursor("commit"):
                pass

        for send in (
            lambda: conn.execute("commit"),
            lambda: conn.execute("commit", timeout=5),
            lambda: conn.fetch("commit"),
            lambda: conn.fetchrow("commit"),
            lambda: conn.fetchval("commit"),
            lambda: conn.executemany("commit", [()]),
            lambda: conn.prepare("commit"),
            by_cursor,
        ):
            await conn.execute("begin")
            watch = Watch(others=True)
            conn.watch(watch)  # pyright: ignore[reportAttributeAccessIssue]
            with pytest.raises(NotInSharedTransaction):
                await send()
            conn.watch(None)  # pyright: ignore[reportAttributeAccessIssue]
            assert watch.refused is not None
            assert conn.is_in_transaction()
            await conn.execute("rollback")


def test_a_handler_may_go_back_to_its_own_savepoints_only() -> None:
    watch = Watch(others=True)
    watch.look("savepoint mine")
    watch.look('rollback to savepoint "mine"')
    watch.look("release savepoint mine")
    for query in ("rollback to savepoint mine", "rollback to theirs"):
        with pytest.raises(NotInSharedTransaction):
            watch.look(query)
