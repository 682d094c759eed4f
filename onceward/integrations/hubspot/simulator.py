"""A simulator of HubSpot: upserts by a unique property. A batch that fails in part is answered with 207."""

from typing import Any

from aiohttp import web

from onceward.testing.simulators.server import Simulator, answer, parts, read_object

Json = dict[str, Any]


class HubSpotSimulator(Simulator):
    """One account. `records` are stored by object type and unique value; values in `invalid` are refused."""

    kept = ("records",)

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[str, dict[str, Json]] = {}
        self.invalid: set[str] = set()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/account-info/v3/details", self._details),
            web.post("/crm/v3/objects/{type}/batch/upsert", self._upsert),
        ]

    def failure(self, status: int) -> web.Response:
        category = "RATE_LIMITS" if status == 429 else "INTERNAL"
        return answer({"status": "error", "category": category, "message": "Simulated"}, status=status)

    async def _details(self, request: web.Request) -> web.Response:
        return _refuse(request) or answer({"portalId": 1, "accountType": "STANDARD", "timeZone": "Europe/London"})

    async def _upsert(self, request: web.Request) -> web.Response:
        if (refusal := _refuse(request)) is not None:
            return refusal
        inputs = parts(await read_object(request), "inputs")
        if not 1 <= len(inputs) <= 100:
            return answer({"status": "error", "category": "VALIDATION_ERROR"}, status=400)
        stored = self.records.setdefault(request.match_info["type"], {})
        results: list[Json] = []
        errors: list[Json] = []
        for item in inputs:
            if item["id"] in self.invalid:
                errors.append(_error(item))
                continue
            is_new = item["id"] not in stored
            record = stored.setdefault(item["id"], {"id": str(1000 + len(stored)), "properties": {}})
            record["properties"].update({item["idProperty"]: item["id"], **item["properties"]})
            results.append({**record, "new": is_new, "objectWriteTraceId": item.get("objectWriteTraceId")})
        outcome: Json = {"status": "COMPLETE", "results": results}
        if errors:
            outcome |= {"numErrors": len(errors), "errors": errors}
        return answer(outcome, status=207 if errors else 200)


def _refuse(request: web.Request) -> web.Response | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme == "Bearer" and not token.endswith("_invalid"):
        return None
    return answer({"status": "error", "category": "INVALID_AUTHENTICATION"}, status=401)


def _error(item: Json) -> Json:
    return {
        "status": "error",
        "category": "VALIDATION_ERROR",
        "message": "Simulated: a property is not valid",
        "context": {"objectWriteTraceId": [item.get("objectWriteTraceId")]},
    }
