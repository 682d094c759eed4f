"""One client: what it asked for, and the frames it is sent.

A frame is written only when the one before has been taken by the network, and then says how things are by then: a slow
client is sent fewer frames, not later ones, and costs no more memory than a fast one.
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
from onceward.live.topics import Channel
from onceward.trust import Identity

if TYPE_CHECKING:
    from onceward.live.hub import Hub

Send = Callable[[str], Coroutine[Any, Any, None]]

GONE = (OSError, RuntimeError)
"""What sending to a client that has gone raises, depending on the server underneath."""

MOST_REPLIES = 1000
"""Answers that a client may leave unread before it is cut off."""


@coroutine
def _resumed(begun: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """The rest of a coroutine whose first step has been taken already, and which waits for something."""
    try:
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:
                waits_for = begun.throw(error)
            else:
                waits_for = begun.send(sent)
    except StopIteration:
        return


class Subscription:
    """A client's interest in a group. `sent` is the hash of what it holds."""

    __slots__ = ("answered", "connection", "failed", "group", "id", "sent")

    def __init__(self, connection: Connection, id: int, group: Group, sent: str | None) -> None:
        self.connection = connection
        self.id = id
        self.group = group
        self.sent = sent
        self.answered = False
        self.failed: LiveError | None = None


class Follow:
    """A client's interest in a topic, and up to where it has been told."""

    __slots__ = ("channel", "connection", "first", "gap", "id", "position")

    def __init__(self, connection: Connection, id: int, channel: Channel) -> None:
        self.connection = connection
        self.id = id
        self.channel = channel
        self.position: int | None = None
        """None until what came before has been looked up."""
        self.first: list[str] | None = None
        self.gap = False


class Connection:
    """Made when a client has said who it is; `close` when it has gone."""

    __slots__ = (
        "_closed",
        "_dirty",
        "_holder",
        "_pump",
        "_replies",
        "_send",
        "hub",
        "identity",
        "last_sent",
        "places",
        "sent_version",
        "things",
        "transport",
        "waits",
    )

    def __init__(self, hub: Hub, identity: Identity | None, send: Send, *, transport: str) -> None:
        self.hub = hub
        self.identity = identity
        self.transport = transport
        self._holder: UUID | None = None
        self.things: dict[int, Subscription | Follow] = {}
        self.places: dict[str, Viewer] | None = None
        self.waits: dict[int, int] | None = None
        self.sent_version = ""
        self.last_sent = time.monotonic()
        self._send = send
        self._dirty: dict[Subscription | Follow, None] = {}
        self._replies: list[str] | None = None
        self._pump: asyncio.Task[None] | None = None
        self._closed = False
        hub.connections.add(self)
        hub.connected[self.organization] += 1

    @property
    def organization(self) -> UUID | None:
        return None if self.identity is None else self.identity.organization

    @property
    def holder(self) -> UUID:
        """Its name among the leases of presence; few have any."""
        if self._holder is None:
            self._holder = uuid4()
        return self._holder

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def detailed(self) -> bool:
        """Members of the organization are told what is wrong with a query; end users only that something is."""
        return self.identity is not None and self.identity.may("viewer")

    # -- what it wants ---------------------------------------------------------------------------------------------

    def subscribe(self, id: int, group: Group, sent: str | None) -> Subscription:
        subscription = Subscription(self, id, group, sent)
        self.things[id] = subscription
        group.subscribers.add(subscription)
        if group.text is not None or group.error is not None:
            self.mark(subscription)
            self.flush()
        return subscription

    def follow(self, id: int, channel: Channel) -> Follow:
        follow = Follow(self, id, channel)
        self.things[id] = follow
        channel.followers.add(follow)
        return follow

    def drop(self, id: int) -> None:
        thing = self.things.pop(id, None)
        if thing is None:
            return
        self._dirty.pop(thing, None)
        if isinstance(thing, Subscription):
            self.hub.leave(thing.group, thing)
        else:
            thing.channel.followers.discard(thing)
            if not thing.channel.followers:
                self.hub.channels.pop((thing.channel.organization, thing.channel.topic), None)

    def wait(self, id: int, xid: int) -> None:
        """Say so when everything this client holds includes the transaction."""
        if self._closed:
            return
        if self.waits is None:
            self.waits = {}
        self.waits[id] = xid
        self.hub.waiting.add(self)
        self.hub.wanted.set()
        self.flush()

    def close(self) -> None:
        """Forget everything about it; what is being sent is given up."""
        if self._closed:
            return
        self._closed = True
        for id in list(self.things):
            self.drop(id)
        self.hub.connections.discard(self)
        self.hub.connected[self.organization] -= 1
        self.hub.waiting.discard(self)
        if self._pump is not None:
            self._pump.cancel()

    # -- what it is sent -------------------------------------------------------------------------------------------

    def mark(self, thing: Subscription | Follow) -> None:
        self._dirty[thing] = None

    def reply(self, message: dict[str, Any]) -> None:
        """An answer of its own, besides the frames."""
        if self._replies is None:
            self._replies = []
        if len(self._replies) < MOST_REPLIES:
            self._replies.append(orjson.dumps(message).decode())
        self.flush()

    def reply_error(self, error: LiveError, id: int | None) -> None:
        self.reply({"type": "error", "id": id, **self._told(error)})

    def flush(self) -> None:
        """See to it that everything marked is sent, now or after what is being sent."""
        while self._pump is None and not self._closed:
            text = self._next()
            if text is None:
                return
            self.last_sent = time.monotonic()
            self.hub.frames_sent += 1
            # Almost always the network takes a frame at once. Only one that must wait is worth a task of its own.
            sending = self._send(text)
            try:
                waits_for = sending.send(None)
            except StopIteration:
                continue
            except GONE:
                self.close()
                return
            self._pump = asyncio.get_running_loop().create_task(self._finish(_resumed(sending, waits_for)))

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

    def _next(self) -> str | None:
        if self._replies:
            replies, self._replies = self._replies, None
            if len(replies) == 1:
                return replies[0]
            return f'{{"type":"batch","messages":[{",".join(replies)}]}}'
        return self._frame()

    def _frame(self) -> str | None:
        """How things stand now, of all that has changed since the last frame; None if nothing has."""
        if not self._dirty and not self.waits:
            return None
        dirty, self._dirty = self._dirty, {}
        results: list[str] = []
        topics: list[str] = []
        for thing in dirty:
            if isinstance(thing, Subscription):
                self._add_result(thing, results)
            else:
                self._add_messages(thing, topics)
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

    def _add_result(self, subscription: Subscription, results: list[str]) -> None:
        group = subscription.group
        if group.error is not None:
            if subscription.failed is not group.error:
                subscription.failed = group.error
                told = orjson.dumps(self._told(group.error)).decode()
                results.append(f'{{"id":{subscription.id},"error":{told}}}')
            return
        if group.text is None:
            return
        if subscription.sent != group.hash:
            results.append(f'{{"id":{subscription.id},"hash":"{group.hash}","data":{group.text}}}')
        elif not subscription.answered or subscription.failed is not None:
            results.append(f'{{"id":{subscription.id},"same":true}}')
        subscription.sent = group.hash
        subscription.answered = True
        subscription.failed = None

    def _add_messages(self, follow: Follow, topics: list[str]) -> None:
        if follow.position is None:
            return
        messages, missing = follow.channel.after(follow.position)
        follow.position = follow.channel.position
        first, follow.first = follow.first, None
        gap, follow.gap = follow.gap or missing, False
        if messages or first is not None or gap:
            reset = ',"reset":true' if gap else ""
            # Its own version: topics are told all that the feed has brought, results may still be behind.
            said = ",".join((first or []) + messages)
            topics.append(f'{{"id":{follow.id}{reset},"version":"{self.hub.version_text}","messages":[{said}]}}')

    def _told(self, error: LiveError) -> dict[str, str]:
        hidden = isinstance(error, QueryFault) and not self.detailed
        return {"code": error.code, "message": "the query failed; it has been logged" if hidden else str(error)}

    # -- versions --------------------------------------------------------------------------------------------------

    def version(self) -> str:
        """What all that this client holds is at least at."""
        return self.hub.reached(self._behind())[1]

    def settled(self) -> bool:
        """Whether no result of this client is about to change; one that keeps failing is not waited for."""
        for thing in self.things.values():
            if isinstance(thing, Subscription) and thing.group.behind is not None and not thing.group.failures:
                return False
        return True

    def _behind(self) -> int | None:
        """The first advance that some result of this client may lack."""
        behind: int | None = None
        for thing in self.things.values():
            if isinstance(thing, Subscription) and (own := thing.group.behind) is not None:
                behind = own if behind is None else min(own, behind)
        return behind

    def _groups(self) -> list[Group]:
        return [thing.group for thing in self.things.values() if isinstance(thing, Subscription)]

    def _reached(self) -> str:
        """The waits that are over, taken off the list."""
        waits = self.waits or {}
        version, _ = self.hub.reached(self._behind())
        if version is None or any(group.text is None and group.error is None for group in self._groups()):
            return ""
        over = [id for id, xid in waits.items() if version.snapshot.sees(xid)]
        for id in over:
            del waits[id]
        if not waits:
            self.waits = None
            self.hub.waiting.discard(self)
        return ",".join(map(str, over))
