"""Claim places, keep them, sell them, give them back.

    claim ──▶ held ──convert──▶ sold ──release──▶ released
               │ ▲ └────────release────────────▶ released
      expires  ▼ │ extend, convert: if still free
             expired

A hold is over when its time is (`until <= now`), whether or not anybody has noticed. Each call is one round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from onceward.capacity.errors import Refused, UnknownClaim, UnknownPool, UnknownUnit
from onceward.capacity.model import Claim, Claimed, Refusal, Want
from onceward.db import Transaction

CLAIM = "select ids, until, refusals from onceward.capacity_claim($1, $2, $3, $4, $5, $6)"
RENEW = "select until, refusals from onceward.capacity_renew($1, $2, $3)"
RELEASE = "select onceward.capacity_release($1)"
HELD_BY = """
select c.id, p.key as pool, c.unit, c.quantity, c.holder, c.expires_at,
       case when c.state = 'held' and c.expires_at <= onceward.clock() then 'expired' else c.state end as state
from onceward.capacity_claims c
join onceward.capacity_pools p on p.id = c.pool_id
where c.organization_id = $1 and c.holder = $2
order by c.id
"""


async def claim(tx: Transaction, wants: Sequence[Want], *, holder: str, until: datetime | timedelta | None) -> Claimed:
    """Claim all of `wants` or none (`Refused`), held until a time or for a while; `until=None` sells at once.

    A unit that the holder has already is kept, for the longer of the two times, rather than refused.
    """
    if not wants:
        raise ValueError(f"{holder!r} wants nothing: give at least one Want")
    units = [(want.pool, want.unit) for want in wants if want.unit is not None]
    if len(set(units)) != len(units):
        raise ValueError(f"{holder!r} wants a unit twice: {units}")
    if not 1 <= len(holder) <= 200:
        raise ValueError(f"holder of {len(holder)} characters: give 1 to 200 that name who holds it")
    at, after = _moment(until)
    row = await tx.fetchrow(
        CLAIM,
        [want.pool for want in wants],
        [want.unit for want in wants],
        [want.quantity for want in wants],
        holder,
        at,
        after,
    )
    assert row is not None
    _raise_for(row["refusals"])
    return Claimed(tuple(row["ids"]), row["until"])


async def extend(tx: Transaction, claims: Sequence[int], *, until: datetime | timedelta) -> Claimed:
    """Hold on for longer, all or none; never shorter. What has expired is held again if it is still free."""
    at, after = _moment(until)
    return await _renew(tx, claims, at, after)


async def convert(tx: Transaction, claims: Sequence[int]) -> Claimed:
    """Sell what is held, all or none. A hold that expired meanwhile is sold if it is still free. Twice is once."""
    return await _renew(tx, claims, None, None)


async def release(tx: Transaction, claims: Sequence[int]) -> tuple[int, ...]:
    """Give back holds and sales; returns those that were still live. Twice is once."""
    return tuple(cast(list[int], await tx.fetchval(RELEASE, sorted(set(claims)))))


async def held_by(tx: Transaction, holder: str) -> list[Claim]:
    """All claims of a holder, ended ones included, oldest first."""
    rows = await tx.fetch(HELD_BY, tx.organization, holder)
    return [
        Claim(row["id"], row["pool"], row["unit"], row["quantity"], row["holder"], row["state"], row["expires_at"])
        for row in rows
    ]


async def _renew(tx: Transaction, claims: Sequence[int], at: datetime | None, after: timedelta | None) -> Claimed:
    if not claims:
        raise ValueError("no claims given: give the ids that claim returned")
    ids = sorted(set(claims))
    row = await tx.fetchrow(RENEW, ids, at, after)
    assert row is not None
    _raise_for(row["refusals"])
    return Claimed(tuple(ids), row["until"])


def _moment(until: datetime | timedelta | None) -> tuple[datetime | None, timedelta | None]:
    """A time as given, or a while that the database counts from the moment it has the lock."""
    match until:
        case timedelta():
            if until <= timedelta(0):
                raise ValueError(f"until is {until}: a hold must last for a while")
            return None, until
        case datetime():
            if until.tzinfo is None:
                raise ValueError(f"until is {until}: give a time with a time zone")
            return until, None
        case None:
            return None, None


def _raise_for(refusals: list[dict[str, Any]] | None) -> None:
    if not refusals:
        return
    for refusal in refusals:
        match refusal["reason"]:
            case "unknown pool":
                raise UnknownPool(f"no such pool: {refusal['pool']!r}")
            case "unknown unit":
                raise UnknownUnit(f"pool {refusal['pool']!r} has no unit {refusal['unit']!r}")
            case "unit missing":
                raise UnknownUnit(f"pool {refusal['pool']!r} has named units: say which one is wanted")
            case "unknown claim":
                raise UnknownClaim(f"no such claim: {refusal['claim']}")
            case _:
                continue
    raise Refused([_refusal(refusal) for refusal in refusals])


def _refusal(found: dict[str, Any]) -> Refusal:
    until = found.get("until")
    return Refusal(
        pool=found["pool"],
        unit=found["unit"],
        reason=found["reason"],
        wanted=int(found.get("wanted", 1)),
        free=int(found.get("free", 0)),
        until=None if until is None else datetime.fromisoformat(until),
    )
