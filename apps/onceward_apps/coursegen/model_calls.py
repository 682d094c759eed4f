"""Ask the language model, and record every call before it is made and when it has ended.

The result of a call and the record that it is paid are one commit, so a crash repeats at most the call in flight. What a
call may cost is limited before it starts: the answer gets as many tokens as the rest of the budget pays for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import UUID, uuid4

import orjson
from pydantic import ValidationError

from onceward import Retry, Tx
from onceward.integrations.openai import OpenAI
from onceward.services import (
    ChatBroken,
    ChatCut,
    ChatError,
    ChatMessage,
    ChatRateLimited,
    ChatRejected,
    ChatUnavailable,
    JsonSchema,
    ModelRefused,
    NotSet,
    Usage,
)
from onceward.telemetry import get_logger
from onceward_apps.coursegen import line, model, prompts
from onceward_apps.coursegen.app import app
from onceward_apps.coursegen.errors import AccountRefused, GenerationFailed
from onceward_apps.coursegen.generation import Generation
from onceward_apps.coursegen.metrics import CALL_SECONDS, CALLS, COST
from onceward_apps.coursegen.store import calls, courses

DRAFT_EVERY_S = 0.7
LEAST_TOKENS = 64
"""A call that can afford fewer output tokens is not made: its answer would be cut."""

A = TypeVar("A", bound=prompts.Answer)
Save = Callable[[Tx, str], Awaitable[None]]

log = get_logger("onceward_apps.coursegen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What one call is for. `title` is shown while the answer arrives."""

    step: int
    item: str
    title: str
    messages: Sequence[ChatMessage]
    schema: JsonSchema | None = None


@dataclass(slots=True)
class _Call:
    """A call that was recorded and is being made."""

    request_id: UUID
    client: OpenAI
    prompt_tokens: int
    max_tokens: int
    reserved_micros: int
    text: str = ""
    shown_at: float = 0.0


async def write(generation: Generation, question: Question, save: Save) -> None:
    """Ask for a text and save it in the commit that records the call."""
    await _with_one_repair(generation, question, save)


async def fill_in(
    generation: Generation, question: Question, shape: type[A], save: Callable[[Tx, A], Awaitable[None]]
) -> None:
    """Ask for a structured answer and save it in the commit that records the call."""

    async def save_parsed(tx: Tx, text: str) -> None:
        await save(tx, _parse(shape, text))

    schema = JsonSchema(shape.__name__.lower(), _strict(shape.model_json_schema()))
    await _with_one_repair(generation, replace(question, schema=schema), save_parsed)


async def _with_one_repair(generation: Generation, question: Question, save: Save) -> None:
    """Ask. An answer that does not fit is sent back once with the problem; then the generation fails."""
    try:
        await _answered(generation, question, save)
        return
    except NotFitting as problem:
        log.warning("coursegen.answer_not_fitting", step=question.step, item=question.item)
        messages = prompts.repair(question.messages, problem.answer, str(problem))
    try:
        await _answered(generation, replace(question, item=f"{question.item}:repair", messages=messages), save)
    except NotFitting as problem:
        raise GenerationFailed("invalid_output", f"{question.item}: {problem}") from None


class NotFitting(Exception):
    """The answer is empty, is not JSON, or does not fit its shape."""

    def __init__(self, problem: str, answer: str) -> None:
        super().__init__(problem)
        self.answer = answer


def _parse(shape: type[A], text: str) -> A:
    try:
        return shape.model_validate(orjson.loads(text))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise NotFitting(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}", text) from None
    except orjson.JSONDecodeError as error:
        raise NotFitting(f"not JSON: {error.msg}", text) from None


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without the keywords that strict mode refuses; pydantic checks those limits."""
    refused = {"title", "description", "minLength", "maxLength", "minItems", "maxItems"}
    properties = schema.get("properties")
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            kept[key] = {name: _strict(each) for name, each in value.items()}
        elif key == "items":
            kept[key] = _strict(value)
        elif key not in refused:
            kept[key] = value
    if properties is not None:
        kept["required"] = list(properties)
    return kept


# -- one answer, with tries ------------------------------------------------------------------------------------------


async def _answered(generation: Generation, question: Question, save: Save) -> None:
    tries = generation.settings.call_tries
    for number in range(1, tries + 1):
        call = await _begin(generation, question)
        started = time.monotonic()
        try:
            usage = await _stream(generation, question, call)
            await _paid(generation, question, call, usage, save)
            return
        except NotFitting:
            raise
        except ChatError as error:
            wait_s = await _failed(generation, question, call, error, last=number == tries)
        except BaseException as error:
            await _stopped(generation, question, call, error)
            raise
        finally:
            CALL_SECONDS.labels(str(question.step)).observe(time.monotonic() - started)
        await asyncio.sleep(min(wait_s, generation.seconds_left()))


async def _begin(generation: Generation, question: Question) -> _Call:
    """Record the call. Raises `GenerationFailed` if the rest of the budget or of the time does not allow it."""
    generation.seconds_left()
    client = await _client(generation)
    prompt_tokens = sum(model.estimated_tokens(message.content) for message in question.messages)
    prices = generation.prices
    async with generation.transaction() as tx:
        left = generation.course["budget_micros"] - await generation.spent_micros(tx)
        affordable = prices.affordable_tokens(left, prompt_tokens)
        if affordable < LEAST_TOKENS:
            raise GenerationFailed(
                "budget_exceeded", f"{left} micros are left, which is not enough for {question.item}"
            )
        max_tokens = min(affordable, generation.settings.max_output_tokens)
        call = _Call(uuid4(), client, prompt_tokens, max_tokens, prices.cost(prompt_tokens, max_tokens))
        await calls.start(
            tx,
            course_id=generation.course_id,
            attempt=generation.course["attempt"],
            job_id=generation.job.id,
            step=question.step,
            item=question.item,
            request_id=call.request_id,
            tier=generation.tier,
            model=client.model,
            reserved_micros=call.reserved_micros,
        )
    return call


async def _client(generation: Generation) -> OpenAI:
    try:
        return await app.services.openai(generation.job.organization)
    except NotSet as error:
        raise AccountRefused(str(error)) from None


async def _stream(generation: Generation, question: Question, call: _Call) -> Usage | None:
    """Read the answer and show it while it arrives. Return the tokens that it cost; None: the service did not say."""
    # A stream that ignores its limit must not run for ever, and must not cost more than was reserved.
    most_characters = call.max_tokens * 8 + 2000
    try:
        async with asyncio.timeout(min(generation.settings.call_timeout_s, generation.seconds_left())):
            async with call.client.stream(
                question.messages, schema=question.schema, max_tokens=call.max_tokens, key=str(call.request_id)
            ) as stream:
                async for piece in stream:
                    call.text += piece
                    if len(call.text) > most_characters:
                        raise ChatBroken("the answer is longer than its limit", text=call.text)
                    await _show(generation, question, call)
                completion = stream.completion
    except TimeoutError:
        generation.seconds_left()
        raise ChatBroken("the answer took too long", text=call.text) from None
    call.text = completion.text
    return completion.usage


async def _show(generation: Generation, question: Question, call: _Call) -> None:
    """Store the text so far, for the page, at most every `DRAFT_EVERY_S`. It also notices a cancelled course."""
    now = time.monotonic()
    if now - call.shown_at < DRAFT_EVERY_S:
        return
    call.shown_at = now
    async with generation.transaction() as tx:
        await courses.show_draft(
            tx,
            generation.course_id,
            step=question.step,
            item=question.item,
            title=question.title,
            text=call.text if question.schema is None else "",
        )


def _estimate(call: _Call) -> Usage:
    return Usage(call.prompt_tokens, model.estimated_tokens(call.text))


async def _paid(generation: Generation, question: Question, call: _Call, usage: Usage | None, save: Save) -> None:
    """Record a complete answer and save it, in one commit. An answer that does not fit is paid for too."""
    booking = _booked(generation, call, usage, _estimate(call))
    try:
        async with generation.transaction() as tx:
            await _finish(tx, generation, question, call, booking, "done")
            await save(tx, call.text)
            if generation.is_probe and await line.unpause(tx):
                line.admit_soon(tx)
                generation.is_probe = False
    except NotFitting:
        async with generation.transaction() as tx:
            await _finish(tx, generation, question, call, booking, "done", error="does not fit the schema")
        raise


@dataclass(frozen=True, slots=True)
class _Booking:
    """What a call is booked with. `is_estimate`: the service has not reported its tokens."""

    usage: Usage | None
    micros: int
    is_estimate: bool


NOTHING = _Booking(None, 0, False)


def _booked(generation: Generation, call: _Call, usage: Usage | None, estimate: Usage | None = None) -> _Booking:
    """Return what the service reported; else the estimate; else all that was reserved, which is the most it can be."""
    known = usage or estimate
    if known is None:
        return _Booking(None, call.reserved_micros, True)
    cost = generation.prices.cost(known.prompt_tokens, known.completion_tokens)
    return _Booking(known, cost, usage is None)


async def _finish(
    tx: Tx,
    generation: Generation,
    question: Question,
    call: _Call,
    booking: _Booking,
    state: str,
    *,
    error: str | None = None,
) -> None:
    await calls.finish(
        tx,
        call.request_id,
        state,
        prompt_tokens=None if booking.usage is None else booking.usage.prompt_tokens,
        completion_tokens=None if booking.usage is None else booking.usage.completion_tokens,
        cost_micros=booking.micros,
        estimated=booking.is_estimate,
        error=error,
    )

    def count() -> None:
        CALLS.labels(str(question.step), state).inc()
        COST.labels(generation.tier).inc(booking.micros)

    tx.after_commit(count)


# -- what did not work -----------------------------------------------------------------------------------------------


async def _failed(generation: Generation, question: Question, call: _Call, error: ChatError, *, last: bool) -> float:
    """Record a call that failed. Return how long to wait before the next try, or raise what ends this attempt."""
    # A service that answered with an error has written nothing. If it may have written something, as after a timeout,
    # the reservation is booked until the service says what the call cost.
    booking = NOTHING if _is_free(error) else _booked(generation, call, error.usage)
    async with generation.transaction() as tx:
        reason = f"{type(error).__name__}: {error.reason}"[:500]
        await _finish(tx, generation, question, call, booking, "failed", error=reason)
    log.warning("coursegen.call_failed", step=question.step, item=question.item, error=type(error).__name__)
    match error:
        case ModelRefused():
            raise GenerationFailed("content_refused", f"{question.item}: the model refused to answer") from None
        case ChatCut():
            if call.max_tokens < generation.settings.max_output_tokens:
                raise GenerationFailed("budget_exceeded", f"{question.item}: the budget ended in the answer") from None
            reason = f"{question.item}: the answer is longer than {call.max_tokens} tokens"
            raise GenerationFailed("invalid_output", reason) from None
        case ChatRejected(account=True):
            raise AccountRefused(f"{call.client.model}: {error.reason}") from None
        case ChatRejected():
            raise GenerationFailed("provider_refused", f"{question.item}: {error.reason}"[:500]) from None
        case ChatRateLimited():
            wait_s = error.retry_after_s
        case ChatUnavailable():
            wait_s = error.retry_after_s
        case _:
            wait_s = None
    wait_s = generation.settings.call_wait_s if wait_s is None else wait_s
    if last or wait_s > generation.settings.longest_wait_s:
        raise Retry(f"provider_unavailable: {question.item}: {error.reason}"[:500], after=max(wait_s, 1.0)) from None
    return wait_s


def _is_free(error: ChatError) -> bool:
    """Return whether the service refused the call before it wrote anything."""
    return isinstance(error, ChatRejected | ChatRateLimited | ChatUnavailable)


async def _stopped(generation: Generation, question: Question, call: _Call, error: BaseException) -> None:
    """Record a call that we ended ourselves: cancelled, out of time, or the course is gone. Best effort.

    If this is not written (another worker has the job, the database is away), the next attempt marks the call as lost.
    """
    if not isinstance(error, Exception | asyncio.CancelledError):
        return
    booking = _booked(generation, call, None)

    async def record() -> None:
        async with generation.job.transaction(fenced=True) as tx:
            await _finish(tx, generation, question, call, booking, "stopped", error=type(error).__name__)

    try:
        async with asyncio.timeout(5):
            await asyncio.shield(record())
    except Exception as failure:
        log.warning("coursegen.stop_not_recorded", item=question.item, error=type(failure).__name__)
