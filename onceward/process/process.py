"""One process: it opens the database, starts the parts that its roles need, and stops them in the reverse order.

A part has `start()`, which returns when the part is running, and `stop()`, which returns when the part has stopped. If
one part fails to start, the process stops the parts that it started before.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from onceward import __version__
from onceward.app import Onceward
from onceward.background import Loop, Supervisor, spawn, supervised_by
from onceward.background.supervisor import LOOK_EVERY_S
from onceward.connections import ConnectionBudget, connection_budget
from onceward.context import Context
from onceward.db import Database, FunctionFile, Migration, MigrationError, Unavailable, wait_for_server
from onceward.db.configured import ConfiguredDatabase
from onceward.db.connection_share import Demand
from onceward.db.errors import NewerSchema
from onceward.db.migration_files import known
from onceward.db.processes import ProcessNote
from onceward.engine import Engine
from onceward.feature import EVERY_ROLE, Features, Role, resolve
from onceward.health import Health, Unhealthy
from onceward.process.metrics import FAILING_LOOPS, LOOP_FAILURES, LOOPS_HUNG
from onceward.process.stages import Stages
from onceward.process.unfinished import refuse_during_restore, refuse_unfinished
from onceward.process.watchdog import Watchdog
from onceward.settings import Settings, check_prefixes, complete_settings, warn_of_unknown_names
from onceward.telemetry import get_logger
from onceward.trust.secrets import OrganizationSecrets, secret_box
from onceward.work.overdue import OverdueRequests

if TYPE_CHECKING:
    from onceward.web.server import WebServer
    from onceward.work import Worker

log = get_logger("onceward.process")


class Component(Protocol):
    """A part of the process.

    `start()` queries the database before it starts anything, because the process calls it again after a lost
    connection.
    """

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Process:
    """One process of Onceward: the engine's features and those of an app."""

    def __init__(
        self,
        app: Onceward,
        settings: Settings,
        features: Features,
        *,
        listens: bool = True,
        age_s: float | None = None,
    ) -> None:
        """With `listens=False` the role `web` opens no port: another server calls `process.web.asgi`.

        `age_s` is how long the operating system's process has existed; the log line of the start includes it.
        """
        self.listens = listens
        self._stages = Stages(imports_s=age_s)
        self.app = app
        self.settings = settings
        self.features = features.plus(app.features())
        self.health = Health()
        self.supervisor = Supervisor(
            count=lambda name: LOOP_FAILURES.labels(name).inc(), count_hung=lambda name: LOOPS_HUNG.labels(name).inc()
        )
        self._overdue = OverdueRequests(self.supervisor)
        self.health.add("loops", self._ask_loops)
        self.context: Context | None = None
        self.engine: Engine | None = None
        self.login_url: str | None = None
        """The login link that `up` prints for an administrator while no administrator is logged in."""
        self.login_account: str | None = None
        """The account that `login_url` opens."""
        self.too_old: NewerSchema | None = None
        """Why the process must end: the schema was contracted beyond what this code knows."""
        self._stop_requested = asyncio.Event()
        self._undo: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._opening = ConfiguredDatabase(settings, self.features.migrations)

    @property
    def database(self) -> Database:
        return self._opening.database

    @property
    def web(self) -> WebServer | None:
        """Return the HTTP server, or None if the process does not have the role `web`."""
        if self.context is None or "web" not in self.context.roles:
            return None
        from onceward.web.server import WebServer

        return self.context.part(WebServer)

    @property
    def worker(self) -> Worker | None:
        """Return the worker, or None if the process does not have the role `worker`."""
        if self.context is None or "worker" not in self.context.roles:
            return None
        from onceward.work import Worker

        return self.context.part(Worker)

    async def start(self, roles: Iterable[Role] = EVERY_ROLE) -> None:
        """Open the database, apply pending migrations and start the parts that these roles need."""
        FAILING_LOOPS.set_function(lambda: len(self.supervisor.failing()))
        with supervised_by(self.supervisor):
            await self._start(roles)

    async def _start(self, roles: Iterable[Role]) -> None:
        chosen = frozenset(roles)
        check_prefixes(self.features.settings)
        self.settings = complete_settings(self.settings, self.features.settings)
        warn_of_unknown_names(self.features.settings)
        if "web" in chosen and self.listens:
            from onceward.web.server import check_address

            check_address(self.settings)
        self.app.services.configure(self.settings)
        self._undo.append(("services", self.app.services.aclose))
        try:
            self._undo.append(("database", self._opening.close))
            wait_s = self.settings.database_wait_s
            # The modules of the parts are imported in a thread while PostgreSQL answers.
            loading = spawn(asyncio.to_thread(self._import_parts, chosen))
            self._undo.append(("imports", partial(_ended, loading)))
            await self._opening.open(wait_s=wait_s)
            self.health.add("database", self._ask_database)
            self._stages.end("database")
            await wait_for_server(partial(refuse_during_restore, self.database), limit_s=wait_s)
            await wait_for_server(self._prepare_schema, limit_s=wait_s)
            await wait_for_server(partial(refuse_unfinished, self.database), limit_s=wait_s)
            await wait_for_server(partial(self._note_process, chosen), limit_s=wait_s)
            self._stages.end("schema")
            await loading
            parts = self._make_parts(chosen)
            self._stages.end("parts_made")
            await self._watch_loop()
            for name, component in parts:
                await wait_for_server(component.start, limit_s=wait_s)
                self._undo.append((name, component.stop))
            await self._prepare_login(chosen)
            self._stages.end("parts_started")
        except BaseException:
            await self.stop()
            raise
        budget = self._budget(chosen)
        log.info(
            "process.started",
            app=self.app.name,
            roles=sorted(chosen),
            duration_ms=self._stages.total_ms,
            stages_ms=self._stages.in_ms,
            connections_max=budget.total,
            connections=str(budget),
        )

    async def stop(self) -> None:
        """Stop everything that was started. If one part fails to stop, the others are still stopped."""
        self.health.stopping = True
        cancelled = False
        while self._undo:
            name, undo = self._undo.pop()
            try:
                await undo()
            except asyncio.CancelledError:
                cancelled = True  # do not wait for this part any longer, but still stop those started before it
                log.warning("process.stop_cut_short", component=name)
            except Exception:
                log.exception("process.stop_failed", component=name)
        if cancelled:
            raise asyncio.CancelledError

    async def run(self, roles: Iterable[Role] = EVERY_ROLE, *, ready: Callable[[], None] | None = None) -> None:
        """Start, run until SIGINT or SIGTERM, then stop. After a second signal, do not wait for running work."""
        stop_requested = self._stop_requested
        loop = asyncio.get_running_loop()
        running = asyncio.current_task()

        def on_signal() -> None:
            if stop_requested.is_set() and running is not None:
                running.cancel()
            stop_requested.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)
        try:
            starting = spawn(self.start(roles))
            stopping = spawn(stop_requested.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():  # a running migration rolls back completely
                starting.cancel()
                await asyncio.wait({starting})
                return
            await starting
            if ready is not None:
                ready()
            await stopping
            log.info("process.stopping", grace_s=self.settings.shutdown_grace_s)
        finally:
            stop_requested.set()
            await self.stop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        if self.too_old is not None:
            raise self.too_old

    async def _prepare_login(self, roles: frozenset[Role]) -> None:
        """Store the address of the web server, and create the login link that `up` prints."""
        if self.web is None or not self.listens:
            return
        from onceward.trust.sessions import admin_link, save_web_address

        url = self.settings.public_url or self.web.url
        async with self.database.acquire() as conn:
            await save_web_address(conn, url)
        # Only for `up`: many people can read the logs that keep the output of `serve`. For the same reason a server of
        # your own gets a link only before the first login, unless a person reads the output on a terminal.
        if roles == EVERY_ROLE:
            private = self.settings.database_url is None or sys.stdout.isatty()
            if (link := await admin_link(self.database, after_first_login=private)) is not None:
                self.login_url = f"{url}/login?token={link.token}"
                self.login_account = link.email

    async def _watch_loop(self) -> None:
        watchdog = Watchdog(
            warn_s=self.settings.blocked_warn_s,
            limit_s=self.settings.blocked_limit_s,
            worker=lambda: self.worker,
            is_loop=self.supervisor.runs,
        )
        await watchdog.start()
        self._undo.append(("watchdog", watchdog.stop))
        self.supervisor.is_excused = lambda: self.database.is_away
        supervision = Loop("supervision", self._supervise, every_s=LOOK_EVERY_S)
        await supervision.start()
        self._undo.append(("supervision", supervision.stop))

    async def _supervise(self) -> None:
        self.supervisor.look()
        self._overdue.report()

    async def _ask_loops(self) -> None:
        """The check of `/readyz` that fails while a background loop keeps failing or hangs.

        `/readyz` and `doctor` name the loop.
        """
        if failing := self.supervisor.failing():
            raise Unhealthy(f"these loops keep failing or hang: {', '.join(failing)}")

    async def _ask_database(self) -> None:
        await self.database.fetchval("select 1")
        if self.database.is_away:
            raise Unavailable("PostgreSQL refuses new connections")

    def _demand(self, roles: frozenset[Role]) -> Demand | None:
        if self.settings.pgbouncer:
            return None
        budget = self._budget(roles)
        return Demand(outside=budget.total - budget.pool, pool=budget.pool)

    def _budget(self, roles: frozenset[Role]) -> ConnectionBudget:
        return connection_budget(
            pool_max=self.settings.pool_max,
            roles=roles,
            pgbouncer=self.settings.pgbouncer,
            servers=self.settings.database_servers,
        )

    async def _note_process(self, roles: frozenset[Role]) -> None:
        note = ProcessNote(
            self.database,
            known(self.features.migrations),
            service=self.settings.service,
            version=__version__,
            on_too_old=self._on_too_old,
            failing=self.supervisor.failing,
            overdue=self._overdue.counts,
            demand=self._demand(roles),
            connections_max=self.settings.connections_max,
        )
        await note.start()
        self._undo.append(("process note", note.stop))

    def _on_too_old(self, reason: NewerSchema) -> None:
        log.error("process.too_old", reason=str(reason))
        self.too_old = reason
        self.health.add("schema", self._refuse_too_old)
        self._stop_requested.set()

    async def _refuse_too_old(self) -> None:
        """The check of `/readyz` that fails."""
        assert self.too_old is not None
        raise self.too_old

    async def _prepare_schema(self) -> None:
        pending = await self._opening.pending_migrations()
        needed = [file for file in pending if not (isinstance(file, Migration) and file.contracts)]
        if needed and not self.settings.auto_migrate:
            raise MigrationError(
                f"{len(needed)} migrations or function files are pending, the first is {needed[0]}, and "
                "ONCEWARD_AUTO_MIGRATE is false: run `onceward migrate`"
            )
        missing = await self._opening.missing_privileges()
        if missing and not self.settings.auto_migrate:
            raise MigrationError(
                f"{len(missing)} privileges or policies are missing, for example `{missing[0]}`, perhaps because the "
                "database was restored on a server without our roles: run `onceward migrate`, which creates them again"
            )
        applied = await self._opening.migrate() if (pending or missing) and self.settings.auto_migrate else []
        await self.database.act_as_engine()
        if not applied:
            return
        migrations = [str(file) for file in applied if isinstance(file, Migration)]
        functions = [str(file) for file in applied if isinstance(file, FunctionFile)]
        for name in migrations:
            log.debug("migration.applied", migration=name)
        log.info(
            "schema.migrated", migrations=len(migrations), functions=len(functions), last=(migrations or functions)[-1]
        )

    # -- the parts -----------------------------------------------------------------------------------------

    def _import_parts(self, roles: frozenset[Role]) -> None:
        for part in self.features.parts(roles):
            resolve(part.make)

    def _make_parts(self, roles: frozenset[Role]) -> list[tuple[str, Component]]:
        """Create the parts of these roles in starting order. A factory finds the parts before it in the context."""
        box = secret_box(self.settings)
        self.engine = Engine(self.database, self.app.registry, event_types=self.app.event_types, box=box)
        context = Context(
            app=self.app,
            settings=self.settings,
            database=self.database,
            engine=self.engine,
            features=self.features,
            roles=roles,
            health=self.health,
            box=box,
            listens=self.listens,
        )
        self.context = context
        self.app.services.use_secrets(OrganizationSecrets(self.database, box))
        components: list[tuple[str, Component]] = [("engine", self.engine)]
        for part in self.features.parts(roles):
            component = resolve(part.make)(context)
            if component is not None:
                context.add(component)
                components.append((part.name, component))
        return components


async def _ended(task: asyncio.Task[None]) -> None:
    """Wait for the end of a thread, which cannot be interrupted. If the start failed before, its error does not
    matter."""
    await asyncio.gather(task, return_exceptions=True)
