"""Any sender that signs with HMAC: header, content, algorithm, encodings and timestamp are options.

This module also has what `generic` shares with `none`: reading the id and type of a body with an unknown format.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, cast

from pydantic import BaseModel, Field

from onceward.providers.inbound import signature
from onceward.providers.inbound.payload import (
    Document,
    as_list,
    as_object,
    as_text,
    body_key,
    derived_key,
    form_object,
    is_storable,
    item,
    key_per_type,
    read_form,
    read_json,
)
from onceward.providers.inbound.provider import ConfigError, NoOptions, Provider, ReceivedItem, Request, SourceConfig
from onceward.providers.inbound.samples import apply_fields, iso_now, token

HeaderName = Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")


class ReadingOptions(NoOptions):
    """Where the id and type are in a request. Paths are dotted: `event.id`, `items.0.id`.

    An event without an id is identified by a hash of its body: two equal bodies are one event. `items` is the path of
    an array whose elements are separate events; a body that is an array is always split. The other paths are then
    relative to the element.
    """

    items: str = ""
    id_header: str = ""
    id_field: str = "id"
    id_per_type: bool = False
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
            # With the form `pairs` it is the name of a pair, which is case-sensitive. Otherwise it names a header.
            timestamp=self.timestamp if self.form == "pairs" else self.timestamp.lower(),
            unit=self.timestamp_unit,
            id=self.signed_id_header.lower(),
        )


class Generic(Provider):
    """HMAC as the options describe it. An option also says whether the sender retries."""

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
            raise ConfigError(
                f"option label of generic source is empty: form {scheme.form} needs the name of the signature"
            )

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        signature.verify(config.settings.scheme, config, request, now)

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        return read_items(config.settings, request)

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        event_id = extra.get("event_id") or token("evt_")
        headers = signature.sign(config.settings.scheme, config.keys[0], body, now, event_id)
        return sample_headers(config.settings, event_id, extra) | headers

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        return undescribed_sample(type, fields)


def read_items(options: ReadingOptions, request: Request) -> list[ReceivedItem]:
    """Return the events of a request: JSON, or a form if the content type says so."""
    document = _read(request)
    header_id = request.optional_header(options.id_header.lower()) if options.id_header else ""
    header_type = request.optional_header(options.type_header.lower()) if options.type_header else ""
    whole_type = _text_at(document.value, options.type_field)
    parts = _at(document.value, options.items) if options.items else document.value
    if not isinstance(parts, list):
        type = header_type or whole_type or options.default_type
        event_id = header_id or _text_at(document.value, options.id_field)
        return [_item(options, document, event_id, type, without_id=body_key(request.body))]
    items: list[ReceivedItem] = []
    for n, part in enumerate(cast("list[Any]", parts)):
        type = header_type or _text_at(part, options.type_field) or whole_type or options.default_type
        # The request's id identifies the batch. An element's own id is the same in every batch.
        event_id = _text_at(part, options.id_field) or (f"{header_id}:{n}" if header_id else "")
        items.append(_item(options, document.part(part), event_id, type, without_id=derived_key((part,))))
    return items


def _item(options: ReadingOptions, document: Document, event_id: str, type: str, *, without_id: str) -> ReceivedItem:
    if event_id and options.id_per_type:
        event_id = key_per_type(event_id, type)
    ordering = _text_at(document.value, options.ordering_field)
    return item(document, event_id=event_id or without_id, type=type, ordering=ordering)


def _text_at(value: Any, path: str) -> str:
    return as_text(_at(value, path)) if path else ""


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
