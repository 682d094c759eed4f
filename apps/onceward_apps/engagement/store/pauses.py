"""Campaigns that an organization has paused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.engagement.model import Campaign
from onceward_apps.engagement.store.candidates import Fetch
from onceward_apps.engagement.store.views import Reader

PAUSED_ORGANIZATIONS = "select organization_id from engagement.pauses where campaign = $1"
PAUSES = "select campaign, paused_at, paused_by from engagement.pauses where organization_id = $1"
IS_PAUSED = "select exists (select from engagement.pauses where organization_id = $1 and campaign = $2)"
PAUSE = """
insert into engagement.pauses (organization_id, campaign, paused_by) values ($1, $2, $3)
on conflict (organization_id, campaign) do nothing returning campaign
"""
RESUME = "delete from engagement.pauses where organization_id = $1 and campaign = $2 returning campaign"
QUEUED = """
select count(*) from onceward.messages
 where organization_id = $1 and template = any($2::text[]) and status = 'pending'
"""


async def running(fetch: Fetch, campaign: Campaign, organizations: Sequence[UUID]) -> list[UUID]:
    """Return those of the organizations that have not paused the campaign."""
    paused = {row["organization_id"] for row in await fetch(PAUSED_ORGANIZATIONS, campaign)}
    return [organization for organization in organizations if organization not in paused]


async def is_paused(tx: Tx, campaign: Campaign) -> bool:
    return await tx.fetchval(IS_PAUSED, tx.organization, campaign)


async def pauses(reader: Reader, organization: UUID | None) -> dict[Campaign, Any]:
    """Return when and by whom each paused campaign was paused."""
    return {row["campaign"]: dict(row) for row in await reader.fetch(PAUSES, organization)}


async def pause(tx: Tx, campaign: Campaign, by: str) -> bool:
    return await tx.fetchval(PAUSE, tx.organization, campaign, by) is not None


async def resume(tx: Tx, campaign: Campaign) -> bool:
    return await tx.fetchval(RESUME, tx.organization, campaign) is not None


async def queued(reader: Reader, organization: UUID | None, templates: Sequence[str]) -> int:
    """Return how many messages of these templates are queued and not sent yet."""
    return await reader.fetchval(QUEUED, organization, list(templates))
