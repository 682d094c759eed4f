"""A live connection ends within seconds after its key, session or person has lost access, on every node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import pytest
from websockets.asyncio.client import connect

from onceward import Onceward, Query
from onceward.db import Database, Transaction
from onceward.live import authenticator
from onceward.trust import create_organization
from onceward.trust.keys import create_key, revoke_key
from onceward.trust.organizations import remove_member, set_disabled, set_member, set_second_factor_required
from onceward.trust.own_sessions import end_sessions
from onceward.trust.session_cookie import SESSION
from onceward.trust.sessions import open_session
from tests.live.conftest import Client, Site, Start

ANN = "ann@example.org"


class Holders:
    """An organization with a person in it, two sessions of that person, a key of theirs and a key of nobody."""

    organization: UUID
    person: UUID
    sessions: list[str]
    own_key: str
    free_key: str
    free_prefix: str

    async def build(self, db: Database) -> None:
        async with db.transaction(role="engine") as tx:
            self.organization = (await create_organization(tx, "acme", actor="test")).organization_id
            self.person = await set_member(tx, self.organization, ANN, "viewer", actor="test")
            self.sessions = [(await open_session(tx, self.person, method="link")).token for _ in range(2)]
            keys = [
                await create_key(tx, name=name, organization=self.organization, scopes=["viewer"], actor="test")
                for name in ("own", "free")
            ]
            self.own_key, self.free_key, self.free_prefix = keys[0].text, keys[1].text, keys[1].key.prefix
            update = "update onceward.api_keys set owner_id = $1 where prefix = $2"
            await tx.execute(update, self.person, keys[0].key.prefix)


@pytest.fixture
async def holders(shop: Database) -> Holders:
    made = Holders()
    await made.build(shop)
    return made


def app() -> Onceward:
    made = Onceward("guarded")

    @made.query
    async def staff(q: Query) -> str:
        return "for staff"

    return made


async def connected(here: Site, *, session: str | None = None, key: str | None = None) -> Client:
    headers = (
        {} if session is None else {"Cookie": f"{SESSION}={session}", "Origin": f"http://127.0.0.1:{here.web.port}"}
    )
    client = Client(await connect(here.address, compression=None, max_size=None, additional_headers=headers))
    await client.say("hello", token=key)
    id = await client.subscribe("staff")
    await client.until(lambda: client.results.get(id) == "for staff")
    return client


@pytest.fixture
async def everybody(site: Start, shop: Database, holders: Holders) -> AsyncIterator[dict[str, Client]]:
    """One client of each holder, on two nodes that check credentials every five minutes otherwise."""
    nodes = [await site(app(), authenticate=authenticator(shop)) for _ in range(2)]
    clients = {
        "first session": await connected(nodes[0], session=holders.sessions[0]),
        "second session": await connected(nodes[1], session=holders.sessions[1]),
        "own key": await connected(nodes[1], key=holders.own_key),
        "free key": await connected(nodes[0], key=holders.free_key),
        "free key elsewhere": await connected(nodes[1], key=holders.free_key),
    }
    yield clients
    for client in clients.values():
        await client.close()


Act = Callable[[Transaction, Holders], Awaitable[object]]
SESSIONS, OF_PERSON = {"first session", "second session"}, {"first session", "second session", "own key"}
ENDS: dict[str, tuple[Act, set[str]]] = {
    "a key is revoked": (
        lambda tx, of: revoke_key(tx, of.free_prefix, organization=of.organization, actor="test"),
        {"free key", "free key elsewhere"},
    ),
    "all sessions are ended": (lambda tx, of: end_sessions(tx, of.person, actor="test"), SESSIONS),
    "the person is disabled": (lambda tx, of: set_disabled(tx, ANN, disabled=True, actor="test"), OF_PERSON),
    "the person leaves": (lambda tx, of: remove_member(tx, of.organization, of.person, actor="test"), OF_PERSON),
    "a second factor is required": (
        lambda tx, of: set_second_factor_required(tx, of.organization, required=True, actor="test"),
        SESSIONS,
    ),
}


@pytest.mark.parametrize("reason", ENDS)
async def test_connections_of_who_lost_access_end_on_every_node_and_no_others(
    shop: Database, holders: Holders, everybody: dict[str, Client], reason: str
) -> None:
    act, ended = ENDS[reason]
    async with shop.transaction(role="engine") as tx:
        await act(tx, holders)
    for name in ended:
        client = everybody[name]
        await client.until(lambda client=client: client.closed_with == 4401, timeout_s=20)
    assert {name for name, client in everybody.items() if client.closed_with is not None} == ended


async def test_a_session_that_is_checked_again_stays_connected(site: Start, shop: Database, holders: Holders) -> None:
    here = await site(app(), authenticate=authenticator(shop))
    client = await connected(here, session=holders.sessions[0])
    here.node.endpoint.access_changed({("user", str(holders.person))})
    await here.node.endpoint.recheck_due()
    id = await client.subscribe("staff")
    await client.until(lambda: client.results.get(id) == "for staff")
    assert client.closed_with is None
    await client.close()


async def test_a_connection_that_was_idle_meanwhile_is_checked_when_it_is_used(
    site: Start, shop: Database, holders: Holders
) -> None:
    """Without a subscription the node does not read the feed, so it checks everybody when it reads again."""
    here = await site(app(), authenticate=authenticator(shop))
    idle = await Client.open(here.address, holders.free_key)
    await idle.until(lambda: idle.welcome is not None)
    async with shop.transaction(role="engine") as tx:
        await revoke_key(tx, holders.free_prefix, organization=holders.organization, actor="test")
    await idle.subscribe("staff")
    await idle.until(lambda: idle.closed_with == 4401, timeout_s=20)
