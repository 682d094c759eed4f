"""A refused account, a paused template, and a flood concern their own line only, and nothing of them is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from onceward.db import Database
from onceward.http import GuardedClient, ServiceClient
from onceward.integrations.whatsapp import WhatsAppSimulator
from onceward.messages import Limit
from onceward.messages.accounts import OrganizationChannels
from onceward.messages.channel import ChannelSetup
from onceward.messages.errors import Resting
from onceward.messages.lines import own_secrets
from onceward.messages.notifications import SlackChannels
from onceward.messages.notifier import Audiences, Notifier
from onceward.messages.troubles import Troubles
from onceward.services import Services
from onceward.settings import Settings
from onceward.testing import until
from onceward.trust import create_organization
from onceward.trust.secrets import OrganizationSecrets, SecretBox, put_secret

BOX = SecretBox(["k" * 32])
PHONE = "+4915112345678"


@pytest.fixture
async def own_number() -> AsyncIterator[WhatsAppSimulator]:
    async with WhatsAppSimulator(phone_number_id="777") as own:
        yield own


@pytest.fixture
async def accounts(db: Database, own_number: WhatsAppSimulator) -> AsyncIterator[OrganizationChannels]:
    services = Services()
    services.configure(Settings(simulators={"whatsapp": own_number.url}))
    services.use_secrets(OrganizationSecrets(db, BOX))
    setup = ChannelSetup(settings=services.settings, client=ServiceClient(), guarded=GuardedClient())
    yield OrganizationChannels(services, setup)
    await services.aclose()


async def organization(db: Database, slug: str, *, own: bool) -> UUID:
    async with db.transaction(role="engine") as tx:
        made = (await create_organization(tx, slug, actor="test")).organization_id
    if own:
        await set_token(db, made, "expired")
    return made


async def set_token(db: Database, owner: UUID, token: str) -> None:
    async with db.transaction(organization=owner) as tx:
        await put_secret(tx, BOX, "whatsapp.access_token", token)
        await put_secret(tx, BOX, "whatsapp.phone_number_id", "777")


async def send(place, owner: UUID | None, template: str = "news", *, number: int = 20, **options) -> list[int]:
    async with place.engine.transaction(organization=owner) as tx:
        return [
            (
                await tx.send(
                    template, to=PHONE, channel="whatsapp", key=f"{template}{n}", data={"name": "A"}, **options
                )
            ).id
            for n in range(number)
        ]


async def statuses(db: Database, ids: list[int]) -> set[str]:
    rows = await db.fetch("select distinct status from onceward.messages where id = any($1)", ids)
    return {row["status"] for row in rows}


async def all_sent(db: Database, ids: list[int]) -> None:
    async def sent() -> bool:
        return await statuses(db, ids) == {"success"}

    await until(sent, timeout_s=60)


async def test_an_expired_token_stops_one_account_and_a_new_token_sends_everything(
    office, wires, accounts, own_number, db
) -> None:
    """Its queue is not burnt, another organization goes on, its owners get one notice, and a changed secret resumes it."""
    clinic, other = await organization(db, "clinic", own=True), await organization(db, "other", own=False)
    await db.execute("insert into onceward.users (email) values ('owner@clinic.example')")
    await db.execute("insert into onceward.memberships select $1, user_id, 'owner' from onceward.users", clinic)
    troubles = Troubles(db)
    place = await office(wires.whatsapp, own_channels=accounts, troubles=troubles)
    own_number.refuse_all(190)
    waiting, going = await send(place, clinic), await send(place, other)
    await place.start_worker()
    await all_sent(db, going)

    async def refused() -> bool:
        return await db.fetchval("select count(*) from onceward.account_troubles") == 1

    await until(refused, timeout_s=20)
    assert await statuses(db, waiting) <= {"pending", "processing"}
    assert await db.fetchval("select max(attempts) from onceward.messages where id = any($1)", waiting) == 0
    told = await db.fetch(
        "select audience, organization_id, details from onceward.notices where type = 'MESSAGE_ACCOUNT'"
    )
    assert [(row["audience"], row["organization_id"]) for row in told] == [("admin", clinic)]
    assert "access_token" in told[0]["details"]["what to do"]

    notifier = Notifier(db, place.engine.templates, audiences=Audiences(), slack=SlackChannels(), gather_s=0, quiet_s=0)
    assert await notifier.step() == 1
    messages = await db.fetch(
        "select channel, organization_id, recipient from onceward.messages where template = 'admin-notice'"
    )
    assert {tuple(row) for row in messages} == {
        ("email", clinic, "owner@clinic.example"),
        ("dashboard", clinic, "admins"),
    }

    own_number.refuse_all(None)
    await set_token(db, clinic, "valid")
    await db.execute("update onceward.account_troubles set probe_at = clock_timestamp() + interval '1 hour'")
    await troubles.step()
    await all_sent(db, waiting)
    assert not await db.fetchval("select count(*) from onceward.account_troubles")
    assert len(own_number.messages) == len(waiting)


async def test_a_paused_template_stops_its_own_messages_only(office, wires, db) -> None:
    place = await office(wires.whatsapp, troubles=Troubles(db, first_probe_s=0.3))
    paused = {"on": True}
    send_now = wires.whatsapp._whatsapp.__class__.send_template

    async def template(self, *, name: str, **given):
        if name == "news_2026" and paused["on"]:
            place.sims.whatsapp.refuse_all(132015)
        try:
            return await send_now(self, name=name, **given)
        finally:
            place.sims.whatsapp.refuse_all(None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wires.whatsapp._whatsapp.__class__, "send_template", template)
        waiting = await send(place, None, number=3)
        await place.start_worker()

        async def refused() -> bool:
            return await db.fetchval("select template from onceward.account_troubles") == "news"

        await until(refused, timeout_s=20)
        # The queue is open: another template of the account is sent at once.
        assert await db.fetchval("select count(*) from onceward.queues where parked_until > clock_timestamp()") == 0
        paused["on"] = False
        await all_sent(db, waiting)
    assert not await db.fetchval("select count(*) from onceward.account_troubles")


async def test_an_organization_with_its_own_number_waits_for_no_other(office, wires, accounts, own_number, db) -> None:
    """Two messages a minute may leave each number: the flood of one organization costs the other nothing."""
    flood, clinic = await organization(db, "flood", own=False), await organization(db, "clinic", own=True)
    place = await office(wires.whatsapp, own_channels=accounts, limits={"whatsapp": [Limit(count=1, per_s=30.0)]})
    many = await send(place, flood, number=40)
    await place.start_worker(concurrency=8)

    async def begun() -> bool:
        return "success" in await statuses(db, many)

    await until(begun, timeout_s=20)
    [one] = await send(place, clinic, number=1)
    await place.until(one, "success", timeout_s=20)
    assert "pending" in await statuses(db, many)


async def test_bulk_messages_never_hold_the_line_of_urgent_ones(office, wires, db) -> None:
    """A newsletter fills the limit of the account; the reminder of another organization waits for a few of them at most."""
    limit = Limit(count=1, per_s=0.2)
    place = await office(wires.whatsapp, limits={"whatsapp": [limit]})
    template = place.engine.templates.get("news")
    place.engine.templates.add(type(template)("bulk-news", template.locales, {**template.options, "bulk": True}))
    a, b = await organization(db, "a", own=False), await organization(db, "b", own=False)
    bulk = await send(place, a, "bulk-news", number=100)
    rows = await db.fetch("select distinct queue, lane, cap from onceward.work where kind = 'message'")
    assert [tuple(row) for row in rows] == [("message.whatsapp", f"{a}:bulk", 4)]
    await place.start_worker(concurrency=32)

    async def begun() -> bool:
        return len(place.sims.whatsapp.messages) >= 3

    await until(begun, timeout_s=20)
    before = len(place.sims.whatsapp.messages)
    [urgent] = await send(place, b, number=1)
    row = await place.until(urgent, "success", timeout_s=30)
    ahead = next(n for n, each in enumerate(place.sims.whatsapp.messages) if each["id"] == row["reference"]) - before
    assert ahead <= 12, f"{ahead} bulk messages went before it"
    assert "pending" in await statuses(db, bulk)


async def test_an_own_account_that_is_unreachable_parks_its_own_lanes(office, wires, accounts, own_number, db) -> None:
    clinic, other = await organization(db, "clinic", own=True), await organization(db, "other", own=False)
    place = await office(wires.whatsapp, own_channels=accounts)
    own_number.rate_limit(retry_after_s=1)
    waiting = await send(place, clinic, number=4)
    await place.start_worker()

    async def parked() -> bool:
        return bool(await db.fetchval("select count(*) from onceward.lanes where open_until is not null"))

    await until(parked, timeout_s=20)
    assert not await db.fetchval("select count(*) from onceward.queues where parked_until > clock_timestamp()")
    await all_sent(db, await send(place, other, number=2))
    await all_sent(db, waiting)
    await asyncio.sleep(0)
    assert not await db.fetchval("select count(*) from onceward.lanes where failures > 0"), (
        "the breaker is closed again"
    )


@pytest.mark.parametrize("channel", ["email", "sms", "whatsapp", "slack"])
async def test_a_message_whose_account_was_removed_leaves_by_no_other(office, wires, accounts, db, channel) -> None:
    """It waits, and the owners of the account get the notice."""
    clinic = await organization(db, "clinic", own=False)
    secret = own_secrets(channel)[0]
    async with db.transaction(organization=clinic) as tx:
        await put_secret(tx, BOX, secret, "x")
    place = await office(wires.smtp, wires.sms, wires.whatsapp, wires.slack, own_channels=accounts)
    to = {"email": "ada@example.org", "slack": "#ops"}.get(channel, PHONE)
    async with place.engine.transaction(organization=clinic) as tx:
        queued = await tx.send("hello", to=to, channel=channel, key="k", data={"name": "A"})
    await db.execute("delete from onceward.secrets where organization_id = $1", clinic)
    await place.start_worker()

    async def refused() -> bool:
        return (
            await db.fetchval("select organization_id from onceward.account_troubles where channel = $1", channel)
            == clinic
        )

    await until(refused)
    assert (await place.message(queued.id))["status"] == "pending"
    sims = place.sims
    assert [*sims.smtp.mails, *sims.twilio.messages, *sims.whatsapp.messages, *sims.slack.messages] == []
    assert await db.fetchval("select organization_id from onceward.notices") == clinic


async def test_a_message_that_is_put_back_to_wait_after_the_repair_does_not_wait(office, db) -> None:
    """The repair found it in the hands of a worker, so only the worker's own commit can end the wait."""

    class Late(Troubles):
        late = True

        async def wait_for_probe(self, troubles) -> None:
            if self.late:
                self.late = False
                raise Resting(3600, "the account is refused: an operator must repair it", trouble=1)

    place = await office(troubles=Late(db))
    message = await place.send()
    await place.start_worker()
    await place.until(message, "success")
    assert await db.fetchval("select count(*) from onceward.attempts where outcome = 'snoozed'") == 1
