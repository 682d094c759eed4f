"""A result for many clients is encoded once, and each client still gets the frame that follows its own last version."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from websockets.frames import Frame, Opcode

from onceward.db import Database
from onceward.live import outgoing_text
from onceward.live.outgoing_text import OutgoingText
from tests.live.conftest import Open, Start
from tests.live.test_queries import add_seat, holds, shop_app


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536])
def test_a_frame_has_the_bytes_of_the_websocket_library(size: int) -> None:
    text = ("é" + "x" * size)[: max(size - 1, 0)]
    assert OutgoingText(text).frame == Frame(Opcode.TEXT, text.encode()).serialize(mask=False)


async def test_subscribers_of_one_group_share_one_encoded_frame(
    site: Start, client: Open, shop: Database, organization: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, event = await site(shop_app()), uuid4()
    clients = [await client(here, organization) for _ in range(8)]
    for number, each in enumerate(clients):
        if number >= 6:
            await each.subscribe("nothing")  # so the ids of these clients differ
        id = await each.subscribe("occupancy", event_id=str(event))
        await holds(each, id, {"seats": 0, "sold": 0})
    encoded: list[int] = []
    head: Any = outgoing_text._head  # pyright: ignore[reportPrivateUsage]

    def count(size: int) -> bytes:
        encoded.append(size)
        return head(size)

    monkeypatch.setattr(outgoing_text, "_head", count)
    for seats in (1, 2):
        # Before the first change each client has the version of its own subscription; after it all have the same.
        encoded.clear()
        await add_seat(shop, organization, event)
        for each in clients:
            await each.until(lambda each=each, seats=seats: {"seats": seats, "sold": 0} in each.results.values())
    assert len(encoded) == 2, "one frame for each id that clients gave their subscription"
    assert len({each.version for each in clients}) == 1, "each frame continued the version of its client"
    assert not here.node.hub.frames._shared  # pyright: ignore[reportPrivateUsage]


async def test_a_client_that_gets_behind_is_sent_the_newest_result_from_its_own_version(
    site: Start, client: Open, shop: Database, organization: UUID
) -> None:
    here, event = await site(shop_app()), uuid4()
    ids: list[int] = []
    ada = await client(here, organization)
    await ada.until(lambda: ada.welcome is not None)
    [slow] = here.node.hub.connections
    bob = await client(here, organization)
    for each in (ada, bob):
        ids.append(await each.subscribe("occupancy", event_id=str(event)))
        await holds(each, ids[-1], {"seats": 0, "sold": 0})
    write: Any = slow._write  # pyright: ignore[reportPrivateUsage]
    assert write.__self__.transport.get_write_buffer_limits() == (0, 0), "a frame waits until the one before it is sent"
    write.__self__.pause_writing()  # as the transport does when the network accepts no more
    await add_seat(shop, organization, event)
    for seats in (2, 3):
        await holds(bob, ids[1], {"seats": seats - 1, "sold": 0})
        await add_seat(shop, organization, event)
    await holds(bob, ids[1], {"seats": 3, "sold": 0})
    assert slow.dirty, "the last result waits, without a frame of its own"
    write.__self__.resume_writing()
    await holds(ada, ids[0], {"seats": 3, "sold": 0})
    assert len(ada.frames) <= 3, "the client got the frame that waited and the newest result"
