"""Any sender that signs with HMAC: header, content, algorithm, encodings and timestamp are options.

Also what `generic` shares with `none`: finding an id and a type in a body nobody has described.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from onceward.providers.inbound import signature
from onceward.providers.inbound.payload import (
    Document,
    as_list,
    as_object,
    as_text,
    body_key,
    form_object,
    is_storable,
    item,
    read_form,
    read_json,
)
from onceward.providers.inbound.provider import (
    ConfigError,
    NoOptions,
    Provider,
    ReceivedItem,
    Request,
    SourceConfig,
)
from onceward.providers.inbound.samples import apply_fields, iso_now, token

HeaderName = Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")


class ReadingOptions(NoOptions):
    """Where an undescribed request keeps its id and type. Paths are dotted: `event.id`, `items.0.id`.

    Without an id the event is known by its bytes: two equal bodies are one event.
    """

    id_header: str = ""
    id_field: str = "id"
    type_header: str = ""
    type_field: str = "type"
    default_type: str = "webhook"
    ordering_field: str = ""
    retries: bool = False


class GenericOptions(ReadingOptions):
    """How the sender signs; see `signature.Scheme` for what `form` and `label` mean."""

    header: str = HeaderName
    algorithm: signature.Algorithm = "sha256"
    encoding: signature.Encoding = "hex"
    key_encoding: signature.KeyForm = "text"
    form: signature.HeaderForm = "plain"
    label: str = ""
    label_required: bool = True
    content: str = "{body}"
    timestamp: str = ""
    timestamp_unit: signature.Unit = "s"
    signed_id_header: str = ""

    @cached_property
    def scheme(self) -> signature.Scheme:
        return signature.Scheme(
            header=self.header.lower(),
            content=self.content,
            algorithm=self.algorithm,
            encoding=self.encoding,
            form=self.form,
            label=self.label,
            label_required=self.label_required,
            # In pairs it is the name of a pair, which is case-sensitive, else that of a header.
            timestamp=self.timestamp if self.form == "pairs" else self.timestamp.lower(),
            unit=self.timestamp_unit,
            id=self.signed_id_header.lower(),
        )


class Generic(Provider):
    """HMAC as the options describe it. Whether the sender retries is an option, too."""

    name: ClassVar[str] = "generic"
    title: ClassVar[str] = "generic HMAC"
    retries: ClassVar[bool] = False
    options_model: ClassVar[type[BaseModel]] = GenericOptions
    sample_types: ClassVar[tuple[str, ...]] = ("webhook",)

    def decode_secret(self, secret: str, settings: Any) -> bytes:
        return signature.decode_key(settings.key_encoding, secret)

    def check(self, config: SourceConfig) -> None:
        scheme: signature.Scheme = config.settings.scheme
        if scheme.form != "plain" and not scheme.label:
            raise ConfigError(f"option label of generic source is empty: form {scheme.form} needs its name")

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        signature.verify(config.settings.scheme, config, request, now)

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        return [read_item(config.settings, request)]

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        event_id = extra.get("event_id") or token("evt_")
        headers = signature.sign(config.settings.scheme, config.keys[0], body, now, event_id)
        return sample_headers(config.settings, event_id, extra) | headers

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        return undescribed_sample(type, fields)


def read_item(options: ReadingOptions, request: Request) -> ReceivedItem:
    """The one event of a request nobody has described: JSON, or a form if it says so."""
    document = _read(request)

    def found(header: str, field: str) -> str:
        text = request.optional_header(header.lower()) if header else ""
        return text or (as_text(_at(document.value, field)) if field else "")

    return item(
        document,
        event_id=found(options.id_header, options.id_field) or body_key(request.body),
        type=found(options.type_header, options.type_field) or options.default_type,
        ordering=found("", options.ordering_field),
    )


def sample_headers(options: ReadingOptions, event_id: str, extra: Mapping[str, str]) -> dict[str, str]:
    headers = {"content-type": "application/json"}
    if options.id_header:
        headers[options.id_header.lower()] = event_id
    if options.type_header:
        headers[options.type_header.lower()] = extra.get("type") or options.default_type
    return headers


def undescribed_sample(type: str, fields: Mapping[str, Any] | None) -> Any:
    payload = {"id": token("evt_"), "type": type, "timestamp": iso_now(), "data": {"amount": 4200}}
    return apply_fields(payload, fields)


def _read(request: Request) -> Document:
    kind = request.headers.get("content-type", "").lower()
    if kind.startswith("application/x-www-form-urlencoded"):
        value = form_object(read_form(request.body))
        return Document(value, not is_storable(value))
    return read_json(request.body)


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        items = as_list(value)
        if items:
            value = items[int(name)] if name.isdecimal() and int(name) < len(items) else None
        else:
            value = as_object(value).get(name)
    return value
