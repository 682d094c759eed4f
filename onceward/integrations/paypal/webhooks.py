"""PayPal: RSA-SHA256 over `transmission id|time|webhook id|crc32 of the body`. The request names the certificate.

So the certificate must be verified: its URL must be PayPal's before anything is fetched, its chain must end at a root
we trust, its name must be PayPal's, and it must be valid now. PayPal's API is not called.
"""

from __future__ import annotations

import base64
import zlib
from collections import OrderedDict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

from pydantic import BaseModel, Field

from onceward.lazy import lazy_module
from onceward.webhooks.certificates import Chain, TrustedRoots, read_roots, system_roots
from onceward.webhooks.events import Events
from onceward.webhooks.families.encoding import check_age, decode
from onceward.webhooks.payload import (
    as_list,
    as_object,
    as_text,
    event_key,
    from_iso,
    key_per_type,
)
from onceward.webhooks.provider import (
    Binding,
    ConfigError,
    Fetch,
    NoOptions,
    Provider,
    ReceivedItem,
    Rejected,
    Request,
    SourceConfig,
)

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
else:
    exceptions = lazy_module("cryptography.exceptions")
    hashes = lazy_module("cryptography.hazmat.primitives.hashes")
    serialization = lazy_module("cryptography.hazmat.primitives.serialization")
    padding = lazy_module("cryptography.hazmat.primitives.asymmetric.padding")
    rsa = lazy_module("cryptography.hazmat.primitives.asymmetric.rsa")

_ALGORITHM: Final = "SHA256withRSA"
_CERTIFICATE_PATH: Final = "/v1/notifications/certs/"
_SIMULATED_URL: Final = "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-simulated"
_SIMULATOR_WEBHOOK_ID: Final = "WEBHOOK_ID"
"""The webhook id that PayPal's webhooks simulator signs with. The simulator uses one event id for every type."""
_MAX_CERTIFICATES: Final = 32
_MAX_CERTIFICATE_BYTES: Final = 65_536


class PayPalOptions(NoOptions):
    """`webhook_id` is the id of our webhook in PayPal's dashboard. It is signed, but it is not in the request.

    `roots_pem` replaces the roots of the system. `certificates` maps certificate URLs to PEM chains, which
    are then not fetched. `max_age_s` rejects old transmissions; it is off by default because retries may be old.
    """

    webhook_id: str = Field(min_length=1, max_length=64)
    domain: str = "paypal.com"
    roots_pem: str | None = None
    certificates: dict[str, str] = Field(default_factory=dict)
    max_age_s: int | None = Field(default=None, ge=1)


def _subject(request: Request, value: Any) -> str:
    """Return the id of the order, else of the capture that was refunded, else of the resource."""
    resource = as_object(as_object(value).get("resource"))
    related = as_object(as_object(resource.get("supplementary_data")).get("related_ids"))
    for name in ("order_id", "capture_id"):
        if text := as_text(related.get(name)):
            return text
    for link in as_list(resource.get("links")):
        if as_object(link).get("rel") == "up":
            return as_text(as_object(link).get("href")).rstrip("/").rpartition("/")[2]
    return as_text(resource.get("id"))


class PayPal(Provider):
    """PayPal tries up to 25 times in three days. The event id is the body's `id`. This provider caches certificates."""

    name = "paypal"
    title = "PayPal"
    needs_secret = False
    fetches = True
    options_model: type[BaseModel] = PayPalOptions

    events = Events(type="event_type", ordering=_subject, data="resource", strict=True)

    def __init__(self) -> None:
        # Public documents only; bounded, least recently used first.
        self._fetched: OrderedDict[str, bytes] = OrderedDict()

    def decode_secret(self, secret: str, settings: Any) -> bytes:
        return secret.encode()

    def signature_headers(self, config: SourceConfig) -> tuple[str, ...]:
        return ("paypal-transmission-sig",)

    def check(self, config: SourceConfig) -> None:
        options: PayPalOptions = config.settings
        if options.roots_pem is not None:
            read_roots(options.roots_pem)
        for url in options.certificates:
            try:
                _vet_url(url, options)
            except Rejected as error:
                raise ConfigError(f"option certificates of paypal source: {error}") from None

    async def prepare(self, config: SourceConfig, request: Request, fetch: Fetch) -> Request:
        options: PayPalOptions = config.settings
        # The cheap checks come first: only a request that may be genuine makes us open a connection.
        _read_headers(request)
        url = _vet_url(request.header("paypal-cert-url"), options)
        if url in options.certificates or url in self._fetched:
            return request
        try:
            pem = await fetch(url)
        except Rejected:
            raise
        except Exception as error:
            kind = type(error).__name__
            raise Rejected("certificate_unavailable", f"the certificate could not be fetched: {kind}") from error
        if len(pem) > _MAX_CERTIFICATE_BYTES:
            raise Rejected("bad_certificate", f"the certificate has more than {_MAX_CERTIFICATE_BYTES} bytes")
        # Cached only after verification, so that invalid certificates cannot evict valid ones.
        Chain.read(pem).check(_roots(options), options.domain, datetime.now(UTC))
        self._fetched[url] = pem
        while len(self._fetched) > _MAX_CERTIFICATES:
            self._fetched.popitem(last=False)
        return request

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        options: PayPalOptions = config.settings
        raw_signature = _read_headers(request)
        url = _vet_url(request.header("paypal-cert-url"), options)
        pem = self._certificate(url, options)
        chain = Chain.read(pem)
        chain.check(_roots(options), options.domain, datetime.fromtimestamp(now, UTC))
        key = chain.leaf.public_key()
        if not isinstance(key, rsa.RSAPublicKey):
            raise Rejected("bad_certificate", "the certificate does not contain an RSA key")
        sent_at = request.header("paypal-transmission-time")
        content = signed_content(request.header("paypal-transmission-id"), sent_at, options.webhook_id, request.body)
        try:
            key.verify(raw_signature, content, padding.PKCS1v15(), hashes.SHA256())
        except exceptions.InvalidSignature:
            raise Rejected("bad_signature", "the certificate did not sign this body for our webhook_id") from None
        if options.max_age_s is not None:
            moment = from_iso(sent_at)
            if moment is None:
                raise Rejected("bad_timestamp", "paypal-transmission-time is not ISO 8601 with a zone")
            check_age(moment.timestamp(), options.max_age_s, now)

    def binds(self, config: SourceConfig) -> bool:
        return True

    def binding(self, config: SourceConfig, request: Request) -> Binding | None:
        """Only a CRC32 of the body is signed: who has seen one request can create another body with the same
        checksum."""
        key = request.header("paypal-transmission-id")
        return Binding(key, request.body, "another body was received under this transmission id")

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        items = super().parse(config, request)
        if config.settings.webhook_id == _SIMULATOR_WEBHOOK_ID:
            for each in items:
                each.event_id = event_key(key_per_type(each.event_id, each.type))
        return items

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        """Sign for a simulated source. Its secret is the private key of the certificate in its options."""
        options: PayPalOptions = config.settings
        key = None
        if config.keys:  # a key of the simulator: to test its primes takes longer than to sign
            key = serialization.load_pem_private_key(config.keys[0], None, unsafe_skip_rsa_key_validation=True)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise ConfigError("signing as PayPal needs a simulated source: see onceward.integrations.paypal.simulator")
        sent_at = datetime.fromtimestamp(int(now), UTC).isoformat().replace("+00:00", "Z")
        transmission = extra.get("event_id") or str(uuid4())
        content = signed_content(transmission, sent_at, options.webhook_id, body)
        return {
            "content-type": "application/json",
            "paypal-auth-algo": _ALGORITHM,
            "paypal-cert-url": extra.get("cert_url") or next(iter(options.certificates), _SIMULATED_URL),
            "paypal-transmission-id": transmission,
            "paypal-transmission-time": sent_at,
            "paypal-transmission-sig": base64.b64encode(
                key.sign(content, padding.PKCS1v15(), hashes.SHA256())
            ).decode(),
        }

    def _certificate(self, url: str, options: PayPalOptions) -> bytes:
        if url in options.certificates:
            return options.certificates[url].encode()
        pem = self._fetched.get(url)
        if pem is None:
            raise Rejected("certificate_unavailable", "the certificate has not been fetched")
        self._fetched.move_to_end(url)
        return pem


def _roots(options: PayPalOptions) -> TrustedRoots:
    return read_roots(options.roots_pem) if options.roots_pem is not None else system_roots("DigiCert")


def _read_headers(request: Request) -> bytes:
    """Check the headers that the signature covers; return the signature."""
    if request.header("paypal-auth-algo") != _ALGORITHM:
        raise Rejected("unsupported_algorithm", "paypal-auth-algo is not SHA256withRSA")
    for name in ("paypal-transmission-id", "paypal-transmission-time", "paypal-cert-url"):
        if "|" in request.header(name):
            # A | separates the signed fields.
            raise Rejected("bad_header", f"header {name} contains a |")
    raw_signature = decode("base64", request.header("paypal-transmission-sig"))
    if raw_signature is None:
        raise Rejected("bad_encoding", "paypal-transmission-sig is not base64")
    return raw_signature


def _vet_url(url: str, options: PayPalOptions) -> str:
    """Return the certificate URL. Raise Rejected if it is not an address of PayPal's certificates."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Rejected("untrusted_host", "paypal-cert-url cannot be read as a URL") from None
    plain = parts.netloc.lower() == host and port is None and not parts.query and not parts.fragment
    if parts.scheme != "https" or not plain or not host.endswith(f".{options.domain}"):
        raise Rejected("untrusted_host", f"paypal-cert-url is not https on a host of {options.domain}")
    if not parts.path.startswith(_CERTIFICATE_PATH) or ".." in parts.path or not url.isprintable():
        raise Rejected("untrusted_host", "paypal-cert-url is not an address of PayPal's certificates")
    return url


def signed_content(transmission_id: str, sent_at: str, webhook_id: str, body: bytes) -> bytes:
    return f"{transmission_id}|{sent_at}|{webhook_id}|{zlib.crc32(body)}".encode()
