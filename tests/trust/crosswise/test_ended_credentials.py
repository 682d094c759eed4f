"""Every kind of credential opens its own routes until it ends, and nothing else before or after."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from tests.trust.crosswise.dashboard_routes import ROUTES
from tests.trust.crosswise.holders import (
    ACTS,
    BUYERS,
    CALENDAR,
    COURSE_REFUND,
    EVENTS,
    EXTENSION,
    HOME,
    INBOX,
    LINKS,
    LOGIN,
    ORDER,
    PUBLISH,
    REFUSED,
    REPEAT,
    REPLAY,
    SAMPLE,
    SCAN,
    TELL,
    UNKNOWN,
    Held,
    Holders,
    Route,
)
from tests.trust.crosswise.routes import Ask
from tests.trust.crosswise.test_routes import send
from tests.trust.crosswise.world import World


def test_every_link_with_a_token_has_a_holder() -> None:
    def of(routes: Iterable[Route]) -> set[str]:
        """Return the last word before the token: it names the kind of link."""
        return {path.partition("/{token}")[0].rpartition("/")[2] for _, path in routes if "{token}" in path}

    assert of(LINKS) == of(ROUTES)


def is_refused(route: Route, status: int) -> bool:
    return status == 401 if route == LOGIN else status in REFUSED


async def reached(world: World, held: Held) -> dict[Route, int]:
    """Ask every route of the sample for a thing of the credential's own organization, and return the statuses."""
    found: dict[Route, int] = {}
    await world.db.execute("delete from onceward.auth_failures")  # the limit of wrong credentials is another test's
    for method, path in sorted(SAMPLE):
        known = ROUTES[method, path]
        token = held.token if (method, path) in held.opens else UNKNOWN
        ask = Ask(
            fill={"token": token} if "{token}" in path else known.fill,
            # Tables of routes name the links of the caller; here only the credential itself counts.
            query={**{k: v for k, v in known.query.items() if not v.startswith("@")}, **held.query},
            json=known.json,
            form={"token": token} if (method, path) == LOGIN else known.form,
        )
        answer = await send(
            world, method, path, ask, asked=world.a, asking=world.a, headers=held.headers, cookies=held.cookies
        )
        found[method, path] = answer.status
    return found


@pytest.mark.timeout(200)
async def test_a_credential_opens_its_own_routes_until_it_ends_and_no_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, a = Holders(world), world.a
    past, user = int((datetime.now(UTC) - timedelta(hours=1)).timestamp()), f"user of {a.slug}"
    elsewhere = {"organization_id": str(world.b.id)}
    stranger = make.token(user, {ORDER, BUYERS, INBOX}, **elsewhere)
    stranger.keeps = frozenset({INBOX})  # that of the user in the other organization
    holders = {
        "key to refund": await make.key("refund", {REPEAT, COURSE_REFUND}, "revoked"),
        "key to scan": await make.key("scan", {SCAN}, "expired"),
        "key to send messages": await make.key("message", {TELL}, "disabled"),
        "key to publish": await make.key("publish", {PUBLISH}, "removed"),
        "key of an operator": await make.key("operator", {EVENTS, REPLAY, INBOX, *ACTS}, "disabled"),
        "token of a user, expired": make.token(user, {ORDER, BUYERS, INBOX}, exp=past),
        "token of a user, of another organization": stranger,
        "token of a student, expired": make.token(a.ids["student"], {HOME, INBOX}, exp=past),
        "link of the portal": make.portal(),
        "link of an order": make.order(),
        "link of a transferred ticket": make.holder(),
        "link of an extension": await make.enrollment_link(monkeypatch, "extension", EXTENSION),
        "link of a calendar": await make.enrollment_link(monkeypatch, "ics", CALENDAR),
        "invite of a waitlist, expired": await make.invite("expires_at = now() - interval '1 second'"),
        "seats of a company, link replaced": await make.seats(),
        "invite of a waitlist, withdrawn": await make.invite("status = 'REVOKED'"),
        "sign-in link of a student": await make.sign_in_link(),
        "login link": await make.login_link(),
        "unsubscribe link": make.unsubscribe(),
        "link to preferences, revoked": await make.preferences("revoked"),
        "link to preferences, expired": await make.preferences("expired"),
        "session of a student": await make.student(),
        "session": make.session(),
    }
    problems: list[str] = []
    for name, held in holders.items():
        before = await reached(world, held)
        problems += [
            f"{name} does not open {route}: {before[route]}" for route in held.opens if is_refused(route, before[route])
        ]
        problems += [
            f"{name} opens {route}: {status}"
            for route, status in before.items()
            if route not in held.opens and not is_refused(route, status)
        ]
        await held.end()
        after = await reached(world, held)
        problems += [
            f"{name} opens {route} after its end: {status}"
            for route, status in after.items()
            if route not in held.keeps and not is_refused(route, status)
        ]
    assert not problems, "\n".join(problems)
