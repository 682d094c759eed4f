"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="stripe",
    title="Stripe",
    webhooks="onceward.integrations.stripe.webhooks:StripeWebhooks",
    account=(
        AccountField(
            "secret_key",
            "Stripe API key (`sk_...`) for charges and refunds.",
            secret=True,
            simulated="sk_test_simulated",
        ),
    ),
    client="onceward.integrations.stripe.client:Stripe",
    payments="onceward.integrations.stripe.payments:StripePayments",
    simulator="onceward.integrations.stripe.simulator:StripeSimulator",
)
