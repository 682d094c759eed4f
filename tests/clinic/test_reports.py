"""Delivery reports move the state of a message forward only; reports about other messages cause nothing."""

from __future__ import annotations

from typing import Any

from tests.clinic.practice import PHONE, Practice


async def reminded(practice: Practice, **numbers: Any) -> Any:
    """Send a reminder and return what WhatsApp stored."""
    await practice.sources()
    await practice.appointment(await practice.patient(**numbers), hours=30)
    await practice.clock.advance(hours=7)
    await practice.run("clinic-reminders")
    await practice.drain()
    return practice.whatsapp.messages[0]


async def report(practice: Practice, wamid: str, status: str, stamp: int = 1) -> Any:
    await practice.deliver([], [{"id": wamid, "status": status, "timestamp": str(stamp), "recipient_id": PHONE[1:]}])
    await practice.drain()
    return [row["state"] for row in await practice.messages()]


async def test_reports_out_of_order_never_move_a_message_back(practice: Practice) -> None:
    sent = await reminded(practice, whatsapp=PHONE)
    assert await report(practice, sent["id"], "read") == ["read"]
    assert await report(practice, sent["id"], "delivered") == ["read"]
    assert await report(practice, sent["id"], "sent") == ["read"]
    assert await report(practice, sent["id"], "read", stamp=2) == ["read"]


async def test_a_status_for_a_message_we_never_sent_is_not_ours(practice: Practice) -> None:
    await reminded(practice, whatsapp=PHONE)
    assert await report(practice, "wamid.stranger", "read") == ["sent"]
    result = await practice.db.fetchval(
        "select a.result::text from onceward.webhook_events e join onceward.attempts a on a.work_id = e.seq"
        " where e.event_id like 'wamid.stranger%'"
    )
    assert "not_ours" in result


async def test_a_reminder_that_whatsapp_cannot_deliver_goes_out_as_a_text_once(practice: Practice) -> None:
    sent = await reminded(practice, whatsapp=PHONE, phone=PHONE)
    await report(practice, sent["id"], "failed")
    await report(practice, sent["id"], "failed", stamp=2)
    [text] = practice.twilio.messages
    assert text["to"] == PHONE
    assert [(row["channel"], row["state"]) for row in await practice.messages()] == [
        ("whatsapp", "failed"),
        ("sms", "sent"),
    ]
