"""The short way through the front door, for what nearly every request is: a webhook that arrived whole and is only stored.

The server hands such a request over before it makes a task or a scope for it, and the answer is written by whoever
committed it. Everything that is not plain (a refusal, a challenge, an inline source, several events) is declined here
and takes the long way of `receive.py`, which alone decides what a sender is told about it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import asyncpg
import structlog

from onceward.db import BROKEN, DatabaseError
from onceward.inbox import answers, metrics
from onceward.inbox.answers import Answer
from onceward.inbox.catalog import Catalog
from onceward.inbox.headers import Headers, kept
from onceward.inbox.routing import Batch, Placer
from onceward.inbox.source import Source
from onceward.inbox.store import Stored
from onceward.inbox.waiting import Waiting
from onceward.providers.inbound.provider import Request
from onceward.telemetry.light import Spread
from onceward.work import GroupCommit, Overloaded
from onceward.work.gate import gate

log = structlog.get_logger(__name__)

PREFIX = "/webhooks/"

Pairs = list[tuple[bytes, bytes]]
Reply = Callable[[int, bytes, bytes], None]
"""How the server is told the answer: status, headers as lines, body. Called once, from the loop."""


class Direct:
    """Takes requests that arrived whole. What it declines (False) must be sent through the receiver."""

    def __init__(
        self,
        catalog: Catalog,
        placer: Placer,
        commits: GroupCommit[Batch, Sequence[Stored]],
        waiting: Waiting,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._catalog = catalog
        self._placer = placer
        self._commits = commits
        self._waiting = waiting
        self._clock = clock
        self._patient: set[asyncio.Task[None]] = set()
        self._spreads: dict[tuple[str, str], Spread] = {}

    def __call__(self, path: str, headers: Pairs, body: bytes, reply: Reply) -> bool:
        """Whether the request is taken; then `reply` is called once its event is committed, or could not be."""
        # The whole rest of the path: an address with a further segment is another route, which the receiver knows.
        source = self._catalog.get(path[len(PREFIX) :])
        if source is None or not source.only_stores or len(body) > source.max_body_bytes:
            return False
        began = time.perf_counter()
        try:
            placed = self._place(source, path, Headers(headers), body)
            if placed is None:
                return False
            gate("ack-verified")
            self._commits.submit_to(placed, _Sender(self, self.spread(source), source, reply, began))
        except Exception:
            # Whatever it is, the long way meets it too, and knows what to say.
            return False
        return True

    def _place(self, source: Source, path: str, headers: Headers, body: bytes) -> Batch | None:
        provider, config = source.provider, source.config
        request = Request("POST", path, "", headers, body)
        provider.verify(config, request, self._clock())
        if provider.challenge(config, request) is not None:
            return None
        items = provider.parse(config, request)
        if len(items) != 1:
            return None
        return (self._placer.place(source, items[0], body, source.signature_of(headers), kept(headers)),)

    def wait(self, sender: _Sender, stored: Sequence[Stored]) -> None:
        """Sent again while somebody is at it: it is told later, by a task of its own."""
        task = asyncio.create_task(self._tell_later(sender, stored))
        self._patient.add(task)
        task.add_done_callback(self._patient.discard)

    async def _tell_later(self, sender: _Sender, stored: Sequence[Stored]) -> None:
        try:
            found = await self._waiting.until_idle(stored)
            sender.tell(answers.still_running() if found is None else sender.accepted(found))
        except Exception:
            log.exception("receive_failed", source=sender.source.name)
            sender.tell(answers.ERROR)

    def spread(self, source: Source) -> Spread:
        """Where the times of its requests are counted, whichever way they take."""
        key = (source.provider.name, source.mode)
        found = self._spreads.get(key)
        if found is None:
            found = self._spreads[key] = metrics.RECEIVE_SECONDS.labels(*key)
        return found


class _Sender:
    """Takes the place of a future: the answer is written at once, not at the next turn of the loop."""

    __slots__ = ("began", "direct", "reply", "source", "spread")

    def __init__(self, direct: Direct, spread: Spread, source: Source, reply: Reply, began: float) -> None:
        self.direct = direct
        self.spread = spread
        self.source = source
        self.reply = reply
        self.began = began

    def done(self) -> bool:
        return False

    def set_result(self, stored: Sequence[Stored], /) -> None:
        try:
            gate("ack-committed")
            if stored[0].running:
                self.direct.wait(self, stored)
                return
            answer = self.accepted(stored)
        except Exception:
            log.exception("receive_failed", source=self.source.name)
            answer = answers.ERROR
        self.tell(answer)

    def set_exception(self, error: BaseException, /) -> None:
        if isinstance(error, (Overloaded, DatabaseError, asyncpg.PostgresError, *BROKEN)):
            self.tell(answers.not_stored(self.source, error))
        else:
            log.error("receive_failed", source=self.source.name, exc_info=error)
            self.tell(answers.ERROR)

    def accepted(self, stored: Sequence[Stored]) -> Answer:
        return answers.accepted(stored, self.source.provider.name)

    def tell(self, answer: Answer) -> None:
        self.spread.observe(time.perf_counter() - self.began)
        self.reply(answer.status, answers.head(answer), answer.body)
