"""Outbound webhooks: every customer's endpoint isolated, signed and recoverable."""

from onceward.outbox.catalogue import Catalogue, EventType
from onceward.outbox.endpoint import Endpoint, EndpointFields
from onceward.outbox.endpoints import Endpoints, Registered
from onceward.outbox.errors import Invalid, KeyReused, NotResent, OutboxError, UnknownType
from onceward.outbox.outbox import Outbox, OutboxOptions, guarded_client
from onceward.outbox.publish import QUEUE, RETRY_QUEUE, Published, publish

__all__ = [
    "QUEUE",
    "RETRY_QUEUE",
    "Catalogue",
    "Endpoint",
    "EndpointFields",
    "Endpoints",
    "EventType",
    "Invalid",
    "KeyReused",
    "NotResent",
    "Outbox",
    "OutboxError",
    "OutboxOptions",
    "Published",
    "Registered",
    "UnknownType",
    "guarded_client",
    "publish",
]
