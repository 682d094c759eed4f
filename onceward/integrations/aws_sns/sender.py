"""Amazon SNS: an RSA signature in the body, with a certificate from a host of AWS. Subscriptions are confirmed."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import orjson
from pydantic import Field

from onceward.lazy import lazy_module
from onceward.webhooks.events import Events
from onceward.webhooks.families.encoding import decode, encode
from onceward.webhooks.families.public_key import is_signed
from onceward.webhooks.handshakes import Handshake
from onceward.webhooks.payload import as_text, read_object
from onceward.webhooks.provider import ConfigError, Fetch, NoOptions, ProviderReply, Rejected, Request, SourceConfig
from onceward.webhooks.sample_secrets import private_key
from onceward.webhooks.sender import Sender

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
else:
    x509 = lazy_module("cryptography.x509")
    hashes = lazy_module("cryptography.hazmat.primitives.hashes")
    serialization = lazy_module("cryptography.hazmat.primitives.serialization")
    padding = lazy_module("cryptography.hazmat.primitives.asymmetric.padding")
    rsa = lazy_module("cryptography.hazmat.primitives.asymmetric.rsa")

HOST: Final = re.compile(r"sns\.[a-z0-9-]{2,40}\.amazonaws\.com(\.cn)?")
CONFIRMATIONS: Final = ("SubscriptionConfirmation", "UnsubscribeConfirmation")
SIGNED: Final = ("Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
MOST_CERTIFICATES: Final = 16


class SnsOptions(NoOptions):
    """Whose messages are accepted: anybody with an account at AWS can subscribe our address to a topic of theirs."""

    topic_arn: str = Field(
        min_length=1, description="the ARN of the topic", examples=["arn:aws:sns:eu-central-1:123456789012:shop"]
    )


@dataclass(frozen=True, kw_only=True)
class SnsSignature:
    """`Signature` in the body is RSA (SHA-1 for version 1, SHA-256 for version 2) over its other fields.

    `SigningCertURL` must be a `.pem` at `sns.<region>.amazonaws.com`; the certificate is fetched once and kept.
    `TopicArn` must be the option `topic_arn`. A source with a private key in PEM as its secret verifies and signs
    simulated messages.
    """

    summary: str = "RSA, certificate of AWS"
    proof_field: str = "Signature"
    signature_headers: tuple[str, ...] = ()
    _certificates: OrderedDict[str, bytes] = field(default_factory=OrderedDict[str, bytes], repr=False, compare=False)

    @property
    def covers_body(self) -> bool:
        return True

    def decode_secret(self, secret: str) -> bytes:
        if not secret.startswith("-----BEGIN"):
            raise ValueError("it is not a key in PEM; a source of SNS needs no secret")
        return secret.encode()

    def sample_secret(self, which: str) -> str:
        """Return a key for samples."""
        return private_key("rsa", which)

    def check(self, config: SourceConfig) -> None:
        """Every configuration can work."""

    async def prepare(self, config: SourceConfig, request: Request, fetch: Fetch) -> Request:
        message = _message(config, request)
        url = _vetted(message, "SigningCertURL", ".pem")
        if not config.keys and url not in self._certificates:
            self._certificates[url] = _public_key(await fetch(url))
            while len(self._certificates) > MOST_CERTIFICATES:
                self._certificates.popitem(last=False)
        self.verify(config, request, 0)
        if message.get("Type") == "SubscriptionConfirmation":
            await fetch(_vetted(message, "SubscribeURL", ""))
        return request

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        message = _message(config, request)
        url = _vetted(message, "SigningCertURL", ".pem")
        keys = config.keys or tuple(filter(None, [self._certificates.get(url)]))
        if not keys:
            raise Rejected("certificate_unavailable", "the certificate of the message has not been fetched")
        signature = decode("base64", as_text(message.get("Signature")))
        if signature is None:
            raise Rejected("bad_encoding", "field Signature is not base64")
        version = as_text(message.get("SignatureVersion"))
        if version not in ("1", "2"):
            raise Rejected("unsupported_algorithm", "SignatureVersion is neither 1 nor 2")
        algorithm = "rsa-sha1" if version == "1" else "rsa-sha256"
        if not any(is_signed(algorithm, key, signature, _content(message)) for key in keys):
            raise Rejected("bad_signature", "the certificate's key did not sign the message")

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        return {"x-amz-sns-message-type": "Notification"}

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        if not config.keys or b"PRIVATE KEY" not in config.keys[0]:
            raise ConfigError("only AWS can sign: to try it, give the source a private key of your own in PEM")
        message = read_object(body).value
        key = cast("rsa.RSAPrivateKey", serialization.load_pem_private_key(config.keys[0], password=None))
        message["SignatureVersion"] = "2"
        message["Signature"] = encode("base64", key.sign(_content(message), padding.PKCS1v15(), hashes.SHA256()))
        return orjson.dumps(message), ""


def _message(config: SourceConfig, request: Request) -> dict[str, Any]:
    message = read_object(request.body).value
    if message.get("TopicArn") != config.settings.topic_arn:
        raise Rejected("bad_token", "TopicArn is not the topic of this source")
    return message


def _vetted(message: dict[str, Any], name: str, suffix: str) -> str:
    """Return a URL of the message if it is one of AWS. Nothing is fetched from another host."""
    url = as_text(message.get(name))
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Rejected("untrusted_host", f"{name} cannot be read") from None
    if parts.scheme != "https" or port is not None or parts.username or not HOST.fullmatch(parts.hostname or ""):
        raise Rejected("untrusted_host", f"{name} is not on a host of AWS")
    if not parts.path.endswith(suffix):
        raise Rejected("untrusted_host", f"{name} does not end in {suffix}")
    return url


def _content(message: dict[str, Any]) -> bytes:
    confirms = message.get("Type") in CONFIRMATIONS
    left_out = {"Subject"} if confirms else {"SubscribeURL", "Token"}
    lines = [f"{name}\n{message[name]}\n" for name in SIGNED if name not in left_out and message.get(name) is not None]
    return "".join(lines).encode("utf-8", "surrogatepass")


def _public_key(pem: bytes) -> bytes:
    try:
        key = x509.load_pem_x509_certificate(pem).public_key()
    except ValueError:
        raise Rejected("bad_certificate", "the fetched file is not a PEM certificate") from None
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


class Confirmation(Handshake):
    """The confirmation of a subscription, which `prepare` has answered by calling `SubscribeURL`."""

    note = "A `SubscriptionConfirmation` of the topic is confirmed by calling its `SubscribeURL`; it is not stored."

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        if request.method != "POST" or b"Confirmation" not in request.body:
            return None
        return ProviderReply() if read_object(request.body).value.get("Type") in CONFIRMATIONS else None


SENDER = Sender(
    title="Amazon SNS",
    verification=SnsSignature(),
    events=Events(id="MessageId", type=(), default_type="Notification", ordering="TopicArn"),
    handshake=Confirmation(),
    options_model=SnsOptions,
    setup=(
        "Subscribe the URL of the source to the topic with the protocol HTTPS and without raw message "
        "delivery. The topic is an option "
        "of the source; no secret is needed. The subscription is confirmed by itself."
    ),
    failure="SNS retries as the delivery policy of the subscription says; by default 50 times in about an hour.",
    notes="A message has no limit of age: SNS may deliver it late. `MessageId` is the same in each attempt.",
    facts=("aws/aws-js-sns-message-validator index.js (signature, hosts)",),
    unconfirmed=("retries",),
)
