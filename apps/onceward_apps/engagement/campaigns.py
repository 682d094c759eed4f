"""The two campaigns of an organization: their texts with sample data, and whether they are paused.

A paused campaign queues no message. The rest of the runs goes on: who waits for an answer becomes dormant in time, and
who was away is found by the first run after the pause. Messages that were queued before a pause are still sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Engine, Tx
from onceward.messages import render
from onceward_apps.engagement.model import CAMPAIGN_TEMPLATES, CAMPAIGNS, Campaign
from onceward_apps.engagement.store import pauses
from onceward_apps.engagement.store.views import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A message as its recipient reads it, with the sample data of its template."""

    template: str
    locale: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignState:
    """What an operator sees of a campaign."""

    campaign: Campaign
    paused_at: datetime | None
    paused_by: str | None
    queued: int
    texts: tuple[Text, ...]


async def campaigns(reader: Reader, engine: Engine, organization: UUID) -> list[CampaignState]:
    """Return both campaigns of an organization."""
    paused: dict[Campaign, Any] = await pauses.pauses(reader, organization)
    return [
        CampaignState(
            campaign=campaign,
            paused_at=paused[campaign]["paused_at"] if campaign in paused else None,
            paused_by=paused[campaign]["paused_by"] if campaign in paused else None,
            queued=await pauses.queued(reader, organization, CAMPAIGN_TEMPLATES[campaign]),
            texts=texts(engine, campaign),
        )
        for campaign in CAMPAIGNS
    ]


def texts(engine: Engine, campaign: Campaign) -> tuple[Text, ...]:
    """Return the texts of a campaign in every language that they have."""
    return tuple(
        Text(
            template=name, locale=locale, text=render(template, template.sample, locale=locale, channel="whatsapp").text
        )
        for name in CAMPAIGN_TEMPLATES[campaign]
        for template in (engine.templates.get(name),)
        for locale in sorted(template.locales)
    )


async def pause(tx: Tx, campaign: Campaign, *, actor: str) -> bool:
    """Queue no more messages of the campaign for this organization. False: it was paused already."""
    changed = await pauses.pause(tx, campaign, actor)
    if changed:
        await _record(tx, "engagement_campaign_paused", campaign, actor)
    return changed


async def resume(tx: Tx, campaign: Campaign, *, actor: str) -> bool:
    """Let the next run queue messages of the campaign again. False: it was not paused."""
    changed = await pauses.resume(tx, campaign)
    if changed:
        await _record(tx, "engagement_campaign_resumed", campaign, actor)
    return changed


async def _record(tx: Tx, action: str, campaign: Campaign, actor: str) -> None:
    await tx.audit(action, entity_type="Campaign", entity_id=campaign, actor=actor)
