"""The values and errors of a chat with a language model.

    ChatError
    ├── ChatRateLimited    too many requests or tokens; wait `retry_after_s`
    ├── ChatUnavailable    nothing was sent, or the service failed before it answered; a retry may help
    ├── ChatRejected       the service rejected the request: bad input, unknown model, no credit, wrong key
    ├── ModelRefused       the model declined to answer, or a content filter stopped it
    ├── ChatCut            the answer ended at a limit, ours or the model's, and is incomplete
    └── ChatBroken         the answer stopped arriving; `text` is the part that arrived

Every error has `outcome`, so a job can treat it like the outcome of any other service. A call that got an answer, even
half an answer, has cost money: `usage` is what the service counted, or None if it did not get that far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from onceward.errors import OncewardError

from .outcome import Refused, ServiceAnswer, Throttled, Unknown, Unreachable

Role = Literal["system", "developer", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of the conversation."""

    role: Role
    content: str = field(repr=False)

    def written(self) -> dict[str, str]:
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that the service counted."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Completion:
    """A complete answer. `request_id` is the service's id of the call, for its support and for our records."""

    id: str | None
    request_id: str | None
    model: str
    text: str = field(repr=False)
    finish_reason: str
    usage: Usage | None

    def json(self) -> Any:
        """Return the answer as JSON, after a call with a schema. Raises ValueError if the answer is not JSON."""
        return orjson.loads(self.text)


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """The JSON schema that an answer must follow, such as `Model.model_json_schema()` of a pydantic model.

    `strict` needs a schema in which every object lists all properties as required and sets `additionalProperties:
    false`.
    """

    name: str
    schema: Mapping[str, Any] = field(repr=False)
    strict: bool = True

    def written(self) -> dict[str, Any]:
        described = {"name": self.name, "schema": dict(self.schema), "strict": self.strict}
        return {"type": "json_schema", "json_schema": described}


class ChatError(OncewardError):
    """A call that gave no complete answer."""

    def __init__(self, reason: str, *, request_id: str | None = None, usage: Usage | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.request_id = request_id
        self.usage = usage

    @property
    def outcome(self) -> ServiceAnswer:
        return Refused(self.reason, permanent=True)


class ChatRateLimited(ChatError):
    """The service received too many requests or tokens. `retry_after_s` is None if it does not say how long to wait."""

    def __init__(self, reason: str, *, retry_after_s: float | None, request_id: str | None = None) -> None:
        super().__init__(reason, request_id=request_id)
        self.retry_after_s = retry_after_s

    @property
    def outcome(self) -> ServiceAnswer:
        return Throttled(self.retry_after_s)


class ChatUnavailable(ChatError):
    """No answer: the connection failed (`was_sent` is False), or the service failed."""

    def __init__(
        self, reason: str, *, was_sent: bool, retry_after_s: float | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(reason, request_id=request_id)
        self.was_sent = was_sent
        self.retry_after_s = retry_after_s

    @property
    def outcome(self) -> ServiceAnswer:
        if not self.was_sent:
            return Unreachable(self.reason)
        return Refused(self.reason, permanent=False, retry_after_s=self.retry_after_s)


class ChatRejected(ChatError):
    """The service rejected the request. `code` is its error code. `account`: the key or the credit is the cause."""

    def __init__(self, reason: str, *, code: str | None, account: bool, request_id: str | None = None) -> None:
        super().__init__(reason, request_id=request_id)
        self.code = code
        self.account = account

    @property
    def outcome(self) -> ServiceAnswer:
        return Refused(self.reason, permanent=not self.account, account=self.account, detail={"code": self.code})


class ModelRefused(ChatError):
    """The model declined to answer. `refusal` is its text, which comes from the model: escape it before you show it."""

    def __init__(self, refusal: str, *, request_id: str | None = None, usage: Usage | None = None) -> None:
        super().__init__("the model refused to answer", request_id=request_id, usage=usage)
        self.refusal = refusal


class ChatCut(ChatError):
    """The answer reached a limit and is incomplete. `text` is the part that arrived."""

    def __init__(self, reason: str, *, text: str, request_id: str | None = None, usage: Usage | None = None) -> None:
        super().__init__(reason, request_id=request_id, usage=usage)
        self.text = text


class ChatBroken(ChatError):
    """The answer stopped arriving. `text` is the part that arrived; the service may have counted all of it."""

    def __init__(self, reason: str, *, text: str, request_id: str | None = None, usage: Usage | None = None) -> None:
        super().__init__(reason, request_id=request_id, usage=usage)
        self.text = text

    @property
    def outcome(self) -> ServiceAnswer:
        return Unknown(self.reason)


def as_messages(messages: Sequence[ChatMessage] | str) -> list[ChatMessage]:
    """Return a conversation; a text alone is a message of the user."""
    return [ChatMessage("user", messages)] if isinstance(messages, str) else list(messages)
