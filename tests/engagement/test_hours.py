"""A goodbye is sent in the daytime of the recipient."""

from __future__ import annotations

from datetime import timedelta

from tests.engagement.house import House


async def test_a_goodbye_waits_for_the_morning_of_the_recipient(house: House) -> None:
    """The run at 06:00 UTC is at 03:00 in Brazil and at 11:30 in India."""
    await house.clock.advance(hours=18)
    await house.user(inactive=timedelta(days=15), number="+5511955556666")
    india = await house.user(inactive=timedelta(days=15))
    await house.daily()
    await house.drain()
    assert [message["to"] for message in house.whatsapp.messages] == [await house.number_of(india)]
    await house.clock.advance(hours=6)
    await house.drain()
    assert [message["to"] for message in house.whatsapp.messages][1:] == ["+5511955556666"]
