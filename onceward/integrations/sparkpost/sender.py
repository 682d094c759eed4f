"""SparkPost: Basic authentication."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Basic
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="SparkPost",
    verification=Basic(),
    events=Events(
        items=".",
        body="json",
        id=("msys.message_event.event_id", "msys.track_event.event_id", "msys.unsubscribe_event.event_id"),
        type=("msys.message_event.type", "msys.track_event.type", "msys.unsubscribe_event.type"),
        default_type="test",
    ),
    setup=(
        "Under Configuration, Webhooks, create one with the URL of the source and Basic authentication: "
        "`user:password` is the secret of the source. A test is posted when it is saved and must get 200."
    ),
    failure="SparkPost wants 200 within 10 s and retries for eight hours.",
    facts=("SparkPost/developers.sparkpost.com content/api/webhooks.apib",),
)
