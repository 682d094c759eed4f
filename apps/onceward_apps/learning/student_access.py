"""Who a student is: the session that a sign-in link opens, and the signed token with which a page subscribes to live
queries.

A live query gets no cookies of this app, so the page sends `<user id>.<session id>.<expiry>.<signature>` as an
argument. The signature is made with the key of the organization. The token ends with the session, also when the student
signs out: queries watch the session, so that they show nothing more within moments.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from hashlib import sha256
from uuid import UUID

from onceward import Query
from onceward.live import Caller
from onceward.trust import ring_keys
from onceward_apps.learning.app import SIGNING_KEY
from onceward_apps.learning.model import as_uuid

MAX_TOKEN = 200


def make_token(key: bytes, user_id: UUID, session_id: UUID, expires_at: datetime) -> str:
    text = f"{user_id}.{session_id}.{int(expires_at.timestamp())}"
    return f"{text}.{_sign(ring_keys(key)[0], text)}"


def read_token(key: bytes, token: str, now: datetime) -> UUID | None:
    """Return the user whom a token names, or None if it is not valid or has ended."""
    text, _, signature = token.rpartition(".")
    named, _, expiry = text.rpartition(".")
    user_id = claimed_user(named)
    if user_id is None or not expiry.isdecimal() or len(token) > MAX_TOKEN:
        return None
    if not any(hmac.compare_digest(_sign(each, text).encode(), signature.encode()) for each in ring_keys(key)):
        return None
    return user_id if datetime.fromtimestamp(int(expiry), UTC) > now else None


def claimed_user(token: str) -> UUID | None:
    """Return the user whom a token names, without a check. For queries whose rule has checked the token."""
    return as_uuid(token.partition(".")[0])


def claimed_session(token: str) -> UUID | None:
    """Return the session that a token names, without a check."""
    return as_uuid(token.partition(".")[2].partition(".")[0])


async def is_signed_in(q: Query, token: str) -> bool:
    """Return whether the session of a page's token is open, and run the query again when it ends. True without a
    token."""
    if not token:
        return True
    session_id = claimed_session(token)
    if session_id is None:
        return False
    q.watch("learning.student_sessions", id=session_id)
    return await q.fetchval(OPEN_SESSION, session_id)


def _sign(key: bytes, text: str) -> str:
    return urlsafe_b64encode(hmac.digest(key, f"student:{text}".encode(), sha256)[:24]).decode()


# -- rules of live queries -------------------------------------------------------------------------------------------

OPEN_SESSION = "select exists (select from learning.student_sessions where id = $1 and expires_at > onceward.now())"
KEY = """
select u.organization_id, k.key, onceward.now() as now
  from learning.users u join learning.signing_keys k on k.organization_id = u.organization_id
  join learning.student_sessions s on s.id = $2 and s.user_id = u.id and s.expires_at > onceward.now()
 where u.id = $1 and u.erased_at is null
"""
IS_MEMBER = """
select e.organization_id from learning.enrollments e
 where e.cohort_id = $1 and e.user_id = $2 and e.status = 'ACTIVE' and e.access_expires_at > onceward.now()
"""


async def student_of(caller: Caller) -> tuple[UUID, UUID] | None:
    """Return the user and the organization of a student: by the token of our pages, or by an end user's JWT."""
    token = str(caller.arguments.get("access") or "")
    if token:
        row = (
            await caller.db.fetchrow(KEY, claimed_user(token), claimed_session(token))
            if len(token) <= MAX_TOKEN
            else None
        )
        if row is None:
            return None
        key = caller.unseal(SIGNING_KEY, row["key"], row=row["organization_id"])
        user_id = read_token(key, token, row["now"])
        return None if user_id is None else (user_id, row["organization_id"])
    user_id = as_uuid(caller.user_in(caller.organization))
    if user_id is None or caller.organization is None:
        return None
    return user_id, caller.organization


async def _is_operator(caller: Caller, kind: str, id: UUID) -> UUID | None:
    """Return the organization if the caller is a member of it and the row belongs to it."""
    if caller.identity is None or not caller.identity.may("viewer"):
        return None
    owner = await caller.db.fetchval("select learning.organization_of($1, $2)", kind, str(id))
    return owner if owner is not None and caller.organization in (None, owner) else None


async def member(caller: Caller) -> bool | UUID:
    """Allow students of the cohort while their access lasts, and members of the organization."""
    cohort_id = caller.arguments["cohort_id"]
    student = await student_of(caller)
    if student is None:
        return await _is_operator(caller, "cohort", cohort_id) or False
    organization = await caller.db.fetchval(IS_MEMBER, cohort_id, student[0])
    return organization if organization == student[1] else False


async def member_self(caller: Caller) -> bool | UUID:
    """Allow a student of the cohort who asks about themselves (`user_id`)."""
    student = await student_of(caller)
    if student is None or student[0] != caller.arguments["user_id"]:
        return False
    organization = await caller.db.fetchval(IS_MEMBER, caller.arguments["cohort_id"], student[0])
    return organization if organization == student[1] else False


async def enrolled(caller: Caller) -> bool | UUID:
    """Allow the student of the enrolment, and members of the organization."""
    enrollment_id = caller.arguments["enrollment_id"]
    student = await student_of(caller)
    if student is None:
        return await _is_operator(caller, "enrollment", enrollment_id) or False
    row = await caller.db.fetchrow(
        "select organization_id, user_id from learning.enrollments where id = $1", enrollment_id
    )
    if row is None or row["user_id"] != student[0] or row["organization_id"] != student[1]:
        return False
    return row["organization_id"]


async def public_cohort(caller: Caller) -> bool | UUID:
    """Allow everybody to look at a cohort that is not a draft, and members of the organization at all."""
    cohort_id = caller.arguments["cohort_id"]
    row = await caller.db.fetchrow("select organization_id, status from learning.cohorts where id = $1", cohort_id)
    if row is None:
        return False
    if row["status"] != "DRAFT":
        return row["organization_id"]
    return await _is_operator(caller, "cohort", cohort_id) or False


async def own_topic(caller: Caller) -> bool:
    """Allow a user the topics with their own id, and operators those of their organization."""
    if caller.identity is None:
        return False
    if caller.identity.kind == "token":  # messages of a topic reach only the organization that the caller acts for
        return caller.user_in(caller.organization) == str(caller.arguments["id"])
    return caller.identity.may("operator")


async def cohort_place(caller: Caller) -> bool | UUID:
    """Allow the students of a cohort to be present there."""
    cohort_id = as_uuid(str(caller.arguments["id"]))
    student = await student_of(caller)
    if cohort_id is None or student is None:
        return False
    organization = await caller.db.fetchval(IS_MEMBER, cohort_id, student[0])
    return organization if organization == student[1] else False
