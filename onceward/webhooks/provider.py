"""The interface of every webhook provider: the request, the reasons to reject it, and the events in it.

A provider answers five questions about a request: is it authentic (`verify`), is it only a handshake
(`challenge`), which events does it contain (`parse`), what does a genuine one look like (`sample`, `encode`,
`sign`), and which part of it does a handler's model describe (`data`). The receiver calls, in this order:

    prepare (only if `fetches`)  ->  verify  ->  challenge  ->  parse          for POST
    challenge                                                                  for GET, HEAD and OPTIONS

A provider never opens a connection: the caller passes in a function that fetches, and the current time.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast, get_args

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from onceward.errors import OncewardError
from onceward.webhooks.samples import Samples, apply_fields

if TYPE_CHECKING:
    from onceward.webhooks.events import Events
    from onceward.webhooks.families import Verification

Reason = Literal[
    "bad_address",
    "bad_body",
    "bad_certificate",
    "bad_encoding",
    "bad_header",
    "bad_signature",
    "bad_timestamp",
    "bad_token",
    "certificate_unavailable",
    "header_too_large",
    "missing_header",
    "no_secret",
    "stale_timestamp",
    "too_large_decompressed",
    "unknown_provider",
    "unsigned",
    "unsupported_algorithm",
    "unsupported_encoding",
    "untrusted_host",
]
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

# Every other reason means that the sender is not authenticated: 401.
STATUS: Final[Mapping[Reason, int]] = {
    "bad_address": 403,
    "bad_body": 400,
    "bad_timestamp": 400,
    "certificate_unavailable": 424,
    "header_too_large": 431,
    "stale_timestamp": 400,
    "too_large_decompressed": 413,
    "unknown_provider": 404,
    "unsupported_encoding": 415,
}

MAX_HEADER_CHARS: Final = 4096
MOST_NETWORKS: Final = 200


class Fetch(Protocol):
    """Fetches a document from a host that the provider has checked, with limits on time and size."""

    async def __call__(
        self, url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> bytes: ...


class Rejected(OncewardError):
    """The request is rejected. `reason` is safe as a metric label, the message is safe to log."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.status: int = STATUS.get(reason, 401)


class ConfigError(OncewardError, ValueError):
    """The configuration of a source cannot work. The message names the field and never contains a secret."""

    def __init__(self, message: str, *, field: str = "options") -> None:
        super().__init__(message)
        self.field = field


class AddressList:
    """The IP addresses and networks that a source accepts requests from."""

    def __init__(self, given: object) -> None:
        texts = cast("list[object]", given) if isinstance(given, list) else [given]
        if not texts or len(texts) > MOST_NETWORKS:
            raise ConfigError(f"option addresses: give 1 to {MOST_NETWORKS} IP addresses or networks, not {len(texts)}")
        networks = [_network(each) for each in texts]
        self._by_version = {version: [each for each in networks if each.version == version] for version in (4, 6)}

    def accepts(self, address: str | None) -> bool:
        """Return whether a request from this address is accepted. An unknown address is not."""
        try:
            read = ipaddress.ip_address(address or "")
        except ValueError:
            return False
        read = getattr(read, "ipv4_mapped", None) or read
        return any(read in each for each in self._by_version[read.version])


def _network(given: object) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(given if isinstance(given, str) else "")
    except ValueError:
        raise ConfigError(
            f"option addresses: {given!r} is not an IP address or a network such as 192.0.2.0/24"
        ) from None


@dataclass(slots=True)  # not frozen: one is created per request, and a frozen one costs three times as much
class Request:
    """One HTTP request as it arrived: header names in lower case, values as latin-1, query not decoded.

    Do not modify it.
    """

    method: str
    url_path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        """Return the value of a header. Reject the request if it is missing, too large or not ASCII."""
        value = self.headers.get(name)
        if not value:
            raise Rejected("missing_header", f"header {name} is missing")
        if len(value) > MAX_HEADER_CHARS:
            raise Rejected("header_too_large", f"header {name} has {len(value)} characters, at most {MAX_HEADER_CHARS}")
        if not value.isascii():
            raise Rejected("bad_header", f"header {name} is not ASCII")
        return value

    def optional_header(self, name: str) -> str:
        """Like `header`, but return an empty string if the header is missing."""
        value = self.headers.get(name)
        if value and len(value) <= MAX_HEADER_CHARS and value.isascii():
            return value
        return self.header(name) if value else ""


@dataclass(slots=True)  # not frozen, like Request
class ReceivedItem:
    """One event of a request. Two events of a source with the same `event_id` are duplicates.

    `unstorable` marks JSON that a parser accepts but jsonb cannot store (NUL, lone surrogates): the payload
    is then None and only the raw body shows what was sent. `ordering` is the subject of the event, for
    sources whose events must be handled one after the other. `text` is the JSON text of the payload, if the
    payload is the whole text and unchanged.
    """

    event_id: str
    type: str
    payload: Any
    ordering: str | None = None
    unstorable: bool = False
    text: bytes | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """The receiver accepts `key` with one `content` only, and refuses others for the reason `problem`."""

    key: str
    content: bytes
    problem: str


@dataclass(frozen=True, slots=True)
class ProviderReply:
    """An immediate answer. Nothing is stored."""

    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


def json_reply(value: Any) -> ProviderReply:
    """Return an answer in JSON."""
    return ProviderReply(orjson.dumps(value), "application/json")


class NoOptions(BaseModel):
    """The options of a provider that has none. Unknown options are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """The configuration that is needed to verify and parse one source's requests. It is validated on creation.

    All `secrets` are valid at the same time, so that one can be rotated without losing a delivery. `public_url` is
    the public address of this server, up to where `Request.url_path` begins. If `retries` is false, the sender does
    not retry a failed delivery, and the mode must be `ack`. Every provider has the option `addresses`: if it is given,
    requests from other IP addresses are rejected before they are verified.
    """

    provider: str
    secrets: tuple[bytes | str, ...] = field(default=(), repr=False)
    public_url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    tolerance_s: int = 300
    keys: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    settings: Any = field(init=False, repr=False, compare=False)
    retries: bool = field(init=False, compare=False)
    addresses: AddressList | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        from onceward.webhooks.registry import (
            get_provider,
        )  # a circular import: the registry imports every provider

        provider = get_provider(self.provider)
        if not 1 <= self.tolerance_s <= 86_400:
            raise ConfigError(f"tolerance_s is {self.tolerance_s}: give 1 to 86400 seconds", field="tolerance_s")
        _check_public_url(self.public_url)
        # The last changes to this frozen instance.
        options = dict(self.options)
        given = options.pop("addresses", None)
        object.__setattr__(self, "addresses", None if given is None else AddressList(given))
        object.__setattr__(self, "settings", provider.read_options(options))
        object.__setattr__(self, "keys", tuple(_decode(provider, self, i) for i in range(len(self.secrets))))
        # Only providers of unknown senders have the option `retries`.
        object.__setattr__(self, "retries", getattr(self.settings, "retries", provider.retries))
        provider.check(self)


class Provider:
    """One kind of webhook sender. It is stateless unless its docstring says otherwise. Its methods never block.

    `verification` and `events` describe a sender whose scheme belongs to a family. Such a provider is only data, and a
    `sample`. A method is overridden for what is special.
    """

    name: str
    title: str
    retries: bool = True
    tolerance_s: int = 300
    """How old a signed request may be, if the source does not say it: what the sender's own library allows."""
    fetches: bool = False
    bad_signature_status: int = 401
    needs_secret: bool = True
    """Whether a source needs a secret. A sender that signs with a certificate has none."""
    accepted_reply: ProviderReply | None = None
    """What the sender must get for an accepted request, if it reads the answer. None: a status in JSON."""
    options_model: type[BaseModel] = NoOptions
    samples: Samples = Samples()
    """Payloads by type of event: the files `samples/<type>.json` of the integration's folder."""
    published_addresses: str = ""
    """Where the sender publishes the IP addresses that it sends from."""
    sample_secret: str = "whsec_dGhlIHNlY3JldCBvZiB0aGUgdGVzdHMsIDMyIGJ5dGVz"
    """A secret in the sender's format, for tests."""
    verification: Verification
    events: Events

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator should know before relying on this sender."""
        return ()

    def read_options(self, options: Mapping[str, Any]) -> BaseModel:
        """Return the options of a source as a model. Raise ConfigError, which names the option, if one is wrong."""
        try:
            return self.options_model.model_validate(dict(options))
        except ValidationError as error:
            raise describe_faults(f"{self.name} source", self.options_model, error) from None

    def decode_secret(self, secret: str, settings: Any) -> bytes:
        """Return the key bytes of a secret in the provider's format. Raise ValueError if the format is wrong."""
        return self.verification.decode_secret(secret)

    def check(self, config: SourceConfig) -> None:
        """Raise ConfigError for a configuration that would reject every request, or accept every request."""
        self.verification.check(config)

    def signature_headers(self, config: SourceConfig) -> tuple[str, ...]:
        """Return the headers with the signature. The value of the first one that is present is stored, as evidence."""
        return self.verification.signature_headers

    async def prepare(self, config: SourceConfig, request: Request, fetch: Fetch) -> Request:
        """Fetch what `verify` needs, and return the request to go on with. Only called if `fetches` is true."""
        return request

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        """Raise Rejected unless the raw bytes are authentic and not expired at `now` (Unix seconds)."""
        self.verification.verify(config, request, now)

    def binds(self, config: SourceConfig) -> bool:
        """Return whether requests of this source have a `binding`."""
        return False

    def binding(self, config: SourceConfig, request: Request) -> Binding | None:
        """Return what the receiver must write before it accepts the request, for a sender whose signature leaves a
        gap."""
        return None

    def challenge(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        """Return the answer to a handshake, or None for an ordinary request. This method must authenticate a GET."""
        return None

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        """Return the events of a verified request, in the order they were sent."""
        return self.events.read(request)

    def data(self, payload: Any) -> Any:
        """Return the part of a stored payload that a handler's model describes, without the envelope."""
        return self.events.data_of(payload)

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        """Return the headers that the provider would send with `body`, with names in lower case."""
        return {"content-type": "application/json", **self.verification.sign(config, body, now, **extra)}

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        """Return the body and the query of a request that is to be signed, for a sender that puts its signature
        there."""
        return body, ""

    def request(
        self, config: SourceConfig, body: bytes, now: float, *, type: str = "", path: str = "", event_id: str = ""
    ) -> Request:
        """Return the request that the provider would send with a body."""
        body, query = self.complete(config, body, now)
        given = {"path": path, "query": query, "type": type, "event_id": event_id}
        extra = {name: value for name, value in given.items() if value or name == "path"}
        return Request("POST", path, query, self.sign(config, body, now, **extra), body)

    def forge(self, config: SourceConfig, headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
        """Change a signed request so that its signature is wrong, for tests."""
        is_form = headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        return headers, body + (b"&forged=1" if is_form else b" ")

    def encode(self, payload: Any) -> bytes:
        """Encode a payload as the provider sends it."""
        return orjson.dumps(payload)

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        """Return a realistic payload of a type with new ids. `fields` maps dotted paths to values to set.

        A type without a sample of its own gets the sample with the most similar type.
        """
        nearest = type if type in self.samples else self.samples.nearest(type)
        payload: Any = {} if nearest is None else self.samples[nearest].make()
        return apply_fields(payload if nearest == type else self.change_type(payload, type), fields)

    def change_type(self, payload: Any, type: str) -> Any:
        """Give a sample of another type this type, and return it."""
        return apply_fields(payload, self.events.sample_type_paths(type))

    @property
    def sample_types(self) -> tuple[str, ...]:
        """The types of events of which there are samples."""
        return tuple(self.samples)


def describe_faults(owner: str, model: type[BaseModel], error: ValidationError) -> ConfigError:
    """Return an error that names each wrong option, without its value, which may be a token."""
    known = ", ".join(model.model_fields) or "none"
    faults = "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'options'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False, include_context=False)
    )
    return ConfigError(f"options of {owner}: {faults} (known options: {known})")


def _decode(provider: Provider, config: SourceConfig, index: int) -> bytes:
    secret = config.secrets[index]
    place = f"secret {index + 1} of {provider.name} source"
    if isinstance(secret, str) and secret != secret.strip():
        raise ConfigError(f"{place} starts or ends with white space: remove it, or pass bytes", field="secrets")
    try:
        key = secret if isinstance(secret, bytes) else provider.decode_secret(secret, config.settings)
    except ValueError as error:
        raise ConfigError(f"{place} cannot be decoded: {error}", field="secrets") from None
    if not key:
        raise ConfigError(f"{place} is empty: anyone could sign with it", field="secrets")
    return key


def _check_public_url(url: str | None) -> None:
    if url is not None and not url.startswith(("https://", "http://")):
        raise ConfigError(f"public_url is {url!r}: it must start with https:// or http://", field="public_url")
