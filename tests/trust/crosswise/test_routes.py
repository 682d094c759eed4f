"""Nothing of one organization comes out of any route to another, and nothing of it changes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI

from onceward.trust.secrets import secret_box
from onceward.trust.session_cookie import SESSION
from onceward.web.auth import ORGANIZATION_COOKIE
from onceward.web.exposure import ANYTHING, Effect
from onceward.web.idempotency import TABLE
from onceward.web.logged_path import logged_path
from onceward.web.parts import route_table
from onceward_apps import all as bundled
from onceward_apps import demo
from onceward_apps.start_page import router as start_router
from tests.trust.crosswise.dashboard_routes import ROUTES
from tests.trust.crosswise.effects import Effects
from tests.trust.crosswise.routes import Ask
from tests.trust.crosswise.rows import digest, needles
from tests.trust.crosswise.world import Org, World


@dataclass(frozen=True)
class Answer:
    status: int
    body: str
    """Without what was sent: to repeat a question gives nothing away."""


def routes_of(world: World) -> set[tuple[str, str]]:
    """What the process really serves, apart from the two parts that are bare ASGI."""
    assert world.runtime.web is not None
    found: Any = world.runtime.web._server.config.app._api  # pyright: ignore
    while not isinstance(found, FastAPI):
        found = found._api
    return set(_served(found.routes))


def _served(routes: Iterable[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for route in routes:
        included = getattr(route, "original_router", None)  # newer FastAPI keeps routers whole
        if included is not None:
            yield from _served(included.routes, prefix + route.include_context.prefix)
            continue
        assert getattr(route, "methods", None), f"{route} is neither a route nor known to this walk"
        yield from ((method, prefix + route.path) for method in route.methods - {"HEAD"})


def declared_effects(world: World) -> dict[tuple[str, str], tuple[Effect, ...]]:
    """Return what each route declares that it causes."""
    assert world.runtime.context is not None
    declared = {(route.method, route.path): route.causes for route in route_table(world.runtime.context)}
    return {route: declared[route[0], route[1].replace(":path}", "}")] for route in routes_of(world)}


def credentials(world: World, of: Org, other: Org) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """Headers and cookies of everybody who may try."""
    key, session = {"Authorization": f"Bearer {of.key}"}, {SESSION: of.session}
    return {
        "key": (key, {}),
        "key that asks for the other": ({**key, "X-Organization": other.slug}, {}),
        "end user": ({"Authorization": f"Bearer {of.token()}"}, {}),
        "end user with the id of one of theirs": (
            {"Authorization": f"Bearer {of.token(f'user of {other.slug}')}"},
            {},
        ),
        "end user with the name of the staff": ({"Authorization": f"Bearer {of.token('admins')}"}, {}),
        "session": ({"X-CSRF-Token": of.csrf}, session),
        "session that chose the other": ({"X-CSRF-Token": of.csrf}, {**session, ORGANIZATION_COOKIE: other.slug}),
        "nobody": ({}, {}),
    }


def filled(value: Any, asked: Org, asking: Org) -> Any:
    if isinstance(value, str):
        value = re.sub(r"\$([a-z_]+)", lambda found: asked.ids[found[1]], value)
        return re.sub(r"@([a-z_]+)(?=$|[^.\w])", lambda found: asking.ids.get(found[1], found[0]), value)
    if isinstance(value, dict):
        return {name: filled(each, asked, asking) for name, each in value.items()}
    return [filled(each, asked, asking) for each in value] if isinstance(value, list) else value


async def send(
    world: World, method: str, path: str, ask: Ask, *, asked: Org, asking: Org, headers: Any, cookies: Any
) -> Answer:
    for name, value in ask.fill.items():
        path = path.replace(f"{{{name}}}", quote(filled(value, asked, asking), safe=""))
    options = {
        name: filled(getattr(ask, field), asked, asking) for name, field in PARTS if getattr(ask, field) is not None
    }
    headers = {**headers, **filled(dict(ask.headers), asked, asking)}
    cookies = {**cookies, **filled(dict(ask.cookies), asked, asking)}
    async with world.http.request(
        method, world.url + path, headers=headers, cookies=cookies, allow_redirects=False, **options
    ) as reply:
        body = (await reply.read()).decode("utf-8", "replace") + str(dict(reply.headers))
    for sent in strings([ask.fill, ask.query, ask.json, ask.form]):
        for form in {(text := filled(sent, asked, asking)), html.escape(text), quote(text), quote(text, safe="")}:
            body = body.replace(form, "") if "$" in sent else body
    return Answer(reply.status, body)


SECRET_TEXT = re.compile(rb"whsec_[\w+/]{8}|ow_[a-z2-7]{10}_[\w-]{8}|token=[\w-]{8}|access=\w{8}")
PARTS = (("params", "query"), ("json", "json"), ("data", "form"))


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if hasattr(value, "values") else value if isinstance(value, list) else ()
    return [found for part in parts for found in strings(part)]


def check_logged_paths(world: World, value: str) -> None:
    """No route writes a secret of its path to the log."""
    found = 0
    for _, path in routes_of(world):
        names = re.findall(r"\{(\w+)", path)
        scope = {"path": re.sub(r"\{[^}]*\}", value, path), "path_params": dict.fromkeys(names, value)}
        for route in (
            None,
            SimpleNamespace(path=path),
        ):  # None: nothing matched, for example because of a missing letter
            shown = logged_path({**scope, "route": route})
            assert value not in shown, path
        found += bool(names)
    assert found > 100


async def test_every_route_is_in_the_table_and_logs_no_secret_of_its_path(empty_world: World) -> None:
    for secret in ("s3cret-Token_value", "0190f5fe-0000-7000-8000-000000000000.c2lnbmF0dXJl"):
        check_logged_paths(empty_world, secret)
    served = routes_of(empty_world)
    assert served - set(ROUTES) == set(), "say in the table how these could be misused"
    assert set(ROUTES) - served == set()
    assert set(declared_effects(empty_world)) == served
    # The demo adds its start page and viewers of what its simulated services received, and nothing else.
    added = (start_router, demo.local_pages)
    assert [each for each in demo.app.routers if not any(each is known for known in added)] == bundled.app.routers


@pytest.mark.timeout(200)
async def test_nothing_of_another_organization_comes_out_of_any_route_and_nothing_of_it_changes(
    world: World, thorough: bool
) -> None:
    """The rows are compared once, after all routes; the thorough run compares after each and so names the culprit."""
    a, b = world.a, world.b
    routes_of_world = routes_of(world)
    secret = await needles(world.db, a.id) | {a.private, a.private.upper(), a.id.hex}
    everything = secret | {a.public}
    before = await digest(world.db, a.id)
    problems: list[str] = []
    served = [(*route, ask) for route, ask in ROUTES.items() if route in routes_of_world]
    # Reading routes first: what they changed is not hidden by what others change.
    served.sort(key=lambda route: route[0] != "GET")
    for method, path, ask in served:
        for who, (headers, cookies) in credentials(world, b, a).items():
            answer = await send(world, method, path, ask, asked=a, asking=b, headers=headers, cookies=cookies)
            where = f"{method} {path} as {who} ({answer.status})"
            unwanted = {a.private} if ask.shows == "public" else everything
            problems += [f"{where} shows {found}" for found in unwanted if found in answer.body]
            if answer.status >= 500:
                problems.append(f"{where}: {answer.body[:200]}")
            if ask.shows == "instance" and answer.status not in (303, 401, 403):
                problems.append(f"{where} is open")
        if thorough:
            after = await digest(world.db, a.id)
            problems += [f"{method} {path} changed {table}" for table in after if after[table] != before[table]]
            before = after
    after = await digest(world.db, a.id)
    problems += [f"a route changed {table}" for table in after if after[table] != before[table]]
    assert not problems, "\n".join(problems)


async def stored_secrets(world: World) -> list[str]:
    """Return the stored responses of idempotency keys that contain a secret."""
    box, found = secret_box(world.runtime.settings), []
    rows = await world.db.fetch("select id, body from onceward.idempotency_keys where body is not null")
    assert len(rows) > 10
    for row in rows:
        body = box.open(bytes(row["body"]), table=TABLE, row=row["id"], column="body")
        if SECRET_TEXT.search(body):
            found.append(f"a response with a secret was stored: {body[:60]!r}")
    return found


@pytest.mark.timeout(200)
async def test_the_owner_may_do_what_was_refused_to_the_other_organization(world: World) -> None:
    """The twin: the same questions, from whom they may come. Otherwise the walk above could have asked nonsense."""
    a = world.a
    own = await needles(world.db, a.id) | {a.private, a.private.upper(), a.public}
    problems: list[str] = []
    served = routes_of(world)
    declared, effects = declared_effects(world), Effects(world.db)
    await effects.problem(ANYTHING)
    for (method, path), ask in ROUTES.items():
        if ask.shows in ("nothing", "instance") or ask.refused or (method, path) not in served:
            continue
        headers = {"Authorization": f"Bearer {a.key}", "Idempotency-Key": "the same key"}
        answer = await send(world, method, path, ask, asked=a, asking=a, headers=headers, cookies={})
        if method == "POST":
            # The key belongs to the caller: everybody else's request is a new one.
            for who, credential in (("another organization", world.b.key), ("an end user", a.token())):
                other = {**headers, "Authorization": f"Bearer {credential}"}
                theirs = await send(world, method, path, ask, asked=a, asking=world.b, headers=other, cookies={})
                if "idempotency-replayed" in theirs.body.lower() and not ask.headers:
                    problems.append(f"{method} {path} answers {who} with the response of the owner's key")
        if undeclared := await effects.problem(declared[method, path]):
            problems.append(f"{method} {path} {undeclared}")
        if answer.status >= 400:
            problems.append(f"{method} {path} ({answer.status}): {answer.body[:300]}")
        elif method == "GET" and not ask.blank and not any(each in answer.body for each in own):
            problems.append(f"{method} {path} ({answer.status}) shows nothing of theirs: {answer.body[:300]}")
    problems += await stored_secrets(world)
    assert not problems, "\n".join(problems)
