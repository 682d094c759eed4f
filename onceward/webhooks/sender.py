"""A sender that is only data: one `Sender` describes how it signs, where its events are, and what its page says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlencode

import orjson
from pydantic import BaseModel, Field

from onceward.webhooks.events import FORM, Events
from onceward.webhooks.families import FetchingVerification, StandardWebhooks, Verification
from onceward.webhooks.families.signed import Signed
from onceward.webhooks.handshakes import Handshake
from onceward.webhooks.payload import as_object, body_key, read_json
from onceward.webhooks.provider import Binding, Fetch, NoOptions, Provider, ProviderReply, Request, SourceConfig
from onceward.webhooks.sample_secrets import sample_secret_of
from onceward.webhooks.samples import Samples, apply_fields, token


class OncePerBodyOptions(NoOptions):
    """The options of a sender whose event id is a header that the signature does not cover."""

    once_per_body: bool = Field(
        default=False,
        description="refuse a body that came before under another id, which is not signed: somebody may have"
        " sent it again (one statement more per request)",
    )


class OncePerBodyUnlessOff(OncePerBodyOptions):
    """The options of such a sender whose bodies never repeat."""

    once_per_body: bool = Field(
        default=True,
        description="refuse a body that came before under another id, which is not signed: no two events of this sender"
        " have the same body (one statement more per request)",
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Sender(Provider):
    """A provider whose verification and events are values. Its `name` is that of its folder.

    `samples` are those of the integration's folder, if left out. A sample that is sent gets the headers that `events`
    reads. `handshake` answers a request that only checks the address. `form` says that the sender sends forms: of the
    `fields` of the payload, or with the payload as `json` in the form field that `events` names.

    The other fields are for its page: `setup` says where to enter the URL and where the secret is, `failure` what the
    sender does when we fail, `facts` where all this was read, `samples_from` the published examples that the samples
    follow (left out: they are written for Onceward). What was not read in a document or library of the sender itself
    is `unconfirmed`.
    """

    title: str
    verification: Verification
    events: Events
    setup: str = ""
    failure: str = ""
    notes: str = ""
    facts: tuple[str, ...] = ()
    unconfirmed: tuple[str, ...] = ()
    samples_from: tuple[str, ...] = ()
    name: str = ""
    samples: Samples = field(default_factory=Samples, repr=False)
    sample_headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    handshake: Handshake | None = None
    options_model: type[BaseModel] = NoOptions
    """Left out: none, or `OncePerBodyOptions` for a sender whose ids are not signed."""
    accepted_reply: ProviderReply | None = None
    retries: bool = True
    tolerance_s: int = 300
    published_addresses: str = ""
    bad_signature_status: int = 401
    bodies_repeat: bool = True
    """Whether two events can have the same body, or an attempt another id. If not, `once_per_body` is on."""
    form: Literal["", "fields", "json"] = ""
    fetches: bool = field(init=False)
    needs_secret: bool = field(init=False)

    def __post_init__(self) -> None:
        fetches = isinstance(self.verification, FetchingVerification)
        object.__setattr__(self, "fetches", fetches)
        object.__setattr__(self, "needs_secret", not fetches)
        if self.unsigned_headers and self.options_model is NoOptions:
            model = OncePerBodyOptions if self.bodies_repeat else OncePerBodyUnlessOff
            object.__setattr__(self, "options_model", model)

    @property
    def unsigned_headers(self) -> tuple[str, ...]:
        """The headers with the id and type of an event that the signature does not cover."""
        scheme = self.verification
        if not scheme.covers_body or isinstance(scheme, StandardWebhooks):
            return ()
        signed = (scheme.signed_id_header, *scheme.template.headers) if isinstance(scheme, Signed) else ()
        return tuple(name for name in self.events.header_names if name not in signed)

    @property
    def kept_headers(self) -> tuple[str, ...]:
        """The headers that are stored with an event: those with its id and type, and the time of a signature."""
        named = [self.events.header_names]
        if isinstance(self.verification, Signed):
            named.append((self.verification.timestamp, self.verification.signed_id_header))
        return tuple(dict.fromkeys(name for names in named for name in names if name))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator should know before relying on this sender."""
        unproven = f"{self.title} does not sign the body: use https only, and confirm what matters through its API"
        doubt = f"not confirmed by a document of {self.title}: {'; '.join(self.unconfirmed)}"
        return (*(() if self.verification.covers_body else (unproven,)), *((doubt,) if self.unconfirmed else ()))

    @property
    def sample_secret(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return sample_secret_of(self.verification)

    async def prepare(self, config: SourceConfig, request: Request, fetch: Fetch) -> Request:
        if self._is_unsigned_handshake(config, request) or not isinstance(self.verification, FetchingVerification):
            return request
        return await self.verification.prepare(config, request, fetch)

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        if not self._is_unsigned_handshake(config, request):
            self.verification.verify(config, request, now)

    def binds(self, config: SourceConfig) -> bool:
        return getattr(config.settings, "once_per_body", False)

    def binding(self, config: SourceConfig, request: Request) -> Binding | None:
        if not self.binds(config):
            return None
        names = " ".join(request.optional_header(name) for name in self.unsigned_headers)
        problem = "this body was received under another id or type: somebody may have sent it again"
        return Binding(body_key(request.body), names.encode("utf-8", "surrogatepass"), problem)

    def challenge(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        return None if self.handshake is None else self.handshake.answer(config, request)

    def encode(self, payload: Any) -> bytes:
        match self.form:
            case "fields":
                return urlencode(as_object(payload), doseq=True).encode()
            case "json":
                return urlencode({self.events.form_field: orjson.dumps(payload).decode()}).encode()
            case _:
                return orjson.dumps(payload)

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        return self.verification.complete(config, body, now)

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        extra["event_id"] = extra.get("event_id") or token("evt_")
        headers = {"content-type": FORM if self.form else "application/json"} | dict(self.sample_headers)
        headers |= self.events.sample_headers(extra["event_id"], extra.get("type", ""))
        return headers | self.verification.sign(config, body, now, **extra)

    def forge(self, config: SourceConfig, headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
        scheme = self.verification
        place: str = getattr(scheme, "proof_field", "") or getattr(scheme, "field", "")
        if place:
            return headers, orjson.dumps(apply_fields(read_json(body).value, {place: "00"}))
        if scheme.covers_body:
            return super().forge(config, headers, body)
        names = scheme.signature_headers or (getattr(scheme, "header", ""), "authorization")
        return {name: value[::-1] if name in names else value for name, value in headers.items()}, body

    def _is_unsigned_handshake(self, config: SourceConfig, request: Request) -> bool:
        handshake = self.handshake
        return handshake is not None and handshake.unsigned and handshake.answer(config, request) is not None
