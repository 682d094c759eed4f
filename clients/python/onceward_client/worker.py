"""A worker for jobs with `external=True`, over HTTP: for programs without a database connection."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from onceward_client.client import AsyncClient
from onceward_client.errors import ConnectionFailed, OncewardError
from onceward_client.models import ClaimedJob
from onceward_client.transport import REPEATABLE

log = logging.getLogger("onceward_client.worker")
PAUSES_S = (0.2, 1.0, 5.0)


class Permanent(Exception):
    """Raise it in a handler to end the job: it is not repeated."""


class RetryAfter(Exception):
    """Raise it in a handler to repeat the job after this time."""

    def __init__(self, seconds: float, message: str = "") -> None:
        super().__init__(message or f"repeat after {seconds} s")
        self.seconds = seconds


class LeaseLost(Exception):
    """The claim is lost: another worker has the job, or it has ended."""


class JobContext:
    """What a handler gets besides its job."""

    def __init__(self, worker: Worker, job: ClaimedJob) -> None:
        self._worker = worker
        self._job = job

    async def checkpoint(self, cursor: Any) -> None:
        """Save how far the job has come: the next attempt gets it as `job["cursor"]`."""
        await self._worker.call(self._job, "checkpoint", {"cursor": cursor}, REPEATABLE)


Handler = Callable[[ClaimedJob, JobContext], Awaitable[Any]]


class Worker:
    """Claims jobs and runs their handlers until `stop`. Effects of a handler elsewhere happen at least once."""

    def __init__(
        self,
        client: AsyncClient,
        handlers: Mapping[str, Handler],
        *,
        concurrency: int = 1,
        lease_s: float = 60.0,
        wait_s: float = 10.0,
        name: str | None = None,
    ) -> None:
        if not handlers:
            raise ValueError("handlers is empty: pass a function for each job, by its name")
        if concurrency < 1 or lease_s < 1:
            raise ValueError(f"concurrency and lease_s must be at least 1, not {concurrency} and {lease_s}")
        self._client = client
        self._handlers = handlers
        self._concurrency = concurrency
        self._lease_s = lease_s
        self._wait_s = wait_s
        self._name = name
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop` is called."""
        async with asyncio.TaskGroup() as slots:
            for _ in range(self._concurrency):
                slots.create_task(self._slot())

    def stop(self) -> None:
        """Claim nothing more. Jobs that run are finished."""
        self._stopping.set()

    async def call(self, job: ClaimedJob, verb: str, fields: Mapping[str, Any], key: str | None = None) -> Any:
        """Tell the server something about a claimed job. Raise `LeaseLost` if it is not ours any more."""
        path = f"/api/v1/external-jobs/{{job}}/{verb}"
        body = {"lease": job["lease"], **fields}
        try:
            return await self._client.transport.request(
                "POST", path, {"job": job["id"]}, {}, body=body, idempotency_key=key
            )
        except OncewardError as error:
            if error.status == 409 and error.type == "lease-lost":
                raise LeaseLost(str(error)) from None
            raise

    async def _slot(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                jobs = await self._claim()
                failures = 0
            except (OncewardError, ConnectionFailed) as error:
                log.warning("claim failed: %s", error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(PAUSES_S[min(failures, len(PAUSES_S) - 1)]):
                        await self._stopping.wait()
                failures += 1
                continue
            for job in jobs:
                if self._stopping.is_set():
                    await self._quietly(job, "release", {})
                else:
                    await self._perform(job)

    async def _claim(self) -> list[ClaimedJob]:
        body = {"tasks": list(self._handlers), "most": 1, "wait_s": self._wait_s, "lease_s": self._lease_s}
        answer = await self._client.transport.request(
            "POST",
            "/api/v1/external-jobs/claim",
            {},
            {},
            body={**body, "worker": self._name},
            idempotency_key=REPEATABLE,
            timeout_s=self._wait_s + 30,
            retries=0,
        )
        return answer["jobs"]

    async def _perform(self, job: ClaimedJob) -> None:
        running = asyncio.ensure_future(self._handlers[job["task"]](job, JobContext(self, job)))
        beat = asyncio.create_task(self._beat(job))
        try:
            await asyncio.wait({running, beat}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                ended = beat.result()
                running.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await running
                raise ended
            await self.call(job, "finish", {"result": running.result()})
        except LeaseLost as error:
            log.warning("claim lost: %s", error)
        except asyncio.CancelledError:
            running.cancel()
            raise
        except Exception as error:
            log.warning("job %s of %s failed: %s", job["id"], job["task"], error)
            failed: dict[str, Any] = {"error": (str(error) or type(error).__name__)[:4000]}
            if isinstance(error, Permanent):
                failed["permanent"] = True
            if isinstance(error, RetryAfter):
                failed["retry_s"] = error.seconds
            await self._quietly(job, "fail", failed)
        finally:
            beat.cancel()

    async def _beat(self, job: ClaimedJob) -> Exception:
        """Extend the claim three times in its life. Return why the handler must stop."""
        heard_at = time.monotonic()
        while True:
            await asyncio.sleep(self._lease_s / 3)
            try:
                answer = await self.call(job, "heartbeat", {"lease_s": self._lease_s}, REPEATABLE)
                heard_at = time.monotonic()
                if answer["state"] == "cancel":
                    return RuntimeError("cancelled by an operator")
            except LeaseLost as error:
                return error
            except (OncewardError, ConnectionFailed):
                if time.monotonic() - heard_at > self._lease_s:
                    return LeaseLost(f"job {job['id']}: no heartbeat arrived for {self._lease_s:g} s")

    async def _quietly(self, job: ClaimedJob, verb: str, fields: Mapping[str, Any]) -> None:
        """Tell the server; it takes the job back when the claim expires, so an error is only logged."""
        try:
            await self.call(job, verb, fields)
        except (LeaseLost, OncewardError, ConnectionFailed) as error:
            log.warning("job %s of %s: %s failed: %s", job["id"], job["task"], verb, error)
