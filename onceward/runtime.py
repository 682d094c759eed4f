"""The composition root: the one place that knows every part and puts them together.

A part is a component: `start()` returns when it works, `stop()` when it has come to rest. They are started in the
order below and stopped in the reverse one; if a start fails, what was started before it is stopped again.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Literal, Protocol

from onceward import __version__
from onceward.app import Onceward
from onceward.capacity import reap
from onceward.connections import connection_budget
from onceward.db import Database, MigrationError, Unavailable, wait_for_server
from onceward.engine import Engine
from onceward.inbox import Inbox, UpkeepOptions
from onceward.ledger import checkpoint
from onceward.limits import AdaptiveLimit, Bounds, EarlyRefusal, Tiers, forget_idle, reconcile
from onceward.live import LiveNode, LiveOptions, LiveRegistry, authenticator
from onceward.messages.office import PostOffice
from onceward.opening import Opening, secret_box
from onceward.outbox import Outbox, OutboxOptions
from onceward.outbox.owners import TEMPLATE, Notice
from onceward.schedules import Scheduler
from onceward.settings import Settings
from onceward.telemetry import get_logger
from onceward.trust import Sealer
from onceward.trust.failures import forget_old
from onceward.trust.sessions import first_admin_link, forget_expired
from onceward.web import Dispatcher, Health, WebServer, create_api
from onceward.web.access import access_router
from onceward.web.auth import verifier_from
from onceward.web.dashboard import Site, dashboard_router
from onceward.web.dashboard.live import part_query
from onceward.web.events import events_router
from onceward.web.evidence import evidence_router
from onceward.web.limits import limits_router
from onceward.web.login import login_router
from onceward.web.messages import messages_router
from onceward.web.outbound import outbound_router
from onceward.web.portal import portal_router
from onceward.web.sources import sources_router
from onceward.web.workflows import workflows_router
from onceward.work import Worker, WorkerOptions
from onceward.work.loop import Loop
from onceward.work.metrics import count, observe_queues
from onceward.workflows.operate import prune as prune_workflows
from onceward.workflows.operate import set_aside_unknown

log = get_logger("onceward.runtime")

RoleName = Literal["web", "worker", "scheduler"]
EVERYTHING: frozenset[RoleName] = frozenset({"web", "worker", "scheduler"})


class Component(Protocol):
    """Something with a beginning and an end.

    `start()` asks the database first and begins to run after that: if the connection is lost, it is called again.
    """

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Runtime:
    """One process of Onceward."""

    def __init__(self, app: Onceward, settings: Settings) -> None:
        self.app = app
        self.settings = settings
        self.health = Health()
        self.web: WebServer | None = None
        self.engine: Engine | None = None
        self.first_login: str | None = None
        """Where the administrator logs in after `up`, until somebody has logged in."""
        self._undo: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._opening = Opening(settings, app.lines)

    @property
    def database(self) -> Database:
        return self._opening.database

    async def start(self, roles: Iterable[RoleName] = EVERYTHING) -> None:
        """Open the database, bring the schema up to date, start the parts that these roles need."""
        chosen = frozenset(roles)
        self.app.services.configure(self.settings)
        self._undo.append(("services", self.app.services.aclose))
        try:
            self._undo.append(("database", self._opening.close))
            wait_s = self.settings.database_wait_s
            await self._opening.open(wait_s=wait_s)
            self.health.add("database", self._ask_database)
            await wait_for_server(self._prepare_schema, limit_s=wait_s)
            for name, component in self._components(chosen):
                await wait_for_server(component.start, limit_s=wait_s)
                self._undo.append((name, component.stop))
            # Only where one process is everything: the output of a `serve` is kept in logs that many people read.
            if self.web is not None and chosen == EVERYTHING and (token := await first_admin_link(self.database)):
                self.first_login = f"{self.settings.public_url or self.web.url}/login?token={token}"
        except BaseException:
            await self.stop()
            raise
        budget = connection_budget(pool_max=self.settings.pool_max, roles=chosen, pgbouncer=self.settings.pgbouncer)
        log.info(
            "runtime.started",
            app=self.app.name,
            roles=sorted(chosen),
            connections_max=budget.total,
            connections=str(budget),
        )

    async def stop(self) -> None:
        """Stop everything that was started. One part's failure to stop does not keep the others running."""
        self.health.stopping = True
        hurried = False
        while self._undo:
            name, undo = self._undo.pop()
            try:
                await undo()
            except asyncio.CancelledError:
                hurried = True  # do not wait for this part any longer, but still stop the ones below it
                log.warning("runtime.stop_cut_short", component=name)
            except Exception:
                log.exception("runtime.stop_failed", component=name)
        if hurried:
            raise asyncio.CancelledError

    async def run(self, roles: Iterable[RoleName] = EVERYTHING, *, ready: Callable[[], None] | None = None) -> None:
        """Start, serve until SIGINT or SIGTERM, stop. A second signal does not wait for work to finish."""
        asked_to_stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        running = asyncio.current_task()

        def on_signal() -> None:
            if asked_to_stop.is_set() and running is not None:
                running.cancel()
            asked_to_stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)
        try:
            starting = asyncio.create_task(self.start(roles))
            asked = asyncio.create_task(asked_to_stop.wait())
            await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():  # a migration under way rolls back; nothing is left half done
                starting.cancel()
                await asyncio.wait({starting})
                return
            await starting
            if ready is not None:
                ready()
            await asked
            log.info("runtime.stopping", grace_s=self.settings.shutdown_grace_s)
        finally:
            asked_to_stop.set()
            await self.stop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    async def _ask_database(self) -> None:
        await self.database.fetchval("select 1")
        if self.database.is_away:
            raise Unavailable("PostgreSQL refuses new connections")

    async def _prepare_schema(self) -> None:
        pending = await self._opening.pending_migrations()
        if not pending:
            return
        if not self.settings.auto_migrate:
            raise MigrationError(
                f"{len(pending)} migrations are pending, the first is {pending[0]}, and ONCEWARD_AUTO_MIGRATE is "
                "off: run `onceward migrate`"
            )
        for migration in await self._opening.migrate():
            log.info("migration.applied", migration=str(migration))

    # -- the parts -----------------------------------------------------------------------------------------

    def _components(self, roles: frozenset[RoleName]) -> Sequence[tuple[str, Component]]:
        """What these roles consist of, in the order of starting. The web comes last: it answers when all else works."""
        self.engine = Engine(self.database, self.app.registry, event_types=self.app.event_types)
        outbox = make_outbox(self.database, self.app, self.settings, engine=self.engine, upkeep="worker" in roles)
        outbox.install(self.app.registry)
        self.engine.wakes_live = bool(self.app.live)
        self.engine.tiers = Tiers.parse(self.settings.limit_tiers)
        early = self._early_refusal()
        self.engine.early = early
        components: list[tuple[str, Component]] = [
            ("engine", self.engine),
            ("audit sealer", Sealer(self.database)),
            ("old logins", Loop("old logins", self._forget_logins, every_s=3600)),
            ("queue gauges", Loop("queue gauges", partial(observe_queues, self.database), every_s=15)),
            ("outbox", outbox),
        ]
        if "scheduler" in roles:
            schedules = Scheduler(self.database, self.app.schedules.values(), waker=self.engine.waker)
            components.append(("scheduler", schedules))
        if early is not None:
            components.append(("early refusal", early))
        if "worker" in roles:
            registry = self.app.registry
            office = PostOffice(self.database, self.settings, self.engine.templates, registry, waker=self.engine.waker)
            components.append(("post office", office))
            components.append(("worker", self._worker(self.engine, outbox)))
            components.append(("checkpoints", Loop("checkpoints", partial(checkpoint, self.database), every_s=60)))
            components.append(("expired holds", Loop("expired holds", partial(reap, self.database), every_s=30)))
            components += self._limits()
            components.append(("old workflows", Loop("old workflows", self._prune_workflows, every_s=60)))
        inbox = self._inbox(self.engine)
        components.append(("inbox", inbox))
        if "web" in roles:
            dashboard = Site(self.app, self.database, self.engine, self.settings, outbox)
            live = self._live(self.engine, dashboard)
            self.web = self._web(self.engine, inbox, live, outbox, dashboard)
            components += [("dashboard", dashboard), ("live", live), ("web", self.web)]
        components += [(name, make(self)) for name, make in self.app.components]
        return components

    def _worker(self, engine: Engine, outbox: Outbox) -> Worker:
        settings = self.settings
        options = WorkerOptions(
            concurrency=settings.worker_concurrency,
            queue_concurrency=outbox.queue_concurrency,
            only_queues=settings.queues or None,
            poll_s=settings.poll_interval_ms / 1000,
            grace_s=settings.shutdown_grace_s,
            keep_finished=timedelta(days=settings.retention_days),
            version=__version__,
        )
        return Worker(
            self.database, self.app.registry, engine.waker, options=options, open_tx=engine.open_tx, count=count
        )

    def _early_refusal(self) -> EarlyRefusal | None:
        url = self.settings.redis_url
        return None if url is None else EarlyRefusal(url.get_secret_value(), self.database)

    def _limits(self) -> list[tuple[str, Component]]:
        bounds = Bounds(self.settings.limit_global_min, self.settings.limit_global_max)
        components: list[tuple[str, Component]] = [
            ("adaptive limit", AdaptiveLimit(self.database, bounds=bounds)),
            ("limits", Loop("limits", partial(reconcile, self.database), every_s=300)),
        ]
        return components

    async def _prune_workflows(self) -> None:
        async with self.database.acquire() as conn:
            await set_aside_unknown(conn)
            await prune_workflows(conn, keep=timedelta(days=self.settings.retention_days))

    async def _forget_logins(self) -> None:
        async with self.database.acquire() as conn:
            await forget_expired(conn)
            await forget_old(conn)
            await forget_idle(conn)

    def _inbox(self, engine: Engine) -> Inbox:
        """On every node: workers and schedulers keep it in order even where nothing listens."""
        settings = self.settings
        return Inbox(
            self.database,
            self.app.registry,
            self.app.handlers,
            engine.waker,
            open_tx=engine.open_tx,
            box=secret_box(settings),
            public_url=settings.public_url,
            upkeep=UpkeepOptions(
                sql_claim_expiry_s=settings.sql_claim_expiry_s,
                keep=timedelta(days=settings.retention_days),
                keep_keys=timedelta(days=settings.dedupe_days),
            ),
        )

    def _live(self, engine: Engine, dashboard: Site) -> LiveNode:
        settings = self.settings
        registry = LiveRegistry()
        registry.include(self.app.live)
        registry.add(part_query(dashboard))
        return LiveNode(
            self.database,
            registry,
            waker=engine.waker,
            options=LiveOptions(
                max_connections=settings.live_max_connections,
                max_connections_per_organization=settings.live_max_connections_per_organization,
                retention_s=settings.live_retention_s,
                query_timeout_s=settings.live_query_timeout_s,
                runners=settings.live_runners,
                origins=settings.cors_origins,
            ),
            authenticate=authenticator(self.database, verifier_from(settings)),
            hosts=() if settings.public_url is None else (settings.public_url,),
        )

    def _web(self, engine: Engine, inbox: Inbox, live: LiveNode, outbox: Outbox, dashboard: Site) -> WebServer:
        """The engine's routers, then the apps'. Bare ASGI parts are mounted on the dispatcher by their prefix."""
        api = create_api(
            settings=self.settings,
            database=self.database,
            engine=engine,
            health=self.health,
            version=__version__,
            routers=(
                login_router(),
                access_router(),
                evidence_router(),
                dashboard_router(dashboard),
                messages_router(),
                sources_router(inbox, secret_box(self.settings)),
                events_router(),
                outbound_router(outbox),
                portal_router(outbox),
                workflows_router(),
                limits_router(),
                *self.app.routers,
            ),
        )
        dispatcher = Dispatcher(api)
        dispatcher.mount("/webhooks", inbox.receiver, direct=inbox.receiver.direct)
        dispatcher.mount("/live", live.endpoint)
        return WebServer(dispatcher, self.settings)


def make_outbox(
    database: Database, app: Onceward, settings: Settings, *, engine: Engine | None = None, upkeep: bool = False
) -> Outbox:
    """The outbox of a process, from its settings. Whoever made it stops it."""
    options = OutboxOptions(
        concurrency=settings.delivery_concurrency,
        retry_concurrency=max(1, settings.delivery_concurrency // 4),
        timeout_s=settings.delivery_timeout_s,
        allow_loopback_http=settings.allow_loopback_endpoints,
        user_agent=f"Onceward-Webhooks/{__version__}",
        keep=timedelta(days=settings.retention_days),
        keep_keys=timedelta(days=settings.dedupe_days),
    )
    return Outbox(
        database,
        box=secret_box(settings),
        catalogue=app.event_types,
        options=options,
        waker=None if engine is None else engine.waker,
        upkeep=upkeep,
        tell=None if engine is None else partial(_tell_owner, engine),
    )


async def _tell_owner(engine: Engine, notice: Notice) -> None:
    """A mail to the owner of an endpoint; the key makes it one, however often this is tried."""
    async with engine.transaction(organization=notice.organization_id) as tx:
        await tx.send(TEMPLATE, to=notice.owner, key=notice.key, data=notice.data, channel="email")
