"""Several organizations on one installation: each has its own users, runs and errors, even under the same ids and numbers."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from onceward.messages import senders
from onceward_apps.engagement.store import views
from tests.engagement.house import House, counts


async def test_the_same_user_id_in_two_organizations_is_two_users(house: House) -> None:
    other, user = await house.add_organization("other"), uuid4()
    await house.user(id=user, inactive=timedelta(days=15))
    await house.user(id=user, inactive=timedelta(days=15), organization=other)
    assert counts(await house.daily()) == (2, 2, 0, 0)
    for organization in (house.organization, other):
        assert (await house.row(user, organization))["state"] == "goodbye_sent"
        async with house.acting(organization) as tx:
            [run] = await views.runs(tx, organization)
            assert (run["processed"], run["succeeded"]) == (1, 1)
            assert len(await views.user_messages(tx, user)) == 1


async def test_activity_of_one_organization_does_not_reach_the_other(house: House) -> None:
    other, user = await house.add_organization("other"), uuid4()
    await house.user(id=user, inactive=timedelta(days=15))
    await house.user(id=user, inactive=timedelta(days=15), organization=other)
    await house.daily()
    await house.clock.advance(hours=1)
    await house.active(user)
    assert (await house.row(user))["state"] == "active"
    assert (await house.row(user, other))["state"] == "goodbye_sent"


async def test_a_source_of_the_whole_installation_finds_the_organization_by_the_number(house: House) -> None:
    await house.source()
    user = await house.user(number="+5511933334444")
    assert await house.reply("+4915112345678", "stop") == "unknown_number"
    assert await house.reply("+5511933334444", "stop") == "stop"
    assert (await house.row(user))["reengagement_opt_out"]
    other = await house.add_organization("other")
    await house.user(number="+5511933334444", organization=other)
    assert await house.reply("+5511933334444", "help") == "ambiguous_number"
    third = await house.user(number="+5511933334444", organization=await house.add_organization("third"))
    assert await house.reply("+5511933334444", "STOP") == "stop", (
        "STOP is never dropped, in whichever organization the number is saved"
    )
    await house.drain()
    stopped = "select count(*) from engagement.user_profiles where whatsapp_jid like '%5511933334444' and reengagement_opt_out"
    assert await house.db.fetchval(stopped) == 3
    assert third


async def test_a_message_belongs_to_the_organization_whose_number_received_it(house: House) -> None:
    await house.source()
    user = await house.user(number="+5511933334444", inactive=timedelta(days=15))
    other = await house.add_organization("other")
    await house.user(id=user, number="+5511933334444", organization=other)
    async with house.db.transaction(role="engine") as tx:
        await senders.assign(tx, house.organization, "whatsapp", house.whatsapp.phone_number_id, actor="test")
    assert await house.reply("+5511933334444", "stop") == "stop"
    assert (await house.row(user))["reengagement_opt_out"]
    assert not (await house.row(user, other))["reengagement_opt_out"]
