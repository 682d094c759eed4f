"""API keys: `ow_<prefix>_<secret>`. The database stores the prefix, which identifies the key, and a SHA-256 of the key.

A fast hash is enough, because the secret has 256 random bits and is not a password that a person chose.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import cast
from uuid import UUID

import structlog

from onceward.db import Connection, Transaction
from onceward.statements import named, read_statement
from onceward.trust import audit
from onceward.trust.errors import NotAllowed, NotAuthenticated, NotFound, TrustError
from onceward.trust.failures import fingerprint
from onceward.trust.identity import PERMISSIONS, RANK, Identity, KeyLimits, Permission, Scope
from onceward.trust.key_restrictions import KeyRestrictions, allows
from onceward.trust.metrics import SECURITY_EVENTS

log = structlog.get_logger(__name__)

FORM = re.compile(r"^(ow_[a-z2-7]{10})_[A-Za-z0-9_-]{43}$")
LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
GRANTABLE = ("viewer", "operator", "owner", "admin", *PERMISSIONS)

COLUMNS = (
    "key_id, organization_id, name, prefix, scopes, apps, sources, addresses, created_by, owner_id, created_at,"
    " expires_at, revoked_at, last_used_at"
)

FIND = read_statement("trust", "find_keys")

DEFAULT_LIFETIME = timedelta(days=365)
"""How long a key is valid if its creator does not say. A key without an end must be asked for."""
RECORD_ADDRESS = read_statement("trust", "record_key_address")

TOUCH = "update onceward.api_keys set last_used_at = onceward.now() where key_id = $1"
"""Runs at most once a minute per key, so that most requests with the key write nothing."""
INSERT = named(f"""
insert into onceward.api_keys
    (organization_id, name, prefix, hash, scopes, created_by, expires_at, apps, sources, addresses, owner_id)
values ($organization, $name, $prefix, $hash, $scopes, $created_by, $expires_at, $apps, $sources, $addresses,
        coalesce($owner::uuid, (select owner_id from onceward.api_keys where key_id = $key)))
returning {COLUMNS}
""")
"""A key that was made with a key belongs to the owner of that key."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret."""

    key_id: UUID
    organization_id: UUID | None
    name: str
    prefix: str
    scopes: list[str]
    apps: list[str]
    sources: list[str]
    addresses: list[str]
    created_by: str
    owner_id: UUID | None
    """The person whose access the key shares: it ends with theirs. None: created on the command line."""
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A created key. `text` is the key itself, which is not stored and cannot be shown again."""

    key: Key
    text: str


async def create_key(
    tx: Transaction,
    *,
    name: str,
    organization: UUID | None,
    scopes: Iterable[str],
    restrictions: KeyRestrictions | None = None,
    expires_at: datetime | None = None,
    actor: str | Identity,
) -> NewKey:
    """Create a key for an organization, or for the instance (`organization=None`, scope admin). Runs as the engine."""
    requested, limits = sorted(set(scopes)), restrictions or KeyRestrictions()
    unknown = [scope for scope in requested if scope not in GRANTABLE]
    if unknown or not requested:
        raise TrustError(f"scopes {', '.join(unknown) or '(none)'} must be one or more of {', '.join(GRANTABLE)}")
    if ("admin" in requested) != (organization is None):
        raise TrustError(
            f"scopes {', '.join(requested)}: a key of the whole instance needs the scope admin, a key of an "
            f"organization cannot have it"
        )
    if not name.strip() or len(name) > 200:
        raise TrustError(f"name must have 1-200 characters, but has {len(name)}")
    prefix = "ow_" + "".join(secrets.choice(LETTERS) for _ in range(10))
    text = f"{prefix}_{secrets.token_urlsafe(32)}"
    values = INSERT.values(
        organization=organization,
        name=name,
        prefix=prefix,
        hash=_hash(text),
        scopes=requested,
        created_by=actor.actor if isinstance(actor, Identity) else actor,
        expires_at=expires_at,
        apps=limits.apps,
        sources=limits.sources,
        addresses=limits.addresses,
        owner=actor.member if isinstance(actor, Identity) else None,
        key=actor.key_id if isinstance(actor, Identity) else None,
    )
    row = await tx.fetchrow(INSERT.text, *values)
    assert row is not None
    key = Key(**dict(row))
    await audit.record(
        tx,
        "key.created",
        entity_type="api_key",
        entity_id=key.key_id,
        organization=organization,
        changes={"prefix": prefix, "scopes": requested, "expires_at": expires_at, **asdict(limits)},
        actor=actor,
    )
    return NewKey(key, text)


async def list_keys(conn: Connection | Transaction, *, organization: UUID | None = None) -> list[Key]:
    """Return the keys that the role may see, newest first, optionally of one organization only."""
    rows = await conn.fetch(
        f"select {COLUMNS} from onceward.api_keys where $1::uuid is null or organization_id = $1"
        " order by created_at desc, key_id",
        organization,
    )
    return [Key(**dict(row)) for row in rows]


async def revoke_key(
    tx: Transaction, ref: UUID | str, *, organization: UUID | None, actor: str | Identity, reason: str | None = None
) -> Key:
    """Revoke a key permanently, by id or prefix. `organization=None` finds every key. Runs as the engine."""
    row = await tx.fetchrow(
        "update onceward.api_keys set revoked_at = coalesce(revoked_at, onceward.now())"
        " where (key_id::text = $1 or prefix = $1) and ($2::uuid is null or organization_id = $2)"
        f" returning {COLUMNS}",
        str(ref),
        organization,
    )
    if row is None:
        raise NotFound(f"key {ref} does not exist")
    key = Key(**dict(row))
    await audit.record(
        tx,
        "key.revoked",
        entity_type="api_key",
        entity_id=key.key_id,
        organization=key.organization_id,
        changes={"prefix": key.prefix},
        actor=actor,
        reason=reason,
    )
    return key


async def authenticate_key(conn: Connection, text: str, *, client: str) -> Identity:
    """Return the identity of a key that the address `client` sent.

    Every rejection takes the same work, so that its duration reveals nothing. Raises `NotAllowed` if the key is valid
    and may not be used from this address.
    """
    form = FORM.match(text) if len(text) <= 100 else None
    if form is None:
        raise NotAuthenticated("the API key is malformed")
    row = await conn.fetchrow(FIND, form[1], fingerprint(client))
    stored: bytes = row["hash"] if row is not None else bytes(32)
    if not hmac.compare_digest(_hash(text), stored) or row is None:
        raise NotAuthenticated(f"the API key {form[1]} is unknown")
    if row["revoked"] or row["expired"]:
        raise NotAuthenticated(f"the API key {form[1]} is {'revoked' if row['revoked'] else 'expired'}")
    if row["orphaned"]:
        raise NotAuthenticated(f"the API key {form[1]} belongs to a person who no longer has this access")
    if not allows(row["addresses"], client):
        raise NotAllowed(f"the API key {form[1]} may not be used from the address {client}")
    if row["expires_soon"]:
        log.warning("key.expires_soon", key=form[1], name=row["name"], expires_at=row["expires_at"].isoformat())
    if row["touch"]:
        await conn.execute(TOUCH, row["key_id"])
    granted = frozenset(cast(list[str], row["scopes"]))
    limits = KeyLimits(frozenset(row["apps"]), frozenset(row["sources"])) if row["apps"] or row["sources"] else None
    identity = Identity(
        "key",
        row["organization_id"],
        cast("frozenset[Scope]", granted & RANK.keys()),
        sub=str(row["key_id"]),
        label=row["name"],
        permissions=cast("frozenset[Permission]", granted - RANK.keys()),
        limits=limits,
    )
    if not row["known_address"]:
        await _remember_address(conn, row["key_id"], identity, client)
    return identity


async def _remember_address(conn: Connection, key_id: UUID, identity: Identity, client: str) -> None:
    """Remember from where the key was used. A use from a new address is written to the audit log."""
    is_new = await conn.fetchval(
        RECORD_ADDRESS, key_id, fingerprint(client), identity.organization, identity.actor, {"address": client}
    )
    if is_new:
        SECURITY_EVENTS.labels("key.used_from_new_address").inc()


async def forget_old_addresses(conn: Connection, *, days: int = 90) -> None:
    """Delete addresses from which a key was first used long ago. A later use is news again."""
    await conn.execute(
        "delete from onceward.key_addresses where first_used_at < onceward.now() - make_interval(days => $1)", days
    )


def looks_like_key(text: str) -> bool:
    """Return whether the text is an API key and not a JWT; both come in the same header."""
    return text.startswith("ow_")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
