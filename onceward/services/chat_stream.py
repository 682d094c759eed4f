"""Read the answer of a chat model while it arrives. Each service has a subclass that reads its events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Protocol, cast

import orjson

from onceward.http import Ambiguous, HostUnreachable, Response, StreamedResponse, UrlRefused

from .call import Client, short_reason
from .chat import ChatBroken, ChatCut, ChatMessage, ChatUnavailable, Completion, JsonSchema, ModelRefused, Usage
from .event_stream import EventTooLong, read_events

MAX_ANSWER_CHARACTERS = 400_000
_MAX_ERROR_BYTES = 64 * 1024


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


class ChatModel(Protocol):
    """A client of any chat service. An app that takes a `ChatModel` works with all of them."""

    @property
    def model(self) -> str:
        """The model of calls that name none."""
        ...

    def stream(
        self,
        messages: Sequence[ChatMessage] | str,
        *,
        model: str | None = None,
        schema: JsonSchema | None = None,
        max_tokens: int | None = None,
        key: str | None = None,
    ) -> AbstractAsyncContextManager[ChatStream]:
        """Give the answer piece by piece. Leaving the block early cancels the call. Raises a `ChatError`."""
        ...


@asynccontextmanager
async def open_stream(sent: AbstractAsyncContextManager[StreamedResponse]) -> AsyncGenerator[StreamedResponse]:
    """Enter a request, and convert a failure to send it."""
    async with AsyncExitStack() as stack:
        try:
            response = await stack.enter_async_context(sent)
        except (UrlRefused, HostUnreachable) as error:
            raise ChatUnavailable(error.reason, was_sent=False) from None
        except Ambiguous as error:
            raise ChatBroken(error.reason, text="") from None
        yield response


async def read_failure(response: StreamedResponse) -> Response:
    """Return a response that is not a success, with as much of its body as an error needs."""
    try:
        return await response.read(max_bytes=_MAX_ERROR_BYTES)
    except Ambiguous:
        return Response(status=response.status, headers=response.headers, body=b"", elapsed_ms=0, truncated=True)


class ChatStream(ABC):
    """The pieces of one answer. `text` is what has arrived so far; `completion` is set when the answer is complete."""

    def __init__(self, response: StreamedResponse, model: str, *, request_id: str | None, max_characters: int) -> None:
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
        self.request_id = request_id

    @abstractmethod
    def _read_event(self, event: Mapping[str, Any]) -> str:
        """Take what an event says, and return the text that it adds."""

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
        refused = len(self._refusal)
        piece = self._read_event(cast("dict[str, Any]", event))
        self._pieces.append(piece)
        self._characters += len(piece) + sum(len(each) for each in self._refusal[refused:])
        if self._characters > self._max_characters:
            raise ChatCut(
                f"the answer has more than {self._max_characters} characters",
                text=self.text,
                request_id=self.request_id,
                usage=self._usage,
            )
        return piece

    def _report_error(self, error: Mapping[str, Any]) -> None:
        """Raise for an error that the service reports in the middle of the stream."""
        raise self._broken(short_reason("the service reports an error", error.get("code") or error.get("type")))

    def _finish(self) -> None:
        if self._finish_reason is None:
            raise self._broken("the stream ended before the answer was complete")
        completion = Completion(self._id, self.request_id, self._model, self.text, self._finish_reason, self._usage)
        self._completion = finish(completion, refusal="".join(self._refusal) or None)

    def _broken(self, reason: str) -> ChatBroken:
        return ChatBroken(reason, text=self.text, request_id=self.request_id, usage=self._usage)


REFUSED_BY = frozenset({"content_filter", "refusal"})
CUT_BY = frozenset({"length", "max_tokens", "model_context_window_exceeded"})


def finish(completion: Completion, *, refusal: str | None) -> Completion:
    """Return a complete answer; raise if the model refused or reached a limit."""
    seen: dict[str, Any] = {"request_id": completion.request_id, "usage": completion.usage}
    if refusal or completion.finish_reason in REFUSED_BY:
        raise ModelRefused(refusal or f"stopped by the service: {completion.finish_reason}", **seen)
    if completion.finish_reason in CUT_BY:
        raise ChatCut("the answer reached the limit of tokens", text=completion.text, **seen)
    return completion
