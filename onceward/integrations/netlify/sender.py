"""Netlify: `X-Webhook-Signature` with a JSON Web Token that contains the hash of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Jwt
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Netlify",
    verification=Jwt(header="x-webhook-signature", prefix="", issuer="netlify", body_claim="sha256"),
    events=Events(id=Derive("id", "state", "updated_at"), type="state", default_type="deploy", ordering="site_id"),
    setup=(
        "In the site's settings, under Notifications, add an outgoing webhook with the URL of the source and a "
        "JWS secret token: it is the secret of the source."
    ),
    samples_from=(
        "zulip/zulip zerver/webhooks/netlify/fixtures/deploy_created.json",
        "zulip/zulip zerver/webhooks/netlify/fixtures/deploy_failed.json",
    ),
    facts=(
        "n8n-io/n8n Netlify (third party)",
        "docs.netlify.com deploy-notifications",
    ),
    unconfirmed=(
        "the claims",
        "retries",
    ),
)
