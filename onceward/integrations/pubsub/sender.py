"""Google Cloud Pub/Sub push: `Authorization: Bearer` with an OpenID Connect token of Google."""

from __future__ import annotations

from pydantic import Field

from onceward.webhooks.events import Events
from onceward.webhooks.families import PublishedJwt
from onceward.webhooks.provider import NoOptions
from onceward.webhooks.sender import Sender


class PubSubOptions(NoOptions):
    """Whose tokens are accepted."""

    audience: str = Field(
        min_length=1, description="the audience of the subscription", examples=["https://hooks.example.com"]
    )
    service_account: str = Field(
        min_length=1,
        description="the email address of the service account that pushes",
        examples=["push@example.iam.gserviceaccount.com"],
    )


SENDER = Sender(
    title="Google Cloud Pub/Sub push",
    verification=PublishedJwt(
        algorithms=("RS256",),
        keys_url="https://www.googleapis.com/oauth2/v3/certs",
        issuer="https://accounts.google.com",
        audience="{audience}",
        claims=(("email", "{service_account}"), ("email_verified", "true")),
        body_is_signed=False,
    ),
    events=Events(
        id=("message.messageId", "message.message_id"),
        type=("message.attributes.eventType", "message.attributes.type"),
        default_type="message",
        ordering="message.orderingKey",
        strict=False,
    ),
    options_model=PubSubOptions,
    setup=(
        "Create a push subscription with the URL of the source, authentication with a service account, and an "
        "audience. Both are options of the source. No secret is needed. `message.data` is base64."
    ),
    failure="Pub/Sub takes any 2xx as acknowledged and delivers again until the message expires.",
    notes="The token proves that Google sends for your service account, but does not contain the body.",
    facts=("GoogleCloudPlatform/python-docs-samples appengine/standard_python3/pubsub",),
    unconfirmed=("the field `message.messageId`",),
)
