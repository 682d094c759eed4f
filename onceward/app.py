"""The application object. Its decorators register handlers, and `include` adds one app to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast

from onceward.decorators import (
    DeliveryEndFunction,
    EventHandler,
    JobDecorator,
    MessageEndFunction,
    MessageFunction,
    QueryDecorator,
    ScheduleFunction,
    WorkflowDecorator,
    require_async,
)
from onceward.durations import Duration, in_seconds
from onceward.event_handlers import PAYMENTS_APP, EventHandlers
from onceward.feature import EVERY_ROLE, Feature, Part, Reference, Role, SealedColumn, Stage, Traced
from onceward.inbox.event import EventKind
from onceward.inbox.handlers import (
    Handler,
    Ordering,
)
from onceward.live import LiveRegistry, Rule, Topic
from onceward.messages import HookState
from onceward.messages.delivery import hook_state
from onceward.messages.endings import ENDED
from onceward.outbox import Catalogue, EventType
from onceward.payments.declarations import Declarations, PaymentRegistry
from onceward.payments.job_queue import QUEUE as PAYMENTS_QUEUE
from onceward.payments.jobs import Jobs
from onceward.schedules import Cron, Every, Schedule
from onceward.schedules.declaration import ScheduleOptions, declare
from onceward.script_engine import open_engine
from onceward.services import Services
from onceward.settings import FeatureSettings, SettingsError, load_feature_settings
from onceward.work import EVENTS, AppRegistry, MessageHook, RetryOption, as_policy
from onceward.work.offered import Offered, offered_tasks

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from fastapi import APIRouter

    from onceward.engine import Engine
    from onceward.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=FeatureSettings)


class NoSuchFolder(SettingsError):
    """A folder of SQL files that the app names does not exist."""


class Onceward:
    """`app = Onceward("shop")`; `onceward worker shop.main:app` runs it."""

    def __init__(
        self,
        name: str,
        *,
        migrations: Path | str | None = None,
        functions: Path | str | None = None,
        settings: type[FeatureSettings] | None = None,
        commands: Sequence[Reference] = (),
        pages: Reference | None = None,
        checks: Reference | None = None,
        erasers: Reference | None = None,
        metrics: str | None = None,
        alerts: Path | None = None,
        traced: Sequence[Traced] = (),
        sealed: Sequence[SealedColumn] = (),
        growth: Reference | None = None,
    ) -> None:
        """Create an app. A reference (`package.module:name`) is imported when it is first needed.

        `migrations`: the folder of numbered SQL files. `functions`: the folder of repeatable files with SQL functions.
        `settings`: fields of the model become `ONCEWARD_<NAME>_<FIELD>`. `commands`: functions that add commands to a
        Typer application. `alerts`: a file with Prometheus alert rules. `sealed`: the columns with encrypted values,
        see docs/trust.md#encrypted-columns-of-an-app. docs/features.md explains `pages`, `checks`, `erasers`, `traced`,
        `growth`.
        """
        self.name = name
        self._own = Feature(
            name=name,
            migrations=None if migrations is None else Path(migrations),
            functions=None if functions is None else Path(functions),
            settings=settings,
            commands=tuple(commands),
            pages=pages,
            checks=checks,
            erasers=erasers,
            metrics=metrics,
            alerts=alerts,
            traced=tuple(traced),
            sealed=tuple(sealed),
            growth=growth,
        )
        self.registry = AppRegistry(apps={name}, sealed=set(sealed))
        self.registry.add_kind(EventKind())
        self._events = EventHandlers(name, self.registry)
        self.live = LiveRegistry()
        self.routers: list[APIRouter] = []
        self.schedules: dict[str, Schedule] = {}
        self.services = Services()
        """The external services. An included app uses the services of the app that includes it."""
        self._parts: list[Part] = []
        self._settings: dict[type[FeatureSettings], FeatureSettings] = {}
        self._included: list[Onceward] = []
        self.event_types = Catalogue()
        self.registry.payments = PaymentRegistry()
        self.payments = Declarations(
            lambda: self.registry.payments, first_use=self._use_payments, handle=self._events.handle_payments
        )
        """Declares what follows when somebody pays (docs/payments.md)."""

    @property
    def handlers(self) -> dict[str, Handler]:
        """The handlers of webhooks, by the name of their task."""
        return self._events.by_task

    def include(self, other: Onceward) -> None:
        """Add everything of another app to this one. Two handlers of one source or tasks of one name are an error.

        Two apps may handle the same type of a provider. Each then serves the sources that name it as their app.
        """
        self._events.include(other._events)
        self.registry.apps |= other.registry.apps
        for task in other.registry:
            if task.name not in self.handlers and task.name not in other.handlers:
                if task.queue == PAYMENTS_QUEUE and task.name in self.registry.tasks:
                    continue  # the machine of payments, which both apps use
                self.registry.add(task)
        for kind in other.registry.kinds.values():
            self.registry.add_kind(kind)
        self.live.include(other.live)
        self.routers.extend(other.routers)
        self.schedules.update(other.schedules)
        self.registry.template_folders += other.registry.template_folders
        self.registry.message_hooks += other.registry.message_hooks
        self.registry.delivery_hooks += other.registry.delivery_hooks
        self.registry.end_hooks |= other.registry.end_hooks
        self.registry.sealed |= other.registry.sealed
        self.registry.payments.include(other.registry.payments)
        if self.registry.payments.services is not None:
            self.registry.payments.services = lambda: self.services  # those of both apps from here on
        other._share_payments(self.registry.payments)
        self._included.append(other)
        other._share(self.services)
        self.event_types.include(other.event_types)

    def _share(self, services: Services) -> None:
        self.services = services
        for each in self._included:
            each._share(services)

    def _share_payments(self, payments: PaymentRegistry) -> None:
        self.registry.payments = payments
        for each in self._included:
            each._share_payments(payments)

    # -- payments --------------------------------------------------------------------------------------------------

    def _use_payments(self) -> None:
        """Add the machine of payments to the app, and handlers for the sources that payment accounts register."""
        if self.registry.payments.services is not None:
            return
        self.registry.payments.services = lambda: self.services
        self.registry.apps.add(PAYMENTS_APP)
        for task in Jobs(lambda: self.services).tasks():
            self.registry.add(task)
        self._events.handle_payment_accounts()

    # -- parts of the app's own ------------------------------------------------------------------------------------

    def features(self) -> tuple[Feature, ...]:
        """Return the features of this app and of the apps it includes. Call it after all decorators have run."""
        for option, folder in (("migrations", self._own.migrations), ("functions", self._own.functions)):
            if folder is not None and not folder.is_dir():
                raise NoSuchFolder(
                    f"app {self.name!r}: {option}: there is no folder {str(folder)!r}, so its SQL would "
                    f"never be applied"
                )
        included = tuple(feature for each in self._included for feature in each.features())
        return (*included, replace(self._own, parts=tuple(self._parts)))

    def part(
        self,
        name: str,
        make: Reference | Callable[[Any], Any],
        *,
        roles: frozenset[Role] = EVERY_ROLE,
        stage: Stage = "app",
    ) -> None:
        """Add a part to the running process: `make(context)` returns an object with `start` and `stop`."""
        self._parts.append(Part(name, make, roles=roles, stage=stage))

    def settings(self, model: type[S]) -> S:
        """Return the settings that this app declares. The first call reads them from the environment."""
        if model not in self._settings:
            self._settings[model] = load_feature_settings(self.name, model)
        return cast(S, self._settings[model])

    def use_settings(self, settings: FeatureSettings) -> None:
        """Use these settings instead of the environment, for example in tests."""
        self._settings[type(settings)] = settings

    def offered(self) -> list[Offered]:
        """Return the jobs and workflows that programs may enqueue or start over HTTP, with their schemas."""
        return offered_tasks(self.registry)

    def engine(self, *, settings: Settings | None = None) -> AbstractAsyncContextManager[Engine]:
        """Open the database for a script: `async with app.engine() as engine:` (docs/work.md#from-a-script)."""
        return open_engine(self, settings)

    def routes(self, router: APIRouter) -> None:
        """Serve these routes in addition to the engine's own."""
        self.routers.append(router)

    # -- events ----------------------------------------------------------------------------------------------------

    def on(
        self,
        provider: str,
        type: str,
        /,
        *,
        ordering: Ordering = False,
        max_attempts: int | None = None,
        retry: RetryOption | None = None,
        timeout: Duration | None = 30.0,
        as_job: bool = False,
        batch: int = 1,
        handles_replies: bool = False,
    ) -> Callable[[EventHandler], EventHandler]:
        """Register a handler for webhooks of this type from a provider, or from one source by its name.

        A type has one handler; each further handler needs `as_job=True` and runs as a job of its own. With `ordering`,
        events about the same object are handled one after the other. The object is the one that the provider names
        (True), the value at a dotted path in the payload, or the result of a function of the payload. With `batch=25`,
        the handler is `(events: list[Event[...]], tx: Tx)` and gets up to 25 events of one organization in one
        transaction; if it fails, each event runs alone. With `handles_replies`, the handler obeys STOP, START and HELP
        in texts of people itself; otherwise the engine does, in the handler's transaction.
        """

        def register(function: EventHandler) -> EventHandler:
            self._events.declare(
                function,
                provider,
                type,
                ordering=ordering,
                retry=as_policy(retry, max_attempts, EVENTS),
                timeout_s=None if timeout is None else in_seconds(timeout),
                as_job=as_job,
                batch=batch,
                handles_replies=handles_replies,
            )
            return function

        return register

    # -- live ------------------------------------------------------------------------------------------------------

    @property
    def query(self) -> QueryDecorator:
        """Register a live query: `@app.query` or `@app.query(per="user", ...)`; `QueryDecorator` lists the options."""
        return QueryDecorator(self.live)

    def topic(self, pattern: str, *, allow: Rule = "viewer", replay: int = 0, presence: bool = False) -> Topic:
        """Let clients subscribe to topics like `cohort/{id}/enrollments`. They first get the last `replay` messages."""
        topic = Topic.declare(pattern, allow=allow, replay=replay, presence=presence)
        self.live.add_topic(topic)
        return topic

    # -- outbound webhooks -----------------------------------------------------------------------------------------

    def event_type(self, name: str, model: Any = None, *, sample: Any, description: str = "") -> EventType:
        """Declare an event type that this app publishes, with a sample for customers.

        `tx.publish` validates the data against the model, and so does this method with the sample.
        """
        return self.event_types.declare(name, model, sample=sample, description=description, declared_by=self.name)

    # -- jobs ------------------------------------------------------------------------------------------------------

    @property
    def job(self) -> JobDecorator:
        """Register a function as a job: `@app.job` or `@app.job(queue="mail", ...)`; `JobDecorator` lists the
        options."""
        return JobDecorator(self.registry)

    # -- workflows -------------------------------------------------------------------------------------------------

    @property
    def workflow(self) -> WorkflowDecorator:
        """Register a workflow: `@app.workflow` or `@app.workflow(name=...)`; `WorkflowDecorator` lists the options."""
        return WorkflowDecorator(self.registry)

    # -- messages --------------------------------------------------------------------------------------------------

    def templates(self, folder: Path) -> None:
        """Add templates for `tx.send`: one folder per template, one file per language (docs/messages.md)."""
        self.registry.template_folders.append(folder)

    def on_message(
        self, state: HookState, /, *, template: str | None = None
    ) -> Callable[[MessageFunction], MessageFunction]:
        """Run the function when a message reaches a state: sent, delivered, read or failed.

        It runs once per message and state, in the transaction that records the state: `async def (tx: Tx, report:
        DeliveryReport)`. `template` limits it to the messages of one template.
        """
        checked = hook_state(state)

        def register(function: MessageFunction) -> MessageFunction:
            require_async(f"on_message({state!r})", function)
            self.registry.message_hooks.append(MessageHook(checked, template, function))
            return function

        return register

    def on_message_end(self, function: MessageEndFunction, /) -> MessageEndFunction:
        """Run `async def (tx: Tx, end: MessageEnd)` when the sending of a message ends in any way, in the same
        commit."""
        require_async("on_message_end", function)
        self.registry.message_hooks.append(MessageHook(ENDED, None, function))
        return function

    def on_delivery_end(self, function: DeliveryEndFunction, /) -> DeliveryEndFunction:
        """Run `async def (tx: Tx, end: DeliveryEnd)` when an outbound delivery ends in any way, in the same commit."""
        require_async("on_delivery_end", function)
        self.registry.delivery_hooks.append(function)
        return function

    # -- schedules -------------------------------------------------------------------------------------------------

    def cron(
        self,
        expression: str,
        /,
        *,
        tz: str = "UTC",
        **options: Unpack[ScheduleOptions],
    ) -> Callable[[ScheduleFunction], ScheduleFunction]:
        """Run the function at the times of a cron expression in a time zone. `ScheduleOptions` describes the
        options."""
        return self._schedule(Cron(expression, tz), options)

    def every(
        self,
        interval: Duration,
        /,
        **options: Unpack[ScheduleOptions],
    ) -> Callable[[ScheduleFunction], ScheduleFunction]:
        """Run the function at whole multiples of an interval (seconds or timedelta), counted from the Unix epoch."""
        return self._schedule(Every(in_seconds(interval)), options)

    def _schedule(
        self, timing: Cron | Every, options: ScheduleOptions
    ) -> Callable[[ScheduleFunction], ScheduleFunction]:
        def register(function: ScheduleFunction) -> ScheduleFunction:
            schedule = declare(function, timing, **options)
            self.registry.add(schedule.task)
            self.schedules[schedule.name] = schedule
            return function

        return register
