"""Apple App Store Server Notifications, version 2: the body is a JWS whose certificates lead to a root of Apple."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson
from pydantic import Field

from onceward.lazy import lazy_module
from onceward.webhooks.events import Events, Join
from onceward.webhooks.families.encoding import decode
from onceward.webhooks.families.public_key import is_signed
from onceward.webhooks.paths import text_at
from onceward.webhooks.payload import as_list, as_object, as_text, read_object
from onceward.webhooks.provider import ConfigError, NoOptions, ReceivedItem, Rejected, Request, SourceConfig
from onceward.webhooks.sample_secrets import private_key
from onceward.webhooks.sender import Sender

if TYPE_CHECKING:
    import jwt as pyjwt
    from cryptography import exceptions, x509
    from cryptography.hazmat.primitives import hashes, serialization
else:
    pyjwt = lazy_module("jwt")
    exceptions = lazy_module("cryptography.exceptions")
    x509 = lazy_module("cryptography.x509")
    hashes = lazy_module("cryptography.hazmat.primitives.hashes")
    serialization = lazy_module("cryptography.hazmat.primitives.serialization")

APPLE_ROOT_CA_G3: Final = "63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179"
"""The SHA-256 of the certificate. It is valid until 2039."""
LEAF_MARK: Final = "1.2.840.113635.100.6.11.1"
INTERMEDIATE_MARK: Final = "1.2.840.113635.100.6.2.1"
NESTED: Final = (("signedTransactionInfo", "transactionInfo"), ("signedRenewalInfo", "renewalInfo"))
PLACES: Final = ("data", "summary", "externalPurchaseToken", "appData")
LONGEST: Final = 200_000


class AppStoreOptions(NoOptions):
    """Whose notifications are accepted: Apple signs those of all apps with the same certificates."""

    bundle_id: str = Field(min_length=1, description="the bundle id of the app", examples=["com.example.ferries"])
    app_apple_id: int | None = Field(default=None, description="the Apple id of the app; required for `Production`")
    environment: Literal["Production", "Sandbox"] = Field(
        default="Sandbox", description="which notifications are accepted"
    )


@dataclass(frozen=True, slots=True)
class Signer:
    """The public key of a certificate that a root of Apple vouches for, and when all its certificates are valid."""

    key: bytes
    begins: datetime
    ends: datetime


@dataclass(frozen=True, kw_only=True)
class AppStoreSignature:
    """`signedPayload` is a JWS (ES256). Its `x5c` has three certificates, of which the last is Apple Root CA - G3.

    Each certificate must be issued by the next, be valid now and have Apple's mark for its purpose. Bundle id, Apple
    id and environment in the payload must be the options of the source. A source with a private key in PEM as its
    secret verifies and signs simulated notifications. Revocation (OCSP) is not checked.
    """

    summary: str = "JWS, certificates of Apple"
    proof_field: str = "signedPayload"
    signature_headers: tuple[str, ...] = ()
    roots: frozenset[str] = frozenset({APPLE_ROOT_CA_G3})

    @property
    def covers_body(self) -> bool:
        return True

    def decode_secret(self, secret: str) -> bytes:
        if not secret.startswith("-----BEGIN"):
            raise ValueError("it is not a key in PEM; a source of the App Store needs no secret")
        return secret.encode()

    def sample_secret(self, which: str) -> str:
        """Return a key for samples."""
        return private_key("ecdsa", which)

    def check(self, config: SourceConfig) -> None:
        if config.settings.environment == "Production" and config.settings.app_apple_id is None:
            raise ConfigError("option app_apple_id is missing: set it for the environment Production")

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        token = _token(request)
        signed, _, last = token.rpartition(".")
        header, signature = as_object(_segment(signed.partition(".")[0])), decode("base64url", last)
        if header.get("alg") != "ES256":
            raise Rejected("unsupported_algorithm", "the algorithm of signedPayload is not ES256")
        keys = config.keys or (self._trusted_key(header, now),)
        if signature is None or len(signature) != 64:
            raise Rejected("bad_encoding", "the signature of signedPayload is not 64 bytes in base64url")
        if not any(is_signed("ecdsa-sha256", key, signature, signed.encode(), raw_ecdsa=True) for key in keys):
            raise Rejected("bad_signature", "the key of the certificate did not sign signedPayload")
        _check_app(config, _payload(token))

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        return {}

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        if not config.keys or b"PRIVATE KEY" not in config.keys[0]:
            raise ConfigError("only Apple can sign: to try it, give the source a private key of your own in PEM")
        payload, key = read_object(body).value, config.keys[0]
        data = as_object(payload.get("data"))
        for signed, plain in NESTED:
            if plain in data:
                data[signed] = pyjwt.encode(data.pop(plain), key, algorithm="ES256")
        return orjson.dumps({"signedPayload": pyjwt.encode(payload, key, algorithm="ES256")}), ""

    def _trusted_key(self, header: dict[str, Any], now: float) -> bytes:
        signer = _signer(tuple(as_text(each) for each in as_list(header.get("x5c"))), self.roots)
        if not signer.begins <= datetime.fromtimestamp(now, UTC) <= signer.ends:
            raise Rejected("bad_certificate", "a certificate of signedPayload has expired or is not valid yet")
        return signer.key


@lru_cache(maxsize=32)
def _signer(chain: tuple[str, ...], roots: frozenset[str]) -> Signer:
    """Return the signer of a chain. Raise Rejected unless each certificate vouches for the one before it."""
    if len(chain) != 3:
        raise Rejected("bad_certificate", "signedPayload does not have three certificates")
    try:
        leaf, intermediate, root = [x509.load_der_x509_certificate(base64.b64decode(each)) for each in chain]
        if root.fingerprint(hashes.SHA256()).hex() not in roots:
            raise Rejected("bad_certificate", "the root certificate of signedPayload is not that of Apple")
        for issued, issuer in ((leaf, intermediate), (intermediate, root)):
            issued.verify_directly_issued_by(issuer)
            if not issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
                raise Rejected("bad_certificate", "a certificate of signedPayload may not issue others")
        for certificate, mark in ((leaf, LEAF_MARK), (intermediate, INTERMEDIATE_MARK)):
            certificate.extensions.get_extension_for_oid(x509.ObjectIdentifier(mark))
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        key = leaf.public_key().public_bytes(serialization.Encoding.PEM, form)
        is_signed("ecdsa-sha256", key, bytes(64), b"", raw_ecdsa=True)  # it must be a key of an elliptic curve
    except (ValueError, TypeError, exceptions.InvalidSignature, x509.ExtensionNotFound) as error:
        raise Rejected("bad_certificate", f"signedPayload is not signed by Apple: {type(error).__name__}") from None
    certificates = (leaf, intermediate, root)
    begins = max(each.not_valid_before_utc for each in certificates)
    return Signer(key, begins, min(each.not_valid_after_utc for each in certificates))


def _token(request: Request) -> str:
    token = as_text(read_object(request.body).value.get("signedPayload"))
    if not token:
        raise Rejected("unsigned", "the body has no signedPayload")
    if len(token) > LONGEST or token.count(".") != 2 or not token.isascii():
        raise Rejected("bad_body", "signedPayload is not a JWS")
    return token


def _segment(text: str) -> Any:
    raw = decode("base64url", text)
    if raw is None:
        raise Rejected("bad_body", "signedPayload is not a JWS")
    return read_object(raw).value


def _payload(token: str) -> dict[str, Any]:
    return _segment(token.split(".")[1])


def _check_app(config: SourceConfig, payload: dict[str, Any]) -> None:
    place = as_object(next((payload[name] for name in PLACES if payload.get(name)), None))
    environment = place.get("environment")
    if payload.get("externalPurchaseToken"):  # it names its environment in the id
        environment = "Sandbox" if text_at(place, "externalPurchaseId").startswith("SANDBOX") else "Production"
    wanted = config.settings
    if place.get("bundleId") != wanted.bundle_id or environment != wanted.environment:
        raise Rejected("bad_token", "bundle id or environment are not those of this source")
    if environment == "Production" and place.get("appAppleId") != wanted.app_apple_id:
        raise Rejected("bad_token", "appAppleId is not the option of this source")


@dataclass(frozen=True, kw_only=True, eq=False)
class AppStoreSender(Sender):
    """A sender whose payload is inside a JWS. The transaction and the renewal in it are decoded too."""

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        payload = _payload(_token(request))
        data = as_object(payload.get("data"))
        for signed, plain in NESTED:
            text = as_text(data.get(signed))
            if text.count(".") == 2:
                data[plain] = _payload(text)  # it is part of what Apple has signed
        return self.events.read(replace(request, body=orjson.dumps(payload)))


SENDER = AppStoreSender(
    title="Apple App Store Server Notifications",
    verification=AppStoreSignature(),
    events=Events(
        id="notificationUUID",
        type=Join("notificationType", "subtype"),
        ordering=("data.transactionInfo.originalTransactionId", "data.renewalInfo.originalTransactionId"),
        data="data",
        strict=True,
    ),
    options_model=AppStoreOptions,
    setup=(
        "In App Store Connect, in the App Information of the app, enter the URL of the source for version 2 "
        "notifications of one environment. No secret is needed. Use one source for each environment."
    ),
    failure="Apple wants a status of 200 to 206 and retries after 1, 12, 24, 48 and 72 hours, in production only.",
    notes=(
        "`data.signedTransactionInfo` and `data.signedRenewalInfo` are also there decoded, as `data.transactionInfo` "
        "and `data.renewalInfo`. A notification has no limit of age: `notificationUUID` is the same in each attempt."
    ),
    published_addresses="https://developer.apple.com/documentation/appstoreservernotifications (17.0.0.0/8)",
    samples_from=(
        "apple/app-store-server-library-python tests/resources/models/signedNotification.json",
        "apple/app-store-server-library-python tests/resources/models/signedTransaction.json",
    ),
    facts=(
        "apple/app-store-server-library-python appstoreserverlibrary/signed_data_verifier.py (certificates, claims)",
        "apple/app-store-server-library-python tests/resources/models/signedNotification.json (fields)",
        "developer.apple.com, Responding to App Store Server Notifications (answer, retries)",
    ),
    unconfirmed=("the published addresses (third party)",),
)
