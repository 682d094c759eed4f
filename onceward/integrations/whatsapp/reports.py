"""WhatsApp's status events: what became of a message."""

from __future__ import annotations

from typing import Any

from onceward.messages.reports import DeliveryReports, ServiceReport, text_of
from onceward.webhooks.payload import as_list, as_object

STATUSES = ("sent", "delivered", "read", "played", "failed")


def read(type: str, payload: Any) -> ServiceReport:
    status = as_object(as_object(payload).get("status"))
    errors = as_list(status.get("errors"))
    code = as_object(errors[0]).get("code") if errors else None
    return ServiceReport(
        channel="whatsapp",
        status=type.partition(".")[2],
        reference=text_of(status.get("id")),
        key=text_of(status.get("biz_opaque_callback_data")),
        error=None if code is None else f"WhatsApp error {code}"[:100],
    )


REPORTS = DeliveryReports(types=tuple(f"status.{status}" for status in STATUSES), read=read)
