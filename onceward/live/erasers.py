"""The personal data in live tables: presence, and broadcasts that mention a person."""

from __future__ import annotations

from onceward.trust.erase import Eraser

ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="presence",
        table="onceward.presence",
        columns={"user_id": "whole", "place": "text"},
        delete=True,
    ),
    Eraser(
        name="broadcasts",
        table="onceward.topic_messages",
        columns={"topic": "text", "payload": "json"},
        delete=True,
    ),
)

UNSEARCHED: dict[str, str] = {
    "onceward.feed.*": "keys of changed rows, deleted after a few minutes",
    "onceward.live_nodes.*": "processes, not people",
    "onceward.watched.*": "names of columns",
}
