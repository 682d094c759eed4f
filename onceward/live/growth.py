"""How each table of the feature `live` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.feed": "deleted by `live trim` when every node has read it",
    "onceward.feed_state": "one row",
    "onceward.feed_life": "one row",
    "onceward.feed_marks": "kept: one row for each reader of the feed",
    "onceward.watched": "kept: one row for each table of a live query",
    "onceward.topic_messages": "deleted by `live trim` after a day, or when a topic is long",
    "onceward.live_nodes": "deleted when a node is gone",
    "onceward.presence": "deleted by `live trim` when a node is gone",
}
