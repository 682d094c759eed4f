"""Tokens of end users: signed JWTs, verified with algorithms of one family only.

A verifier with a shared key accepts only HS algorithms, and a verifier with public keys never accepts them, so nobody
can use a public key as a shared one. The token identifies the user; it does not grant any scope above `user`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from onceward.background import spawn
from onceward.lazy import lazy_module
from onceward.trust.errors import NotAuthenticated, TrustError
from onceward.trust.identity import Identity

if TYPE_CHECKING:
    import aiohttp
    import jwt as pyjwt
else:
    aiohttp = lazy_module("aiohttp")
    pyjwt = lazy_module("jwt")

SHARED = frozenset({"HS256", "HS384", "HS512"})
SIGNED = frozenset({"RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA"})
LONGEST_TOKEN = 8192
LARGEST_KEY_SET = 256 * 1024
KEYS_LAST_S = 600.0
"""Seconds for which a fetched key set is used before the next fetch."""
REFETCH_AFTER_S = 30.0
"""Tokens with unknown key ids cause at most one fetch in this number of seconds."""
RETRY_AFTER_S = 5.0
"""Seconds after which a failed fetch is repeated while there are no keys at all."""

FetchKeys = Callable[[], Awaitable[Mapping[str, Any]]]


class BadVerifier(TrustError):
    """The settings do not allow tokens to be verified safely."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a token must satisfy in addition to its signature. `exp` and `sub` are always required."""

    algorithms: tuple[str, ...] = ("HS256",)
    audience: str | None = None
    issuer: str | None = None
    leeway_s: float = 30.0
    organization_claim: str = "organization_id"
    tier_claim: str = "tier"


class TokenVerifier:
    """Verifies tokens with exactly one of: a shared `secret`, a `public_key` (PEM), or a key set (`jwks`)."""

    def __init__(
        self,
        rules: Rules,
        *,
        secret: str | None = None,
        public_key: str | None = None,
        jwks: FetchKeys | None = None,
    ) -> None:
        self.rules = rules
        self._fetch = jwks
        self._fixed = secret if secret is not None else public_key
        self._keys: dict[str | None, pyjwt.PyJWK] = {}
        self._fetched_at: float | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._failure: str | None = None
        if sum(one is not None for one in (secret, public_key, jwks)) != 1:
            raise BadVerifier("give exactly one of a shared secret, a public key or a key set (JWKS)")
        family = SHARED if secret is not None else SIGNED
        wrong = set(rules.algorithms) - family
        if wrong or not rules.algorithms:
            raise BadVerifier(f"algorithms {sorted(rules.algorithms)} must all be among {', '.join(sorted(family))}")
        if secret is not None and (len(secret.encode()) < 32 or "-----BEGIN" in secret):
            raise BadVerifier("ONCEWARD_JWT_SECRET must have at least 32 bytes and must not be a public key")

    async def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a valid token. Raises `NotAuthenticated` for any other."""
        if len(token) > LONGEST_TOKEN:
            raise NotAuthenticated(f"the token is longer than {LONGEST_TOKEN} characters")
        try:
            header = pyjwt.get_unverified_header(token)
            if header.get("alg") not in self.rules.algorithms:
                raise NotAuthenticated("the token's algorithm is not allowed")
            return pyjwt.decode(
                token,
                key=await self._key(header.get("kid")),
                algorithms=list(self.rules.algorithms),
                audience=self.rules.audience,
                issuer=self.rules.issuer,
                leeway=self.rules.leeway_s,
                options={"require": ["exp", "sub"], "verify_aud": self.rules.audience is not None},
            )
        except pyjwt.PyJWTError as error:
            raise NotAuthenticated(f"the token is not valid: {type(error).__name__}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise NotAuthenticated(f"the token cannot be read: {type(error).__name__}") from error

    async def authenticate(self, token: str) -> Identity:
        """Return the end user that the token names, in the organization that the token names."""
        claims = await self.verify(token)
        organization = claims.get(self.rules.organization_claim)
        subject = str(claims["sub"])
        if not subject or len(subject) > 200:
            raise NotAuthenticated("the token's subject is empty or too long")
        try:
            acting = None if organization is None else UUID(str(organization))
        except ValueError:
            raise NotAuthenticated(f"the token's {self.rules.organization_claim} is not a UUID") from None
        tier = claims.get(self.rules.tier_claim)
        named = tier[:60] if isinstance(tier, str) else None
        return Identity("token", acting, frozenset({"user"}), sub=subject, label=subject, tier=named)

    async def _key(self, kid: str | None) -> Any:
        if self._fetch is None:
            return self._fixed
        if self._is_fetch_due(kid):
            await self._fetch_once()
        if not self._keys and self._failure is not None:
            raise NotAuthenticated(f"the key set could not be fetched: {self._failure}")
        key = self._keys.get(kid)
        if key is None and kid is None and len(self._keys) == 1:
            key = next(iter(self._keys.values()))
        if key is None:
            raise NotAuthenticated("the token is signed with a key that is not in the key set")
        return key

    def _is_fetch_due(self, kid: str | None) -> bool:
        if self._fetched_at is None:
            return True
        age_s = time.monotonic() - self._fetched_at
        if self._failure is not None and not self._keys:
            return age_s > RETRY_AFTER_S
        return age_s > KEYS_LAST_S or (kid not in self._keys and age_s > REFETCH_AFTER_S)

    async def _fetch_once(self) -> None:
        """Fetch the key set, or wait for the fetch that already runs. A cancelled caller does not cancel the fetch."""
        if self._fetching is None:
            self._fetching = spawn(self._refresh())
        await asyncio.shield(self._fetching)

    async def _refresh(self) -> None:
        """Fetch the key set. If the fetch fails, the old keys stay in use."""
        assert self._fetch is not None
        try:
            self._keys = _usable(await self._fetch(), self.rules.algorithms)
            self._failure = None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            self._failure = type(error).__name__
        finally:
            self._fetched_at = time.monotonic()
            self._fetching = None


def _usable(key_set: Mapping[str, Any], algorithms: Sequence[str]) -> dict[str | None, pyjwt.PyJWK]:
    """Return the signature keys for the allowed algorithms. Shared keys in a key set are never used."""
    usable: dict[str | None, pyjwt.PyJWK] = {}
    for entry in cast(list[dict[str, Any]], key_set.get("keys", [])):
        if entry.get("kty") == "oct" or entry.get("use", "sig") != "sig":
            continue
        algorithm = entry.get("alg", algorithms[0])
        if algorithm not in algorithms:
            continue
        try:
            usable[entry.get("kid")] = pyjwt.PyJWK(entry, algorithm=algorithm)
        except pyjwt.PyJWTError:
            continue
    return usable


def jwks_from_url(url: str, *, timeout_s: float = 5.0) -> FetchKeys:
    """Fetch a key set over HTTP, from a configured URL and never from a URL in a token."""

    async def fetch() -> Mapping[str, Any]:
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with aiohttp.ClientSession(timeout=timeout) as http, http.get(url) as reply:
            reply.raise_for_status()
            body = bytearray()
            async for chunk in reply.content.iter_any():
                body += chunk
                if len(body) > LARGEST_KEY_SET:
                    raise ValueError(f"the key set is larger than {LARGEST_KEY_SET} bytes")
            return _object(bytes(body))

    return fetch


def jwks_from_file(path: Path) -> FetchKeys:
    """Read a key set from a file, again at each refresh of the keys."""

    async def fetch() -> Mapping[str, Any]:
        return _object(await asyncio.to_thread(path.read_bytes))

    return fetch


def _object(body: bytes) -> Mapping[str, Any]:
    key_set = json.loads(body)
    if not isinstance(key_set, dict):
        raise ValueError("the key set must be a JSON object")
    return cast(Mapping[str, Any], key_set)
