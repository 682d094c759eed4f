"""Call PayPal's API: the access token, request ids, and the meaning of each response."""

import asyncio
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from onceward.http import Response
from onceward.services.call import (
    Client,
    accepted,
    call,
    judge_payment_failure,
    objects,
    read_json,
    short_reason,
    write_json,
)
from onceward.services.outcome import Accepted, Refused, ServiceAnswer

BASE_URLS = {"live": "https://api-m.paypal.com", "sandbox": "https://api-m.sandbox.paypal.com"}

MAX_REQUEST_ID_CHARACTERS = 108
# A token is renewed this long before it expires, so that it does not expire during a request.
_RENEW_BEFORE_S = 60.0


class PayPalApi:
    """Calls PayPal with one app's client id and secret. It shares and renews the access token."""

    def __init__(
        self,
        client: Client,
        *,
        client_id: str,
        client_secret: str,
        base_url: str = BASE_URLS["live"],
        timeout_s: float = 30.0,
    ) -> None:
        self._client = client
        self._basic = b64encode(f"{client_id}:{client_secret}".encode()).decode("ascii")
        self._base_url = base_url
        self._timeout_s = timeout_s
        self._token: str | None = None
        self._token_until = 0.0
        self._renewing = asyncio.Lock()

    async def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> ServiceAnswer:
        outcome = await self._request_once(method, path, body, key=key)
        if isinstance(outcome, Refused) and outcome.detail.get("status") == 401:
            # The token was revoked early. A 401 means that PayPal did not act, so a retry is safe.
            self._token = None
            outcome = await self._request_once(method, path, body, key=key)
        return outcome

    async def _request_once(
        self, method: str, path: str, body: Mapping[str, Any] | None, *, key: str | None
    ) -> ServiceAnswer:
        token = await self.access_token()
        if not isinstance(token, str):
            return token
        headers = {"Authorization": f"Bearer {token}", "Prefer": "return=representation"}
        if key is not None:
            headers["PayPal-Request-Id"] = request_id(key)
        if body is not None:
            headers["Content-Type"] = "application/json"
        return await call(
            self._client,
            method,
            f"{self._base_url}{path}",
            headers=headers,
            body=None if body is None else write_json(body),
            judge=judge if key is None else judge_creation,
            timeout_s=self._timeout_s,
        )

    async def access_token(self) -> str | ServiceAnswer:
        async with self._renewing:
            if self._token is not None and time.monotonic() < self._token_until:
                return self._token
            outcome = await call(
                self._client,
                "POST",
                f"{self._base_url}/v1/oauth2/token",
                headers={
                    "Authorization": f"Basic {self._basic}",
                    "Content-Type": "application/x-www-form-urlencoded",
                },
                body=b"grant_type=client_credentials",
                judge=_judge_token,
                timeout_s=self._timeout_s,
            )
            if not isinstance(outcome, Accepted):
                return outcome
            self._token = str(outcome.detail["access_token"])
            lifetime_s = float(outcome.detail.get("expires_in") or 0)
            self._token_until = time.monotonic() + max(0.0, lifetime_s - _RENEW_BEFORE_S)
            return self._token


def request_id(key: str) -> str:
    """Return the key, or its hash if the key is too long for PayPal."""
    return key if len(key) <= MAX_REQUEST_ID_CHARACTERS else sha256(key.encode()).hexdigest()


def judge(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok:
        return accepted(answer.get("id"), answer)
    issue = next((item.get("issue") for item in objects(answer, "details")), None)
    reason = short_reason(f"HTTP {response.status}", answer.get("name"), issue or answer.get("message"))
    failure = judge_payment_failure(response, reason)
    if isinstance(failure, Refused):
        detail = {"status": response.status, "issue": issue, "debug_id": answer.get("debug_id")}
        return replace(failure, detail=detail)
    return failure


def judge_creation(response: Response) -> ServiceAnswer:
    """Convert the response to a call with a request id. PayPal answers a repeated one with 200 instead of 201."""
    answer = judge(response)
    if isinstance(answer, Accepted) and response.status == 200:
        return replace(answer, is_replay=True)
    return answer


def _judge_token(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok and answer.get("access_token"):
        return Accepted(None, answer)
    return judge_payment_failure(response, short_reason("PayPal gave no access token", answer.get("error")))
