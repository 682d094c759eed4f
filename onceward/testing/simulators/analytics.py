"""Simulators of analytics services. Like the services, they drop duplicates and oversized batches without an error."""

from typing import Any, cast

import orjson
from aiohttp import web

from .server import Simulator, answer, part, parts, read_object

Json = dict[str, Any]


class Ga4Simulator(Simulator):
    """Google Analytics 4. Keeps `events`, and answers 204 even for events that it drops."""

    kept = ("events",)

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Json] = []

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/mp/collect", self._collect)]

    async def _collect(self, request: web.Request) -> web.Response:
        body = await read_object(request)
        events = parts(body, "events")
        known = request.query.get("measurement_id") and request.query.get("api_secret")
        if known and body.get("client_id") and len(events) <= 25:
            self.events += [{**event, "client_id": body["client_id"]} for event in events]
        return web.Response(status=204)


class MixpanelSimulator(Simulator):
    """Mixpanel. Keeps each (event, time, person, insert id) once, and refuses events without an insert id.

    Takes a JSON list of events, or a form with one event in `data`, as Mixpanel's own libraries send it.
    """

    kept = ("events", "_seen")

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Json] = []
        self._seen: set[tuple[Any, ...]] = set()

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/import", self._import)]

    async def _import(self, request: web.Request) -> web.Response:
        if not request.headers.get("Authorization", "").startswith("Basic "):
            return answer({"code": 401, "error": "Invalid credentials"}, status=401)
        is_form = request.content_type == "application/x-www-form-urlencoded"
        text = str((await request.post())["data"]) if is_form else await request.read()
        events = cast("list[Json]", [orjson.loads(text)] if is_form else orjson.loads(text))
        failed = [
            {"index": index, "message": "'properties.$insert_id' is invalid"}
            for index, event in enumerate(events)
            if not event.get("event") or not 0 < len(str(event["properties"].get("$insert_id", ""))) <= 36
        ]
        bad = {item["index"] for item in failed}
        for index, event in enumerate(events):
            properties: Json = event["properties"]
            identity = (event.get("event"), _milliseconds(properties), *(properties.get(name) for name in PERSON))
            if index not in bad and identity not in self._seen:
                self._seen.add(identity)
                self.events.append(event)
        if is_form:
            return answer({"status": 0 if failed else 1, "error": failed[0]["message"] if failed else None})
        if failed:
            return answer(
                {"code": 400, "error": "some data points failed validation", "failed_records": failed}, status=400
            )
        return answer({"code": 200, "num_records_imported": len(events), "status": "OK"})


PERSON = ("distinct_id", "$insert_id")


def _milliseconds(properties: Json) -> int:
    """Mixpanel takes the time in seconds or milliseconds."""
    time = float(properties["time"])
    return round(time * 1000 if time < 1e11 else time)


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


class PostHogSimulator(Simulator):
    """PostHog. Keeps each uuid once. An event without a name or person is dropped, but answered with 200."""

    kept = ("events",)

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Json] = []
        self.quota_is_used_up = False

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/batch/", self._batch)]

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
