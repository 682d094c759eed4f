"""Expo EAS: `expo-signature: sha1=..`, HMAC-SHA1 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events, Join
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Expo EAS",
    verification=Hmac(header="expo-signature", algorithm="sha1", prefix="sha1="),
    events=Events(
        id=Derive("id", "status"),
        type=Join("platform", "status"),
        default_type="build",
        ordering="id",
        strict_type=True,
    ),
    setup=(
        "`eas webhook:create` with the URL of the source and a secret of at least 16 characters: it is the secret "
        "of the source."
    ),
    failure="EAS takes 200 to 399 as success and retries a few times with increasing delays.",
    facts=("expo/expo docs/pages/eas/webhooks.mdx",),
)
