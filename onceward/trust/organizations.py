"""Organizations and their members. Changes run as the engine. The caller checks permissions; this module audits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import asyncpg

from onceward.db import Connection, Transaction, is_storable
from onceward.statements import read_statement
from onceward.trust import audit
from onceward.trust.errors import AlreadyActing, NotFound, TrustError, UnknownOrganization, UserDisabled
from onceward.trust.identity import Identity

SLUG = re.compile(r"^[a-z0-9][a-z0-9-]{0,62}$")
MOST_WEIGHT = 100
Role = Literal["owner", "operator", "viewer", "member"]
"""`member` may only do what the roles in the desks of apps allow."""

SAVE_USER = read_statement("trust", "save_user")
ACT_FOR = "select onceward.act_for($1, $2)"


class OrganizationExists(TrustError):
    """The slug is taken. Slugs are unique in the whole instance."""


@dataclass(frozen=True, slots=True)
class Organization:
    organization_id: UUID
    slug: str
    name: str
    created_at: datetime
    second_factor_required: bool = False
    weight: int = 1
    """How many turns its work gets for one turn of others, while work of several organizations waits."""


@dataclass(frozen=True, slots=True)
class User:
    """An account of the instance. `organizations` has one entry per membership: the slug and the role."""

    user_id: UUID
    email: str
    name: str
    admin: bool
    disabled: bool
    organizations: list[str]


@dataclass(frozen=True, slots=True)
class Member:
    user_id: UUID
    email: str
    name: str
    role: Role
    admin: bool
    has_second_factor: bool


async def create_organization(tx: Transaction, slug: str, *, name: str = "", actor: str) -> Organization:
    """Create an organization. `tx` must run as the engine."""
    if not SLUG.match(slug):
        raise TrustError(f"slug {slug!r} must have 1-63 characters of a-z, 0-9 and -, and not start with -")
    if not is_storable(name):
        raise TrustError(f"name {name!r} contains NUL or half of a surrogate pair, which PostgreSQL cannot store")
    row = await tx.fetchrow(
        "insert into onceward.organizations (slug, name) values ($1, $2) on conflict (slug) do nothing returning *",
        slug,
        name or slug,
    )
    if row is None:
        raise OrganizationExists(f"organization {slug!r} already exists: choose another slug")
    created = Organization(**dict(row))
    await audit.record(
        tx,
        "organization.created",
        entity_type="organization",
        entity_id=created.organization_id,
        organization=created.organization_id,
        changes={"slug": slug, "name": created.name},
        actor=actor,
    )
    return created


async def find_organization(conn: Connection, ref: str) -> Organization:
    """Return the organization with this id or slug. Raises `UnknownOrganization`."""
    rows = await conn.fetch(
        "select organization_id, slug, name, created_at, second_factor_required, weight from onceward.organizations"
        " where slug = $1 or organization_id = $2",
        ref,
        _uuid(ref),
    )
    if not rows:
        raise UnknownOrganization(f"organization {ref!r} does not exist")
    return Organization(**dict(rows[0]))


async def list_organizations(conn: Connection, *, organization: UUID | None = None) -> list[Organization]:
    """Return one organization, or all that the connection may see."""
    own = "" if organization is None else " where organization_id = $1"
    rows = await conn.fetch(
        "select organization_id, slug, name, created_at, second_factor_required, weight from onceward.organizations"
        f"{own} order by slug",
        *(() if organization is None else (organization,)),
    )
    return [Organization(**dict(row)) for row in rows]


async def act_for(tx: Transaction, organization: UUID | str, *, actor: str | None = None) -> None:
    """Let a transaction of a platform-wide source act for one organization. The audit log records it.

    A second call with the same organization changes nothing. A call with another one raises `AlreadyActing`, because
    the rows that this transaction has written belong to the first.
    """
    requested = organization if isinstance(organization, UUID) else _uuid(organization)
    if requested is None:
        raise UnknownOrganization(f"organization {organization!r} is not a UUID")
    if tx.organization == requested:
        return
    if tx.organization is not None:
        raise AlreadyActing(
            f"this transaction acts for {tx.organization} and cannot also act for {requested}: enqueue a job for it"
        )
    if not await tx.fetchval(ACT_FOR, requested, actor):
        raise UnknownOrganization(f"organization {requested} does not exist")
    tx.organization = requested


# -- people --------------------------------------------------------------------------------------------------


async def add_user(tx: Transaction, email: str, *, name: str = "", admin: bool | None = None, actor: str) -> UUID:
    """Return the user with this address; create the user if needed. `admin=None` keeps the current value.

    Raises `UserDisabled` for a disabled account: an owner of one organization must not enable a user in all of them.
    """
    email = email.strip()
    if "@" not in email or len(email) > 320:
        raise TrustError("email must be an address like name@example.org")
    try:
        row = await tx.fetchrow(
            SAVE_USER,
            email,
            name,
            admin,
        )
    except asyncpg.CharacterNotInRepertoireError as error:
        raise TrustError(
            "email contains characters that PostgreSQL cannot store: write an address like name@example.org"
        ) from error
    if row is None:
        raise UserDisabled(
            f"user {email!r} is disabled: an administrator of the instance can enable the account with"
            " `onceward users enable`"
        )
    await audit.record(
        tx,
        "user.created" if row["created"] else "user.changed",
        entity_type="user",
        entity_id=row["user_id"],
        changes={"admin": row["admin"]},
        actor=actor,
    )
    return row["user_id"]


async def set_disabled(tx: Transaction, email: str, *, disabled: bool, actor: str, reason: str | None = None) -> UUID:
    """Disable an account everywhere and delete its sessions and login links, or enable it. Runs as the engine."""
    user_id = await tx.fetchval(
        "update onceward.users set disabled_at = case when $2 then coalesce(disabled_at, onceward.now()) end"
        " where lower(email) = lower($1) returning user_id",
        email.strip(),
        disabled,
    )
    if user_id is None:
        raise NotFound(f"user {email!r} does not exist")
    if disabled:
        for table in ("sessions", "login_links"):
            await tx.execute(f"delete from onceward.{table} where user_id = $1", user_id)
    await audit.record(
        tx,
        "user.disabled" if disabled else "user.enabled",
        entity_type="user",
        entity_id=user_id,
        actor=actor,
        reason=reason,
    )
    return user_id


async def find_user(tx: Transaction, email: str) -> UUID:
    """Return the id of the account with this address. Raises `NotFound`. Runs as the engine."""
    user_id = await tx.fetchval("select user_id from onceward.users where lower(email) = lower($1)", email.strip())
    if user_id is None:
        raise NotFound(f"user {email!r} does not exist")
    return user_id


async def set_second_factor_required(
    tx: Transaction, organization: UUID, *, required: bool, actor: str | Identity
) -> None:
    """Require a second factor of everybody who acts for the organization in a session, or no longer.

    Runs as the engine.
    """
    await tx.execute(
        "update onceward.organizations set second_factor_required = $2 where organization_id = $1",
        organization,
        required,
    )
    await audit.record(
        tx,
        "organization.second_factor_required",
        entity_type="organization",
        entity_id=organization,
        organization=organization,
        changes={"required": required},
        actor=actor,
    )


async def set_weight(tx: Transaction, organization: UUID, weight: int, *, actor: str | Identity) -> None:
    """Set how many turns the organization's work gets for one turn of others.

    Runs as the engine; workers see it within a second.
    """
    if not 1 <= weight <= MOST_WEIGHT:
        raise TrustError(f"weight must be between 1 and {MOST_WEIGHT}, not {weight}")
    await tx.execute("update onceward.organizations set weight = $2 where organization_id = $1", organization, weight)
    await audit.record(
        tx,
        "organization.weight_set",
        entity_type="organization",
        entity_id=organization,
        organization=organization,
        changes={"weight": weight},
        actor=actor,
    )


async def set_member(
    tx: Transaction, organization: UUID, email: str, role: Role, *, desk_roles: Sequence[str] = (), actor: str
) -> UUID:
    """Set the roles of a person in an organization, and replace earlier ones. `tx` must run as the engine."""
    user_id = await add_user(tx, email, actor=actor)
    await tx.execute(
        "insert into onceward.memberships (organization_id, user_id, role, desk_roles) values ($1, $2, $3, $4)"
        " on conflict (organization_id, user_id) do update set role = excluded.role, desk_roles = excluded.desk_roles",
        organization,
        user_id,
        role,
        sorted(set(desk_roles)),
    )
    await audit.record(
        tx,
        "member.set",
        entity_type="user",
        entity_id=user_id,
        organization=organization,
        changes={"role": role, "desk_roles": sorted(set(desk_roles))},
        actor=actor,
    )
    return user_id


async def remove_member(tx: Transaction, organization: UUID, user_id: UUID, *, actor: str) -> None:
    """Remove a person from an organization. `tx` must run as the engine."""
    removed = await tx.fetchval(
        "delete from onceward.memberships where organization_id = $1 and user_id = $2 returning 1",
        organization,
        user_id,
    )
    if not removed:
        raise NotFound(f"user {user_id} is not a member of this organization")
    await audit.record(
        tx, "member.removed", entity_type="user", entity_id=user_id, organization=organization, actor=actor
    )


async def list_members(conn: Connection, organization: UUID) -> list[Member]:
    """Return the enabled members. Runs as the engine, because the app role cannot read email addresses."""
    rows: list[Any] = await conn.fetch(
        "select user_id, email, name, role, admin, exists (select from onceward.second_factors f"
        " where f.user_id = u.user_id and f.confirmed_at is not null) as has_second_factor"
        " from onceward.memberships join onceward.users u using (user_id)"
        " where organization_id = $1 and disabled_at is null order by lower(email)",
        organization,
    )
    return [Member(**dict(row)) for row in rows]


async def list_users(conn: Connection) -> list[User]:
    """Return every account of the instance, disabled accounts too. Runs as the engine."""
    rows: list[Any] = await conn.fetch(
        "select u.user_id, u.email, u.name, u.admin, u.disabled_at is not null as disabled,"
        " coalesce(array_agg(o.slug || ':' || m.role order by o.slug) filter (where o.slug is not null), '{}')"
        " as organizations from onceward.users u left join onceward.memberships m using (user_id)"
        " left join onceward.organizations o using (organization_id)"
        " group by u.user_id order by lower(u.email)"
    )
    return [User(**dict(row)) for row in rows]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
