"""FusionAuth: `X-FusionAuth-Signature-JWT` with the hash of the body."""

from __future__ import annotations

from pydantic import Field

from onceward.webhooks.events import Events
from onceward.webhooks.families import PublishedJwt
from onceward.webhooks.provider import NoOptions
from onceward.webhooks.sender import Sender


class FusionAuthOptions(NoOptions):
    """Whose tokens are accepted."""

    host: str = Field(
        min_length=1, description="the host of FusionAuth, which publishes the keys", examples=["auth.example.com"]
    )


SENDER = Sender(
    title="FusionAuth",
    verification=PublishedJwt(
        header="x-fusionauth-signature-jwt",
        prefix="",
        algorithms=("RS256", "ES256", "EdDSA"),
        keys_url="https://{host}/.well-known/jwks.json",
        body_claim="request_body_sha256",
        body_encoding="base64",
    ),
    events=Events(id="event.id", type="event.type", ordering="event.user.id", data="event", strict=True),
    options_model=FusionAuthOptions,
    setup=(
        "Under Settings, Webhooks, add the URL of the source and turn signing on, with an RSA, EC or Ed25519 key. "
        "The host of FusionAuth is an option; no secret is needed."
    ),
    failure=(
        "FusionAuth tries up to three more times. At some transaction levels a failure aborts the action of the user."
    ),
    facts=("FusionAuth/fusionauth-site events-and-webhooks/signing.mdx",),
    unconfirmed=(
        "the field `event.id`",
        "the claims `iat` and `exp`",
    ),
)
