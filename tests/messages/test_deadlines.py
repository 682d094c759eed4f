"""A message that is late is not sent: it ends as expired, visibly, and its hook runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onceward.messages.endings import MessageEnd
from onceward.messages.expiry import release_expired
from onceward.messages.operations import list_messages

PHONE = "+4915112345678"


async def test_a_message_that_is_late_ends_as_expired_and_its_hook_runs(office, wires) -> None:
    """Its account is parked, its time passes, and nothing is sent when the account works again."""
    here = await office(wires.smtp)
    ends: list[MessageEnd] = []

    @here.app.on_message_end
    async def ended(tx, end: MessageEnd) -> None:
        ends.append(end)

    here.install([wires.smtp])
    await here.db.execute(
        "insert into onceward.queues (name, parked_until, failures) values ('message.email', now() + interval '1 day', 1)"
    )
    late = await here.send(key="late", expires_at=datetime.now(UTC) + timedelta(hours=1))
    soon = await here.send(key="soon", within=timedelta(hours=3))
    never = await here.send(key="never")
    await here.db.execute("update onceward.messages set expires_at = now() - interval '1 s' where id = $1", late)
    await here.start_worker()
    assert await release_expired(here.db, here.engine.waker) == 1
    row = await here.until(late)
    assert (row["status"], row["sent_at"], here.sims.smtp.mails) == ("expired", None, [])
    assert [(each.key, each.outcome) for each in ends] == [("late", "expired")]
    assert [each["key"] for each in (await list_messages(here.db, status="expired")).rows] == ["late"]
    await here.db.execute("update onceward.queues set parked_until = null, failures = 0")
    assert {(await here.until(id))["status"] for id in (soon, never)} == {"success"}
    assert len(here.sims.smtp.mails) == 2


async def test_a_message_whose_time_passes_while_it_waits_for_a_slot_is_not_sent(office, wires) -> None:
    here = await office(wires.smtp)
    id = await here.send(within=timedelta(hours=1))
    sender = here.install([wires.smtp])
    begin = sender._beginnings.begin

    async def late(send):
        await here.db.execute("update onceward.messages set expires_at = now() - interval '1 s' where id = $1", id)
        return await begin(send)

    sender._beginnings.begin = late
    await here.start_worker()
    assert (await here.until(id))["status"] == "expired"
    assert here.sims.smtp.mails == []


async def test_a_deadline_must_be_possible(office, wires) -> None:
    here = await office(wires.smtp)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    for wrong in (
        {"expires_at": tomorrow, "within": timedelta(1)},
        {"within": timedelta(0)},
        {"not_before": tomorrow, "expires_at": tomorrow},
        {"expires_at": datetime(2026, 1, 1)},
    ):
        with pytest.raises(ValueError, match=r"expires|within|time zone"):
            await here.send(**wrong)


async def test_outside_of_the_window_the_template_is_used_by_itself(office, wires) -> None:
    """Meta's clock decides: the text is refused, nothing was sent, and the approved template follows at once."""
    from onceward.messages import Recipient, heard_from, save_recipient

    here = await office(wires.whatsapp)
    here.sims.whatsapp.enforce_window = True
    async with here.engine.transaction() as tx:
        await save_recipient(tx, Recipient(ref="ada", whatsapp=PHONE))
        await heard_from(tx, "ada")
    id = await here.send("news", to="ada", channel="whatsapp")
    await here.start_worker()
    assert (await here.until(id))["status"] == "success"
    assert [each["type"] for each in here.sims.whatsapp.messages] == ["template"]


async def test_the_window_counts_from_the_time_of_the_message(office, wires) -> None:
    from onceward.messages import Recipient, heard_from, save_recipient

    here = await office(wires.whatsapp)
    now = datetime.now(UTC)
    async with here.engine.transaction() as tx:
        await save_recipient(tx, Recipient(ref="ada", whatsapp=PHONE))
        for at in (now - timedelta(hours=23), now - timedelta(hours=25), now + timedelta(days=1)):
            await heard_from(tx, "ada", at=at)
        heard_at = await tx.fetchval("select heard_at from onceward.recipients where ref = 'ada'")
        assert now - timedelta(minutes=1) < heard_at <= await tx.fetchval("select onceward.now()"), (
            "never in the future"
        )
        await tx.execute("delete from onceward.recipients")
        await save_recipient(tx, Recipient(ref="ada", whatsapp=PHONE))
        await heard_from(tx, "ada", at=now - timedelta(hours=25))
    id = await here.send("news", to="ada", channel="whatsapp")
    await here.start_worker()
    await here.until(id)
    assert [each["type"] for each in here.sims.whatsapp.messages] == ["template"], "a retried webhook opens no window"
