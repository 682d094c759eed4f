"""What is committed while a send waits for a lock is obeyed: opt-outs, erasures, refused accounts. No other send ages."""

from __future__ import annotations

import asyncio

import pytest

from onceward.messages import opt_out
from onceward.messages.erasers import ERASERS
from onceward.messages.lines import Line
from onceward.messages.preferences import unsubscribe_by_token
from onceward.messages.send_starts import Beginnings, BeginningSend
from onceward.messages.troubles import Troubles
from onceward.services.outcome import Refused
from onceward.testing import until
from onceward.trust import create_organization
from onceward.trust.erase import erase

BLOCKED = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


async def blocked(db) -> None:
    async def waits() -> bool:
        return await db.fetchval(BLOCKED) > 0

    await until(waits)


@pytest.mark.parametrize("change", ["opt_out", "link", "erasure"])
async def test_what_is_committed_while_a_send_waits_for_a_lock_is_obeyed(office, change: str) -> None:
    """Two connections: the first holds the lock of one message, and commits a change about another one of its batch."""
    here = await office()
    first = await here.send("news", to="bob@example.org", key="bob")
    second = await here.send("news", key="ada")
    token = (await here.message(second))["token"]
    async with here.db.transaction(role="engine") as holder:
        await holder.execute("select from onceward.messages where id = $1 for update", first)
        leases = await here.db.fetch("update onceward.work set lease = id returning id")
        assert {row["id"] for row in leases} == {first, second}
        erasing: asyncio.Task[object] | None = None
        begins = [BeginningSend(id, id, True, False, False, "en", False) for id in (first, second)]
        waiting = asyncio.create_task(Beginnings(here.db)._begin(begins))
        await blocked(here.db)
        match change:
            case "opt_out":
                async with here.engine.transaction() as tx:
                    await opt_out(tx, "ada@example.org", source="reply")
            case "link":
                await unsubscribe_by_token(here.db, token, source="link")
            case _:
                erasing = asyncio.create_task(erase(here.db, "ada@example.org", ERASERS, organization=None, actor="t"))
                await asyncio.wait([erasing], timeout=2)
    if erasing is not None:
        await erasing
    verdicts = await waiting
    assert verdicts[0] == "go"
    assert verdicts[1] in (("opted_out",) if change != "erasure" else ("superseded", "erased"))
    assert (await here.message(second))["status"] != "processing"


async def test_a_message_that_waited_for_its_slot_meets_no_account_that_was_refused_meanwhile(office, wires) -> None:
    """It would only cost a useless call. A message that probes the account goes on, and another account does."""
    here = await office(wires.sms)
    id = await here.send(to="+4915112345678", channel="sms")
    await here.db.execute("update onceward.work set lease = id")
    refused = Refused("20003", permanent=False, account=True, advice="Pay.")
    async with here.db.transaction(role="engine") as tx:
        owner = (await create_organization(tx, "own", actor="t")).organization_id
    await Troubles(here.db).report(Line("sms", owner), None, refused)
    begin = BeginningSend(id, id, True, False, False, "en", False)
    beginnings = Beginnings(here.db)

    async def verdict(begin: BeginningSend) -> str:
        await here.db.execute("update onceward.messages set sending = null, sending_since = null, status = 'pending'")
        return await beginnings.begin(begin)

    assert await verdict(begin) == "go"
    await Troubles(here.db).report(Line("sms", None), None, refused)
    assert await verdict(begin) == "parked"
    assert await verdict(begin._replace(probes=True)) == "go"
    await here.db.execute("update onceward.messages set organization_id = $1", owner)
    await here.db.execute("delete from onceward.account_troubles where organization_id is not null")
    assert await verdict(begin._replace(owned=True)) == "go"
