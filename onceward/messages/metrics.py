"""Metrics of messages."""

from __future__ import annotations

from onceward.telemetry.metrics import counter

SENT = counter(
    "onceward_message_sends_total",
    "Calls to a channel's service, by outcome: accepted, refused, throttled, unreachable, unknown.",
    ("channel", "outcome"),
)
PARKED = counter(
    "onceward_message_channel_parked_total",
    "Times an account was paused because its service was unreachable or asked for a pause.",
    ("channel",),
)
TROUBLES = counter(
    "onceward_message_account_refused_total",
    "Times a service began to refuse an account or one of its templates; the messages wait for an operator.",
    ("channel", "scope"),
)
EXPIRED = counter(
    "onceward_message_expired_total", "Messages that were not sent before the end of their time.", ("channel",)
)
