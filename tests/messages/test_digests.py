"""A recipient who chose a digest gets one mail in the morning, with each message once."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from onceward.messages import Recipient, opt_out, save_recipient
from onceward.messages.expiry import release_expired
from onceward.messages.message_queue import cancel
from onceward.messages.troubles import Troubles
from onceward.testing import until

ADA = Recipient(ref="ada", email="ada@example.org", timezone="America/Sao_Paulo", locale="pt")


async def place_of(office, *, period: str | None = "daily", year: int = 2026, **options: Any):
    here = await office(**options)
    await here.set_clock(f"{year}-05-01 20:30+00")
    async with here.engine.transaction() as tx:
        await save_recipient(tx, ADA)
    if period is not None:
        await here.db.execute(
            "insert into onceward.digest_choices (recipient, category, period) values ('ada', 'newsletter', $1)", period
        )
    await here.start_worker()
    return here


async def waits(here, *ids: int) -> None:
    async def gathered() -> bool:
        entries = await here.db.fetchval("select count(*) from onceward.digest_entries")
        busy = await here.db.fetchval("select count(*) from onceward.work where lease is not null")
        return entries == len(ids) and not busy

    await until(gathered)


async def morning(here, day: str) -> None:
    """The digest of the day is sent, and a moment later its messages end."""
    await here.set_clock(f"{day} 11:00+00")
    digest = await here.db.fetchval("select max(id) from onceward.messages where template = 'digest'")
    await here.until(digest)
    await here.set_clock(f"{day} 11:01+00")


async def test_a_digest_is_sent_once_in_the_local_morning_and_ends_its_messages(office) -> None:
    here = await place_of(office)
    ids = [await here.send("news", to="ada", key=f"t{n}", data={"name": f"N{n}"}) for n in range(3)]
    other = await here.send("hello", to="ada", key="other")
    await here.until(other, "success")
    await waits(here, *ids)
    [digest] = await here.db.fetch("select * from onceward.messages where template = 'digest'")
    assert (f"{digest['scheduled_for']:%d %H:%M}", digest["category"]) == ("02 11:00", "newsletter")
    assert len(here.sims.smtp.mails) == 1, "nothing but the template that is not for digests"
    async with here.engine.transaction() as tx:
        await cancel(tx, "t1")
    await morning(here, "2026-05-02")
    for id, status in zip(ids, ("success", "cancelled", "success"), strict=True):
        row = await here.until(id)
        assert (row["status"], row["reference"]) == (status, f"digest:{digest['id']}" if status == "success" else None)
    [_, mail] = here.sims.smtp.mails
    text = mail.message.get_body(("plain",)).get_content()
    assert ("N0" in text, "N1" in text, "N2" in text) == (True, False, True)
    assert str(mail.message["List-Unsubscribe"]).strip("<>").endswith(str(digest["token"]))
    assert "Você escolheu receber" in text
    assert re.search(r"https://shop.example.org/preferences/\S+", text)


async def test_a_message_after_the_digest_goes_into_the_next_one(office) -> None:
    here = await place_of(office, period="weekly")
    first = await here.send("news", to="ada", key="t1")
    await waits(here, first)
    await morning(here, "2026-05-04")
    await here.until(first, "success")
    second = await here.send("news", to="ada", key="t2")
    await waits(here, first, second)
    rows = await here.db.fetch("select scheduled_for from onceward.messages where template = 'digest' order by id")
    assert [f"{row[0]:%m-%d %H:%M}" for row in rows] == ["05-04 11:00", "05-11 11:00"]
    assert len(here.sims.smtp.mails) == 1


async def test_an_empty_digest_expires_and_an_opt_out_ends_everything(office) -> None:
    here = await place_of(office)
    only = await here.send("news", to="ada", key="t1")
    await waits(here, only)
    async with here.engine.transaction() as tx:
        await cancel(tx, "t1")
    await morning(here, "2026-05-02")
    digest = await here.db.fetchval("select id from onceward.messages where template = 'digest'")
    assert (await here.until(digest))["status"] == "expired"
    later = await here.send("news", to="ada", key="t2")
    await waits(here, only, later)
    async with here.engine.transaction() as tx:
        await opt_out(tx, "ada", category="newsletter")
    await morning(here, "2026-05-03")
    row = await here.until(later)
    assert (row["status"], row["reason"]) == ("cancelled", "opted_out")
    assert here.sims.smtp.mails == []


async def test_a_message_that_would_expire_before_the_digest_or_cannot_be_rendered_goes_alone(office) -> None:
    here = await place_of(office)
    soon = await here.db.fetchval("select onceward.now() + interval '1 hour'")
    urgent = await here.send("news", to="ada", key="t1", expires_at=soon)
    await here.until(urgent, "success")
    broken, good = await here.send("news", to="ada", key="t2", data={}), await here.send("news", to="ada", key="t3")
    await waits(here, broken, good)
    await here.db.execute("delete from onceward.digest_choices")
    await morning(here, "2026-05-02")
    assert (await here.until(good))["status"] == "success"
    assert (await here.until(broken))["status"] == "dead_letter"
    assert len(here.sims.smtp.mails) == 2


async def test_a_digest_of_a_refused_account_waits_and_leaves_out_what_expired_meanwhile(office, db) -> None:
    """The account is refused in the morning and repaired at 11:20. One message of the digest had to be sent by 11:10.

    The year is after today: a refused account is examined again by the real clock.
    """
    here = await place_of(office, year=2031, troubles=Troubles(db, first_probe_s=0.2))
    at = datetime.fromisoformat("2031-05-02 11:10+00:00")
    stays = await here.send("news", to="ada", key="t1", data={"name": "N1"})
    ends = await here.send("news", to="ada", key="t2", data={"name": "N2"}, expires_at=at)
    await waits(here, stays, ends)
    here.sims.smtp.sender_refusal = "550 5.7.60 not permitted"
    await here.set_clock("2031-05-02 11:00+00")

    async def refused() -> bool:
        return await db.fetchval("select count(*) from onceward.account_troubles") == 1

    await until(refused)
    included = "select array_agg(message order by message) from onceward.digest_entries where is_included"
    assert await db.fetchval(included) == [stays, ends]
    await here.set_clock("2031-05-02 11:20+00")
    await release_expired(db)
    assert (await here.until(ends))["status"] == "expired"
    assert (await here.message(stays))["status"] == "pending"
    here.sims.smtp.sender_refusal = None
    await here.set_clock("2031-05-02 11:22+00")
    digest = await db.fetchval("select id from onceward.messages where template = 'digest'")
    assert (await here.until(digest))["status"] == "success"
    await here.set_clock("2031-05-02 11:30+00")
    row = await here.until(stays)
    assert (row["status"], row["reference"], row["attempts"]) == ("success", f"digest:{digest}", 1)
    [mail] = here.sims.smtp.mails
    text = mail.message.get_body(("plain",)).get_content()
    assert ("N1" in text, "N2" in text) == (True, False)
    assert await db.fetchval(included) == [stays]


async def test_a_message_that_was_in_a_digest_is_sent_also_if_its_time_passes_before_it_hears_of_it(office) -> None:
    here = await place_of(office)
    at = datetime.fromisoformat("2026-05-02 11:10+00:00")
    id = await here.send("news", to="ada", key="t1", expires_at=at)
    await waits(here, id)
    await here.set_clock("2026-05-02 11:00+00")
    digest = await here.db.fetchval("select id from onceward.messages where template = 'digest'")
    await here.until(digest, "success")
    await here.set_clock("2026-05-02 11:15+00")
    await release_expired(here.db)
    row = await here.until(id)
    assert (row["status"], row["reference"]) == ("success", f"digest:{digest}")
    assert len(here.sims.smtp.mails) == 1
