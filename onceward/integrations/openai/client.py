"""OpenAI's chat completions, and every service with the same API: whole answers, streams, answers by a JSON schema.

A call has no effect outside, so repeating it is safe, but each answer is paid for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlencode

from onceward.http import Ambiguous, HostUnreachable, Response, UrlRefused
from onceward.services.accounts import ServiceAccount
from onceward.services.call import (
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
from onceward.services.chat_stream import (
    MAX_ANSWER_CHARACTERS,
    ChatStream,
    StreamingClient,
    finish,
    open_stream,
    read_failure,
)
from onceward.services.outcome import ServiceAnswer

BASE_URL = "https://api.openai.com/v1"

# These say that the account has no credit; waiting does not help.
_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_MOST_PAGES = 100


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
    admin_key: str | None = field(default=None, repr=False)

    @classmethod
    def connect(cls, http: StreamingClient, account: ServiceAccount) -> Self:
        return cls(
            http,
            account["api_key"],
            account["model"],
            base_url=account.url or account.settings.url,
            token_limit_field=account.settings.token_limit_field,
            admin_key=account.get("admin_key"),
        )

    async def usage_of(self, day: date) -> dict[str, Usage] | None:
        """Return the tokens of all calls of the account on a day (UTC), by model. None: no `admin_key` is set.

        The service counts with a delay; a day is complete some hours after its end. Raises a `ChatError`.
        """
        if self.admin_key is None:
            return None
        start = datetime.combine(day, time(), UTC)
        query: dict[str, str | int] = {
            "start_time": int(start.timestamp()),
            "end_time": int(start.timestamp()) + 86_400,
            "bucket_width": "1d",
            "group_by": "model",
            "limit": 1,
        }
        counted: dict[str, Usage] = {}
        for _ in range(_MOST_PAGES):
            page = await self._read_usage_page(query)
            for bucket in objects(page, "data"):
                for row in objects(bucket, "results"):
                    name = str(row.get("model") or "")
                    before = counted.get(name, Usage(0, 0))
                    counted[name] = Usage(
                        before.prompt_tokens + int(row.get("input_tokens") or 0),
                        before.completion_tokens + int(row.get("output_tokens") or 0),
                    )
            if not page.get("has_more") or not page.get("next_page"):
                break
            query["page"] = str(page["next_page"])
        return counted

    async def _read_usage_page(self, query: Mapping[str, str | int]) -> Mapping[str, Any]:
        url = f"{self.base_url}/organization/usage/completions?{urlencode(query)}"
        headers = {"Authorization": f"Bearer {self.admin_key}"}
        try:
            response = await self.client.request("GET", url, headers=headers, timeout_s=self.timeout_s)
        except (UrlRefused, HostUnreachable, Ambiguous) as error:
            raise ChatUnavailable(error.reason, was_sent=False) from None
        if not response.ok:
            raise failure(response)
        return read_json(response)

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
        async with open_stream(sent) as response:
            if not response.ok:
                raise failure(await read_failure(response))
            yield OpenAIStream(
                response,
                model or self.model,
                request_id=response.headers.get("x-request-id"),
                max_characters=self.max_answer_characters,
            )

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


class OpenAIStream(ChatStream):
    """Reads the chunks of chat completions."""

    def _read_event(self, event: Mapping[str, Any]) -> str:
        if error := inner(event, "error"):
            self._report_error(error)
        self._id = self._id or _text(event.get("id"))
        self._model = _text(event.get("model")) or self._model
        self._usage = read_usage(event) or self._usage
        piece = ""
        for choice in objects(event, "choices")[:1]:
            delta = inner(choice, "delta")
            piece = str(delta.get("content") or "")
            self._refusal.append(str(delta.get("refusal") or ""))
            self._finish_reason = _text(choice.get("finish_reason")) or self._finish_reason
        return piece


def failure(response: Response) -> ChatError:
    """Convert a response that is not a success. The texts of the service may quote our input, so only codes are
    used."""
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


def _wait_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait. OpenAI also sends `retry-after-ms`, which is more exact."""
    exact = headers.get("retry-after-ms", "")
    if exact.isdecimal():
        return int(exact) / 1000
    return retry_after(headers)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
