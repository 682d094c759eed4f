"""A simulator of Formbricks: survey responses that arrive as signed webhooks, in the format of Standard Webhooks."""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web

from onceward.testing.simulators.pages import survey_page
from onceward.testing.simulators.server import Simulator, answer
from onceward.testing.simulators.webhooks import SimulatedDelivery, WebhookSender

Json = dict[str, Any]
# Formbricks retries twice, after 5 and 10 seconds; the simulator uses shorter delays.
RETRY_DELAYS_S = (0.2, 0.4)


class FormbricksSimulator(Simulator):
    """One environment with any surveys. It sends webhooks after `send_webhooks_to` has set a receiver."""

    kept = ("responses",)

    def __init__(
        self,
        *,
        retry_delays_s: Sequence[float] = RETRY_DELAYS_S,
        surveys: Mapping[str, Sequence[str]] | None = None,
        ratings: Collection[str] = (),
    ) -> None:
        """`surveys` have a page with these questions, by id; those in `ratings` are answered with a number from 1 to
        10."""
        super().__init__()
        self._surveys = surveys or {}
        self._ratings = ratings
        self.responses: dict[str, Json] = {}
        self.webhooks = WebhookSender(retry_delays_s=retry_delays_s, timeout_s=5.0)
        self.webhook_id = "simulated-webhook"
        self.webhook_secret: str | None = None
        self._webhook_url: str | None = None

    def send_webhooks_to(self, url: str, *, secret: str | None) -> None:
        """Set the receiver. `secret` is `whsec_` and base64; None means an old webhook that is not signed."""
        self._webhook_url = url
        self.webhook_secret = secret

    async def stop(self) -> None:
        await self.webhooks.aclose()
        await super().stop()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/management/responses", self._list),
            web.get("/api/v1/management/responses/{id}", self._get),
            web.get("/s/{survey}", self._survey),
            web.post("/s/{survey}", self._answered),
        ]

    # -- what people do ------------------------------------------------------------------------------------------------

    def start_response(self, survey_id: str, answers: Json, *, single_use_id: str | None = None, **hidden: str) -> Json:
        """Let a person answer the first questions. `hidden` are hidden fields, such as a token from the survey's
        link."""
        now = _iso_now()
        response: Json = {
            "id": secrets.token_hex(12),
            "surveyId": survey_id,
            "createdAt": now,
            "updatedAt": now,
            "finished": False,
            "endingId": None,
            "displayId": secrets.token_hex(8),
            "singleUseId": single_use_id,
            "language": "en",
            "contact": None,
            "contactAttributes": None,
            "tags": [],
            "variables": {},
            "ttc": dict.fromkeys(answers, 1500.5),
            "meta": {"url": f"https://surveys.example/s/{survey_id}", "country": "DE", "userAgent": {"os": "Linux"}},
            "data": {**hidden, **answers},
            "survey": {
                "title": "Simulated survey",
                "type": "link",
                "status": "inProgress",
                "createdAt": now,
                "updatedAt": now,
            },
        }
        self.responses[response["id"]] = response
        self._emit("responseCreated", response)
        return response

    def update_response(self, response_id: str, answers: Json) -> None:
        response = self.responses[response_id]
        response["data"].update(answers)
        response["updatedAt"] = _iso_now()
        self._emit("responseUpdated", response)

    def finish_response(self, response_id: str, answers: Json | None = None) -> SimulatedDelivery | None:
        """Let the person finish. Formbricks sends the last update and the end as two events."""
        response = self.responses[response_id]
        response["data"].update(answers or {})
        response.update(finished=True, endingId="simulated-ending", updatedAt=_iso_now())
        self._emit("responseUpdated", response)
        return self._emit("responseFinished", response)

    def answer_survey(self, survey_id: str, answers: Json, **hidden: str) -> Json:
        """Let a person answer a whole survey at once."""
        response = self.start_response(survey_id, answers, **hidden)
        self.finish_response(response["id"])
        return response

    def send_test(self) -> SimulatedDelivery | None:
        """Send the request of the button that tests a webhook."""
        return self._post({"event": "testEndpoint"}, secrets.token_hex(16))

    # -- the API and the webhooks --------------------------------------------------------------------------------------

    async def _list(self, request: web.Request) -> web.Response:
        if not request.headers.get("x-api-key"):
            return answer({"code": "not_authenticated", "message": "Not authenticated"}, status=401)
        survey = request.query.get("surveyId")
        return answer({"data": [each for each in self.responses.values() if survey in (None, each["surveyId"])]})

    async def _get(self, request: web.Request) -> web.Response:
        if not request.headers.get("x-api-key"):
            return answer({"code": "not_authenticated", "message": "Not authenticated"}, status=401)
        response = self.responses.get(request.match_info["id"])
        if response is None:
            return answer({"code": "not_found", "message": "Response not found"}, status=404)
        return answer({"data": response})

    async def _survey(self, request: web.Request) -> web.Response:
        questions = self._surveys.get(request.match_info["survey"])
        if questions is None:
            return answer({"code": "not_found", "message": "Survey not found"}, status=404)
        return survey_page(questions=questions, ratings=self._ratings)

    async def _answered(self, request: web.Request) -> web.Response:
        survey = request.match_info["survey"]
        questions = self._surveys.get(survey)
        if questions is None:
            return answer({"code": "not_found", "message": "Survey not found"}, status=404)
        form = await request.post()
        given = {name: str(form[name]) for name in questions if form.get(name)}
        answers: Json = {name: int(text) if name in self._ratings else text for name, text in given.items()}
        self.answer_survey(survey, answers, **dict(request.query))
        return survey_page(questions=(), ratings=(), done=True)

    def _emit(self, event: str, response: Json) -> SimulatedDelivery | None:
        job = secrets.token_hex(8)
        identity = hashlib.sha256(f"{job}:{self.webhook_id}:{event}".encode()).hexdigest()
        return self._post({"webhookId": self.webhook_id, "event": event, "data": response}, identity)

    def _post(self, body: Json, identity: str) -> SimulatedDelivery | None:
        if self._webhook_url is None:
            return None

        def sign(content: bytes) -> dict[str, str]:
            stamp = str(int(time.time()))
            headers = {"Content-Type": "application/json", "webhook-id": identity, "webhook-timestamp": stamp}
            if self.webhook_secret is not None:
                key = base64.b64decode(self.webhook_secret.removeprefix("whsec_"))
                mac = hmac.new(key, f"{identity}.{stamp}.".encode() + content, hashlib.sha256).digest()
                headers["webhook-signature"] = f"v1,{base64.b64encode(mac).decode('ascii')}"
            return headers

        return self.webhooks.send(self._webhook_url, orjson.dumps(body), sign)


def _iso_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{int(time.time() * 1000) % 1000:03d}Z"
