"""A certificate as an Open Badges 3.0 credential: anyone verifies it offline with the published key."""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import jwt
import pytest

from onceward_apps.learning import open_badges
from onceward_apps.learning.certificates import revoke_certificate
from onceward_apps.learning.store import keys
from tests.learning.server import Server, running

CERTIFICATE = """
insert into learning.certificates (organization_id, enrollment_id, user_id, cohort_id, credential_id, url, snapshot)
select e.organization_id, e.id, e.user_id, e.cohort_id, 'OW-1', 'https://learn.example/learn/certificates/OW-1', $2
  from learning.enrollments e where e.id = $1
"""
SNAPSHOT = {
    "studentName": "Ada",
    "cohortName": "Data <Engineering>",
    "organizationName": "Riverside School",
    "completionPercentage": 92.0,
    "attendancePercentage": 80.0,
}


async def certified(server: Server) -> UUID:
    enrollment = await server.enrol(await server.cohort(), "Ada")
    await server.db.execute(CERTIFICATE, enrollment, SNAPSHOT)
    return enrollment


async def badge(server: Server) -> tuple[str, Any]:
    status, token = await server.call("GET", "/learn/certificates/OW-1/badge.jwt")
    assert status == 200, token
    path = urlsplit(jwt.get_unverified_header(token)["kid"]).path
    status, key = await server.call("GET", path)
    assert status == 200, key
    return token, key


async def listed(server: Server, claims: Any) -> bool:
    """Whether the status list that a badge names says that it is not valid, read as a verifier reads it."""
    status = claims["credentialStatus"]
    code, token = await server.call("GET", urlsplit(status["statusListCredential"]).path)
    assert code == 200, token
    _, key = await server.call("GET", urlsplit(jwt.get_unverified_header(token)["kid"]).path)
    found = jwt.decode(token, jwt.PyJWK.from_dict(key).key, ["RS256"])
    assert (found["id"], found["issuer"]["id"]) == (status["statusListCredential"], claims["issuer"]["id"])
    encoded = found["credentialSubject"]["encodedList"]
    assert encoded[0] == "u"
    bits = gzip.decompress(base64.urlsafe_b64decode(encoded[1:] + "=" * (-len(encoded[1:]) % 4)))
    assert len(bits) * 8 == open_badges.LIST_SIZE
    index = int(status["statusListIndex"])
    assert sum(bits) in (0, 0x80 >> index % 8), "nothing else is set"
    return bool(bits[index // 8] & 0x80 >> index % 8)


@pytest.mark.acceptance("badgeStatusList", "verifyCertificate")
async def test_a_badge_is_verified_offline_with_the_published_key(database_url: str, tmp_path: Path) -> None:
    async with running(database_url, tmp_path) as server:
        status, _ = await server.call("GET", f"/learn/issuers/{server.organization}/keys")
        assert status == 404  # asking for a key does not create one
        enrollment = await certified(server)
        token, key = await badge(server)
        assert (await badge(server))[0] == token  # the same key, the same bytes

        header = jwt.get_unverified_header(token)
        assert (header["alg"], header["typ"], header["kid"]) == ("RS256", "JWT", key["kid"])
        assert "d" not in key
        claims = jwt.decode(token, jwt.PyJWK.from_dict(key).key, ["RS256"])
        assert claims["type"] == ["VerifiableCredential", "OpenBadgeCredential"]
        assert claims["@context"][0] == "https://www.w3.org/ns/credentials/v2"
        assert (claims["iss"], claims["jti"]) == (claims["issuer"]["id"], claims["id"])
        subject = claims["credentialSubject"]
        assert subject["achievement"]["name"] == "Data <Engineering>"
        assert subject["achievement"]["criteria"]["narrative"].startswith("92 % of the course")
        mail, name = subject["identifier"]
        assert (
            mail["identityHash"] == "sha256$" + hashlib.sha256(b"ada@example.org" + mail["salt"].encode()).hexdigest()
        )
        assert name["identityHash"] == "Ada"
        assert "ada@" not in str(claims)

        async with server.engine.transaction(organization=server.organization) as tx:
            assert await keys.rotate_badge_key(tx, open_badges.new_key(), actor="test") == 2
        newer, newer_key = await badge(server)
        assert newer_key["kid"] != key["kid"]
        assert jwt.decode(newer, jwt.PyJWK.from_dict(newer_key).key, ["RS256"])["jti"] == claims["jti"]
        status, kept = await server.call("GET", urlsplit(key["kid"]).path)
        assert (status, kept) == (200, key)  # a badge that was downloaded before is still verified
        _, published = await server.call("GET", f"/learn/issuers/{server.organization}/keys")
        assert published == {"keys": [newer_key, key]}
        assert (await server.call("GET", f"/learn/issuers/{server.organization}/keys/0"))[0] == 404

        assert await listed(server, claims) is False
        status, shown = await server.call("GET", "/learn/certificates/OW-1")
        assert (status, "Riverside School confirms that Ada has completed the course" in shown) == (200, True)
        assert (await server.call("GET", "/learn/certificates?id=%20ow-1%20"))[0] == 303, "typed from the document"
        status, shown = await server.call("GET", "/learn/certificates")
        assert (status, "Check the certificate" in shown) == (200, True)
        async with server.engine.transaction(organization=server.organization) as tx:
            await revoke_certificate(tx, enrollment, reason="test")
        assert await listed(server, claims) is True
        assert (await server.call("GET", "/learn/certificates/OW-1/badge.jwt"))[0] == 410
        assert (await server.call("GET", "/learn/certificates/OW-2/badge.jwt"))[0] == 404
        assert (await server.call("GET", f"/learn/issuers/{uuid4()}/keys"))[0] == 404
