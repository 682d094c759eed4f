"""The events of HubSpot's CRM.

Hand-kept after the published reference of the Webhooks API, and compared with the samples only, not with a live
account. Only fields that most handlers use; `event.payload` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from onceward.webhooks.models import Payload

VERSION: Final = "v3"
"""The version of HubSpot's Webhooks API that the models describe."""


class ObjectEvent(Payload):
    """An object was created, deleted or changed."""

    event_id: int = Field(alias="eventId")
    object_id: int = Field(alias="objectId")
    portal_id: int = Field(alias="portalId")
    occurred_at_ms: int = Field(alias="occurredAt")
    attempt_number: int = Field(0, alias="attemptNumber")
    change_source: str | None = Field(None, alias="changeSource")
    property_name: str | None = Field(None, alias="propertyName")
    property_value: str | None = Field(None, alias="propertyValue")


MODELS: Final[Mapping[str, type[Payload]]] = {
    f"{kind}.{change}": ObjectEvent
    for kind in ("company", "contact", "deal", "ticket")
    for change in ("creation", "deletion", "propertyChange")
}
