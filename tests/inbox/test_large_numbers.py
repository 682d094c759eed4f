"""Numbers that no double can hold are JSON, and jsonb holds them: such events are handled, not dead letters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward import Event, Onceward, Tx, exact_json
from onceward.testing import drain
from onceward.web.dashboard.formats import pretty
from tests.inbox.conftest import Office, office

__all__ = ["office"]

MakeOffice = Callable[[Onceward], Awaitable[Office]]
DIGITS = "1234567890" * 40
NUMBERS = ["1e309", "-2.5e400", DIGITS, f"{DIGITS}.25", DIGITS * 12]


def shop(seen: list[object]) -> Onceward:
    app = Onceward("large_numbers")

    @app.on("stripe", "t")
    async def handle(event: Event, tx: Tx) -> None:
        seen.append(event.payload["x"])
        await tx.execute("insert into kept values ($1, $2)", event.event_id, event.payload)

    @app.on("whatsapp", "message.text")
    async def read(event: Event, tx: Tx) -> None:
        seen.append(event.payload["message"]["x"])

    return app


@pytest.mark.parametrize("mode", ["ack", "inline"])
async def test_numbers_beyond_a_double_are_stored_with_all_digits_and_handled(office: MakeOffice, mode: str) -> None:
    seen: list[object] = []
    here = await office(shop(seen))
    await here.db.execute("create table kept (event text, payload jsonb); grant all on kept to onceward_app")
    await here.source(mode=mode)
    for n, number in enumerate(NUMBERS):
        reply = await here.send(b'{"id":"e%d","type":"t","x":%b}' % (n, number.encode()))
        assert reply.status == 200, number
    await drain(here.engine)
    assert [Decimal(str(x)) if isinstance(x, int) and x < 10**4000 else x for x in seen] == [
        Decimal(number) for number in NUMBERS
    ]
    for payload, table in (("onceward.payload_of(t)", "onceward.webhook_events"), ("payload", "kept")):
        statement = f"select ({payload} -> 'x')::numeric = any($1::numeric[]) as same from {table} t"
        rows = await here.db.fetch(statement, seen)
        assert [row["same"] for row in rows] == [True] * len(NUMBERS), table
    assert await here.db.fetchval("select count(*) from onceward.webhook_events where status = 'success'") == 5
    assert pretty(
        await here.db.fetchval("select onceward.payload_of(e) from onceward.webhook_events e where event_id = 'e0'")
    )


async def test_a_large_number_in_one_message_of_a_batch_is_kept(office: MakeOffice) -> None:
    seen: list[object] = []
    here = await office(shop(seen))
    await here.source("whatsapp")
    message = {"from": "49151", "id": "wamid.1", "type": "text", "x": "NUMBER"}
    value = {"messages": [message, {**message, "id": "wamid.2", "x": 7}]}
    body = orjson.dumps({"entry": [{"id": "1", "changes": [{"field": "messages", "value": value}]}]})
    assert (await here.send(body.replace(b'"NUMBER"', DIGITS.encode()), name="whatsapp")).status == 200
    await drain(here.engine)
    assert sorted(seen, key=str) == [int(DIGITS), 7]


@pytest.mark.parametrize("mode", ["ack", "inline"])
async def test_a_number_that_not_even_jsonb_holds_is_a_dead_letter_with_its_bytes(
    office: MakeOffice, mode: str
) -> None:
    here = await office(shop([]))
    await here.source(mode=mode)
    for n, number in enumerate(
        (b"1e200000", b"1e99999999999999999999", b"1" * 140_000, b"0e-16400", b"0." + b"1" * 17_000)
    ):
        body = b'{"id":"e%d","type":"t","x":%b}' % (n, number)
        reply = await here.send(body)
        assert reply.status == 200
        row = await here.event(reply.json["id"])
        assert (row["status"], row["payload"], row["raw"]) == ("dead_letter", None, body)


@given(
    st.recursive(
        st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=3) | st.text() | st.booleans(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )
)
def test_what_is_written_is_read_again(value: object) -> None:
    assert exact_json.loads(exact_json.dumps({"v": value})) == {"v": _as_read(value)}


def _as_read(value: object) -> object:
    """Numbers come back as the narrowest type that the reader chooses for the same digits."""
    if isinstance(value, Decimal):
        return exact_json.loads(f"{value:f}")
    if isinstance(value, int) and not isinstance(value, bool):
        return exact_json.loads(str(value))
    if isinstance(value, list):
        return [_as_read(each) for each in value]
    if isinstance(value, dict):
        return {name: _as_read(each) for name, each in value.items()}
    return value


def test_a_type_that_json_lacks_is_an_error_unless_an_encoder_is_given() -> None:
    with pytest.raises(TypeError):
        exact_json.dumps({"a": object()})
    with pytest.raises(TypeError):
        exact_json.dumps({"a": 10**400, "b": object()})
    assert exact_json.dumps({"a": 10**30, "b": {1}}, default=sorted) == '{"a":' + str(10**30) + ',"b":[1]}'
