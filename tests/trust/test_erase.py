"""A person's data go; the proof that nothing else was touched stays."""

from __future__ import annotations

from uuid import UUID

import pytest

from onceward.db import Database
from onceward.messages.erasers import ERASERS as MESSAGES
from onceward.outbox.erasers import ERASERS as OUTBOX
from onceward.trust import COMMAND_LINE, Sealer, list_entries, record
from onceward.trust.chain import prove
from onceward.trust.erase import BadReference, erase
from onceward.trust.erasers import ERASERS
from onceward.trust.export import export
from onceward.trust.organizations import add_user, set_member
from onceward.work.erasers import ERASERS as WORK
from tests.trust.conftest import BOX, Two

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
    await Sealer(db, BOX).step()


async def whole(db: Database) -> bool:
    while await Sealer(db, BOX).step():
        pass
    async with db.acquire() as conn:
        report = await prove(conn, BOX)
    assert report.problems == ()
    return report.ok


async def test_every_mention_goes_and_the_chain_stays_whole(db: Database, two: Two) -> None:
    await fill(db, two)
    report = await erase(db, ANN, ERASERS, organization=None, actor=COMMAND_LINE, reason="asked by letter")
    assert report.rows["accounts"] == 1
    assert report.rows["audit entries"] == 2
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
    await erase(db, ANN, ERASERS, organization=None, actor="test")
    assert await whole(db)


async def test_erasing_again_finds_nothing(db: Database, two: Two) -> None:
    await fill(db, two)
    await erase(db, ANN, ERASERS, organization=None, actor="test")
    assert set((await erase(db, ANN, ERASERS, organization=None, actor="test")).rows.values()) == {0}
    assert await whole(db)


async def test_a_dry_run_counts_and_changes_nothing(db: Database, two: Two) -> None:
    await fill(db, two)
    report = await erase(db, ANN, ERASERS, organization=None, actor="test", dry_run=True)
    assert report.rows["audit entries"] == 2
    [found] = [each for each in report.found if each.name == "audit entries"]
    assert (found.table, found.columns) == ("onceward.audit_log", {"actor": 1, "entity_id": 1, "changes": 1})
    assert await db.fetchval("select count(*) from onceward.audit_log where erased_at is not null") == 0
    assert await db.fetchval("select count(*) from onceward.users where email = $1", ANN) == 1


async def test_an_account_that_was_erased_cannot_log_in(db: Database) -> None:
    async with db.transaction(role="engine") as tx:
        user_id = await add_user(tx, ANN, admin=True, actor="test")
    await erase(db, str(user_id), ERASERS, organization=None, actor="test")
    row = await db.fetchrow("select admin, disabled_at from onceward.users where user_id = $1", user_id)
    assert row is not None
    assert not row["admin"]
    assert row["disabled_at"] is not None


@pytest.mark.parametrize("ref", ["", "   "])
async def test_a_reference_that_is_empty_is_refused(db: Database, ref: str) -> None:
    with pytest.raises(BadReference):
        await erase(db, ref, ERASERS, organization=None, actor="test")


async def test_wildcards_are_taken_as_they_are(db: Database, two: Two) -> None:
    await fill(db, two)
    for ref in ("%%%%%%", "ann_example_org", "ann@example.or_", "ann@"):
        report = await erase(db, ref, ERASERS, organization=None, actor="test")
        assert report.rows["audit entries"] == 0


async def test_finished_jobs_and_their_attempts_forget_the_person(db: Database) -> None:
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
    report = await erase(db, ANN, WORK, organization=None, actor="test")
    assert (report.rows["jobs"], report.rows["attempts"]) == (2, 1)
    assert [each.waiting for each in report.found if each.name == "jobs"] == [1]
    assert await db.fetchval("select count(*) from onceward.jobs where args::text ilike '%ann%'") == 1
    assert await db.fetchval("select outcome from onceward.attempts where error is null") == "success"


async def test_somebody_with_a_similar_address_keeps_everything(db: Database) -> None:
    await db.execute(
        "insert into onceward.jobs (id, task, args) values"
        " (1, 't', '{\"to\": \"joann@example.org\"}'), (2, 't', '{\"to\": \"ann@example.org.uk\"}'),"
        " (3, 't', '{\"to\": \"ann@example.org\"}')"
    )
    await erase(db, ANN, WORK, organization=None, actor="test")
    rows = await db.fetch("select id from onceward.jobs where args <> '{\"erased\": true}' order by id")
    assert [row["id"] for row in rows] == [1, 2]


async def test_amounts_are_not_the_user_with_the_same_number(db: Database) -> None:
    await db.execute(
        "insert into onceward.jobs (id, task, args) values"
        " (1, 't', '{\"amount\": 10001}'), (2, 't', '{\"note\": \"10001 cents\"}'), (3, 't', '{\"user_id\": 10001}')"
    )
    await erase(db, "10001", WORK, organization=None, actor="test")
    rows = await db.fetch("select id from onceward.jobs where args <> '{\"erased\": true}' order by id")
    assert [row["id"] for row in rows] == [1, 2]


async def test_another_organization_keeps_what_it_knows(db: Database, two: Two) -> None:
    await db.execute(
        "insert into onceward.jobs (id, organization_id, task, args)"
        " select row_number() over (), o, 't', jsonb_build_object('to', $3::text) from unnest(array[$1, $2, null]::uuid[]) o",
        two.a,
        two.b,
        ANN,
    )
    report = await erase(db, ANN, WORK, organization=two.a, actor="test")
    assert report.rows["jobs"] == 1
    kept = await db.fetch("select organization_id from onceward.jobs where args ? 'to' order by 1")
    assert [row["organization_id"] for row in kept] == [two.b, None]


async def test_an_account_stays_while_another_organization_uses_it(db: Database, two: Two) -> None:
    async with db.transaction(role="engine") as tx:
        for organization in (two.a, two.b):
            await set_member(tx, organization, ANN, "viewer", actor="test")
    await erase(db, ANN, ERASERS, organization=two.a, actor="test")
    assert await _member_of(db) == {two.b}
    assert await db.fetchval("select disabled_at is null from onceward.users where email = $1", ANN)
    await erase(db, ANN, ERASERS, organization=two.b, actor="test")
    assert await db.fetchval("select count(*) from onceward.users where email = $1", ANN) == 0


async def _member_of(db: Database) -> set[UUID]:
    return {row["organization_id"] for row in await db.fetch("select organization_id from onceward.memberships")}


async def test_the_report_names_what_else_the_person_is_called(db: Database, two: Two) -> None:
    await db.execute(
        "insert into onceward.recipients (organization_id, ref, email, phone) values ($1, 'u-17', $2, '+15551234567')",
        two.a,
        ANN,
    )
    report = await erase(db, ANN, MESSAGES, organization=two.a, actor="test", dry_run=True)
    assert report.also_known_as == ("+15551234567", "u-17")


async def test_an_export_has_whole_rows_and_is_audited(db: Database, two: Two) -> None:
    await db.execute(
        "insert into onceward.recipients (organization_id, ref, email) values ($1, 'u-17', $3), ($2, 'u-18', $3)",
        two.a,
        two.b,
        ANN,
    )
    await db.execute(
        "insert into onceward.published (id, organization_id, message_id, type, fingerprint, body)"
        " values (1, $1, 'msg_1', 'order.paid', 'x', convert_to('{\"email\": \"ann@example.org\"}', 'UTF8'))",
        two.a,
    )
    found = await export(db, ANN, [*MESSAGES, *OUTBOX], organization=two.a, actor=COMMAND_LINE)
    [recipient] = found["data"]["recipients"]
    assert (recipient["row"]["ref"], recipient["found_in"]) == ("u-17", ["email"])
    [published] = found["data"]["published events"]
    assert published["row"]["body"] == '{"email": "ann@example.org"}'
    assert "fingerprint" not in published["row"], "bytes that are not text are left out"
    async with db.acquire() as conn:
        [entry] = await list_entries(conn, action="person.exported")
    assert (entry.organization_id, entry.actor) == (two.a, "operator:cli")
    assert ANN not in str(entry)
