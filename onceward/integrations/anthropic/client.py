"""Anthropic's Messages API: streams, whole answers, answers by a JSON schema. The same calls and errors as `openai`.

A call has no effect outside, so repeating it is safe, but each answer is paid for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from onceward.http import Response
from onceward.services.accounts import ServiceAccount
from onceward.services.call import (
    accepted,
    call,
    inner,
    judge_failure,
    read_json,
    retry_after,
    short_reason,
    write_json,
)
from onceward.services.chat import (
    ChatError,
    ChatMessage,
    ChatRateLimited,
    ChatRejected,
    ChatUnavailable,
    Completion,
    JsonSchema,
    Usage,
    as_messages,
)
from onceward.services.chat_stream import MAX_ANSWER_CHARACTERS, ChatStream, StreamingClient, open_stream, read_failure
from onceward.services.outcome import ServiceAnswer

BASE_URL = "https://api.anthropic.com/v1"
VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 4096
"""The API needs a limit in every request."""


@dataclass(frozen=True, slots=True)
class Anthropic:
    """Calls the Messages API with one key. `model` is the default for calls that name none."""

    repeatable: ClassVar[bool] = True

    client: StreamingClient = field(repr=False)
    api_key: str = field(repr=False)
    model: str
    base_url: str = BASE_URL
    timeout_s: float = 300.0
    idle_timeout_s: float = 60.0
    max_answer_characters: int = MAX_ANSWER_CHARACTERS

    @classmethod
    def connect(cls, http: StreamingClient, account: ServiceAccount) -> Self:
        return cls(http, account["api_key"], account["model"], base_url=account.url or account.settings.url)

    async def check(self) -> ServiceAnswer:
        """List the models."""
        return await call(
            self.client,
            "GET",
            f"{self.base_url}/models",
            headers=self._headers,
            judge=_judge_models,
            timeout_s=self.timeout_s,
        )

    async def complete(
        self,
        messages: Sequence[ChatMessage] | str,
        *,
        model: str | None = None,
        schema: JsonSchema | None = None,
        max_tokens: int | None = None,
        key: str | None = None,
    ) -> Completion:
        """Return the whole answer. Raises a `ChatError`. It is read as a stream, which has no limit of ten minutes."""
        async with self.stream(messages, model=model, schema=schema, max_tokens=max_tokens, key=key) as stream:
            return await stream.read()

    @asynccontextmanager
    async def stream(
        self,
        messages: Sequence[ChatMessage] | str,
        *,
        model: str | None = None,
        schema: JsonSchema | None = None,
        max_tokens: int | None = None,
        key: str | None = None,
    ) -> AsyncGenerator[ChatStream]:
        """Give the answer piece by piece. Leaving the block early cancels the call.

        The service takes no id of ours; `key` is accepted, as by other chat models, and not sent.
        """
        body = _body(messages, model or self.model, schema, max_tokens)
        sent = self.client.stream(
            "POST",
            f"{self.base_url}/messages",
            headers={**self._headers, "Accept": "text/event-stream"},
            body=write_json(body),
            timeout_s=self.timeout_s,
            idle_timeout_s=self.idle_timeout_s,
        )
        async with open_stream(sent) as response:
            if not response.ok:
                raise failure(await read_failure(response))
            yield AnthropicStream(
                response,
                model or self.model,
                request_id=response.headers.get("request-id"),
                max_characters=self.max_answer_characters,
            )

    @property
    def _headers(self) -> dict[str, str]:
        return {"x-api-key": self.api_key, "anthropic-version": VERSION, "Content-Type": "application/json"}


def _body(
    messages: Sequence[ChatMessage] | str, model: str, schema: JsonSchema | None, max_tokens: int | None
) -> dict[str, Any]:
    """Return the request. What the system says is a field of its own there."""
    given = as_messages(messages)
    system = "\n\n".join(each.content for each in given if each.role in ("system", "developer"))
    written = [each.written() for each in given if each.role in ("user", "assistant")]
    if not written:
        raise ValueError("messages has no message of the user: a chat needs at least one")
    body: dict[str, Any] = {
        "model": model,
        "messages": written,
        "max_tokens": max_tokens or DEFAULT_MAX_TOKENS,
        "stream": True,
    }
    if system:
        body["system"] = system
    if schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": dict(schema.schema)}}
    return body


class AnthropicStream(ChatStream):
    """Reads the events of one message."""

    def _read_event(self, event: Mapping[str, Any]) -> str:
        match event.get("type"):
            case "message_start":
                message = inner(event, "message")
                self._id = _text(message.get("id"))
                self._model = _text(message.get("model")) or self._model
                self._usage = read_usage(inner(message, "usage"), self._usage)
            case "content_block_delta":
                return str(inner(event, "delta").get("text") or "")
            case "message_delta":
                self._finish_reason = _text(inner(event, "delta").get("stop_reason"))
                self._usage = read_usage(inner(event, "usage"), self._usage)
            case "error":
                self._report_error(inner(event, "error"))
            case _:
                pass  # ping, the borders of blocks, and types that the service adds later
        return ""


def read_usage(usage: Mapping[str, Any], before: Usage | None) -> Usage | None:
    """Return the tokens so far. Later events repeat only what has changed; cached input is counted apart there."""
    if not usage:
        return before
    if usage.get("input_tokens") is None:
        prompt, cached = (0, 0) if before is None else (before.prompt_tokens, before.cached_tokens)
    else:
        cached = int(usage.get("cache_read_input_tokens") or 0)
        prompt = int(usage["input_tokens"]) + int(usage.get("cache_creation_input_tokens") or 0) + cached
    return Usage(prompt, int(usage.get("output_tokens") or 0), cached)


def failure(response: Response) -> ChatError:
    """Convert a response that is not a success. The texts of the service may quote our input, so only codes are
    used."""
    error = inner(read_json(response), "error")
    code = _text(error.get("type"))
    reason = short_reason(f"HTTP {response.status}", code)
    request_id = response.headers.get("request-id")
    wait_s = retry_after(response.headers)
    has_no_credit = code == "billing_error" or "credit balance" in str(error.get("message") or "")
    match response.status:
        case 401 | 402 | 403:
            return ChatRejected(reason, code=code, account=True, request_id=request_id)
        case 429:
            return ChatRateLimited(reason, retry_after_s=wait_s, request_id=request_id)
        case 408 | 409:
            return ChatUnavailable(reason, was_sent=True, retry_after_s=wait_s, request_id=request_id)
        case status if status >= 500:  # 529: the service is overloaded
            return ChatUnavailable(reason, was_sent=True, retry_after_s=wait_s, request_id=request_id)
        case _:
            return ChatRejected(reason, code=code, account=has_no_credit, request_id=request_id)


def _judge_models(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok:
        return accepted(None, answer)
    reason = short_reason(f"HTTP {response.status}", inner(answer, "error").get("type"))
    return judge_failure(response, repeatable=True, reason=reason)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
