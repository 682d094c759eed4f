"""What messages count."""

from __future__ import annotations

from onceward.telemetry.metrics import counter

SENT = counter(
    "message_sends_total",
    "Calls to a channel's service, by what they came to: accepted, refused, throttled, unreachable, unknown.",
    ("channel", "outcome"),
)
PARKED = counter(
    "message_channel_parked_total", "Times a channel was parked because it could not be reached.", ("channel",)
)
