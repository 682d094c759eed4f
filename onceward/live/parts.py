"""The parts of a process that serve live queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onceward.context import Context
from onceward.live import LiveOptions, LiveRegistry
from onceward.live.settings import LiveSettings
from onceward.web.settings import WebSettings

if TYPE_CHECKING:
    from onceward.live import LiveNode
    from onceward.web.asgi import Mount


def wake_ups(context: Context) -> None:
    """Let commits of this process wake the feed readers if the app has live queries. Starts nothing."""
    context.engine.wakes_live = bool(context.app.live)


def node(context: Context) -> LiveNode:
    """Create the live node with the queries of the app and of all features."""
    from onceward.live import LiveNode, authenticator
    from onceward.web.auth import verifier_from

    frame, settings = context.settings, context.settings.of(LiveSettings)
    registry = LiveRegistry()
    registry.include(context.app.live)
    for queries in context.features.load("queries"):
        for query in queries(context):
            registry.add(query)
    return LiveNode(
        context.database,
        registry,
        waker=context.engine.waker,
        options=LiveOptions(
            max_connections=settings.live_max_connections,
            max_connections_per_organization=settings.live_max_connections_per_organization,
            retention_s=settings.live_retention_s,
            query_timeout_s=settings.live_query_timeout_s,
            origins=frame.of(WebSettings).cors_origins,
        ),
        authenticate=authenticator(context.database, verifier_from(frame.of(WebSettings))),
        hosts=() if frame.public_url is None else (frame.public_url,),
        sealed_columns=context.engine.sealed_columns,
    )


def mounts(context: Context) -> Sequence[Mount]:
    from onceward.live import LiveNode
    from onceward.web.asgi import Mount
    from onceward.web.exposure import NOTHING, ExposedRoute

    credential, limit = "what the rule of the query asks for", "connections, queries and frames"
    paths = (("GET", "/live"), ("GET", "/live/sse"), ("POST", "/live/sse"))
    exposes = tuple(ExposedRoute(method, path, credential, limit, NOTHING) for method, path in paths)
    return (Mount("/live", context.part(LiveNode).endpoint, exposes=exposes),)
