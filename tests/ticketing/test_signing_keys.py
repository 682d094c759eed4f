"""The key that signs tickets and orders: encrypted at rest, one for each organization, rotated without new tickets."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any
from uuid import UUID

import pytest

from onceward import Engine
from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.trust import SecretBox, UnknownSecretKey
from onceward.trust.checks import check_secrets_can_be_opened
from onceward.trust.secrets import rotate
from onceward_apps.ticketing.app import SIGNING_KEY, app
from onceward_apps.ticketing.codes import is_order_token, order_token, qr_payload, read_presented
from onceward_apps.ticketing.scans import Request, scan
from onceward_apps.ticketing.store import keys, views
from tests.dumps import dump
from tests.queries import WAITS_FOR_LOCK
from tests.ticketing.office import BOX, Office, Show

OTHER = SecretBox(["another key of the tests, also long enough"])
NEW = "a newer key of the tests, which is long enough"
OLD = "a key of the tests, which is long enough"
SEALED = "select key from ticketing.signing_keys"


def with_keys(office: Office, box: SecretBox) -> Engine:
    return Engine(office.db, app.registry, event_types=app.event_types, box=box)


async def key_of(engine: Engine, organization: UUID) -> bytes:
    async with engine.transaction(organization=organization) as tx:
        return await keys.signing_key(tx)


async def sold(office: Office) -> tuple[Show, Any, Any]:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    assert (await office.pay(checkout)).status == 200
    await office.drain()
    [ticket] = await office.tickets(checkout)
    return show, checkout, ticket


async def test_no_dump_of_the_database_contains_the_key(office: Office) -> None:
    show, _, _ = await sold(office)
    key = await key_of(office.engine, show.organization)
    sealed = await office.db.fetchval(SEALED)
    assert (len(key), BOX.open(sealed, table="ticketing.signing_keys", row=show.organization, column="key")) == (
        32,
        key,
    )
    text = await dump(office.db)
    assert sealed.hex() in text  # the dump shows what it finds
    for form in (key.hex(), b64encode(key).decode().rstrip("="), key.decode("latin-1")):
        assert form not in text


async def test_a_rotated_key_signs_the_same_orders_and_tickets(office: Office) -> None:
    show, checkout, ticket = await sold(office)
    key, before = await key_of(office.engine, show.organization), await office.db.fetchval(SEALED)
    token = await office.db.fetchval("select data ->> 'order_url' from onceward.messages")
    columns = FEATURES.plus(app.features()).sealed
    assert await rotate(office.db, SecretBox([NEW, OLD]), columns) >= 1
    assert await office.db.fetchval(SEALED) != before
    newest = with_keys(office, SecretBox([NEW]))
    async with newest.transaction(organization=show.organization) as tx:
        order = await views.order(tx, checkout["id"])
        assert is_order_token(keys.key_of(newest, order), checkout["id"], 1, token.partition("access=")[2])
        payload = qr_payload(key, show.id, ticket["ticket_code"])
        request = Request(scan_id=ticket["id"], presented=payload)
        assert (await scan(tx, show.id, request, by="test")).outcome == "admitted"
    async with office.db.acquire() as conn:
        assert await check_secrets_can_be_opened(SecretBox([NEW]), app.features()[0].sealed).run(conn) == []


async def test_a_process_with_a_wrong_key_sells_nothing_and_loses_nothing(office: Office, db: Database) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    before = await office.db.fetchval(SEALED)
    wrong = with_keys(office, OTHER)
    with pytest.raises(UnknownSecretKey, match=r"ticketing\.signing_keys\.key .*ONCEWARD_SECRET_KEY"):
        await key_of(wrong, show.organization)
    fitting = office.engine.sealed_columns
    office.engine.sealed_columns = wrong.sealed_columns
    answer = await office.pay(checkout, id="ch_1", event_id="evt_1")
    assert answer.status >= 500
    assert await office.tickets(checkout) == []
    assert await office.db.fetchval(SEALED) == before
    office.engine.sealed_columns = fitting  # the operator sets the right key, and the payment service repeats
    await office.later(hours=1)
    await office.pay(checkout, id="ch_1", event_id="evt_1")
    await office.drain()
    assert len(await office.tickets(checkout)) == 1


async def test_two_processes_that_create_the_first_key_end_with_one(office: Office) -> None:
    organization = await office.organization()
    first, second = with_keys(office, BOX), with_keys(office, SecretBox([OLD]))
    async with first.transaction(organization=organization) as tx:
        made = await keys.signing_key(tx)
        waiting = asyncio.create_task(key_of(second, organization))
        while not await office.db.fetchval(WAITS_FOR_LOCK):
            assert not waiting.done()
            await asyncio.sleep(0.01)
    assert await waiting == made
    assert await office.db.fetchval("select count(*) from ticketing.signing_keys") == 1


async def test_many_first_uses_at_the_same_moment_get_one_key(office: Office) -> None:
    organization = await office.organization()
    engines = [with_keys(office, SecretBox([OLD])) for _ in range(8)]
    found = await asyncio.gather(*(key_of(engine, organization) for engine in engines))
    assert len(set(found)) == 1
    sealed = await office.db.fetchval(SEALED)
    assert office.engine.unseal(SIGNING_KEY, sealed, row=organization) == found[0]


async def test_a_rotation_keeps_tickets_and_order_links_that_were_signed_before(office: Office) -> None:
    show, checkout, ticket = await sold(office)
    old = await key_of(office.engine, show.organization)
    payload, token = qr_payload(old, show.id, ticket["ticket_code"]), order_token(old, checkout, 1)
    async with office.engine.transaction(organization=show.organization) as tx:
        assert await keys.rotate_signing_key(tx, actor="test") == 2
    ring = await key_of(office.engine, show.organization)
    assert (ring[32:], len(ring)) == (old, 64)
    assert qr_payload(ring, show.id, ticket["ticket_code"]) != payload
    for signed in (payload, qr_payload(ring, show.id, ticket["ticket_code"])):
        read = read_presented(ring, show.id, signed)
        assert read is not None
        assert read.genuine
    assert is_order_token(ring, checkout, 1, token)
    assert is_order_token(ring, checkout, 1, order_token(ring, checkout, 1))
    assert not is_order_token(ring, checkout, 2, token)
    assert not is_order_token(bytes(32), checkout, 1, token)
    forged = read_presented(ring, show.id, qr_payload(bytes(32), show.id, ticket["ticket_code"]))
    assert forged is not None
    assert not forged.genuine
