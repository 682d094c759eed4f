"""A customer's endpoint for outbound webhooks. It verifies Standard Webhooks signatures, and can fail, hang, redirect
or answer 410."""

import binascii
import hashlib
import hmac
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
from aiohttp import web

from .server import Simulator

TOLERANCE_S = 300


@dataclass(frozen=True, slots=True)
class Delivered:
    """One accepted webhook."""

    id: str
    body: bytes = field(repr=False)

    @property
    def json(self) -> dict[str, Any]:
        return cast("dict[str, Any]", orjson.loads(self.body))


class CustomerEndpoint(Simulator):
    """Listens at `/hook`. `accepted` has every verified request, `unique` each webhook id once.

    Without a secret it accepts every request. While `always` is set, it answers every request with that status.
    """

    def __init__(self, *, secret: str | None = None) -> None:
        super().__init__()
        self.secret = secret
        self.accepted: list[Delivered] = []
        self.rejected: list[str] = []
        self.always: int | None = None
        self.redirect_to: str | None = None

    @property
    def hook_url(self) -> str:
        return f"{self.url}/hook"

    @property
    def unique(self) -> dict[str, Delivered]:
        return {delivered.id: delivered for delivered in self.accepted}

    def gone(self) -> None:
        """Answer 410 from now on: the sender should stop."""
        self.always = 410

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/hook", self._receive), web.post("/hook/{name}", self._receive)]

    def failure(self, status: int) -> web.Response:
        return web.Response(status=status, text="simulated failure")

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self.redirect_to is not None:
            return web.Response(status=302, headers={"Location": self.redirect_to})
        if self.always is not None:
            return web.Response(status=self.always, text="simulated")
        if self.secret is not None and (fault := verify(self.secret, request, body)) is not None:
            self.rejected.append(fault)
            return web.Response(status=401, text=fault)
        self.accepted.append(Delivered(request.headers.get("webhook-id", ""), body))
        return web.Response(text="thanks")


def verify(secret: str, request: web.Request, body: bytes) -> str | None:
    """Verify a Standard Webhooks signature. Return the problem, or None if the signature is valid."""
    identity, stamp = request.headers.get("webhook-id", ""), request.headers.get("webhook-timestamp", "")
    if not identity or not stamp.isdecimal():
        return "webhook-id or webhook-timestamp is missing"
    if abs(time.time() - int(stamp)) > TOLERANCE_S:
        return "webhook-timestamp is too far from now"
    try:
        key = b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        return "the secret of the simulator is not base64"
    content = f"{identity}.{stamp}.".encode() + body
    expected = b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode("ascii")
    for signature in request.headers.get("webhook-signature", "").split():
        version, _, value = signature.partition(",")
        if version == "v1" and hmac.compare_digest(value, expected):
            return None
    return "no signature is valid"
