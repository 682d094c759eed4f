"""Supabase Auth hooks: Standard Webhooks."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Supabase Auth hooks",
    verification=StandardWebhooks(header_prefixes=("webhook",)),
    events=Events(
        id=(Header("webhook-id"), "id"),
        type=("metadata.name", "email_data.email_action_type"),
        default_type="hook",
        ordering="user.id",
    ),
    setup=(
        "Under Authentication, Hooks, add an HTTPS hook with the URL of the source. The secret `v1,whsec_...` is "
        "the secret of the source, as it is shown."
    ),
    failure="Supabase waits 5 s; after 429 or 503 with `Retry-After` it tries up to three times.",
    notes="The answer decides about the login: use the mode `inline`, and answer with what the hook expects.",
    facts=("supabase/supabase apps/docs/content/guides/auth/auth-hooks.mdx",),
    unconfirmed=("the fields of `metadata`",),
)
