"""OpenAI: Standard Webhooks. The body names what is finished; the result is fetched through the API."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="OpenAI webhooks",
    verification=StandardWebhooks(header_prefixes=("webhook",)),
    events=Events(id=(Header("webhook-id"), "id"), ordering="data.id", data="data", strict_type=True),
    setup=(
        "In the settings of the project, under Webhooks, create one with the URL of the source. Its signing secret "
        "(`whsec_...`) is the secret of the source."
    ),
    failure="OpenAI retries for up to 72 hours.",
    notes="`data.id` is the id of the response, batch or job: fetch it through the API with `app.services.openai`.",
    facts=("openai/openai-python src/openai/resources/webhooks (signature, tolerance, types and fields)",),
    unconfirmed=("retries",),
)
