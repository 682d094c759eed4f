"""What a sale does not need is away while it happens: the mail relay, the nodes that tell browsers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from onceward import Onceward
from onceward.db import Database
from onceward.integrations.smtp import SmtpSimulator
from onceward.messages.service import MessageService
from onceward.services import service_settings
from onceward.settings import Settings
from onceward.work.dead_letters import DeadLetterFilter, replay
from onceward_apps.ticketing import app as ticketing
from tests.live.conftest import Client, Site
from tests.ticketing.office import Office, Show

# -- email delivery fails ------------------------------------------------------------------------------------------


@pytest.fixture
async def relay() -> AsyncIterator[SmtpSimulator]:
    async with SmtpSimulator() as running:
        yield running


@pytest.fixture
async def mailing(db: Database, relay: SmtpSimulator, tmp_path: Path) -> AsyncIterator[Office]:
    """A box office that sends mail over a relay."""
    app = Onceward("mailing")  # of its own: the other tests' workers must not begin to send
    app.include(ticketing)
    office = await Office.open(db, app, tmp_path)
    smtp = service_settings("smtp", host=relay.host, port=relay.port, tls="none")
    settings = Settings(data_dir=tmp_path).using(smtp)
    post = MessageService(db, settings, office.engine.templates, app.registry)
    await office.source()
    yield office
    await post.stop()
    await office.close()


async def buy(office: Office) -> tuple[Show, Any]:
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    assert (await office.pay(checkout)).status == 200
    return show, checkout


async def assert_sold(office: Office, show: Show, checkout: Any) -> None:
    assert await office.status(checkout) == "completed"
    assert [ticket["status"] for ticket in await office.tickets(checkout)] == ["active", "active"]
    assert await office.balance(show, "cash") == checkout["total_cents"]


async def confirmation(office: Office) -> Any:
    return await office.db.fetchrow(
        "select m.status, w.attempts, w.dead_reason from onceward.messages m left join onceward.work w using (id)"
        " where m.template = 'order-confirmation'"
    )


async def test_email_delivery_fails_for_hours_and_the_mail_arrives_once_when_the_relay_is_back(
    mailing: Office, relay: SmtpSimulator
) -> None:
    relay.fail_next(3)
    show, checkout = await buy(mailing)
    for tries in range(1, 4):
        await mailing.drain()
        await assert_sold(mailing, show, checkout)
        found = await confirmation(mailing)
        assert (found["status"], found["attempts"], relay.mails) == ("pending", tries, [])
        await mailing.later(hours=2 * tries)
    await mailing.drain()
    assert [mail.recipients for mail in relay.mails] == [("buyer@example.org",)]
    codes = {ticket["ticket_code"] for ticket in await mailing.tickets(checkout)}
    body = relay.mails[0].message.get_body(("plain",))
    assert body is not None
    assert all(code in body.get_content() for code in codes)
    assert (await confirmation(mailing))["status"] == "success"
    assert (await mailing.webhook(await mailing.charge(checkout, payment_intent="pi_again"))).status == 200
    await mailing.later(days=2)
    await mailing.drain()
    confirmations = [mail for mail in relay.mails if "Night" in str(mail.message["subject"])]
    assert len([mail for mail in confirmations if codes & set(_words(mail))]) == 1


async def test_email_delivery_fails_because_nothing_listens_and_no_try_is_counted(
    mailing: Office, relay: SmtpSimulator
) -> None:
    port = relay.port
    await relay.stop()
    show, checkout = await buy(mailing)
    with capture_logs() as logs:
        await mailing.drain()
    assert [each["channel"] for each in logs if each["event"] == "channel.parked"] == ["email"]
    await assert_sold(mailing, show, checkout)
    found = await confirmation(mailing)
    assert (found["status"], found["attempts"]) == ("pending", 0)
    await relay.start(port=port)
    deadline = time.monotonic() + 20
    while not relay.mails and time.monotonic() < deadline:  # the channel rests for a second or two of real time
        await mailing.later(minutes=5)
        await mailing.drain()
        await asyncio.sleep(0.1)
    await mailing.drain()
    assert [mail.recipients for mail in relay.mails] == [("buyer@example.org",)]


async def test_email_delivery_fails_for_good_the_staff_is_notified_and_the_order_stays_valid(
    mailing: Office, relay: SmtpSimulator
) -> None:
    relay.fail_next(1, reply="550 5.7.1 not from you")
    show, checkout = await buy(mailing)
    await mailing.drain()
    await assert_sold(mailing, show, checkout)
    assert (await confirmation(mailing))["status"] == "dead_letter"
    [notice] = [row for row in await mailing.notices() if row["type"] == "DEAD_LETTER"]
    assert notice["severity"] == "fatal"
    # An operator sends it again once the relay accepts the credentials; the buyer gets one mail.
    message = await mailing.db.fetchval("select id from onceward.messages where template = 'order-confirmation'")
    await replay(mailing.db, DeadLetterFilter(ids=[message]), actor="test", reason="the relay accepts the credentials")
    await mailing.drain()
    assert [mail.recipients for mail in relay.mails] == [("buyer@example.org",)]


def _words(mail: Any) -> list[str]:
    body = mail.message.get_body(("plain",))
    return [] if body is None else body.get_content().split()


# -- broadcast fails -----------------------------------------------------------------------------------------------


async def follow(site: Site, show: Show, *, since: str | None = None) -> tuple[Client, int, int]:
    """Somebody at a dashboard: the topic, and the seat map as a live query."""
    client = await Client.open(site.address, f"{show.organization}/ada/viewer")
    options = {} if since is None else {"since": since}
    topic = await client.follow(f"occupancy/{show.organization}/{show.id}", **options)
    query = await client.subscribe("ticketing.occupancy", event_id=str(show.id))
    await client.until(lambda: query in client.results)
    return client, topic, query


async def test_broadcast_fails_while_the_live_node_is_away_and_clients_converge_when_it_is_back(
    office: Office,
) -> None:
    await office.source()
    show = await office.show()
    before = await office.checkout(show, "Stalls A1")
    during = await office.checkout(show, "Stalls A2", "Stalls A3")
    site = Site(office.db, office.app)
    await site.start()
    client, topic, query = await follow(site, show)
    assert (await office.pay(before)).status == 200
    await client.until(lambda: client.results[query]["total_sold"] == 1 and bool(client.messages.get(topic)))
    seen = client.topic_versions[topic]

    await site.stop()  # the process is gone: nobody reads the feed, and every socket is closed
    await client.close()
    assert (await office.pay(during)).status == 200
    assert len(await office.tickets(during)) == 2
    assert await office.balance(show, "cash") == before["total_cents"] + during["total_cents"]

    again = Site(office.db, office.app)
    await again.start()
    try:
        client, topic, query = await follow(again, show, since=seen)
        await client.until(lambda: client.results[query]["total_sold"] == 3 and bool(client.messages.get(topic)))
        [missed] = client.messages[topic]
        assert (missed["event"], missed["ticket_count"], missed["occupancy"]["total_sold"]) == ("seats_sold", 2, 3)
        await client.close()
    finally:
        await again.stop()


async def test_broadcast_fails_when_the_nodes_connections_are_cut_and_nothing_is_missed(
    office: Office, database_url: str
) -> None:
    """The node lives, its database connections do not: the sale commits meanwhile, and the client hears of it."""
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    own = await Database.open(database_url, application_name="live node")
    site = Site(own, office.app)
    await site.start()
    try:
        client, topic, query = await follow(site, show)
        cut = (
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where application_name = 'live node' and datname = current_database()"
        )
        assert await office.db.fetchval(cut) > 0
        assert (await office.pay(checkout)).status == 200
        assert len(await office.tickets(checkout)) == 1
        await office.db.fetchval(cut)
        await client.until(
            lambda: client.results[query]["total_sold"] == 1 and bool(client.messages.get(topic)), timeout_s=20
        )
        assert [each["ticket_count"] for each in client.messages[topic]] == [1]
        await client.close()
    finally:
        await site.stop()
        await own.close()
