"""The second factor: codes of an authenticator app (TOTP), and recovery codes for a lost device. Passkeys:
`passkeys.py`.

A code has six digits and can be guessed, so attempts are limited per person, in the database. A code works once.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import asyncpg

from onceward.db import Connection, Database, Transaction
from onceward.lazy import lazy_module
from onceward.statements import read_statement
from onceward.trust import audit
from onceward.trust.errors import NotFound, TooManyFailures, TrustError
from onceward.trust.identity import Identity
from onceward.trust.metrics import SECURITY_EVENTS
from onceward.trust.organizations import find_user
from onceward.trust.secrets import SecretBox

if TYPE_CHECKING:
    import pyotp
else:
    pyotp = lazy_module("pyotp")

TABLE = "onceward.second_factors"
STEP_S = 30
DRIFT_STEPS = 1
"""How many time steps the clock of a phone may be early or late."""
ATTEMPTS = 10
ATTEMPTS_WINDOW_S = 900
WRONG_CODES = f"{ATTEMPTS} wrong codes in {ATTEMPTS_WINDOW_S // 60} minutes per person"
RECOVERY_CODES = 10
MOST_FACTORS = 20
LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"

COUNT = read_statement("trust", "count_failure")


class WrongCode(TrustError):
    """The code is wrong, was used before, or is too old."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A confirmed second factor of a person."""

    factor_id: UUID
    kind: str
    name: str
    created_at: datetime
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewTotp:
    """An authenticator app that is being added. The person scans `uri` and confirms with the first code."""

    factor_id: UUID
    secret: str
    uri: str


async def list_factors(conn: Connection, user_id: UUID) -> list[Factor]:
    """Return the confirmed factors of a person."""
    rows = await conn.fetch(
        f"select factor_id, kind, name, created_at, last_used_at from {TABLE}"
        " where user_id = $1 and confirmed_at is not null order by created_at, factor_id",
        user_id,
    )
    return [Factor(**dict(row)) for row in rows]


async def count_recovery_codes(conn: Connection, user_id: UUID) -> int:
    """Return how many unused recovery codes the person has."""
    return await conn.fetchval(
        "select count(*) from onceward.recovery_codes where user_id = $1 and used_at is null", user_id
    )


async def start_totp(tx: Transaction, box: SecretBox, user_id: UUID, *, name: str, issuer: str) -> NewTotp:
    """Create the secret of an authenticator app. It counts only after `confirm_totp`. Runs as the engine."""
    email = await tx.fetchval("select email from onceward.users where user_id = $1", user_id)
    await check_room(tx, user_id)
    # One unfinished attempt for each person.
    await tx.execute(f"delete from {TABLE} where user_id = $1 and confirmed_at is null", user_id)
    factor_id, secret = uuid4(), pyotp.random_base32()
    await tx.execute(
        f"insert into {TABLE} (factor_id, user_id, kind, name, secret) values ($1, $2, 'totp', $3, $4)",
        factor_id,
        user_id,
        factor_name(name, "Authenticator app"),
        box.seal(secret.encode(), table=TABLE, row=factor_id, column="secret"),
    )
    return NewTotp(factor_id, secret, _uri(secret, email, issuer))


async def find_unconfirmed(tx: Transaction, box: SecretBox, user_id: UUID, *, issuer: str) -> NewTotp | None:
    """Return the authenticator app that the person is adding, to show its secret again after a wrong first code."""
    row = await tx.fetchrow(
        f"select factor_id, secret, email from {TABLE} join onceward.users using (user_id)"
        " where user_id = $1 and kind = 'totp' and confirmed_at is null",
        user_id,
    )
    if row is None:
        return None
    secret = box.open(row["secret"], table=TABLE, row=row["factor_id"], column="secret").decode()
    return NewTotp(row["factor_id"], secret, _uri(secret, row["email"], issuer))


async def confirm_totp(tx: Transaction, box: SecretBox, user_id: UUID, code: str, *, actor: Identity) -> list[str]:
    """Confirm the authenticator app with its first code. Returns recovery codes if the person has none yet."""
    row = await tx.fetchrow(
        f"select factor_id, name, secret, last_step from {TABLE}"
        " where user_id = $1 and kind = 'totp' and confirmed_at is null for update",
        user_id,
    )
    if row is None:
        raise NotFound("no authenticator app is being added: start again")
    step = _matching_step(box, row, code)
    if step is None:
        raise WrongCode("the code is wrong: wait for the next one and check that the clock of your phone is right")
    await tx.execute(
        f"update {TABLE} set confirmed_at = onceward.now(), last_step = $2 where factor_id = $1", row["factor_id"], step
    )
    return await record_added(tx, user_id, row["factor_id"], kind="totp", actor=actor)


async def record_added(tx: Transaction, user_id: UUID, factor_id: UUID, *, kind: str, actor: Identity) -> list[str]:
    """Write that a factor was added to the audit log. Returns recovery codes if the person has none yet."""
    await audit.record(
        tx,
        "second_factor.added",
        entity_type="user",
        entity_id=user_id,
        changes={"kind": kind, "factor": str(factor_id)},
        actor=actor,
    )
    exists = await tx.fetchval("select exists (select from onceward.recovery_codes where user_id = $1)", user_id)
    return [] if exists else await replace_recovery_codes(tx, user_id, actor=actor)


async def remove_factor(tx: Transaction, user_id: UUID, factor_id: UUID, *, actor: Identity) -> None:
    """Remove a factor. Recovery codes end with the last one. Raises `NotFound`. Runs as the engine."""
    kind = await tx.fetchval(
        f"delete from {TABLE} where user_id = $1 and factor_id = $2 returning kind", user_id, factor_id
    )
    if kind is None:
        raise NotFound("this second factor does not exist")
    await tx.execute(
        "delete from onceward.recovery_codes where user_id = $1"
        f" and not exists (select from {TABLE} where user_id = $1 and confirmed_at is not null)",
        user_id,
    )
    await audit.record(
        tx, "second_factor.removed", entity_type="user", entity_id=user_id, changes={"kind": kind}, actor=actor
    )


async def reset_factors(tx: Transaction, email: str, *, actor: str, reason: str | None = None) -> UUID:
    """Remove all factors and recovery codes of a person who lost them, and end their sessions. Runs as the engine."""
    user_id = await find_user(tx, email)
    for table in ("second_factors", "recovery_codes", "sessions"):
        await tx.execute(f"delete from onceward.{table} where user_id = $1", user_id)
    await audit.record(tx, "second_factor.reset", entity_type="user", entity_id=user_id, actor=actor, reason=reason)
    return user_id


async def replace_recovery_codes(tx: Transaction, user_id: UUID, *, actor: Identity) -> list[str]:
    """Create new recovery codes, which are shown once. The old ones stop working. Runs as the engine."""
    codes = [
        "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(4)) for _ in range(RECOVERY_CODES)
    ]
    await tx.execute("delete from onceward.recovery_codes where user_id = $1", user_id)
    await tx.execute(
        "insert into onceward.recovery_codes (user_id, hash) select $1, unnest($2::bytea[])",
        user_id,
        [_hash(code) for code in codes],
    )
    await audit.record(tx, "recovery_codes.created", entity_type="user", entity_id=user_id, actor=actor)
    return codes


async def check_code(db: Database, box: SecretBox, user_id: UUID, code: str) -> None:
    """Accept a code of an authenticator app, or a recovery code, exactly once.

    Raises `WrongCode`, or `TooManyFailures` after too many wrong codes, also for a right one: otherwise guessing would
    work.
    """
    person = hashlib.sha256(b"second factor of " + user_id.bytes).digest()
    async with db.acquire() as conn:
        # Counted before the check: attempts at the same time must not all see a count below the limit.
        row = await conn.fetchrow(COUNT, person, float(ATTEMPTS_WINDOW_S))
    assert row is not None
    if row["failures"] > ATTEMPTS:
        raise TooManyFailures(max(1, row["left_s"]))
    async with db.transaction(role="engine") as tx:
        if await _use(tx, box, user_id, code):
            await tx.execute("delete from onceward.auth_failures where client = $1", person)
            return
        SECURITY_EVENTS.labels("second_factor.failed").inc()
        await audit.record(
            tx, "second_factor.failed", entity_type="user", entity_id=user_id, actor=f"session:{user_id}"
        )
    raise WrongCode("the code is wrong, too old, or was used before: enter the code that the app shows now")


async def _use(tx: Transaction, box: SecretBox, user_id: UUID, code: str) -> bool:
    given = _typed(code)
    if given.isdecimal():
        rows = await tx.fetch(
            f"select factor_id, secret, last_step from {TABLE}"
            " where user_id = $1 and kind = 'totp' and confirmed_at is not null for update",
            user_id,
        )
        for row in rows:
            step = _matching_step(box, row, given)
            if step is not None:
                await tx.execute(
                    f"update {TABLE} set last_step = $2, last_used_at = onceward.now() where factor_id = $1",
                    row["factor_id"],
                    step,
                )
                return True
        return False
    used = await tx.fetchval(
        "update onceward.recovery_codes set used_at = onceward.now()"
        " where user_id = $1 and hash = $2 and used_at is null returning 1",
        user_id,
        _hash(given),
    )
    if used:
        await audit.record(tx, "recovery_code.used", entity_type="user", entity_id=user_id, actor=f"session:{user_id}")
    return bool(used)


async def check_room(tx: Transaction, user_id: UUID) -> None:
    """Raise `TrustError` if the person has as many factors as one may have."""
    if await tx.fetchval(f"select count(*) from {TABLE} where user_id = $1", user_id) >= MOST_FACTORS:
        raise TrustError(f"you have {MOST_FACTORS} second factors already: remove one first")


def factor_name(given: str, otherwise: str) -> str:
    return given.strip()[:100] or otherwise


def _matching_step(box: SecretBox, row: asyncpg.Record, code: str) -> int | None:
    """Return the time step of the code, or None if the code is wrong or not newer than the last used one."""
    totp = pyotp.TOTP(box.open(row["secret"], table=TABLE, row=row["factor_id"], column="secret").decode())
    given, now = _typed(code).encode(), int(time.time()) // STEP_S
    for step in range(now - DRIFT_STEPS, now + DRIFT_STEPS + 1):
        if step > row["last_step"] and secrets.compare_digest(totp.generate_otp(step).encode(), given):
            return step
    return None


def _uri(secret: str, email: str, issuer: str) -> str:
    return pyotp.TOTP(secret).provisioning_uri(email, issuer_name=issuer)  # pyright: ignore[reportUnknownMemberType]


def _typed(code: str) -> str:
    """Return a code without the spaces that people type."""
    return code.replace(" ", "").strip().lower()[:40]


def _hash(code: str) -> bytes:
    return hashlib.sha256(code.replace("-", "").encode()).digest()
