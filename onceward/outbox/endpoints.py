"""Endpoints: register, change, rotate their secret, disable, enable, delete. Each change is audited.

Everything here runs as the engine, because the app role may not read secrets; so each statement names the organization.
The address is checked before the transaction opens, because the check needs a DNS lookup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson

from onceward.db import Connection, Database, Transaction
from onceward.http import GuardedClient, HttpError
from onceward.outbox.catalogue import check_subscription
from onceward.outbox.endpoint import Endpoint, EndpointFields
from onceward.outbox.errors import Invalid
from onceward.outbox.signing import make_secret, read_secret, show_public_key, show_secret
from onceward.statements import named, read_statement
from onceward.trust import Identity, NotFound, SecretBox, audit

Actor = str | Identity
MOST_PER_ORGANIZATION = 500
MOST_DIRECT = 500
"""How many endpoints of URLs of requests an organization may have. Those without an event for 30 days are deleted."""
LONGEST_OVERLAP = timedelta(days=30)

COLUMNS = """
e.endpoint_id, e.organization_id, e.url, e.description, e.events, e.channels, e.metadata, e.owner, e.active,
e.disabled_at, e.disabled_reason, e.max_in_flight, e.rate_per_s, e.ordered, e.retry_waits_s, e.ed25519, e.created_at,
e.headers, e.filter, e.transform, e.auth,
(select s.name from onceward.sources s where s.webhook_id = e.source_id) as source,
coalesce((select s.succeeded from onceward.endpoint_statistics s where s.endpoint_id = e.endpoint_id), 0) as succeeded,
coalesce((select s.failed from onceward.endpoint_statistics s where s.endpoint_id = e.endpoint_id), 0) as failed,
(select s.last_triggered_at from onceward.endpoint_statistics s where s.endpoint_id = e.endpoint_id)
    as last_triggered_at
"""
OWN = (
    "coalesce(e.organization_id, '00000000-0000-0000-0000-000000000000')"
    " = coalesce($1::uuid, '00000000-0000-0000-0000-000000000000')"
)
MOST_LISTED = 1000
AFTER = """
(e.created_at, e.endpoint_id) > (
    coalesce((select l.created_at from onceward.endpoints l where l.endpoint_id = $2), '-infinity'),
    coalesce($2, '00000000-0000-0000-0000-000000000000'))
 order by e.created_at, e.endpoint_id limit $3
"""
LIST = f"select {COLUMNS} from onceward.endpoints e where e.deleted_at is null and not e.direct and {OWN} and {AFTER}"
LIST_ALL = f"select {COLUMNS} from onceward.endpoints e where e.deleted_at is null and ($1::uuid is null) and {AFTER}"
COUNT = f"select count(*) from onceward.endpoints e where e.deleted_at is null and not e.direct and {OWN}"
ONE = f"select {COLUMNS} from onceward.endpoints e where e.deleted_at is null and e.endpoint_id = $2 and {OWN}"
INSERT = named(f"""
insert into onceward.endpoints as e
    (endpoint_id, organization_id, url, description, events, channels, headers, metadata, owner, max_in_flight,
        rate_per_s,
     ordered, retry_waits_s, ed25519, filter, transform, auth, source_id)
values ($endpoint_id, $organization, $url, $description, $events, $channels, $headers, $metadata, $owner,
    $max_in_flight,
        $rate_per_s, $ordered, $retry_waits_s, $ed25519, $filter, $transform, $auth, $source_id)
returning {COLUMNS}
""")
DIRECT = read_statement("outbox", "add_direct_endpoint")
PRUNE_DIRECT = read_statement("outbox", "prune_direct_endpoints")
COUNT_DIRECT = f"select count(*) from onceward.endpoints e where e.deleted_at is null and e.direct and {OWN}"
CHANGE = named(f"""
update onceward.endpoints e
   set url = $url, description = $description, events = $events, channels = $channels, headers = $headers,
       metadata = $metadata, owner = $owner, max_in_flight = $max_in_flight, rate_per_s = $rate_per_s,
       ordered = $ordered, retry_waits_s = $retry_waits_s, ed25519 = $ed25519, filter = $filter, transform = $transform,
       auth = $auth, source_id = $source_id, version = nextval('onceward.ids')
 where e.endpoint_id = $endpoint_id
returning {COLUMNS}
""")
SOURCE = """
select webhook_id, mode from onceward.sources where name = $1 and organization_id is not distinct from $2
"""
LIMITS = read_statement("outbox", "set_endpoint_limits")
ENABLE = read_statement("outbox", "enable_endpoint")


@dataclass(frozen=True, slots=True)
class Registered:
    """A new endpoint with its signing secret in Standard Webhooks format. The secret is never shown again."""

    endpoint: Endpoint
    secret: str


class Endpoints:
    """Manages the endpoints of all organizations. The caller checks who may call it."""

    def __init__(self, db: Database, *, box: SecretBox, client: GuardedClient) -> None:
        self._db = db
        self._box = box
        self._client = client

    async def register(self, organization: UUID | None, fields: EndpointFields, *, actor: Actor) -> Registered:
        """Create an endpoint. Raises `Invalid` with the name of the invalid field."""
        fields.check()
        fields = replace(fields, url=await self._checked(fields.url))
        await self._check_token_url(fields)
        key = make_secret() if fields.secret is None else read_secret(fields.secret)
        async with self._db.transaction(role="engine", organization=organization) as tx:
            source_id = await _check_source(tx, organization, fields)
            # Locked before the count: two concurrent registrations may both see room for one more endpoint.
            await tx.execute("select pg_advisory_xact_lock(hashtextextended($1, 8))", f"endpoints {organization}")
            if await tx.fetchval(COUNT, organization) >= MOST_PER_ORGANIZATION:
                raise Invalid(
                    "url", f"the organization already has {MOST_PER_ORGANIZATION} endpoints; delete one first"
                )
            endpoint_id: UUID = await tx.fetchval("select gen_random_uuid()")
            row = await tx.fetchrow(
                INSERT.text,
                *INSERT.values(organization=organization, source_id=source_id, **self._values(endpoint_id, fields)),
            )
            assert row is not None
            await self._add_secret(tx, endpoint_id, organization, key)
            if fields.ed25519:
                await ensure_signing_key(tx, self._box, organization)
            await self._limit(tx, endpoint_id, fields, new=True)
            await self._record(tx, "endpoint.registered", endpoint_id, actor, changes=_audit_fields(fields))
        return Registered(self._endpoint(row), show_secret(key))

    async def for_url(self, organization: UUID | None, url: str, *, actor: Actor) -> UUID:
        """Return the endpoint for an address that a request contained (a `webhookUrl`). The first call creates it.

        The endpoint gets only events that are published with its id. They are signed with its own secret and with the
        organization's key pair, whose public key anyone may fetch.
        """
        checked = await self._checked(url)
        async with self._db.transaction(role="engine", organization=organization) as tx:
            return await self._direct(tx, organization, checked, actor)

    async def for_url_in(self, tx: Transaction, url: str, *, actor: Actor) -> UUID:
        """Return the endpoint for an address, as `for_url` does. The endpoint exists if `tx` commits."""
        checked = await self._checked(url)
        role = tx.role
        await tx.become_engine()
        id = await self._direct(tx, tx.organization, checked, actor)
        if role == "app":
            await tx.become_app()
        return id

    async def _direct(self, tx: Transaction, organization: UUID | None, checked: str, actor: Actor) -> UUID:
        created: UUID | None = await tx.fetchval(DIRECT, organization, checked)
        if created is not None:
            await self._require_room(tx, organization, created)
            await self._add_secret(tx, created, organization, make_secret())
            await ensure_signing_key(tx, self._box, organization)
            await self._record(tx, "endpoint.registered", created, actor, changes={"url": checked, "direct": True})
            return created
        return await tx.fetchval(
            f"select e.endpoint_id from onceward.endpoints e where e.direct and e.deleted_at is null and {OWN}"
            " and e.url = $2",
            organization,
            checked,
        )

    async def _require_room(self, tx: Transaction, organization: UUID | None, created: UUID) -> None:
        """Raise `Invalid` if the new endpoint is one too many: end users choose these URLs, and may choose any
        number."""
        # Locked before the count: two concurrent requests may both see room for one more endpoint.
        await tx.execute("select pg_advisory_xact_lock(hashtextextended($1, 9))", f"direct endpoints {organization}")
        if await tx.fetchval(COUNT_DIRECT, organization) <= MOST_DIRECT:
            return
        await tx.fetch(PRUNE_DIRECT, organization)
        if await tx.fetchval(COUNT_DIRECT, organization) > MOST_DIRECT:
            await tx.execute("delete from onceward.endpoints where endpoint_id = $1", created)
            raise Invalid(
                "url", f"the organization already gets events at {MOST_DIRECT} URLs of requests; use one of these"
            )

    async def list(
        self,
        organization: UUID | None,
        *,
        all_organizations: bool = False,
        after: UUID | None = None,
        limit: int = MOST_LISTED,
    ) -> list[Endpoint]:
        """Return endpoints, oldest first. For the next page, pass the last id of this one as `after`."""
        async with self._db.acquire() as conn:
            if all_organizations:
                rows = await conn.fetch(LIST_ALL, None, after, limit)
            else:
                rows = await conn.fetch(LIST, organization, after, limit)
        return [self._endpoint(row) for row in rows]

    async def get(self, organization: UUID | None, endpoint_id: UUID) -> Endpoint:
        """Return one endpoint. Raises `NotFound`, also for an endpoint of another organization."""
        async with self._db.acquire() as conn:
            return self._endpoint(await _find(conn, organization, endpoint_id))

    async def change(
        self, organization: UUID | None, endpoint_id: UUID, changes: Mapping[str, Any], *, actor: Actor
    ) -> Endpoint:
        """Change the given fields only. To replace the secret, call `rotate_secret`."""
        async with self._db.acquire() as conn:
            before = self._fields(await _find(conn, organization, endpoint_id))
        changed = replace(before, **changes)
        changed.check()
        if changed.url != before.url:
            changed = replace(changed, url=await self._checked(changed.url))
        if "auth" in changes:
            await self._check_token_url(changed)
        async with self._db.transaction(role="engine", organization=organization) as tx:
            await _find(tx, organization, endpoint_id, lock=True)
            source_id = await _check_source(tx, organization, changed)
            row = await tx.fetchrow(
                CHANGE.text, *CHANGE.values(source_id=source_id, **self._values(endpoint_id, changed))
            )
            assert row is not None
            if changed.ed25519:
                await ensure_signing_key(tx, self._box, organization)
            await self._limit(tx, endpoint_id, changed)
            values = _audit_fields(changed)
            await self._record(
                tx, "endpoint.changed", endpoint_id, actor, changes={name: values.get(name) for name in changes}
            )
        return self._endpoint(row)

    # -- secrets -----------------------------------------------------------------------------------------------------

    async def rotate_secret(
        self,
        organization: UUID | None,
        endpoint_id: UUID,
        *,
        actor: Actor,
        secret: str | None = None,
        overlap: timedelta = timedelta(hours=24),
    ) -> str:
        """Create a secret and return it; it is never shown again.

        The old secrets keep signing until `overlap` has passed.
        """
        if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
            raise Invalid("overlap_s", f"must be between 0 and {LONGEST_OVERLAP.total_seconds():g} seconds")
        key = make_secret() if secret is None else read_secret(secret)
        async with self._db.transaction(role="engine", organization=organization) as tx:
            await _find(tx, organization, endpoint_id, lock=True)
            await tx.execute(
                "update onceward.endpoint_secrets set expires_at = least(expires_at, onceward.now() + $2::interval)"
                " where endpoint_id = $1",
                endpoint_id,
                overlap,
            )
            await tx.execute(
                "delete from onceward.endpoint_secrets where endpoint_id = $1 and expires_at <= onceward.now()",
                endpoint_id,
            )
            await self._add_secret(tx, endpoint_id, organization, key)
            await tx.execute(
                "update onceward.endpoints set version = nextval('onceward.ids') where endpoint_id = $1", endpoint_id
            )
            await self._record(
                tx, "endpoint.secret_rotated", endpoint_id, actor, metadata={"overlap_s": overlap.total_seconds()}
            )
        return show_secret(key)

    async def _add_secret(self, tx: Transaction, endpoint_id: UUID, organization: UUID | None, key: bytes) -> None:
        secret_id: UUID = await tx.fetchval("select gen_random_uuid()")
        sealed = self._box.seal(key, table="onceward.endpoint_secrets", row=secret_id, column="secret")
        # clock_timestamp(), not now(): two rotations in quick succession must still be in order.
        await tx.execute(
            "insert into onceward.endpoint_secrets (secret_id, organization_id, endpoint_id, secret, created_at)"
            " values ($1, $2, $3, $4, clock_timestamp())",
            secret_id,
            organization,
            endpoint_id,
            sealed,
        )

    async def public_keys(self, organization: UUID | None) -> list[str]:
        """Return the public keys that verify the `v1a` signatures of this organization."""
        rows = await self._db.fetch(
            "select public_key from onceward.signing_keys where organization_id is not distinct from $1", organization
        )
        return [show_public_key(row["public_key"]) for row in rows]

    # -- off and on ----------------------------------------------------------------------------------------------------

    async def disable(self, organization: UUID | None, endpoint_id: UUID, *, actor: Actor) -> bool:
        """Stop sending until the endpoint is enabled. Waiting deliveries end as `failed` and can be recovered."""
        async with self._db.transaction(role="engine", organization=organization) as tx:
            await _find(tx, organization, endpoint_id, lock=True)
            was_changed: bool = await tx.fetchval("select onceward.disable_endpoint($1, 'manual')", endpoint_id)
            if was_changed:
                await self._record(tx, "endpoint.disabled", endpoint_id, actor)
        return was_changed

    async def enable(self, organization: UUID | None, endpoint_id: UUID, *, actor: Actor) -> bool:
        """Send events that are published from now on. Earlier failures no longer count towards disabling the
        endpoint."""
        async with self._db.transaction(role="engine", organization=organization) as tx:
            await _find(tx, organization, endpoint_id, lock=True)
            was_changed = await tx.fetchval(
                ENABLE,
                endpoint_id,
            )
            if was_changed:
                await tx.execute(
                    "update onceward.lanes set paused_at = null, failures = 0, open_until = null"
                    " where queue in ('deliveries', 'deliveries-retry') and lane = $1",
                    str(endpoint_id),
                )
                await self._record(tx, "endpoint.enabled", endpoint_id, actor)
        return bool(was_changed)

    async def delete(self, organization: UUID | None, endpoint_id: UUID, *, actor: Actor) -> None:
        """Delete an endpoint, its secrets and its headers.

        Waiting deliveries end soon after; the history stays readable.
        """
        async with self._db.transaction(role="engine", organization=organization) as tx:
            await _find(tx, organization, endpoint_id, lock=True)
            await tx.execute("select onceward.disable_endpoint($1, 'deleted')", endpoint_id)
            await tx.execute(
                "update onceward.endpoints set deleted_at = onceward.now(), headers = null, auth = null,"
                " disabled_reason = 'deleted', version = nextval('onceward.ids') where endpoint_id = $1",
                endpoint_id,
            )
            await tx.execute("delete from onceward.endpoint_secrets where endpoint_id = $1", endpoint_id)
            await self._record(tx, "endpoint.deleted", endpoint_id, actor)

    # -- rows ----------------------------------------------------------------------------------------------------------

    async def _checked(self, url: str) -> str:
        try:
            return str((await self._client.check_url(url)).url)
        except HttpError as error:
            raise Invalid("url", error.reason) from None

    async def _check_token_url(self, fields: EndpointFields) -> None:
        if fields.auth is not None and fields.auth["kind"] == "oauth":
            try:
                await self._client.check_url(fields.auth["token_url"])
            except HttpError as error:
                raise Invalid("auth.token_url", error.reason) from None

    def _values(self, endpoint_id: UUID, fields: EndpointFields) -> dict[str, Any]:
        sealed = None
        if fields.headers:
            text = orjson.dumps(dict(fields.headers))
            sealed = self._box.seal(text, table="onceward.endpoints", row=endpoint_id, column="headers")
        auth = None
        if fields.auth is not None:
            text = orjson.dumps(dict(fields.auth))
            auth = self._box.seal(text, table="onceward.endpoints", row=endpoint_id, column="auth")
        return {
            "endpoint_id": endpoint_id,
            "url": fields.url,
            "description": fields.description,
            "events": list(fields.events),
            "channels": None if fields.channels is None else sorted(set(fields.channels)),
            "headers": sealed,
            "metadata": dict(fields.metadata),
            "owner": fields.owner,
            "max_in_flight": fields.max_in_flight,
            "rate_per_s": fields.rate_per_s,
            "ordered": fields.ordered,
            "filter": fields.filter,
            "transform": fields.transform,
            "auth": auth,
            "retry_waits_s": None if fields.retry_waits_s is None else list(fields.retry_waits_s),
            "ed25519": fields.ed25519,
        }

    async def _limit(self, tx: Transaction, endpoint_id: UUID, fields: EndpointFields, *, new: bool = False) -> None:
        if not new or fields.rate_per_s is not None:
            await tx.execute(LIMITS, str(endpoint_id), fields.max_in_flight, fields.ordered, fields.rate_per_s)

    def _headers(self, row: Any) -> dict[str, str]:
        return open_headers(self._box, row["endpoint_id"], row["headers"])

    def _endpoint(self, row: Any) -> Endpoint:
        values = dict(row)
        values.pop("headers")
        values.pop("auth")
        auth = read_auth(self._box, row["endpoint_id"], row["auth"])
        kind = None if auth is None else auth["kind"]
        return Endpoint(**values, header_names=sorted(self._headers(row)), auth_kind=kind)

    def _fields(self, row: Any) -> EndpointFields:
        return fields_of(self._box, row)

    @staticmethod
    async def _record(tx: Transaction, action: str, endpoint_id: UUID, actor: Actor, **audit_fields: Any) -> None:
        await audit.record(tx, action, entity_type="endpoint", entity_id=endpoint_id, actor=actor, **audit_fields)


def open_headers(box: SecretBox, endpoint_id: UUID, sealed: bytes | None) -> dict[str, str]:
    if sealed is None:
        return {}
    return orjson.loads(box.open(sealed, table="onceward.endpoints", row=endpoint_id, column="headers"))


@dataclass(frozen=True, slots=True)
class Present:
    """An endpoint with its secrets, for `onceward apply`, which compares it with a file."""

    organization: UUID | None
    fields: EndpointFields
    keys: list[bytes]

    def signs_with(self, secret: str) -> bool:
        """Return whether this is the current secret."""
        return bool(self.keys) and self.keys[-1] == read_secret(secret)


async def find_fields(db: Database, box: SecretBox, endpoint_id: UUID) -> Present | None:
    """Return an endpoint of any organization with what it was created from, or None if it was deleted."""
    async with db.transaction(role="engine") as tx:
        row = await tx.fetchrow(
            f"select {COLUMNS} from onceward.endpoints e where e.deleted_at is null and e.endpoint_id = $1", endpoint_id
        )
        if row is None:
            return None
        sealed = await tx.fetch(
            "select secret_id, secret from onceward.endpoint_secrets where endpoint_id = $1 and expires_at is null"
            " order by created_at",
            endpoint_id,
        )
    keys = [
        box.open(each["secret"], table="onceward.endpoint_secrets", row=each["secret_id"], column="secret")
        for each in sealed
    ]
    return Present(row["organization_id"], fields_of(box, row), keys)


def fields_of(box: SecretBox, row: Any) -> EndpointFields:
    """Return the fields of a row, decrypted."""
    names = set(EndpointFields.__dataclass_fields__) - {"secret", "headers", "auth"}
    auth = read_auth(box, row["endpoint_id"], row["auth"])
    headers = open_headers(box, row["endpoint_id"], row["headers"])
    return EndpointFields(**{name: row[name] for name in names}, headers=headers, auth=auth)


def read_auth(box: SecretBox, endpoint_id: UUID, sealed: bytes | None) -> dict[str, Any] | None:
    """Return how we authenticate towards an endpoint, or None."""
    if sealed is None:
        return None
    return orjson.loads(box.open(sealed, table="onceward.endpoints", row=endpoint_id, column="auth"))


async def _check_source(tx: Transaction, organization: UUID | None, fields: EndpointFields) -> UUID | None:
    """Return the id of the source that forwards to the endpoint. Without one, the types must be in the catalogue."""
    if fields.source is None:
        await check_subscription(tx, fields.events)
        return None
    row = await tx.fetchrow(SOURCE, fields.source, organization)
    if row is None:
        raise Invalid("source", f"there is no source {fields.source[:100]!r} of this organization")
    if row["mode"] != "forward":
        raise Invalid(
            "source", f"{fields.source!r} has the mode {row['mode']}: only sources with mode forward have routes"
        )
    return row["webhook_id"]


async def ensure_signing_key(tx: Transaction, box: SecretBox, organization: UUID | None) -> None:
    """Create the organization's ed25519 key pair unless it exists. `tx` must run as the engine."""
    key_id: UUID = await tx.fetchval("select gen_random_uuid()")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    await tx.execute(
        "insert into onceward.signing_keys (key_id, organization_id, private_key, public_key) values ($1, $2, $3, $4)"
        " on conflict (organization_id) do nothing",
        key_id,
        organization,
        box.seal(private.private_bytes_raw(), table="onceward.signing_keys", row=key_id, column="private_key"),
        private.public_key().public_bytes_raw(),
    )


async def _find(
    conn: Connection | Transaction, organization: UUID | None, endpoint_id: UUID, *, lock: bool = False
) -> Any:
    row = await conn.fetchrow(ONE + (" for update" if lock else ""), organization, endpoint_id)
    if row is None:
        raise NotFound(f"there is no endpoint {endpoint_id} in this organization")
    return row


def _audit_fields(fields: EndpointFields) -> dict[str, Any]:
    """Return the fields for the audit log: no secret, no owner's address, and the names of headers without values."""
    return {
        "url": fields.url,
        "events": list(fields.events),
        "channels": None if fields.channels is None else list(fields.channels),
        "headers": sorted(fields.headers),
        "max_in_flight": fields.max_in_flight,
        "rate_per_s": fields.rate_per_s,
        "ordered": fields.ordered,
        "retry_waits_s": None if fields.retry_waits_s is None else list(fields.retry_waits_s),
        "ed25519": fields.ed25519,
        "filter": fields.filter,
        "transform": fields.transform,
        "auth": None if fields.auth is None else fields.auth["kind"],
        "source": fields.source,
    }
