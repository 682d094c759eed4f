"""The handlers of an app's webhooks: one per task, with the jobs that follow it, and the engine's own where the app
has none."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from onceward import inject
from onceward.event_reports import REPORT_BATCH, apply_report, apply_report_and_reply, apply_reports
from onceward.inbox.event import Event
from onceward.inbox.handlers import (
    Before,
    Declared,
    Handler,
    Ordering,
    engine_handler,
    follower,
    handler,
    only_followers,
    task_name,
)
from onceward.messages.inbound import inbound_texts
from onceward.messages.reports import delivery_reports
from onceward.messages.service_states import account_events
from onceward.payments.declarations import payment_services, service_class
from onceward.payments.events import apply_event
from onceward.tx import Tx
from onceward.webhooks.registry import PROVIDERS
from onceward.work import AppRegistry, Claimed, RetryPolicy

PAYMENTS_APP = "payments"
"""The app of the webhook sources that payment accounts register: the machine of payments handles their events."""


class EventHandlers:
    """Which function handles which type of event.

    Two apps may handle a type; each then serves the sources that name it.
    """

    def __init__(self, app: str, registry: AppRegistry) -> None:
        self._app = app
        self._registry = registry
        self.by_task: dict[str, Handler] = {}
        self._followers: dict[str, list[str]] = {}
        self._implied: set[str] = set()
        """Tasks of the engine: a handler of the app replaces them."""
        self._payment_events: set[str] = set()
        self._shared: set[str] = set()
        """Types that several included apps handle: only sources that name their app have a handler for them."""
        for provider, declared in (*delivery_reports().items(), *account_events().items()):
            for type in declared.types:
                for each in self._apps_of(provider):
                    self._handle_reports(task_name(provider, type, app=each))
        for provider, texts in inbound_texts().items():
            for type in texts.types:
                for each in self._apps_of(provider):
                    self._handle_texts(task_name(provider, type, app=each), ordering=texts.ordering)

    def declare(
        self,
        function: Callable[..., Any],
        provider: str,
        type: str,
        *,
        ordering: Ordering,
        retry: RetryPolicy,
        timeout_s: float | None,
        as_job: bool,
        batch: int,
        handles_replies: bool,
    ) -> None:
        """Check the function's signature and let it handle events of this type."""
        name = task_name(provider, type)
        if not inspect.iscoroutinefunction(function):
            raise TypeError(f"{name}: an event handler must be `async def`; enqueue a job to run sync code")
        signature = inject.read(function, known=(Event, Tx), name=name)
        if signature.arguments:
            raise TypeError(f"{name}: parameter {signature.arguments[0]!r} is neither `Event[...]` nor `Tx`")
        declared = Declared(
            function=function,
            provider=provider,
            type=type,
            event_parameter=signature.parameter(Event),
            event_annotation=signature.annotation(Event),
            tx_parameter=signature.parameter(Tx),
            retry=retry,
            timeout_s=timeout_s,
            ordering=ordering,
            batch=batch,
        )
        before = apply_report if handles_replies else apply_report_and_reply
        for app in self._apps_of(provider):
            self._declare(replace(declared, app=app), as_job=as_job, before=before)

    def handle_payment_accounts(self) -> None:
        """Handle the events of the sources that payment accounts register."""
        for service in payment_services():
            for type in service_class(service).event_types:
                self._handle_payment_events(task_name(service, type, app=PAYMENTS_APP))

    def handle_payments(self, source: str, service: str) -> None:
        """Handle the events of a source that an app declares as a payment account."""
        for type in service_class(service).event_types:
            self._handle_payment_events(task_name(source, type))

    def include(self, other: EventHandlers) -> None:
        """Add the handlers of another app."""
        for name in other._shared:
            self._shared.add(name)
            self._registry.tasks.pop(name, None)
            self.by_task.pop(name, None)
            self._implied.discard(name)
        self._payment_events |= other._payment_events
        for name in other._payment_events & self.by_task.keys():
            if name not in self._implied:
                raise _two_owners(name)
        for name, included in other.by_task.items():
            self._handle(included, implied=name in other._implied)
        for name, tasks in other._followers.items():
            shared = self._followers.setdefault(name, [])
            shared.extend(tasks)
            # An included handler reads the followers of its own app, so both apps must share one list.
            other._followers[name] = shared

    def _apps_of(self, provider: str) -> tuple[str | None, ...]:
        """Return for whose sources a handler is registered: those of this app, and those that name no app."""
        return (self._app, None) if provider in PROVIDERS else (None,)

    def _declare(self, declared: Declared, *, as_job: bool, before: Before) -> None:
        name = declared.name
        if not as_job:
            self._handle(handler(declared, others=self._followers_of(name), before=before))
            return
        task = follower(declared)
        self._registry.add(task)
        self._followers.setdefault(name, []).append(task.name)
        # Handled for its jobs, until the app has a handler of its own.
        self._handle(only_followers(name, self._followers_of(name), before=before), implied=True)

    def _handle(self, handler: Handler, *, implied: bool = False) -> None:
        name = handler.task.name
        if name in self._shared:
            return
        if name in self._payment_events and not implied:
            raise _two_owners(name)
        if name in self._implied:
            if implied:
                return
            del self._registry.tasks[name]
            self._implied.discard(name)
        if name in self._registry.tasks:
            if implied:
                return
            if name.partition("/")[0] not in PROVIDERS:
                raise ValueError(f"{name} has two handlers: register one of them with as_job=True, as a job of its own")
            # The handlers are of two apps, because each of them already has its task for the sources of its app.
            self._shared.add(name)
            del self._registry.tasks[name], self.by_task[name]
            return
        self._registry.add(handler.task)
        self.by_task[name] = handler
        if implied:
            self._implied.add(name)

    def _handle_reports(self, name: str) -> None:
        """Apply the delivery reports of a type, many in one commit, until the app has a handler of its own."""
        made = engine_handler(name, self._followers_of(name), apply=apply_reports, batch=REPORT_BATCH)
        self._handle(made, implied=True)

    def _handle_texts(self, name: str, *, ordering: Ordering) -> None:
        """Obey STOP, START and HELP, one after the other of a person, until the app has a handler of its own."""
        made = only_followers(name, self._followers_of(name), before=apply_report_and_reply, ordering=ordering)
        self._handle(made, implied=True)

    def _handle_payment_events(self, name: str) -> None:
        self._payment_events.add(name)
        if name in self._registry.tasks and name not in self._implied:
            raise _two_owners(name)
        self._handle(only_followers(name, self._followers_of(name), before=_apply_payment_event), implied=True)

    def _followers_of(self, name: str) -> Any:
        return partial(self._followers.get, name, ())


async def _apply_payment_event(work: Claimed, tx: Tx | None) -> Any:
    return await apply_event(work.body, tx)


def _two_owners(name: str) -> ValueError:
    return ValueError(
        f"{name} has two handlers: app.payments.account(...) handles this source, and @app.on handles this type of it."
        " Use the hooks of app.payments instead, or register the handler with as_job=True, as a job of its own"
    )
