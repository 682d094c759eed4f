"""Which organization a phone number belongs to, for webhooks of a source that serves several organizations.

A number belongs to the organization that proved it: by its own account at the service, which has the number, or because
an administrator of the instance assigned it. Nobody gets a number by naming it, and only an administrator moves one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol
from uuid import UUID

from onceward.db import Transaction
from onceward.errors import OncewardError
from onceward.services import NotSet, Services
from onceward.services.outcome import Absent, Accepted, ServiceAnswer
from onceward.statements import read_statement
from onceward.trust import audit

SenderKind = Literal["whatsapp", "twilio"]
"""`whatsapp`: the phone number id that Meta assigned. `twilio`: the phone number, with + and country code."""
Proof = Literal["account", "administrator"]

FIND = "select onceward.organization_of_sender($1, $2)"
LIST = """
select kind, identifier, proof, proven_at from onceward.senders
 where organization_id = $1 and ($2::text is null or kind = $2) order by kind, identifier
"""
ADD = """
insert into onceward.senders (kind, identifier, organization_id, proof) values ($1, $2, $3, 'account')
on conflict (kind, identifier) do nothing returning true
"""
ASSIGN = read_statement("messages", "assign_sender")
REMOVE = "delete from onceward.senders where kind = $1 and identifier = $2 and organization_id = $3 returning true"


class SenderNotProven(OncewardError):
    """The error text says what is missing: an account, the number in it, or an answer of the service."""


class SenderTaken(OncewardError):
    """Another organization has proven the number."""


class Reader(Protocol):
    async def fetch(self, query: str, *args: Any) -> list[Any]: ...

    async def fetchval(self, query: str, *args: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class NumberSender:
    kind: SenderKind
    identifier: str
    proof: Proof
    proven_at: datetime


async def organization_of_sender(conn: Reader, kind: SenderKind, identifier: str) -> UUID | None:
    """Return the organization that has proven the number, or None."""
    return await conn.fetchval(FIND, kind, identifier)


async def list_senders(conn: Reader, organization: UUID | None, kind: SenderKind | None = None) -> list[NumberSender]:
    """Return the numbers that an organization sends from, or those of one service."""
    return [NumberSender(**dict(row)) for row in await conn.fetch(LIST, organization, kind)]


async def prove(services: Services, organization: UUID, kind: SenderKind, identifier: str) -> None:
    """Ask the service whether the organization's own account has the number. Raises `SenderNotProven`."""
    if not await services.has_own_account(kind, organization):
        raise SenderNotProven(
            f"the organization has no {kind} account of its own, so nothing proves that {identifier} is its number:"
            f" set its secrets {kind}.*, or ask an administrator of the instance to assign the number"
        )
    try:
        if kind == "whatsapp":
            account = await services.whatsapp(organization)
            found: ServiceAnswer | Absent = (
                await account.find_number() if account.phone_number_id == identifier else Absent()
            )
        else:
            found = await (await services.twilio(organization)).find_number(identifier)
    except NotSet as error:
        raise SenderNotProven(str(error)) from error
    match found:
        case Accepted():
            return
        case Absent():
            raise SenderNotProven(f"{identifier} is not a number of the organization's {kind} account")
        case _:
            raise SenderNotProven(f"the {kind} account did not confirm {identifier}: {type(found).__name__}")


async def add(tx: Transaction, organization: UUID, kind: SenderKind, identifier: str, *, actor: Any) -> None:
    """Record a number that `prove` has confirmed. Runs as the engine. Raises `SenderTaken`."""
    if await tx.fetchval(ADD, kind, identifier, organization):
        await _record(tx, "sender.proven", organization, kind, identifier, actor)
    elif await organization_of_sender(tx, kind, identifier) != organization:
        raise SenderTaken(f"another organization has {kind} {identifier}: an administrator of the instance can move it")


async def assign(tx: Transaction, organization: UUID, kind: SenderKind, identifier: str, *, actor: Any) -> None:
    """Give a number to an organization, also if another one has it now. For administrators of the instance.

    Runs as the engine.
    """
    before = await organization_of_sender(tx, kind, identifier)
    if await tx.fetchval(ASSIGN, kind, identifier, organization):
        if before is not None:
            await _record(tx, "sender.lost", before, kind, identifier, actor)
        await _record(tx, "sender.assigned", organization, kind, identifier, actor)


async def remove(tx: Transaction, organization: UUID, kind: SenderKind, identifier: str, *, actor: Any) -> bool:
    """Release a number of the organization. Return False if it has none such. Runs as the engine."""
    if not await tx.fetchval(REMOVE, kind, identifier, organization):
        return False
    await _record(tx, "sender.removed", organization, kind, identifier, actor)
    return True


async def _record(tx: Transaction, action: str, organization: UUID, kind: str, identifier: str, actor: Any) -> None:
    await audit.record(
        tx, action, entity_type="sender", entity_id=f"{kind}:{identifier}", organization=organization, actor=actor
    )
