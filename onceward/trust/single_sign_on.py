"""Single sign-on: the code flow of OpenID Connect with PKCE, against one configured provider.

The provider says who the person is; it creates no account and grants nothing. The first sign-in finds the account by an
address that the provider has verified, later ones by the provider's id of the person, so a changed address changes
nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode, urlsplit
from uuid import UUID

from onceward.db import Transaction
from onceward.http.urls import is_private
from onceward.lazy import lazy_module
from onceward.trust import audit
from onceward.trust.errors import NotAuthenticated, TrustError
from onceward.trust.jwt import Rules, TokenVerifier, jwks_from_url

if TYPE_CHECKING:
    import aiohttp
else:
    aiohttp = lazy_module("aiohttp")

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA")
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
METADATA_LASTS_S = 3600.0
LARGEST_ANSWER = 256 * 1024
TIMEOUT_S = 10.0
FRESH_S = 300
"""Seconds in which the provider must have asked the person, if the dashboard wanted a new proof."""


class ProviderFailed(TrustError):
    """The provider cannot be used: it does not answer, or not as its specification says."""


class NoAccount(TrustError):
    """The provider knows the person, but the dashboard has no account for them."""


@dataclass(frozen=True, slots=True)
class SignOn:
    """A sign-on that has begun. The browser keeps it, encrypted, until the provider sends the person back."""

    state: str
    nonce: str
    verifier: str
    back: str
    confirms: str = ""
    """The id of the session that wants a new proof; empty to sign in."""

    def to_json(self) -> bytes:
        return json.dumps([self.state, self.nonce, self.verifier, self.back, self.confirms]).encode()

    @classmethod
    def from_json(cls, text: bytes) -> SignOn:
        return cls(*json.loads(text))


@dataclass(frozen=True, slots=True)
class ProvenPerson:
    """The person whom the provider has identified."""

    issuer: str
    subject: str
    email: str | None
    """Only an address that the provider has verified."""
    has_second_factor: bool


class Provider:
    """One OpenID Connect provider."""

    def __init__(self, issuer: str, client_id: str, client_secret: str | None = None) -> None:
        if not is_private(issuer):
            raise ProviderFailed(f"ONCEWARD_OIDC_ISSUER={issuer} must start with https://")
        self.issuer = issuer
        self.client_id = client_id
        self._client_secret = client_secret
        self._metadata: Mapping[str, Any] = {}
        self._fetched_at = -METADATA_LASTS_S
        self._verifier: TokenVerifier | None = None

    async def begin(self, redirect_uri: str, *, back: str, confirms: str = "") -> tuple[SignOn, str]:
        """Return a new sign-on, and the URL at the provider that the browser opens."""
        metadata = await self._discover()
        started = SignOn(
            secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48), back, confirms
        )
        digest = hashlib.sha256(started.verifier.encode()).digest()
        parameters = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": redirect_uri,
            "scope": "openid email",
            "state": started.state,
            "nonce": started.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        if confirms:
            parameters |= {"prompt": "login", "max_age": "0"}
        endpoint = str(metadata["authorization_endpoint"])
        return started, f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(parameters)}"

    async def finish(self, started: SignOn, *, code: str, redirect_uri: str) -> ProvenPerson:
        """Exchange the code for a token, and return whom it names. Raises `NotAuthenticated` or `ProviderFailed`."""
        metadata = await self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": started.verifier,
            "client_id": self.client_id,
        }
        answer = await self._call(str(metadata["token_endpoint"]), form)
        assert self._verifier is not None
        claims = await self._verifier.verify(str(answer.get("id_token", "")))
        if not secrets.compare_digest(str(claims.get("nonce", "")).encode(), started.nonce.encode()):
            raise NotAuthenticated("the token of the provider belongs to another sign-on")
        if claims.get("azp", self.client_id) != self.client_id:
            raise NotAuthenticated("the token of the provider was issued for another client")
        if started.confirms and not _is_fresh(claims.get("auth_time")):
            raise NotAuthenticated("the provider did not ask for a new proof of identity")
        email = claims.get("email") if claims.get("email_verified") is True else None
        methods = cast("list[object]", amr) if isinstance(amr := claims.get("amr"), list) else []
        return ProvenPerson(self.issuer, str(claims["sub"])[:255], email, "mfa" in methods)

    async def _discover(self) -> Mapping[str, Any]:
        """Return the provider's own description, which is fetched once an hour."""
        if time.monotonic() - self._fetched_at < METADATA_LASTS_S:
            return self._metadata
        metadata = await self._call(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        missing = [name for name in ENDPOINTS if not metadata.get(name)]
        if metadata.get("issuer") != self.issuer or missing:
            raise ProviderFailed(
                f"the description at {self.issuer} names the issuer {metadata.get('issuer')!r}"
                f" and lacks {', '.join(missing) or 'nothing'}: correct ONCEWARD_OIDC_ISSUER"
            )
        for name in ENDPOINTS:
            if not is_private(str(metadata[name])):
                raise ProviderFailed(f"the description at {self.issuer} names a {name} without https")
        rules = Rules(algorithms=ALGORITHMS, audience=self.client_id, issuer=self.issuer)
        self._verifier = TokenVerifier(rules, jwks=jwks_from_url(str(metadata["jwks_uri"])))
        self._metadata, self._fetched_at = metadata, time.monotonic()
        return metadata

    async def _call(self, url: str, form: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        """Request a JSON object. A redirect is not followed: it could lead the code to another host."""
        headers: dict[str, str] = {}
        if form is not None and self._client_secret is not None:
            pair = f"{quote(self.client_id, safe='')}:{quote(self._client_secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as http,
                http.request(
                    "GET" if form is None else "POST", url, data=form, headers=headers, allow_redirects=False
                ) as reply,
            ):
                body = await reply.content.read(LARGEST_ANSWER)
                if reply.status != 200:
                    raise ProviderFailed(f"the provider answered {reply.status} at {urlsplit(url).path}")
                answer = json.loads(body)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ProviderFailed(f"the provider did not answer as expected: {type(error).__name__}") from error
        if not isinstance(answer, dict):
            raise ProviderFailed("the provider did not answer with a JSON object")
        return cast(Mapping[str, Any], answer)


async def find_person(tx: Transaction, proven: ProvenPerson) -> UUID:
    """Return the account of the person. The first sign-in links it. Raises `NoAccount`. Runs as the engine."""
    user_id = await tx.fetchval(
        "select user_id from onceward.provider_accounts join onceward.users using (user_id)"
        " where issuer = $1 and subject = $2 and disabled_at is null",
        proven.issuer,
        proven.subject,
    )
    if user_id is not None:
        return user_id
    if proven.email is None:
        raise NoAccount("the provider has not verified your address, so it cannot be used to find your account")
    user_id = await tx.fetchval(
        "select user_id from onceward.users where lower(email) = lower($1) and disabled_at is null", proven.email
    )
    linked = (
        None
        if user_id is None
        else await tx.fetchval(
            "insert into onceward.provider_accounts (issuer, subject, user_id) values ($1, $2, $3)"
            " on conflict do nothing returning 1",
            proven.issuer,
            proven.subject,
            user_id,
        )
    )
    if user_id is None or not linked:
        raise NoAccount(f"there is no account for {proven.email}: ask an administrator to add you")
    await audit.record(
        tx,
        "provider_account.linked",
        entity_type="user",
        entity_id=user_id,
        changes={"issuer": proven.issuer},
        actor=f"session:{user_id}",
    )
    return user_id


def _is_fresh(auth_time: object) -> bool:
    return isinstance(auth_time, int | float) and abs(time.time() - auth_time) < FRESH_S
