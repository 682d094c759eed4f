"""Deliver a webhook: sign a stored payload, send it once, and turn the response into an outcome.

No transaction and no database connection is held during the request. If the worker dies, another worker sends the
delivery again with the same `webhook-id`: delivery is at least once, and receivers deduplicate by that id.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from onceward.db import Connection, Database
from onceward.http import GuardedClient, HttpError, Response
from onceward.outbox import metrics
from onceward.outbox.endings import delivery_end_hook
from onceward.outbox.endpoint_auth import Tokens
from onceward.outbox.errors import ExpressionFailed, TokenRefused
from onceward.outbox.publishing import QUEUE, RETRY_QUEUE
from onceward.outbox.report import AttemptReport
from onceward.outbox.schedule import LONGEST_RETRY_AFTER_S, POLICY, wait_s
from onceward.outbox.targets import Target, Targets
from onceward.statements import read_statement
from onceward.work import AppRegistry, Claimed, Permanent, Retry, Task
from onceward.work.gate import gate
from onceward.work.task import KindRoutines

LOAD = read_statement("outbox", "load_deliveries")
FINISH = read_statement("outbox", "finish_deliveries")
BUSY = frozenset({429, 503})
KEPT_CHARACTERS = 1024
MOST_TRANSFORMED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one endpoint."""

    target: Target
    message_id: str
    type: str
    body: bytes
    trace: str | None = None
    """The span that published the event, as a `traceparent`."""
    headers: Mapping[str, str] | None = None
    """What a forwarded event arrived with: its content type, its source and its id."""

    @property
    def context(self) -> Mapping[str, str] | None:
        """Return the trace to which the span of the delivery belongs."""
        return None if self.trace is None else {"trace": self.trace}


class DeliveryFailed(Retry):
    """The delivery will be retried. The worker stores `details`, which are the report as JSON, with the attempt."""

    def __init__(self, message: str, after_s: float, report: AttemptReport) -> None:
        super().__init__(message, after=after_s)
        self.report = report
        self.details = report.as_json()


class DeliveryEnded(Permanent):
    """The delivery will not be retried: no attempts are left, or the endpoint is disabled or asked us to stop."""

    def __init__(self, message: str, report: AttemptReport) -> None:
        super().__init__(message)
        self.report = report
        self.details = report.as_json()


class DeliveryKind:
    """Deliveries as a kind of work: how to load their bodies, and the statement that settles successes in batches."""

    name: str = "delivery"
    routines = KindRoutines(settled="onceward.settled_delivery", ended="onceward.ended_delivery")
    finish = FINISH

    def __init__(self, targets: Targets) -> None:
        self._targets = targets

    async def load(self, conn: Connection, ids: list[int]) -> Mapping[int, Delivery]:
        rows = await conn.fetch(LOAD, ids)
        targets = await self._targets.get(conn, [(row["endpoint_id"], row["version"]) for row in rows])
        return {
            row["id"]: Delivery(
                targets[row["endpoint_id"]], row["message_id"], row["type"], row["body"], row["trace"], row["headers"]
            )
            for row in rows
            if row["endpoint_id"] in targets
        }


class Deliverer:
    """Sends deliveries through the guarded client."""

    def __init__(self, db: Database, client: GuardedClient, tokens: Tokens, *, timeout_s: float = 10.0) -> None:
        self._db = db
        self._client = client
        self._tokens = tokens
        self._timeout_s = timeout_s

    def tasks(self) -> tuple[Task, Task]:
        """Return one task for first attempts and one for retries.

        Separate queues keep retries from delaying new events.
        """
        shared: dict[str, Any] = {
            "run": self.run,
            "kind": "delivery",
            "retry": POLICY,
            "timeout_s": self._timeout_s + 20,
            "outside": True,
            "ahead": True,
            "critical": False,
        }
        return (
            Task(name="outbox.deliver", queue=QUEUE, **shared),
            Task(name="outbox.redeliver", queue=RETRY_QUEUE, **shared),
        )

    def install(self, registry: AppRegistry, targets: Targets) -> None:
        """Register the kind and its tasks. They replace those that an earlier runtime of the same app registered."""
        registry.add_kind(DeliveryKind(targets))
        for task in self.tasks():
            registry.tasks[task.name] = task
            if (ended := delivery_end_hook(registry.delivery_hooks)) is not None:
                registry.set_end_hook(task.name, ended)

    async def run(self, work: Claimed, _tx: None) -> dict[str, Any]:
        """Make one attempt. Return the result to store, or raise the failure to store."""
        delivery: Delivery = work.body
        target = delivery.target
        if not target.active or target.signer is None:
            raise DeliveryEnded("the endpoint is disabled", AttemptReport(reason="endpoint_disabled"))
        started = time.monotonic()
        try:
            body = _body(target, delivery)
            if body is None:
                return AttemptReport(skipped="filter").as_json()
            headers = await self._headers(target, delivery, body)
        except (ExpressionFailed, TokenRefused) as error:
            report = AttemptReport(cause=type(error).__name__)
            raise _failure(work, target, str(error), report) from None
        gate("delivery-before-send")
        try:
            response = await self._client.request(
                "POST", target.url, headers=headers, body=body, timeout_s=self._timeout_s, identity=target.identity
            )
        except HttpError as error:
            ms = round((time.monotonic() - started) * 1000)
            metrics.count_attempt("no_answer")
            report = AttemptReport(ms=ms, cause=type(error).__name__, trips=True)
            raise _failure(work, target, error.reason, report) from None
        gate("delivery-after-send")
        metrics.count_attempt(f"{response.status // 100}xx")
        return await self._judge(work, target, response)

    async def _headers(self, target: Target, delivery: Delivery, body: bytes) -> dict[str, str]:
        """Return the headers of one attempt: the customer's, those of a forwarded event, and our signature."""
        assert target.signer is not None
        signed = target.signer.headers(
            message_id=delivery.message_id, type=delivery.type, body=body, now=datetime.now(UTC)
        )
        headers = {**target.headers, **signed}
        if delivery.headers is not None:
            headers |= delivery.headers
            if target.transform is not None:
                headers["Content-Type"] = "application/json"
        if target.auth is not None and target.auth["kind"] == "oauth":
            token = await self._tokens.get(target.endpoint_id, target.version, target.auth, timeout_s=self._timeout_s)
            headers["Authorization"] = f"Bearer {token}"
        return headers

    async def _judge(self, work: Claimed, target: Target, response: Response) -> dict[str, Any]:
        """Return the result of a successful attempt, or raise the failure that the response means."""
        status = response.status
        report = AttemptReport(status=status, ms=response.elapsed_ms, response=_text(response))
        asks_to_stop = response.headers.get("webhook-delivery", "").strip().lower() == "disable"
        if response.ok:
            if asks_to_stop:
                await self._db.execute("select onceward.disable_endpoint($1, 'asked')", target.endpoint_id)
            return report.as_json()
        if status == 401 and target.auth is not None:
            self._tokens.forget(target.endpoint_id)
        if status == 410:
            raise DeliveryEnded("the endpoint is gone (410)", replace(report, disable="gone"))
        if asks_to_stop:
            raise DeliveryEnded("the endpoint asked us to stop", replace(report, disable="asked"))
        if 300 <= status < 400:
            raise _failure(work, target, f"answered {status}: redirects are not followed", report)
        busy_s = _retry_after_s(response) if status in BUSY else None
        raise _failure(work, target, f"answered {status}", replace(report, trips=status >= 500), busy_s=busy_s)


def _body(target: Target, delivery: Delivery) -> bytes | None:
    """Return the bytes to send, or None if the filter of the endpoint leaves the event out."""
    if target.filter is None and target.transform is None:
        return delivery.body
    from onceward.outbox import expressions

    try:
        if target.filter is not None and not expressions.is_wanted(target.filter, delivery.body):
            return None
    except ExpressionFailed as error:
        raise ExpressionFailed(f"the filter {error}") from None
    if target.transform is None:
        return delivery.body
    try:
        return expressions.transformed(target.transform, delivery.body, most_bytes=MOST_TRANSFORMED_BYTES)
    except ExpressionFailed as error:
        raise ExpressionFailed(f"the transformation {error}") from None


def _failure(
    work: Claimed, target: Target, message: str, report: AttemptReport, *, busy_s: float | None = None
) -> DeliveryFailed | DeliveryEnded:
    """Return the failure to raise: a retry with its wait, or the end of the delivery if no attempts are left."""
    failures = work.attempts + 1
    report = replace(report, counted=failures >= target.quick)
    wait = wait_s(target.waits_s, failures)
    if wait is None:
        return DeliveryEnded(f"{message}; all {failures} attempts failed", replace(report, reason="tries_used_up"))
    if busy_s is not None:
        wait = max(wait, busy_s)
    return DeliveryFailed(message, wait, replace(report, park_s=busy_s))


def _retry_after_s(response: Response) -> float | None:
    """Return the seconds in the `Retry-After` header, at most a day, or None if it is absent or unreadable."""
    text = response.headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isdecimal():
        requested_s = float(text[:9])
    else:
        try:
            requested_s = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return None
    return min(max(requested_s, 0.0), LONGEST_RETRY_AFTER_S)


def _text(response: Response) -> str:
    return response.body_first_kb.decode("utf-8", "replace").replace("\x00", "")[:KEPT_CHARACTERS]
