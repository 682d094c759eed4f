"""Answers to requests with which senders only check an address. Each kind is one value of a `Sender`.

An answer is made of the request and the secrets of the source alone, and stores nothing. `unsigned` kinds come
before the sender has a secret, so they are answered without a signature: they prove nothing and cause nothing.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import Field

from onceward.webhooks.families.encoding import Encoding, encode
from onceward.webhooks.families.template import query_value
from onceward.webhooks.paths import text_at
from onceward.webhooks.payload import read_json
from onceward.webhooks.provider import NoOptions, ProviderReply, Rejected, Request, SourceConfig, json_reply

LONGEST: Final = 512
NO_SECRET: Final = "the source has no secret, so the handshake cannot be answered"


class VerifyTokenOptions(NoOptions):
    """The options of a sender that shows a token of ours when it subscribes."""

    verify_token: str | None = Field(
        default=None, min_length=1, description="the text that you enter at the sender; it sends it when it subscribes"
    )


class Handshake:
    """How requests that only check an address are recognised and answered."""

    unsigned: bool = False
    note: str = ""
    """A sentence for the page of the sender."""

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        """Return the answer, or None for a request that is not a handshake."""
        raise NotImplementedError


def echo(text: str) -> bytes:
    """Return a text that may be echoed. Reject one that is empty, too long or not ASCII."""
    if not (text.isascii() and text.isprintable() and 0 < len(text) <= LONGEST):
        raise Rejected("bad_body", "the challenge is missing or cannot be echoed")
    return text.encode()


@dataclass(frozen=True, kw_only=True)
class SubscriptionCheck(Handshake):
    """`GET ?hub.mode=subscribe&hub.challenge=..`. With `token`, `hub.verify_token` must be the option
    `verify_token`."""

    token: bool = True
    as_json: bool = False

    @property
    def note(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        proof = " if `hub.verify_token` is the option `verify_token`" if self.token else ""
        return f"The check of a subscription (`GET` with `hub.challenge`) is answered{proof}."

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        if request.method != "GET":
            return None
        if query_value(request, "hub.mode") not in ("subscribe", "unsubscribe"):
            raise Rejected("bad_body", "the request is not a subscription: hub.mode must be subscribe")
        if self.token:
            expected = config.settings.verify_token
            if not expected:
                raise Rejected("no_secret", "the source has no verify_token, so no subscription can be confirmed")
            sent = query_value(request, "hub.verify_token").encode("utf-8", "surrogatepass")
            if not hmac.compare_digest(expected.encode(), sent):
                raise Rejected("bad_token", "hub.verify_token does not match the option of this source")
        challenge = echo(query_value(request, "hub.challenge"))
        return json_reply({"hub.challenge": challenge.decode()}) if self.as_json else ProviderReply(challenge)


@dataclass(frozen=True, kw_only=True)
class EchoQuery(Handshake):
    """A query parameter whose value is the answer."""

    name: str
    method: str = "GET"
    unsigned: bool = True

    @property
    def note(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"`{self.method} ?{self.name}=` is answered with the value."

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        if request.method != self.method or f"{self.name}=" not in request.query:
            return None
        return ProviderReply(echo(query_value(request, self.name)), "text/plain")


@dataclass(frozen=True, kw_only=True)
class EchoField(Handshake):
    """A field of a JSON body whose value is the answer. `when` are fields or, with `header`, one header that must
    have a value."""

    path: str
    when: Mapping[str, str] = field(default_factory=dict[str, str])
    header: tuple[str, str] = ("", "")
    as_json: bool = False
    unsigned: bool = False

    @property
    def note(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"A request that only checks the address is answered with its `{self.path}`."

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        name, expected = self.header
        if request.method != "POST" or (name and request.headers.get(name) != expected):
            return None
        if self.path.rpartition(".")[2].encode() not in request.body:
            return None
        body = read_json(request.body).value
        if any(text_at(body, path) != text for path, text in self.when.items()) or not text_at(body, self.path):
            return None
        challenge = echo(text_at(body, self.path))
        return json_reply({self.path: challenge.decode()}) if self.as_json else ProviderReply(challenge, "text/plain")


@dataclass(frozen=True, kw_only=True)
class EchoHeader(Handshake):
    """A header whose value is the answer, in the header of the same name or in a field of a JSON body."""

    name: str
    method: str = "POST"
    in_field: str = ""
    unsigned: bool = True

    @property
    def note(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"A request with the header `{self.name}` is answered with the value, and is not an event."

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        if request.method != self.method or self.name not in request.headers:
            return None
        value = echo(request.header(self.name)).decode()
        if self.in_field:
            return json_reply({self.in_field: value})
        return ProviderReply(headers=((self.name, value),))


@dataclass(frozen=True, kw_only=True)
class SignedChallenge(Handshake):
    """A challenge in the query or at a path of the body, answered with its HMAC to prove that we know the secret.

    `reply` makes the answer of the challenge and the HMAC.
    """

    query: str = ""
    path: str = ""
    when: Mapping[str, str] = field(default_factory=dict[str, str])
    algorithm: str = "sha256"
    encoding: Encoding = "hex"
    reply: Callable[[str, str], Any]

    @property
    def note(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        place = f"`GET ?{self.query}=`" if self.query else f"`{self.path}`"
        return f"A challenge ({place}) is answered with its HMAC, made with the first secret of the source."

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        challenge = self._challenge(request)
        if not challenge:
            return None
        if not config.keys:
            raise Rejected("no_secret", NO_SECRET)
        made = hmac.digest(config.keys[0], echo(challenge), self.algorithm)
        answer = self.reply(challenge, encode(self.encoding, made))
        return ProviderReply(answer.encode()) if isinstance(answer, str) else json_reply(answer)

    def _challenge(self, request: Request) -> str:
        if self.query:
            return query_value(request, self.query) if request.method == "GET" else ""
        if request.method != "POST" or self.path.rpartition(".")[2].encode() not in request.body:
            return ""
        body = read_json(request.body).value
        return text_at(body, self.path) if all(text_at(body, one) == text for one, text in self.when.items()) else ""


@dataclass(frozen=True, kw_only=True)
class HashedChallenge(Handshake):
    """`GET ?challenge_code=..`, answered with the SHA-256 of the code, the option `verify_token` and our URL."""

    query: str
    field: str

    @property
    def note(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return (
            f"`GET ?{self.query}=` is answered with a hash of the code, the option `verify_token` and the public URL."
        )

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        if request.method != "GET":
            return None
        code = echo(query_value(request, self.query)).decode()
        if not config.settings.verify_token or config.public_url is None:
            raise Rejected("no_secret", "the source has no verify_token or no public_url, so it cannot answer")
        url = config.public_url.rstrip("/") + request.url_path
        text = f"{code}{config.settings.verify_token}{url}"
        return json_reply({self.field: hashlib.sha256(text.encode()).hexdigest()})


@dataclass(frozen=True, kw_only=True)
class Reachable(Handshake):
    """A request without a body whose answer must be 200."""

    method: str = "HEAD"

    @property
    def note(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"`{self.method}`, with which the sender checks the address, is answered with 200."

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        return ProviderReply() if request.method == self.method else None


@dataclass(frozen=True, kw_only=True)
class TrialRequest(Handshake):
    """A request of the sender's own test, answered and not stored: some fields of its body have these values.

    `content` finds such requests without parsing the others.
    """

    when: Mapping[str, str]
    content: bytes
    status: int = 200
    text: bytes = b""
    content_type: str = "text/plain"
    unsigned: bool = False

    @property
    def note(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        shown = ", ".join(f"`{path}` is `{text}`" for path, text in self.when.items())
        return f"The sender's own test ({shown}) is answered with {self.status} and is not an event."

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        if request.method != "POST" or self.content not in request.body:
            return None
        body = read_json(request.body).value
        reply = ProviderReply(self.text, self.content_type, self.status)
        return reply if all(text_at(body, path) == text for path, text in self.when.items()) else None
