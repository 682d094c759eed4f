"""The routes `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from onceward.health import Health
from onceward.telemetry.metrics import render


def health_router(health: Health) -> APIRouter:
    """Return the routes `/healthz`, `/readyz` and `/metrics`."""
    router = APIRouter(include_in_schema=False)

    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    async def readyz() -> Response:
        results = await health.look()
        ready = not health.stopping and all(result.reason is None for result in results)
        body = {
            "status": "stopping" if health.stopping else "ready" if ready else "unready",
            "checks": {result.name: result.reason or "ok" for result in results},
        }
        return JSONResponse(body, status_code=200 if ready else 503)

    async def metrics() -> Response:
        text, content_type = render()
        return Response(text, media_type=content_type)

    router.add_api_route("/healthz", healthz)
    router.add_api_route("/readyz", readyz)
    router.add_api_route("/metrics", metrics)
    return router
