"""A phone number belongs to the organization that proved it, or to which an administrator assigned it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from onceward.db import Database
from onceward.integrations.twilio import TwilioSimulator
from onceward.integrations.whatsapp import WhatsAppSimulator
from onceward.messages import organization_of_sender
from tests.web.operating import Client, client_for, started

NUMBER = "+6580000000"


@pytest.fixture
async def services() -> AsyncIterator[tuple[WhatsAppSimulator, TwilioSimulator]]:
    whatsapp, twilio = WhatsAppSimulator(), TwilioSimulator()
    await whatsapp.start()
    await twilio.start()
    yield whatsapp, twilio
    await whatsapp.stop()
    await twilio.stop()


async def test_nobody_gets_a_number_by_naming_it(
    db: Database, database_url: str, services: tuple[WhatsAppSimulator, TwilioSimulator]
) -> None:
    whatsapp, twilio = services
    whatsapp.number_tokens, twilio.numbers = {"token-of-a"}, {NUMBER}
    simulators = {"whatsapp": whatsapp.url, "twilio": twilio.url}
    process = await started(database_url, roles={"web"}, simulators=simulators)
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session:
        a, b = await client_for(db, session, "a", "owner"), await client_for(db, session, "b", "owner")
        admin = await client_for(db, session, None, "admin")
        chat = {"kind": "whatsapp", "identifier": whatsapp.phone_number_id}
        text = {"kind": "twilio", "identifier": NUMBER}

        async def put(client: Client, sender: dict[str, str]) -> tuple[int, str | None]:
            status, problem = await client("PUT", "/senders", sender)
            return status, problem and problem["type"]

        async def secrets(client: Client, **values: str) -> None:
            for name, value in values.items():
                assert (await client("PUT", f"/secrets/{name.replace('__', '.')}", {"value": value}))[0] == 204

        async def owner(sender: dict[str, str]) -> Any:
            return await organization_of_sender(db, **sender)  # type: ignore[arg-type]

        # Without an account, with an account that does not have the number, with a token that may not see it.
        for sender in (chat, text):
            assert await put(b, sender) == (403, "sender-not-proven")
        await secrets(b, whatsapp__access_token="token-of-b", whatsapp__phone_number_id=whatsapp.phone_number_id)
        await secrets(b, twilio__account_sid="AC" + "1" * 32, twilio__auth_token=twilio.auth_token)
        for sender in (chat, text):
            assert await put(b, sender) == (403, "sender-not-proven")
            assert await owner(sender) is None

        await secrets(a, whatsapp__access_token="token-of-a", whatsapp__phone_number_id=whatsapp.phone_number_id)
        await secrets(a, twilio__account_sid=twilio.account_sid, twilio__auth_token=twilio.auth_token)
        assert await put(a, {**text, "identifier": "+658000000"}) == (403, "sender-not-proven"), "a part of a number"
        for sender in (chat, text):
            assert await put(a, sender) == (204, None)
            assert await put(a, sender) == (204, None)
            assert await owner(sender) == a.organization
        shown = (await a("GET", "/senders"))[1]
        assert [(each["kind"], each["proof"]) for each in shown] == [("twilio", "account"), ("whatsapp", "account")]
        assert (await b("GET", "/senders"))[1] == []
        assert (await b("DELETE", f"/senders/twilio/{NUMBER}"))[0] == 404

        # Two organizations that both have access: the first keeps it, and an administrator moves it.
        await secrets(b, twilio__account_sid=twilio.account_sid)
        assert await put(b, text) == (409, "sender-taken")
        headers = {"Authorization": f"Bearer {admin.key}", "X-Organization": "b"}
        async with session.put("/api/v1/senders", json=text, headers=headers) as response:
            assert response.status == 204
        assert await owner(text) == b.organization
        assert (await b("DELETE", f"/senders/twilio/{NUMBER}"))[0] == 204
        assert await owner(text) is None
        actions = await db.fetch("select action from onceward.audit_log where action like 'sender.%' order by id")
        names = ["sender.proven", "sender.proven", "sender.lost", "sender.assigned", "sender.removed"]
        assert [row["action"] for row in actions] == names
    await process.stop()
