"""Tokens of end users: only what was signed as configured, for us, and not too late."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import jwt as pyjwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from starlette.requests import Request

from onceward.db import Database
from onceward.trust import NotAuthenticated, TooManyFailures
from onceward.trust.jwt import BadVerifier, Rules, TokenVerifier, jwks_from_file
from onceward.web.auth import Authenticator

SECRET = "s" * 64
ORGANIZATION = uuid4()


def claims(**changes: Any) -> dict[str, Any]:
    return {"sub": "user-1", "exp": time.time() + 60, "organization_id": str(ORGANIZATION), **changes}


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_pem(key: rsa.RSAPrivateKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def key_set(**keys: rsa.RSAPrivateKey) -> dict[str, Any]:
    entries = [{**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": kid} for kid, key in keys.items()]
    return {"keys": entries}


async def test_a_token_is_its_user_and_organization() -> None:
    verifier = TokenVerifier(Rules(), secret=SECRET)
    identity = await verifier.authenticate(pyjwt.encode(claims(), SECRET, "HS256"))
    assert (identity.kind, identity.sub, identity.organization) == ("token", "user-1", ORGANIZATION)
    assert identity.may("user")
    assert not identity.may("viewer")


def forged_none() -> str:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims())}."


@pytest.mark.parametrize(
    "token",
    [
        forged_none(),
        pyjwt.encode(claims(), "x" * 64, "HS256"),
        pyjwt.encode(claims(), SECRET, "HS512"),
        pyjwt.encode(claims(exp=time.time() - 31), SECRET, "HS256"),
        pyjwt.encode({"sub": "user-1"}, SECRET, "HS256"),
        pyjwt.encode({"exp": time.time() + 60}, SECRET, "HS256"),
        pyjwt.encode(claims(sub=""), SECRET, "HS256"),
        pyjwt.encode(claims(nbf=time.time() + 120), SECRET, "HS256"),
        pyjwt.encode(claims(organization_id="x"), SECRET, "HS256"),
        pyjwt.encode(claims(), SECRET, "HS256") + "x",
        pyjwt.encode(claims(pad="x" * 9000), SECRET, "HS256"),
        "a.b.c",
        "",
        "é.é.é",
        ".." * 100,
    ],
)
async def test_no_other_token_is_accepted(token: str) -> None:
    with pytest.raises(NotAuthenticated):
        await TokenVerifier(Rules(), secret=SECRET).authenticate(token)


async def test_clocks_may_differ_a_little() -> None:
    token = pyjwt.encode(claims(exp=time.time() - 10), SECRET, "HS256")
    assert (await TokenVerifier(Rules(leeway_s=30), secret=SECRET).verify(token))["sub"] == "user-1"


async def test_audience_and_issuer_must_be_ours() -> None:
    verifier = TokenVerifier(Rules(audience="shop", issuer="https://id"), secret=SECRET)
    await verifier.verify(pyjwt.encode(claims(aud=["shop", "x"], iss="https://id"), SECRET, "HS256"))
    for wrong in (
        {"aud": "x", "iss": "https://id"},
        {"aud": "shop", "iss": "evil"},
        {"aud": "shop"},
        {"iss": "https://id"},
    ):
        with pytest.raises(NotAuthenticated):
            await verifier.verify(pyjwt.encode(claims(**wrong), SECRET, "HS256"))


async def test_a_public_key_is_never_taken_for_a_shared_one(rsa_key: rsa.RSAPrivateKey) -> None:
    pem = public_pem(rsa_key)
    verifier = TokenVerifier(Rules(algorithms=("RS256",)), public_key=pem)
    await verifier.verify(pyjwt.encode(claims(), rsa_key, "RS256"))
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(json.dumps(claims()).encode()).decode().rstrip("=")
    import hashlib
    import hmac

    signature = hmac.new(pem.encode(), f"{head}.{body}".encode(), hashlib.sha256).digest()
    forged = f"{head}.{body}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"
    with pytest.raises(NotAuthenticated):
        await verifier.verify(forged)


@pytest.mark.parametrize(
    "given",
    [
        {"secret": "short"},
        {"secret": "-----BEGIN PUBLIC KEY-----" + "x" * 40},
        {"secret": SECRET, "public_key": "x"},
        {},
        {"public_key": "x"},
    ],
)
def test_a_verifier_that_could_be_fooled_is_not_made(given: dict[str, Any]) -> None:
    with pytest.raises(BadVerifier):
        TokenVerifier(Rules(algorithms=("HS256",)), **given)


def test_families_are_not_mixed() -> None:
    with pytest.raises(BadVerifier):
        TokenVerifier(Rules(algorithms=("HS256", "RS256")), secret=SECRET)
    with pytest.raises(BadVerifier):
        TokenVerifier(Rules(algorithms=("none",)), secret=SECRET)


async def test_keys_come_from_a_key_set_and_new_ones_are_fetched(
    rsa_key: rsa.RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    served: Mapping[str, Any] = key_set(one=rsa_key)
    fetches = 0

    async def fetch() -> Mapping[str, Any]:
        nonlocal fetches
        fetches += 1
        return served

    verifier = TokenVerifier(Rules(algorithms=("RS256",)), jwks=fetch)
    await verifier.verify(pyjwt.encode(claims(), rsa_key, "RS256", headers={"kid": "one"}))
    served = key_set(one=rsa_key, two=other)
    second = pyjwt.encode(claims(), other, "RS256", headers={"kid": "two"})
    for _ in range(3):
        with pytest.raises(NotAuthenticated):
            await verifier.verify(second)
    assert fetches == 1, "unknown key ids must not become a flood of fetches"
    monkeypatch.setattr("onceward.trust.jwt.REFETCH_AFTER_S", -1.0)
    await verifier.verify(second)
    with pytest.raises(NotAuthenticated):
        await verifier.verify(pyjwt.encode(claims(), other, "RS256", headers={"kid": "one"}))


async def test_a_key_set_in_a_file(rsa_key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    shared = {"kty": "oct", "kid": "h", "k": base64.urlsafe_b64encode(SECRET.encode()).decode()}
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [shared, {"kty": "nonsense"}, *key_set(one=rsa_key)["keys"]]}))
    verifier = TokenVerifier(Rules(algorithms=("RS256",)), jwks=jwks_from_file(path))
    await verifier.verify(pyjwt.encode(claims(), rsa_key, "RS256", headers={"kid": "one"}))
    path.write_text("[]")
    await verifier.verify(pyjwt.encode(claims(), rsa_key, "RS256"))
    broken = TokenVerifier(Rules(algorithms=("RS256",)), jwks=jwks_from_file(path))
    with pytest.raises(NotAuthenticated, match="could not be fetched"):
        await broken.verify(pyjwt.encode(claims(), rsa_key, "RS256"))


class SlowKeySet:
    """A server that answers when the test says so."""

    def __init__(self, keys: dict[str, Any]) -> None:
        self.keys = keys
        self.asked = 0
        self.answers = asyncio.Event()

    async def fetch(self) -> Mapping[str, Any]:
        self.asked += 1
        await self.answers.wait()
        return self.keys


def with_unknown_keys(count: int, key: rsa.RSAPrivateKey) -> list[str]:
    return [pyjwt.encode(claims(), key, "RS256", headers={"kid": f"unknown-{n}"}) for n in range(count)]


async def test_many_tokens_with_unknown_keys_cause_one_fetch(rsa_key: rsa.RSAPrivateKey) -> None:
    server = SlowKeySet(key_set(known=rsa_key))
    verifier = TokenVerifier(Rules(algorithms=("RS256",)), jwks=server.fetch)
    tokens = with_unknown_keys(10, rsa_key)
    good = asyncio.create_task(verifier.verify(pyjwt.encode(claims(), rsa_key, "RS256", headers={"kid": "known"})))
    hurried = asyncio.create_task(verifier.verify(tokens[0]))
    waiting = [asyncio.create_task(verifier.verify(token)) for token in tokens]
    await asyncio.sleep(0)
    hurried.cancel()
    await asyncio.sleep(0)
    server.answers.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(answer, NotAuthenticated) for answer in answers)
    assert (await good)["sub"] == "user-1", "who gave up did not stop the fetch"
    for token in tokens:
        with pytest.raises(NotAuthenticated):
            await verifier.verify(token)
    assert server.asked == 1


async def test_unknown_keys_hold_no_connections_while_keys_are_fetched(
    database_url: str, rsa_key: rsa.RSAPrivateKey
) -> None:
    server = SlowKeySet(key_set(known=rsa_key))
    database = await Database.open(database_url, min_size=1, max_size=2)
    authenticator = Authenticator(database, tokens=TokenVerifier(Rules(algorithms=("RS256",)), jwks=server.fetch))

    async def ask(token: str) -> None:
        headers = [(b"authorization", f"Bearer {token}".encode())]
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers, "client": None}
        with pytest.raises((NotAuthenticated, TooManyFailures)):
            await authenticator.identify(Request(scope))

    asking = [asyncio.create_task(ask(token)) for token in with_unknown_keys(10, rsa_key)]
    try:
        async with asyncio.timeout(10):
            while not server.asked:
                await asyncio.sleep(0)
            assert await database.fetchval("select 1") == 1
        assert not any(task.done() for task in asking)
    finally:
        server.answers.set()
        await asyncio.gather(*asking)
        await database.close()
    assert server.asked == 1
