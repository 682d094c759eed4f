"""The words every webhook sender is described in: what came in, what was wrong with it, what it became.

A provider answers five questions about a request: is it authentic (`verify`), is it only a handshake
(`challenge`), which events does it hold (`parse`), what would a genuine one look like (`sample`, `encode`,
`sign`), and which part of it does a handler's model describe (`data`). The order at the door is

    prepare (only if `fetches`)  ->  verify  ->  challenge  ->  parse          for POST
    challenge                                                                  for GET

No provider opens a connection: the way to fetch is passed in, and so is the time a request is judged at.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Protocol, get_args

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

Reason = Literal[
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
    "unknown_provider",
    "unsigned",
    "unsupported_algorithm",
    "untrusted_host",
]
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

# What is not listed is a failure to prove who is speaking: 401.
STATUS: Final[Mapping[Reason, int]] = {
    "bad_body": 400,
    "bad_timestamp": 400,
    "certificate_unavailable": 424,
    "header_too_large": 431,
    "stale_timestamp": 400,
    "unknown_provider": 404,
}

MAX_HEADER_CHARS: Final = 4096

Fetch = Callable[[str], Awaitable[bytes]]


class Rejected(Exception):
    """The request is refused. `reason` is safe as a metric label, the message is safe to log."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.status: int = STATUS.get(reason, 401)


class ConfigError(ValueError):
    """A source is set up in a way that cannot work. The message names the field, never a secret."""

    def __init__(self, message: str, *, field: str = "options") -> None:
        super().__init__(message)
        self.field = field


@dataclass(slots=True)  # not frozen: one is made for each request, and freezing triples what that costs
class Request:
    """One HTTP request as it arrived: header names in lower case, values as latin-1, query undecoded. Only read."""

    method: str
    url_path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        """The value of a header that must be there, be ASCII and be of sane size."""
        value = self.headers.get(name)
        if not value:
            raise Rejected("missing_header", f"header {name} is missing")
        if len(value) > MAX_HEADER_CHARS:
            raise Rejected("header_too_large", f"header {name} has {len(value)} characters, at most {MAX_HEADER_CHARS}")
        if not value.isascii():
            raise Rejected("bad_header", f"header {name} is not ASCII")
        return value

    def optional_header(self, name: str) -> str:
        """Like `header`, but empty when the sender left it out."""
        return self.header(name) if self.headers.get(name) else ""


@dataclass(slots=True)  # as Request
class ReceivedItem:
    """One event found in a request. `event_id` is what a duplicate is recognised by.

    `unstorable` marks JSON that a parser accepts and jsonb cannot hold (NUL, lone surrogates): the payload
    is then None and only the raw body tells what was sent. `ordering` names what the event is about, for
    sources whose events must be taken one after the other. `text` is the JSON that the payload was read from, if
    the payload is all of it and unchanged.
    """

    event_id: str
    type: str
    payload: Any
    ordering: str | None = None
    unstorable: bool = False
    text: bytes | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer given on the spot; nothing is stored."""

    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200


class NoOptions(BaseModel):
    """For providers with nothing to set but the secret. Unknown options are refused, not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """Everything that verifying and reading one source's requests depends on; checked when it is made.

    All `secrets` are live at once, so that one can be rotated without losing a delivery. `public_url` is
    the address under which the outside world reaches this server, up to where `Request.url_path` begins.
    Where `retries` is false the sender does not try again after a failure: the mode must be `ack`.
    """

    provider: str
    secrets: tuple[bytes | str, ...] = field(default=(), repr=False)
    public_url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    tolerance_s: int = 300
    keys: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    settings: Any = field(init=False, repr=False, compare=False)
    retries: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        from onceward.providers.inbound.registry import get_provider  # the registry imports every provider, they us

        provider = get_provider(self.provider)
        if not 1 <= self.tolerance_s <= 86_400:
            raise ConfigError(f"tolerance_s is {self.tolerance_s}: give 1 to 86400 seconds", field="tolerance_s")
        _check_public_url(self.public_url)
        # From here on the instance is only read.
        object.__setattr__(self, "settings", _read_options(provider, self.options))
        object.__setattr__(self, "keys", tuple(_decode(provider, self, i) for i in range(len(self.secrets))))
        # Only senders we know nothing about can be described as retrying or not.
        object.__setattr__(self, "retries", getattr(self.settings, "retries", provider.retries))
        provider.check(self)


class Provider(Protocol):
    """One sender of webhooks. Stateless unless it says so; every method is fast and never blocks."""

    name: ClassVar[str]
    title: ClassVar[str]
    retries: ClassVar[bool] = True
    fetches: ClassVar[bool] = False
    bad_signature_status: ClassVar[int] = 401
    options_model: ClassVar[type[BaseModel]] = NoOptions
    sample_types: ClassVar[tuple[str, ...]] = ()

    def decode_secret(self, secret: str, settings: Any) -> bytes:
        """The key bytes a secret, as the provider shows it, stands for. ValueError if it cannot be one."""
        return secret.encode()

    def check(self, config: SourceConfig) -> None:
        """Refuse a configuration that could never verify anything, or would verify everything."""

    async def prepare(self, config: SourceConfig, request: Request, fetch: Fetch) -> None:
        """Fetch what `verify` will need. Only called where `fetches` is true."""

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        """Return if the raw bytes are authentic and fresh at `now` (Unix seconds), else raise Rejected."""
        ...

    def transmission_id(self, request: Request) -> str | None:
        """An id that the signature covers, of a sender that signs only a checksum of the body; None for all others.

        The receiver accepts one body under it.
        """
        return None

    def challenge(self, config: SourceConfig, request: Request) -> Reply | None:
        """The answer to a handshake, None for an ordinary request. A GET must authenticate itself here."""
        return None

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        """The events of a verified request, in the order they were sent."""
        ...

    def data(self, payload: Any) -> Any:
        """The part of a stored payload that a handler's model describes, without the envelope."""
        return payload

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        """The headers the provider itself would send with `body`; names in lower case."""
        ...

    def encode(self, payload: Any) -> bytes:
        """A payload as bytes on the wire."""
        return orjson.dumps(payload)

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        """A realistic payload of that type with fresh ids; `fields` are dotted paths to overwrite."""
        ...


def _read_options(provider: Provider, options: Mapping[str, Any]) -> BaseModel:
    try:
        return provider.options_model.model_validate(dict(options))
    except ValidationError as error:
        known = ", ".join(provider.options_model.model_fields) or "none"
        # Only place and message: the value may be a token.
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']) or 'options'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False, include_context=False)
        )
        raise ConfigError(f"options of {provider.name} source: {faults} (known options: {known})") from None


def _decode(provider: Provider, config: SourceConfig, index: int) -> bytes:
    secret = config.secrets[index]
    place = f"secret {index + 1} of {provider.name} source"
    if isinstance(secret, str) and secret != secret.strip():
        raise ConfigError(f"{place} begins or ends with white space: remove it, or pass bytes", field="secrets")
    try:
        key = secret if isinstance(secret, bytes) else provider.decode_secret(secret, config.settings)
    except ValueError as error:
        raise ConfigError(f"{place} cannot be decoded: {error}", field="secrets") from None
    if not key:
        raise ConfigError(f"{place} is empty: anyone could sign with it", field="secrets")
    return key


def _check_public_url(url: str | None) -> None:
    if url is not None and not url.startswith(("https://", "http://")):
        raise ConfigError(f"public_url is {url!r}: begin it with https:// or http://", field="public_url")
