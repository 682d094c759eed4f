"""What a service reports about our account: an approved text was paused, a number lost quality, the account was
restricted.

Each report becomes the state of its subject; a report that is older than the stored state changes nothing.
Administrators get a notice when a state becomes bad or good again. The notice belongs to the organization that owns the
account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal
from uuid import UUID

from onceward.db import Connection, Database, Transaction
from onceward.integration import integrations
from onceward.messages.accounts import channel_sources
from onceward.messages.approved import read_approval
from onceward.messages.delivery import act_for
from onceward.messages.lines import Line, own_secrets
from onceward.messages.notices import notify_admins
from onceward.messages.templates import Templates
from onceward.messages.troubles import TemplateText, change_template
from onceward.services.outcome import Refused
from onceward.statements import read_statement

SAVE = read_statement("messages", "save_service_state")
LIST = read_statement("messages", "list_service_states")
OWNER = """
select organization_id from onceward.service_states
 where service = $1 and account = $2 and subject = 'account' and organization_id is not null limit 1
"""
OWNS = "select exists (select from onceward.secrets where organization_id = $1 and name = any($2))"
REMEMBER = read_statement("messages", "remember_service_account")

Severity = Literal["info", "warn", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateChange:
    """A template that the service no longer sends, or with `advice` None sends again.

    Name and language are the service's.
    """

    name: str
    language: str
    advice: str | None = None
    """What to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceChange:
    """A change that a service reports.

    `subject` names what changed, such as `template:reminder/en_US` or `number:1555`.
    """

    account: str
    subject: str
    state: str
    severity: Severity
    title: str
    reason: str | None = None
    at: datetime | None = None
    """When it changed, as the service says. None: when we received it."""
    template: TemplateChange | None = None
    """Set if messages of a template must wait from now on, or need not wait any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountEvents:
    """What an integration declares as the events about its account: the event types, and how one is read.

    `read` gets the type and the payload. It returns None if the event is not about a state.
    """

    types: tuple[str, ...]
    read: Callable[[str, Any], ServiceChange | None]


@cache
def account_events() -> Mapping[str, AccountEvents]:
    """Return the account events of the installed integrations, by provider."""
    declared = integrations().having("account_events")
    return {each.name: integrations().load(each.name, "account_events") for each in declared}


def is_account_event(provider: str, type: str) -> bool:
    """Return whether an event of this type is about our account."""
    declared = account_events().get(provider)
    return declared is not None and type in declared.types


async def apply_change(
    tx: Transaction, service: str, type: str, payload: Any, received_at: datetime, *, templates: Templates
) -> dict[str, Any] | None:
    """Store the state that an event reports, and write a notice if it became bad or good again. Return what happened.

    The messages of a template that the service no longer sends wait at once, before one is refused.
    """
    change = account_events()[service].read(type, payload)
    if change is None:
        return None
    organization = tx.organization
    becomes_engine = tx.role == "app"
    if becomes_engine:
        await tx.become_engine()
    owner = organization or await tx.fetchval(OWNER, service, change.account)
    row = await tx.fetchrow(
        SAVE,
        owner,
        service,
        change.account,
        change.subject,
        change.state,
        change.reason,
        change.severity != "info",
        change.at or received_at,
    )
    if row is not None and change.template is not None:
        await _follow_template(tx, service, owner, change, templates)
    if becomes_engine:
        await tx.become_app()
    result = {"subject": change.subject, "state": change.state, "changed": row is not None}
    if row is None or (change.severity == "info" and not row["was_bad"]):
        return result
    if owner != organization:
        await act_for(tx, owner)
    await notify_admins(
        tx,
        "SERVICE_STATE",
        change.severity,
        change.title,
        {"service": service, "account": change.account, "state": change.state, "reason": change.reason},
        group=f"{service}:{change.account}:{change.subject}",
    )
    if owner != organization:
        await act_for(tx, organization)
    return result


async def _follow_template(
    tx: Transaction, service: str, owner: UUID | None, change: ServiceChange, templates: Templates
) -> None:
    """Park or resume the messages of our templates that use the changed one."""
    assert change.template is not None
    channel = next(source.name for name, source in channel_sources() if name == service)
    if owner is not None and not await tx.fetchval(OWNS, owner, own_secrets(channel)):
        return  # Its messages go through the account of the installation.
    refusal = None
    if change.template.advice is not None:
        reason = f"{change.state} {change.reason or ''}".strip()
        refusal = Refused(reason, permanent=False, template=True, advice=change.template.advice)
    for each in templates:
        approval = read_approval(each.options)
        if approval is not None and approval.name == change.template.name:
            for language, name in approval.language.items():
                if name == change.template.language:
                    await change_template(tx, Line(channel, owner), TemplateText(each.name, language), refusal)


async def remember_account(tx: Transaction, service: str, account: str, organization: UUID | None) -> None:
    """Store which organization owns an account at a service, so that events about it reach this organization."""
    if organization is not None:
        await tx.execute(REMEMBER, organization, service, account)


async def list_states(db: Database | Connection | Transaction, service: str | None = None) -> list[dict[str, Any]]:
    """Return the states that services have reported, the latest first."""
    return [dict(row) for row in await db.fetch(LIST, service)]
