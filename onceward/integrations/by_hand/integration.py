"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import Integration

INTEGRATION = Integration(
    name="by_hand",
    title="by hand",
    payments="onceward.integrations.by_hand.payments:PaymentsByHand",
)
