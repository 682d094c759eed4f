"""The text that a sender signs, such as `{timestamp}.{body}`: parsed once, then filled in for each request."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from onceward.webhooks.paths import text_at
from onceward.webhooks.payload import read_form, read_json
from onceward.webhooks.provider import ConfigError, Rejected, Request, SourceConfig

_PLACEHOLDER: Final = re.compile(r"(\{[^{}]*\})")
_COVERING: Final = ("{body}", "{sha256}", "{form}")
"""Placeholders that make a signature depend on the whole body. `{form:NAME}` is one too."""
_URLS: Final = ("{url}", "{url_without_query}")
_NAMED: Final = ("header", "query", "field", "form")
KNOWN: Final = (
    "{body}, {sha256}, {form}, {form:NAME}, {timestamp}, {id}, {method}, {url}, {url_without_query}, {path},"
    " {secret}, {header:NAME}, {query:NAME}, {field:PATH}"
)


@dataclass(slots=True)
class Inputs:
    """What the placeholders of one request stand for."""

    config: SourceConfig
    request: Request
    timestamp: str
    id: str
    key: bytes = b""


Part = Callable[[Inputs], bytes]
Fill = Callable[[bytes, bytes, bytes], bytes]
"""Fills in an id, a timestamp and a body."""


class Template:
    """A parsed template. `fill` is set if the template has only `{id}`, `{timestamp}`, `{body}` and fixed text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tuple(token for token in _PLACEHOLDER.split(text) if token)
        self._parts: tuple[Part, ...] = tuple(self._part(token) for token in self.tokens)
        self.fill: Fill | None = _filler(self.tokens)

    @property
    def covers_body(self) -> bool:
        return sum(token in _COVERING or token.startswith("{form:") for token in self.tokens) == 1

    @property
    def needs_url(self) -> bool:
        return any(token in self.tokens for token in _URLS)

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that the text contains."""
        return tuple(token[len("{header:") : -1].lower() for token in self.tokens if token.startswith("{header:"))

    def __contains__(self, token: str) -> bool:
        return token in self.tokens

    def render(self, inputs: Inputs) -> bytes:
        """Return the signed bytes of a request."""
        return b"".join([part(inputs) for part in self._parts])

    def _part(self, token: str) -> Part:
        if not _PLACEHOLDER.fullmatch(token):
            literal = token.encode()
            return lambda inputs: literal
        kind, colon, name = token[1:-1].partition(":")
        if colon and kind in _NAMED and name:
            return _named(kind, name)
        part = _PARTS.get(token)
        if part is None:
            raise ConfigError(f"option signed is {self.text!r}: {token} is not known; use {KNOWN}")
        return part


def configured_url(config: SourceConfig, request: Request) -> str:
    """Return the URL that the sender was configured with. A proxy hides it, so it never comes from Host."""
    url = (config.public_url or "").rstrip("/") + request.url_path
    return f"{url}?{request.query}" if request.query else url


def sorted_fields(request: Request) -> str:
    """Return every different name and value of a form, sorted and joined, as some senders of forms sign them."""
    return "".join(name + value for name, value in sorted(set(read_form(request.body))))


def _path(inputs: Inputs) -> bytes:
    request = inputs.request
    return _bytes(f"{request.url_path}?{request.query}" if request.query else request.url_path)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_PARTS: Final[dict[str, Part]] = {
    "{body}": lambda inputs: inputs.request.body,
    "{sha256}": lambda inputs: hashlib.sha256(inputs.request.body).hexdigest().encode(),
    "{form}": lambda inputs: _bytes(sorted_fields(inputs.request)),
    "{timestamp}": lambda inputs: inputs.timestamp.encode(),
    "{id}": lambda inputs: inputs.id.encode(),
    "{method}": lambda inputs: inputs.request.method.encode(),
    "{url}": lambda inputs: _bytes(configured_url(inputs.config, inputs.request)),
    "{url_without_query}": lambda inputs: _bytes(configured_url(inputs.config, inputs.request).partition("?")[0]),
    "{path}": _path,
    "{secret}": lambda inputs: inputs.key,
}


def _named(kind: str, name: str) -> Part:
    if kind == "header":
        header = name.lower()
        return lambda inputs: inputs.request.header(header).encode()
    if kind == "query":
        return lambda inputs: _bytes(query_value(inputs.request, name))
    if kind == "form":
        return lambda inputs: _bytes(only_field(inputs.request, name))
    return lambda inputs: _bytes(text_at(read_json(inputs.request.body).value, name))


def query_value(request: Request, name: str) -> str:
    """Return a parameter of the query that occurs once, or an empty text. Reject a request that repeats it."""
    values = [value for each, value in read_form(request.query) if each == name]
    if len(values) > 1:
        raise Rejected("bad_header", f"the query contains {name} more than once")
    return values[0] if values else ""


def only_field(request: Request, name: str) -> str:
    """Return the value of the only field of a form. Reject a form with others, because nothing would protect them."""
    fields = read_form(request.body)
    if [each for each, _ in fields] != [name]:
        raise Rejected("bad_body", f"the form must have the field {name} and no other")
    return fields[0][1]


def _filler(tokens: tuple[str, ...]) -> Fill | None:
    """Return a function for the usual templates that formats bytes in one step."""
    order = tuple(token for token in tokens if _PLACEHOLDER.fullmatch(token))
    pattern = b"".join(b"%b" if token in order else token.encode().replace(b"%", b"%%") for token in tokens)
    match order:
        case ("{body}",) if len(tokens) == 1:
            return lambda id, timestamp, body: body
        case ("{body}",):
            return lambda id, timestamp, body: pattern % body
        case ("{timestamp}", "{body}"):
            return lambda id, timestamp, body: pattern % (timestamp, body)
        case ("{body}", "{timestamp}"):
            return lambda id, timestamp, body: pattern % (body, timestamp)
        case ("{id}", "{timestamp}", "{body}"):
            return lambda id, timestamp, body: pattern % (id, timestamp, body)
        case _:
            return None
