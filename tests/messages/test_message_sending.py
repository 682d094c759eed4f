"""Sending: once, judged by the service's answer, and never blindly twice."""

from __future__ import annotations

import asyncio

import pytest

from onceward.background import end
from onceward.messages import Recipient, UnknownTemplate, opt_out, save_recipient
from onceward.work import gate


async def test_a_message_queued_in_a_transaction_is_sent_after_its_commit(office) -> None:
    here = await office()
    await here.start_worker()
    with pytest.raises(KeyError):
        async with here.engine.transaction() as tx:
            await tx.send("hello", to="ada@example.org", key="lost", data={"name": "Ada"})
            raise KeyError
    id = await here.send()
    row = await here.until(id)
    assert (row["status"], row["attempts"]) == ("success", 1)
    assert row["sent_at"] is not None
    [mail] = here.sims.smtp.mails
    assert mail.recipients == ("ada@example.org",)
    assert mail.message["Subject"] == "Hello Ada"
    assert "Dear Ada" in mail.message.get_body(("plain",)).get_content()
    assert 'href="https://example.org/a?b=1"' in mail.message.get_body(("html",)).get_content()
    assert await here.db.fetchval("select count(*) from onceward.work") == 0


async def test_the_same_key_twice_is_one_message_for_ever(office) -> None:
    here = await office()
    await here.start_worker()
    async with here.engine.transaction() as tx:
        first = await tx.send("hello", to="ada@example.org", key="k", data={"name": "Ada"})
        second = await tx.send("hello", to="ada@example.org", key="k", data={"name": "Ada"})
    assert (first.duplicate, second.duplicate, first.id == second.id) == (False, True, True)
    await here.until(first.id)
    done = await asyncio.gather(*(here.send(key="k") for _ in range(10)))
    assert set(done) == {first.id}
    assert len(here.sims.smtp.mails) == 1


async def test_two_organizations_may_use_the_same_key(office) -> None:
    import uuid

    here = await office()
    ids = []
    for organization in (uuid.uuid4(), uuid.uuid4()):
        async with here.engine.transaction(organization=organization) as tx:
            ids.append((await tx.send("hello", to="ada@example.org", key="k", data={"name": "Ada"})).id)
    assert len(set(ids)) == 2


async def test_an_answer_of_the_service_is_tried_three_times_and_then_a_dead_letter(office) -> None:
    here = await office()
    here.sims.smtp.fail_next(3)
    await here.start_worker()
    row = await here.until(await here.send())
    assert (row["status"], row["attempts"]) == ("dead_letter", 3)
    assert "451" in row["reason"]
    waits = await here.db.fetch("select outcome from onceward.attempts order by number")
    assert [each["outcome"] for each in waits] == ["retry", "retry", "dead_letter"]
    assert await here.db.fetchval("select count(*) from onceward.notices where type = 'DEAD_LETTER'") == 1


async def test_a_refusal_for_good_is_not_tried_again(office) -> None:
    here = await office()
    here.sims.smtp.refuse("ada@example.org")
    await here.start_worker()
    row = await here.until(await here.send())
    assert (row["status"], row["attempts"], row["sending"]) == ("dead_letter", 1, None)


async def test_an_unreachable_channel_is_parked_and_uses_up_no_attempts(office) -> None:
    here = await office()
    port = here.sims.smtp.port
    await here.sims.smtp.stop()
    worker = await here.start_worker()
    ids = [await here.send(key=f"k{n}") for n in range(20)]
    async with asyncio.timeout(10):
        while not await here.db.fetchval("select failures from onceward.queues where name = 'message.email'"):
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    # However many were being sent at once, it is one outage.
    assert await here.db.fetchval("select failures from onceward.queues where name = 'message.email'") == 1
    rows = await here.db.fetch("select status, attempts from onceward.messages")
    assert {tuple(row) for row in rows} <= {("pending", 0), ("processing", 0)}
    await here.sims.smtp.start(port=port)
    for id in ids:
        assert (await here.until(id, timeout_s=20))["status"] == "success"
    assert len(here.sims.smtp.mails) == 20
    assert await here.db.fetchval("select max(attempts) from onceward.messages") == 1
    assert await here.db.fetchval("select failures from onceward.queues where name = 'message.email'") == 0
    assert worker is not None


async def test_a_throttled_service_is_given_the_pause_it_asks_for(office, wires) -> None:
    here = await office(wires.slack)
    here.sims.slack.rate_limit(retry_after_s=1)
    await here.start_worker()
    row = await here.until(await here.send(to="#ops", channel="slack"))
    assert (row["status"], row["attempts"]) == ("success", 1)
    assert len(here.sims.slack.messages) == 1


async def test_silence_after_sending_is_unknown_where_the_service_has_no_keys(office) -> None:
    here = await office()
    here.sims.smtp.drop_after_send()
    await here.start_worker()
    row = await here.until(await here.send())
    assert row["status"] == "unknown"
    assert len(here.sims.smtp.mails) == 1
    assert await here.db.fetchval("select count(*) from onceward.work") == 0


async def test_silence_is_repeated_under_the_same_key_where_there_are_keys(office, wires) -> None:
    here = await office(wires.brevo)
    here.sims.brevo.drop_after_send()
    await here.start_worker()
    row = await here.until(await here.send())
    assert (row["status"], row["attempts"]) == ("success", 2)
    assert len(here.sims.brevo.mails) == 1


@pytest.mark.parametrize("took_it", [True, False])
async def test_silence_is_looked_up_where_the_service_can_be_read(office, wires, took_it: bool) -> None:
    here = await office(wires.slack, wires.sms)
    for service in (here.sims.slack, here.sims.twilio):
        service.hang(act=took_it)
    await here.start_worker()
    posted = await here.send(key="a", to="#ops", channel="slack")
    texted = await here.send(key="b", to="+4915112345678", channel="sms")
    for id in (posted, texted):
        assert (await here.until(id))["status"] == "success"
    assert (len(here.sims.slack.messages), len(here.sims.twilio.messages)) == (1, 1)


async def test_a_worker_that_dies_while_sending_leaves_unknown_behind_and_not_a_second_mail(
    office, monkeypatch
) -> None:
    here = await office()
    held = asyncio.Event()

    async def stuck(*_: object, **__: object) -> None:
        held.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(here.wires.smtp._smtp, "send", stuck)
    first = await here.start_worker()
    id = await here.send()
    await asyncio.wait_for(held.wait(), 5)
    # It dies: heart, slots and loops stop, nothing is handed back.
    here.workers.remove(first)
    await asyncio.to_thread(first._heartbeat.stop)
    for loop in first._loops:
        await loop.stop()
    for runner in first._runners:
        await runner._feeder._loop.stop()
        for slot in runner.slots:
            slot.closing = True
        for loop in runner._slots._loops:
            loop.leave()
        await end(*(slot.task for slot in runner.slots))
    monkeypatch.undo()
    await here.start_worker(observe_s=0.05)
    row = await here.until(id, timeout_s=20)
    assert (row["status"], row["reason"]) == ("unknown", "the worker stopped while it was being sent")
    assert here.sims.smtp.mails == []
    assert await here.db.fetchval("select count(*) from onceward.work") == 0


async def test_a_send_handed_back_at_shutdown_is_not_repeated_blindly(office, monkeypatch) -> None:
    here = await office()
    held = asyncio.Event()
    original = here.wires.smtp._smtp.send

    async def slow(*args, **kwargs):
        held.set()
        await asyncio.sleep(30)
        return await original(*args, **kwargs)

    monkeypatch.setattr(here.wires.smtp._smtp, "send", slow)
    worker = await here.start_worker(grace_s=0.05)
    id = await here.send()
    await asyncio.wait_for(held.wait(), 5)
    await worker.stop()
    here.workers.remove(worker)
    monkeypatch.undo()
    await here.start_worker()
    assert (await here.until(id))["status"] == "unknown"
    assert here.sims.smtp.mails == []


async def test_a_fault_between_the_mark_and_the_send_is_left_to_the_operator(office, monkeypatch) -> None:
    here = await office()
    crashed = False

    def crash(name: str) -> None:
        nonlocal crashed
        if name == "before-send" and not crashed:
            crashed = True
            raise ConnectionError("cut")

    monkeypatch.setattr(gate, "hook", crash)
    await here.start_worker()
    row = await here.until(await here.send())
    # The mark was written, nobody can tell any more: it is left to the operator rather than sent twice.
    assert row["status"] == "unknown"


async def test_an_opt_out_is_checked_at_the_moment_of_sending(office) -> None:
    here = await office()
    id = await here.send("news", key="n")
    other = await here.send("hello", key="h")
    async with here.engine.transaction() as tx:
        await opt_out(tx, "Ada@Example.org", category="newsletter")
    await here.start_worker()
    row = await here.until(id)
    assert (row["status"], row["reason"]) == ("cancelled", "opted_out")
    assert (await here.until(other))["status"] == "success"


async def test_a_recipient_is_looked_up_by_name_when_it_is_sent(office) -> None:
    here = await office()
    id = await here.send(to="user-7")
    nobody = await here.send(to="user-8", key="k2")
    async with here.engine.transaction() as tx:
        await save_recipient(tx, Recipient(ref="user-7", email="Seven@example.org", locale="pt-BR"))
    await here.start_worker()
    await here.until(id)
    assert here.sims.smtp.mails[0].recipients == ("seven@example.org",)
    assert here.sims.smtp.mails[0].message["Subject"] == "Olá Ada"
    row = await here.until(nobody)
    assert (row["status"], row["reason"]) == ("cancelled", "no_address")


async def test_a_message_can_be_cancelled_by_its_key_until_it_is_sent(office) -> None:
    here = await office()
    id = await here.send(key="later")
    async with here.engine.transaction() as tx:
        assert await tx.cancel_message("later", reason="came back")
        assert not await tx.cancel_message("never")
    row = await here.message(id)
    assert (row["status"], row["reason"]) == ("cancelled", "came back")
    assert await here.db.fetchval("select outcome from onceward.attempts where work_id = $1", id) == "cancelled"
    await here.start_worker()
    sent = await here.send(key="other")
    await here.until(sent)
    async with here.engine.transaction() as tx:
        assert not await tx.cancel_message("other")
    assert len(here.sims.smtp.mails) == 1


async def test_a_missing_variable_fails_before_anything_is_sent(office) -> None:
    here = await office()
    await here.start_worker()
    row = await here.until(await here.send(data={}))
    assert (row["status"], row["attempts"]) == ("dead_letter", 1)
    assert "'name' is undefined" in row["reason"]
    assert here.sims.smtp.connections == 0


async def test_an_unknown_template_is_refused_where_it_is_asked_for(office) -> None:
    here = await office()
    with pytest.raises(UnknownTemplate, match=r"helo.*hello"):
        await here.send("helo")


async def test_a_queued_message_keeps_the_words_it_was_queued_with(office) -> None:
    from onceward.messages import Template

    here = await office()
    id = await here.send()
    here.engine.templates.add(Template("hello", {"en": {"subject": "Changed", "text": "Changed"}}))
    changed = await here.send(key="k2")
    await here.start_worker()
    await here.until(id)
    await here.until(changed)
    assert {str(mail.message["Subject"]) for mail in here.sims.smtp.mails} == {"Hello Ada", "Changed"}


async def test_quiet_hours_hold_back_until_morning_in_the_recipients_zone(office) -> None:
    from onceward.messages import Quiet, SendingOptions

    here = await office(options=SendingOptions(quiet=Quiet.parse("21:00-08:00"), default_timezone="Europe/Berlin"))
    await here.set_clock("2026-05-01 20:30+00")
    berlin = await here.send("news", key="berlin")
    lima = await here.send("news", key="lima", to=Recipient(email="b@example.org", timezone="America/Lima"))
    await here.start_worker()
    assert (await here.until(lima))["status"] == "success"
    async with asyncio.timeout(5):
        while not await here.db.fetchval("select count(*) from onceward.attempts where outcome = 'snoozed'"):
            await asyncio.sleep(0.02)
    row = await here.db.fetchrow("select sort_at, attempts from onceward.work where id = $1", berlin)
    assert (f"{row['sort_at']:%d %H:%M}", row["attempts"]) == ("02 06:00", 0)
    await here.set_clock("2026-05-02 06:00+00")
    assert (await here.until(berlin))["status"] == "success"


async def test_a_campaign_mail_can_be_left_with_one_click(office) -> None:
    here = await office()
    await here.start_worker()
    row = await here.until(await here.send("news"))
    message = here.sims.smtp.mails[0].message
    assert message["List-Unsubscribe"].strip() == f"<https://shop.example.org/unsubscribe/{row['token']}>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    await here.until(await here.send("hello", key="k2"))
    assert here.sims.smtp.mails[1].message["List-Unsubscribe"] is None


async def test_whatsapp_outside_its_window_uses_the_approved_template(office, wires) -> None:
    from onceward.messages import heard_from

    here = await office(wires.whatsapp)
    await here.start_worker()
    number = Recipient(ref="u1", whatsapp="+5511999990000")
    outside = await here.send("news", key="a", to=number, channel="whatsapp", locale="pt-BR")
    assert (await here.until(outside))["status"] == "success"
    assert here.sims.whatsapp.messages[0]["template"]["language"] == {"code": "pt_BR"}
    unmapped = await here.until(await here.send("hello", key="b", to=number, channel="whatsapp"))
    assert unmapped["status"] == "dead_letter"
    assert "[whatsapp]" in unmapped["reason"]
    async with here.engine.transaction() as tx:
        await heard_from(tx, "u1")
    inside = await here.send("hello", key="c", to=number, channel="whatsapp")
    assert (await here.until(inside))["status"] == "success"
    assert here.sims.whatsapp.messages[1]["type"] == "text"


async def test_a_recipient_is_reached_on_the_channel_they_prefer(office, wires) -> None:
    here = await office(wires.smtp, wires.sms)
    async with here.engine.transaction() as tx:
        person = Recipient(ref="u1", email="u1@example.org", phone="+4915112345678")
        await save_recipient(tx, person, preferred_channel="sms")
    await here.start_worker()
    await here.until(await here.send(to="u1", channel="preferred"))
    assert (len(here.sims.twilio.messages), len(here.sims.smtp.mails)) == (1, 0)


async def test_a_report_of_the_service_settles_what_was_unknown(office, wires) -> None:
    here = await office(wires.whatsapp)
    here.sims.whatsapp.drop_after_send()
    await here.start_worker()
    id = await here.send("news", to="+4915112345678", channel="whatsapp")
    assert (await here.until(id))["status"] == "unknown"
    async with here.engine.transaction() as tx:
        key = here.sims.whatsapp.messages[0]["biz_opaque_callback_data"]
        report = await tx.report_delivery(key=key, status="delivered")
    assert report is not None
    assert (report.message, report.changed) == (id, True)
    row = await here.message(id)
    assert (row["status"], row["delivery"]) == ("success", "delivered")


async def test_pruning_takes_the_words_and_keeps_the_key(office) -> None:
    from datetime import timedelta

    from onceward.messages.retention import old_messages

    here = await office()
    await here.start_worker()
    id = await here.send()
    await here.until(id)
    waiting = await here.send(key="later", channel="sms", to="+4915112345678")
    assert await old_messages(here.db, keep=timedelta(days=1), pause_s=0.0).all() == 0
    await here.db.execute("update onceward.messages set created_at = created_at - interval '2 days'")
    assert await old_messages(here.db, keep=timedelta(days=1), pause_s=0.0).all() == 2
    row = await here.message(id)
    assert (row["data"], row["address"], row["key"]) == (None, None, "k1")
    assert await here.send() == id
    assert waiting != id
