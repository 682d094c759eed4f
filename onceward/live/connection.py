"""One client: its subscriptions and the frames sent to it.

The next frame is written only after the network has accepted the previous one, and it carries the newest results. So a
slow client gets fewer frames, never outdated ones, and needs no more memory than a fast one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import coroutine
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import orjson

from onceward.live.access import Viewer
from onceward.live.errors import LiveError, QueryFault
from onceward.live.group import Group
from onceward.live.interests import Follow, LiveSubscription
from onceward.live.outgoing_text import OutgoingText
from onceward.live.shares import Payer, payer_of
from onceward.live.topics import TopicChannel
from onceward.trust import Identity

if TYPE_CHECKING:
    from onceward.live.hub import Hub

Send = Callable[[str], Coroutine[Any, Any, None]]
"""Sends a text, after the network has accepted the text before it."""
Write = Callable[[bytes], bool]
"""Writes a WebSocket frame at once and returns True, or returns False: then `Send` waits, or finds the client gone."""

GONE = (OSError, RuntimeError)
"""The exceptions for a send to a disconnected client. They depend on the ASGI server."""

MOST_REPLIES = 1000
"""The maximum number of unsent replies. Further replies are dropped."""


@coroutine
def _resumed(started: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """Continue a coroutine that has already run up to its first wait."""
    try:
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:
                waits_for = started.throw(error)
            else:
                waits_for = started.send(sent)
    except StopIteration:
        return


class Connection:
    """A connection after `hello`. `close` releases everything that belongs to it."""

    __slots__ = (
        "_closed",
        "_holder",
        "_pump",
        "_replies",
        "_send",
        "_write",
        "client",
        "dirty",
        "hub",
        "identity",
        "interests",
        "last_sent",
        "places",
        "sent_version",
        "transport",
        "waits",
    )

    def __init__(
        self,
        hub: Hub,
        identity: Identity | None,
        send: Send,
        *,
        client: str,
        transport: str,
        write: Write | None = None,
    ) -> None:
        self.hub = hub
        self.identity = identity
        self.client = client
        self.transport = transport
        self._holder: UUID | None = None
        self.interests: dict[int, LiveSubscription | Follow] = {}
        self.places: dict[str, Viewer] | None = None
        self.waits: dict[int, int] | None = None
        self.sent_version = ""
        self.last_sent = time.monotonic()
        self._send = send
        self._write = write
        self.dirty: dict[LiveSubscription | Follow, None] = {}
        """What has changed since the last frame, in the order of the changes."""
        self._replies: list[str] | None = None
        self._pump: asyncio.Task[None] | None = None
        self._closed = False
        hub.connections.add(self)
        hub.connected[self.organization] += 1
        if identity is not None:
            hub.connected_callers[identity.principal] += 1

    @property
    def organization(self) -> UUID | None:
        return None if self.identity is None else self.identity.organization

    @property
    def payer(self) -> Payer:
        """Whose limit the queries of this connection count for. Computed on demand, because most connections are
        idle."""
        return payer_of(self.identity, self.client)

    @property
    def holder(self) -> UUID:
        """The id of this connection in the presence table. Created on demand, because few connections need it."""
        if self._holder is None:
            self._holder = uuid4()
        return self._holder

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def detailed(self) -> bool:
        """Whether the client may see the text of query errors: members of the organization may, end users may not."""
        return self.identity is not None and self.identity.may("viewer")

    # -- subscriptions ---------------------------------------------------------------------------------------------

    def subscribe(self, id: int, group: Group, sent: str | None) -> LiveSubscription:
        subscription = LiveSubscription(self, id, group, sent)
        self.interests[id] = subscription
        group.subscribers.add(subscription)
        if group.text is not None or group.error is not None:
            self.mark(subscription)
            self.flush()
        return subscription

    def follow(self, id: int, channel: TopicChannel) -> Follow:
        follow = Follow(self, id, channel)
        self.interests[id] = follow
        channel.followers.add(follow)
        return follow

    def drop(self, id: int) -> None:
        interest = self.interests.pop(id, None)
        if interest is None:
            return
        self.dirty.pop(interest, None)
        if isinstance(interest, LiveSubscription):
            self.hub.leave(interest.group, interest)
        else:
            interest.channel.followers.discard(interest)
            if not interest.channel.followers:
                self.hub.channels.pop((interest.channel.organization, interest.channel.topic), None)

    def wait(self, id: int, xid: int) -> None:
        """Notify the client when all its results include the transaction."""
        if self._closed:
            return
        if self.waits is None:
            self.waits = {}
        self.waits[id] = xid
        self.hub.waiting.add(self)
        self.hub.need_feed()
        self.flush()

    def close(self) -> None:
        """Drop all subscriptions and cancel the frame that is being sent."""
        if self._closed:
            return
        self._closed = True
        for id in list(self.interests):
            self.drop(id)
        self.hub.connections.discard(self)
        self.hub.connected[self.organization] -= 1
        if self.identity is not None:
            caller = self.identity.principal
            self.hub.connected_callers[caller] -= 1
            if not self.hub.connected_callers[caller]:
                del self.hub.connected_callers[caller]
        self.hub.waiting.discard(self)
        if self._pump is not None:
            self._pump.cancel()

    # -- frames -------------------------------------------------------------------------------------------

    def mark(self, interest: LiveSubscription | Follow) -> None:
        self.dirty[interest] = None

    def reply(self, message: dict[str, Any]) -> None:
        """Send a message that is not part of a frame."""
        if self._replies is None:
            self._replies = []
        if len(self._replies) < MOST_REPLIES:
            self._replies.append(orjson.dumps(message).decode())
        self.flush()

    def reply_error(self, error: LiveError, id: int | None) -> None:
        self.reply({"type": "error", "id": id, **self._error_fields(error)})

    def flush(self) -> None:
        """Send everything that is marked, now or after the frame that is being sent."""
        while (self.dirty or self._replies or self.waits) and self._pump is None and not self._closed:
            outgoing = self._next()
            if outgoing is None:
                return
            self.last_sent = time.monotonic()
            self.hub.frames.sent += 1
            # The network nearly always accepts a frame at once. Only a send that must wait gets a task.
            try:
                if self._write is not None and self._write(outgoing.frame):
                    continue
                sending = self._send(outgoing.text)
                waits_for = sending.send(None)
            except StopIteration:
                continue
            except GONE:
                self.close()
                return
            self._pump = self.hub.sending.start(self._finish(_resumed(sending, waits_for)))

    async def _finish(self, sending: Awaitable[None]) -> None:
        try:
            await sending
        except GONE:
            self._pump = None
            self.close()
            return
        finally:
            self._pump = None
        self.flush()

    def _next(self) -> OutgoingText | None:
        if self._replies:
            replies, self._replies = self._replies, None
            if len(replies) == 1:
                return OutgoingText(replies[0])
            return OutgoingText(f'{{"type":"batch","messages":[{",".join(replies)}]}}')
        if len(self.dirty) == 1 and not self.waits:
            (only,) = self.dirty
            if isinstance(only, LiveSubscription) and only.has_new_result:
                self.dirty.clear()
                return self._shared_frame(only)
        frame = self._frame()
        return None if frame is None else OutgoingText(frame)

    def _shared_frame(self, subscription: LiveSubscription) -> OutgoingText:
        """Return the frame with a new result, the same as for other clients that had the same version before it."""
        has = subscription.sent
        subscription.mark_sent()
        version = self.version()
        before, self.sent_version = self.sent_version, version
        return self.hub.frames.with_result(subscription.group, subscription.id, has, before, version)

    def _frame(self) -> str | None:
        """Return a frame with everything that has changed since the last one, or None if nothing has."""
        dirty, self.dirty = self.dirty, {}
        results: list[str] = []
        topics: list[str] = []
        for interest in dirty:
            if isinstance(interest, LiveSubscription):
                self._add_result(interest, results)
            else:
                self._add_messages(interest, topics)
        reached = self._reached() if self.waits else ""
        if not (results or topics or reached):
            return None
        version = self.version()
        before, self.sent_version = self.sent_version, version
        parts = f',"results":[{",".join(results)}]' if results else ""
        if topics:
            parts += f',"topics":[{",".join(topics)}]'
        if reached:
            parts += f',"reached":[{reached}]'
        return f'{{"type":"frame","from":"{before}","to":"{version}"{parts}}}'

    def _add_result(self, subscription: LiveSubscription, results: list[str]) -> None:
        group = subscription.group
        if group.error is not None:
            if subscription.failed is not group.error:
                subscription.failed = group.error
                problem = orjson.dumps(self._error_fields(group.error)).decode()
                results.append(f'{{"id":{subscription.id},"error":{problem}}}')
            return
        if group.text is None:
            return
        if subscription.has_new_result:
            results.append(group.result_text(subscription.id, subscription.sent))
        elif not subscription.answered or subscription.failed is not None:
            results.append(f'{{"id":{subscription.id},"same":true}}')
        subscription.mark_sent()

    def _add_messages(self, follow: Follow, topics: list[str]) -> None:
        if follow.position is None:
            return
        messages, missing = follow.channel.after(follow.position)
        follow.position = follow.channel.position
        first, follow.first = follow.first, None
        gap, follow.gap = follow.gap or missing, False
        if messages or first is not None or gap:
            reset = ',"reset":true' if gap else ""
            # A separate version: topics include everything read from the feed, while results may still be behind.
            text = ",".join((first or []) + messages)
            topics.append(
                f'{{"id":{follow.id}{reset},"version":"{self.hub.versions.version_text}","messages":[{text}]}}'
            )

    def _error_fields(self, error: LiveError) -> dict[str, str]:
        hidden = isinstance(error, QueryFault) and not self.detailed
        return {
            "code": error.code,
            "message": "the query failed; the server has logged the error" if hidden else str(error),
        }

    # -- versions --------------------------------------------------------------------------------------------------

    def version(self) -> str:
        """Return the version that all results of this client include. If it is unknown, return the last one sent."""
        return self.hub.versions.reached(self._behind())[1] or self.sent_version

    def settled(self) -> bool:
        """Return whether all results of this client are up to date. Queries that keep failing are ignored."""
        for interest in self.interests.values():
            if (
                isinstance(interest, LiveSubscription)
                and interest.group.behind is not None
                and not interest.group.failures
            ):
                return False
        return True

    def _behind(self) -> int | None:
        """Return the first advance that some result of this client may not include."""
        behind: int | None = None
        for interest in self.interests.values():
            if isinstance(interest, LiveSubscription) and (own := interest.group.behind) is not None:
                behind = own if behind is None else min(own, behind)
        return behind

    def _groups(self) -> list[Group]:
        return [interest.group for interest in self.interests.values() if isinstance(interest, LiveSubscription)]

    def _reached(self) -> str:
        """Return the ids of the waits that have ended, and remove them."""
        waits = self.waits or {}
        version, _ = self.hub.versions.reached(self._behind())
        if version is None or any(group.text is None and group.error is None for group in self._groups()):
            return ""
        ended = [id for id, xid in waits.items() if version.snapshot.sees(xid)]
        for id in ended:
            del waits[id]
        if not waits:
            self.waits = None
            self.hub.waiting.discard(self)
        return ",".join(map(str, ended))
