"""`insert` writes any mix of jobs: in order, with all options, in one statement where no unique key is involved."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from onceward.db import Database
from onceward.work import Item, Options, enqueuing, insert
from onceward.work.statements import ENQUEUE

NONE = Options()
ORGANIZATION = UUID(int=7)


def job(n: int, *, task: str = "a", options: Options = NONE) -> Item:
    return Item(task, f'{{"n":{n}}}', options.queue or "default", options, None, None)


async def test_a_mix_of_jobs_is_one_statement_and_keeps_its_order(db: Database) -> None:
    mixed = [
        job(n, task="ab"[n % 2], options=Options(lane=f"lane {n % 3}", cap=2, tags=('a "b"', "c\\d", "é,{}")))
        for n in range(60)
    ]
    sent: list[str] = []
    async with db.acquire() as conn:
        with conn.query_logger(lambda record: sent.append(record.query)):
            done = await insert(conn, mixed)
    assert [query for query in sent if "onceward" in query] == [ENQUEUE]
    rows = await db.fetch(
        "select w.id, w.task, w.lane, w.cap, j.args, j.tags from onceward.work w join onceward.jobs j using (id)"
        " order by w.sort_at"
    )
    assert [row["id"] for row in rows] == [each.id for each in done]
    assert [(row["task"], row["args"]["n"], row["lane"], row["cap"]) for row in rows] == [
        ("ab"[n % 2], n, f"lane {n % 3}", 2) for n in range(60)
    ]
    assert all(row["tags"] == ['a "b"', "c\\d", "é,{}"] for row in rows)


async def test_jobs_with_a_unique_key_between_others_keep_their_place(db: Database) -> None:
    key = Options(unique_key="k")
    async with db.acquire() as conn:
        done = await insert(conn, [job(0), job(1, options=key), job(2), job(3, options=key), job(4)])
    assert [each.duplicate for each in done] == [False, False, False, True, False]
    assert done[3].id == done[1].id
    stored = {row["id"]: row["n"] for row in await db.fetch("select id, (args->>'n')::int as n from onceward.jobs")}
    assert [stored[each.id] for each in done] == [0, 1, 2, 1, 4]


async def test_an_iterator_is_written_in_chunks_that_run_in_order(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueuing, "AT_ONCE", 4)
    yielded: list[int] = []

    def items() -> Iterator[Item]:
        for n in range(10):
            yielded.append(n)
            yield Item("a", f'{{"n":{n}}}', "default", NONE, ORGANIZATION, 3)

    async with db.transaction(role="engine") as tx:
        done = await insert(tx.conn, items(), count=10)
    rows = await db.fetch(
        "select j.id, (j.args->>'n')::int as n, j.organization_id, j.caused_by from onceward.jobs j"
        " join onceward.work w using (id) order by w.sort_at"
    )
    assert [row["n"] for row in rows] == yielded == list(range(10))
    assert [row["id"] for row in rows] == [each.id for each in done]
    assert {(row["organization_id"], row["caused_by"]) for row in rows} == {(ORGANIZATION, 3)}


async def test_a_bad_item_in_a_later_chunk_leaves_the_connection_usable(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueuing, "AT_ONCE", 2)

    def items() -> Iterator[Item]:
        yield from (job(n) for n in range(3))
        raise TypeError("argument 3 does not fit")

    with pytest.raises(TypeError, match="argument 3"):
        async with db.transaction(role="engine") as tx:
            await insert(tx.conn, items(), count=4)
    assert await db.fetchval("select count(*) from onceward.work") == 0


@pytest.mark.parametrize("key", [None, "k"], ids=["bulk", "unique"])
@pytest.mark.parametrize(
    ("options", "due_in_s"),
    [
        ({}, 0),
        ({"boost_s": 60}, -60),
        ({"delay": timedelta(minutes=5)}, 300),
        ({"run_at": timedelta(hours=1)}, 3600),
        ({"run_at": timedelta(hours=1), "boost_s": 60}, 3600),
        ({"run_at": timedelta(hours=-1)}, 0),
        ({"run_at": timedelta(hours=-1), "boost_s": 60}, -60),
    ],
)
async def test_a_due_time_means_the_same_with_and_without_a_unique_key(
    db: Database, key: str | None, options: dict[str, object], due_in_s: int
) -> None:
    run_at = options.get("run_at")
    moment = datetime.now(UTC) + run_at if isinstance(run_at, timedelta) else None
    order = Options(**(options | {"run_at": moment, "unique_key": key}))  # type: ignore[arg-type]
    async with db.transaction(role="engine") as tx:
        [done] = await insert(tx.conn, [job(1, options=order)])
        found = await tx.fetchval(
            "select extract(epoch from sort_at - now())::float8 from onceward.work where id = $1", done.id
        )
    assert found == pytest.approx(due_in_s, abs=5)
