"""OpenAI's chat completions, and every service with the same API: whole answers, streams, answers by a JSON schema.

A call has no effect outside, so repeating it is safe, but each answer is paid for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, Self, cast

import orjson

from onceward.http import Ambiguous, HostUnreachable, Response, StreamedResponse, UrlRefused
from onceward.services.accounts import ServiceAccount
from onceward.services.call import (
    Client,
    accepted,
    call,
    inner,
    judge_failure,
    objects,
    read_json,
    retry_after,
    short_reason,
    write_json,
)
from onceward.services.chat import (
    ChatBroken,
    ChatCut,
    ChatError,
    ChatMessage,
    ChatRateLimited,
    ChatRejected,
    ChatUnavailable,
    Completion,
    JsonSchema,
    ModelRefused,
    Usage,
    as_messages,
)
from onceward.services.event_stream import EventTooLong, read_events
from onceward.services.outcome import ServiceAnswer

BASE_URL = "https://api.openai.com/v1"

MAX_ANSWER_CHARACTERS = 400_000
_MAX_ERROR_BYTES = 64 * 1024
# These say that the account has no credit; waiting does not help.
_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})


class StreamingClient(Client, Protocol):
    """An HTTP client that can also read an answer while it arrives."""

    def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
        idle_timeout_s: float = 30.0,
    ) -> AbstractAsyncContextManager[StreamedResponse]: ...


@dataclass(frozen=True, slots=True)
class OpenAI:
    """Calls one chat API with one key. `model` is the default for calls that name none."""

    repeatable: ClassVar[bool] = True

    client: StreamingClient = field(repr=False)
    api_key: str = field(repr=False)
    model: str
    base_url: str = BASE_URL
    token_limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    timeout_s: float = 300.0
    idle_timeout_s: float = 60.0
    max_answer_characters: int = MAX_ANSWER_CHARACTERS

    @classmethod
    def connect(cls, http: StreamingClient, account: ServiceAccount) -> Self:
        return cls(
            http,
            account["api_key"],
            account["model"],
            base_url=account.url or account.settings.url,
            token_limit_field=account.settings.token_limit_field,
        )

    async def check(self) -> ServiceAnswer:
        """List the models."""
        return await call(
            self.client,
            "GET",
            f"{self.base_url}/models",
            headers=self._headers(None),
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
        temperature: float | None = None,
        key: str | None = None,
    ) -> Completion:
        """Return the whole answer. Raises a `ChatError`. `key` is our id of the call, for the service's logs."""
        body = self._body(messages, model, schema, max_tokens, temperature)
        try:
            response = await self.client.request(
                "POST", self._url, headers=self._headers(key), body=write_json(body), timeout_s=self.timeout_s
            )
        except (UrlRefused, HostUnreachable) as error:
            raise ChatUnavailable(error.reason, was_sent=False) from None
        except Ambiguous as error:
            raise ChatBroken(error.reason, text="") from None
        if not response.ok:
            raise failure(response)
        return self._read(response, model or self.model)

    @asynccontextmanager
    async def stream(
        self,
        messages: Sequence[ChatMessage] | str,
        *,
        model: str | None = None,
        schema: JsonSchema | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        key: str | None = None,
    ) -> AsyncGenerator[ChatStream]:
        """Give the answer piece by piece. Leaving the block early cancels the call.

        async with openai.stream("Write a lesson") as stream:
            async for text in stream:
                ...
        stream.completion.usage
        """
        body = self._body(messages, model, schema, max_tokens, temperature)
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        sent = self.client.stream(
            "POST",
            self._url,
            headers={**self._headers(key), "Accept": "text/event-stream"},
            body=write_json(body),
            timeout_s=self.timeout_s,
            idle_timeout_s=self.idle_timeout_s,
        )
        async with AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(sent)
            except (UrlRefused, HostUnreachable) as error:
                raise ChatUnavailable(error.reason, was_sent=False) from None
            except Ambiguous as error:
                raise ChatBroken(error.reason, text="") from None
            if not response.ok:
                raise failure(await _read_error(response))
            yield ChatStream(response, model or self.model, max_characters=self.max_answer_characters)

    @property
    def _url(self) -> str:
        return f"{self.base_url}/chat/completions"

    def _headers(self, key: str | None) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.api_key}", "Content-Type": "application/json"}
        if key is not None:
            headers["X-Client-Request-Id"] = key
        return headers

    def _body(
        self,
        messages: Sequence[ChatMessage] | str,
        model: str | None,
        schema: JsonSchema | None,
        max_tokens: int | None,
        temperature: float | None,
    ) -> dict[str, Any]:
        written = [message.written() for message in as_messages(messages)]
        if not written:
            raise ValueError("messages is empty: a chat needs at least one message")
        body: dict[str, Any] = {"model": model or self.model, "messages": written}
        if schema is not None:
            body["response_format"] = schema.written()
        if max_tokens is not None:
            body[self.token_limit_field] = max_tokens
        if temperature is not None:
            body["temperature"] = temperature
        return body

    def _read(self, response: Response, model: str) -> Completion:
        answer = read_json(response)
        request_id = response.headers.get("x-request-id")
        choices = objects(answer, "choices")
        if not choices:
            raise ChatBroken("the answer has no choices", text="", request_id=request_id)
        message = inner(choices[0], "message")
        return finish(
            Completion(
                id=_text(answer.get("id")),
                request_id=request_id,
                model=str(answer.get("model") or model),
                text=str(message.get("content") or ""),
                finish_reason=str(choices[0].get("finish_reason") or "stop"),
                usage=read_usage(answer),
            ),
            refusal=_text(message.get("refusal")),
        )


class ChatStream:
    """The pieces of one answer. `text` is what has arrived so far; `completion` is set when the answer is complete."""

    def __init__(self, response: StreamedResponse, model: str, *, max_characters: int) -> None:
        self._response = response
        self._model = model
        self._max_characters = max_characters
        self._pieces: list[str] = []
        self._characters = 0
        self._refusal: list[str] = []
        self._finish_reason: str | None = None
        self._id: str | None = None
        self._usage: Usage | None = None
        self._completion: Completion | None = None
        self.request_id = response.headers.get("x-request-id")

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def completion(self) -> Completion:
        if self._completion is None:
            raise RuntimeError("the answer is not complete yet: read the stream to its end first")
        return self._completion

    async def __aiter__(self) -> AsyncGenerator[str]:
        """Yield the pieces. Raises ChatBroken, ChatCut or ModelRefused if the answer is not complete."""
        try:
            async with aclosing(read_events(self._response.chunks())) as events:
                async for data in events:
                    if data == b"[DONE]":
                        break
                    if piece := self._take(data):
                        yield piece
        except Ambiguous as error:
            raise self._broken(error.reason) from None
        except EventTooLong as error:
            raise self._broken(str(error)) from None
        self._finish()

    async def read(self) -> Completion:
        """Read to the end and return the whole answer."""
        async for _ in self:
            pass
        return self.completion

    def _take(self, data: bytes) -> str:
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise self._broken("the stream contains an event that is not JSON") from None
        if not isinstance(event, dict):
            raise self._broken("the stream contains an event that is not an object")
        chunk = cast("dict[str, Any]", event)
        if error := inner(chunk, "error"):
            raise self._broken(short_reason("the service reports an error", error.get("code") or error.get("type")))
        self._id = self._id or _text(chunk.get("id"))
        self._model = _text(chunk.get("model")) or self._model
        self._usage = read_usage(chunk) or self._usage
        piece = ""
        for choice in objects(chunk, "choices")[:1]:
            delta = inner(choice, "delta")
            piece = str(delta.get("content") or "")
            self._refusal.append(str(delta.get("refusal") or ""))
            self._finish_reason = _text(choice.get("finish_reason")) or self._finish_reason
        self._pieces.append(piece)
        self._characters += len(piece) + len(self._refusal[-1] if self._refusal else "")
        if self._characters > self._max_characters:
            raise ChatCut(
                f"the answer has more than {self._max_characters} characters",
                text=self.text,
                request_id=self.request_id,
                usage=self._usage,
            )
        return piece

    def _finish(self) -> None:
        if self._finish_reason is None:
            raise self._broken("the stream ended before the answer was complete")
        completion = Completion(self._id, self.request_id, self._model, self.text, self._finish_reason, self._usage)
        self._completion = finish(completion, refusal="".join(self._refusal) or None)

    def _broken(self, reason: str) -> ChatBroken:
        return ChatBroken(reason, text=self.text, request_id=self.request_id, usage=self._usage)


def finish(completion: Completion, *, refusal: str | None) -> Completion:
    """Return a complete answer; raise if the model refused or reached a limit."""
    seen: dict[str, Any] = {"request_id": completion.request_id, "usage": completion.usage}
    if refusal or completion.finish_reason == "content_filter":
        raise ModelRefused(refusal or "stopped by the content filter", **seen)
    if completion.finish_reason == "length":
        raise ChatCut("the answer reached the limit of tokens", text=completion.text, **seen)
    return completion


def failure(response: Response) -> ChatError:
    """Convert a response that is not a success. The texts of the service may quote our input, so only codes are used."""
    error = inner(read_json(response), "error")
    code = _text(error.get("code")) or _text(error.get("type"))
    reason = short_reason(f"HTTP {response.status}", code, error.get("param"))
    request_id = response.headers.get("x-request-id")
    wait_s = _wait_s(response.headers)
    match response.status:
        case 401 | 403 | 402:
            return ChatRejected(reason, code=code, account=True, request_id=request_id)
        case 429 if code in _NO_CREDIT:
            return ChatRejected(reason, code=code, account=True, request_id=request_id)
        case 429:
            return ChatRateLimited(reason, retry_after_s=wait_s, request_id=request_id)
        case 408 | 409 | 425:
            return ChatUnavailable(reason, was_sent=True, retry_after_s=wait_s, request_id=request_id)
        case status if status >= 500:
            return ChatUnavailable(reason, was_sent=True, retry_after_s=wait_s, request_id=request_id)
        case _:
            return ChatRejected(reason, code=code, account=False, request_id=request_id)


def _judge_models(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok:
        return accepted(None, answer)
    reason = short_reason(f"HTTP {response.status}", inner(answer, "error").get("code"))
    return judge_failure(response, repeatable=True, reason=reason)


def read_usage(answer: Mapping[str, Any]) -> Usage | None:
    usage = inner(answer, "usage")
    if not usage:
        return None
    cached = inner(usage, "prompt_tokens_details").get("cached_tokens")
    return Usage(int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0), int(cached or 0))


async def _read_error(response: StreamedResponse) -> Response:
    try:
        return await response.read(max_bytes=_MAX_ERROR_BYTES)
    except Ambiguous:
        return Response(status=response.status, headers=response.headers, body=b"", elapsed_ms=0, truncated=True)


def _wait_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait. OpenAI also sends `retry-after-ms`, which is more exact."""
    exact = headers.get("retry-after-ms", "")
    if exact.isdecimal():
        return int(exact) / 1000
    return retry_after(headers)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
