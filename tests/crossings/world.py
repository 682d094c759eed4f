"""Everything that the machine acts on: a database, two web nodes, and workers that come and go."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from aiohttp import web

from onceward import Engine
from onceward.db import Database, Unavailable
from onceward.inbox import Inbox
from onceward.inbox.sources import NewSource, add
from onceward.outbox import EndpointFields, Outbox
from onceward.runtime import FEATURES
from onceward.testing.simulators import CustomerEndpoint
from onceward.trust import SecretBox
from onceward.trust.secrets import rotate
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from onceward.work import dead_letters
from onceward.work.upkeep import old_jobs
from tests.crossings.model import ENDS, Item, Model, Seen, describe
from tests.crossings.node import LOOPBACK, UPKEEP, Node
from tests.crossings.tables import CREATE, Records
from tests.crossings.verbs import OWNERS, TRANSACTIONAL, Enqueue, ResumeQueue, ResumeSource
from tests.crossings.versions import APP, PUBLISHED, Version, make_app
from tests.inbox.conftest import call

OLD_TASKS = {"write", "call", "compute", "index", "moved", "count", "flow", "charge.succeeded", "charge.updated"}
ORGANIZATIONS = "insert into onceward.organizations (organization_id, slug, name) select o, s, s from unnest($1::uuid[], $2::text[]) as of (o, s)"
WITHIN_S = 45.0
"""How long everything that can run may take, on a slow machine with workers that were just killed."""


class Customer(CustomerEndpoint):
    """Fails as often as the event says. `numbers` has the item of each request that it accepted."""

    def __init__(self) -> None:
        super().__init__()
        self._requests: Counter[int] = Counter()

    @property
    def numbers(self) -> list[int]:
        return [delivered.json["data"]["n"] for delivered in self.accepted]

    async def _receive(self, request: web.Request) -> web.Response:
        data = json.loads(await request.read())["data"]
        self._requests[data["n"]] += 1
        if self._requests[data["n"]] <= data["fails"]:
            return self.failure(500)
        return await super()._receive(request)


class World:
    """The state of one example."""

    secret = "whsec_a_secret_of_the_tests_32_chars"

    def __init__(self, url: str) -> None:
        self.url = url
        self.model = Model()
        self.nodes: list[Node] = []
        self.paused_queues: dict[str, int] = {}
        self.paused_sources: dict[str, int] = {}
        self._numbers = 0
        self.shared = 0
        """How many attempts shared their commit with others."""
        self.limited = 0
        """How often row locks limited the groups of a task."""
        self.keys = ("key number 0 of the tests, which is long enough",)
        """The keys of the installation, newest first."""
        self.endpoints: dict[str, UUID] = {}
        self._rotating = asyncio.Lock()

    async def open(self) -> None:
        self.db = await Database.open(self.url, min_size=1, max_size=6)
        await self.db.execute(CREATE)
        await self.db.execute(ORGANIZATIONS, list(OWNERS.values()), list(OWNERS))
        self._records = Records(self.url, 0)  # of inline events, which the web nodes handle
        await self._records.open()
        made = make_app("new", self._records)
        app, self.jobs, self.flow = made.app, made.jobs, made.flow
        self._app = app
        self.engine = Engine(self.db, app.registry, event_types=app.event_types)
        await self.engine.start()
        box = SecretBox(self.keys)
        async with self.db.transaction(role="engine") as tx:
            for source in (
                NewSource(name="shop", provider="stripe", secrets=(self.secret,), app=APP),
                NewSource(name="inline", provider="stripe", secrets=(self.secret,), app=APP, mode="inline"),
                NewSource(name="ordered", provider="stripe", secrets=(self.secret,), app=APP, ordering=True),
                NewSource(name="rated", provider="stripe", secrets=(self.secret,), app=APP, rate_per_s=50.0),
            ):
                await add(tx, box, source, actor="test")
        self._started: list[Inbox] = []
        self._intakes = [await self._start_intake() for _ in range(2)]
        self.customer = Customer()
        await self.customer.start()
        outbox = Outbox(self.db, box=box, catalogue=app.event_types, options=LOOPBACK, upkeep=False)
        await outbox.save_catalogue()
        for name in ("plain", "ordered"):
            wanted = EndpointFields(
                url=f"{self.customer.hook_url}/{name}",
                events=[PUBLISHED],
                ordered=name == "ordered",
                retry_waits_s=[1, 1],
            )
            registered = await outbox.endpoints.register(None, wanted, actor="test")
            self.endpoints[name] = registered.endpoint.endpoint_id
        await outbox.stop()

    async def _start_intake(self) -> Inbox:
        intake = Inbox(
            self.db,
            self._app.registry,
            self._app.handlers,
            self.engine.waker,
            open_tx=self.engine.open_tx,
            box=SecretBox(self.keys),
            environ={},
            upkeep=UPKEEP,
        )
        await intake.start()
        self._started.append(intake)
        return intake

    async def close(self) -> None:
        for node in self.nodes:
            with suppress(AssertionError, ProcessLookupError):
                await node.kill()
        for intake in self._started:
            await intake.stop()
        await self.customer.stop()
        await self._records.close()
        await self.engine.stop()
        await self.db.close()

    # -- nodes ----------------------------------------------------------------------------------------------------

    async def start_node(self, version: Version) -> None:
        self._numbers += 1
        node = Node(self.url, self._numbers, version, self.keys)
        self.nodes.append(node)
        await node.started()

    async def stop_node(self, node: Node) -> None:
        self.nodes.remove(node)
        await node.stop()

    async def kill_node(self, node: Node) -> None:
        self.nodes.remove(node)
        self.model.kills += 1
        self.model.disturbed.add(node.number)
        await node.kill()

    def freeze_node(self, node: Node) -> None:
        self.model.kills += 1
        self.model.disturbed.add(node.number)
        node.freeze()

    # -- what verbs need --------------------------------------------------------------------------------------------

    def accept(self, verb: Enqueue, n: int, began: int, id: int, duplicate: bool) -> Item | None:
        """Remember an enqueue that was answered. A duplicate adds no item; it may change the arguments of another one."""
        existing = self.model.by_id(id)
        if existing is not None:
            assert duplicate, f"id {id} was given to {existing.n} and to {n}"
            assert existing.task == verb.job, f"{n} is a duplicate of {existing.n}, which is another job"
            if verb.unique in ("replace", "debounce"):
                existing.tokens[n] = (began, next(self.model.clock))
            else:
                self.model.refused.append(n)
            return None
        assert not duplicate, f"{n} was refused as a duplicate of job {id}, which was never accepted"
        queue = verb.queue or (None if verb.job == "moved" and verb.via != "sql" else "default")
        lane = verb.order or verb.limit
        item = Item(
            n,
            "job",
            verb.job,
            began,
            next(self.model.clock),
            id=id,
            queue=queue or "post",
            order=f"{queue}/{verb.order}" if verb.order else None,
            cap=(f"{queue}/{lane}", 2) if verb.limit and not verb.order else None,
            transactional=verb.job in TRANSACTIONAL,
            fails_always=verb.fails == 99,
        )
        self.model.items.append(item)
        return item

    async def ids_of(self, numbers: Sequence[int]) -> dict[int, int]:
        rows = await self.db.fetch("select id, (args ->> 'n')::int as n from onceward.jobs")
        ids = {row["n"]: row["id"] for row in rows}
        return {n: ids[n] for n in numbers}

    async def post(self, intake: int, source: str, body: bytes, config: SourceConfig) -> int:
        headers = get_provider("stripe").sign(config, body, time.time())
        async with asyncio.timeout(30):
            return (await call(self._intakes[intake], f"/webhooks/{source}", body, headers)).status

    async def is_stored(self, n: int) -> bool:
        return await self.db.fetchval(
            "select exists (select from onceward.webhook_events where event_id = $1)", f"evt_{n}"
        )

    def mark_dead_letters(self, letters: Sequence[dead_letters.DeadLetter]) -> None:
        for letter in letters:
            if (item := self.model.by_id(letter.id)) is not None:
                item.operated = True

    async def prune(self, keep: timedelta) -> None:
        await old_jobs(self.db, keep=keep).all()

    async def rotate_key(self) -> None:
        async with self._rotating:
            self.keys = (f"key number {len(self.keys)} of the tests, which is long enough", *self.keys)
            self._intakes[0] = await self._start_intake()
            await rotate(self.db, SecretBox(self.keys), FEATURES.sealed)

    # -- what must hold -----------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until everything has ended that can run with what is paused and who is alive."""
        deadline = time.monotonic() + WITHIN_S
        while left := await self._could_run():
            if time.monotonic() > deadline:
                rows = [*left, *await self._attempts([row["id"] for row in left]), *await self._obstacles()]
                raise AssertionError(describe([f"these did not end within {WITHIN_S:g} s:"], rows))
            await asyncio.sleep(0.05)
        await self._check_paused()

    async def finish(self) -> None:
        """Undo every disturbance; then everything must end, and nothing may be wrong."""
        for node in list(self.nodes):
            if node.frozen:
                node.thaw()
        for queue in list(self.paused_queues):
            await ResumeQueue(queue).do(self)  # pyright: ignore[reportArgumentType]
        for source in list(self.paused_sources):
            await ResumeSource(source).do(self)  # pyright: ignore[reportArgumentType]
        for node in [node for node in self.nodes if node.keys != self.keys]:
            await self.stop_node(node)  # operators restart every node after a rotation
        if not any(node.version == "new" for node in self.nodes):
            await self.start_node("new")
        await self.settle()
        while await self._close_breakers():
            await self.settle()
        self.shared = await self.db.fetchval("select count(*) from history where shared > 1")
        self.limited = await self.db.fetchval("select coalesce(sum(times), 0) from limits")
        seen = await self._seen()
        problems = self.model.problems(seen)
        counted = {n for item in self.model.items if item.task == "count" for n in item.tokens}
        if (counter := await self.db.fetchval("select n from counter")) != sum(n in counted for n, _ in seen.effects):
            problems.append(f"the counter is {counter}, which is not how often handlers have counted")
        if problems:
            raise AssertionError(describe(problems, await self._history()))

    async def _close_breakers(self) -> bool:
        """Act as if the time of the open circuit breakers had passed, which is up to five minutes. Says whether one was open."""
        closed = await self.db.fetch(
            "update onceward.lanes set open_until = clock_timestamp() where open_until > clock_timestamp() returning lane"
        )
        return bool(closed)

    async def _could_run(self) -> list[Any]:
        """Return the unfinished work that nothing paused and that a live worker knows."""
        alive = [node for node in self.nodes if not node.frozen]
        if not alive:
            return []
        newest = any(node.version == "new" for node in alive)
        # A node without the newest key puts a delivery off for 2 seconds and may be the first to claim it again.
        decrypts = all(node.keys == self.keys for node in alive)
        rows = await self.db.fetch(
            "select w.id, w.kind, w.task, w.queue, w.lane, w.ordered, w.lease, w.sort_at::text as due, w.attempts,"
            " exists (select from onceward.bundles b join onceward.work m on m.bundle = b.id where b.then_id = w.id) as waits,"
            " exists (select from onceward.lanes l where l.queue = w.queue and l.lane = w.lane and l.open_until > clock_timestamp())"
            " as is_broken, s.name as source from onceward.work w left join onceward.webhook_events e on w.kind = 'event' and e.seq = w.id"
            " left join onceward.sources s on s.webhook_id = e.webhook_id where w.dead_reason is null order by w.id"
        )
        left: list[Any] = []
        blocked: set[tuple[str, str]] = set()
        for row in rows:
            known = decrypts if row["kind"] == "delivery" else newest or row["task"].rpartition("/")[2] in OLD_TASKS
            paused = row["queue"] in self.paused_queues or row["source"] in self.paused_sources
            lane = (row["queue"], row["lane"])
            if row["waits"] or row["is_broken"]:
                continue
            if known and not paused and lane not in blocked:
                left.append(row)
            elif row["ordered"]:
                blocked.add(lane)
        return left

    async def _attempts(self, ids: Sequence[int]) -> list[Any]:
        """Return the last attempts at unfinished work: what it did instead of ending."""
        return await self.db.fetch(
            "select work_id, number, outcome, worker, started_at::text, finished_at::text, error ->> 'message' as error"
            " from onceward.attempts where work_id = any($1) order by finished_at desc limit 100",
            ids,
        )

    async def _obstacles(self) -> list[Any]:
        """Return what can keep work from running."""
        lanes = await self.db.fetch("select 'lane' as what, * from onceward.lanes")
        queues = await self.db.fetch("select 'queue' as what, * from onceward.queues")
        claims = await self.db.fetch("select 'claim' as what, * from onceward.claims")
        workers = await self.db.fetch("select 'worker' as what, w.* from onceward.workers w")
        return [*lanes, *queues, *claims, *workers]

    async def _check_paused(self) -> None:
        """What was accepted after a pause has not started."""
        ran = {row["n"] for row in await self.db.fetch("select distinct n from runs")}
        for item in self.model.items:
            since = [
                moment
                for moment in (
                    self.paused_queues.get(item.queue or "") if item.kind != "workflow" else None,
                    self.paused_sources.get(item.source or ""),
                )
                if moment is not None
            ]
            if since and item.began > max(since) and ran & set(item.tokens) and item.source != "inline":
                raise AssertionError(
                    f"{item.kind} {item.n} ({item.task}) ran although {item.queue} {item.source} is paused"
                )

    async def _states(self) -> dict[int, list[str]]:
        rows = await self.db.fetch(
            "select work_id, array_agg(outcome order by seq) as outcomes from history"
            " where outcome = any($1) and kind <> 'event' group by 1",
            list(ENDS),
        )
        return {row["work_id"]: list(row["outcomes"]) for row in rows}

    async def _seen(self) -> Seen:
        states = await self._states()
        dead = {
            row["id"]: row["dead_reason"]
            for row in await self.db.fetch("select id, dead_reason from onceward.work where dead_reason is not null")
        }
        for id in dead:
            states.setdefault(id, []).append("dead_letter")
        events = {
            int(row["event_id"].removeprefix("evt_")): row["status"]
            for row in await self.db.fetch("select event_id, status from onceward.webhook_events")
        }
        effects = [(row["n"], row["seq"]) for row in await self.db.fetch("select n, seq from effects order by seq")]
        runs = [
            (row["n"], row["node"], row["began"], row["ended"])
            for row in await self.db.fetch(
                "select n, node, extract(epoch from began)::float8 as began, extract(epoch from ended)::float8 as ended from runs"
            )
        ]
        runs += [(n, 0, 0.0, None) for n in self.customer.numbers]
        return Seen(states, events, dead, effects, runs)

    async def _history(self) -> list[Any]:
        with suppress(Unavailable):
            return await self.db.fetch(
                "select work_id, number, kind, task, outcome, worker, started_at, error ->> 'type' as error"
                " from onceward.attempts order by finished_at"
            )
        return []
