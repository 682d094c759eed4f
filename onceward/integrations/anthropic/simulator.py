"""A simulator of the Messages API: streams with refusals, cut answers and broken connections.

sims.anthropic.answer_with("Lesson one ...")           # the next answer; without it, the simulator writes one
sims.anthropic.refuse()
sims.anthropic.use_up_credit()
assert [call.model for call in sims.anthropic.calls] == ["claude-simulated"]
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
from aiohttp import web

from onceward.testing.simulators.chat_answers import count_tokens, write_answer
from onceward.testing.simulators.server import Simulator, answer, part, parts, read_object

Json = dict[str, Any]
Kind = Literal["text", "refuse", "cut", "break", "credit", "overloaded"]


@dataclass(slots=True)
class MessageCall:
    """One call, with what the simulator answered."""

    number: int
    model: str
    system: str = field(repr=False)
    messages: list[Json] = field(repr=False)
    schema: Json | None = field(repr=False)
    max_tokens: int
    answer: str = field(default="", repr=False)


class AnthropicSimulator(Simulator):
    """One account that accepts every key and every model."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[MessageCall] = []
        self.write: Callable[[Json], str] = write_answer
        """Writes the answer to a request, which it gets in the form of OpenAI's chat API."""
        self.piece_s = 0.0
        self.piece_characters = 8
        self._plans: deque[tuple[Kind, str | int | None]] = deque()

    def answer_with(self, *texts: str) -> None:
        """Answer the next calls with these texts."""
        self._plans.extend(("text", text) for text in texts)

    def refuse(self) -> None:
        """Let the model refuse the next call."""
        self._plans.append(("refuse", None))

    def cut(self, *, after_characters: int = 20) -> None:
        """End the next answer at the limit of tokens."""
        self._plans.append(("cut", after_characters))

    def break_stream(self, *, after_characters: int = 20) -> None:
        """Drop the connection in the middle of the next answer."""
        self._plans.append(("break", after_characters))

    def use_up_credit(self) -> None:
        """Answer the next call as if the account had no credit."""
        self._plans.append(("credit", None))

    def overload(self) -> None:
        """Report an overload in the middle of the next stream."""
        self._plans.append(("overloaded", None))

    @property
    def base_url(self) -> str:
        """The value for `ONCEWARD_ANTHROPIC_URL`."""
        return f"{self.url}/v1"

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/messages", self._message), web.get("/v1/models", self._models)]

    def failure(self, status: int) -> web.Response:
        return _error(status, "rate_limit_error" if status == 429 else "api_error", "Simulated failure")

    async def _models(self, request: web.Request) -> web.Response:
        if (refusal := _refuse(request)) is not None:
            return refusal
        model = {
            "type": "model",
            "id": "claude-simulated",
            "display_name": "Simulated",
            "created_at": "1970-01-01T00:00:00Z",
        }
        return answer({"data": [model], "has_more": False, "first_id": model["id"], "last_id": model["id"]})

    async def _message(self, request: web.Request) -> web.StreamResponse:
        if (refusal := _refuse(request)) is not None:
            return refusal
        body = await read_object(request)
        if not body.get("model") or not parts(body, "messages") or not body.get("max_tokens"):
            return _error(400, "invalid_request_error", "model, messages and max_tokens are required")
        kind, value = self._plans.popleft() if self._plans else ("text", None)
        call = self._record(body)
        if kind == "credit":
            return _error(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.")
        call.answer = value if isinstance(value, str) else self.write(_as_chat(body))
        text = "" if kind == "refuse" else call.answer
        shown = text[:value] if kind in ("cut", "break") and isinstance(value, int) else text
        stop = {"refuse": "refusal", "cut": "max_tokens"}.get(kind, "end_turn")
        if body.get("stream") is not True:
            return answer(_whole(call, shown, stop), headers={"request-id": f"req_simulated_{call.number}"})
        return await self._stream(request, call, shown, kind, stop)

    def _record(self, body: Json) -> MessageCall:
        format = part(part(body, "output_config"), "format")
        call = MessageCall(
            number=len(self.calls) + 1,
            model=str(body["model"]),
            system=str(body.get("system") or ""),
            messages=parts(body, "messages"),
            schema=part(format, "schema") or None,
            max_tokens=int(body["max_tokens"]),
        )
        self.calls.append(call)
        return call

    async def _stream(
        self, request: web.Request, call: MessageCall, text: str, kind: Kind, stop: str
    ) -> web.StreamResponse:
        headers = {"Content-Type": "text/event-stream", "request-id": f"req_simulated_{call.number}"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        await _send(response, {"type": "message_start", "message": _whole(call, "", None)})
        await _send(
            response, {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        )
        await _send(response, {"type": "ping"})
        for start in range(0, len(text), self.piece_characters):
            piece = {"type": "text_delta", "text": text[start : start + self.piece_characters]}
            await _send(response, {"type": "content_block_delta", "index": 0, "delta": piece})
            await asyncio.sleep(self.piece_s)
        if kind == "break":
            if request.transport is not None:
                request.transport.abort()
            return response
        if kind == "overloaded":
            await _send(response, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
            return response
        await _send(response, {"type": "content_block_stop", "index": 0})
        usage = {"output_tokens": count_tokens(text)}
        await _send(
            response,
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        )
        await _send(response, {"type": "message_stop"})
        await response.write_eof()
        return response


def _as_chat(body: Json) -> Json:
    """Return the request as OpenAI's chat API would have it, so that one author can write for both."""
    schema = part(part(part(body, "output_config"), "format"), "schema")
    chat: Json = {"messages": parts(body, "messages")}
    if schema:
        chat["response_format"] = {"json_schema": {"name": "answer", "schema": schema}}
    return chat


def _whole(call: MessageCall, text: str, stop: str | None) -> Json:
    return {
        "id": f"msg_simulated_{call.number}",
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": count_tokens(call.system) + sum(count_tokens(str(m.get("content"))) for m in call.messages),
            "output_tokens": max(count_tokens(text), 1),
        },
    }


def _refuse(request: web.Request) -> web.Response | None:
    key = request.headers.get("x-api-key") or request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not key or key.endswith("_invalid"):
        return _error(401, "authentication_error", "invalid x-api-key")
    return None


def _error(status: int, type: str, message: str) -> web.Response:
    return answer({"type": "error", "error": {"type": type, "message": message}}, status=status)


async def _send(response: web.StreamResponse, event: Json) -> None:
    await response.write(b"event: " + str(event["type"]).encode() + b"\ndata: " + orjson.dumps(event) + b"\n\n")
