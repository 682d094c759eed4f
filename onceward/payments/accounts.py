"""Accounts at payment services: add one with its own webhook source, and list them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from onceward.db import Transaction
from onceward.inbox.sources import NewSource, add
from onceward.trust import SecretBox, record

from .declarations import service_class
from .errors import PaymentError

APP = "payments"
"""The app of the sources that accounts register: the machine handles their events."""
INSERT = """
insert into onceward.payment_accounts (organization_id, name, service, connected_account, source)
values ($1, $2, $3, $4, $5) returning id
"""
LIST = """
select a.id, a.name, a.service, a.organization_id, a.connected_account, a.source, a.listed_at, a.checked, a.created_at
  from onceward.payment_accounts a where $1::uuid is null or a.organization_id = $1 or a.organization_id is null
 order by a.name, a.organization_id nulls first
"""


@dataclass(frozen=True, slots=True)
class AddedAccount:
    """A new account: the path to enter at the service as the address of its webhooks, and the types that it must
    send."""

    id: UUID
    path: str
    event_types: tuple[str, ...]


async def add_account(
    tx: Transaction,
    box: SecretBox,
    *,
    name: str,
    service: str,
    organization: UUID,
    slug: str,
    secrets: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
    connected_account: str | None = None,
    source: str | None = None,
    actor: str,
) -> AddedAccount:
    """Add an account of an organization. It registers a webhook source of its own, unless it shares `source`.

    An account that is connected to the platform's account shares the platform's source: its events say which account
    they are about. `tx` must run as the engine.
    """
    try:
        types = service_class(service).event_types
    except ValueError as error:
        raise PaymentError(str(error)) from None
    if (source is None) != (connected_account is None):
        raise PaymentError("an account that is connected needs both its id and the source of the platform's account")
    if source is None:
        source = f"pay-{name}-{slug}"[:63]
        new = NewSource(
            name=source,
            provider=service,
            secrets=secrets,
            organization=organization,
            options=options or {},
            app=APP,
        )
        await add(tx, box, new, actor=actor)
    try:
        id = await tx.fetchval(INSERT, organization, name, service, connected_account, source)
    except (asyncpg.UniqueViolationError, asyncpg.CheckViolationError) as error:
        raise PaymentError(f"account {name!r} cannot be added: {error.args[0]}") from None
    await record(
        tx,
        "payment_account.created",
        entity_type="payment_account",
        entity_id=id,
        changes={"name": name, "service": service, "source": source},
        actor=actor,
        organization=organization,
    )
    return AddedAccount(id, f"/webhooks/{source}", types)


async def list_accounts(tx: Transaction, *, organization: UUID | None) -> list[dict[str, Any]]:
    """Return the accounts of an organization and of the installation, or of all."""
    return [dict(row) for row in await tx.fetch(LIST, organization)]
