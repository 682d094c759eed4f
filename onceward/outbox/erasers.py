"""The personal data in outbound webhooks: payloads, errors, owners of endpoints."""

from __future__ import annotations

from onceward.trust.erase import Eraser

ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="published events",
        table="onceward.published",
        columns={"body": "body", "channels": "list"},
        blank={"body": "null", "channels": "null"},
        together=True,
        waits="exists (select from onceward.deliveries d join onceward.work w on w.id = d.id where d.caused_by = t.id)",
    ),
    Eraser(
        name="publication keys",
        table="onceward.published",
        columns={"key": "text"},
        kept="Without its key, the same event could be published again.",
    ),
    Eraser(
        name="deliveries",
        table="onceward.deliveries",
        columns={"error": "text"},
        blank={"error": "'erased'"},
    ),
    Eraser(
        name="endpoints",
        table="onceward.endpoints",
        columns={"owner": "whole", "description": "text", "metadata": "json"},
        blank={"owner": "null", "description": "''", "metadata": "'{}'"},
    ),
    Eraser(
        name="endpoint addresses",
        table="onceward.endpoints",
        columns={"url": "text", "channels": "list"},
        kept="The endpoint needs its address and channels to work; change or delete the endpoint.",
    ),
    Eraser(
        name="endpoint notices",
        table="onceward.endpoint_notices",
        columns={"owner": "whole", "details": "json"},
        blank={"owner": "null", "details": """'{"erased": true}'"""},
    ),
    Eraser(
        name="resends",
        table="onceward.resends",
        columns={"created_by": "text"},
        blank={"created_by": "'erased'"},
    ),
    Eraser(
        name="portal links",
        table="onceward.portal_tokens",
        columns={"created_by": "text"},
        blank={"created_by": "'erased'"},
    ),
)

UNSEARCHED: dict[str, str] = {
    "onceward.published.trace": "The id of a trace and of a span: random numbers.",
    "onceward.event_types.*": "the catalogue of the app, without data of persons",
    "onceward.endpoints.events": "event types",
    "onceward.endpoints.headers": "sealed; cannot be searched",
    "onceward.endpoints.filter": "an expression over events, written by a member",
    "onceward.endpoints.transform": "an expression over events, written by a member",
    "onceward.endpoints.auth": "sealed; cannot be searched",
    "onceward.endpoint_secrets.*": "sealed; cannot be searched",
    "onceward.signing_keys.*": "keys of the organization",
    "onceward.published.message_id": "random",
    "onceward.published.type": "an event type",
    "onceward.published.fingerprint": "a hash",
    "onceward.deliveries.type": "an event type",
    "onceward.resends.types": "event types",
    "onceward.resends.statuses": "a closed set",
    "onceward.published.headers": "the content type, the source and the id of a forwarded event",
    "onceward.portal_tokens.hash": "a hash",
    "onceward.portal_tokens.embed_at": "origins of pages",
}
