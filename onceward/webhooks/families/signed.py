"""What all signature schemes have in common: where the signatures, the time and the id are, and which text is
signed."""

from __future__ import annotations

import dataclasses
import re
import secrets
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from onceward.webhooks.families.encoding import (
    Encoding,
    KeyEncoding,
    TimestampUnit,
    check_age,
    decode,
    decode_key,
    encode,
    read_timestamp,
    write_timestamp,
)
from onceward.webhooks.families.template import Inputs, Template, query_value
from onceward.webhooks.paths import text_at
from onceward.webhooks.payload import read_json
from onceward.webhooks.provider import MAX_HEADER_CHARS, ConfigError, Rejected, Request, SourceConfig
from onceward.webhooks.samples import apply_fields

HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_MAX_SIGNATURES: Final = 16


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request claims, not yet verified: its signatures as text, what the placeholders stand for, and the time
    of signing."""

    signatures: tuple[str, ...]
    inputs: Inputs
    made_at: float | None


@dataclass(frozen=True, kw_only=True)
class Signed:
    """The parameters of a signature scheme. Header names are case-insensitive.

    The signature is in `header`, in the query parameter `query`, or at the path `field` of a JSON body. Several headers
    mean that each may contain a signature. If `separator` is set, the value is a list; the entries that begin with
    `prefix` are signatures. `timestamp` names the header with the time; `timestamp_entry` is instead the prefix of its
    entry in the list, and `timestamp_field` its path in the body. `signed_id_header` is the header of `{id}`.
    A template without the body needs `body_is_signed=False`: then anyone who saw one request can send another body.
    """

    header: str | tuple[str, ...] = ()
    query: str = ""
    field: str = ""
    signed: str = "{body}"
    body_is_signed: bool = True
    encoding: Encoding = "hex"
    prefix: str = ""
    prefix_required: bool = True
    separator: str = ""
    timestamp: str = ""
    timestamp_entry: str = ""
    timestamp_field: str = ""
    timestamp_unit: TimestampUnit = "s"
    timestamp_limits_age: bool = True
    signed_id_header: str = ""
    key_encoding: KeyEncoding = "text"
    signature_headers: tuple[str, ...] = dataclasses.field(init=False, repr=False, compare=False)
    template: Template = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = (self.header,) if isinstance(self.header, str) else self.header
        self._set("signature_headers", tuple(name.lower() for name in names))
        self._set("timestamp", self.timestamp.lower())
        self._set("signed_id_header", self.signed_id_header.lower())
        self._set("template", Template(self.signed))
        self._check_places()
        self._check_template()

    def decode_secret(self, secret: str) -> bytes:
        return decode_key(self.key_encoding, secret)

    def check(self, config: SourceConfig) -> None:
        if self.template.needs_url and config.public_url is None:
            raise ConfigError("public_url is missing: set it, because the sender signs the URL", field="public_url")

    def read_claim(self, config: SourceConfig, request: Request) -> Claim:
        """Read what the scheme names. This verifies nothing, and parses the body only if the scheme has a path into
        it."""
        entries = self._entries(request)
        stamp = self._read_stamp(entries, request)
        if self.timestamp_entry:
            entries = [entry for entry in entries if not entry.startswith(self.timestamp_entry)]
        if len(entries) > _MAX_SIGNATURES:
            raise Rejected("bad_header", f"{self._place} contains more than {_MAX_SIGNATURES} signatures")
        identity = request.header(self.signed_id_header) if self.signed_id_header else ""
        made_at = read_timestamp(stamp, self.timestamp_unit) if stamp else None
        found = tuple(text for entry in entries if (text := self._after_prefix(entry)) is not None)
        return Claim(found, Inputs(config, request, stamp, identity), made_at)

    def decide(self, config: SourceConfig, request: Request, now: float) -> None:
        """Raise Rejected unless a key of the source made one of the signatures and the request is not expired."""
        claim = self.read_claim(config, request)
        self.match(config.keys, claim)
        if self.timestamp_limits_age:
            check_age(claim.made_at, config.tolerance_s, now)

    def match(self, keys: tuple[bytes, ...], claim: Claim) -> None:
        """Raise Rejected unless a key made one of the signatures."""
        if not keys:
            raise Rejected("no_secret", "the source has no secret, so no request can be verified")
        if not claim.signatures:
            wanted = f"signature that begins with {self.prefix}" if self.prefix else "signature"
            raise Rejected("bad_header", f"{self._place} contains no {wanted}")
        decoded = [raw for text in claim.signatures if (raw := decode(self.encoding, text)) is not None]
        if not decoded:
            raise Rejected("bad_encoding", f"no signature in {self._place} is valid {self.encoding}")
        if not self._any_match(keys, decoded, claim):
            raise Rejected("bad_signature", f"no signature in {self._place} was made with a secret of this source")

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        if not config.keys:
            raise ConfigError("the source has no secret to sign with", field="secrets")
        if not self.signature_headers:
            return {}  # `complete` has signed it
        stamp = write_timestamp(now, self.timestamp_unit) if self._has_timestamp else ""
        headers = {name: extra.get(name) or secrets.token_hex(8) for name in self.template.headers}
        event_id = extra.get("event_id") or "msg_" + secrets.token_hex(12)
        if self.signed_id_header:
            headers[self.signed_id_header] = event_id
        if self.timestamp:
            headers[self.timestamp] = stamp
        request = Request("POST", extra.get("path", ""), extra.get("query", ""), headers, body)
        raw = self._make(config.keys[0], Inputs(config, request, stamp, event_id))
        text = self._written_prefix + encode(self.encoding, raw)
        if self.timestamp_entry:
            text = f"{self.timestamp_entry}{stamp}{self.separator}{text}"
        return headers | {self.signature_headers[0]: text}

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        payload: Any = read_json(body).value if self.field or self.timestamp_field else None
        stamp = write_timestamp(now, self.timestamp_unit) if self._has_timestamp else ""
        if self.timestamp_field:
            body = orjson.dumps(apply_fields(payload, {self.timestamp_field: stamp}))
        if self.signature_headers or not config.keys:
            return body, ""
        raw = self._make(config.keys[0], Inputs(config, Request("POST", "", "", {}, body), stamp, ""))
        text = self._written_prefix + encode(self.encoding, raw)
        if self.query:
            return body, urlencode({self.query: text})
        return orjson.dumps(apply_fields(payload, {self.field: text})), ""

    @property
    def covers_body(self) -> bool:
        return self.body_is_signed

    def _any_match(self, keys: tuple[bytes, ...], decoded: list[bytes], claim: Claim) -> bool:
        raise NotImplementedError

    def _make(self, key: bytes, inputs: Inputs) -> bytes:
        raise NotImplementedError

    @property
    def _written_prefix(self) -> str:
        # A prefix that is only tolerated is not written.
        return self.prefix if self.prefix_required else ""

    @property
    def _place(self) -> str:
        if self.signature_headers:
            return f"header {self.signature_headers[0]}"
        return f"query parameter {self.query}" if self.query else f"field {self.field}"

    @property
    def _has_timestamp(self) -> bool:
        return bool(self.timestamp or self.timestamp_entry or self.timestamp_field)

    def _entries(self, request: Request) -> list[str]:
        if self.signature_headers:
            texts = [request.header(name) for name in self.signature_headers if request.headers.get(name)]
            if not texts:
                raise Rejected("missing_header", f"header {self.signature_headers[0]} is missing")
        else:
            text = (
                query_value(request, self.query) if self.query else text_at(read_json(request.body).value, self.field)
            )
            if not text:
                raise Rejected("unsigned", f"{self._place} is missing")
            if len(text) > MAX_HEADER_CHARS or not text.isascii():
                raise Rejected("bad_header", f"{self._place} is too long or not ASCII")
            texts = [text]
        if not self.separator:
            return texts
        # The separator is written as declared (", "); the spaces around an entry never matter.
        at = self.separator.strip() or self.separator
        return [stripped for text in texts for entry in text.split(at) if (stripped := entry.strip())]

    def _read_stamp(self, entries: list[str], request: Request) -> str:
        if self.timestamp:
            return request.header(self.timestamp)
        if self.timestamp_entry:
            stamps = [entry for entry in entries if entry.startswith(self.timestamp_entry)]
            if len(stamps) != 1:
                raise Rejected("bad_header", f"{self._place} must contain {self.timestamp_entry} once")
            stamp = stamps[0][len(self.timestamp_entry) :]
        elif self.timestamp_field:
            stamp = text_at(read_json(request.body).value, self.timestamp_field)
        else:
            return ""
        if not stamp:
            raise Rejected("bad_timestamp", "the timestamp is empty")
        return stamp

    def _after_prefix(self, entry: str) -> str | None:
        if entry.startswith(self.prefix):
            return entry[len(self.prefix) :]
        return None if self.prefix_required else entry

    def _check_places(self) -> None:
        if sum(bool(place) for place in (self.signature_headers, self.query, self.field)) != 1:
            raise ConfigError("give one of the options header, query and field: it says where the signature is")
        for option, names in (
            ("header", self.signature_headers),
            ("timestamp", (self.timestamp,)),
            ("signed_id_header", (self.signed_id_header,)),
        ):
            for name in names:
                if name and not HEADER_NAME.fullmatch(name):
                    raise ConfigError(f"option {option} is {name!r}: it is not the name of a header")
        if sum(bool(place) for place in (self.timestamp, self.timestamp_entry, self.timestamp_field)) > 1:
            raise ConfigError("give only one of the options timestamp, timestamp_entry and timestamp_field")
        if self.timestamp_entry and not self.separator:
            raise ConfigError("option timestamp_entry names an entry of a list: give the option separator too")

    def _check_template(self) -> None:
        for token, present, options in (
            ("{timestamp}", self._has_timestamp, "timestamp, timestamp_entry or timestamp_field"),
            ("{id}", bool(self.signed_id_header), "signed_id_header"),
        ):
            if token in self.template and not present:
                raise ConfigError(f"option signed is {self.signed!r}: give the option {options} for {token}")
            if present and token not in self.template:
                raise ConfigError(
                    f"option signed is {self.signed!r}: without {token}, the signature would not protect it; add it or "
                    f"remove {options}"
                )
        if self.body_is_signed != self.template.covers_body:
            raise ConfigError(
                f"option signed is {self.signed!r}: it must contain one of {{body}}, {{sha256}} and {{form}} once"
                if self.body_is_signed
                else f"option signed is {self.signed!r}, which contains the body: remove the option body_is_signed"
            )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the value is frozen once __post_init__ has returned
