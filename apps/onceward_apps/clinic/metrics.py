"""Metrics of the clinic."""

from __future__ import annotations

from onceward.telemetry.metrics import counter

INBOUND = counter("clinic_inbound_messages_total", "Messages from people, by what they caused.", ("channel", "effect"))
REMINDERS = counter("clinic_reminders_total", "Reminders queued, by channel.", ("channel",))
ROOMS = counter("clinic_room_events_total", "Events of video rooms, by what they caused.", ("effect",))
RECONCILED = counter("clinic_reconciled_total", "Lost callbacks that were repaired.", ("kind",))
DAILY_FAILED = counter("clinic_daily_webhook_failed_total", "Checks that found a webhook of Daily in state FAILED.", ())
