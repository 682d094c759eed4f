"""Erasing a person from messages: what waits for them is not sent, and what they opted out of stays opted out."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Any

import pytest

from onceward.messages import Recipient
from onceward.messages.erasers import ERASERS
from onceward.messages.preferences import opt_in, opt_out, save_recipient
from onceward.testing import FrozenClock
from onceward.trust import audit
from onceward.trust.erase import Eraser, ErasureReport, erase, finish_erasures

ADA = "ada@example.org"


async def erased(here, *refs: str) -> ErasureReport:
    return await erase(here.db, refs, ERASERS, organization=None, actor="t")


async def test_messages_to_the_person_are_blanked_and_what_waits_is_cancelled(office) -> None:
    here = await office()
    id = await here.send()
    async with here.engine.transaction() as tx:
        await save_recipient(tx, Recipient(ref="u1", email=ADA))
    report = await erased(here, ADA)
    assert (report.rows["messages"], report.rows["recipients"]) == (1, 1)
    row = await here.message(id)
    assert (row["status"], row["reason"], row["data"]) == ("cancelled", "erased", None)
    assert "ada" not in row["recipient"]
    assert await here.db.fetchval("select count(*) from onceward.work") == 0
    assert await here.db.fetchval("select outcome from onceward.attempts where work_id = $1", id) == "cancelled"


async def test_a_message_to_somebody_else_that_mentions_the_person_is_still_sent(office) -> None:
    here = await office()
    id = await here.send(to=Recipient(email="bob@example.org"), data={"name": f"a friend of {ADA}"})
    report = await erased(here, ADA)
    assert [each.waiting for each in report.found] == [1]
    row = await here.message(id)
    assert (row["status"], row["recipient"]) == ("pending", "bob@example.org")
    await here.start_worker()
    await here.until(id, "success")
    await erased(here, ADA)
    row = await here.message(id)
    assert (row["status"], row["recipient"], row["data"]) == ("success", "bob@example.org", None)


async def test_an_opt_out_survives_the_erasure(office) -> None:
    here = await office()
    async with here.engine.transaction() as tx:
        await opt_out(tx, ADA)
    await erased(here, ADA)
    assert await here.db.fetchval("select count(*) from onceward.opt_outs where recipient ilike '%ada%'") == 0
    id = await here.send("news", to=Recipient(email="Ada@example.org"))
    await here.start_worker()
    row = await here.until(id)
    assert (row["status"], row["reason"]) == ("cancelled", "opted_out")


async def test_an_opt_out_under_a_ref_survives_for_the_address(office) -> None:
    here = await office()
    async with here.engine.transaction() as tx:
        await save_recipient(tx, Recipient(ref="u1", email=ADA))
        await opt_out(tx, "u1")
    await erased(here, ADA, "u1")
    async with here.engine.transaction() as tx:
        await save_recipient(tx, Recipient(ref="u2", email=ADA))
    id = await here.send("news", to=Recipient(ref="u2"))
    await here.start_worker()
    assert (await here.until(id))["reason"] == "opted_out"


async def test_a_second_erasure_after_a_second_opt_out_works(office) -> None:
    here = await office()
    for _ in range(2):
        async with here.engine.transaction() as tx:
            await save_recipient(tx, Recipient(ref="u1", email=ADA))
            await opt_out(tx, ADA)
            await opt_out(tx, "u1")
        report = await erased(here, ADA, "u1")
        assert report.rows["opt-outs"] == 2
    assert await here.db.fetchval("select count(*) from onceward.opt_outs where recipient not like 'erased:%'") == 0


async def test_a_person_who_opts_in_again_after_an_erasure_gets_messages(office) -> None:
    here = await office()
    async with here.engine.transaction() as tx:
        await opt_out(tx, ADA)
    await erased(here, ADA)
    async with here.engine.transaction() as tx:
        await opt_in(tx, ADA)
    id = await here.send("news")
    await here.start_worker()
    assert (await here.until(id))["status"] == "success"


@pytest.mark.parametrize(
    ("erased_as", "to"),
    [
        ("Ada@Example.org", Recipient(ref="u1", email=ADA)),
        ("u1", Recipient(ref="u1", email=ADA)),
        (ADA, Recipient(ref="u1")),
    ],
)
async def test_a_message_of_a_transaction_that_began_before_the_erasure_is_not_sent(
    office, erased_as: str, to: Recipient
) -> None:
    """The transaction has a connection of its own, and commits after the erasure, which cannot see its message."""
    here = await office()
    async with here.engine.transaction() as tx:
        await tx.fetchval("select 1")  # the app has read the address by now
        report = await erased(here, erased_as)
        id = (await tx.send("hello", to=to, key="late", data={"name": "Ada"})).id
        if to.email is None:
            await save_recipient(tx, Recipient(ref="u1", email=ADA))
    assert report.rows["messages"] == 0
    assert (await here.message(id))["status"] == "pending"
    await here.start_worker()
    row = await here.until(id)
    assert (row["status"], row["reason"]) == ("cancelled", "erased")
    assert (row["address"], row["data"]) == (None, None)
    assert row["recipient"] == "erased:" + sha256(erased_as.lower().encode()).hexdigest()
    assert here.sims.smtp.mails == []


async def test_a_message_that_was_queued_while_the_erasure_ran_is_not_sent(office) -> None:
    here = await office()
    queued: list[int] = []

    async def queue_one(*_: object) -> None:
        queued.append(await here.send(key="meanwhile"))

    last = Eraser(name="last", table="onceward.recipients", columns={"email": "whole"}, erase=queue_one)
    async with here.engine.transaction() as tx:
        await save_recipient(tx, Recipient(ref="u1", email=ADA))
    # The eraser of the messages has run already when the other transaction queues the message and commits.
    messages, *_ = ERASERS
    await erase(here.db, ADA, [messages, last], organization=None, actor="t")
    await here.start_worker()
    [id] = queued
    assert (await here.until(id))["reason"] == "erased"
    assert here.sims.smtp.mails == []


async def test_a_message_queued_before_the_commit_of_a_killed_erasure_is_not_sent(
    office, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = await office()
    queued: list[int] = []
    record = audit.record

    async def record_and_queue(*given: Any, **more: Any) -> Any:
        done = await record(*given, **more)
        queued.append(await here.send(key="meanwhile"))
        return done

    async def be_killed(_db: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(audit, "record", record_and_queue)
    monkeypatch.setattr("onceward.trust.erase.finish_erasures", be_killed)
    with pytest.raises(KeyboardInterrupt):
        await erased(here, ADA)
    await here.start_worker()
    [id] = queued
    assert (await here.until(id))["reason"] == "erased"
    await finish_erasures(here.db)
    again = await here.send(key="again")
    assert (await here.until(again))["status"] == "success", "a person who returns gets messages"
    assert len(here.sims.smtp.mails) == 1


async def test_a_person_who_returns_after_an_erasure_gets_messages(office) -> None:
    here = await office()
    for _ in range(2):
        await erased(here, ADA)
    id = await here.send(key="again")
    await here.start_worker()
    assert (await here.until(id))["status"] == "success"


async def test_a_person_who_returns_gets_messages_while_a_test_has_stopped_the_clock(office) -> None:
    here = await office()
    async with FrozenClock(here.db, datetime.fromisoformat("2020-02-02T12:00:00+00:00")):
        await erased(here, ADA)
        id = await here.send(key="again")
        await here.start_worker()
        assert (await here.until(id))["status"] == "success"


async def test_a_dry_run_and_an_erasure_in_another_organization_stop_no_message(office) -> None:
    here = await office()
    id = await here.send()
    await erase(here.db, ADA, ERASERS, organization=None, actor="t", dry_run=True)
    organization = await here.db.fetchval(
        "insert into onceward.organizations (slug, name) values ('acme', 'Acme') returning organization_id"
    )
    await erase(here.db, ADA, ERASERS, organization=organization, actor="t")
    await here.start_worker()
    assert (await here.until(id))["status"] == "success"
