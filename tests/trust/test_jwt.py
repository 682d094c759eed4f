"""Tokens of end users: only what was signed as configured, for us, and not too late."""

from __future__ import annotations

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

from onceward.trust import NotAuthenticated
from onceward.trust.jwt import BadVerifier, Rules, TokenVerifier, jwks_from_file

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
    entries = [
        {**json.loads(pyjwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())), "kid": kid} for kid, key in keys.items()
    ]
    return {"keys": entries}


async def test_a_token_is_its_user_and_organization() -> None:
    verifier = TokenVerifier(Rules(), secret=SECRET)
    identity = await verifier.authenticate(pyjwt.encode(claims(), SECRET, "HS256"))
    assert (identity.kind, identity.user_id, identity.organization) == ("token", "user-1", ORGANIZATION)
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
async def test_no_other_token_is_believed(token: str) -> None:
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
def test_a_verifier_that_could_be_fooled_is_not_made(given: dict[str, str]) -> None:
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
    with pytest.raises(NotAuthenticated, match="could not be had"):
        await broken.verify(pyjwt.encode(claims(), rsa_key, "RS256"))
