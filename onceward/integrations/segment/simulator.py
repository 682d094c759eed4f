"""A simulator of Segment. Like the service, it drops what it does not accept without an error."""

from typing import Any

from aiohttp import web

from onceward.testing.simulators.server import Simulator, answer, parts, read_object

Json = dict[str, Any]


class SegmentSimulator(Simulator):
    """Segment. Keeps each messageId once. A batch of more than 2500 calls is dropped, but answered with 200."""

    kept = ("calls",)

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Json] = []

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/batch", self._batch)]

    async def _batch(self, request: web.Request) -> web.Response:
        if not request.headers.get("Authorization", "").startswith("Basic "):
            return answer({"success": False, "code": "unauthorized"}, status=401)
        batch = parts(await read_object(request), "batch")
        seen = {call["messageId"] for call in self.calls}
        if len(batch) <= 2500:
            self.calls += [call for call in batch if call["messageId"] not in seen]
        return answer({"success": True})
