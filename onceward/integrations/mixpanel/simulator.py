"""A simulator of Mixpanel. Like the service, it drops what it does not accept without an error."""

from base64 import b64decode
from typing import Any, cast

import orjson
from aiohttp import web

from onceward.testing.simulators.server import Simulator, answer

Json = dict[str, Any]


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
        scheme, _, login = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Basic" or b64decode(login).rstrip(b":").endswith(b"_invalid"):
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
