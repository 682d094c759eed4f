"""Handle the messages of clients: accept connections, subscribe, check permissions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, assert_never
from uuid import UUID

from onceward.live import metrics, presence
from onceward.live.access import Caller, Viewer, admit
from onceward.live.connection import Connection, Send, Write
from onceward.live.errors import LiveError, SubscriptionRefused, TooMuch
from onceward.live.feed import broken_between
from onceward.live.hub import Hub
from onceward.live.interests import Follow, LiveSubscription
from onceward.live.options import LiveOptions
from onceward.live.protocol import Drop, FollowTopic, Hello, Message, Pong, Present, Subscribe, Wait
from onceward.live.query import QueryDefinition
from onceward.live.registry import LiveRegistry
from onceward.live.snapshot import BadVersion, Version
from onceward.live.topics import TopicChannel, find, message_text, replay
from onceward.trust import Identity, SealedColumns

MOST_WAITS = 100
TRIMMED = "select trimmed::text from onceward.feed_state"


class Service:
    """The logic behind the endpoint, the same for every transport."""

    def __init__(
        self, hub: Hub, registry: LiveRegistry, options: LiveOptions, *, node: UUID, sealed_columns: SealedColumns
    ) -> None:
        self.hub = hub
        self.registry = registry
        self.options = options
        self.node = node
        self.sealed_columns = sealed_columns
        self.departed: list[tuple[float, UUID]] = []
        """The end time and presence holder of closed connections whose users were present in a place."""
        self.presence_query: QueryDefinition[..., Any] = QueryDefinition(
            presence.presence, name="presence", parameter="q", allow=self._may_see_place
        )

    # -- connect and disconnect
    # --------------------------------------------------------------------------------------------

    def welcome(
        self,
        identity: Identity | None,
        hello: Hello,
        send: Send,
        *,
        client: str,
        transport: str,
        write: Write | None = None,
    ) -> Connection:
        """Accept a client and return its connection. Raises `TooMuch` if a connection limit is reached.

        `client` is the address of the client, by which callers without credentials are distinguished.
        """
        organization = None if identity is None else identity.organization
        if len(self.hub.connections) >= self.options.max_connections:
            raise TooMuch(f"this node has reached its limit of {self.options.max_connections} live connections")
        same = self.hub.connected[organization]
        if organization is not None and same >= self.options.max_connections_per_organization:
            raise TooMuch(f"the organization has reached its limit of {same} live connections on this node")
        most = self.options.max_connections_per_caller
        # Without credentials only the limit of the edge applies: many visitors may share an address.
        if identity is not None and identity.kind != "key" and self.hub.connected_callers[identity.principal] >= most:
            raise TooMuch(f"the caller has reached its limit of {most} live connections on this node")
        connection = Connection(self.hub, identity, send, client=client, transport=transport, write=write)
        metrics.CONNECTIONS.labels(transport).inc()
        connection.reply(
            {
                "type": "welcome",
                "version": self.hub.versions.version_text,
                "reset": self._other_epoch(hello.version),
                "ping_s": self.options.ping_s,
            }
        )
        return connection

    def _other_epoch(self, version: str | None) -> bool:
        if version is None or self.hub.versions.version is None:
            return False
        try:
            return not self.hub.versions.version.comparable(Version.parse(version))
        except BadVersion:
            return True

    def farewell(self, connection: Connection) -> None:
        """Release everything that belongs to a client that has disconnected."""
        if connection.places:
            # Presence ends later: a user who reloads the page returns within seconds and should not appear to leave.
            self.departed.append((time.monotonic(), connection.holder))
        connection.close()
        metrics.CONNECTIONS.labels(connection.transport).dec()

    # -- messages of clients
    # ----------------------------------------------------------------------------------------------

    async def answer(self, connection: Connection, message: Message) -> None:
        """Handle one message. A `LiveError` is sent to the client and does not affect its other subscriptions."""
        id: int | None = getattr(message, "id", None)
        try:
            match message:
                case Subscribe():
                    await self._subscribe(connection, message)
                case FollowTopic():
                    await self._follow(connection, message)
                case Drop():
                    connection.drop(message.id)
                case Wait():
                    if connection.waits is not None and len(connection.waits) >= MOST_WAITS:
                        raise TooMuch(f"a connection may wait for at most {MOST_WAITS} versions at a time")
                    connection.wait(message.id, message.xid)
                case Present():
                    await self._present(connection, message)
                case Pong() | Hello():
                    pass
                case _:
                    assert_never(message)
        except LiveError as error:
            metrics.REFUSALS.labels(error.code).inc()
            connection.reply_error(error, id)

    async def _subscribe(self, connection: Connection, message: Subscribe) -> None:
        self._make_room(connection, message.id)
        definition = self.presence_query if message.query == "presence" else self.registry.query(message.query)
        arguments, canonical = definition.load(message.arguments)
        viewer = await self._viewer(connection, definition, arguments)
        if not connection.closed:
            group = self.hub.join(definition, arguments, canonical, viewer, connection.payer)
            connection.subscribe(message.id, group, message.hash)

    async def _viewer(
        self, connection: Connection, definition: QueryDefinition[..., Any], arguments: dict[str, object]
    ) -> Viewer:
        caller = self._caller(connection, arguments)
        viewer = await admit(definition.allow, caller, f"query {definition.name}")
        if definition.per != "user" or caller.identity is None:
            return viewer
        return replace(viewer, principal=caller.identity.principal)

    def _caller(self, connection: Connection, arguments: Mapping[str, Any]) -> Caller:
        return Caller(connection.identity, arguments, self.hub.db, self.sealed_columns)

    async def _follow(self, connection: Connection, message: FollowTopic) -> None:
        self._make_room(connection, message.id)
        topic, parts = find(self.registry.topics, message.topic)
        viewer = await admit(topic.allow, self._caller(connection, parts), f"topic {message.topic}")
        if connection.closed:
            return  # closed while the rule ran: nothing would remove the follower from the channel
        key = (viewer.organization, message.topic)
        channel = self.hub.channels.get(key)
        if channel is None:
            channel = self.hub.channels[key] = TopicChannel(*key, keep=self.options.topic_replay)
        follow = connection.follow(message.id, channel)
        # Only a read that starts after this point is certain to include this topic.
        version = await self.hub.next_read()
        position = channel.position
        since = self._since(message.since)
        lost = message.since is not None and (since is None or await self._lost(since, version))
        limit = self.options.topic_replay if since is not None and not lost else self._last(message, topic.replay)
        async with self.hub.db.acquire() as conn:
            earlier = await replay(
                conn,
                viewer.organization,
                message.topic,
                upto=version.snapshot,
                since=None if since is None or lost else since.snapshot,
                limit=limit + 1 if since is not None else limit,
            )
        follow.gap = lost or (since is not None and len(earlier) > limit)
        follow.first = [message_text(each) for each in earlier[-limit:]] if limit else []
        follow.position = position
        if not connection.closed and connection.interests.get(message.id) is follow:
            connection.mark(follow)
            connection.flush()

    def _last(self, message: FollowTopic, default: int) -> int:
        return min(default if message.last is None else message.last, self.options.topic_replay)

    @staticmethod
    def _since(text: str | None) -> Version | None:
        try:
            return None if not text else Version.parse(text)
        except BadVersion:
            return None

    async def _lost(self, since: Version, now: Version) -> bool:
        """Return whether messages since then may be lost. Trimming the feed loses none; a new epoch or a crash may."""
        return broken_between(since, now, None)

    async def _present(self, connection: Connection, message: Present) -> None:
        topic, parts = find(self.registry.topics, message.place, presence=True)
        if connection.identity is None or connection.identity.kind == "key":
            raise SubscriptionRefused("presence needs the credentials of a user")
        caller = self._caller(connection, parts)
        viewer = await admit(topic.allow, caller, f"place {message.place}")
        principal = connection.identity.principal
        if principal.kind == "token" and principal.organization != viewer.organization:
            # Their id may be that of another user there.
            raise SubscriptionRefused(f"the caller is not a user of the organization of {message.place}")
        if connection.closed:
            return
        places = connection.places if connection.places is not None else {}
        if message.place not in places and len(places) >= self.options.max_places_per_connection:
            raise TooMuch(f"a connection may be in at most {self.options.max_places_per_connection} places at a time")
        if message.status == "offline":
            places.pop(message.place, None)
        else:
            places[message.place] = viewer
        connection.places = places or None
        await presence.enter(
            self.hub.db,
            organization=viewer.organization,
            place=message.place,
            user_id=connection.identity.principal.ref,
            holder=connection.holder,
            node=self.node,
            status=message.status,
        )
        self.hub.nudge()

    async def _may_see_place(self, caller: Caller) -> bool | UUID:
        place = str(caller.arguments["place"])
        topic, parts = find(self.registry.topics, place, presence=True)
        viewer = await admit(topic.allow, replace(caller, arguments=parts), f"place {place}")
        return viewer.organization or True

    def _make_room(self, connection: Connection, id: int) -> None:
        if id in connection.interests:
            connection.drop(id)
        elif len(connection.interests) >= self.options.max_subscriptions_per_connection:
            raise TooMuch(
                f"a connection may have at most {self.options.max_subscriptions_per_connection} "
                f"subscriptions; drop some"
            )

    # -- recheck permissions
    # ---------------------------------------------------------------------------------------------------

    async def recheck(self, connection: Connection, identity: Identity | None) -> bool:
        """Return whether the connection may stay open. Subscriptions that are no longer allowed end with an error."""
        if identity != connection.identity:
            return False
        for id, interest in list(connection.interests.items()):
            try:
                if isinstance(interest, LiveSubscription):
                    await self._recheck_query(connection, interest)
                else:
                    await self._recheck_topic(connection, interest)
            except LiveError as error:
                if connection.interests.get(id) is interest:
                    connection.drop(id)
                    connection.reply_error(error, id)
        for place, viewer in list((connection.places or {}).items()):
            try:
                await self._recheck_place(connection, place, viewer)
            except LiveError as error:
                await self._expel(connection, place, viewer)
                connection.reply_error(error, None)
        return True

    async def _recheck_query(self, connection: Connection, subscription: LiveSubscription) -> None:
        """Raise `LiveError` if a rule function no longer allows this.

        Scopes need no recheck: the identity is unchanged.
        """
        definition = subscription.group.definition
        if not callable(definition.allow):
            return
        if await self._viewer(connection, definition, subscription.group.arguments) != subscription.group.viewer:
            raise SubscriptionRefused(f"the permissions for query {definition.name} have changed; subscribe again")

    async def _recheck_topic(self, connection: Connection, follow: Follow) -> None:
        name = follow.channel.topic
        topic, parts = find(self.registry.topics, name)
        if not callable(topic.allow):
            return
        viewer = await admit(topic.allow, self._caller(connection, parts), f"topic {name}")
        if viewer.organization != follow.channel.organization:
            raise SubscriptionRefused(f"topic {name} now belongs to another organization; follow it again")

    async def _recheck_place(self, connection: Connection, place: str, before: Viewer) -> None:
        topic, parts = find(self.registry.topics, place, presence=True)
        if not callable(topic.allow):
            return
        if await admit(topic.allow, self._caller(connection, parts), f"place {place}") != before:
            raise SubscriptionRefused(f"the permissions for place {place} have changed; enter it again")

    async def _expel(self, connection: Connection, place: str, viewer: Viewer) -> None:
        """Remove a user from a place that the user may no longer enter."""
        if connection.places is None or connection.identity is None or connection.identity.kind == "key":
            return
        connection.places.pop(place, None)
        connection.places = connection.places or None
        await presence.enter(
            self.hub.db,
            organization=viewer.organization,
            place=place,
            user_id=connection.identity.principal.ref,
            holder=connection.holder,
            node=self.node,
            status="offline",
        )
        self.hub.nudge()
