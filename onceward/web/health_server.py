"""The server for probes and metrics of a process without the role `web`. It needs no FastAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceward.context import Context
from onceward.web.settings import WebSettings

if TYPE_CHECKING:
    from onceward.web.server import HealthServer


def health_server(context: Context) -> HealthServer | None:
    """Return the server, or None if its port is not configured or the process has the role `web`."""
    settings = context.settings.of(WebSettings)
    port = settings.health_port
    if port is None or "web" in context.roles:
        return None
    from starlette.applications import Starlette

    from onceward.web.health import MetricsGuard, health_routes
    from onceward.web.server import HealthServer

    context.features.load("metrics")
    guard = MetricsGuard(settings.metrics_token, open_to_network=True)
    api = Starlette(routes=health_routes(context.health, guard=guard))
    return HealthServer(api, context.settings.model_copy(update={"port": port}))
