"""What calls to a model are booked with, and how much a call may cost at most."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid4

from onceward import Tx
from onceward.services import ChatModel, Usage
from onceward_apps.coursegen import model
from onceward_apps.coursegen.errors import GenerationFailed
from onceward_apps.coursegen.generation import Generation
from onceward_apps.coursegen.metrics import CALLS, COST
from onceward_apps.coursegen.models import ModelRef
from onceward_apps.coursegen.store import calls, costs

LEAST_TOKENS = 64
"""A call that can afford fewer output tokens is not made: its answer would be cut."""


@dataclass(slots=True)
class Call:
    """A call that was recorded and is being made."""

    request_id: UUID
    client: ChatModel
    ref: ModelRef
    prices: model.Prices
    prompt_tokens: int
    max_tokens: int
    reserved_micros: int
    limited_by: model.ErrorCode | None
    """What leaves fewer tokens than an answer may have: the budget of the course, or a cap of the month."""
    text: str = ""
    shown_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Booking:
    """What a call is booked with. `is_estimate`: the service has not reported its tokens."""

    usage: Usage | None
    micros: int
    is_estimate: bool


NOTHING = Booking(None, 0, False)


async def begin(
    generation: Generation, client: ChatModel, ref: ModelRef, *, step: int, item: str, prompt_tokens: int
) -> Call:
    """Record a call before it is made. Raises `GenerationFailed` if the budget or a monthly cap does not allow it."""
    name = f"{ref.provider}/{ref.model or client.model}"
    prices = generation.plan.prices_of(ref.name, name)
    async with generation.transaction() as tx:
        left = generation.course["budget_micros"] - await generation.spent_micros(tx)
        code: model.ErrorCode = "budget_exceeded"
        if generation.plan.has_caps:
            await costs.lock(tx)
            cap_left = await costs.left(tx, generation.plan, generation.course["user_id"])
            if cap_left is not None and cap_left < left:
                left, code = cap_left, "monthly_cap"
        affordable = prices.affordable_tokens(left, prompt_tokens)
        if affordable < LEAST_TOKENS:
            raise GenerationFailed(code, f"{left} micros are left, which is not enough for {item}")
        max_tokens = min(affordable, generation.settings.max_output_tokens)
        reserved = prices.cost(prompt_tokens, max_tokens)
        limited_by = code if affordable < generation.settings.max_output_tokens else None
        call = Call(uuid4(), client, ref, prices, prompt_tokens, max_tokens, reserved, limited_by)
        await calls.start(
            tx,
            course_id=generation.course_id,
            user_id=generation.course["user_id"],
            attempt=generation.course["attempt"],
            job_id=generation.job.id,
            step=step,
            item=item,
            request_id=call.request_id,
            tier=generation.tier,
            model=name,
            reserved_micros=reserved,
        )
    return call


def booked(call: Call, usage: Usage | None, estimate: Usage | None = None) -> Booking:
    """Return what the service reported; else the estimate; else all that was reserved, which is the most it can be."""
    known = usage or estimate
    if known is None:
        return Booking(None, call.reserved_micros, True)
    return Booking(known, call.prices.cost(known.prompt_tokens, known.completion_tokens), usage is None)


def estimate(call: Call) -> Usage:
    return Usage(call.prompt_tokens, model.estimated_tokens(call.text))


async def finish(
    tx: Tx,
    generation: Generation,
    step: int,
    call: Call,
    booking: Booking,
    state: str,
    *,
    error: str | None = None,
) -> None:
    """Record how a call ended, and what it cost."""
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
        CALLS.labels(str(step), state).inc()
        COST.labels(generation.tier).inc(booking.micros / 1_000_000)

    tx.after_commit(count)
