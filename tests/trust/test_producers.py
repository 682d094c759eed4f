"""A producer in another language enqueues, publishes and sends for its organization, and can do nothing else."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from onceward.db import Connection, Database
from onceward.messages.message_queue import Sending, queue
from onceward.messages.template_versions import record_versions
from onceward.messages.templates import Template, Templates
from onceward.outbox import catalogue
from onceward.trust import create_organization
from onceward.trust.sql_logins import add_login, list_logins, remove_login

NEWS = Template("news", {"en": {"subject": "s", "text": "t"}}, {"category": "news", "bulk": True, "policy": "patient"})
HELLO = Template("hello", {"en": {"subject": "s", "text": "t"}})
ENDPOINT = "insert into onceward.endpoints (organization_id, url, events) values ($1, 'https://a.example', array['*'])"
REACHABLE = """
select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where p.prosecdef and n.nspname !~ '^pg_' and has_function_privilege('onceward_producer', p.oid, 'execute') order by 1
"""
STORED = """
select m.*, m.token is null as without_link, w.* from onceward.messages m join onceward.work w using (id)
 where m.organization_id = $1 and m.key = $2
"""
TABLES = """
select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'v', 'm') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
   and (has_any_column_privilege('onceward_producer', c.oid, 'select, insert, update')
        or has_table_privilege('onceward_producer', c.oid, 'delete, truncate, trigger'))
"""


@dataclass(frozen=True, slots=True)
class Shop:
    """An organization with an endpoint, and a connection of its producer."""

    organization: UUID
    login: str
    producer: Connection


@pytest.fixture
async def shops(db: Database) -> AsyncIterator[list[Shop]]:
    templates = Templates()
    templates.add(NEWS)
    templates.add(HELLO)
    await record_versions(db, templates, None)
    async with db.acquire() as conn:
        await catalogue.save(conn, [catalogue.EventType("order.paid")])
    made: list[Shop] = []
    for slug in ("one", "two"):
        login = f"{slug}_{secrets.token_hex(4)}"
        async with db.transaction(role="engine") as tx:
            organization = (await create_organization(tx, slug, name=slug, actor="test")).organization_id
            password = await add_login(tx, login, organization=organization, may=["produce"], actor="test")
        await db.execute(ENDPOINT, organization)
        producer = await asyncpg.connect(db.url, user=login, password=password)
        made.append(Shop(organization, login, producer))
    yield made
    for shop in made:
        await shop.producer.close()
        async with db.transaction(role="engine") as tx:
            await remove_login(tx, shop.login, actor="test")


async def test_it_produces_for_its_organization_in_its_own_transaction(db: Database, shops: list[Shop]) -> None:
    one, two = shops
    async with one.producer.transaction():
        job = await one.producer.fetchval("select onceward.enqueue('pack', '{\"order\": 7}', unique_key => 'o7')")
        again = await one.producer.fetchval("select onceward.enqueue('pack', '{\"order\": 7}', unique_key => 'o7')")
        event = await one.producer.fetchrow("select * from onceward.publish('order.paid', '{\"order\": 7}', 'o7')")
        message = await one.producer.fetchrow("select * from onceward.send('hello', 'Ann@shop.example', 'o7')")
        other = await one.producer.fetchrow("select * from onceward.send('hello', 'bob@shop.example', 'o7')")
    assert again == job
    assert (other["id"], other["duplicate"]) == (message["id"], True)
    assert event["deliveries"] == 1, "the endpoint of the other organization gets nothing"
    owners = await db.fetch("select kind, organization_id from onceward.work order by kind")
    assert [tuple(row) for row in owners] == [(kind, one.organization) for kind in ("delivery", "job", "message")]
    # The same key of another organization is another job.
    assert await two.producer.fetchval("select onceward.enqueue('pack', unique_key => 'o7')") != job
    with pytest.raises(RuntimeError, match="undo"):
        async with one.producer.transaction():
            await one.producer.execute("select onceward.enqueue('pack')")
            raise RuntimeError("undo")
    assert await db.fetchval("select count(*) from onceward.work where kind = 'job'") == 2


async def test_it_can_do_nothing_else(db: Database, shops: list[Shop]) -> None:
    one, two = shops
    assert [row["proname"] for row in await db.fetch(REACHABLE)] == ["enqueue", "publish", "send"]
    assert [row["name"] for row in await db.fetch(TABLES)] == []
    for statement in (
        "select * from onceward.work",
        "insert into onceward.work (id, kind, task, queue) values (1, 'job', 't', 'default')",
        "select nextval('onceward.ids')",
        "select onceward.cancel(1)",
        "select onceward.write_published(null, 'a', '{}', null, null, null, null)",
        "select onceward.start_workflow('w', '{}')",
        "select onceward.notify('T', 'info', 't')",
        "select webhook.claim_next_event()",
        "set role onceward_app",
        "set role onceward_engine",
        "create table mine (x int)",
        "create temporary table mine (x int)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await one.producer.execute(statement)
    await one.producer.execute(f"set onceward.organization = '{two.organization}'")
    for call in (
        "select onceward.enqueue('t')",
        "select onceward.publish('order.paid', '{}')",
        "select onceward.send('hello', 'a@b.example', 'k')",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="names another"):
            await one.producer.execute(call)
    assert await db.fetchval("select count(*) from onceward.work") == 0
    await one.producer.execute("reset onceward.organization")
    await db.execute("delete from onceward.organizations where organization_id = $1", one.organization)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="was deleted"):
        await one.producer.execute("select onceward.enqueue('t')")


async def test_a_producer_of_the_installation_names_the_organization(db: Database, shops: list[Shop]) -> None:
    login = f"all_{secrets.token_hex(4)}"
    await db.execute(f"create role {login} login in role onceward_producer")
    try:
        producer = await asyncpg.connect(db.url, user=login)
        try:
            await producer.execute(f"set onceward.organization = '{shops[1].organization}'")
            await producer.execute("select onceward.enqueue('t')")
            await producer.execute("reset onceward.organization")
            await producer.execute("select onceward.enqueue('t')")
        finally:
            await producer.close()
    finally:
        await db.execute(f"drop role {login}")
    owners = await db.fetch("select organization_id from onceward.jobs order by id")
    assert [row["organization_id"] for row in owners] == [shops[1].organization, None]
    async with db.acquire() as conn:
        assert [each.may for each in await list_logins(conn)] == [["produce"], ["produce"]]


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("select onceward.publish('nope.type', '{}')", "nope.type is not in the catalogue"),
        ("select onceward.publish('Order', '{}')", "lower-case words"),
        ("select onceward.publish('order.paid', '{}', '')", "key must have 1 to 255 characters"),
        ("select onceward.publish('order.paid', to_json(repeat('a', 300000)))", "at most 262144"),
        ("select onceward.send('nope', 'a@b.example', 'k')", "there is no template nope"),
        (
            "select onceward.send('hello', 'a@b.example', 'k', channel => 'fax')",
            "channel must be one of dashboard, email",
        ),
        ("select onceward.send('hello', ' ', 'k')", "recipient must be an address"),
        ("select onceward.send('hello', 'a@b.example', '')", "key must have 1 to 500 characters"),
        ("select onceward.send('hello', 'a@b.example', 'k', '[]')", "data must be a JSON object, not array"),
        ("select onceward.enqueue('t', '[]')", "args must be a JSON object"),
    ],
)
async def test_what_is_refused_over_http_is_refused_in_sql(
    db: Database, shops: list[Shop], call: str, problem: str
) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match=problem):
        await shops[0].producer.execute(call)
    assert await db.fetchval("select count(*) from onceward.work") == 0
    await shops[0].producer.execute("select onceward.publish('order.paid', '{}')")


@pytest.mark.parametrize(
    ("template", "to", "channel"),
    [
        (HELLO, "Ann@Shop.Example", None),
        (HELLO, "user-7", None),
        (NEWS, "+4915112345678", "sms"),
        (NEWS, "#news", "slack"),
        (NEWS, "user-7", "dashboard"),
        (HELLO, "user-7", "push"),
    ],
)
async def test_a_message_from_sql_is_the_same_as_one_from_python(
    db: Database, shops: list[Shop], template: Template, to: str, channel: Any
) -> None:
    one = shops[0]
    await one.producer.execute(
        "select onceward.send($1, $2, 'sql', '{\"a\": 1}', $3, locale => 'pt')", template.name, to, channel
    )
    async with db.transaction(organization=one.organization) as tx:
        await queue(tx, template, [Sending(to=to, key="python", data={"a": 1}, locale="pt")], channel=channel)
    volatile = {"id", "key", "token", "created_at", "sort_at", "caused_by", "context"}
    stored = [dict(row) for key in ("sql", "python") for row in await db.fetch(STORED, one.organization, key)]
    from_sql, from_python = ({name: row[name] for name in row.keys() - volatile} for row in stored)
    assert from_sql == from_python
