"""Accept requests without a signature, by explicit choice, or with a shared token in a header or the query."""

from __future__ import annotations

from functools import cached_property

from pydantic import BaseModel

from onceward.webhooks.configured import ConfiguredProvider, ReadingOptions
from onceward.webhooks.families import Token
from onceward.webhooks.provider import ConfigError, Request, SourceConfig


class OpenOptions(ReadingOptions):
    """A source without a secret must set `allow_unsigned`: anyone may send.

    A secret is a shared token: the value of `token_header` (with or without `Bearer `) or, if the sender cannot set
    a header, of the query parameter `token_query`.
    """

    allow_unsigned: bool = False
    token_header: str = "authorization"
    token_query: str = ""

    @cached_property
    def verification(self) -> Token:
        """The place of the token as a value."""
        return Token(header=self.token_header, prefix="Bearer ", query=self.token_query)


class OpenWebhooks(ConfiguredProvider):
    """The body is not authenticated: a token only proves that the sender knows the token."""

    name = "none"
    title = "unsigned"
    options_model: type[BaseModel] = OpenOptions

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
        super().verify(config, request, now)

    def forge(self, config: SourceConfig, headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
        name = config.settings.token_header.lower()
        return ({**headers, name: f"{headers[name]}-wrong"} if name in headers else headers), body
