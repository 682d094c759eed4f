"""A simulator of Google Analytics 4. Like the service, it drops what it does not accept without an error."""

from typing import Any

from aiohttp import web

from onceward.testing.simulators.server import Simulator, answer, parts, read_object

Json = dict[str, Any]


class Ga4Simulator(Simulator):
    """Google Analytics 4. Keeps `events`, and answers 204 even for events that it drops."""

    kept = ("events",)

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Json] = []

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/mp/collect", self._collect), web.post("/debug/mp/collect", self._validate)]

    async def _validate(self, request: web.Request) -> web.Response:
        """Check the form of events. Like Google, do not check the credentials, and record nothing."""
        valid = (await read_object(request)).get("client_id")
        message = {"fieldPath": "client_id", "description": "Required", "validationCode": "VALUE_REQUIRED"}
        return answer({"validationMessages": [] if valid else [message]})

    async def _collect(self, request: web.Request) -> web.Response:
        body = await read_object(request)
        events = parts(body, "events")
        known = request.query.get("measurement_id") and request.query.get("api_secret")
        if known and body.get("client_id") and len(events) <= 25:
            self.events += [{**event, "client_id": body["client_id"]} for event in events]
        return web.Response(status=204)
