"""The waitlist: join, invite the next person when a place is free, accept or lose the invite.

An invite holds its place like a sale in progress, so that outstanding invites count as taken places. Lock order:
cohort, user, entry, invite, capacity pool.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from onceward import Tx
from onceward.capacity import CapacityRefused, Want, claim, release
from onceward_apps.learning import activity, notices
from onceward_apps.learning.app import settings
from onceward_apps.learning.errors import AlreadyEnrolled, InviteInvalid, NotEnrollable, NotFound
from onceward_apps.learning.link_tokens import hash_token, new_token
from onceward_apps.learning.model import is_enrollable, pool_key
from onceward_apps.learning.store import cohorts, enrollments, users
from onceward_apps.learning.store import waitlist as rows
from onceward_apps.learning.student_mails import mail, mail_many

CLEANED_UP = timedelta(hours=2)
"""The place of an invite is held until the clean-up ends the invite, and then goes to the next person in the queue.
If it ended with the invite, a visitor could take it before. Two hours after the start nobody needs it."""


async def join(tx: Tx, cohort_id: UUID, user_id: UUID, *, priority: int = 0) -> Any:
    """Put a person on the waitlist. Who is on it already keeps the place in the queue."""
    cohort = await cohorts.share(tx, cohort_id)
    if cohort is None:
        raise NotFound(f"there is no cohort {cohort_id}")
    if not is_enrollable(cohort["status"], cohort["starts_at"], cohort["now"]):
        raise NotEnrollable(f"{cohort['name']} is {cohort['status']}: its waitlist is closed")
    user = await users.lock(tx, user_id)
    if user is None or user["erased_at"] is not None:
        raise NotFound(f"there is no user {user_id}")
    if await enrollments.live(tx, user_id, cohort_id) is not None:
        raise AlreadyEnrolled(f"user {user_id} is enrolled in {cohort['name']}")
    return await add(tx, cohort_id, user_id, priority=priority)


async def add(tx: Tx, cohort_id: UUID, user_id: UUID, *, priority: int) -> Any:
    """Add an entry. The caller has locked the cohort and the user."""
    entry = await rows.join(tx, user_id, cohort_id, priority)
    if entry["is_new"]:
        await activity.record(tx, "waitlist_joined", cohort_id=cohort_id, user_id=user_id, priority=entry["priority"])
    return entry


async def set_priority(tx: Tx, entry_id: UUID, priority: int, *, actor: str) -> Any:
    entry = await rows.entry(tx, entry_id)
    if entry is None or entry["status"] not in ("ACTIVE", "INVITED"):
        raise NotFound(f"there is no waitlist entry {entry_id} that waits")
    if entry["priority"] == priority:
        return entry
    entry = await rows.set_priority(tx, entry_id, priority)
    await tx.audit(
        "waitlist_priority_set",
        entity_type="WaitlistEntry",
        entity_id=entry_id,
        changes={"priority": {"to": priority}},
        actor=actor,
    )
    return entry


async def remove(tx: Tx, entry_id: UUID, *, reason: str, actor: str) -> Any:
    """End the entry of a person who waits, and tell them why. The place of an invite goes to the next in the queue."""
    known = await rows.find(tx, entry_id)
    if known is None:
        raise NotFound(f"there is no waitlist entry {entry_id}")
    await cohorts.lock(tx, known["cohort_id"])
    invite = await rows.open_invite(tx, entry_id)
    entry = await rows.end_entry(tx, entry_id, "REMOVED", reason)
    if entry is None:
        raise NotFound(f"there is no waitlist entry {entry_id} that waits")
    if invite is not None:
        await rows.end_invite(tx, invite["id"], "REVOKED")
        if invite["claim_id"] is not None:
            await release(tx, [invite["claim_id"]])
    await _mail_removal(tx, entry, await users.get(tx, entry["user_id"]), known["cohort_name"], reason=reason)
    await activity.record(tx, "waitlist_removed", cohort_id=entry["cohort_id"], user_id=entry["user_id"])
    await tx.audit("waitlist_left", entity_type="WaitlistEntry", entity_id=entry_id, reason=reason, actor=actor)
    await promote(tx, entry["cohort_id"])
    return entry


async def _mail_removal(tx: Tx, entry: Any, user: Any, cohort_name: str, *, reason: str | None) -> None:
    data = {"name": user["name"], "cohortName": cohort_name, "reason": reason}
    data |= {"expiredInvites": entry["expired_invites"]}
    await mail(tx, "waitlist-removed", user, key=f"waitlist:{entry['id']}:removed", data=data)


async def promote(tx: Tx, cohort_id: UUID) -> int:
    """Invite people while places are free. Returns the number of invites."""
    cohort = await cohorts.lock(tx, cohort_id)  # one promotion at a time: two would invite the same person
    if cohort is None or not is_enrollable(cohort["status"], cohort["starts_at"], cohort["now"]):
        return 0
    # Invites close at the start of the cohort.
    until = min(cohort["now"] + timedelta(hours=settings().invite_hours), cohort["starts_at"])
    held_until = cohort["starts_at"] + CLEANED_UP
    invited = 0
    while (entry := await rows.next_entry(tx, cohort_id)) is not None:
        if await enrollments.live(tx, entry["user_id"], cohort_id) is not None:
            await rows.end_entry(tx, entry["id"], "ENROLLED")
            continue
        invite_id = uuid4()
        try:
            held = await claim(tx, [Want(pool_key(cohort_id))], holder=f"invite:{invite_id}", until=held_until)
        except CapacityRefused:
            break
        token = new_token()
        invite = await rows.add_invite(
            tx, invite_id=invite_id, entry=entry, token_hash=hash_token(token), claim_id=held.ids[0], expires_at=until
        )
        await rows.mark_invited(tx, entry["id"])
        await notices.invited(tx, entry, cohort, invite, token)
        await activity.record(tx, "waitlist_invited", cohort_id=cohort_id, user_id=entry["user_id"])
        invited += 1
    return invited


async def read_invite(tx: Tx, token: str) -> Any:
    """Return the invite of a token, or raise `InviteInvalid` if it is unknown, used, revoked or expired."""
    invite = await rows.invite_by_token(tx, hash_token(token))
    if invite is None:
        raise InviteInvalid("this invite does not exist")
    match invite["status"]:
        case "ACCEPTED":
            raise InviteInvalid("this invite was used")
        case "REVOKED":
            raise InviteInvalid("this invite was withdrawn")
        case _ if invite["status"] == "EXPIRED" or invite["expires_at"] <= invite["now"]:
            raise InviteInvalid("this invite has expired")
        case _:
            pass
    if not is_enrollable(invite["cohort_status"], invite["starts_at"], invite["now"]):
        raise InviteInvalid(f"{invite['cohort_name']} is no longer open for enrolment")
    return invite


async def expire_invite(tx: Tx, invite_id: UUID, cohort_id: UUID) -> bool:
    """End an invite whose time is over, put the person back, and invite the next one to the place in the same commit.

    False: it has ended or was extended.
    """
    await cohorts.lock(tx, cohort_id)  # the order of locks: `promote` needs the cohort
    invite = await rows.lock_invite(tx, invite_id)
    if invite is None or invite["status"] != "SENT" or invite["expires_at"] > invite["now"]:
        return False
    await rows.end_invite(tx, invite_id, "EXPIRED")
    if invite["claim_id"] is not None:
        await release(tx, [invite["claim_id"]])
    entry = await rows.back_to_queue(tx, invite["waitlist_entry_id"], settings().max_expired_invites)
    if entry is not None and entry["status"] == "REMOVED":
        user = await users.get(tx, entry["user_id"])
        await _mail_removal(tx, entry, user, invite["cohort_name"], reason=None)
        await activity.record(tx, "waitlist_removed", cohort_id=entry["cohort_id"], user_id=entry["user_id"])
    await promote(tx, cohort_id)
    return True


async def enrolled(tx: Tx, user_id: UUID, cohort_id: UUID, *, claim_id: int | None) -> None:
    """End the entry of a person who has enrolled. An invite whose place was not used gives its place back."""
    entry = await rows.live_entry(tx, user_id, cohort_id)
    if entry is None:
        return
    invite = await rows.open_invite(tx, entry["id"])
    if invite is not None:
        used = claim_id is not None and invite["claim_id"] == claim_id
        await rows.end_invite(tx, invite["id"], "ACCEPTED" if used else "REVOKED")
        if not used and invite["claim_id"] is not None:
            await release(tx, [invite["claim_id"]])
    await rows.end_entry(tx, entry["id"], "ENROLLED")


async def close(tx: Tx, cohort_id: UUID, *, reason: str, limit: int) -> int:
    """End up to `limit` entries of the waitlist with their invites, and tell the people. Returns their number."""
    entries = await rows.live_entries(tx, cohort_id, limit)
    ended = await rows.close(tx, [entry["id"] for entry in entries], reason)
    if claims := [claim_id for claim_id in ended if claim_id is not None]:
        await release(tx, claims)
    mails = [
        (
            entry,
            f"waitlist:{entry['id']}:closed",
            {"name": entry["user_name"], "cohortName": entry["cohort_name"], "reason": reason},
        )
        for entry in entries
    ]
    await mail_many(tx, "waitlist-closed", mails)
    return len(entries)
