"""One caller cannot use up the live queries of an organization."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from onceward import Onceward, Query
from onceward.live.errors import BadArguments
from onceward.live.shares import is_person, payer_of
from onceward.trust import Identity
from onceward_apps.all import app as bundled
from tests.live.conftest import Client, Open, Start

SECRETS = {"token", "access"}
"""Texts that the rule of the query checks before the query runs."""


def numbers() -> Onceward:
    app = Onceward("numbers")

    @app.query(allow="user")
    async def number(q: Query, *, n: int) -> int:
        return n

    return app


async def accepted(client: Client, n: int) -> int:
    id = await client.subscribe("number", n=n)
    await client.until(lambda: client.results.get(id) == n)
    return id


async def refused(client: Client, n: int) -> str:
    id = await client.subscribe("number", n=n)
    await client.until(lambda: id in client.errors)
    assert client.errors[id]["code"] == "too_much"
    return client.errors[id]["message"]


async def test_a_user_at_the_limit_of_one_caller_does_not_block_another(
    site: Start, client: Open, organization: UUID
) -> None:
    here = await site(numbers(), max_groups_per_caller=3, max_groups_per_organization=10, linger_s=60)
    ada, again = await client(here, organization, "ada", "user"), await client(here, organization, "ada", "user")
    bob = await client(here, organization, "bob", "user")
    first, *_ = [await accepted(ada, n) for n in (1, 2, 3)]
    assert "the caller has reached its limit of 3" in await refused(ada, 4)
    await refused(again, 4)  # another connection of the same user
    await accepted(bob, 4)
    await accepted(bob, 5)
    await accepted(bob, 1)  # already runs, and counts for ada
    await ada.say("drop", id=first)
    await accepted(ada, 6)
    await refused(bob, 7)  # the query that both watched counts for bob now


async def test_a_query_that_nobody_watches_any_more_makes_room(site: Start, client: Open, organization: UUID) -> None:
    here = await site(numbers(), max_groups_per_caller=2, max_groups_per_organization=3, linger_s=60)
    ada, bob = await client(here, organization, "ada", "user"), await client(here, organization, "bob", "user")
    for n in range(1, 8):
        await ada.say("drop", id=await accepted(ada, n))
    await accepted(bob, 1)
    await accepted(bob, 2)
    await accepted(ada, 9)


async def test_the_caller_with_the_most_queries_makes_room_and_nobody_else_loses_a_result(
    site: Start, client: Open, organization: UUID
) -> None:
    here = await site(numbers(), max_groups_per_caller=4, max_groups_per_organization=4)
    ada, bob = await client(here, organization, "ada", "user"), await client(here, organization, "bob", "user")
    ids = [await accepted(ada, n) for n in (1, 2, 3, 4)]
    shared = await accepted(bob, 4)
    await accepted(bob, 5)
    await ada.until(lambda: ids[2] in ada.errors)  # the newest one that only ada watched
    await accepted(bob, 6)
    await ada.until(lambda: ids[1] in ada.errors)
    assert ada.errors[ids[1]]["code"] == "too_much"
    assert "the organization has reached its limit of 4" in await refused(bob, 7)  # both have two
    assert shared not in bob.errors
    assert not {ids[0], ids[3]} & set(ada.errors)
    elsewhere = await client(here, uuid4(), "ada", "user")
    await accepted(elsewhere, 1)


async def test_connections_are_limited_per_caller(site: Start, client: Open, organization: UUID) -> None:
    here = await site(numbers(), max_connections_per_caller=1)
    ada = await client(here, organization, "ada", "user")
    await accepted(ada, 1)
    second = await client(here, organization, "ada", "user")
    await second.until(lambda: second.closed_with == 4429)
    await accepted(await client(here, organization, "bob", "user"), 1)
    await accepted(await client(here, uuid4(), "ada", "user"), 1)
    await ada.close()
    await accepted(await client(here, organization, "ada", "user"), 2)


def test_callers_without_credentials_are_distinguished_by_their_address() -> None:
    assert payer_of(None, "192.0.2.1") == payer_of(None, "192.0.2.1") != payer_of(None, "192.0.2.2")
    assert payer_of(None, "2001:db8::1") == payer_of(None, "2001:db8::2")
    assert is_person(payer_of(None, "192.0.2.1"))
    assert not is_person(payer_of(Identity("key", uuid4(), frozenset({"viewer"}), sub="k", label="k"), "192.0.2.1"))


def test_an_argument_that_selects_a_variant_has_a_closed_type() -> None:
    progress = bundled.live.query("coursegen.progress")
    progress.load({"course_id": str(uuid4()), "locale": "ru"})
    with pytest.raises(BadArguments, match="argument locale"):
        progress.load({"course_id": str(uuid4()), "locale": "ru-1"})
    open_texts = {
        f"{name}.{argument}"
        for name, definition in bundled.live.queries.items()
        for argument, field in definition.model.model_fields.items()
        if field.annotation is str and argument not in SECRETS
    }
    assert open_texts == set()
