"""Outbound webhooks. A failing endpoint does not delay the others; deliveries are signed and can be sent again."""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.outbox.catalogue import Catalogue, EventType
    from onceward.outbox.endings import DeliveryEnd
    from onceward.outbox.endpoint import Endpoint, EndpointFields
    from onceward.outbox.endpoints import Endpoints, Registered
    from onceward.outbox.errors import Invalid, KeyReused, NotResent, OutboxError, UnknownType
    from onceward.outbox.outbox import Outbox, OutboxOptions, guarded_client
    from onceward.outbox.publishing import QUEUE, RETRY_QUEUE, Published, publish

__all__ = [
    "EndpointFields",
    "Invalid",
    "Outbox",
]

__getattr__ = lazy(__name__, __file__)
