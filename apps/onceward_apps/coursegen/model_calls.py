"""Ask the language model, and record every call before it is made and when it has ended.

The result of a call and the record that it is paid are one commit, so a crash repeats at most the call in flight. If a
model refuses, is away or has no account, the next model of the step is asked. A text that reaches the limit of tokens
is
kept and continued by the next call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from onceward import Retry, Tx
from onceward.services import (
    ChatBroken,
    ChatCut,
    ChatError,
    ChatMessage,
    ChatModel,
    ChatRateLimited,
    ChatRejected,
    ChatUnavailable,
    JsonSchema,
    ModelRefused,
    NotSet,
    Usage,
)
from onceward.telemetry import get_logger
from onceward_apps.coursegen import booking, line, model, prompts
from onceward_apps.coursegen.answers import NotFitting, parse, schema_of
from onceward_apps.coursegen.app import app
from onceward_apps.coursegen.booking import NOTHING, Call, booked, finish
from onceward_apps.coursegen.errors import AccountRefused, GenerationFailed
from onceward_apps.coursegen.generation import Generation
from onceward_apps.coursegen.metrics import CALL_SECONDS, FALLBACKS
from onceward_apps.coursegen.models import ModelRef
from onceward_apps.coursegen.store import courses

DRAFT_EVERY_S = 0.7

A = TypeVar("A", bound=prompts.Answer)
Save = Callable[[Tx, str], Awaitable[None]]

log = get_logger("onceward_apps.coursegen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What one call is for. `title` is shown while the answer arrives.

    `written` is the beginning of the answer, from calls that reached the limit of tokens; `keep` stores it.
    """

    step: int
    item: str
    title: str
    messages: Sequence[ChatMessage]
    schema: JsonSchema | None = None
    written: str = ""
    keep: Save | None = None


class _Cut(Exception):
    """The text reached the limit of tokens. What was written is paid for and kept."""

    def __init__(self, text: str) -> None:
        super().__init__("the answer reached the limit of tokens")
        self.text = text


async def write(generation: Generation, question: Question, save: Save) -> None:
    """Ask for a text and save it in the commit that records the call."""
    await _by_any_model(generation, question, save)


async def fill_in(
    generation: Generation, question: Question, shape: type[A], save: Callable[[Tx, A], Awaitable[None]]
) -> None:
    """Ask for a structured answer and save it in the commit that records the call."""

    async def save_parsed(tx: Tx, text: str) -> None:
        await save(tx, parse(shape, text))

    await _by_any_model(generation, replace(question, schema=schema_of(shape)), save_parsed)


# -- which model -----------------------------------------------------------------------------------------------------


async def _by_any_model(generation: Generation, question: Question, save: Save) -> None:
    """Ask the models of the step in their order. Raises what ends the attempt if none of them answers."""
    failures: list[AccountRefused | Retry | GenerationFailed] = []
    # A model that was away or refused the account is asked last for the rest of this attempt.
    refs = sorted(generation.plan.models_of(question.step), key=lambda ref: ref.name in generation.troubled)
    for ref in refs:
        try:
            await _continued(generation, question, save, ref)
            return
        except (AccountRefused, Retry) as failure:
            generation.troubled.add(ref.name)
            failures.append(failure)
        except GenerationFailed as failure:
            if failure.code not in ("content_refused", "provider_refused", "invalid_output"):
                raise
            failures.append(failure)
        if len(refs) > 1:
            FALLBACKS.labels(str(question.step)).inc()
            log.warning("coursegen.model_gave_no_answer", step=question.step, item=question.item, model=ref.name)
    # Waiting may help if one of them was only away or without credit; a refusal alone is final.
    for kind in (Retry, AccountRefused):
        for failure in failures:
            if isinstance(failure, kind):
                raise failure
    raise failures[0]


async def _continued(generation: Generation, question: Question, save: Save, ref: ModelRef) -> None:
    """Ask until the text is complete. A text over the limit of tokens is continued, a few times."""
    written = question.written
    for part in range(generation.settings.most_parts):
        asked = question
        if written:
            messages = prompts.go_on(question.messages, written)
            asked = replace(question, item=f"{question.item}:part{part + 1}", messages=messages, written=written)
        try:
            await _with_one_repair(generation, asked, save, ref)
            return
        except _Cut as cut:
            written += cut.text
    reason = f"{question.item}: longer than {generation.settings.most_parts} answers of a model"
    raise GenerationFailed("invalid_output", reason)


async def _with_one_repair(generation: Generation, question: Question, save: Save, ref: ModelRef) -> None:
    """Ask. An answer that does not fit is sent back once with the problem."""
    try:
        await _answered(generation, question, save, ref)
        return
    except NotFitting as problem:
        log.warning("coursegen.answer_not_fitting", step=question.step, item=question.item)
        messages = prompts.repair(question.messages, problem.answer, str(problem))
    try:
        await _answered(generation, replace(question, item=f"{question.item}:repair", messages=messages), save, ref)
    except NotFitting as problem:
        raise GenerationFailed("invalid_output", f"{question.item}: {problem}") from None


# -- one answer, with tries ------------------------------------------------------------------------------------------


async def _answered(generation: Generation, question: Question, save: Save, ref: ModelRef) -> None:
    tries = generation.settings.call_tries
    for number in range(1, tries + 1):
        generation.seconds_left()
        client = await _client(generation, ref)
        tokens = sum(model.estimated_tokens(message.content) for message in question.messages)
        call = await booking.begin(
            generation, client, ref, step=question.step, item=question.item, prompt_tokens=tokens
        )
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


async def _client(generation: Generation, ref: ModelRef) -> ChatModel:
    try:
        return await app.services.get(ref.provider, generation.job.organization)
    except NotSet as error:
        raise AccountRefused(str(error)) from None


async def _stream(generation: Generation, question: Question, call: Call) -> Usage | None:
    """Read the answer and show it while it arrives. Return the tokens that it cost; None: the service did not say."""
    # A stream that ignores its limit must not run for ever, and must not cost more than was reserved.
    most_characters = call.max_tokens * 8 + 2000
    try:
        async with asyncio.timeout(min(generation.settings.call_timeout_s, generation.seconds_left())):
            async with call.client.stream(
                question.messages,
                model=call.ref.model,
                schema=question.schema,
                max_tokens=call.max_tokens,
                key=str(call.request_id),
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


async def _show(generation: Generation, question: Question, call: Call) -> None:
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
            text=question.written + call.text if question.schema is None else "",
        )


async def _paid(generation: Generation, question: Question, call: Call, usage: Usage | None, save: Save) -> None:
    """Record a complete answer and save it, in one commit. An answer that does not fit is paid for too."""
    made = booked(call, usage, booking.estimate(call))
    try:
        async with generation.transaction() as tx:
            await finish(tx, generation, question.step, call, made, "done")
            await save(tx, question.written + call.text)
            if generation.is_probe and await line.unpause(tx):
                line.admit_soon(tx)
                generation.is_probe = False
    except NotFitting:
        async with generation.transaction() as tx:
            await finish(tx, generation, question.step, call, made, "done", error="does not fit the schema")
        raise


# -- what did not work -----------------------------------------------------------------------------------------------


async def _failed(generation: Generation, question: Question, call: Call, error: ChatError, *, last: bool) -> float:
    """Record a call that failed. Return how long to wait before the next try, or raise what ends this attempt."""
    if isinstance(error, ChatCut):
        await _cut(generation, question, call, error)
    # A service that answered with an error has written nothing. If it may have written something, as after a timeout,
    # the reservation is booked until the service says what the call cost.
    made = NOTHING if _is_free(error) else booked(call, error.usage)
    async with generation.transaction() as tx:
        reason = f"{type(error).__name__}: {error.reason}"[:500]
        await finish(tx, generation, question.step, call, made, "failed", error=reason)
    log.warning("coursegen.call_failed", step=question.step, item=question.item, error=type(error).__name__)
    wait_s: float | None = None
    match error:
        case ModelRefused():
            raise GenerationFailed("content_refused", f"{question.item}: the model refused to answer") from None
        case ChatRejected(account=True):
            raise AccountRefused(f"{call.ref.provider}/{call.client.model}: {error.reason}") from None
        case ChatRejected():
            raise GenerationFailed("provider_refused", f"{question.item}: {error.reason}"[:500]) from None
        case ChatRateLimited() | ChatUnavailable():
            wait_s = error.retry_after_s
        case _:
            pass
    wait_s = generation.settings.call_wait_s if wait_s is None else wait_s
    if last or wait_s > generation.settings.longest_wait_s:
        raise Retry(f"provider_unavailable: {question.item}: {error.reason}"[:500], after=max(wait_s, 1.0)) from None
    return wait_s


async def _cut(generation: Generation, question: Question, call: Call, error: ChatCut) -> None:
    """Record an answer that reached the limit of tokens. A text is kept, in the same commit, and continued."""
    call.text = error.text
    made = booked(call, error.usage, booking.estimate(call))
    async with generation.transaction() as tx:
        await finish(tx, generation, question.step, call, made, "done", error="reached the limit of tokens")
        if question.keep is not None:
            await question.keep(tx, question.written + call.text)
    if call.limited_by is not None:
        raise GenerationFailed(call.limited_by, f"{question.item}: the money ended in the answer") from None
    if question.schema is not None:
        raise NotFitting(f"longer than {call.max_tokens} tokens: answer in fewer words", call.text) from None
    raise _Cut(call.text) from None


def _is_free(error: ChatError) -> bool:
    """Return whether the service refused the call before it wrote anything."""
    return isinstance(error, ChatRejected | ChatRateLimited | ChatUnavailable)


async def _stopped(generation: Generation, question: Question, call: Call, error: BaseException) -> None:
    """Record a call that we ended ourselves: cancelled, out of time, or the course is gone. Best effort.

    If this is not written (another worker has the job, the database is away), the next attempt marks the call as lost.
    """
    if not isinstance(error, Exception | asyncio.CancelledError):
        return
    made = booked(call, None)

    async def record() -> None:
        async with generation.job.transaction(fenced=True) as tx:
            await finish(tx, generation, question.step, call, made, "stopped", error=type(error).__name__)

    try:
        async with asyncio.timeout(5):
            await asyncio.shield(record())
    except Exception as failure:
        log.warning("coursegen.stop_not_recorded", item=question.item, error=type(failure).__name__)
