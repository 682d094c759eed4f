"""The routes `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from onceward import __version__
from onceward.health import Health
from onceward.telemetry.metrics import describe_process, render
from onceward.trust.session_cookie import is_loopback
from onceward.web.exposure import ANYBODY, exposed


@dataclass(frozen=True, slots=True)
class MetricsGuard:
    """Decides who may read `/metrics`: a caller with the token, and without one a caller on this machine."""

    token: SecretStr | None
    open_to_network: bool
    """Whether the port is one of its own, which only the operator's network reaches: then no token is needed."""

    def allows(self, request: Request) -> bool:
        if self.token is not None:
            scheme, _, sent = request.headers.get("authorization", "").partition(" ")
            wanted = self.token.get_secret_value().encode()
            return scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), wanted)
        if self.open_to_network or request.client is None:
            return True
        return is_loopback(request.headers) and is_loopback({"host": _in_brackets(request.client.host)})


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def health_routes(health: Health, *, guard: MetricsGuard) -> list[Route]:
    """Return the routes `/healthz`, `/readyz` and `/metrics`."""
    describe_process(__version__)

    @exposed(credential=ANYBODY)
    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    @exposed(credential=ANYBODY)
    async def readyz(_request: Request) -> Response:
        results = await health.look()
        ready = not health.stopping and all(result.reason is None for result in results)
        body = {
            "status": "stopping" if health.stopping else "ready" if ready else "unready",
            "checks": {result.name: result.reason or "ok" for result in results},
        }
        return JSONResponse(body, status_code=200 if ready else 503)

    @exposed(credential="the metrics token, or a client on the same machine")
    async def metrics(request: Request) -> Response:
        if not guard.allows(request):
            text = "send the token of ONCEWARD_METRICS_TOKEN (Authorization: Bearer ...)"
            if guard.token is None:
                text = "metrics are shown on this machine only: set ONCEWARD_METRICS_TOKEN, and let Prometheus send it"
            return JSONResponse({"detail": text}, status_code=401, headers={"WWW-Authenticate": "Bearer"})
        text, content_type = render(request.headers.get("accept", ""))
        return Response(text, media_type=content_type)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
