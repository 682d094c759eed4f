"""A message is sent through the account of its organization, if the organization has one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from onceward.db import Database
from onceward.http import GuardedClient, ServiceClient
from onceward.integrations.twilio import TwilioSimulator
from onceward.messages.accounts import OrganizationChannels
from onceward.messages.channel import ChannelSetup
from onceward.services import Services
from onceward.settings import Settings
from onceward.trust import create_organization
from onceward.trust.secrets import OrganizationSecrets, SecretBox, put_secret

BOX = SecretBox(["k" * 32])


@pytest.fixture
async def own_twilio() -> AsyncIterator[TwilioSimulator]:
    """The account of one organization, on the same server as the installation's would be."""
    async with TwilioSimulator(account_sid="AC" + "1" * 32, auth_token="own-token") as own:
        yield own


@pytest.fixture
async def services(db: Database, own_twilio: TwilioSimulator) -> AsyncIterator[Services]:
    made = Services()
    made.configure(Settings(simulators={"twilio": own_twilio.url}))
    made.use_secrets(OrganizationSecrets(db, BOX))
    yield made
    await made.aclose()


async def organization(db: Database, slug: str, **secrets: str) -> UUID:
    async with db.transaction(role="engine") as tx:
        made = (await create_organization(tx, slug, actor="test")).organization_id
    async with db.transaction(organization=made) as tx:
        for name, value in secrets.items():
            await put_secret(tx, BOX, name.replace("__", "."), value)
    return made


async def test_each_organization_sends_through_its_own_account(office, wires, services, own_twilio, db) -> None:
    account = {
        "twilio__account_sid": own_twilio.account_sid,
        "twilio__auth_token": "own-token",
        "twilio__from": "+15550999",
    }
    clinic, other = await organization(db, "clinic", **account), await organization(db, "other")
    half = await organization(db, "half", twilio__account_sid="AC2")
    setup = ChannelSetup(settings=services.settings, client=ServiceClient(), guarded=GuardedClient())
    place = await office(wires.sms, own_channels=OrganizationChannels(services, setup))
    ids = []
    for each in (clinic, other, half):
        async with place.engine.transaction(organization=each) as tx:
            sent = await tx.send("hello", to="+15550001111", channel="sms", key="k1", data={"name": "Ada"})
            ids.append(sent.id)
    own_twilio.rate_limit(retry_after_s=0)
    await place.start_worker()
    await place.until(ids[0], "success")
    await place.until(ids[1], "success")
    async with asyncio.timeout(10):
        while not (waiting := await db.fetchrow("select * from onceward.account_troubles")):
            await asyncio.sleep(0.02)
    assert [message["from"] for message in own_twilio.messages] == ["+15550999"]
    assert [message["from"] for message in wires.sims.twilio.messages] == ["+15005550006"]
    assert waiting["organization_id"] == half
    assert f"onceward secrets set {half} twilio.auth_token" in waiting["advice"]
    assert (await place.message(ids[2]))["status"] == "pending"
