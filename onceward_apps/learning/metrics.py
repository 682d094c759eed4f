"""Metrics of the learning platform."""

from __future__ import annotations

from onceward.telemetry.metrics import counter

CERTIFICATES = counter("learning_certificates_total", "Certificates that were issued.")
SURVEYS = counter("learning_surveys_total", "Finished surveys by kind and result.", ("kind", "result"))
BOOKINGS = counter("learning_bookings_total", "Bookings reported by Cal.com, by result.", ("result",))
CRM_RECORDS = counter(
    "learning_crm_records_total", "Records sent to the CRM, by kind and outcome.", ("kind", "outcome")
)
REQUESTS_REFUSED = counter(
    "learning_requests_refused_total", "Requests refused because one client address exceeded its limit.", ("what",)
)
