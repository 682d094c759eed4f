"""The routes `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from onceward.health import Health
from onceward.telemetry.metrics import render


def health_routes(health: Health) -> list[Route]:
    """Return the routes `/healthz`, `/readyz` and `/metrics`."""

    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_request: Request) -> Response:
        results = await health.look()
        ready = not health.stopping and all(result.reason is None for result in results)
        body = {
            "status": "stopping" if health.stopping else "ready" if ready else "unready",
            "checks": {result.name: result.reason or "ok" for result in results},
        }
        return JSONResponse(body, status_code=200 if ready else 503)

    async def metrics(_request: Request) -> Response:
        text, content_type = render()
        return Response(text, media_type=content_type)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
