"""The metrics of trust."""

from onceward.telemetry.metrics import counter

SECURITY_EVENTS = counter(
    "onceward_security_events_total",
    "Security events: wrong credentials, blocked clients, refusals, wrong codes, keys used from a new address.",
    ["event"],
)
