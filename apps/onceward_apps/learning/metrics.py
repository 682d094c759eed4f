"""Metrics of the learning platform."""

from __future__ import annotations

from typing import Any

from onceward import Tx
from onceward.telemetry.metrics import counter

CERTIFICATES = counter("learning_certificates_total", "Certificates that were issued.")
SURVEYS = counter("learning_surveys_total", "Finished surveys, by result.", ("result",))
BOOKINGS = counter("learning_bookings_total", "Events of Cal.com about bookings, by result.", ("result",))
CRM_RECORDS = counter(
    "learning_crm_records_total", "Records sent to the CRM, by kind and outcome.", ("kind", "outcome")
)
REQUESTS_REFUSED = counter(
    "learning_requests_refused_total", "Requests refused because one client address exceeded its limit.", ("what",)
)


def count_result(tx: Tx, metric: Any, result: dict[str, Any]) -> dict[str, Any]:
    """Count the result of a handler when its transaction commits, and return it."""
    tx.after_commit(lambda: metric.labels(str(result["status"])).inc())
    return result
