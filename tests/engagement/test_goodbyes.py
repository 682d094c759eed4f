"""What became of a goodbye: sent late, refused, without an answer of the service; and users who act during the run."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
import structlog
from structlog.testing import capture_logs

from onceward_apps.engagement import activity, daily
from onceward_apps.engagement.app import EngagementSettings
from onceward_apps.engagement.model import held_out
from onceward_apps.engagement.overview import returned
from onceward_apps.engagement.store import candidates
from tests.engagement.house import House, counts

DAYS_15 = timedelta(days=15)


async def refused(house: House, user: UUID) -> None:
    """The next goodbye is refused for good."""
    house.whatsapp.unreachable.add(await house.number_of(user))


async def test_a_goodbye_expires_48_hours_after_it_was_really_sent(house: House) -> None:
    user = await house.user(inactive=DAYS_15)
    await house.daily()
    await house.clock.advance(hours=40)
    await house.daily()  # still queued: it cannot expire
    await house.clock.advance(hours=1)
    await house.drain()
    sent_at = house.clock.at
    await house.clock.advance(hours=47)
    await house.daily()
    row = await house.row(user)
    assert (row["state"], row["goodbye_sent_at"]) == ("goodbye_sent", sent_at)
    assert row["goodbye_expires_at"] == sent_at + timedelta(hours=48)
    await house.clock.advance(hours=1)
    await house.daily()
    assert await house.state(user) == "dormant"


async def test_a_goodbye_that_was_given_up_is_tried_again_after_a_week_three_times(house: House) -> None:
    user = await house.user(inactive=DAYS_15)
    await refused(house, user)
    for attempt in (1, 2, 3):
        assert counts(await house.daily()) == (1, 1, 0, 0), attempt
        await house.drain()
        await house.clock.advance(days=1)
        assert counts(await house.daily()) == (1, 0, 1, 0)
        row = await house.row(user)
        assert (row["state"], row["goodbye_failures"]) == ("active", attempt)
        await house.clock.advance(days=6, hours=23)
        assert counts(await house.daily()) == (0, 0, 0, 0)  # not before a week is over
        await house.clock.advance(hours=2)
    assert counts(await house.daily()) == (0, 0, 0, 0)
    row = await house.row(user)
    assert row["unreachable_because"] == "goodbye_failed"
    errors = await house.db.fetch(
        "select error ->> 'message' as error from onceward.run_items"
        " where key = $1::uuid || '/' || $2::uuid and outcome = 'failed' order by at",
        house.organization,
        user,
    )
    assert len(errors) == 3
    assert "unreachable" in errors[2]["error"]
    assert len(await house.queue(user)) == 3
    # New activity is a new beginning.
    await house.active(user)
    assert (await house.row(user))["unreachable_at"] is None
    await house.clock.advance(days=14)
    assert counts(await house.daily()) == (1, 1, 0, 0)


async def test_a_new_number_makes_an_unreachable_user_reachable(house: House) -> None:
    user = await house.user(inactive=DAYS_15, number=None)
    assert counts(await house.daily()) == (1, 0, 0, 1)
    assert (await house.row(user))["unreachable_because"] == "no_number"
    assert counts(await house.daily()) == (0, 0, 0, 0)
    async with house.acting() as tx:
        await activity.save_profile(tx, user, whatsapp_jid="+5511955556666")
    assert counts(await house.daily()) == (1, 1, 0, 0)


async def test_a_goodbye_whose_outcome_is_unknown_counts_as_sent(house: House) -> None:
    user = await house.user(inactive=DAYS_15)
    await house.daily()
    house.whatsapp.drop_after_send()
    await house.drain()
    assert [each["status"] for each in await house.queue(user)] == ["unknown"]
    for _ in range(4):
        await house.clock.advance(days=1)
        await house.daily()
    assert await house.state(user) == "dormant"
    assert len(await house.queue(user)) == 1
    assert len(house.whatsapp.messages) == 1


async def test_a_goodbye_that_the_service_could_not_deliver_is_given_up(house: House) -> None:
    user = await house.say_goodbye()
    await house.db.execute("update onceward.messages set delivery = 'failed' where recipient = $1", str(user))
    assert counts(await house.daily()) == (1, 0, 1, 0)
    assert await house.state(user) == "active"
    assert [each["status"] for each in await house.queue(user)] == ["failed"]
    assert (
        await house.db.fetchval("select error ->> 'message' from onceward.run_items where outcome = 'failed'")
        == "goodbye not sent: not delivered"
    )


async def test_a_user_who_acts_between_the_query_and_the_change_gets_no_goodbye(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, other = await house.user(inactive=DAYS_15), await house.user(inactive=DAYS_15)
    real = candidates.inactive

    async def slow(*args, **more):
        async for row in real(*args, **more):
            yield row
        await house.transact(user)

    monkeypatch.setattr(candidates, "inactive", slow)
    assert counts(await house.daily()) == (2, 1, 0, 1)
    assert (await house.state(user), await house.state(other)) == ("active", "goodbye_sent")
    assert await house.queue(user) == []


async def test_a_user_who_opts_out_during_the_run_gets_no_goodbye(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = await house.user(inactive=DAYS_15)
    real = candidates.inactive

    async def slow(*args, **more):
        async for row in real(*args, **more):
            yield row
        async with house.acting() as tx:
            await activity.set_opt_out(tx, user, True)

    monkeypatch.setattr(candidates, "inactive", slow)
    assert counts(await house.daily()) == (1, 0, 0, 1)
    assert await house.queue(user) == []


async def test_the_holdout_group_gets_no_goodbye_and_both_shares_are_reported(house: House) -> None:
    house.app.use_settings(EngagementSettings(holdout_percent=50))
    users = [await house.user(inactive=DAYS_15) for _ in range(12)]
    without = [user for user in users if held_out(user, 50)]
    told = [user for user in users if user not in without]
    await house.daily()
    await house.drain()
    assert {each["user_id"] for each in await house.queue()} == set(told)
    await house.clock.advance(days=3)
    await house.daily()
    assert {await house.state(user) for user in users} == {"dormant"}
    for user in told[:2]:
        await house.active(user)
    await house.clock.advance(days=12)
    await house.daily()
    await house.daily()  # counts nothing twice
    async with house.acting() as tx:
        shares = {row["group"]: row for row in await returned(tx, house.organization)}
    assert (shares["goodbye"]["users"], shares["goodbye"]["returned"]) == (len(told), min(2, len(told)))
    if without:
        assert (shares["holdout"]["users"], shares["holdout"]["returned"]) == (len(without), 0)


async def test_each_move_is_audited_with_its_run_as_the_cause(house: House) -> None:
    user = await house.user(inactive=DAYS_15)
    report = await house.daily()
    entry = await house.db.fetchrow(
        "select * from onceward.audit_log where entity_type = 'EngagementUser' and entity_id = $1"
        " and action = 'engagement_state_changed'",
        str(user),
    )
    assert entry["changes"] == {"state": ["active", "goodbye_sent"], "trigger": "inactivity_14d"}
    assert (entry["caused_by"], entry["organization_id"]) == (report.id, house.organization)


async def test_no_statement_is_made_per_user(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of statements of a run depends on the number of batches, not of users."""
    from onceward import Tx

    statements = 0

    def counting(verb: str):
        real = getattr(Tx, verb)

        async def call(self, *args):
            nonlocal statements
            statements += 1
            return await real(self, *args)

        return call

    async def measure(users: int) -> int:
        nonlocal statements
        for _ in range(users):
            await house.user(inactive=DAYS_15)
        with monkeypatch.context() as patch:
            for verb in ("fetch", "fetchrow", "fetchval", "execute"):
                patch.setattr(Tx, verb, counting(verb))
            statements = 0
            assert (await house.daily()).succeeded == users
        return statements

    assert await measure(2) == await measure(40)
    assert daily.DAILY == "engagement-daily"


async def test_what_whatsapp_reports_is_logged_with_ids_only(house: House) -> None:
    structlog.reset_defaults()
    await house.source(organization=house.organization)
    sent, lost = await house.say_goodbye(), await house.say_goodbye()
    with capture_logs() as lines:
        for user, status in ((sent, "sent"), (lost, "failed"), (lost, "failed")):
            number = (await house.number_of(user)).lstrip("+")
            reference = await house.db.fetchval(
                "select reference from onceward.messages where recipient = $1", str(user)
            )
            await house.deliver_status({"id": reference, "status": status, "timestamp": "1", "recipient_id": number})
    said = [line for line in lines if line["event"].startswith("engagement.message_")]
    [failed] = [line for line in said if line["event"] == "engagement.message_failed"]
    assert (failed["user_id"], failed["message_type"], failed["status"]) == (str(lost), "goodbye", "failed")
    assert (failed["destination"], failed["retry_count"]) == ("individual", 0)
    assert {"message_id", "error"} <= set(failed)
    assert number not in str(said)
    report = await house.daily()
    assert (report.failed, await house.state(lost), await house.state(sent)) == (1, "active", "goodbye_sent")


@pytest.mark.acceptance("002-H holes")
async def test_the_daily_run_does_not_undo_an_opt_in(house: House) -> None:
    """Opted out, the queued goodbye is suppressed, opted in again: the next run follows the last word of the user."""
    user = await house.user(inactive=DAYS_15)
    await house.daily()
    async with house.acting() as tx:
        await activity.set_opt_out(tx, user, True)
    await house.drain()
    async with house.acting() as tx:
        await activity.set_opt_out(tx, user, False)
    await house.clock.advance(days=1)
    await house.daily()
    opted_out = await house.db.fetchval(
        "select reengagement_opt_out from engagement.user_profiles where user_id = $1", user
    )
    row = await house.row(user)
    # The suppressed goodbye reached nobody, so the user, who wants messages again, gets one now.
    assert (opted_out, row["state"], row["goodbye_failures"]) == (False, "goodbye_sent", 0)
    await house.drain()
    assert [each["status"] for each in await house.queue(user)].count("sent") == 1


@pytest.mark.acceptance("002-H holes")
async def test_a_profile_that_is_saved_again_with_the_same_number_does_not_make_it_reachable(house: House) -> None:
    user = await house.user(inactive=DAYS_15)
    await refused(house, user)
    number = await house.number_of(user)
    goodbyes = 0
    for _ in range(12):
        await house.daily()
        await house.drain()
        goodbyes = len(await house.queue(user))
        await house.clock.advance(days=1)
        async with house.acting() as tx:
            await activity.save_profile(tx, user, whatsapp_jid=number)
    assert goodbyes == 2, "one goodbye a week"
    async with house.acting() as tx:
        await activity.save_profile(tx, user, whatsapp_jid="+5511987650000")
    assert (await house.row(user))["goodbye_failures"] == 0, "a new number may work"


@pytest.mark.acceptance("002-H holes")
async def test_the_end_of_many_goodbyes_moves_page_by_page(house: House) -> None:
    """Each page locks a few users only. Goodbyes that wait move behind the others, and the walk still ends."""
    house.app.use_settings(EngagementSettings(batch_size=2))
    users = [await house.user(inactive=DAYS_15) for _ in range(5)]
    await house.daily()
    before = [await house.row(user) for user in users]
    await house.clock.advance(hours=24)
    await house.daily()
    after = [await house.row(user) for user in users]
    moved = {
        round((new["goodbye_expires_at"] - old["goodbye_expires_at"]) / timedelta(hours=1))
        for old, new in zip(before, after, strict=True)
    }
    assert moved == {24}
    await house.drain()
    await house.clock.advance(hours=49)
    await house.daily()
    assert {await house.state(user) for user in users} == {"dormant"}
