"""Manage the sources stored in the database: add, list, rotate, pause, resume, delete.

Each change is audited in its transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from onceward.db import Connection, Transaction
from onceward.inbox.environment import variable_of
from onceward.inbox.handlers import QUEUE, UNHANDLED_QUEUE
from onceward.inbox.source import NAME, Mode, Secret, build, seal, unseal
from onceward.statements import named, read_statement, scoped
from onceward.trust import Identity, NotFound, SecretBox, record
from onceward.trust.errors import NotAllowed
from onceward.webhooks.provider import ConfigError
from onceward.webhooks.registry import get_provider
from onceward.work.wake import CHANNEL
from onceward.work.walk import LAST

__all__ = [
    "NewSource",
    "SourceExists",
    "add",
    "assign",
    "delete",
    "find",
    "list_sources",
    "pause",
    "resume",
    "rotate",
]

RESERVED = frozenset({"payments", "sql"})
OVERLAP = timedelta(hours=24)
MOST_SECRETS = 10
CHANGED = "sources changed"
"""The wake-up message that makes every node reload its sources. No queue may have this name."""

INSERT = named(read_statement("inbox", "add_source"))
LIST = scoped(read_statement("inbox", "list_sources"))
GROUP_PAUSED = read_statement("inbox", "group_paused_events")


class SourceExists(ConfigError):
    """A source with this name already exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSource:
    """The settings of a new source. `add` validates all of them before it writes anything."""

    name: str
    provider: str
    secrets: tuple[str, ...] = field(default=(), repr=False)
    organization: UUID | None = None
    mode: Mode = "ack"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    public_url: str | None = None
    tolerance_s: int | None = None
    """None: the tolerance of the sender, which is 300 s for most."""
    ordering: bool = False
    rate_per_s: float | None = None
    requests_per_s: float | None = None
    requests_at_once: int | None = None
    max_body_bytes: int = 1 << 20
    retention_days: int | None = None
    app: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A source as lists show it, without secrets and options."""

    webhook_id: UUID
    name: str
    provider: str
    app: str | None
    mode: str
    organization_id: UUID | None
    public_url: str | None
    ordering: bool
    rate_per_s: float | None
    requests_per_s: float | None
    requests_at_once: int | None
    max_body_bytes: int
    retention_days: int | None
    origin: str
    paused_at: datetime | None
    created_at: datetime


PAYMENTS = "payments-"
"""The name prefix of the sources that `/webhooks/payments/{provider}` uses."""


def require_name(name: str, actor: str | Identity, handled: Collection[str]) -> None:
    """Raise `NotAllowed` if the name is reserved for administrators and the actor is not one.

    Handlers of an app trust the source they name: its owner controls the events they receive. So the names that
    handlers use (`handled`) are reserved for administrators, and so are all names of payment endpoints.
    """
    if isinstance(actor, str) or actor.may("admin"):
        return
    if name in handled or name.startswith(PAYMENTS):
        raise NotAllowed(
            f"source {name!r}: handlers of an app use this name, so only an administrator of the instance may manage"
            " it; choose another name"
        )


async def add(tx: Transaction, box: SecretBox, new: NewSource, *, actor: str | Identity) -> Listed:
    """Add a source. Raise ConfigError if it could not work. `tx` must run as the engine."""
    if not NAME.match(new.name) or new.name in RESERVED:
        raise ConfigError(
            f"name {new.name!r} must be 1-63 of a-z, 0-9, - and _, and must not be {' or '.join(sorted(RESERVED))}",
            field="name",
        )
    _require_app_name(new.app)
    if new.rate_per_s is not None and (new.mode != "ack" or new.rate_per_s <= 0):
        raise ConfigError(
            f"rate_per_s is {new.rate_per_s} with mode {new.mode}: it must be above 0, and mode must be ack",
            field="rate_per_s",
        )
    require_limits(new.requests_per_s, new.requests_at_once)
    if new.tolerance_s is None:
        new = replace(new, tolerance_s=get_provider(new.provider).tolerance_s)
    webhook_id = uuid4()
    values = {**asdict(new), "webhook_id": webhook_id, "organization_id": new.organization, "paused_at": None}
    secrets = [Secret(each) for each in new.secrets]
    source = build(values, secrets, {})
    # A provider that fetches certificates needs no secret. Any other must allow unsigned requests explicitly.
    if not secrets and not source.provider.fetches and not getattr(source.config.settings, "allow_unsigned", False):
        raise ConfigError(
            f"source {new.name!r} has no secret, so no request from {source.provider.title} could be "
            f"verified: give one",
            field="secrets",
        )
    sealed, options = seal(box, webhook_id, secrets, new.options)
    try:
        await tx.execute(
            INSERT.text,
            *INSERT.values(
                webhook_id=webhook_id,
                organization=new.organization,
                name=new.name,
                provider=new.provider,
                mode=new.mode,
                secrets=sealed,
                options=options,
                public_url=new.public_url,
                tolerance_s=new.tolerance_s,
                ordering=new.ordering,
                rate_per_s=new.rate_per_s,
                requests_per_s=new.requests_per_s,
                requests_at_once=new.requests_at_once,
                max_body_bytes=new.max_body_bytes,
                retention_days=new.retention_days,
                app=new.app,
            ),
        )
    except asyncpg.UniqueViolationError:
        raise SourceExists(
            f"there is already a source {new.name!r}: rotate its secret, or choose another name", field="name"
        ) from None
    if new.rate_per_s is not None:
        await _pace(tx, webhook_id, new.rate_per_s)
    await record(
        tx,
        "source.created",
        entity_type="source",
        entity_id=webhook_id,
        changes={"name": new.name, "provider": new.provider, "mode": new.mode},
        actor=actor,
        organization=new.organization,
    )
    await notify_nodes(tx)
    return await find(tx, new.name)


async def notify_nodes(tx: Transaction, *queues: str) -> None:
    """Notify every node at the commit. It is sent inside the transaction, so a node that hears it also sees the
    change."""
    await tx.fetch("select pg_notify($1, message) from unnest($2::text[]) message", CHANNEL, [CHANGED, *queues])


async def find(conn: Connection | Transaction, name: str, *, organization: UUID | None = None) -> Listed:
    """Return the source with this name or id. `organization` limits the search to its own sources.

    A caller that has checked the owner must continue with the id: after a deletion, another source may get the name.
    """
    try:
        id = UUID(name)
    except ValueError:
        id = None
    text = LIST.of(organization).replace("order by", "and (s.name = $2 or s.webhook_id = $3::uuid) order by")
    for row in await conn.fetch(text, organization, name, id):
        return Listed(**dict(row))
    raise NotFound(f"there is no source {name!r}")


async def list_sources(conn: Connection | Transaction, *, organization: UUID | None = None) -> list[Listed]:
    """Return sources ordered by name. `organization` limits them to its own."""
    return [Listed(**dict(row)) for row in await conn.fetch(LIST.of(organization), organization)]


async def rotate(
    tx: Transaction,
    box: SecretBox,
    name: str,
    secret: str,
    *,
    overlap: timedelta = OVERLAP,
    actor: str | Identity,
) -> Sequence[Secret]:
    """Add a secret. The older secrets stay valid for `overlap`. `tx` must run as the engine."""
    known = await find(tx, name)
    row = await tx.fetchrow(
        "select * from onceward.sources where webhook_id = $1 and deleted_at is null for update", known.webhook_id
    )
    if row is None:
        raise NotFound(f"there is no source {name!r}")
    name = row["name"]
    if row["origin"] != "stored":
        raise ConfigError(f"source {name!r} comes from the {row['origin']}: set its secret there", field="secret")
    now = datetime.now(UTC)
    kept, hidden = unseal(box, row["webhook_id"], row["secrets"])
    ends = now + overlap
    old = [
        replace(each, until=ends if each.until is None else min(each.until, ends))
        for each in kept
        if each.live(now) and each.value != secret
    ]
    secrets = [Secret(secret), *(each for each in old if each.live(now))]
    if len(secrets) > MOST_SECRETS:
        # A request that does not verify is checked against every one of them.
        raise ConfigError(
            f"source {name!r} would have {len(secrets)} valid secrets; the maximum is {MOST_SECRETS}: use a "
            f"shorter overlap",
            field="overlap_s",
        )
    build(dict(row), secrets, hidden)
    sealed, _ = seal(box, row["webhook_id"], secrets, hidden)
    await tx.execute(
        "update onceward.sources set secrets = $2, changed_at = clock_timestamp() where webhook_id = $1",
        row["webhook_id"],
        sealed,
    )
    await record(
        tx,
        "source.rotated",
        entity_type="source",
        entity_id=row["webhook_id"],
        changes={"live_secrets": len(secrets), "overlap_s": overlap.total_seconds()},
        actor=actor,
        organization=row["organization_id"],
    )
    await notify_nodes(tx)
    return secrets


async def assign(tx: Transaction, name: str, app: str | None, *, actor: str | Identity) -> Listed:
    """Let the handlers of this app get the events of the source; None: those of the only app that handles them."""
    _require_app_name(app)
    source = await find(tx, name)
    if source.origin != "stored":
        raise ConfigError(
            f"source {source.name!r} comes from the {source.origin}: set {variable_of(source.name)}_APP there",
            field="source",
        )
    await tx.execute(
        "update onceward.sources set app = $2, changed_at = clock_timestamp() where webhook_id = $1",
        source.webhook_id,
        app,
    )
    await record(
        tx,
        "source.assigned",
        entity_type="source",
        entity_id=source.webhook_id,
        changes={"app": app, "before": source.app},
        actor=actor,
        organization=source.organization_id,
    )
    await notify_nodes(tx, UNHANDLED_QUEUE)
    return await find(tx, str(source.webhook_id))


def require_limits(requests_per_s: float | None, requests_at_once: int | None) -> None:
    if requests_per_s is not None and not 0 < requests_per_s < float("inf"):
        raise ConfigError(f"requests_per_s is {requests_per_s}: it must be above 0", field="requests_per_s")
    if requests_at_once is not None and requests_at_once < 1:
        raise ConfigError(f"requests_at_once is {requests_at_once}: it must be at least 1", field="requests_at_once")


def _require_app_name(app: str | None) -> None:
    if app is not None and not NAME.match(app):
        raise ConfigError(f"app {app!r} must be 1-63 of a-z, 0-9, - and _", field="app")


async def delete(tx: Transaction, name: str, *, actor: str | Identity) -> None:
    """Stop accepting requests of a source and delete its secrets. Its events stay and are handled.

    `tx` must run as the engine.
    """
    source = await find(tx, name)
    if source.origin != "stored":
        where = (
            "is part of Onceward and cannot be deleted"
            if source.origin == "builtin"
            else "comes from the environment: delete it there"
        )
        raise ConfigError(f"source {source.name!r} {where}", field="source")
    if source.paused_at is not None:
        raise ConfigError(
            f"source {source.name!r} is paused: resume it first, or its waiting events would never be handled",
            field="source",
        )
    await tx.execute(
        "update onceward.sources set deleted_at = onceward.now(), secrets = null, options = '{}',"
        " changed_at = clock_timestamp() where webhook_id = $1",
        source.webhook_id,
    )
    await record(
        tx,
        "source.deleted",
        entity_type="source",
        entity_id=source.webhook_id,
        changes={"name": source.name},
        actor=actor,
        organization=source.organization_id,
    )
    await notify_nodes(tx)


async def pause(tx: Transaction, name: str, *, actor: str | Identity) -> Listed:
    """Keep receiving, but let no claim take events of the source. `tx` must run as the engine."""
    who = actor if isinstance(actor, str) else actor.actor
    return await _set_paused(tx, name, who, actor, paused=True)


async def resume(tx: Transaction, name: str, *, actor: str | Identity) -> Listed:
    """Let claims take events of the source again, in the order of their arrival. `tx` must run as the engine."""
    return await _set_paused(tx, name, None, actor, paused=False)


async def _set_paused(tx: Transaction, name: str, who: str | None, actor: str | Identity, *, paused: bool) -> Listed:
    source = await find(tx, name)
    await tx.execute(
        "update onceward.sources set paused_by = $2, changed_at = clock_timestamp(),"
        " paused_at = case when $2::text is not null then coalesce(paused_at, onceward.now()) end where "
        "webhook_id = $1",
        source.webhook_id,
        who,
    )
    if paused:
        await tx.execute(GROUP_PAUSED, 0, LAST)
    await record(
        tx,
        "source.paused" if paused else "source.resumed",
        entity_type="source",
        entity_id=source.webhook_id,
        actor=actor,
        organization=source.organization_id,
    )
    await notify_nodes(tx, *(() if paused else (QUEUE, UNHANDLED_QUEUE)))
    return await find(tx, str(source.webhook_id))


async def _pace(tx: Transaction, webhook_id: UUID, rate_per_s: float) -> None:
    await tx.execute(
        "insert into onceward.lanes (queue, lane, rate_per_s) values ($1, $2, $3)"
        " on conflict (queue, lane) do update set rate_per_s = excluded.rate_per_s",
        QUEUE,
        f"source:{webhook_id}",
        rate_per_s,
    )
