"""Everything that the machine acts on: a database, two web nodes, and workers that come and go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from onceward import Engine
from onceward.db import Database, Unavailable
from onceward.inbox import Inbox
from onceward.inbox.sources import NewSource, add
from onceward.providers.inbound.provider import SourceConfig
from onceward.providers.inbound.registry import get_provider
from onceward.work import dead_letters
from onceward.work.upkeep import old_jobs
from tests.crossings.model import ENDS, Item, Model, Seen, describe
from tests.crossings.node import BOX, UPKEEP, Node
from tests.crossings.tables import CREATE, Records
from tests.crossings.verbs import TRANSACTIONAL, Enqueue, ResumeQueue, ResumeSource
from tests.crossings.versions import APP, Version, make_app
from tests.inbox.conftest import call

OLD_TASKS = {"write", "call", "compute", "index", "moved", "flow", "charge.succeeded", "charge.updated"}
WITHIN_S = 45.0
"""How long everything that can run may take, on a slow machine with workers that were just killed."""


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
        self._pruned: dict[int, list[str]] = {}
        self._has_pruned = False

    async def open(self) -> None:
        self.db = await Database.open(self.url, min_size=1, max_size=6)
        await self.db.execute(CREATE)
        made = make_app("new", Records(self.url, 0))
        app, self.jobs, self.flow = made.app, made.jobs, made.flow
        self.engine = Engine(self.db, app.registry)
        await self.engine.start()
        async with self.db.transaction(role="engine") as tx:
            for source in (
                NewSource(name="shop", provider="stripe", secrets=(self.secret,), app=APP),
                NewSource(name="inline", provider="stripe", secrets=(self.secret,), app=APP, mode="inline"),
                NewSource(name="ordered", provider="stripe", secrets=(self.secret,), app=APP, ordering=True),
            ):
                await add(tx, BOX, source, actor="test")
        self._intakes = [
            Inbox(
                self.db,
                app.registry,
                app.handlers,
                self.engine.waker,
                open_tx=self.engine.open_tx,
                box=BOX,
                environ={},
                upkeep=UPKEEP,
            )
            for _ in range(2)
        ]
        for intake in self._intakes:
            await intake.start()

    async def close(self) -> None:
        for node in self.nodes:
            with suppress(AssertionError, ProcessLookupError):
                await node.kill()
        for intake in self._intakes:
            await intake.stop()
        await self.engine.stop()
        await self.db.close()

    # -- nodes ----------------------------------------------------------------------------------------------------

    async def start_node(self, version: Version) -> None:
        self._numbers += 1
        node = Node(self.url, self._numbers, version)
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
        self._has_pruned = True
        self._pruned.update(await self._states())
        await old_jobs(self.db, keep=keep).all()

    # -- what must hold -----------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until everything has ended that can run with what is paused and who is alive."""
        deadline = time.monotonic() + WITHIN_S
        while left := await self._could_run():
            if time.monotonic() > deadline:
                raise AssertionError(describe([f"these did not end within {WITHIN_S:g} s:"], left))
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
        if not any(node.version == "new" for node in self.nodes):
            await self.start_node("new")
        await self.settle()
        seen = await self._seen()
        if problems := self.model.problems(seen):
            raise AssertionError(describe(problems, await self._history()))

    async def _could_run(self) -> list[Any]:
        """Return the unfinished work that nothing paused and that a live worker knows."""
        alive = [node for node in self.nodes if not node.frozen]
        if not alive:
            return []
        newest = any(node.version == "new" for node in alive)
        rows = await self.db.fetch(
            "select w.id, w.kind, w.task, w.queue, w.lane, w.ordered, w.lease, w.sort_at::text as due, w.attempts,"
            " exists (select from onceward.bundles b join onceward.work m on m.bundle = b.id where b.then_id = w.id) as waits,"
            " s.name as source from onceward.work w left join onceward.webhook_events e on w.kind = 'event' and e.seq = w.id"
            " left join onceward.sources s on s.webhook_id = e.webhook_id where w.dead_reason is null order by w.id"
        )
        left: list[Any] = []
        blocked: set[tuple[str, str]] = set()
        for row in rows:
            known = newest or row["task"].rpartition("/")[2] in OLD_TASKS
            paused = row["queue"] in self.paused_queues or row["source"] in self.paused_sources
            lane = (row["queue"], row["lane"])
            if row["waits"]:
                continue
            if known and not paused and lane not in blocked:
                left.append(row)
            elif row["ordered"]:
                blocked.add(lane)
        return left

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
        states: dict[int, list[str]] = {id: list(ends) for id, ends in self._pruned.items()}
        rows = await self.db.fetch(
            "select a.work_id, array_agg(a.outcome order by a.finished_at) as outcomes from onceward.attempts a"
            " where a.outcome::text = any($1) and a.kind <> 'event' group by 1",
            list(ENDS),
        )
        for row in rows:
            states[row["work_id"]] = list(row["outcomes"])
        return states

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
        left = {
            row["id"] for row in await self.db.fetch("select id from onceward.jobs union select id from onceward.work")
        }
        pruned = {item.id for item in self.model.items if item.id is not None and item.id not in left}
        return Seen(states, events, dead, effects, pruned if self._has_pruned else set(), runs)

    async def _history(self) -> list[Any]:
        with suppress(Unavailable):
            return await self.db.fetch(
                "select work_id, number, kind, task, outcome, worker, started_at, error ->> 'type' as error"
                " from onceward.attempts order by finished_at"
            )
        return []
