"""A simulator of a chat API: whole answers and streams, with delays, refusals, rate limits and broken streams.

sims.openai.answer_with("Lesson one ...")              # the next answer; without it, the simulator writes one
sims.openai.refuse("I cannot help with that")
sims.openai.rate_limit(retry_after_s=2)
sims.openai.break_stream(after_characters=40)
assert [call.model for call in sims.openai.calls] == ["gpt-simulated"]
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import orjson
from aiohttp import web

from onceward.testing.simulators.chat_answers import count_tokens, write_answer
from onceward.testing.simulators.server import Simulator, answer, part, parts, read_object

Json = dict[str, Any]
State = Literal["running", "complete", "refused", "cut", "broken", "cancelled", "failed"]


@dataclass(slots=True)
class ChatCall:
    """One call, with what the simulator answered. `state` is `cancelled` if the caller hung up during a stream."""

    number: int
    key: str | None
    model: str
    messages: list[Json] = field(repr=False)
    schema: Json | None = field(repr=False)
    is_stream: bool
    state: State = "running"
    answer: str = field(default="", repr=False)
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def request_id(self) -> str:
        return f"req_simulated_{self.number}"


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one of the next calls gets instead of a normal answer."""

    kind: Literal["text", "refuse", "cut", "break", "endless", "stall", "quota"]
    text: str | None = None
    after_characters: int = 0
    about: str = ""
    """What the messages of the call contain. Empty: any call."""


class OpenAISimulator(Simulator):
    """One account that accepts every key and every model but those in `unknown_models`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[ChatCall] = []
        self.unknown_models: set[str] = set()
        self.write: Callable[[Json], str] = write_answer
        """Writes the answer to a request body. Replace it to answer by prompt."""
        self.latency_s = 0.0
        """Seconds before the answer, or before the first piece of a stream."""
        self.piece_s = 0.0
        """Seconds between two pieces of a stream."""
        self.piece_characters = 8
        self.usage_by_day: dict[str, dict[str, tuple[int, int]]] = {}
        """What the usage API reports: input and output tokens by day (`2026-11-18`) and model."""
        self._plans: deque[_Plan] = deque()

    # -- what the next calls get, one call each, in the order of these calls
    # ---------------------------------------------

    def answer_with(self, *texts: str) -> None:
        """Answer the next calls with these texts."""
        self._plans.extend(_Plan("text", text) for text in texts)

    def refuse(self, refusal: str = "I cannot help with that.", *, about: str = "") -> None:
        """Let the model refuse the next call, or the next one whose messages contain a text."""
        self._plans.append(_Plan("refuse", refusal, about=about))

    def cut(self, *, after_characters: int = 20) -> None:
        """End the next answer at the limit of tokens: `finish_reason` is `length`."""
        self._plans.append(_Plan("cut", after_characters=after_characters))

    def break_stream(self, *, after_characters: int = 20, about: str = "") -> None:
        """Drop the connection in the middle of the next answer, or of the next one whose messages contain a text."""
        self._plans.append(_Plan("break", after_characters=after_characters, about=about))

    def stall_stream(self, *, after_characters: int = 20) -> None:
        """Stop sending in the middle of the next answer, but keep the connection open."""
        self._plans.append(_Plan("stall", after_characters=after_characters))

    def stream_without_end(self) -> None:
        """Let the next stream go on until the caller hangs up."""
        self._plans.append(_Plan("endless"))

    def use_up_quota(self) -> None:
        """Answer the next call with 429 because the account has no credit."""
        self._plans.append(_Plan("quota"))

    # -- the API
    # ---------------------------------------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        """The value for `ONCEWARD_OPENAI_URL`."""
        return f"{self.url}/v1"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self._complete),
            web.get("/v1/models", self._models),
            web.get("/v1/organization/usage/completions", self._usage),
        ]

    def failure(self, status: int) -> web.Response:
        code = "rate_limit_exceeded" if status == 429 else "server_error"
        return _error(status, code, "Simulated failure")

    async def _models(self, request: web.Request) -> web.Response:
        if (refusal := _refuse(request)) is not None:
            return refusal
        model = {"id": "gpt-simulated", "object": "model", "created": 0, "owned_by": "simulator"}
        return answer({"object": "list", "data": [model]})

    async def _usage(self, request: web.Request) -> web.Response:
        """Report one bucket of a day, one model a page. Only an admin key may read it."""
        if not request.headers.get("Authorization", "").startswith("Bearer sk-admin"):
            return _error(403, "insufficient_permissions", "Missing scopes: api.usage.read")
        start = datetime.fromtimestamp(int(request.query["start_time"]), UTC)
        models = sorted(self.usage_by_day.get(f"{start:%Y-%m-%d}", {}).items())
        number = int(request.query.get("page", "0"))
        results: list[Json] = [
            {
                "object": "organization.usage.completions.result",
                "model": name,
                "input_tokens": tokens[0],
                "output_tokens": tokens[1],
                "num_model_requests": 1,
            }
            for name, tokens in models[number : number + 1]
        ]
        bucket: Json = {"object": "bucket", "start_time": int(start.timestamp()), "results": results}
        has_more = number + 1 < len(models)
        next_page = str(number + 1) if has_more else None
        return answer({"object": "page", "data": [bucket], "has_more": has_more, "next_page": next_page})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        if (refusal := _refuse(request)) is not None:
            return refusal
        body = await read_object(request)
        if not body.get("model") or not parts(body, "messages"):
            return _error(400, "missing_required_parameter", "model and messages are required.", param="messages")
        if body["model"] in self.unknown_models:
            return _error(404, "model_not_found", "The model does not exist.", param="model")
        call = self._record(request.headers, body)
        plan = self._next_plan(call)
        if plan.kind == "quota":
            call.state = "failed"
            return _error(429, "insufficient_quota", "You exceeded your current quota.", type="insufficient_quota")
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        call.answer = plan.text if plan.text is not None else self.write(body)
        call.completion_tokens = count_tokens(call.answer)
        if call.is_stream:
            include_usage = bool(part(body, "stream_options").get("include_usage"))
            return await self._stream(request, call, plan, include_usage=include_usage)
        return await self._whole(request, call, plan)

    def _next_plan(self, call: ChatCall) -> _Plan:
        said = " ".join(str(message.get("content") or "") for message in call.messages)
        plan = next((each for each in self._plans if each.about in said), None)
        if plan is None:
            return _Plan("text")
        self._plans.remove(plan)
        return plan

    def _record(self, headers: Mapping[str, str], body: Json) -> ChatCall:
        messages = parts(body, "messages")
        schema = part(part(body, "response_format"), "json_schema")
        call = ChatCall(
            number=len(self.calls) + 1,
            key=headers.get("X-Client-Request-Id"),
            model=str(body["model"]),
            messages=messages,
            schema=part(schema, "schema") or None,
            is_stream=body.get("stream") is True,
            prompt_tokens=sum(count_tokens(str(message.get("content") or "")) for message in messages),
        )
        self.calls.append(call)
        return call

    async def _whole(self, request: web.Request, call: ChatCall, plan: _Plan) -> web.StreamResponse:
        message: Json = {"role": "assistant", "content": call.answer, "refusal": None}
        finish_reason = "stop"
        match plan.kind:
            case "refuse":
                message |= {"content": None, "refusal": call.answer}
                call.state = "refused"
            case "cut":
                message["content"] = call.answer[: plan.after_characters]
                finish_reason, call.state = "length", "cut"
            case "break":
                call.state = "broken"
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=500)
            case "stall" | "endless":
                call.state = "broken"
                await self._stopping.wait()
                return web.Response(status=503)
            case _:
                call.state = "complete"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
        body = {**_envelope(call, "chat.completion"), "choices": [choice], "usage": _usage(call)}
        return answer(body, headers={"x-request-id": call.request_id})

    async def _stream(
        self, request: web.Request, call: ChatCall, plan: _Plan, *, include_usage: bool
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "x-request-id": call.request_id})
        await response.prepare(request)
        try:
            return await self._write_pieces(request, response, call, plan, include_usage=include_usage)
        except (ConnectionResetError, asyncio.CancelledError):
            call.state = "cancelled"
            raise

    async def _write_pieces(
        self,
        request: web.Request,
        response: web.StreamResponse,
        call: ChatCall,
        plan: _Plan,
        *,
        include_usage: bool,
    ) -> web.StreamResponse:
        field_name = "refusal" if plan.kind == "refuse" else "content"
        await _send(response, _chunk(call, {"role": "assistant", field_name: ""}))
        sent = 0
        stops_at = plan.after_characters if plan.kind in ("cut", "break", "stall") else len(call.answer)
        while plan.kind == "endless" or sent < stops_at:
            start = sent % max(len(call.answer), 1) if plan.kind == "endless" else sent
            piece = call.answer[start : start + self.piece_characters] or "…"
            piece = piece if plan.kind == "endless" else piece[: stops_at - sent]
            await _send(response, _chunk(call, {field_name: piece}))
            sent += len(piece)
            # Also without a pause: an endless stream must not keep the loop to itself.
            await asyncio.sleep(self.piece_s)
        if plan.kind == "break":
            call.state = "broken"
            if request.transport is not None:
                request.transport.abort()
            return response
        if plan.kind == "stall":
            call.state = "broken"
            await self._stopping.wait()
            return response
        call.state = "cut" if plan.kind == "cut" else "refused" if plan.kind == "refuse" else "complete"
        await _send(response, _chunk(call, {}, finish_reason="length" if plan.kind == "cut" else "stop"))
        if include_usage:
            final: Json = {**_envelope(call, "chat.completion.chunk"), "choices": [], "usage": _usage(call)}
            await _send(response, final)
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


def _envelope(call: ChatCall, kind: str) -> Json:
    return {"id": f"chatcmpl-simulated-{call.number}", "object": kind, "created": 0, "model": call.model}


def _chunk(call: ChatCall, delta: Json, *, finish_reason: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return {**_envelope(call, "chat.completion.chunk"), "choices": [choice], "usage": None}


def _usage(call: ChatCall) -> Json:
    return {
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
        "total_tokens": call.prompt_tokens + call.completion_tokens,
    }


def _refuse(request: web.Request) -> web.Response | None:
    key = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not key:
        return _error(401, "invalid_api_key", "No API key was provided.")
    return _error(401, "invalid_api_key", "Incorrect API key provided.") if key.endswith("_invalid") else None


def _error(
    status: int, code: str, message: str, *, param: str | None = None, type: str = "invalid_request_error"
) -> web.Response:
    return answer({"error": {"message": message, "type": type, "param": param, "code": code}}, status=status)


async def _send(response: web.StreamResponse, value: Json) -> None:
    await response.write(b"data: " + orjson.dumps(value) + b"\n\n")
