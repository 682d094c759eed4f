"""A simulated push service with its browsers. It verifies the VAPID token and decrypts each push."""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from onceward.extras import extra
from onceward.testing.simulators.server import Simulator


@dataclass(frozen=True, slots=True)
class SimulatedBrowser:
    """One subscription: the fields that a page sends to its server, and the private key of the browser."""

    endpoint: str
    p256dh: str
    auth: str
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    pushes: list[bytes] = field(default_factory=list[bytes])
    topics: list[str | None] = field(default_factory=list[str | None])


class WebPushSimulator(Simulator):
    """Subscribe a browser, push to it, read its `pushes`. After `unsubscribe` its endpoint answers 410."""

    def __init__(self) -> None:
        super().__init__()
        self._browsers: dict[str, SimulatedBrowser] = {}

    def subscribe(self) -> SimulatedBrowser:
        key = ec.generate_private_key(ec.SECP256R1())
        point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        name = secrets.token_urlsafe(16)
        browser = SimulatedBrowser(
            endpoint=f"{self.url}/push/{name}",
            p256dh=_encoded(point),
            auth=_encoded(secrets.token_bytes(16)),
            key=key,
        )
        self._browsers[name] = browser
        return browser

    def unsubscribe(self, browser: SimulatedBrowser) -> None:
        del self._browsers[browser.endpoint.rpartition("/")[2]]

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/push/{name}", self._push)]

    def failure(self, status: int) -> web.Response:
        return web.Response(status=status)

    def refusal(self, request: web.Request, code: int | str) -> web.Response:
        return web.Response(status=int(code))

    async def _push(self, request: web.Request) -> web.Response:
        browser = self._browsers.get(request.match_info["name"])
        if browser is None:
            return web.Response(status=410)
        if "TTL" not in request.headers:
            return web.Response(status=400, text="TTL is required")
        if not self._is_sender(request.headers.get("Authorization", "")):
            return web.Response(status=403, text="the VAPID token is not valid")
        body = await request.read()
        if len(body) > 4096:
            return web.Response(status=413)
        browser.pushes.append(_decrypted(body, browser))
        browser.topics.append(request.headers.get("Topic"))
        return web.Response(status=201, headers={"Location": f"{self.url}/m/{secrets.token_urlsafe(8)}"})

    def _is_sender(self, header: str) -> bool:
        scheme, _, rest = header.partition(" ")
        parts = dict(part.strip().split("=", 1) for part in rest.split(",") if "=" in part)
        if scheme != "vapid" or not {"t", "k"} <= parts.keys():
            return False
        try:
            point = urlsafe_b64decode(parts["k"] + "==")
            public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
            claims = jwt.decode(parts["t"], public, algorithms=["ES256"], audience=self.url)
        except (ValueError, jwt.InvalidTokenError):
            return False
        return str(claims.get("sub", "")).startswith(("mailto:", "https:"))


def _decrypted(body: bytes, browser: SimulatedBrowser) -> bytes:
    with extra("push", "the simulated push service"):
        from http_ece import decrypt  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
    auth = urlsafe_b64decode(browser.auth + "==")
    return decrypt(body, private_key=browser.key, auth_secret=auth, version="aes128gcm")


def _encoded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
