"""How we authenticate towards an endpoint besides our signature: OAuth client credentials, or a client certificate."""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote_plus, urlencode
from uuid import UUID

import orjson

from onceward.http import ClientIdentity, GuardedClient, HttpError
from onceward.outbox.errors import Invalid, TokenRefused

KINDS = ("oauth", "mutual_tls")
OAUTH = {"token_url": True, "client_id": True, "client_secret": True, "scope": False, "audience": False}
"""The fields, and whether each is required."""
TLS = {"certificate": True, "private_key": True}
MOST_CHARACTERS = 16_000
EARLY_S = 30.0
"""A token is replaced so long before it ends."""
DEFAULT_LIFE_S = 300.0
MOST_TOKENS = 10_000
MOST_TOKEN_CHARACTERS = 16_000


def check_auth(auth: Mapping[str, Any]) -> None:
    """Raise `Invalid` for the first invalid field. The address of the token endpoint is checked by the HTTP client."""
    kind = auth.get("kind")
    if kind not in KINDS:
        raise Invalid("auth.kind", f"must be {' or '.join(KINDS)}, not {str(kind)[:40]!r}")
    fields = OAUTH if kind == "oauth" else TLS
    for name in auth:
        if name != "kind" and name not in fields:
            raise Invalid(f"auth.{str(name)[:40]}", f"does not belong to {kind}; it has {', '.join(fields)}")
    for name, required in fields.items():
        value = auth.get(name)
        if value is None and not required:
            continue
        if not isinstance(value, str) or not 1 <= len(value) <= MOST_CHARACTERS or "\0" in value:
            raise Invalid(f"auth.{name}", f"must be a text of 1 to {MOST_CHARACTERS} characters")
    if kind == "mutual_tls":
        _check_certificate(auth["certificate"], auth["private_key"])


def _check_certificate(certificate: str, private_key: str) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    try:
        first = x509.load_pem_x509_certificates(certificate.encode())[0]
    except (ValueError, IndexError):
        raise Invalid("auth.certificate", "is not a certificate in PEM (-----BEGIN CERTIFICATE-----)") from None
    try:
        key = load_pem_private_key(private_key.encode(), password=None)
    except (ValueError, TypeError):
        raise Invalid("auth.private_key", "is not a private key in PEM without a password") from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if first.public_key().public_bytes(*form) != key.public_key().public_bytes(*form):
        raise Invalid("auth.private_key", "does not belong to the certificate")


def open_auth(text: bytes) -> dict[str, Any]:
    """Return the decrypted settings."""
    return cast("dict[str, Any]", orjson.loads(text))


def client_identity(auth: Mapping[str, Any] | None, endpoint_id: UUID, version: int) -> ClientIdentity | None:
    """Return the client certificate of an endpoint for the HTTP client, or None."""
    if auth is None or auth["kind"] != "mutual_tls":
        return None
    context = ssl.create_default_context()
    # The ssl module reads certificates from files only. The folder is readable by this process alone and goes at once.
    with tempfile.TemporaryDirectory(prefix="onceward-") as folder:
        certificate, key = Path(folder) / "certificate.pem", Path(folder) / "key.pem"
        certificate.write_text(auth["certificate"])
        key.touch(mode=0o600)
        key.write_text(auth["private_key"])
        context.load_cert_chain(certificate, key)
    return ClientIdentity(f"{endpoint_id}:{version}", context)


@dataclass(slots=True)
class _Token:
    text: str
    version: int
    ends_at: float


class Tokens:
    """The access tokens of endpoints with OAuth, kept until shortly before they end."""

    def __init__(self, client: GuardedClient) -> None:
        self._client = client
        self._tokens: OrderedDict[UUID, _Token] = OrderedDict()
        self._fetching: dict[UUID, asyncio.Lock] = {}

    async def get(self, endpoint_id: UUID, version: int, auth: Mapping[str, Any], *, timeout_s: float) -> str:
        """Return a valid token. Deliveries that need a new one at the same time share one request."""
        lock = self._fetching.setdefault(endpoint_id, asyncio.Lock())
        try:
            async with lock:
                known = self._tokens.get(endpoint_id)
                if known is None or known.version != version or time.monotonic() >= known.ends_at:
                    text, life_s = await self._fetch(auth, timeout_s)
                    known = _Token(text, version, time.monotonic() + max(0.0, life_s - EARLY_S))
                    self._tokens[endpoint_id] = known
                    while len(self._tokens) > MOST_TOKENS:
                        self._tokens.popitem(last=False)
                return known.text
        finally:
            if not lock.locked():
                self._fetching.pop(endpoint_id, None)

    def forget(self, endpoint_id: UUID) -> None:
        """Fetch a new token next time: the endpoint refused this one."""
        self._tokens.pop(endpoint_id, None)

    async def _fetch(self, auth: Mapping[str, Any], timeout_s: float) -> tuple[str, float]:
        form = {"grant_type": "client_credentials"}
        form |= {name: auth[name] for name in ("scope", "audience") if auth.get(name)}
        pair = f"{quote_plus(auth['client_id'])}:{quote_plus(auth['client_secret'])}"
        headers = {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        try:
            response = await self._client.request(
                "POST", auth["token_url"], headers=headers, body=urlencode(form).encode(), timeout_s=timeout_s
            )
        except HttpError as error:
            raise TokenRefused(f"the token endpoint cannot be reached: {error.reason}") from None
        if not response.ok or response.truncated:
            raise TokenRefused(f"the token endpoint answered {response.status}")
        try:
            read = cast("dict[str, Any]", orjson.loads(response.body))
            text, life = read["access_token"], read.get("expires_in", DEFAULT_LIFE_S)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise TokenRefused("the token endpoint answered no access_token in JSON") from None
        if (
            not isinstance(text, str)
            or not text.isascii()
            or not text.isprintable()
            or len(text) > MOST_TOKEN_CHARACTERS
        ):
            raise TokenRefused("the token endpoint answered an access_token that is not a header value")
        try:
            return text, min(max(float(life), 0.0), 86_400.0)
        except (TypeError, ValueError):
            return text, DEFAULT_LIFE_S
