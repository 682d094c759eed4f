"""Hooks at the end of a message: sent, given up, suppressed, cancelled; once, also if a report came first."""

from __future__ import annotations

from typing import Any

from onceward import DeliveryReport, MessageEnd, Tx
from onceward.testing import drain

PHONE = "+4915112345678"


async def hooked(office: Any, *channels: Any) -> tuple[Any, list[str]]:
    here = await office(*channels)
    seen: list[str] = []

    @here.app.on_message_end
    async def ended(tx: Tx, end: MessageEnd) -> None:
        seen.append(f"{end.key} ended {end.outcome} {end.reason}")

    @here.app.on_message("sent")
    async def sent(tx: Tx, report: DeliveryReport) -> None:
        seen.append(
            f"{report.key} sent {await tx.fetchval('select status from onceward.messages where id = $1', report.message)}"
        )

    @here.app.on_message("failed", template="hello")
    async def failed(tx: Tx, report: DeliveryReport) -> None:
        seen.append(f"{report.key} failed")

    here.install(list(channels))
    return here, seen


async def test_a_sent_a_refused_and_a_cancelled_message_run_their_hooks(office, wires) -> None:
    here, seen = await hooked(office, wires.sms)
    await here.send(to=PHONE, channel="sms", key="good")
    await here.send(to="+15005550001", channel="sms", key="refused")
    await drain(here.engine)
    await here.send(to=PHONE, channel="sms", key="late")
    async with here.engine.transaction() as tx:
        assert await tx.cancel_message("late")
    await drain(here.engine)
    assert seen == [
        "good ended success None",
        "good sent success",
        "refused ended dead_letter permanent",
        "refused failed",
        "late ended cancelled None",
    ]


async def test_a_message_that_a_report_has_settled_is_sent_once(office, wires) -> None:
    here, seen = await hooked(office, wires.whatsapp)
    here.sims.whatsapp.drop_after_send()
    id = await here.send("news", to=PHONE, channel="whatsapp")
    await drain(here.engine)
    async with here.engine.transaction() as tx:
        await tx.report_delivery(key=f"message:{id}:send", status="delivered")
    assert seen == ["k1 ended unknown None", "k1 sent success"]
