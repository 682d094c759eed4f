"""The public verbs, as values that Hypothesis can choose, combine and print."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol
from uuid import UUID

from hypothesis import strategies as st

from onceward.db import Connection
from onceward.inbox import sources
from onceward.trust.organizations import set_weight
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from onceward.work import ConfiguredJob, controls, dead_letters
from onceward.work.dead_letters import DeadLetterFilter
from tests.crossings.model import Item
from tests.crossings.versions import PUBLISHED

if TYPE_CHECKING:
    from tests.crossings.world import World

JobName = Literal["write", "call", "compute", "index", "moved", "count", "fresh"]
Unique = Literal["unfinished", "within", "forever", "replace", "debounce"]
TRANSACTIONAL = {"write", "index", "moved", "count", "fresh"}
Owner = Literal["a", "b"]
OWNERS: dict[Owner, UUID] = {"a": UUID(int=1), "b": UUID(int=2)}
"""The organizations."""
ACTOR = "operator:test"


class Verb(Protocol):
    async def do(self, world: World) -> None: ...


@dataclass(frozen=True, slots=True)
class Enqueue:
    job: JobName = "write"
    via: Literal["engine", "tx", "many", "sql"] = "engine"
    queue: Literal["slow"] | None = None
    order: Literal["a", "b"] | None = None
    limit: Literal["c", "d"] | None = None
    delay_s: float = 0.0
    head_start: bool = False
    fair_key: str | None = None
    owner: Owner | None = None
    unique: Unique | None = None
    key: Literal["x", "y"] = "x"
    fails: Literal[0, 1, 99] = 0
    pause_s: float = 0.0

    async def do(self, world: World) -> None:
        n = next(world.model.numbers)
        began = next(world.model.clock)
        if self.via == "sql":
            id, duplicate = await self._through_sql(world, n), False
        else:
            id, duplicate = await self._through_python(world, n)
        world.accept(self, n, began, id, duplicate)

    def arguments(self, n: int) -> dict[str, Any]:
        return {"n": n, "fails": self.fails, "pause_s": self.pause_s}

    def configured(self, world: World) -> ConfiguredJob[..., Any]:
        job: ConfiguredJob[..., Any] = world.jobs[self.job]
        if self.queue is not None:
            job = job.in_queue(self.queue)
        if self.order is not None:
            job = job.in_order(self.order)
        elif self.limit is not None:
            job = job.in_lane(self.limit, limit=2)
        if self.delay_s:
            job = job.schedule_in(seconds=self.delay_s)
        if self.head_start:
            job = job.head_start(60)
        if self.fair_key is not None:
            job = job.fair_by(self.fair_key)
        if self.owner is not None:
            job = job.for_organization(OWNERS[self.owner])
        match self.unique:
            case "unfinished":
                job = job.unique(self.key)
            case "within":
                job = job.unique(self.key, within=1.0)
            case "forever":
                job = job.unique(self.key, forever=True)
            case "replace" | "debounce" as rule:
                job = job.unique(self.key, on_conflict=rule)
            case None:
                pass
        return job

    async def _through_python(self, world: World, n: int) -> tuple[int, bool]:
        job = self.configured(world)
        match self.via:
            case "tx":
                owner = None if self.owner is None else OWNERS[self.owner]
                async with world.engine.transaction(organization=owner) as tx:
                    done = await tx.enqueue(job, **self.arguments(n))
            case "many":
                [done] = await world.engine.enqueue_many([job.call(**self.arguments(n))])
            case _:
                done = await world.engine.enqueue(job, **self.arguments(n))
        return done.id, done.duplicate

    async def _through_sql(self, world: World, n: int) -> int:
        """As another language would, which does not know the queue of the job."""
        async with world.db.acquire() as conn, conn.transaction():
            if self.owner is not None:
                await conn.execute(f"set local onceward.organization = '{OWNERS[self.owner]}'")
            return await self._enqueue_in(conn, n)

    async def _enqueue_in(self, conn: Connection, n: int) -> int:
        return await conn.fetchval(
            "select onceward.enqueue($1, $2, queue => coalesce($3, 'default'), lane => $4, ordered => $5, cap => $6,"
            " fair_key => $7)",
            self.job,
            self.arguments(n),
            self.queue,
            self.order or self.limit,
            self.order is not None,
            2 if self.order is None and self.limit is not None else None,
            self.fair_key,
        )


@dataclass(frozen=True, slots=True)
class Bundle:
    members: tuple[JobName, ...]
    then: JobName = "write"
    unique: bool = False
    queue: Literal["slow"] | None = None

    async def do(self, world: World) -> None:
        calls = [Enqueue(job=job, queue=self.queue) for job in self.members]
        last = Enqueue(job=self.then, unique="unfinished" if self.unique else None, key="y")
        numbers = [next(world.model.numbers) for _ in (*calls, last)]
        began = next(world.model.clock)
        members = [call.configured(world).call(**call.arguments(n)) for call, n in zip(calls, numbers, strict=False)]
        then = last.configured(world).call(**last.arguments(numbers[-1]))
        async with world.engine.transaction() as tx:
            done = await tx.enqueue_then(members, then)
        ids = await world.ids_of(numbers[:-1])
        accepted = [world.accept(call, n, began, ids[n], False) for call, n in zip(calls, numbers, strict=False)]
        item = world.accept(last, numbers[-1], began, done.id, done.duplicate)
        if item is not None:
            item.then_of = [each for each in accepted if each is not None]


@dataclass(frozen=True, slots=True)
class Webhook:
    source: Literal["shop", "inline", "ordered", "rated"] = "shop"
    type: Literal["charge.succeeded", "charge.updated", "charge.refunded"] = "charge.succeeded"
    intake: Literal[0, 1] = 0
    times: Literal[1, 2] = 1
    fails: Literal[0, 1, 99] = 0

    async def do(self, world: World) -> None:
        n = next(world.model.numbers)
        began = next(world.model.clock)
        provider = get_provider("stripe")
        fields = {
            "id": f"evt_{n}",
            "data.object.payment_intent": "pi_1",
            "data.object.metadata": {"n": n, "fails": self.fails},
        }
        body = provider.encode(provider.sample(self.type, fields))
        config = SourceConfig(provider="stripe", secrets=(world.secret,))
        answers = [await world.post(self.intake, self.source, body, config) for _ in range(self.times)]
        if any(200 <= answer < 300 for answer in answers) or await world.is_stored(n):
            world.model.items.append(
                Item(
                    n,
                    "event",
                    self.type,
                    began,
                    next(world.model.clock),
                    queue="events",
                    order="ordered source" if self.source == "ordered" else None,
                    fails_always=self.fails == 99,
                    source=self.source,
                )
            )


@dataclass(frozen=True, slots=True)
class StartWorkflow:
    async def do(self, world: World) -> None:
        n = next(world.model.numbers)
        began = next(world.model.clock)
        started = await world.engine.start_workflow(world.flow, n=n)
        world.model.items.append(Item(n, "workflow", "flow", began, next(world.model.clock), id=started.id))


@dataclass(frozen=True, slots=True)
class Publish:
    """An event for a customer's endpoint, whose secrets are sealed with the key of the installation."""

    ordered: bool = False
    fails: Literal[0, 1, 99] = 0

    async def do(self, world: World) -> None:
        n = next(world.model.numbers)
        began = next(world.model.clock)
        endpoint = world.endpoints["ordered" if self.ordered else "plain"]
        async with world.engine.transaction() as tx:
            sent = await tx.publish(PUBLISHED, {"n": n, "fails": self.fails}, endpoint=endpoint)
        assert sent.deliveries == 1, f"event {n} was published to {sent.deliveries} endpoints"
        id = await world.db.fetchval("select id from onceward.deliveries where caused_by = $1", sent.id)
        world.model.items.append(
            Item(
                n,
                "delivery",
                "deliver",
                began,
                next(world.model.clock),
                id=id,
                queue="deliveries",
                transactional=False,
                fails_always=self.fails == 99,
            )
        )


@dataclass(frozen=True, slots=True)
class RotateKey:
    """A new key first, one of the web nodes restarted, `secrets rotate`. Workers keep the keys that they started with."""

    async def do(self, world: World) -> None:
        await world.rotate_key()


@dataclass(frozen=True, slots=True)
class SetWeight:
    owner: Owner
    weight: Literal[1, 2, 7]

    async def do(self, world: World) -> None:
        async with world.db.transaction(role="engine") as tx:
            await set_weight(tx, OWNERS[self.owner], self.weight, actor=ACTOR)


@dataclass(frozen=True, slots=True)
class PauseQueue:
    queue: Literal["default", "slow", "events", "post", "deliveries"]

    async def do(self, world: World) -> None:
        await controls.pause(world.db, self.queue, actor=ACTOR)
        world.paused_queues.setdefault(self.queue, next(world.model.clock))


@dataclass(frozen=True, slots=True)
class ResumeQueue:
    queue: Literal["default", "slow", "events", "post", "deliveries"]

    async def do(self, world: World) -> None:
        world.paused_queues.pop(self.queue, None)
        await controls.resume(world.db, self.queue, actor=ACTOR)


@dataclass(frozen=True, slots=True)
class PauseSource:
    source: Literal["shop", "ordered", "rated"]

    async def do(self, world: World) -> None:
        async with world.db.transaction(role="engine") as tx:
            await sources.pause(tx, self.source, actor=ACTOR)
        world.paused_sources.setdefault(self.source, next(world.model.clock))


@dataclass(frozen=True, slots=True)
class ResumeSource:
    source: Literal["shop", "ordered", "rated"]

    async def do(self, world: World) -> None:
        world.paused_sources.pop(self.source, None)
        async with world.db.transaction(role="engine") as tx:
            await sources.resume(tx, self.source, actor=ACTOR)


@dataclass(frozen=True, slots=True)
class Cancel:
    which: int

    async def do(self, world: World) -> None:
        jobs = [item for item in world.model.items if item.kind == "job"]
        if jobs:
            item = jobs[self.which % len(jobs)]
            assert item.id is not None
            item.operated = True
            item.cancels.add(await controls.cancel(world.db, item.id, actor=ACTOR))


@dataclass(frozen=True, slots=True)
class ReplayDeadLetters:
    async def do(self, world: World) -> None:
        world.mark_dead_letters(await dead_letters.find(world.db, DeadLetterFilter(kind="job")))
        await dead_letters.replay(world.db, DeadLetterFilter(kind="job"), actor=ACTOR, reason="tried again")


@dataclass(frozen=True, slots=True)
class DiscardDeadLetters:
    async def do(self, world: World) -> None:
        world.mark_dead_letters(await dead_letters.find(world.db, DeadLetterFilter(kind="job")))
        await dead_letters.discard(world.db, DeadLetterFilter(kind="job"), actor=ACTOR, reason="not needed")


@dataclass(frozen=True, slots=True)
class Prune:
    """Delete what has ended."""

    async def do(self, world: World) -> None:
        await world.prune(timedelta(0))


@dataclass(frozen=True, slots=True)
class Burst:
    """Many jobs at once, so that their handlers wait and share commits; in `order`, in one ordered lane.

    Handlers of `count` wait for each other's row locks.
    """

    count: int
    job: Literal["write", "count"] = "write"
    owners: Literal[0, 1, 2] = 0
    """Over how many organizations the jobs are spread."""
    order: Literal["a", "b"] | None = None
    fails: Literal[0, 1, 99] = 0
    """How often the job in the middle fails."""
    keys: Literal[0, 1, 5] = 0
    """Over how many fair keys the jobs are spread."""

    async def do(self, world: World) -> None:
        middle = self.count // 2
        verbs = [
            Enqueue(
                job=self.job,
                owner=("a", "b")[at % self.owners] if self.owners else None,
                order=self.order,
                fails=self.fails if at == middle else 0,
                fair_key=f"k{at % self.keys}" if self.keys else None,
            )
            for at in range(self.count)
        ]
        numbers = [next(world.model.numbers) for _ in verbs]
        began = next(world.model.clock)
        calls = [verb.configured(world).call(**verb.arguments(n)) for verb, n in zip(verbs, numbers, strict=True)]
        for verb, n, done in zip(verbs, numbers, await world.engine.enqueue_many(calls), strict=True):
            world.accept(verb, n, began, done.id, done.duplicate)


QUEUES = st.sampled_from(["default", "slow", "events", "post", "deliveries"])
SOURCES = st.sampled_from(["shop", "ordered", "rated"])

enqueues = st.builds(
    Enqueue,
    job=st.sampled_from(["write", "write", "call", "compute", "index", "moved", "count", "fresh"]),
    via=st.sampled_from(["engine", "engine", "tx", "many", "sql"]),
    queue=st.sampled_from([None, None, "slow"]),
    order=st.sampled_from([None, None, None, "a", "b"]),
    limit=st.sampled_from([None, None, None, "c", "d"]),
    delay_s=st.sampled_from([0.0, 0.0, 0.3]),
    head_start=st.sampled_from([False, False, True]),
    fair_key=st.sampled_from([None, None, "p", "q"]),
    owner=st.sampled_from([None, None, "a", "b"]),
    unique=st.sampled_from([None, None, None, "unfinished", "within", "forever", "replace", "debounce"]),
    key=st.sampled_from(["x", "y"]),
    fails=st.sampled_from([0, 0, 0, 1, 99]),
    pause_s=st.sampled_from([0.0, 0.0, 0.05, 0.4]),
)
bundles = st.builds(
    Bundle,
    members=st.lists(st.sampled_from(["write", "call", "index", "moved"]), min_size=1, max_size=3).map(tuple),
    then=st.sampled_from(["write", "fresh"]),
    unique=st.booleans(),
    queue=st.sampled_from([None, "slow"]),
)
webhooks = st.builds(
    Webhook,
    source=st.sampled_from(["shop", "shop", "inline", "ordered", "rated"]),
    type=st.sampled_from(["charge.succeeded", "charge.succeeded", "charge.updated", "charge.refunded"]),
    intake=st.sampled_from([0, 1]),
    times=st.sampled_from([1, 1, 2]),
    fails=st.sampled_from([0, 0, 1, 99]),
)
publications = st.builds(Publish, ordered=st.booleans(), fails=st.sampled_from([0, 0, 1, 99]))
bursts = st.builds(
    Burst,
    count=st.integers(8, 24),
    job=st.sampled_from(["write", "count"]),
    owners=st.sampled_from([0, 1, 2]),
    order=st.sampled_from([None, "a", "b"]),
    fails=st.sampled_from([0, 0, 1, 99]),
    keys=st.sampled_from([0, 1, 5]),
)
causes = st.one_of(
    enqueues, enqueues, enqueues, bursts, webhooks, webhooks, bundles, publications, st.just(StartWorkflow())
)
operations = st.one_of(
    st.builds(PauseQueue, QUEUES),
    st.builds(ResumeQueue, QUEUES),
    st.builds(PauseSource, SOURCES),
    st.builds(ResumeSource, SOURCES),
    st.builds(Cancel, st.integers(0, 30)),
    st.builds(SetWeight, st.sampled_from(["a", "b"]), st.sampled_from([1, 2, 7])),
    st.just(ReplayDeadLetters()),
    st.just(DiscardDeadLetters()),
    st.just(Prune()),
    st.just(RotateKey()),
)
