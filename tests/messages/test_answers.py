"""What happens to a message, for each channel and each class of answer of its service. docs/messages.md has the same table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from onceward import Onceward
from onceward.db import Database
from onceward.integrations.twilio.simulator import INVALID_NUMBER
from onceward.messages.recipient import Recipient
from onceward.messages.troubles import Troubles
from onceward.testing.simulators import Simulators
from tests.messages.conftest import TEMPLATES, Office, Wires

DOCS = Path(__file__).parents[2] / "docs" / "messages.md"
SENT = "sent"
FAILED = "failed, not repeated"
WAITS = "the account waits, its administrators get one notice"
PAUSED = "the account pauses, no attempt is counted"
CLASSES = ("accepted", "recipient", "message", "account", "throttled", "lost")
KEYS = count(1)


@dataclass(frozen=True, kw_only=True)
class Service:
    """How one service gives each class of answer. `codes` are (recipient, message, account)."""

    wire: str
    sim: str
    channel: str
    to: Any
    lost: str
    message: Any
    account: Any
    recipient: Any = None
    bad_to: Any = None


SERVICES = {
    "SMTP": Service(
        wire="smtp",
        sim="smtp",
        channel="email",
        to="ada@example.org",
        bad_to="nobody@example.org",
        message="554 5.6.0 content",
        account="550 5.7.60 not permitted",
        lost="unknown",
    ),
    "Brevo": Service(
        wire="brevo",
        sim="brevo",
        channel="email",
        to="ada@example.org",
        bad_to="blocked@example.org",
        message="missing_parameter",
        account="unauthorized",
        lost="repeated with the same key",
    ),
    "Twilio": Service(
        wire="sms",
        sim="twilio",
        channel="sms",
        to="+4915112345678",
        bad_to=INVALID_NUMBER,
        message=21617,
        account=20003,
        lost="looked up",
    ),
    "WhatsApp": Service(
        wire="whatsapp",
        sim="whatsapp",
        channel="whatsapp",
        to="+4915112345678",
        recipient=131026,
        message=132000,
        account=190,
        lost="unknown, until a report settles it",
    ),
    "Slack": Service(
        wire="slack",
        sim="slack",
        channel="slack",
        to="#ops",
        recipient="is_archived",
        message="msg_too_long",
        account="token_revoked",
        lost="looked up",
    ),
    "Slack webhook": Service(
        wire="webhook",
        sim="slack",
        channel="slack",
        to="#ops",
        recipient="user_not_found",
        message="invalid_payload",
        account="no_service",
        lost="unknown",
    ),
    "Web Push": Service(
        wire="push", sim="webpush", channel="push", to=None, recipient=410, message=413, account=401, lost="unknown"
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(databases) -> AsyncIterator[Callable[..., Any]]:
    """One database and one set of services for all cells; a process (app, sender, worker) for each service."""
    url = databases.create()
    db = await Database.open(url, min_size=1, max_size=10)
    async with Simulators() as sims:
        wires = Wires(sims, db)
        running: dict[str, Office] = {}

        async def office(name: str) -> Office:
            if name not in running:
                for each in running.values():
                    await each.workers.pop().stop()
                running.clear()
                app = Onceward("t")
                app.templates(TEMPLATES)
                here = Office(db, app, wires)
                here.install([getattr(wires, SERVICES[name].wire)], troubles=Troubles(db, first_probe_s=0.2))
                await here.start_worker()
                running[name] = here
            return running[name]

        yield office
        for each in running.values():
            await each.workers.pop().stop()
        await wires.aclose()
    await db.close()
    databases.release(url)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("answer", CLASSES)
@pytest.mark.parametrize("name", SERVICES)
async def test_each_class_of_answer_has_its_effect(shared, name: str, answer: str) -> None:
    service = SERVICES[name]
    here: Office = await shared(name)
    sim = getattr(here.sims, service.sim)
    received = _received(here, name)
    to = service.to or _browser(here)
    match answer:
        case "recipient" if service.bad_to is not None:
            to = service.bad_to
            if name == "SMTP":
                sim.refuse(to)
            elif name == "Brevo":
                sim.blocked.add(to)
        case "recipient" | "message" | "account" if name != "SMTP":
            sim.refuse_all(getattr(service, answer))
        case "message":
            sim.fail_next(reply=service.message)
        case "account":
            sim.sender_refusal = service.account
        case "throttled" if name == "SMTP":
            sim.fail_next(reply="421 4.3.2 later")
        case "throttled":
            sim.rate_limit(retry_after_s=0)
        case "lost":
            sim.drop_after_send()
        case _:
            pass
    earlier: int = await here.db.fetchval("select coalesce(max(id), 0) from onceward.notices")
    id = await here.send("news" if name == "WhatsApp" else "hello", to=to, channel=service.channel, key=f"{next(KEYS)}")
    if answer == "account":
        assert await _account(here, name, id, sim, earlier) == _expected(name, answer)
    else:
        assert await _effect(here, name, answer, id, sim, received) == _expected(name, answer)
    assert _documented(name, answer) == _expected(name, answer)


def _expected(name: str, answer: str) -> str:
    effects = {
        "accepted": SENT,
        "recipient": f"{FAILED}; the subscription is forgotten" if name == "Web Push" else FAILED,
        "message": FAILED,
        "account": WAITS,
        "throttled": PAUSED,
        "lost": SERVICES[name].lost,
    }
    return effects[answer]


async def _effect(here: Office, name: str, answer: str, id: int, sim: Any, received: Callable[[], int]) -> str:
    """Watch the message to its end and return what happened to it, in the words of the table."""
    before = received()
    row = await here.until(id, timeout_s=30)
    attempts = await here.db.fetch("select outcome from onceward.attempts where work_id = $1", id)
    sim.refuse_all(None) if name != "SMTP" else None
    match row["status"]:
        case "success" if len(attempts) == 1:
            return SENT if answer == "accepted" else f"sent at once after {answer}"
        case "success" if answer == "throttled":
            assert (row["attempts"], {each["outcome"] for each in attempts}) == (1, {"snoozed", "success"})
            return PAUSED
        case "success" if answer == "lost":
            assert received() - before <= 1, "sent twice"
            return SERVICES[name].lost
        case "dead_letter" if len(attempts) == 1:
            forgotten = name == "Web Push" and answer == "recipient"
            if forgotten:
                assert await here.db.fetchval("select push from onceward.recipients where ref = 'ada'") is None
            return f"{FAILED}; the subscription is forgotten" if forgotten else FAILED
        case "unknown":
            return SERVICES[name].lost
        case status:
            return f"{status} after {len(attempts)} attempts"


async def _account(here: Office, name: str, id: int, sim: Any, earlier: int) -> str:
    """The account is refused, an operator repairs it, and the message leaves without having lost an attempt."""
    channel = SERVICES[name].channel
    trouble = "select true from onceward.account_troubles where channel = $1 and template is null"
    async with asyncio.timeout(30):
        while not await here.db.fetchval(trouble, channel):
            await asyncio.sleep(0.05)
    assert (await here.message(id))["status"] in ("pending", "processing")
    if name == "SMTP":
        sim.sender_refusal = None
    else:
        sim.refuse_all(None)
    row = await here.until(id, timeout_s=60)
    assert (row["status"], row["attempts"]) == ("success", 1)
    assert await here.db.fetchval(trouble, channel) is None
    # The account is the installation's: one notice, to its administrators, and none to an organization.
    notices = await here.db.fetch(
        "select audience, organization_id, title, details from onceward.notices where id > $1 order by id", earlier
    )
    assert [(each["audience"], each["organization_id"]) for each in notices] == [("admin", None)]
    assert notices[0]["title"].startswith(f"{channel}: the service refuses the account")
    assert notices[0]["details"]["what to do"].endswith(".")
    assert notices[0]["details"]["then"] == f"onceward messages resume {channel}"
    return WAITS


def _received(here: Office, name: str) -> Callable[[], int]:
    sims = here.sims
    counters: dict[str, Callable[[], int]] = {
        "SMTP": lambda: len(sims.smtp.mails),
        "Brevo": lambda: len(sims.brevo.mails),
        "Twilio": lambda: len(sims.twilio.messages),
        "WhatsApp": lambda: len(sims.whatsapp.messages),
        "Slack": lambda: len(sims.slack.messages),
        "Slack webhook": lambda: len(sims.slack.messages),
        "Web Push": lambda: 0,
    }
    return counters[name]


def _browser(here: Office) -> Recipient:
    browser = here.sims.webpush.subscribe()
    return Recipient(ref="ada", push={"endpoint": browser.endpoint, "p256dh": browser.p256dh, "auth": browser.auth})


def _documented(name: str, answer: str) -> str:
    """Return the cell of the table in the documentation."""
    text = DOCS.read_text(encoding="utf-8")
    [line] = [
        each for each in text.splitlines() if each.startswith(f"| {name} |") and each.count("|") == len(CLASSES) + 2
    ]
    return line.strip("|").split("|")[CLASSES.index(answer) + 1].strip()


def test_every_error_table_has_accounts_and_says_what_to_do() -> None:
    from onceward.integrations.brevo.errors import ERRORS as BREVO
    from onceward.integrations.slack.errors import ERRORS as SLACK
    from onceward.integrations.slack.errors import WEBHOOK_ERRORS
    from onceward.integrations.twilio.errors import ERRORS as TWILIO
    from onceward.integrations.webpush.errors import ERRORS as WEBPUSH
    from onceward.integrations.whatsapp.errors import ERRORS as WHATSAPP

    for table in (BREVO, SLACK, WEBHOOK_ERRORS, TWILIO, WEBPUSH, WHATSAPP):
        assert table.account
        assert all(each.endswith(".") for each in (*table.account.values(), *table.template.values()))
        known = [*table.account, *table.template, *table.recipient, *table.message, *table.throttled]
        known += [*table.passing, *table.unsure]
        assert len(known) == len(set(known)), "a code has two meanings"
