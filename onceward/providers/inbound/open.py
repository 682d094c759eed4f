"""Accept requests without a signature, by explicit choice, or with a shared token in a header or the query."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel

from onceward.providers.inbound.generic import ReadingOptions, read_items, sample_headers, undescribed_sample
from onceward.providers.inbound.payload import read_form
from onceward.providers.inbound.provider import ConfigError, Provider, ReceivedItem, Rejected, Request, SourceConfig
from onceward.providers.inbound.samples import token


class OpenOptions(ReadingOptions):
    """A source without a secret must set `allow_unsigned`: anyone may send.

    A secret is a shared token: the value of `token_header` (with or without `Bearer `) or, if the sender cannot set
    a header, of the query parameter `token_query`.
    """

    allow_unsigned: bool = False
    token_header: str = "authorization"
    token_query: str = ""


class Open(Provider):
    """The body is not authenticated: a token only proves that the sender knows the token."""

    name: ClassVar[str] = "none"
    title: ClassVar[str] = "unsigned"
    retries: ClassVar[bool] = False
    options_model: ClassVar[type[BaseModel]] = OpenOptions
    sample_types: ClassVar[tuple[str, ...]] = ("webhook",)

    def check(self, config: SourceConfig) -> None:
        if config.keys and config.settings.allow_unsigned:
            raise ConfigError(
                "option allow_unsigned with a secret: a request without the token would pass; remove one of them"
            )
        if not config.keys and not config.settings.allow_unsigned:
            raise ConfigError(
                "source without signature: give a secret as the shared token, or set allow_unsigned", field="secrets"
            )

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        if config.settings.allow_unsigned:
            return
        sent_token = _token(config.settings, request).encode("utf-8", "surrogatepass")
        if not any(hmac.compare_digest(key, sent_token) for key in config.keys):
            raise Rejected("bad_token", "the token does not belong to this source")

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        return read_items(config.settings, request)

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        headers = sample_headers(config.settings, extra.get("event_id") or token("evt_"), extra)
        if config.keys:
            bearer = "Bearer " if config.settings.token_header.lower() == "authorization" else ""
            headers[config.settings.token_header.lower()] = bearer + config.keys[0].decode("latin-1")
        return headers

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        return undescribed_sample(type, fields)


def _token(options: OpenOptions, request: Request) -> str:
    if options.token_query:
        for name, value in read_form(request.query):
            if name == options.token_query:
                return value
    return request.header(options.token_header.lower()).removeprefix("Bearer ")
