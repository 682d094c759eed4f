"""What the outbox counts."""

from onceward.telemetry.metrics import counter

PUBLISHED = counter("onceward_published_total", "Events published, by type.", ["type"])
ATTEMPTS = counter("onceward_delivery_attempts_total", "Attempts at delivering a webhook, by answer.", ["answer"])
DISABLED = counter("onceward_endpoints_disabled_total", "Endpoints disabled because they kept failing.")
