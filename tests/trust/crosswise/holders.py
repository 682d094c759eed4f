"""One credential of each kind, the routes that it opens, and how it ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

import jwt as pyjwt
import pytest

from onceward import Engine
from onceward.messages.preference_page import preference_link, revoke_preference_links
from onceward.trust.keys import create_key
from onceward.trust.organizations import remove_member, set_disabled, set_member
from onceward.trust.session_cookie import SESSION
from onceward.trust.sessions import link_for
from onceward_apps.learning import link_tokens, sign_in
from onceward_apps.learning.routes.requests import SESSION_COOKIE
from tests.trust.crosswise.test_live import connect
from tests.trust.crosswise.world import JWT_SECRET, World

API = "/api/v1"
T = f"{API}/ticketing"
L = f"{API}/learning"
EVENTS, KEYS = ("GET", f"{API}/events"), ("GET", f"{API}/keys")
DASHBOARD = ("GET", "/dashboard/keys")
PUBLISH, TELL, SCAN = ("POST", f"{API}/publish"), ("POST", f"{API}/notifications"), ("POST", f"{T}/scan")
REPEAT = ("POST", f"{T}/refunds/{{refund_id}}/repeat")
COURSE_REFUND = ("POST", f"{L}/refunds/{{refund_id}}/retry")
REPLAY = ("POST", f"{API}/events/replay")
ORDER, TICKET = ("GET", "/orders/{checkout_id}"), ("GET", "/tickets/{ticket_id}/qr.png")
BUYERS = ("GET", "/api/tickets")
PORTAL = ("GET", "/portal/endpoints/{endpoint_id}")
HOME, INBOX = ("GET", "/learn/home/{enrollment_id}"), ("GET", f"{API}/inbox")
EXTENSION = ("GET", "/learn/extensions/{token}")
CALENDAR = ("GET", "/learn/calendars/{token}.ics")
INVITE, SIGN_IN = ("GET", "/learn/invites/{token}"), ("GET", "/learn/sign-in/{token}")
UNSUBSCRIBE, LOGIN = ("POST", "/unsubscribe/{token}"), ("POST", "/login")
PREFERENCES = ("GET", "/preferences/{token}")
SEATS = ("GET", "/learn/seats/{token}")
LINKS = {EXTENSION, CALENDAR, INVITE, SEATS, SIGN_IN, UNSUBSCRIBE, PREFERENCES, LOGIN}
"""Routes whose credential is the token of a link, in the path or in the form."""
UNKNOWN = "00000000-0000-4000-8000-000000000000"
STAFF = {EVENTS, KEYS, DASHBOARD, REPLAY}
ACTS = {PUBLISH, TELL, SCAN, REPEAT, COURSE_REFUND}
SAMPLE = {*STAFF, *ACTS, ORDER, BUYERS, TICKET, PORTAL, HOME, INBOX, *LINKS}
REFUSED = {303, 401, 403, 404, 410}
"""303: a page that asks for a sign-in. The answer to a valid login link is a 303 too: only 401 refuses that."""

INVITED = """
with person as (insert into learning.users (email, name) values ($2 || '@example.org', 'Ida') returning id),
course as (insert into learning.cohorts (name, starts_at, ends_at, max_capacity, status, price, currency)
           values ('Next', now() + interval '9 days', now() + interval '10 days', 10, 'OPEN', 0, 'EUR') returning id),
entry as (insert into learning.waitlist_entries (cohort_id, user_id, status)
          select c.id, p.id, 'INVITED' from person p, course c returning id, user_id, cohort_id)
insert into learning.waitlist_invites (waitlist_entry_id, user_id, cohort_id, token_hash, expires_at)
select id, user_id, cohort_id, $1, now() + interval '1 day' from entry returning id
"""

Route = tuple[str, str]
Act = Callable[[], Awaitable[object]]


@dataclass
class Held:
    """What a caller sends, and the routes that it opens. `end` ends the credential, or changes it to one that has ended."""

    opens: set[Route]
    end: Act
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    token: str = UNKNOWN
    """The token of the link, for the routes in `LINKS` that it opens."""
    keeps: frozenset[Route] = frozenset()
    """What it opens after its end, because the answer is about the caller alone."""


class Holders:
    """Makes one credential of each kind in organization a."""

    def __init__(self, world: World) -> None:
        self.world, self.a = world, world.a
        assert world.runtime.engine is not None
        self.engine: Engine = world.runtime.engine

    async def key(self, scope: str, opens: set[Route], end: str) -> Held:
        """A key of a person of its own, which ends in the named way."""
        world, a, email = self.world, self.a, f"{scope}-{end}@example.org"
        async with world.db.transaction(role="engine") as tx:
            owner = await set_member(tx, a.id, email, "owner", actor="test")
            made = await create_key(tx, name=f"{scope} {end}", organization=a.id, scopes=[scope], actor="test")
            await tx.execute("update onceward.api_keys set owner_id = $1 where key_id = $2", owner, made.key.key_id)

        async def finish() -> None:
            async with world.db.transaction(role="engine") as tx:
                match end:
                    case "expired":
                        past = "update onceward.api_keys set expires_at = now() - interval '1 second' where key_id = $1"
                        await tx.execute(past, made.key.key_id)
                    case "disabled":
                        await set_disabled(tx, email, disabled=True, actor="test")
                    case "removed":
                        await remove_member(tx, a.id, owner, actor="test")
                    case _:
                        await world.own(a, "DELETE", f"{API}/keys/{made.key.prefix}")

        return Held(opens, finish, headers={"Authorization": f"Bearer {made.text}"})

    def session(self) -> Held:
        world, a = self.world, self.a
        held = Held({*STAFF, *ACTS, INBOX}, self._nothing, {"X-CSRF-Token": a.csrf}, {SESSION: a.session})

        async def sign_out() -> None:
            form, cookies = {"csrf_token": a.csrf}, held.cookies
            async with world.http.post(
                f"{world.url}/logout", data=form, cookies=cookies, headers={"Origin": world.url}, allow_redirects=False
            ) as reply:
                assert reply.status in (200, 303), await reply.text()

        held.end = sign_out
        return held

    def token(self, sub: str, opens: set[Route], **ended: object) -> Held:
        """The JWT of an end user, which has other claims after its end."""
        claims = {"sub": sub, "exp": 2**33, "organization_id": str(self.a.id)}
        held = Held(opens, self._nothing)

        def carry(with_claims: Mapping[str, object]) -> None:
            held.headers["Authorization"] = f"Bearer {pyjwt.encode(dict(with_claims), JWT_SECRET, 'HS256')}"

        async def change() -> None:
            carry({**claims, **ended})

        carry(claims)
        held.end = change
        return held

    def portal(self) -> Held:
        revoke = f"{API}/portal-tokens/{self.a.ids['portal_id']}"
        cookies = {"onceward_portal": self.a.ids["portal"]}
        return Held({PORTAL}, lambda: self.world.own(self.a, "DELETE", revoke), cookies=cookies)

    def order(self) -> Held:
        a, path = self.a, f"{T}/orders/{self.a.ids['checkout']}/revoke-links"
        revoke: Act = lambda: self.world.own(a, "POST", path, json={"link_version": 1})  # noqa: E731
        return Held({ORDER, BUYERS}, revoke, query={"access": a.ids["order_token"], "token": a.ids["order_token"]})

    def holder(self) -> Held:
        """The link of a transferred ticket, which ends when the ticket is transferred again."""
        a = self.a
        body = {"token": a.ids["holder_token"], "email": "next@example.org"}
        again: Act = lambda: self.world.own(a, "POST", f"/tickets/{a.ids['held']}/transfer", json=body)  # noqa: E731
        return Held({TICKET}, again, query={"access": a.ids["holder_token"]})

    async def enrollment_link(
        self, monkeypatch: pytest.MonkeyPatch, purpose: link_tokens.Purpose, route: Route
    ) -> Held:
        """A signed link of an enrolment, which ends with its time."""

        async def make() -> str:
            async with self.engine.transaction(organization=self.a.id) as tx:
                return await link_tokens.enrollment_token(tx, purpose, UUID(self.a.ids["enrollment"]))

        held = Held({route}, self._nothing, token=await make())

        async def expire() -> None:
            with monkeypatch.context() as earlier:
                earlier.setattr(link_tokens, "LINK_DAYS", -1)
                held.token = await make()

        held.end = expire
        return held

    async def invite(self, end: str) -> Held:
        """An invite from the waitlist of a person of its own. `end` is the change of its row."""
        token = link_tokens.new_token()
        async with self.engine.transaction(organization=self.a.id) as tx:
            invite = await tx.fetchval(INVITED, link_tokens.hash_token(token), token)

        async def finish() -> None:
            async with self.engine.transaction(organization=self.a.id) as tx:
                await tx.execute(f"update learning.waitlist_invites set {end} where id = $1", invite)

        return Held({INVITE}, finish, token=token)

    async def seats(self) -> Held:
        """The link with which people of a company take their seats. It ends when another one is sent."""
        token = link_tokens.new_token()
        change = "update learning.seat_blocks set token_hash = $2 where id = $1"
        block = UUID(self.a.ids["seats"])
        async with self.engine.transaction(organization=self.a.id) as tx:
            await tx.execute(change, block, link_tokens.hash_token(token))

        async def replace() -> None:
            async with self.engine.transaction(organization=self.a.id) as tx:
                await tx.execute(change, block, link_tokens.hash_token(link_tokens.new_token()))

        return Held({SEATS}, replace, token=token)

    async def sign_in_link(self) -> Held:
        """A student's link, which ends when it was used."""
        async with self.engine.transaction(organization=self.a.id) as tx:
            token = await sign_in.send_link(tx, UUID(self.a.ids["student"]))
        return Held({SIGN_IN}, lambda: sign_in.redeem(self.engine, token), token=token)

    async def login_link(self) -> Held:
        """A link to the dashboard. The first request uses it, so nothing else has to end it."""
        async with self.world.db.transaction(role="engine") as tx:
            await set_member(tx, self.a.id, "linked@example.org", "viewer", actor="test")
            token = await link_for(tx, "linked@example.org", actor="test")

        async def used() -> None:
            assert (
                await self.world.db.fetchval(
                    "select count(*) from onceward.sessions s join onceward.users u using (user_id) where u.email = 'linked@example.org'"
                )
                == 1
            )

        return Held({LOGIN}, used, token=token)

    def unsubscribe(self) -> Held:
        """It works as long as the message is kept: a person can always stop messages."""
        a = self.a
        forget: Act = lambda: self.world.db.execute(  # noqa: E731
            "delete from onceward.messages where token = $1", UUID(a.ids["unsubscribe"])
        )
        return Held({UNSUBSCRIBE}, forget, token=a.ids["unsubscribe"])

    async def preferences(self, end: str) -> Held:
        """A link to the preference page of a person. It is revoked, or expires."""
        person = f"{end}@example.org"
        async with self.engine.transaction(organization=self.a.id) as tx:
            link = await preference_link(tx, person, public_url="https://a.example")

        async def finish() -> None:
            async with self.engine.transaction(organization=self.a.id) as tx:
                if end == "revoked":
                    await revoke_preference_links(tx, person)
                else:
                    await tx.become_engine()
                    past = "update onceward.preference_links set expires_at = now() where recipient = $1"
                    await tx.execute(past, person)

        return Held({PREFERENCES}, finish, token=link.rsplit("/", 1)[-1])

    async def student(self) -> Held:
        """A student with a cookie. Their page's token for live queries ends with the session."""
        async with self.engine.transaction(organization=self.a.id) as tx:
            link = await sign_in.send_link(tx, UUID(self.a.ids["student"]))
        opened = await sign_in.redeem(self.engine, link)
        cookies = {SESSION_COOKIE: opened.token}
        async with self.world.http.get(
            f"{self.world.url}/learn/home/{self.a.ids['enrollment']}", cookies=cookies
        ) as reply:
            access = (await reply.text()).partition(f'"{opened.user_id}.{opened.id}.')[2].partition('"')[0]
        arguments = {"enrollment_id": self.a.ids["enrollment"], "access": f"{opened.user_id}.{opened.id}.{access}"}
        live = await connect(self.world, None)
        watched = await live.subscribe("learning.student_home", **arguments)
        await live.until(lambda: live.results.get(watched) is not None)

        async def sign_out() -> None:
            async with self.world.http.delete(
                f"{self.world.url}{L}/public/session", cookies=cookies, headers={"Origin": self.world.url}
            ) as reply:
                assert reply.status == 204, await reply.text()
            await live.until(lambda: live.results[watched] is None)
            later = await live.subscribe("learning.student_home", **arguments)
            await live.until(lambda: later in live.errors)
            await live.close()

        return Held({HOME}, sign_out, cookies=cookies)

    async def _nothing(self) -> None:
        raise AssertionError("the holder has set no end")
