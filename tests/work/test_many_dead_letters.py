"""Dead letters in large numbers: read in pages, changed in batches, and interrupted without doing anything twice."""

from __future__ import annotations

import json
import signal

import pytest

from onceward.cli.progress import interruptible
from onceward.cli.rendering import StreamedListing
from onceward.db import Database
from onceward.testing import until
from onceward.windows import LAST
from onceward.work import dead_letters
from onceward.work.dead_letters import Acted, DeadLetterFilter
from tests.work.test_plans import explain, pages, scans_of

JOBS = DeadLetterFilter(kind="job")


async def bury(db: Database, count: int) -> None:
    await db.execute(
        f"""
        insert into onceward.jobs (id, task, args) select n, 'dead', '{{}}' from generate_series(1, {count}) n;
        insert into onceward.work (id, kind, task, queue, sort_at, dead_reason, dead_at)
        select n, 'job', 'dead', 'default', now(), 'permanent', now() from generate_series(1, {count}) n;
        """
    )


async def audited(db: Database) -> int:
    return await db.fetchval("select count(*) from onceward.audit_log where action = 'dead_letter.replay'")


async def test_pages_contain_every_dead_letter_once(db: Database) -> None:
    await bury(db, 250)
    sizes = [[each.id for each in page] async for page in dead_letters.pages(db, JOBS, limit=240, at_once=100)]
    assert [len(page) for page in sizes] == [100, 100, 40]
    assert [id for page in sizes for id in page] == list(range(250, 10, -1))


async def test_a_page_of_dead_letters_does_not_read_the_work_that_waits(db: Database) -> None:
    await bury(db, 100)
    await db.execute(
        "insert into onceward.work (id, kind, task, queue, sort_at)"
        " select n, 'job', 'due', 'default', now() from generate_series(1001, 21000) n"
    )
    await db.execute("analyze onceward.work")
    async with db.acquire() as conn:
        given = dict.fromkeys(dead_letters.FIND.names) | {"kind": "job", "upper": LAST, "lower": 0, "limit": 50}
        plan = await explain(conn, dead_letters.LIST.all, *dead_letters.FIND.values(**given))
    assert "Seq Scan" not in scans_of(plan, "work")
    assert pages(plan) < 200


async def test_a_replay_that_is_stopped_keeps_whole_batches_and_a_second_one_does_the_rest(db: Database) -> None:
    await bury(db, 250)
    seen: list[int] = []

    def stop_after_two(acted: Acted) -> bool:
        seen.append(len(acted.done))
        return len(seen) < 2

    first = await dead_letters.replay(db, JOBS, actor="me", reason="fixed", limit=1000, after_batch=stop_after_two)
    assert (seen, len(first.done), await audited(db)) == ([100, 200], 200, 200)
    second = await dead_letters.replay(db, JOBS, actor="me", reason="fixed", limit=1000)
    assert (len(second.done), await audited(db)) == (50, 250)
    assert set(first.done).isdisjoint(second.done)


async def test_a_batch_that_fails_is_not_counted(db: Database) -> None:
    await bury(db, 150)
    await db.execute("create function fail() returns trigger language plpgsql as $$ begin raise 'no'; end $$")
    await db.execute(
        "create trigger fail before update on onceward.work for each row when (new.id = 10) execute function fail()"
    )
    counted: list[int] = []

    def note(acted: Acted) -> bool:
        counted.append(len(acted.done))
        return True

    with pytest.raises(Exception, match="no"):
        await dead_letters.replay(db, JOBS, actor="me", reason="fixed", limit=1000, after_batch=note)
    assert (counted, await audited(db)) == ([100], 100)


async def test_the_first_ctrl_c_is_noted_and_the_second_interrupts() -> None:
    with interruptible() as asked_to_stop:
        assert not asked_to_stop()
        signal.raise_signal(signal.SIGINT)
        await until(asked_to_stop)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("as_json", [False, True])
def test_rows_are_printed_as_they_arrive(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    rows = StreamedListing(columns=("id", "name"), as_json=as_json)
    rows.add([{"id": 1, "name": "a"}])
    rows.add([{"id": 2, "name": None}, {"id": 3, "name": "[red]c"}])
    assert "[red]c" in capsys.readouterr().out
    rows.add([{"id": 4, "name": "d"}])
    assert "4" in capsys.readouterr().out
    rows.end()


def test_streamed_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    rows = StreamedListing(columns=("id",), as_json=True)
    for n in (0, 2, 4):
        rows.add([{"id": n}, {"id": n + 1}])
    rows.end()
    assert json.loads(capsys.readouterr().out) == [{"id": n} for n in range(6)]
