"""Seats of a company: N places in a cohort that it pays for by invoice, and that its people take with a link.

The places are sold at once, so nobody else gets them. A person confirms the address with a mail, and then has the seat.
If the enrolment ends, or moves, the seat is free again for the next person of the company.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from onceward import Tx
from onceward.capacity import CapacityRefused, Want, claim, release
from onceward.money import Money
from onceward_apps.learning import links, schools, users
from onceward_apps.learning.enrollments import add_enrolment
from onceward_apps.learning.errors import (
    AlreadyEnrolled,
    CohortFull,
    InvalidRequest,
    LearningError,
    NotEnrollable,
    NotFound,
    SeatsTaken,
)
from onceward_apps.learning.jobs import promote_soon
from onceward_apps.learning.link_tokens import hash_token, new_token
from onceward_apps.learning.model import pool_key
from onceward_apps.learning.store import cohorts, enrollments
from onceward_apps.learning.store import seats as rows
from onceward_apps.learning.store import users as user_rows

MOST = 500
"""Seats of one block. A company with more gets another one."""
OPEN = ("OPEN", "CONFIRMED", "IN_PROGRESS")


async def reserve(
    tx: Tx,
    cohort_id: UUID,
    *,
    company: str,
    contact_email: str,
    number: int,
    email_domain: str = "",
    reference: str = "",
    actor: str,
) -> Any:
    """Give a company seats in a cohort, and mail its contact the link with which its people take them."""
    if not 1 <= number <= MOST:
        raise InvalidRequest(f"seats is {number}: 1 to {MOST} are allowed")
    company = " ".join(company.split())
    domain = email_domain.strip().lower().removeprefix("@")
    if not 1 <= len(company) <= 200:
        raise InvalidRequest(f"company has {len(company)} characters: 1 to 200 are allowed")
    if domain and ("@" in domain or "." not in domain or " " in domain):
        raise InvalidRequest(f"email_domain is {domain[:80]!r}: write it as example.org")
    contact = users.checked_email(contact_email)
    cohort = await cohorts.lock(tx, cohort_id)  # two requests at once may both see no seats of the company
    if cohort is None:
        raise NotFound(f"there is no cohort {cohort_id}")
    if await rows.has_open(tx, cohort_id, company):
        raise LearningError(
            f"{company} has seats in {cohort['name']} already: end them first, or add a word to the name"
        )
    if cohort["status"] not in OPEN:
        raise NotEnrollable(f"{cohort['name']} is {cohort['status']}: nobody can be enrolled")
    block_id, token = uuid4(), new_token()
    try:
        claimed = await claim(tx, [Want(pool_key(cohort_id))] * number, holder=f"seats:{block_id}", until=None)
    except CapacityRefused as refused:
        raise CohortFull(f"{cohort['name']} has fewer than {number} free places") from refused
    block = await rows.add(
        tx,
        block_id,
        cohort_id,
        company=company,
        contact_email=contact,
        email_domain=domain or None,
        reference=reference.strip() or None,
        token_hash=hash_token(token),
        claims=claimed.ids,
    )
    await _mail_contact(tx, block, cohort, number, token)
    changes = {"company": company, "seats": number}
    await tx.audit("seats_reserved", entity_type="SeatBlock", entity_id=block_id, changes=changes, actor=actor)
    return block


async def send_again(tx: Tx, block_id: UUID, *, actor: str) -> None:
    """Mail the contact a new link. The older one does not work any more."""
    block = await _lock(tx, block_id)
    if await rows.was_sent_now(tx, block_id):
        raise LearningError("a link was sent within the last minute: wait for it")
    token = new_token()
    await rows.set_token(tx, block_id, hash_token(token))
    await _mail_contact(tx, block, await cohorts.find(tx, block["cohort_id"]), await rows.free(tx, block_id), token)
    await tx.audit("seats_link_sent", entity_type="SeatBlock", entity_id=block_id, actor=actor)


async def end(tx: Tx, block_id: UUID, *, actor: str) -> int:
    """Take back the seats that nobody has, and return how many. Those who have one keep it."""
    block = await _lock(tx, block_id)
    freed = await rows.end(tx, block_id)
    if freed:
        await release(tx, freed)
        await promote_soon(tx, block["cohort_id"])
    await tx.audit(
        "seats_ended", entity_type="SeatBlock", entity_id=block_id, changes={"freed": len(freed)}, actor=actor
    )
    return len(freed)


async def check(tx: Tx, block: Any, email: str) -> None:
    """Raise if a person with this address cannot take a seat now. `block` is a row of `store.seats.by_token`."""
    if block["ended_at"] is not None or block["cohort_status"] not in OPEN:
        raise NotEnrollable(f"{block['cohort_name']} takes nobody with this link any more")
    domain = block["email_domain"]
    if domain and not email.strip().lower().endswith(f"@{domain}"):
        raise SeatsTaken(f"these seats are for people with an address at {domain}")
    if await rows.free(tx, block["id"]) == 0:
        raise SeatsTaken(f"all seats of {block['company']} are taken")


async def take(tx: Tx, block_id: UUID, user_id: UUID) -> UUID:
    """Give a person a seat of a company."""
    block = await rows.find(tx, block_id)
    cohort = await cohorts.share(tx, block["cohort_id"])
    user = await user_rows.get_locked(tx, user_id)
    if await enrollments.live(tx, user_id, cohort["id"]) is not None:
        raise AlreadyEnrolled(f"you are enrolled in {cohort['name']} already")
    if block["ended_at"] is not None or cohort["status"] not in OPEN or user["erased_at"] is not None:
        raise NotEnrollable(f"{cohort['name']} takes nobody with this link any more")
    place = await rows.choose(tx, block_id)
    if place is None:
        raise SeatsTaken(f"all seats of {block['company']} are taken")
    enrollment_id = uuid4()
    await add_enrolment(tx, enrollment_id, cohort, user, place["claim_id"], Money(0, cohort["currency"]))
    await rows.take(tx, place["id"], enrollment_id)
    return enrollment_id


async def _lock(tx: Tx, block_id: UUID) -> Any:
    block = await rows.lock(tx, block_id)
    if block is None:
        raise NotFound(f"there are no seats {block_id}")
    if block["ended_at"] is not None:
        raise LearningError(f"the seats of {block['company']} have ended")
    return block


async def _mail_contact(tx: Tx, block: Any, cohort: Any, number: int, token: str) -> None:
    data = {"company": block["company"], "cohortName": cohort["name"], "seats": number, "link": links.seats(token)}
    data |= {"startDate": cohort["starts_at"], "domain": block["email_domain"]}
    hashed = hash_token(token).hex()
    look = await schools.in_mail(tx, data)
    await tx.send("company-seats", to=block["contact_email"], key=f"seats:{block['id']}:{hashed[:16]}", data=look)
