"""The waitlist: who is next, what an invite holds, and how it ends."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from onceward.testing import assert_published, assert_sent, drain
from onceward_apps.learning import waitlist
from onceward_apps.learning.cohorts import set_capacity
from onceward_apps.learning.errors import (
    AlreadyEnrolled,
    CohortFull,
    InviteInvalid,
    LearningError,
    NotEnrollable,
    NotFound,
)
from onceward_apps.learning.link_tokens import hash_token
from tests.learning.school import School


async def join(school: School, cohort: UUID, *names: str, priority: int = 0) -> list[UUID]:
    students = [await school.student(name) for name in names]
    for student in students:
        async with school.transaction() as tx:
            await waitlist.join(tx, cohort, student, priority=priority)
    return students


async def token(school: School, student: UUID) -> str:
    """Return the token of the newest invite, from the link in its mail."""
    data: Any = await school.db.fetchval(
        "select m.data from learning.waitlist_invites i join onceward.messages m on m.key = 'invite:' || i.id"
        " where i.user_id = $1 order by i.sent_at desc, m.id desc limit 1",
        student,
    )
    return str(data["enrollUrl"]).rsplit("/", 1)[-1]


async def promote(school: School, cohort: UUID) -> int:
    async with school.transaction() as tx:
        return await waitlist.promote(tx, cohort)


@pytest.mark.acceptance("promoteFromWaitlists")
async def test_a_freed_place_is_offered_by_priority_then_expired_invites_then_age(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    await school.enrol(cohort)
    [old, _young] = await join(school, cohort, "Old", "Young")
    [refunded] = await join(school, cohort, "Refunded", priority=10)
    async with school.transaction() as tx:
        await set_capacity(tx, cohort, 2, actor="ops")
    await drain(school.engine)
    assert (await school.row("waitlist_entries", user_id=refunded))["status"] == "INVITED"
    assert await promote(school, cohort) == 0, "an outstanding invite counts as a taken place"

    await school.db.execute("update learning.waitlist_entries set expired_invites = 1 where user_id = $1", old)
    async with school.transaction() as tx:
        await set_capacity(tx, cohort, 3, actor="ops")
    await drain(school.engine)
    assert (await school.row("waitlist_entries", user_id=old))["status"] == "ACTIVE"
    [event, _] = await assert_published(school.engine, "waitlist.promoted", count=2)
    assert event.data["userName"] == "Refunded"
    await school.verify()


async def test_only_the_hash_of_the_token_is_stored(school: School) -> None:
    cohort = await school.cohort()
    [ada] = await join(school, cohort, "Ada")
    await promote(school, cohort)
    secret = await token(school, ada)
    invite = await school.row("waitlist_invites", user_id=ada)
    assert invite["token_hash"] == hash_token(secret)
    assert len(secret) >= 43
    assert secret not in str(dict(invite))


async def test_an_invite_is_accepted_by_paying(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    [ada] = await join(school, cohort, "Ada")
    await promote(school, cohort)
    with pytest.raises(CohortFull):
        await school.start(cohort, await school.student("Other"))
    invite = await token(school, ada)
    await school.enrol(cohort, ada, invite=invite)
    assert (await school.row("waitlist_entries", user_id=ada))["status"] == "ENROLLED"
    assert (await school.row("waitlist_invites", user_id=ada))["status"] == "ACCEPTED"
    async with school.transaction() as tx:
        with pytest.raises(InviteInvalid, match="used"):
            await waitlist.read_invite(tx, invite)
    await school.verify()


async def test_a_checkout_from_an_invite_keeps_the_place_until_its_page_ends(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    [ada] = await join(school, cohort, "Ada")
    await promote(school, cohort)
    await school.later(hours=47, minutes=50)
    session = await school.start(cohort, ada, invite=await token(school, ada))
    await school.later(hours=48, minutes=5)
    await school.schedule("learning.invite_cleanup")
    assert (await school.row("waitlist_invites", user_id=ada))["status"] == "SENT"
    with pytest.raises(CohortFull):
        await school.start(cohort, await school.student("Other"))
    school.stripe.pay(session)
    await school.deliver()
    assert await school.count("enrollments", "user_id = $1", ada) == 1
    await school.verify()


async def test_another_persons_invite_gives_no_place(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    [ada] = await join(school, cohort, "Ada")
    await promote(school, cohort)
    with pytest.raises(CohortFull):
        await school.start(cohort, await school.student("Thief"), invite=await token(school, ada))


@pytest.mark.acceptance("cleanupExpiredInvites")
async def test_an_expired_invite_goes_to_the_next_and_three_remove_the_person(school: School) -> None:
    """Without the order by expired invites and the limit, the first person would be invited for ever."""
    cohort = await school.cohort(capacity=1, starts_in_days=60)
    [first, second] = await join(school, cohort, "First", "Second")
    await promote(school, cohort)
    invited = [first]
    for round in range(1, 6):
        await school.later(hours=49 * round)
        await school.schedule("learning.invite_cleanup")
        row = await school.db.fetchrow("select user_id from learning.waitlist_entries where status = 'INVITED'")
        invited.append(row["user_id"])
    assert invited == [first, second, first, second, first, second]
    await school.later(hours=49 * 6)
    await school.schedule("learning.invite_cleanup")
    assert await school.count("waitlist_entries", "status = 'REMOVED' and expired_invites = 3") == 2
    await assert_sent(school.engine, "waitlist-removed", count=2)
    assert await school.free(cohort) == 1
    async with school.transaction() as tx:
        with pytest.raises(InviteInvalid, match="expired"):
            await waitlist.read_invite(tx, await token(school, first))
    await school.verify()


async def test_who_is_removed_reads_why_and_the_next_in_the_queue_gets_the_place(school: School) -> None:
    cohort = await school.cohort(capacity=1)
    [first, second] = await join(school, cohort, "First", "Second")
    await promote(school, cohort)
    entry = await school.db.fetchval("select id from learning.waitlist_entries where user_id = $1", first)
    async with school.transaction() as tx:
        await waitlist.remove(tx, entry, reason="You are in the other cohort.", actor="op")
        with pytest.raises(NotFound, match="that waits"):
            await waitlist.remove(tx, entry, reason="twice", actor="op")
    statuses = await school.db.fetch("select user_id, status from learning.waitlist_entries")
    assert {row["user_id"]: row["status"] for row in statuses} == {first: "REMOVED", second: "INVITED"}
    [sent] = await assert_sent(school.engine, "waitlist-removed", count=1)
    assert sent.data["reason"] == "You are in the other cohort."
    async with school.transaction() as tx:
        with pytest.raises(InviteInvalid, match="withdrawn"):
            await waitlist.read_invite(tx, await token(school, first))
    await school.verify()


async def test_invites_close_at_the_start_of_the_cohort(school: School) -> None:
    cohort = await school.cohort(starts_in_days=1)
    [ada] = await join(school, cohort, "Ada")
    await promote(school, cohort)
    invite = await school.row("waitlist_invites", user_id=ada)
    assert invite["expires_at"] == (await school.row("cohorts", id=cohort))["starts_at"]
    await school.later(days=1, minutes=1)
    assert await promote(school, cohort) == 0
    async with school.transaction() as tx:
        with pytest.raises(InviteInvalid):
            await waitlist.read_invite(tx, await token(school, ada))


@pytest.mark.acceptance("promoteFromWaitlists")
async def test_the_schedule_invites_where_a_promotion_was_missed(school: School) -> None:
    cohort = await school.cohort(capacity=2)
    await join(school, cohort, "Ada", "Bob", "Cy")
    await school.schedule("learning.waitlist_promotion")
    assert await school.count("waitlist_entries", "status = 'INVITED'") == 2
    await assert_sent(school.engine, "waitlist-spot-available", count=2)


async def test_who_enrols_without_the_invite_gives_its_place_back(school: School) -> None:
    cohort = await school.cohort(capacity=2)
    [ada] = await join(school, cohort, "Ada")
    await promote(school, cohort)
    session = await school.start(cohort, ada)  # without the token of the invite: a second place is held
    school.stripe.pay(session)
    await school.deliver()
    assert await school.free(cohort) == 1
    assert (await school.row("waitlist_entries", user_id=ada))["status"] == "ENROLLED"
    await school.verify()


async def test_bad_requests_get_a_clear_answer(school: School) -> None:
    cohort = await school.cohort()
    student = await school.student()
    await school.enrol(cohort, student)
    draft = await school.cohort(status="DRAFT")
    async with school.transaction() as tx:
        with pytest.raises(AlreadyEnrolled):
            await waitlist.join(tx, cohort, student)
        with pytest.raises(NotEnrollable):
            await waitlist.join(tx, draft, student)
        with pytest.raises(LearningError):
            await waitlist.join(tx, student, cohort)
        for guess in ("", "x" * 43, "' or 1=1 --", "\u0000"):
            with pytest.raises(InviteInvalid, match="does not exist"):
                await waitlist.read_invite(tx, guess)
