"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="paypal",
    title="PayPal",
    webhooks="onceward.integrations.paypal.webhooks:PayPal",
    kept_headers=("paypal-auth-algo", "paypal-transmission-id", "paypal-transmission-time"),
    account=(
        AccountField("client_id", "Client id of the PayPal app."),
        AccountField("client_secret", "Client secret of the PayPal app.", secret=True),
    ),
    settings="onceward.integrations.paypal.settings:PayPalSettings",
    client="onceward.integrations.paypal.client:PayPal",
    payments="onceward.integrations.paypal.payments:PayPalPayments",
    simulator="onceward.integrations.paypal.simulator:PayPalSimulator",
)
