"""Send deliveries again: one, all that failed since a time, or those that match a filter.

A bulk resend is a row that stores its progress. Any node may take its next step, so it survives restarts. Each step is
one transaction that resends about one second's share of the rate, so progress is visible and it can be cancelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.outbox.errors import Invalid, NotResent
from onceward.statements import named, read_statement, scoped
from onceward.trust import Identity, NotFound, audit

Actor = str | Identity
Verb = Literal["recover", "replay"]
DEFAULT_RATE_PER_S = 100.0
MOST_PER_STEP = 500
STATUSES = ("pending", "success", "skipped", "failed", "dead_letter", "cancelled")
UNDELIVERED = ("pending", "failed", "dead_letter", "cancelled")
WHY_NOT = {
    "running": "it is being sent now; try again when that attempt has ended",
    "gone": "its body has been deleted",
    "disabled": "its endpoint is disabled; enable it first",
}

COLUMNS = """
id, organization_id, endpoint_id, verb, types, statuses, since, until, missing, rate_per_s, state, matched, resent,
skipped, created_by, created_at, finished_at
"""
MATCHED = scoped(read_statement("outbox", "count_matching_deliveries"))
START = named(f"""
insert into onceward.resends
    (organization_id, endpoint_id, verb, since, until, types, statuses, missing, rate_per_s, matched, created_by)
values ($organization, $endpoint_id, $verb, $since, $until, $types, $statuses, $missing, $rate_per_s, $matched,
    $created_by)
returning {COLUMNS}
""")
NEXT = read_statement("outbox", "take_resend")
NEXT_DELIVERIES = read_statement("outbox", "next_deliveries")
NEXT_MISSING = read_statement("outbox", "next_missing_events")
SAVE_STEP = read_statement("outbox", "save_resend_step")


@dataclass(frozen=True, slots=True)
class Resend:
    """A bulk resend with its progress."""

    id: int
    organization_id: UUID | None
    endpoint_id: UUID | None
    verb: Verb
    types: list[str] | None
    statuses: list[str] | None
    since: datetime
    until: datetime
    missing: bool
    rate_per_s: float
    state: str
    matched: int
    resent: int
    skipped: int
    created_by: str
    created_at: datetime
    finished_at: datetime | None


async def resend_one(db: Database, organization: UUID | None, delivery_id: int, *, actor: Actor) -> None:
    """Send one delivery again now, whatever its status is. Raises `NotResent` with the reason if that is impossible."""
    async with db.transaction(role="engine", organization=organization) as tx:
        if not await tx.fetchval(
            "select 1 from onceward.deliveries where id = $1 and organization_id is not distinct from $2",
            delivery_id,
            organization,
        ):
            raise NotFound(f"there is no delivery {delivery_id} in this organization")
        outcome: str = await tx.fetchval("select onceward.resend($1)", delivery_id)
        if outcome != "resent":
            raise NotResent(f"delivery {delivery_id} was not sent again: {WHY_NOT[outcome]}")
        await audit.record(tx, "delivery.resent", entity_type="delivery", entity_id=delivery_id, actor=actor)


async def start(
    db: Database,
    organization: UUID | None,
    *,
    verb: Verb,
    since: datetime,
    actor: Actor,
    until: datetime | None = None,
    endpoint_id: UUID | None = None,
    types: Sequence[str] | None = None,
    statuses: Sequence[str] | None = None,
    rate_per_s: float = DEFAULT_RATE_PER_S,
) -> Resend:
    """Start a bulk resend.

    `recover` sends undelivered events, also those published while the endpoint was disabled. `replay` sends all
    deliveries that match the filter, delivered or not.
    """
    until = until or datetime.now(UTC)
    for name, moment in (("since", since), ("until", until)):
        if moment.tzinfo is None:
            raise Invalid(name, f"{moment.isoformat()} has no time zone; write it as 2026-01-31T12:00:00Z")
    if since >= until:
        raise Invalid("since", f"{since.isoformat()} is not before {until.isoformat()}")
    if not 0.1 <= rate_per_s <= MOST_PER_STEP:
        raise Invalid("rate_per_s", f"must be between 0.1 and {MOST_PER_STEP}, not {rate_per_s:g}")
    for status in statuses or ():
        if status not in STATUSES:
            raise Invalid("statuses", f"{status!r} is not one of {', '.join(STATUSES)}")
    if verb == "recover":
        if endpoint_id is None:
            raise Invalid("endpoint_id", "is missing; `recover` works on one endpoint")
        statuses = UNDELIVERED
    filters = (endpoint_id, organization, since, until, _list(types), _list(statuses))
    async with db.transaction(role="engine", organization=organization) as tx:
        await _check_endpoint(tx, organization, endpoint_id)
        matched = await tx.fetchval(MATCHED.of(organization), *filters)
        name = actor.actor if isinstance(actor, Identity) else actor
        row = await tx.fetchrow(
            START.text,
            *START.values(
                organization=organization,
                endpoint_id=endpoint_id,
                verb=verb,
                since=since,
                until=until,
                types=_list(types),
                statuses=_list(statuses),
                missing=verb == "recover",
                rate_per_s=rate_per_s,
                matched=matched,
                created_by=name,
            ),
        )
        assert row is not None
        await audit.record(
            tx,
            f"deliveries.{verb}",
            entity_type="resend",
            entity_id=row["id"],
            actor=actor,
            metadata={"endpoint_id": str(endpoint_id), "since": since.isoformat(), "until": until.isoformat()},
        )
    return Resend(**dict(row))


async def cancel(db: Database, organization: UUID | None, id: int, *, actor: Actor) -> bool:
    """Stop a bulk resend. Deliveries that are already due are still sent. Returns False if the resend had ended."""
    async with db.transaction(role="engine", organization=organization) as tx:
        done = await tx.fetchval(
            "update onceward.resends set state = 'cancelled', finished_at = onceward.now()"
            " where id = $1 and state = 'running' and organization_id is not distinct from $2 returning true",
            id,
            organization,
        )
        if done:
            await audit.record(tx, "deliveries.resend_cancelled", entity_type="resend", entity_id=id, actor=actor)
    return bool(done)


async def listed(
    db: Database, organization: UUID | None, *, before: int | None = None, limit: int = 50
) -> list[Resend]:
    """Return the bulk resends of an organization, newest first."""
    own = "organization_id is null and $1::uuid is null" if organization is None else "organization_id = $1"
    rows = await db.fetch(
        f"select {COLUMNS} from onceward.resends where {own}"
        " and ($3::bigint is null or id < $3) order by id desc limit $2",
        organization,
        limit,
        before,
    )
    return [Resend(**dict(row)) for row in rows]


async def get(db: Database, organization: UUID | None, id: int) -> Resend:
    row = await db.fetchrow(
        f"select {COLUMNS} from onceward.resends where id = $1 and organization_id is not distinct from $2",
        id,
        organization,
    )
    if row is None:
        raise NotFound(f"there is no resend {id} in this organization")
    return Resend(**dict(row))


async def step(db: Database) -> bool:
    """Take the next step of one bulk resend. Returns False if no step is due."""
    async with db.transaction(role="engine") as tx:
        row = await tx.fetchrow(NEXT)
        if row is None:
            return False
        at_once = min(MOST_PER_STEP, max(1, round(row["rate_per_s"])))
        filters = (row["endpoint_id"], row["organization_id"], row["since"], row["until"], row["types"])
        # Ids grow, so `id < resend id` excludes newer deliveries, among them those that this resend adds.
        ids = [
            each["id"]
            for each in await tx.fetch(NEXT_DELIVERIES, *filters, row["statuses"], row["cursor"], at_once, row["id"])
        ]
        outcomes = [await tx.fetchval("select onceward.resend($1)", id) for id in ids]
        cursor = ids[-1] if ids else row["cursor"]
        missing_cursor, added = row["missing_cursor"], 0
        if row["missing"] and len(ids) < at_once:
            missing_cursor, added = await _add_missing(tx, filters, row["missing_cursor"], at_once - len(ids))
        ended = len(ids) + added == 0
        # Below one delivery per second, the pause between steps enforces the rate.
        await tx.execute(
            SAVE_STEP,
            row["id"],
            cursor,
            missing_cursor,
            outcomes.count("resent") + added,
            len(outcomes) - outcomes.count("resent"),
            ended,
            added,
            max(0.0, 1 / row["rate_per_s"] - 1),
        )
    return True


async def _add_missing(tx: Transaction, filters: tuple[Any, ...], cursor: int, most: int) -> tuple[int, int]:
    """Add deliveries of events that were published while the endpoint was disabled.

    Return the new cursor and their number.
    """
    endpoint_id, organization, since, until, types = filters
    added = 0
    for each in await tx.fetch(NEXT_MISSING, endpoint_id, organization, since, until, types, cursor, most):
        created: int = await tx.fetchval(
            "select onceward.fan_out($1, $2, $3, $4, $5)",
            each["id"],
            each["type"],
            each["channels"],
            organization,
            endpoint_id,
        )
        cursor = each["id"]
        added += created
    return cursor, added


async def _check_endpoint(tx: Transaction, organization: UUID | None, endpoint_id: UUID | None) -> None:
    if endpoint_id is None:
        return
    active = await tx.fetchval(
        "select active from onceward.endpoints where endpoint_id = $1 and deleted_at is null"
        " and organization_id is not distinct from $2",
        endpoint_id,
        organization,
    )
    if active is None:
        raise NotFound(f"there is no endpoint {endpoint_id} in this organization")
    if not active:
        raise NotResent("the endpoint is disabled; enable it first")


def _list(values: Sequence[str] | None) -> list[str] | None:
    return None if not values else list(values)
