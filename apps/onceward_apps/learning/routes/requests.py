"""Shared by all routes: the caller, the organization that a request acts for, limits, and errors with their status."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from pydantic import AfterValidator, Field, StringConstraints

from onceward import Engine, Tx
from onceward.limits import Rate
from onceward.messages import TooManyMails, limit_public_mail, plain_name
from onceward.trust import fingerprint
from onceward.web import (
    Identity,
    Problem,
    authenticator_of,
    client_of,
    engine_of,
    grants,
    request_transaction,
    require,
    secret_cookie,
)
from onceward_apps.learning import sign_in
from onceward_apps.learning.errors import LearningError, NotFound
from onceward_apps.learning.metrics import REQUESTS_REFUSED
from onceward_apps.learning.model import as_uuid
from onceward_apps.learning.store import people

EngineHere = Annotated[Engine, Depends(engine_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]
Refunder = Annotated[Identity, Depends(require("operator", permission="refund"))]
Email = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", max_length=320)]
Name = Annotated[str, Field(max_length=200), AfterValidator(plain_name)]
"""The name that a person gives in a form. It appears in mails, so it contains no URL."""

Title = Annotated[str, Field(min_length=1, max_length=200)]
Link = Annotated[str, Field(max_length=2000, pattern=r"^https?://[^\s\"'<>]+$")]
Reason = Annotated[str, Field(min_length=1, max_length=500)]

SESSION_COOKIE = "learning_session"
VISITOR_COOKIE = "learning_visitor"
SAFE_METHODS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Student:
    """A signed-in student: by our cookie, or by an end user's JWT whose subject is the id of the user."""

    user_id: UUID
    organization: UUID
    session: sign_in.StudentSession | None = None


def acting(engine: Engine, organization: UUID | None) -> AbstractAsyncContextManager[Tx]:
    """Open a transaction for the organization."""
    needed = "choose the organization to act for with the header X-Organization"
    return request_transaction(engine, organization, refusals=LearningError, problem=problem, needed=needed)


def problem(error: LearningError) -> Problem:
    return Problem(error.status, str(error), kind=type(error).__name__, code=error.code)


async def owner_of(engine: Engine, kind: str, value: object) -> UUID:
    """Return the organization of a cohort, user, enrolment or credential. Raise 404 if it does not exist."""
    async with engine.transaction() as tx:
        owner = await people.organization_of(tx, kind, str(value))
    if owner is None:
        raise problem(NotFound(f"this {kind} does not exist"))
    return owner


async def limit(engine: Engine, request: Request, what: str, *, per_minute: int, who: UUID | None = None) -> None:
    """Limit how often one client address, or one signed-in student, may do something."""
    key = f"learning:{what}:{who or fingerprint(client_of(request)).hex()}"
    async with engine.db.acquire() as conn:
        wait_s = await Rate(per_minute, per_s=60).take(conn, key)
    if wait_s:
        REQUESTS_REFUSED.labels(what).inc()
        raise Problem(
            429,
            f"too many requests: try again in {wait_s} seconds",
            kind="TooFast",
            headers={"Retry-After": str(wait_s)},
        )


async def has_allowance(engine: Engine, request: Request, what: str, *, number: int, per_s: int) -> bool:
    """Take one from the allowance of a client address. False: it is used up, and the caller does less."""
    key = f"learning:{what}:{fingerprint(client_of(request)).hex()}"
    async with engine.db.acquire() as conn:
        return not await Rate(number, per_s=per_s).take(conn, key)


def browser_of(request: Request) -> str:
    """Return the id of a browser: its visitor cookie, or a hash of its address if it has none yet."""
    visitor = request.cookies.get(VISITOR_COOKIE, "")
    return visitor if is_visitor(visitor) else f"address:{fingerprint(client_of(request)).hex()}"


def is_visitor(visitor: str) -> bool:
    """Whether a cookie has the form of the ids that we give."""
    return 16 <= len(visitor) <= 64 and visitor.isascii() and visitor.replace("-", "").replace("_", "").isalnum()


async def limit_mail(engine: Engine, request: Request, to: str) -> None:
    """Limit the mails that a form without a login can cause, also to one address."""
    try:
        await limit_public_mail(engine.db, to=to, client=client_of(request))
    except TooManyMails as error:
        REQUESTS_REFUSED.labels("mail").inc()
        headers = {"Retry-After": str(error.retry_after_s)}
        raise Problem(429, str(error), kind="TooFast", headers=headers) from error


@grants("sign-in of the student")
async def find_student(request: Request, engine: EngineHere) -> Student | None:
    """Return the signed-in student, or None without credentials."""
    if request.headers.get("authorization"):
        identity = await authenticator_of(request).identify(request)
        user_id = as_uuid(identity.user_in(identity.organization))
        if user_id is None or identity.organization is None:
            raise Problem(
                403, "this needs the token of a student: its subject is the user's id, with an organization_id"
            )
        return Student(user_id, identity.organization)
    return await find_visitor(request, engine)


async def find_visitor(request: Request, engine: EngineHere) -> Student | None:
    """Return the student who is signed in with a cookie, or None. A page for everybody ignores all other
    credentials."""
    token = secret_cookie(request, SESSION_COOKIE)
    session = None if not token else await sign_in.find_session(engine, token)
    if session is None:
        return None
    if request.method not in SAFE_METHODS:
        # Browsers send cookies with requests of other sites, too.
        authenticator_of(request).refuse_other_sites(request)
    return Student(session.user_id, session.organization, session)


@grants("sign-in of the student")
async def signed_in(student: Annotated[Student | None, Depends(find_student)]) -> Student:
    if student is None:
        raise Problem(401, "sign in first: ask for a link at /learn/sign-in")
    return student


MaybeStudent = Annotated[Student | None, Depends(find_student)]
Visitor = Annotated[Student | None, Depends(find_visitor)]
SignedIn = Annotated[Student, Depends(signed_in)]
