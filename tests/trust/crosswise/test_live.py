"""Live queries, the dashboard's parts and topics show nothing of another organization, at first and when it changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onceward.runtime import FEATURES
from onceward.web.dashboard.contribution import Pages
from onceward_apps import all as bundled
from tests.live.conftest import Client
from tests.trust.crosswise import coursegen
from tests.trust.crosswise.dashboard_routes import ROUTES
from tests.trust.crosswise.rows import needles
from tests.trust.crosswise.test_routes import filled, strings
from tests.trust.crosswise.world import Org, World

QUERIES: dict[str, dict[str, Any]] = {
    "engagement.funnel": {},
    "clinic.day": {"on": "2031-06-21"},
    "clinic.appointment": {"id": "$appointment"},
    "clinic.inbox": {},
    "ticketing.seats": {"event_id": "$event"},
    "ticketing.occupancy": {"event_id": "$event"},
    "ticketing.door": {"door_id": "$door", "token": "@door_token"},
    "ticketing.order": {"checkout_id": "$checkout", "token": "@order_token"},
    **coursegen.QUERIES,
    "learning.enrollment_count": {"cohort_id": "$cohort"},
    "learning.cohort_status": {"cohort_id": "$cohort"},
    "learning.chat": {"cohort_id": "$cohort"},
    "learning.unread": {"cohort_id": "$cohort", "user_id": "$student"},
    "learning.online_users": {"cohort_id": "$cohort"},
    "learning.student_home": {"enrollment_id": "$enrollment"},
    "learning.admin_dashboard": {},
    "learning.admin_cohorts": {},
}
PUBLIC = {"ticketing.seats", "learning.enrollment_count", "learning.cohort_status"}
"""Which seats or places are free is for everybody to see; who has them is not part of it."""
TOPICS = {
    "occupancy/{org}/{event_id}": "occupancy/$organization/$event",
    "cohort/{id}/enrollments": "cohort/$cohort/enrollments",
    "user/{id}/bookings": "user/$student/bookings",
    "user/{id}/profile": "user/$student/profile",
    "cohort/{id}": "cohort/$cohort",
}


def asked() -> list[tuple[str, dict[str, Any]]]:
    """Every query with its arguments; of the dashboard's one every page."""
    parts: list[tuple[str, dict[str, Any]]] = []
    for page in sum(FEATURES.plus(bundled.app.features()).load("pages"), Pages()).pages:
        ask = ROUTES["GET", page.path]
        params = {name.partition(":")[0]: value for name, value in {**ask.fill, **ask.query}.items()}
        parts.append(("dashboard.part", {"page": page.name, "params": params}))
    return [*QUERIES.items(), ("presence", {"place": "occupancy/$organization/$event"}), *parts]


async def connect(world: World, token: str | None, **hello: Any) -> Client:
    return await Client.open(f"{world.url.replace('http', 'ws', 1)}/live", token, **hello)


async def look(world: World, client: Client, of: Org, by: Org) -> dict[str, str]:
    """Return what the server sends about each thing of `of`, without the arguments of the request."""
    ids: dict[int, tuple[str, dict[str, Any]]] = {}
    for query, arguments in asked():
        ids[await client.subscribe(query, **filled(arguments, of, by))] = (query, arguments)
    await client.until(lambda: all(id in client.results or id in client.errors for id in ids), timeout_s=30)
    told: dict[str, str] = {}
    for id, (query, arguments) in ids.items():
        text = json.dumps(client.results.get(id) or client.errors.get(id))
        for sent in strings(arguments):
            if "$" in sent:
                text = text.replace(filled(sent, of, by), "")
        told[f"{query} {arguments.get('page', '')}"] = text
    return told


async def test_every_live_query_and_topic_is_in_the_table(empty_world: World) -> None:
    live = empty_world.runtime.app.live
    assert set(live.queries) == set(QUERIES)
    assert set(live.topics) == set(TOPICS)


@pytest.mark.timeout(120)
async def test_no_live_query_shows_another_organizations_things(world: World) -> None:
    a, b = world.a, world.b
    unwanted = await needles(world.db, a.id) | {a.private, a.private.upper(), a.public}
    problems: list[str] = []
    for who, token in (("key", b.key), ("end user", b.token()), ("author", b.ids["course_token"]), ("nobody", None)):
        client = await connect(world, token)
        for query, text in (await look(world, client, a, b)).items():
            if query.strip() not in PUBLIC:
                problems += [f"{query} shows {each} to {who}: {text[:200]}" for each in unwanted if each in text]
            assert a.private not in text
        await client.close()
    assert not problems, "\n".join(problems)
    # The twin: to its owner all of it is shown.
    client = await connect(world, a.key)
    told = await look(world, client, a, a)
    await client.close()
    client = await connect(world, a.ids["course_token"])
    told |= {query: text for query, text in (await look(world, client, a, a)).items() if query.startswith("coursegen")}
    await client.close()
    assert any(a.private in text for query, text in told.items() if query.startswith("coursegen.progress"))
    shown = [query for query, text in told.items() if any(each in text for each in unwanted)]
    assert len(shown) >= 15, told


async def test_asking_for_another_organization_is_refused_without_saying_whether_it_exists(world: World) -> None:
    a, b = world.a, world.b
    for token in (b.key, b.token()):
        said: list[str] = []
        for organization in (str(a.id), "00000000-0000-4000-8000-00000000dead"):
            client = await connect(world, token, organization=organization)
            await client.until(lambda client=client: client.closed_with is not None or bool(client.errors))  # type: ignore[misc]
            said.append(json.dumps([client.closed_with, list(client.errors.values())]).replace(organization, ""))
            assert client.welcome is None
            await client.close()
        assert said[0] == said[1]


async def test_what_is_broadcast_to_one_organization_does_not_reach_the_other(world: World) -> None:
    a, b = world.a, world.b
    client = await connect(world, b.key)
    theirs = await client.follow(filled(TOPICS["occupancy/{org}/{event_id}"], a, b))
    own = await client.follow(filled(TOPICS["occupancy/{org}/{event_id}"], b, b))
    await client.until(lambda: own in client.topic_versions)
    assert world.runtime.engine is not None
    for org in (a, b):
        async with world.runtime.engine.transaction(organization=org.id) as tx:
            await tx.broadcast(f"occupancy/{org.id}/{org.ids['event']}", {"said": org.private})
            # The very same topic, written by the one and followed by the other.
            await tx.broadcast(f"occupancy/{a.id}/{a.ids['event']}", {"said": org.private})
    await client.until(lambda: {"said": b.private} in client.messages.get(own, []))
    assert a.private not in json.dumps(client.frames)
    assert theirs in client.errors or client.messages.get(theirs, []) in ([], [{"said": b.private}])
    await client.close()
