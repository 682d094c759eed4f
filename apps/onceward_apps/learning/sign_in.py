"""Sign-in of students by a one-time link in a mail. There are no passwords; the database has hashes of tokens only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from onceward import Engine, Tx
from onceward_apps.learning import links, seats
from onceward_apps.learning.checkout import has_place
from onceward_apps.learning.enrollments import enrol_free
from onceward_apps.learning.errors import AlreadyEnrolled, CohortFull, LearningError, NotEnrollable
from onceward_apps.learning.jobs import promote_soon
from onceward_apps.learning.link_tokens import hash_token, new_token
from onceward_apps.learning.model import is_enrollable
from onceward_apps.learning.store import cohorts, enrollments, people, users
from onceward_apps.learning.store import seats as seat_rows
from onceward_apps.learning.student_mails import mail

LINK_MINUTES = 30
SESSION_DAYS = 14


class LinkInvalid(LearningError):
    """The sign-in link is unknown, used or expired."""

    status = 410
    code = "link_invalid"


@dataclass(frozen=True, slots=True)
class StudentSession:
    """An open session. `token` is the value of the cookie."""

    token: str
    id: UUID
    user_id: UUID
    organization: UUID
    expires_at: datetime
    enrollment_id: UUID | None = None
    """The place in a free cohort that the link was for."""
    refused: str | None = None
    """Why there was no place: the code of the error."""


async def send_links(engine: Engine, email: str) -> int:
    """Mail a link for every organization that knows the address. Returns their number, which nobody else may learn.

    A link that was mailed in the last minute and not used is not followed by another one: a form may be sent twice.
    """
    async with engine.transaction() as tx:
        known = await people.users_with_address(tx, email)
    for row in known:
        async with engine.transaction(organization=row["organization_id"]) as tx:
            await users.lock(tx, row["user_id"])  # two requests at once may both see no link
            if not await people.has_fresh_link(tx, row["user_id"]):
                await send_link(tx, row["user_id"])
    return len(known)


async def remind(engine: Engine, organization: UUID, user_id: UUID, cohort_id: UUID) -> None:
    """Mail a sign-in link to a person who is enrolled and seems to enrol again.

    A stranger who used the address sees nothing.
    """
    async with engine.transaction(organization=organization) as tx:
        await users.lock(tx, user_id)  # two requests at once may both see no link
        is_enrolled = await enrollments.live(tx, user_id, cohort_id) is not None
        if is_enrolled and not await people.has_fresh_link(tx, user_id):
            await send_link(tx, user_id)


async def send_confirmation(engine: Engine, organization: UUID, user_id: UUID, cohort_id: UUID) -> None:
    """Mail a link with which a person takes a place in a free cohort. For who is enrolled it is a sign-in."""
    async with engine.transaction(organization=organization) as tx:
        cohort = await cohorts.share(tx, cohort_id)
        if not is_enrollable(cohort["status"], cohort["starts_at"], cohort["now"]):
            raise NotEnrollable(f"{cohort['name']} is not open for enrolment")
        if not await has_place(tx, cohort_id):
            raise CohortFull(f"{cohort['name']} is full: join the waitlist")
        await users.lock(tx, user_id)
        if not await people.has_fresh_link(tx, user_id, cohort_id):
            await send_link(tx, user_id, confirms=cohort, takes_place=True)


async def confirm_for_seat(engine: Engine, organization: UUID, token: str, user_id: UUID, email: str) -> None:
    """Mail a link with which a person of a company takes one of its seats. For who is enrolled it is a sign-in."""
    async with engine.transaction(organization=organization) as tx:
        block = await seat_rows.by_token(tx, hash_token(token))
        await users.lock(tx, user_id)
        if await enrollments.live(tx, user_id, block["cohort_id"]) is None:
            await seats.check(tx, block, email)
        if not await people.has_fresh_link(tx, user_id, block["cohort_id"]):
            cohort = await cohorts.find(tx, block["cohort_id"])
            await send_link(tx, user_id, confirms=cohort, takes_place=True, seat_block=block["id"])


async def confirm_for_waitlist(engine: Engine, organization: UUID, user_id: UUID, cohort_id: UUID) -> None:
    """Mail a link to a person on the waitlist whose address nobody has confirmed: without it there is no invite."""
    async with engine.transaction(organization=organization) as tx:
        user = await users.get_locked(tx, user_id)
        if user["confirmed_at"] is None and not await people.has_fresh_link(tx, user_id):
            await send_link(tx, user_id, confirms=await cohorts.find(tx, cohort_id))


async def send_link(
    tx: Tx, user_id: UUID, *, confirms: Any = None, takes_place: bool = False, seat_block: UUID | None = None
) -> str:
    """Mail a sign-in link to a user, and return its token.

    `confirms` is the cohort for which a person gave the address; with `takes_place` using the link enrols in it, on a
    seat of `seat_block` if that is given.
    """
    token = new_token()
    hashed = hash_token(token)
    await people.add_link(tx, hashed, user_id, LINK_MINUTES, confirms["id"] if takes_place else None, seat_block)
    user = await people.user(tx, user_id)
    data = {
        "name": user["name"],
        "organization": user["organization_name"],
        "minutes": LINK_MINUTES,
        "link": links.sign_in(token),
    }
    now: datetime = await tx.fetchval("select onceward.now()")
    expires_at = now + timedelta(minutes=LINK_MINUTES)
    template = "student-sign-in"
    if confirms is not None:
        template = "enrollment-confirm"
        data |= {"cohortName": confirms["name"], "waitlist": not takes_place}
    await mail(tx, template, user, key=f"sign-in:{hashed.hex()}", data=data, expires_at=expires_at)
    return token


async def redeem(engine: Engine, token: str) -> StudentSession:
    """Use a link and open a session. A second use fails."""
    organization = await _organization(engine, "sign_in_link", token)
    if organization is None:
        raise LinkInvalid("this sign-in link is unknown, used or expired: ask for a new one")
    async with engine.transaction(organization=organization) as tx:
        link = await people.use_link(tx, hash_token(token))
        if link is None:
            raise LinkInvalid("this sign-in link is unknown, used or expired: ask for a new one")
        user_id, session = link["user_id"], new_token()
        row = await people.open_session(tx, hash_token(session), user_id, SESSION_DAYS)
        for cohort_id in await people.waits_for(tx, user_id):
            await promote_soon(tx, cohort_id)  # the address is confirmed now
        opened = StudentSession(session, row["id"], user_id, organization, row["expires_at"])
        return opened if link["cohort_id"] is None else await _take_place(tx, opened, link)


async def _take_place(tx: Tx, session: StudentSession, link: Any) -> StudentSession:
    """Enrol in the cohort of the link. Who cannot be enrolled is signed in all the same, and reads why."""
    cohort_id: UUID = link["cohort_id"]
    try:
        if link["seat_block_id"] is not None:
            return replace(session, enrollment_id=await seats.take(tx, link["seat_block_id"], session.user_id))
        return replace(session, enrollment_id=await enrol_free(tx, cohort_id, session.user_id))
    except AlreadyEnrolled:
        known = await enrollments.live(tx, session.user_id, cohort_id)
        return session if known is None else replace(session, enrollment_id=known["id"])
    except LearningError as error:
        return replace(session, refused=error.code)


async def is_open(engine: Engine, token: str) -> bool:
    """Whether a link can still be used. Looking at it does not use it."""
    organization = await _organization(engine, "sign_in_link", token)
    if organization is None:
        return False
    async with engine.transaction(organization=organization) as tx:
        return await people.link_is_open(tx, hash_token(token))


async def find_session(engine: Engine, token: str) -> StudentSession | None:
    organization = await _organization(engine, "student_session", token)
    if organization is None:
        return None
    async with engine.transaction(organization=organization) as tx:
        row = await people.session(tx, hash_token(token))
    return None if row is None else StudentSession(token, row["id"], row["user_id"], organization, row["expires_at"])


async def sign_out(engine: Engine, session: StudentSession) -> None:
    async with engine.transaction(organization=session.organization) as tx:
        await people.end_session(tx, hash_token(session.token))


async def _organization(engine: Engine, kind: str, token: str) -> UUID | None:
    if not 20 <= len(token) <= 100 or "\x00" in token:
        return None
    async with engine.transaction() as tx:
        return await people.organization_of(tx, kind, token)
