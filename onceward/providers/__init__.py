"""External services: webhooks that we receive (`inbound`) and APIs that we call (`outbound`), one file per service."""
