"""Notifications of the App Store are accepted only with a chain of certificates that its own library accepts too."""

from __future__ import annotations

import base64
import datetime as dt
import json
from dataclasses import dataclass, replace

import jwt
import pytest
from appstoreserverlibrary.models.Environment import Environment
from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier, VerificationException
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from onceward.integrations.app_store.sender import (
    INTERMEDIATE_MARK,
    LEAF_MARK,
    AppStoreOptions,
    AppStoreSignature,
)
from onceward.webhooks.provider import ConfigError, Rejected, Request, SourceConfig
from onceward.webhooks.registry import PROVIDERS
from tests.senders.world import NOW

PAYLOAD = {
    "notificationType": "SUBSCRIBED",
    "notificationUUID": "8d2f6a1c-4b93-4e70-9c5a-1f7e3d0b2a68",
    "data": {"environment": "Sandbox", "appAppleId": 1, "bundleId": "com.example.ferries"},
    "version": "2.0",
    "signedDate": int(NOW * 1000),
}


@dataclass(frozen=True)
class Issued:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def text(self) -> str:
        return base64.b64encode(self.certificate.public_bytes(serialization.Encoding.DER)).decode()


def issue(name: str, by: Issued | None, *, ca: bool, mark: str = "", days: int = 400) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    begin = dt.datetime.fromtimestamp(NOW, dt.UTC) - dt.timedelta(days=30)
    made = x509.CertificateBuilder(
        issuer_name=subject if by is None else by.certificate.subject,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=begin,
        not_valid_after=begin + dt.timedelta(days=days),
    )
    made = made.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    if mark:
        made = made.add_extension(x509.UnrecognizedExtension(x509.ObjectIdentifier(mark), b"\x05\x00"), critical=False)
    issuer = (by.key if by else key).public_key()
    made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    made = made.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
    usage = dict.fromkeys(
        (
            *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign"),
            *("encipher_only", "decipher_only"),
        ),
        False,
    )
    made = made.add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=ca, **usage), critical=True)
    return Issued(made.sign(by.key if by else key, hashes.SHA256()), key)


ROOT = issue("root", None, ca=True)
MIDDLE = issue("middle", ROOT, ca=True, mark=INTERMEDIATE_MARK)
LEAF = issue("leaf", MIDDLE, ca=False, mark=LEAF_MARK)
OTHER_ROOT = issue("root", None, ca=True)
UNMARKED_MIDDLE = issue("middle", ROOT, ca=True)
NO_CA = issue("middle", ROOT, ca=False, mark=INTERMEDIATE_MARK)
EXPIRED = issue("leaf", MIDDLE, ca=False, mark=LEAF_MARK, days=10)

CHAINS = {
    "genuine": (LEAF, MIDDLE, ROOT),
    "another root": (
        issue("leaf", other := issue("middle", OTHER_ROOT, ca=True, mark=INTERMEDIATE_MARK), ca=False, mark=LEAF_MARK),
        other,
        OTHER_ROOT,
    ),
    "another root, with the name of ours": (issue("leaf", other, ca=False, mark=LEAF_MARK), other, ROOT),
    "two certificates": (LEAF, MIDDLE),
    "four certificates": (LEAF, MIDDLE, ROOT, ROOT),
    "none": (),
    "no mark on the leaf": (issue("leaf", MIDDLE, ca=False), MIDDLE, ROOT),
    "no mark on the intermediate": (
        issue("leaf", UNMARKED_MIDDLE, ca=False, mark=LEAF_MARK),
        UNMARKED_MIDDLE,
        ROOT,
    ),
    "an intermediate that may not issue": (issue("leaf", NO_CA, ca=False, mark=LEAF_MARK), NO_CA, ROOT),
    "an expired leaf": (EXPIRED, MIDDLE, ROOT),
    "the leaf as its own issuer": (LEAF, LEAF, ROOT),
}
SCHEME = AppStoreSignature(roots=frozenset({ROOT.certificate.fingerprint(hashes.SHA256()).hex()}))
CONFIG = SourceConfig(provider="app_store", options={"bundle_id": "com.example.ferries"})


def signed(chain: tuple[Issued, ...], payload: object = PAYLOAD, algorithm: str = "ES256") -> str:
    key = chain[0].key if chain else LEAF.key
    return jwt.encode(payload, key, algorithm=algorithm, headers={"x5c": [each.text for each in chain]})  # pyright: ignore


def ours_accepts(token: str) -> bool:
    try:
        SCHEME.verify(CONFIG, Request("POST", "/", "", {}, json.dumps({"signedPayload": token}).encode()), NOW)
    except Rejected:
        return False
    return True


def theirs_accepts(token: str) -> bool:
    root = ROOT.certificate.public_bytes(serialization.Encoding.DER)
    try:
        verifier = SignedDataVerifier([root], False, Environment.SANDBOX, "com.example.ferries")
        verifier.verify_and_decode_notification(token)
    except VerificationException:
        return False
    return True


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_accepted_if_the_library_of_apple_accepts_it(name: str) -> None:
    token = signed(CHAINS[name])
    assert (ours_accepts(token), theirs_accepts(token)) == ((name == "genuine"),) * 2
    if name == "genuine":
        head, payload, signature = token.split(".")
        changed = base64.urlsafe_b64encode(json.dumps(PAYLOAD | {"notificationType": "REFUND"}).encode()).decode()
        for wrong in (
            f"{head}.{changed.rstrip('=')}.{signature}",
            f"{head}.{payload}.{signature[::-1]}",
            f"{head}.{payload}.",
        ):
            assert (ours_accepts(wrong), theirs_accepts(wrong)) == (False, False)


def test_a_notification_of_another_app_or_environment_is_refused() -> None:
    for change in ({"bundleId": "com.example.other"}, {"environment": "Production"}, {"environment": "Xcode"}):
        token = signed(CHAINS["genuine"], PAYLOAD | {"data": {**PAYLOAD["data"], **change}})  # pyright: ignore
        assert (ours_accepts(token), theirs_accepts(token)) == (False, False)
    with pytest.raises(ConfigError, match="app_apple_id"):
        replace(CONFIG, options={**CONFIG.options, "environment": "Production"})
    assert AppStoreOptions(bundle_id="x").environment == "Sandbox"


def test_a_chain_of_ours_is_not_one_of_apple() -> None:
    body = json.dumps({"signedPayload": signed(CHAINS["genuine"])}).encode()
    with pytest.raises(Rejected) as refused:
        PROVIDERS["app_store"].verify(CONFIG, Request("POST", "/", "", {}, body), NOW)
    assert refused.value.reason == "bad_certificate"
