"""Random steps against real nodes; what each client holds must always become what a fresh query says.

Run it for longer than the test does: `python -m tests.live.oracle --steps 10000 --seed 7`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from onceward import Engine
from onceward.db import Connection, Database
from onceward.live.query_run import to_json
from onceward.work import AppRegistry
from tests.child import ROOT, command, end_all
from tests.live.conftest import SCHEMA, Client

MORE = """
select onceward.watch('shop.seats', key => 'status');
create table shop.picked (organization_id uuid primary key, event_id uuid);
select onceward.protect('shop.picked');
select onceward.watch('shop.picked');
"""
ORGANIZATIONS = [UUID(int=n) for n in (1, 2)]
EVENTS = [UUID(int=n) for n in (11, 12, 13, 14)]
STATUSES = ["free", "held", "sold"]
TOPICS = ["topic/1", "topic/2"]

FRESH: dict[str, str] = {
    "by_event": "select id, label, status from shop.seats where organization_id = $1 and event_id = $2 order by id",
    "counts": "select event_id::text, count(*), min(label) as label from shop.seats"
    " where organization_id = $1 group by 1 order by 1",
    "sold_of": "select coalesce(array_agg(id order by id), '{}') as value from shop.seats"
    " where organization_id = $1 and event_id = $2 and status = $3",
    "follows_data": "select case when p.event_id is not null then"
    " (select count(*) from shop.seats s where s.organization_id = $1 and s.event_id = p.event_id) end as value"
    " from (select 1) one left join shop.picked p on p.organization_id = $1",
}


@dataclass
class Node:
    """A node process."""

    process: asyncio.subprocess.Process
    port: int


@dataclass
class Held:
    """What a client wants, and still has after its connection is gone."""

    organization: UUID
    query: str = ""
    arguments: dict[str, str] = field(default_factory=dict)
    topic: str = ""
    hash: str | None = None
    data: Any = None
    got: list[int] = field(default_factory=list)
    since: str | None = None
    expected_from: int = 0


class Person:
    """A client that comes back after it was cut off, as the JavaScript one does."""

    def __init__(self, organization: UUID, name: str) -> None:
        self.organization = organization
        self.name = name
        self.held: list[Held] = []
        self.client: Client | None = None
        self.ids: dict[int, Held] = {}

    async def connect(self, port: int) -> None:
        self.client = await Client.open(f"ws://127.0.0.1:{port}/live", f"{self.organization}/{self.name}/user")
        self.ids = {}
        for each in self.held:
            await self.ask(each)

    async def ask(self, held: Held) -> None:
        assert self.client is not None
        if held.topic:
            self.ids[await self.client.follow(held.topic, since=held.since, last=0)] = held
        else:
            self.ids[await self.client.subscribe(held.query, hash=held.hash, **held.arguments)] = held

    def collect(self) -> None:
        """Take over what the connection has brought."""
        client = self.client
        if client is None:
            return
        for id, held in self.ids.items():
            if id in client.results:
                held.data, held.hash = client.results[id], client.hashes[id]
            if id in client.messages:
                held.got += client.messages.pop(id)
                held.since = client.topic_versions[id]

    async def disconnect(self) -> None:
        if self.client is not None:
            client = self.client
            client.socket.transport.abort()
            with contextlib.suppress(Exception):
                await client.close()
            self.collect()
            self.client = None

    @property
    def cut_off(self) -> bool:
        return self.client is None or self.client.closed_with is not None or self.client.socket.close_code is not None


class Oracle:
    """The world: a database, nodes, people, and transactions in progress."""

    def __init__(self, url: str, seed: int, *, nodes: int = 2, people: int = 6) -> None:
        self.url = url
        self.rng = random.Random(seed)
        self.wanted_nodes = nodes
        self.nodes: list[Node] = []
        self.people = [Person(self.rng.choice(ORGANIZATIONS), f"p{n}") for n in range(people)]
        self.long: list[tuple[Connection, Any, list[tuple[str, UUID, int]]]] = []
        self.said: dict[tuple[UUID, str], list[int]] = {}
        self.counter = 0
        self.checks = 0
        self.steps: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (30, self.write_alone),
            (15, self.write_by_engine),
            (8, self.begin_long),
            (10, self.write_long),
            (8, self.end_long),
            (4, self.want),
            (3, self.drop_wish),
            (5, self.cut_connection),
            (2, self.cut_sessions),
            (1, self.truncate),
            (1, self.kill_node),
            (3, self.trim),
            (12, self.check),
        ]

    async def start(self) -> None:
        self.db = await Database.open(self.url, min_size=1, max_size=8)
        self.psql = await self.db.connect(application_name="psql")
        await self.psql.execute(SCHEMA + MORE)
        self.engine = Engine(self.db, AppRegistry())
        self.engine.wakes_live = True
        await self.engine.start()
        for _ in range(self.wanted_nodes):
            await self.start_node()
        for person in self.people:
            for _ in range(2):
                await self.add_wish(person)
            await person.connect(self.rng.choice(self.nodes).port)

    async def stop(self) -> None:
        for person in self.people:
            await person.disconnect()
        for node in self.nodes:
            node.process.kill()
            await node.process.wait()
        for conn, _, _ in self.long:
            await conn.close()
        await self.engine.stop()
        await self.psql.close()
        await self.db.close()

    async def run(self, steps: int) -> None:
        weights = [weight for weight, _ in self.steps]
        for _ in range(steps):
            [(_, step)] = self.rng.choices(self.steps, weights)
            await step()
        while self.long:
            await self.end_long()
        await self.check()

    # -- nodes ------------------------------------------------------------------------------------------------------

    async def start_node(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *command("tests.live.oracle_node", self.url),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=ROOT,
        )
        node = Node(process, 0)
        self.nodes.append(node)
        assert process.stdout is not None
        async for line in process.stdout:
            if line.strip().isdigit():
                node.port = int(line)
                break

    async def kill_node(self) -> None:
        node = self.nodes.pop(self.rng.randrange(len(self.nodes)))
        node.process.kill()
        await node.process.wait()
        await self.start_node()

    async def cut_sessions(self) -> None:
        """The sessions that read the feed and listen for wake-ups are ended by an operator."""
        await self.psql.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name in ('onceward live', 'onceward listen') and datname = current_database()"
        )

    async def trim(self) -> None:
        """Housekeeping: a mark now, and what was visible at one a while ago is removed."""
        await self.psql.execute("insert into onceward.feed_marks default values")

    # -- people -----------------------------------------------------------------------------------------------------

    async def add_wish(self, person: Person) -> Held:
        held = Held(person.organization)
        kind = self.rng.choice([*FRESH, "topic"])
        event = str(self.rng.choice(EVENTS))
        if kind == "topic":
            held.topic = self.rng.choice(TOPICS)
        else:
            held.query = kind
            if kind in ("by_event", "sold_of"):
                held.arguments["event_id"] = event
            if kind == "sold_of":
                held.arguments["status"] = self.rng.choice(STATUSES)
        if held.topic:
            # From its first answer on, everything that commits must come.
            held.expected_from = -1
        person.held.append(held)
        return held

    async def want(self) -> None:
        person = self.rng.choice(self.people)
        await self.back(person)
        held = await self.add_wish(person)
        with contextlib.suppress(Exception):
            await person.ask(held)

    async def drop_wish(self) -> None:
        person = self.rng.choice(self.people)
        if len(person.held) > 1 and not person.cut_off and person.client is not None:
            person.collect()
            held = person.held.pop(0)
            for id, other in list(person.ids.items()):
                if other is held:
                    del person.ids[id]
                    with contextlib.suppress(Exception):
                        await person.client.say("drop", id=id)

    async def cut_connection(self) -> None:
        person = self.rng.choice(self.people)
        await person.disconnect()
        if self.rng.random() < 0.5:
            await self.back(person)

    async def back(self, person: Person) -> None:
        while person.cut_off:
            await person.disconnect()
            with contextlib.suppress(OSError, Exception):
                await person.connect(self.rng.choice(self.nodes).port)

    # -- writes -----------------------------------------------------------------------------------------------------

    async def write(self, conn: Any, organization: UUID) -> None:
        event, label = self.rng.choice(EVENTS), str(self.rng.randrange(100))
        match self.rng.randrange(6):
            case 0 | 1:
                await conn.execute(
                    "insert into shop.seats (organization_id, event_id, label, status) values ($1, $2, $3, $4)",
                    organization,
                    event,
                    label,
                    self.rng.choice(STATUSES),
                )
            case 2:
                await conn.execute(
                    "update shop.seats set label = $3 where id in (select id from shop.seats"
                    " where organization_id = $1 and event_id = $2 order by id limit 2 for update skip locked)",
                    organization,
                    event,
                    label,
                )
            case 3:
                await conn.execute(
                    "update shop.seats set event_id = $2, status = $3 where id in (select id from shop.seats"
                    " where organization_id = $1 order by label limit 1 for update skip locked)",
                    organization,
                    event,
                    self.rng.choice(STATUSES),
                )
            case 4:
                await conn.execute(
                    "delete from shop.seats where id in (select id from shop.seats"
                    " where organization_id = $1 and event_id = $2 order by id limit 2 for update skip locked)",
                    organization,
                    event,
                )
            case _:
                await conn.execute(
                    "with there as (select 1 from shop.picked where organization_id = $1 for update skip locked)"
                    " update shop.picked set event_id = $2 where organization_id = $1 and exists (select from there)",
                    organization,
                    event,
                )

    async def say(self, conn: Any, organization: UUID) -> tuple[str, UUID, int]:
        self.counter += 1
        topic = self.rng.choice(TOPICS)
        await conn.execute(
            "insert into onceward.topic_messages (organization_id, topic, payload) values ($1, $2, $3)",
            organization,
            topic,
            self.counter,
        )
        return topic, organization, self.counter

    def committed(self, messages: list[tuple[str, UUID, int]]) -> None:
        for topic, organization, n in messages:
            self.said.setdefault((organization, topic), []).append(n)

    async def write_alone(self) -> None:
        organization = self.rng.choice(ORGANIZATIONS)
        await self.psql.execute(
            "insert into shop.picked values ($1, $2) on conflict do nothing", organization, EVENTS[0]
        ) if not self.long else None
        await self.write(self.psql, organization)
        if self.rng.random() < 0.3:
            self.committed([await self.say(self.psql, organization)])

    async def write_by_engine(self) -> None:
        organization = self.rng.choice(ORGANIZATIONS)
        with contextlib.suppress(KeyError):
            async with self.engine.transaction(organization=organization) as tx:
                messages = [await self.say(tx, organization)] if self.rng.random() < 0.3 else []
                for _ in range(self.rng.randrange(1, 4)):
                    await self.write(tx, organization)
                if self.rng.random() < 0.3:
                    raise KeyError("rolled back")
            self.committed(messages)

    async def begin_long(self) -> None:
        if len(self.long) < 4:
            conn = await self.db.connect(application_name="long")
            transaction = conn.transaction()
            await transaction.start()
            self.long.append((conn, transaction, []))
            await self.write_long()

    async def write_long(self) -> None:
        if self.long:
            conn, _, messages = self.rng.choice(self.long)
            organization = self.rng.choice(ORGANIZATIONS)
            await self.write(conn, organization)
            if self.rng.random() < 0.3:
                messages.append(await self.say(conn, organization))

    async def end_long(self) -> None:
        if self.long:
            conn, transaction, messages = self.long.pop(self.rng.randrange(len(self.long)))
            if self.rng.random() < 0.7:
                await transaction.commit()
                self.committed(messages)
            else:
                await transaction.rollback()
            await conn.close()

    async def truncate(self) -> None:
        if not self.long:
            await self.psql.execute("truncate shop.seats")

    # -- the judgement ----------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Reconnect every client. Then each holds the result of a fresh query, and got each broadcast once."""
        self.checks += 1
        deadline = time.monotonic() + 20
        while True:
            for person in self.people:
                await self.back(person)
                person.collect()
            wrong = [each for person in self.people for held in person.held for each in await self.wrong(held)]
            if not wrong:
                return
            if time.monotonic() > deadline:
                raise AssertionError("after 20 s of quiet: " + "; ".join(wrong[:5]))
            await asyncio.sleep(0.01)

    async def wrong(self, held: Held) -> list[str]:
        if held.topic:
            return self.wrong_messages(held)
        arguments = [UUID(held.arguments["event_id"])] if "event_id" in held.arguments else []
        rest = [held.arguments["status"]] if "status" in held.arguments else []
        rows = await self.psql.fetch(FRESH[held.query], held.organization, *arguments, *rest)
        value: Any = rows[0]["value"] if held.query in ("sold_of", "follows_data") else rows
        fresh = to_json(value)
        if held.hash is None or to_json(held.data) != fresh:
            return [f"{held.query} {held.arguments} of {held.organization.int}: holds {held.data}, fresh is {fresh}"]
        return []

    def wrong_messages(self, held: Held) -> list[str]:
        said = self.said.get((held.organization, held.topic), [])
        if held.since is None:
            return [f"{held.topic}: not followed yet"]
        if held.expected_from == -1:
            if held.got:
                held.expected_from = said.index(held.got[0]) if held.got[0] in said else -1
            else:
                held.expected_from = len(said)
        if len(held.got) != len(set(held.got)):
            return [f"{held.topic}: delivered twice: {held.got[-10:]}"]
        missing = set(said[held.expected_from :]) - set(held.got)
        extra = set(held.got) - set(said)
        return [f"{held.topic}: missing {sorted(missing)[:5]}, never committed {extra}"] if missing or extra else []


async def consult(url: str, *, steps: int, seed: int) -> Oracle:
    oracle = Oracle(url, seed)
    try:
        await oracle.start()
        try:
            await oracle.run(steps)
        finally:
            await oracle.stop()
    finally:
        await end_all([node.process for node in oracle.nodes])
    return oracle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()

    async def alone() -> None:
        from onceward.db import migrate
        from onceward.db.embedded import EmbeddedPostgres
        from onceward.runtime import FEATURES

        with tempfile.TemporaryDirectory() as folder:
            server = EmbeddedPostgres(Path(folder) / "data", fsync=False)
            url = await asyncio.to_thread(server.start)
            try:
                database = await Database.open(url)
                async with database.acquire() as conn:
                    await migrate(conn, FEATURES.migrations)
                await database.close()
                oracle = await consult(url, steps=chosen.steps, seed=chosen.seed)
                print(f"seed {chosen.seed}: {chosen.steps} steps, {oracle.checks} checks, all held what was true")
            finally:
                await asyncio.to_thread(server.stop)

    asyncio.run(alone())


if __name__ == "__main__":
    main()
