"""A certificate as an Open Badges 3.0 credential: a signed JWT that a third party verifies offline with our public key.

The payload of the JWT is the credential itself, in the data model of Verifiable Credentials 2.0. Each organization has
a key of its own, which is created when the first badge is asked for. `kid` is the address of the public key. A rotation
adds a key in front: it signs from then on, and the older ones stay published, because downloaded badges name them.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from onceward import Engine
from onceward_apps.learning import links
from onceward_apps.learning.store import keys

CONTEXT = ["https://www.w3.org/ns/credentials/v2", "https://purl.imsglobal.org/spec/ob/v3p0/context-3.0.3.json"]
ALGORITHM = "RS256"
"""The algorithm that every verifier of Open Badges supports."""


def credential(certificate: Any, *, email: str, issuer: str) -> dict[str, Any]:
    """Return the credential of a certificate (a row).

    The address is a salted hash, so that only its owner can be matched.
    """
    snapshot = certificate["snapshot"]
    salt = certificate["credential_id"]
    digest = hashlib.sha256((email.strip().lower() + salt).encode()).hexdigest()
    return {
        "@context": CONTEXT,
        "id": certificate["url"],
        "type": ["VerifiableCredential", "OpenBadgeCredential"],
        "name": snapshot["cohortName"],
        "issuer": {"id": issuer, "type": ["Profile"], "name": snapshot["organizationName"]},
        "validFrom": _moment(certificate["issued_at"]),
        "credentialSubject": {
            "type": ["AchievementSubject"],
            "identifier": [
                _identity("emailAddress", f"sha256${digest}", hashed=True, salt=salt),
                _identity("name", snapshot["studentName"] or "", hashed=False),
            ],
            "achievement": {
                "id": links.cohort(certificate["cohort_id"]),
                "type": ["Achievement"],
                "achievementType": "Course",
                "name": snapshot["cohortName"],
                "description": f"Completion of {snapshot['cohortName']}",
                "criteria": {"narrative": _criteria(snapshot)},
            },
        },
    }


def sign(claims: dict[str, Any], private_key: bytes, *, key_url: str) -> str:
    """Return the credential as a compact JWT with the registered claims that the specification maps to it."""
    registered = {"iss": claims["issuer"]["id"], "jti": claims["id"], "nbf": _seconds(claims["validFrom"])}
    key = _load(private_key)
    return jwt.encode({**claims, **registered}, key, ALGORITHM, headers={"kid": key_url, "typ": "JWT"})


def public_jwk(private_key: bytes, *, key_url: str) -> dict[str, Any]:
    """Return the public half of a key as a JSON Web Key."""
    key = _load(private_key)
    return {
        **RSAAlgorithm.to_jwk(key.public_key(), as_dict=True),
        "kid": key_url,
        "alg": ALGORITHM,
        "use": "sig",
        "key_ops": ["verify"],
    }


async def key_of(engine: Engine, organization: UUID) -> bytes:
    """Return the private key of an organization that signs. The first call creates it."""
    async with engine.transaction(organization=organization) as tx:
        if known := await keys.badge_keys(tx):
            return known[0]
    made = await asyncio.to_thread(new_key)  # takes a good part of a second
    async with engine.transaction(organization=organization) as tx:
        return (await keys.keep_badge_key(tx, made))[0]


def key_id(private_key: bytes) -> str:
    """Return the name of a key in its address: the beginning of the digest of its public half."""
    key = _load(private_key)
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(public).hexdigest()[:16]


def _load(private_key: bytes) -> rsa.RSAPrivateKey:
    # We made the key, so its primes need no test, which would hold up every request that shows a credential.
    key = serialization.load_der_private_key(private_key, password=None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


def new_key() -> bytes:
    """Return a new private key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _identity(kind: str, value: str, *, hashed: bool, salt: str | None = None) -> dict[str, Any]:
    identity = {"type": "IdentityObject", "hashed": hashed, "identityHash": value, "identityType": kind}
    return identity if salt is None else {**identity, "salt": salt}


def _criteria(snapshot: Any) -> str:
    parts = [f"{snapshot['completionPercentage']:.0f} % of the course completed"]
    if snapshot.get("attendancePercentage") is not None:
        parts.append(f"{snapshot['attendancePercentage']:.0f} % of the live sessions attended")
    return ", ".join(parts)


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())
