"""Shared tokens and Basic authentication: the sender knows a secret, but nothing protects the body."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hmac
from dataclasses import dataclass
from urllib.parse import urlencode

import orjson

from onceward.webhooks.families.signed import HEADER_NAME
from onceward.webhooks.families.template import query_value
from onceward.webhooks.paths import text_at
from onceward.webhooks.payload import read_json
from onceward.webhooks.provider import ConfigError, Rejected, Request, SourceConfig
from onceward.webhooks.samples import apply_fields


@dataclass(frozen=True, kw_only=True)
class Token:
    """The secret itself, in a header (after a prefix, if it is there), a query parameter, or at a path of a JSON body.

    If several places are given, the first one that is present decides: query, body, header.
    """

    header: str = ""
    prefix: str = ""
    query: str = ""
    field: str = ""
    signature_headers: tuple[str, ...] = dataclasses.field(init=False, default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "header", self.header.lower())
        if not (self.header or self.query or self.field):
            raise ConfigError("give one of the options header, query and field: it says where the token is")
        if self.header and not HEADER_NAME.fullmatch(self.header):
            raise ConfigError(f"option header is {self.header!r}: it is not the name of a header")

    def decode_secret(self, secret: str) -> bytes:
        return secret.encode()

    def check(self, config: SourceConfig) -> None:
        """Every configuration can work: a source without a secret accepts nothing."""

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        sent = self._read(request).encode("utf-8", "surrogatepass")
        if not config.keys:
            raise Rejected("no_secret", "the source has no secret, so no request can be verified")
        if not any(hmac.compare_digest(key, sent) for key in config.keys):
            raise Rejected("bad_token", "the token does not belong to this source")

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        if not self.header or not config.keys:
            return {}  # a token in the query or the body was put there by `complete`
        return {self.header: self.prefix + config.keys[0].decode("latin-1")}

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        if self.header or not config.keys:
            return body, ""
        token = config.keys[0].decode("utf-8", "replace")
        if self.query:
            return body, urlencode({self.query: token})
        return orjson.dumps(apply_fields(read_json(body).value, {self.field: token})), ""

    @property
    def covers_body(self) -> bool:
        return False

    def _read(self, request: Request) -> str:
        if self.query and (text := query_value(request, self.query)):
            return text
        if self.field and (text := text_at(read_json(request.body).value, self.field)):
            return text
        if not self.header:
            raise Rejected("bad_token", f"the request has no {self.query or self.field}")
        return request.header(self.header).removeprefix(self.prefix)


@dataclass(frozen=True, kw_only=True)
class Basic:
    """HTTP Basic authentication. The secret is `user:password`."""

    signature_headers: tuple[str, ...] = dataclasses.field(init=False, default=(), repr=False)

    def decode_secret(self, secret: str) -> bytes:
        user, colon, password = secret.partition(":")
        if not (user and colon and password):
            raise ValueError("it is not user:password")
        return secret.encode()

    def check(self, config: SourceConfig) -> None:
        """Every configuration can work: a source without a secret accepts nothing."""

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        scheme, _, encoded = request.header("authorization").partition(" ")
        if scheme.lower() != "basic":
            raise Rejected("bad_header", "header authorization is not Basic")
        try:
            sent = base64.b64decode(encoded.strip(), validate=True)
        except binascii.Error:
            raise Rejected("bad_encoding", "header authorization is not base64") from None
        if not config.keys:
            raise Rejected("no_secret", "the source has no secret, so no request can be verified")
        if not any(hmac.compare_digest(key, sent) for key in config.keys):
            raise Rejected("bad_token", "user and password do not belong to this source")

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        return {"authorization": f"Basic {base64.b64encode(config.keys[0]).decode()}"} if config.keys else {}

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        return body, ""

    @property
    def covers_body(self) -> bool:
        return False
