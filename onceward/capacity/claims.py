"""Claim places of a pool, extend, sell and release the claims.

    claim ──▶ held ──convert──▶ sold ──release──▶ released
               │ ▲ └────────release────────────▶ released
      expires  ▼ │ extend, convert: if still free
             expired

A hold ends at its time (`until <= now`), even before a process marks it as expired. Each call is one round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from onceward.capacity.errors import CapacityRefused, UnknownClaim, UnknownPool, UnknownUnit
from onceward.capacity.model import Claim, Claimed, Refusal, Want
from onceward.db import Transaction
from onceward.statements import read_statement

CLAIM = "select ids, until, refusals from onceward.capacity_claim($1, $2, $3, $4, $5, $6)"
RENEW = "select until, refusals from onceward.capacity_renew($1, $2, $3)"
RELEASE = "select onceward.capacity_release($1)"
HELD_BY = read_statement("capacity", "list_claims")


async def claim(tx: Transaction, wants: Sequence[Want], *, holder: str, until: datetime | timedelta | None) -> Claimed:
    """Claim all of `wants`, or raise `CapacityRefused` and claim none. `until` is the end or the duration of the hold.

    `until=None` sells at once. A unit that the holder already holds is not refused: it is held for the longer time.
    """
    if not wants:
        raise ValueError(f"wants of holder {holder!r} is empty: give at least one Want")
    units = [(want.pool, want.unit) for want in wants if want.unit is not None]
    if len(set(units)) != len(units):
        raise ValueError(f"wants of holder {holder!r} names a unit twice: {units}")
    if not 1 <= len(holder) <= 200:
        raise ValueError(f"holder must have 1 to 200 characters, not {len(holder)}")
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
    """Extend all holds or none, and never shorten one. An expired hold is renewed if its place is still free."""
    at, after = _moment(until)
    return await _renew(tx, claims, at, after)


async def convert(tx: Transaction, claims: Sequence[int]) -> Claimed:
    """Sell all holds or none. An expired hold is sold if its place is still free. A second call changes nothing."""
    return await _renew(tx, claims, None, None)


async def release(tx: Transaction, claims: Sequence[int]) -> tuple[int, ...]:
    """Release holds and sales. Return the ids that were still held or sold. A second call changes nothing."""
    return tuple(cast(list[int], await tx.fetchval(RELEASE, sorted(set(claims)))))


async def held_by(tx: Transaction, holder: str) -> list[Claim]:
    """Return all claims of a holder, oldest first, including those that have ended."""
    rows = await tx.fetch(HELD_BY, tx.organization, holder)
    return [
        Claim(row["id"], row["pool"], row["unit"], row["quantity"], row["holder"], row["state"], row["expires_at"])
        for row in rows
    ]


async def _renew(tx: Transaction, claims: Sequence[int], at: datetime | None, after: timedelta | None) -> Claimed:
    if not claims:
        raise ValueError("claims is empty: give the ids that claim() returned")
    ids = sorted(set(claims))
    row = await tx.fetchrow(RENEW, ids, at, after)
    assert row is not None
    _raise_for(row["refusals"])
    return Claimed(tuple(ids), row["until"])


def _moment(until: datetime | timedelta | None) -> tuple[datetime | None, timedelta | None]:
    """Return a time, or a duration that the database counts from the moment at which it holds the lock."""
    match until:
        case timedelta():
            if until <= timedelta(0):
                raise ValueError(f"until is {until}: the duration of a hold must be positive")
            return None, until
        case datetime():
            if until.tzinfo is None:
                raise ValueError(f"until is {until}: use a datetime with a time zone")
            return until, None
        case None:
            return None, None


def _raise_for(refusals: list[dict[str, Any]] | None) -> None:
    if not refusals:
        return
    for refusal in refusals:
        match refusal["reason"]:
            case "unknown pool":
                raise UnknownPool(f"there is no pool {refusal['pool']!r}")
            case "unknown unit":
                raise UnknownUnit(f"pool {refusal['pool']!r} has no unit {refusal['unit']!r}")
            case "unit missing":
                raise UnknownUnit(f"pool {refusal['pool']!r} has named units: set Want(unit=...)")
            case "unknown claim":
                raise UnknownClaim(f"there is no claim {refusal['claim']}")
            case _:
                continue
    raise CapacityRefused([_refusal(refusal) for refusal in refusals])


def _refusal(row: dict[str, Any]) -> Refusal:
    until = row.get("until")
    return Refusal(
        pool=row["pool"],
        unit=row["unit"],
        reason=row["reason"],
        requested=int(row.get("wanted", 1)),
        free=int(row.get("free", 0)),
        until=None if until is None else datetime.fromisoformat(until),
    )
