"""A simulator of PostHog. Like the service, it drops what it does not accept without an error."""

from typing import Any

from aiohttp import web

from onceward.testing.simulators.server import Simulator, answer, part, parts, read_object

Json = dict[str, Any]


class PostHogSimulator(Simulator):
    """PostHog. Keeps each uuid once. An event without a name or person is dropped, but answered with 200."""

    kept = ("events",)

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Json] = []
        self.quota_is_used_up = False

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/batch/", self._batch), web.post("/flags", self._flags)]

    async def _flags(self, request: web.Request) -> web.Response:
        if str((await read_object(request)).get("api_key") or "_invalid").endswith("_invalid"):
            return answer({"type": "authentication_error", "code": "invalid_api_key"}, status=401)
        return answer({"flags": {}, "errorsWhileComputingFlags": False})

    async def _batch(self, request: web.Request) -> web.Response:
        body = await read_object(request)
        if not body.get("api_key"):
            return answer({"type": "authentication_error", "code": "invalid_api_key"}, status=401)
        if self.quota_is_used_up:
            return answer({"status": "Ok", "quota_limited": ["events"]})
        seen = {event["uuid"] for event in self.events}
        for event in parts(body, "batch"):
            named = event.get("event") and part(event, "properties").get("distinct_id")
            if named and event.get("uuid") not in seen:
                self.events.append(event)
        return answer({"status": "Ok"})
