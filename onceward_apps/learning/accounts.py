"""The clients of the outside services that this app calls. This is the only file that asks `app.services` for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast
from uuid import UUID

from onceward.services import CalCom, Ga4, HubSpot, Mixpanel, NotSet, Segment, Stripe
from onceward_apps.learning.app import app


async def stripe(organization: UUID | None) -> Stripe:
    return await _client("stripe", organization)


async def calcom(organization: UUID | None) -> CalCom:
    return await _client("calcom", organization)


async def hubspot(organization: UUID | None) -> HubSpot:
    return await _client("hubspot", organization)


async def ga4(organization: UUID | None) -> Ga4:
    return await _client("ga4", organization)


async def mixpanel(organization: UUID | None) -> Mixpanel:
    return await _client("mixpanel", organization)


async def segment(organization: UUID | None) -> Segment:
    return await _client("segment", organization)


async def _client(name: str, organization: UUID | None) -> Any:
    """Return the client. A service is a client for everybody, or a function that returns the organization's client."""
    service: Any = getattr(app.services, name, None)
    if service is None:
        raise NotSet(f"the service {name} is not configured for this installation")
    if callable(service):
        return await cast("Callable[[UUID | None], Awaitable[Any]]", service)(organization)
    return service
