"""A person's data go; the proof that nothing else was touched stays."""

from __future__ import annotations

import pytest

from onceward.db import Database
from onceward.trust import COMMAND_LINE, Sealer, list_entries, record
from onceward.trust.chain import prove
from onceward.trust.erase import BadReference, erase
from onceward.trust.erasers import ERASERS
from onceward.trust.organizations import add_user, set_member
from tests.trust.conftest import Two

ANN = "ann@example.org"


async def fill(db: Database, two: Two) -> None:
    async with db.transaction(role="engine") as tx:
        await set_member(tx, two.a, ANN, "viewer", actor="test")
        await record(
            tx, "mail.sent", entity_type="mail", entity_id=7, changes={"to": ["ANN@example.org"]}, actor="op:bob"
        )
        await record(
            tx, "mail.sent", entity_type="mail", entity_id=8, changes={"to": "bob@example.org"}, actor="op:bob"
        )
        await record(tx, "login", entity_type="person", entity_id=ANN, actor=f"user:{ANN}", changes={"ok": True})
    await Sealer(db).step()


async def whole(db: Database) -> bool:
    while await Sealer(db).step():
        pass
    async with db.acquire() as conn:
        report = await prove(conn)
    assert report.problems == ()
    return report.ok


async def test_every_mention_goes_and_the_chain_stays_whole(db: Database, two: Two) -> None:
    await fill(db, two)
    counts = await erase(db, ANN, ERASERS, actor=COMMAND_LINE, reason="asked by letter")
    assert counts["accounts"] == 1
    assert counts["audit entries"] == 2
    assert not await db.fetchval("select bool_or(a::text ilike '%ann@example%') from onceward.audit_log a")
    assert not await db.fetchval("select bool_or(u::text ilike '%ann@example%') from onceward.users u")
    async with db.acquire() as conn:
        mails = await list_entries(conn, action="mail.sent")
        [login] = await list_entries(conn, action="login")
        [erased] = await list_entries(conn, action="person.erased")
    assert [(one.actor, one.entity_id, one.changes) for one in mails] == [
        ("op:bob", "8", {"to": "bob@example.org"}),
        ("op:bob", "7", None),
    ]
    assert (login.actor, login.entity_id, login.changes) == ("erased", None, {"ok": True})
    assert (erased.actor, erased.reason) == ("operator:cli", "asked by letter")
    assert await whole(db)


async def test_erasing_before_sealing_is_fine_too(db: Database) -> None:
    async with db.transaction(role="engine") as tx:
        await record(tx, "x", entity_type="y", entity_id=ANN, metadata={"a": ANN})
    await erase(db, ANN, ERASERS, actor="test")
    assert await whole(db)


async def test_erasing_again_finds_nothing(db: Database, two: Two) -> None:
    await fill(db, two)
    await erase(db, ANN, ERASERS, actor="test")
    assert set((await erase(db, ANN, ERASERS, actor="test")).values()) == {0}
    assert await whole(db)


async def test_a_dry_run_counts_and_changes_nothing(db: Database, two: Two) -> None:
    await fill(db, two)
    assert (await erase(db, ANN, ERASERS, actor="test", dry_run=True))["audit entries"] == 2
    assert await db.fetchval("select count(*) from onceward.audit_log where erased_at is not null") == 0
    assert await db.fetchval("select count(*) from onceward.users where email = $1", ANN) == 1


async def test_an_account_that_was_erased_cannot_log_in(db: Database) -> None:
    async with db.transaction(role="engine") as tx:
        user_id = await add_user(tx, ANN, admin=True, actor="test")
    await erase(db, str(user_id), ERASERS, actor="test")
    row = await db.fetchrow("select admin, disabled_at from onceward.users where user_id = $1", user_id)
    assert row is not None
    assert not row["admin"]
    assert row["disabled_at"] is not None


@pytest.mark.parametrize("ref", ["", "a", "   ab   ", "%"])
async def test_a_reference_that_could_be_anybody_is_refused(db: Database, ref: str) -> None:
    with pytest.raises(BadReference):
        await erase(db, ref, ERASERS, actor="test")


async def test_signs_of_patterns_are_taken_as_they_are(db: Database, two: Two) -> None:
    await fill(db, two)
    assert (await erase(db, "%%%%%%", ERASERS, actor="test"))["audit entries"] == 0
    assert (await erase(db, "ann_example_org", ERASERS, actor="test"))["audit entries"] == 0


async def test_finished_jobs_and_their_attempts_forget_the_person(db: Database) -> None:
    from onceward.work.erasers import ERASERS as WORK

    await db.execute(
        "insert into onceward.jobs (id, task, args) select i, 't', jsonb_build_object('to', $1::text)"
        " from generate_series(1, 3) i",
        ANN,
    )
    await db.execute(
        "insert into onceward.work (id, kind, task, queue, sort_at) values (3, 'job', 't', 'q', now());"
        "insert into onceward.attempts (work_id, number, kind, task, outcome, error)"
        " values (1, 1, 'job', 't', 'success', '{\"message\": \"no mailbox Ann@Example.org\"}')"
    )
    assert await erase(db, ANN, WORK, actor="test") == {"jobs": 2, "attempts": 1}
    assert await db.fetchval("select count(*) from onceward.jobs where args::text ilike '%ann%'") == 1
    assert await db.fetchval("select outcome from onceward.attempts where error is null") == "success"
