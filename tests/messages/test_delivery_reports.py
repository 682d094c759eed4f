"""Delivery reports of Brevo, Twilio and WhatsApp reach their message: forward only, once, in the commit of their event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from onceward import DeliveryReport, Event, Onceward, Tx
from onceward.inbox.callbacks import StatusCallbacks
from onceward.integrations.twilio import Twilio
from onceward.integrations.twilio.channel import SmsChannel
from onceward.testing import TestInbox, crash_test, drain, until
from onceward.trust import create_organization

PHONE = "+4915112345678"
PUBLIC = "https://shop.example.org"


@asynccontextmanager
async def receiving(here: Any, *names: str, organization: UUID | None = None) -> AsyncIterator[TestInbox]:
    """Receive webhooks for the office's app: one source per name, of the provider that the name begins with."""
    async with TestInbox(here.engine, here.app) as inbox:
        for name in names or ("whatsapp",):
            await inbox.add_source(name, provider=name.partition("-")[0], organization=organization, public_url=PUBLIC)
        yield inbox


async def post_status(
    inbox: TestInbox, wamid: str, status: str, *, source: str = "whatsapp", at: int = 1, **more: Any
) -> dict[str, Any]:
    """Post a status webhook of WhatsApp, and return the answer."""
    report = {"id": wamid, "status": status, "timestamp": str(at), **more}
    change = {"field": "messages", "value": {"messaging_product": "whatsapp", "statuses": [report]}}
    answer = await inbox.post({"entry": [{"id": "1", "changes": [change]}]}, source=source)
    assert answer.status == 200
    return answer.json


async def sent_message(here: Any, key: str = "k1") -> tuple[int, str]:
    """Send a WhatsApp message; return its id and its reference."""
    id = await here.send("news", to=PHONE, channel="whatsapp", key=key)
    await drain(here.engine)
    row = await here.message(id)
    assert (row["status"], row["delivery"]) == ("success", None)
    return id, row["reference"]


async def results(here: Any) -> list[Any]:
    return [row["result"] for row in await here.db.fetch("select result from onceward.webhook_events order by seq")]


async def test_reports_move_a_message_forward_and_never_back(office, wires) -> None:
    here = await office(wires.whatsapp)
    async with receiving(here) as inbox:
        id, wamid = await sent_message(here)
        seen: list[str | None] = []
        for at, status in enumerate(("delivered", "sent", "read", "delivered", "failed")):
            await post_status(inbox, wamid, status, at=at)
            await drain(here.engine)
            seen.append((await here.message(id))["delivery"])
    assert seen == ["delivered", "delivered", "read", "read", "read"]
    assert [each["changed"] for each in await results(here)] == [True, False, True, False, False]


async def test_a_failed_message_stays_failed_and_says_why(office, wires) -> None:
    here = await office(wires.whatsapp)
    async with receiving(here) as inbox:
        id, wamid = await sent_message(here)
        await post_status(inbox, wamid, "failed", errors=[{"code": 131026, "title": "Message undeliverable"}])
        await drain(here.engine)
        await post_status(inbox, wamid, "delivered")
        await drain(here.engine)
    row = await here.message(id)
    assert (row["delivery"], row["reason"]) == ("failed", "WhatsApp error 131026")


async def test_a_report_about_a_message_of_somebody_else_is_not_ours(office, wires) -> None:
    here = await office(wires.whatsapp)
    async with receiving(here, "whatsapp", "twilio") as inbox:
        await post_status(inbox, "wamid.unknown", "delivered")
        await inbox.trigger("message.delivered", source="twilio")
        await drain(here.engine)
    rows = await here.db.fetch("select status, result from onceward.webhook_events")
    assert [tuple(row) for row in rows] == [("success", "not_ours"), ("success", "not_ours")]


async def test_a_key_of_another_installation_does_not_reach_our_message(office, wires) -> None:
    here = await office(wires.whatsapp)
    async with receiving(here) as inbox:
        id, _ = await sent_message(here)
        await post_status(inbox, "wamid.theirs", "read", biz_opaque_callback_data=f"message:{id}:send")
        await drain(here.engine)
    assert (await here.message(id))["delivery"] is None
    assert await results(here) == ["not_ours"]


async def test_a_source_of_another_organization_cannot_report_on_a_message(office, wires) -> None:
    here = await office(wires.whatsapp)
    seen: list[tuple[str, UUID | None]] = []

    @here.app.on_message("delivered")
    async def note(tx: Tx, report: DeliveryReport) -> None:
        seen.append((report.key, await tx.fetchval("select onceward.organization()")))

    async with here.db.transaction(role="engine") as tx:
        ours = (await create_organization(tx, "ours", actor="test")).organization_id
        theirs = (await create_organization(tx, "theirs", actor="test")).organization_id
    async with here.engine.transaction(organization=ours) as tx:
        id = (await tx.send("news", to=PHONE, channel="whatsapp", key="k1", data={"name": "Ada"})).id
    await drain(here.engine)
    wamid = (await here.message(id))["reference"]
    async with receiving(here, "whatsapp-theirs", organization=theirs) as inbox:
        await post_status(inbox, wamid, "delivered", source="whatsapp-theirs")
        await drain(here.engine)
        assert ((await here.message(id))["delivery"], seen) == (None, [])
        await inbox.add_source("whatsapp")
        await post_status(inbox, wamid, "delivered")
        await drain(here.engine)
    assert (await here.message(id))["delivery"] == "delivered", "a source of the platform serves all organizations"
    assert seen == [("k1", ours)], "the hook acts for the organization of the message"


async def test_hooks_run_once_for_each_state_also_for_states_that_no_report_named(office, wires) -> None:
    here = await office(wires.whatsapp)
    included = Onceward("included")
    await here.db.execute("create table seen (state text, key text); grant all on seen to onceward_app")

    async def note(tx: Tx, report: DeliveryReport) -> None:
        await tx.execute("insert into seen values ($1, $2)", report.state, report.key)

    for state in ("delivered", "read"):
        included.on_message(state)(note)
    included.on_message("delivered", template="hello")(note)
    here.app.include(included)
    async with receiving(here) as inbox:
        _, wamid = await sent_message(here)
        for at, status in enumerate(("read", "delivered", "read")):
            await post_status(inbox, wamid, status, at=at)
        await drain(here.engine)
    assert [tuple(row) for row in await here.db.fetch("select * from seen")] == [("delivered", "k1"), ("read", "k1")]


async def test_a_failing_hook_leaves_the_report_for_a_retry(office, wires) -> None:
    here = await office(wires.whatsapp)
    failures = [True]

    @here.app.on_message("delivered")
    async def note(tx: Tx, report: DeliveryReport) -> None:
        if failures and failures.pop():
            raise RuntimeError("not yet")

    async with receiving(here) as inbox:
        id, wamid = await sent_message(here)
        await post_status(inbox, wamid, "delivered")
        await drain(here.engine)
        assert (await here.message(id))["delivery"] is None
        await here.db.execute("update onceward.work set sort_at = now()")
        await drain(here.engine)
    assert (await here.message(id))["delivery"] == "delivered"


def with_tx(app: Onceward, name: str) -> None:
    @app.on(name, "status.delivered")
    async def own(event: Event[Any], tx: Tx) -> str:
        state = await tx.fetchval("select delivery from onceward.messages")
        return f"the app saw {state}"


def without_tx(app: Onceward, name: str) -> None:
    @app.on(name, "status.delivered")
    async def own(event: Event[Any]) -> str:
        return "the app saw it"


def as_job(app: Onceward, name: str) -> None:
    @app.on(name, "status.delivered", as_job=True)
    async def own(event: Event[Any], tx: Tx) -> None:
        await tx.execute("update onceward.messages set reason = 'the app saw it'")


@pytest.mark.parametrize("declare", [with_tx, without_tx, as_job])
@pytest.mark.parametrize("name", ["whatsapp", "whatsapp-main"])
async def test_the_handler_of_an_app_runs_after_the_report(
    office, wires, name: str, declare: Callable[[Onceward, str], None]
) -> None:
    here = await office(wires.whatsapp)
    declare(here.app, name)
    async with receiving(here, name) as inbox:
        id, wamid = await sent_message(here)
        await post_status(inbox, wamid, "delivered", source=name)
        await drain(here.engine)
    row = await here.message(id)
    assert row["delivery"] == "delivered"
    assert str((await results(here))[0]).startswith("the app saw") or row["reason"] == "the app saw it"


async def test_two_workers_with_reports_of_one_message_run_each_hook_once(office, wires) -> None:
    here = await office(wires.whatsapp)
    await here.db.execute("create table seen (state text); grant all on seen to onceward_app")

    async def note(tx: Tx, report: DeliveryReport) -> None:
        await tx.execute("insert into seen values ($1)", report.state)
        await asyncio.sleep(0.01)

    for state in ("delivered", "read"):
        here.app.on_message(state)(note)
    async with receiving(here) as inbox:
        _, wamid = await sent_message(here)
        for at in range(10):
            await post_status(inbox, wamid, ("delivered", "read")[at % 2], at=at)
        await here.start_worker()
        await here.start_worker()
        await until(lambda: ended(here, 10))
    assert sorted(row["state"] for row in await here.db.fetch("select state from seen")) == ["delivered", "read"]


async def ended(here: Any, count: int) -> bool:
    return await here.db.fetchval("select count(*) from onceward.webhook_events where status = 'success'") == count


async def test_a_crash_at_any_moment_applies_a_report_once(office, wires) -> None:
    here = await office(wires.whatsapp)
    await here.db.execute("create table seen (state text); grant all on seen to onceward_app")

    @here.app.on_message("delivered")
    async def note(tx: Tx, report: DeliveryReport) -> None:
        await tx.execute("insert into seen values ($1)", report.state)

    async with receiving(here) as inbox:
        id, wamid = await sent_message(here)

        async def reset() -> None:
            await here.db.execute("truncate seen; update onceward.messages set delivery = null; truncate onceward.work")
            await here.db.execute("delete from onceward.webhook_events")

        gates = await crash_test(
            here.engine,
            arrange=lambda: post_status(inbox, wamid, "delivered"),
            observe=lambda: here.db.fetch("select state, (select delivery from onceward.messages) from seen"),
            reset=reset,
        )
    assert "before-commit" in gates
    assert (await here.message(id))["delivery"] == "delivered"


async def test_a_report_that_overtakes_the_answer_waits_for_it(office, wires) -> None:
    here = await office(wires.sms)
    async with receiving(here, "twilio") as inbox:
        id = await here.send(to=PHONE, channel="sms")
        await here.db.execute("update onceward.messages set sending = 1, status = 'processing' where id = $1", id)
        await inbox.trigger("message.delivered", source="twilio", MessageSid="SM1", To=PHONE)
        await drain(here.engine, "events")
        [event] = await here.db.fetch("select status, attempts from onceward.webhook_events")
        assert tuple(event) == ("pending", 0), "a message to this number is being sent"
        await here.db.execute("update onceward.messages set reference = 'SM1' where id = $1", id)
        await here.db.execute("update onceward.work set sort_at = now()")
        await drain(here.engine, "events")
    assert (await here.message(id))["delivery"] == "delivered"


async def post_statuses(inbox: TestInbox, *reports: tuple[str, str]) -> None:
    """Post one webhook with several statuses, as WhatsApp does after an outage."""
    statuses = [{"id": wamid, "status": status, "timestamp": str(at)} for at, (wamid, status) in enumerate(reports)]
    change = {"field": "messages", "value": {"messaging_product": "whatsapp", "statuses": statuses}}
    assert (await inbox.post({"entry": [{"id": "1", "changes": [change]}]}, source="whatsapp")).status == 200


async def test_a_backlog_of_reports_shares_commits_and_each_report_keeps_its_result(office, wires) -> None:
    here = await office(wires.whatsapp)
    async with receiving(here) as inbox:
        (first, one), (second, two) = await sent_message(here, "k1"), await sent_message(here, "k2")
        await post_statuses(inbox, (one, "read"), (two, "read"), ("wamid.x", "read"), (one, "read"))
        await drain(here.engine)
    assert [(await here.message(id))["delivery"] for id in (first, second)] == ["read", "read"]
    kept = await results(here)
    assert kept.count("not_ours") == 1
    assert kept.count({"message": first, "state": "read", "changed": True}) == 1
    assert kept.count({"message": first, "state": "read", "changed": False}) == 1
    assert kept.count({"message": second, "state": "read", "changed": True}) == 1
    commits = "select count(distinct xmin::text) from onceward.attempts where kind = 'event'"
    assert await here.db.fetchval(commits) == 1


async def test_a_hook_of_a_report_in_a_batch_is_caused_by_its_own_event(office, wires) -> None:
    here = await office(wires.whatsapp)
    await here.db.execute("create table seen (key text, cause bigint); grant all on seen to onceward_app")

    @here.app.on_message("delivered")
    async def note(tx: Tx, report: DeliveryReport) -> None:
        await tx.execute("insert into seen values ($1, onceward.cause())", report.key)

    async with receiving(here) as inbox:
        (_, one), (_, two) = await sent_message(here, "k1"), await sent_message(here, "k2")
        await post_statuses(inbox, (one, "delivered"), (two, "delivered"))
        await drain(here.engine)
    rows = await here.db.fetch(
        "select s.key, onceward.payload_of(e) #>> '{status,id}' as wamid from seen s join onceward.webhook_events e on e.seq = s.cause"
    )
    assert {row["key"]: row["wamid"] for row in rows} == {"k1": one, "k2": two}


async def test_twilio_reports_to_the_source_of_its_provider(office, wires) -> None:
    here = await office()
    sims = here.sims
    sims.twilio.report = False
    account = Twilio(wires.client, sims.twilio.account_sid, sims.twilio.auth_token, base_url=sims.twilio.url)
    callbacks = StatusCallbacks(here.db, "twilio")
    channel = SmsChannel(account, sender="+15005550006", callback=callbacks.url)
    here.install([channel])
    assert await callbacks.url(None) is None
    async with receiving(here, "twilio-main") as inbox:
        channel = SmsChannel(account, sender="+15005550006", callback=StatusCallbacks(here.db, "twilio").url)
        here.install([channel])
        id = await here.send(to=PHONE, channel="sms")
        await drain(here.engine)
        sid = (await here.message(id))["reference"]
        assert sims.twilio.callback_of(sid) == f"{PUBLIC}/webhooks/twilio-main"
        await inbox.trigger("message.undelivered", source="twilio-main", MessageSid=sid)
        await drain(here.engine)
    row = await here.message(id)
    assert (row["delivery"], row["reason"]) == ("failed", "Twilio error 30003")


async def test_the_state_of_a_hook_is_checked(office) -> None:
    with pytest.raises(ValueError, match="state must be sent, delivered, read, failed"):
        Onceward("t").on_message("seen")  # type: ignore[arg-type]


@pytest.mark.parametrize("owned", [False, True], ids=["platform", "organization"])
async def test_brevos_reports_also_stop_later_mails(office, wires, owned: bool) -> None:
    here = await office(wires.brevo)
    async with here.db.transaction(role="engine") as tx:
        ours = (await create_organization(tx, "ours", actor="test")).organization_id
    events = ("delivered", "soft_bounce", "blocked", "hard_bounce", "invalid_email", "spam", "unsubscribed")
    ids: list[int] = []
    async with here.engine.transaction(organization=ours) as tx:
        for event in events:
            sent = await tx.send("hello", to=f"{event}@example.org", channel="email", key=event, data={"name": "Ada"})
            ids.append(sent.id)
    await drain(here.engine)
    mails = {mail["to"][0]["email"]: mail for mail in here.sims.brevo.mails}
    async with receiving(here, "brevo-here", organization=ours if owned else None) as inbox:
        for at, event in enumerate((*events, "spam")):
            mail = mails[f"{event}@example.org"]
            named = {"message-id": mail["messageId"], "X-Mailin-custom": mail["headers"]["X-Mailin-custom"]}
            report = {"event": event, "email": f"{event}@example.org", "ts_event": at, "reason": "of a@b", **named}
            assert (await inbox.post(report, source="brevo-here")).status == 200
        await inbox.post(
            {"event": "hard_bounce", "email": "x@example.org", "message-id": "<other>"}, source="brevo-here"
        )
        await drain(here.engine)
    rows = await here.db.fetch("select delivery, reason from onceward.messages where id = any($1) order by id", ids)
    failed = [("failed", f"Brevo: {event}") for event in events[1:5]]
    assert [tuple(row) for row in rows] == [("delivered", None), *failed, ("delivered", None), ("delivered", None)]
    stopped = await here.db.fetch("select address, reason, organization_id from onceward.suppressions order by 1")
    assert [tuple(row) for row in stopped] == [
        ("hard_bounce@example.org", "bounce", ours),
        ("invalid_email@example.org", "bounce", ours),
        ("spam@example.org", "complaint", ours),
    ]
    consent = await here.db.fetchrow("select * from onceward.consents")
    assert (consent["recipient"], consent["channel"], consent["decision"], consent["source"]) == (
        "unsubscribed@example.org",
        "email",
        "opt_out",
        "service",
    )
    assert (consent["organization_id"], consent["message"]) == (ours, ids[-1])
