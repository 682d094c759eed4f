"""Hostile text, through every place where text from outside is stored.

Each place either stores it, with what PostgreSQL cannot hold replaced by U+FFFD, or refuses it with an error of ours that
says what is wrong. PostgreSQL never sees a value that it refuses.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from onceward import Engine, Onceward
from onceward.db import Database, clean_json, json_contains_nul
from onceward.inbox.headers import Headers, as_json, kept, kept_names
from onceward.messages import Template
from onceward.messages.message_queue import Sending, queue
from onceward.outbox.deliver import DeliveryFailed
from onceward.outbox.errors import OutboxError
from onceward.outbox.publishing import publish
from onceward.outbox.report import AttemptReport
from onceward.trust import create_organization
from onceward.trust.errors import TrustError
from onceward.work.attempt_outcome import DeadLetterOutcome, SuccessOutcome
from onceward.work.claim import claim, new_lease
from onceward.work.leases import Leases
from onceward.work.settle import Acknowledger, describe, final_statement, settle

app = Onceward("hostile")


@app.job
async def job(*, value: Any) -> None: ...


CORPUS = [
    "a\x00b",
    "literal \\u0000 and \\\\u0000 and \\ud800",
    "\\" * 5 + "\x00",
    "\\" * 4 + "u0000",
    "half \ud800 pair",
    "\udfff\ud800",
    "\u202eright to left\u202c שלום",
    "👩‍👩‍👧 \U0001f9fe \U0010ffff",
    "'; drop table x; -- $$ $1 %s {{7*7}}",
    "\r\nset-cookie: x\r\n",
    "\ufeff\ufffe\uffff\x7f\x1b[31m",
    "x" * (1 << 20),
]
texts = st.one_of(st.sampled_from(CORPUS[:-1]), st.text(st.characters(exclude_categories=()), max_size=30))
numbers = st.one_of(
    st.integers(-(10**40), 10**40), st.floats(), st.sampled_from([2**53 + 1, 2**63, 2**64, -(2**63) - 1])
)
values = st.recursive(
    st.one_of(texts, numbers, st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


def cleaned(value: Any) -> Any:
    """What is to be found in the database, worked out without the code under test."""
    match value:
        case str():
            return "".join("\ufffd" if c == "\x00" or 0xD800 <= ord(c) <= 0xDFFF else c for c in value)
        case dict():
            return {cleaned(key): cleaned(each) for key, each in value.items()}
        case list():
            return [cleaned(each) for each in value]
        case float():
            # By the digits that are sent: jsonb keeps those, and reads 4.1e+16 as a whole number.
            return Decimal(repr(value)) if math.isfinite(value) else None
        case bool() | None:
            return value
        case int():
            return Decimal(value)
        case _:
            return value


REFUSED = (TypeError, ValueError, OutboxError, TrustError)


async def stored_or_refused(place: Callable[[], Awaitable[Any]]) -> None:
    """An error must be one of ours; the driver's UnicodeError is not, though it is a ValueError."""
    refusal: Exception | None = None
    try:
        await place()
    except REFUSED as error:
        refusal = error
    if refusal is not None:
        assert not isinstance(refusal, UnicodeError), repr(refusal)
        said = str(refusal).lower()
        assert any(word in said for word in ("nul", "surrogate", "json", "unicode")), said


async def enqueued(db: Database, count: int) -> list[Any]:
    engine = Engine(db, app.registry)
    async with engine.transaction() as tx:
        await tx.enqueue_many([job.call(value=1)] * count)
    async with db.acquire() as conn:
        return (await claim(conn, queue="default", tasks=["job"], most=count, lease=new_lease(), worker=1)).work


async def attempt(db: Database, id: int, column: str) -> Any:
    return read(await db.fetchval(f"select {column}::text from onceward.attempts where work_id = $1", id))


def read(text: str) -> Any:
    """JSON with all digits of its numbers."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


def hostile(**strategies: Any) -> Callable[[Any], Any]:
    def decorate(test: Any) -> Any:
        checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
        return settings(max_examples=12, suppress_health_check=checks)(given(**strategies)(test))

    return decorate


@hostile(value=values)
@example(value=CORPUS[:-1])
@example(value={text: text for text in CORPUS[:-1]})
async def test_results_are_stored_whichever_way_they_are_acknowledged(db: Database, value: Any) -> None:
    alone, in_commit, together = await enqueued(db, 3)
    async with db.acquire() as conn:
        assert await settle(conn, alone, 1, SuccessOutcome({"v": value}))
    async with db.transaction(role="engine") as tx:
        await tx.execute(final_statement(in_commit, 1, {"v": value}))
    acks = Acknowledger(db, 1, Leases())
    acks.add(together, {"v": value})
    async with asyncio.timeout(20):
        await acks.close()
    for each in (alone, in_commit, together):
        assert await attempt(db, each.id, "result") == {"v": cleaned(value)}


@hostile(text=texts, value=values)
@example(text=CORPUS[-1], value=CORPUS[-1])
@example(text="".join(CORPUS[:-1]), value=CORPUS[:-1])
async def test_errors_and_answers_of_services_are_stored(db: Database, text: str, value: Any) -> None:
    failed, undelivered = await enqueued(db, 2)
    async with db.acquire() as conn:
        assert await settle(conn, failed, 1, DeadLetterOutcome("permanent", describe(RuntimeError(text))))
        answer = DeliveryFailed(text, 1.0, AttemptReport(status=500))
        answer.details["response"] = value
        assert await settle(conn, undelivered, 1, DeadLetterOutcome("permanent", describe(answer)))
    assert (await attempt(db, failed.id, "error"))["message"] == cleaned(text)[:4000]
    error = await attempt(db, undelivered.id, "error")
    if len(repr(value)) < 1 << 15:
        assert error["response"] == cleaned(value)
    else:
        assert "more than" in error["not_kept"]


@hostile(raw=st.binary(max_size=60))
@example(raw="a\x00b\ud800 שלום 👩".encode("utf-8", "surrogatepass"))
async def test_headers_are_stored(db: Database, raw: bytes) -> None:
    arrived = Headers([(b"user-agent", raw), (b"content-type", b"application/json")])
    text = as_json(kept(arrived, kept_names("generic")))
    found = await db.fetchval("select $1::text::jsonb", text)
    assert found["content-type"] == "application/json"


@hostile(text=texts, value=values)
@example(text="".join(CORPUS[:-1]), value=CORPUS[:-1])
async def test_the_data_of_messages_are_stored(db: Database, text: str, value: Any) -> None:
    template = Template("hostile", {"en": {"subject": "x", "text": "x"}})
    key = str(await db.fetchval("select nextval('onceward.ids')"))
    async with db.transaction(role="engine") as tx:
        [sent] = await queue(tx, template, [Sending(to="guest@example.org", key=key, data={"v": value})])
    found = await db.fetchval("select data::text from onceward.messages where id = $1", sent.id)
    assert read(found) == {"v": cleaned(value)}
    async with db.transaction(role="engine") as tx:
        await stored_or_refused(lambda: queue(tx, template, [Sending(to="guest@example.org", key=f"{key}{text}")]))
        await tx.execute("select 1")  # the transaction has not failed


@hostile(text=texts, value=values)
@example(text="a\x00b", value="a\x00b")
@example(text="literal \\u0000", value="literal \\u0000")
async def test_what_callers_give_is_stored_or_refused_by_name(db: Database, text: str, value: Any) -> None:
    engine = Engine(db, app.registry)
    slug = "o" + str(await db.fetchval("select nextval('onceward.ids')"))

    def places(tx: Any) -> list[Callable[[], Awaitable[Any]]]:
        return [
            lambda: tx.enqueue(job, value=value),
            lambda: tx.enqueue(job.unique(f"k{text}"), value=1),
            lambda: tx.enqueue(job.in_order(f"k{text}").tagged(text), value=1),
            lambda: tx.enqueue(job.in_queue(f"q{text}"), value=1),
            lambda: publish(tx, "order.paid", {"v": value}, key=f"k{text}", channels=[f"c{text}"]),
            lambda: tx.broadcast(f"t{text}", {"v": value}),
        ]

    async with engine.transaction() as tx:
        for place in places(tx):
            await stored_or_refused(_made(place))
            await tx.execute("select 1")  # the transaction has not failed
    async with db.transaction(role="engine") as own:
        await stored_or_refused(lambda: create_organization(own, slug, name=f"n{text}", actor="operator:test"))
        await own.execute("select 1")


def _made(place: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    """Orders are checked when they are made, before there is anything to await."""

    async def call() -> Any:
        return await place()

    return call


@given(value=values)
@settings(max_examples=200)
def test_clean_json_is_json_without_nul_and_keeps_the_rest(value: Any) -> None:
    text = clean_json(value)
    assert not json_contains_nul(text)
    assert read(text) == cleaned(value)


@pytest.mark.parametrize(
    ("text", "contains"), [("\x00", True), ("\\u0000", False), ("\\\x00", True), ("\\\\u0000", False), ("u0000", False)]
)
def test_a_nul_is_distinguished_from_text_that_looks_like_its_escape(text: str, contains: bool) -> None:
    assert json_contains_nul(json.dumps(text)) is contains
    assert json_contains_nul(json.dumps({text: [text]})) is contains


def test_arguments_may_contain_the_literal_text_of_an_escape() -> None:
    assert json.loads(job.dump({"value": "\\u0000"})) == {"value": "\\u0000"}
    with pytest.raises(ValueError, match="NUL"):
        job.dump({"value": "\x00"})


async def test_a_result_of_a_mebibyte_is_replaced_by_a_note(db: Database) -> None:
    [work] = await enqueued(db, 1)
    async with db.acquire() as conn:
        assert await settle(conn, work, 1, SuccessOutcome(CORPUS[-1]))
    assert "more than 65536" in (await attempt(db, work.id, "result"))["not_kept"]
