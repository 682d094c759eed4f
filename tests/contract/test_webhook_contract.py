"""The contract of the webhook pipeline, as one test: ingest, resend, fail to a dead letter, replay.

Once through the HTTP endpoint with a worker of ours, once through SQL with a worker in another language. What was in the
tables, the worker's log and the metrics are kept in the directory that ONCEWARD_TEST_ARTIFACTS names.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from uuid import UUID

import asyncpg
import orjson
import pytest

from onceward import Event, Onceward, Tx
from onceward.db import Database
from onceward.inbox.event_search import EventFilter
from onceward.inbox.replay import replay
from onceward.telemetry.metrics import REGISTRY, render
from onceward.testing import until
from onceward.trust.sql_logins import add_login, remove_login
from onceward.webhooks.registry import get_provider
from tests.child import end_all
from tests.inbox.conftest import Office, call

SWITCH = """
create table contract_switch (broken boolean not null);
insert into contract_switch values (true);
create table http_side_effects (provider text not null, event_id text not null, payload jsonb, unique (provider, event_id));
grant select on contract_switch to onceward_app, onceward_sql_worker;
grant select, insert on http_side_effects to onceward_app;
"""
SENDER = "00000000-0000-0000-0000-000000000001"
INSERT = """
insert into webhook_events (webhook_id, event_id, payload, status, received_at)
values ($1::uuid, $2::text, $3::jsonb, 'pending', now())
on conflict (webhook_id, event_id) do nothing
returning id
"""
REPLAY = """
with dl as (select id from webhook_events where status = 'dead_letter' and event_id = $1 order by received_at limit 100)
update webhook_events set status = 'pending', attempts = 0, last_attempt_at = null, error = null
from dl where webhook_events.id = dl.id
returning webhook_events.event_id
"""


SIDE_EFFECT = """
INSERT INTO webhook_side_effects (id, provider, event_id, payload, created_at)
VALUES (gen_random_uuid(), $1, $2, $3::jsonb, now())
ON CONFLICT (provider, event_id) DO NOTHING
RETURNING id
"""
AUDIT = """
INSERT INTO audit.audit_logs(table_name, operation, row_data, changed_by, clinic_id)
VALUES ('webhook_events', 'replay', jsonb_build_object('webhook_id', '', 'event_id', 'evt-1', 'note', 'operator replay executed'),
        current_setting('app.current_user_id', true)::UUID, current_setting('app.current_clinic_id', true)::UUID)
"""
DEAD_REASONS = ("max_attempts_exceeded", "permanent")
WORKER = Path(__file__).parents[2] / "clients" / "webhook-worker" / "worker.mjs"


class Clock:
    """Business time that runs on, and can be pushed."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._ahead_s = 0

    async def push(self, seconds: int) -> None:
        self._ahead_s += seconds
        await self._db.execute(
            "create or replace function onceward.now() returns timestamptz language sql stable parallel safe as"
            f" 'select now() + interval ''{self._ahead_s} seconds'''"
        )


async def side_effects(db: Database, event_id: str, *, table: str = "webhook_side_effects") -> int:
    return await db.fetchval(f"select count(*) from {table} where event_id = $1", event_id)


async def standing(db: Database, event_id: str) -> tuple[str, int]:
    row = await db.fetchrow("select status, attempts from webhook_events where event_id = $1", event_id)
    return (row["status"], row["attempts"])


async def dead_after_backoff(db: Database, event_id: str) -> None:
    """Push the clock past each wait (2, 5, 15, 60 s) until the attempts are used up."""
    clock = Clock(db)
    for attempt in range(1, 6):

        async def tried(attempt: int = attempt) -> bool:
            status, attempts = await standing(db, event_id)
            return attempts >= attempt and status != "processing"

        await until(tried, timeout_s=20)
        if attempt < 5:
            assert (await standing(db, event_id))[0] == "pending"
            await clock.push(61)
    assert await standing(db, event_id) == ("dead_letter", 5)


async def keep(db: Database, name: str, log: str) -> None:
    """What a reader of a failed run wants to see."""
    directory = os.environ.get("ONCEWARD_TEST_ARTIFACTS")
    if not directory:
        return
    target = Path(directory) / name
    target.mkdir(parents=True, exist_ok=True)
    for table in ("webhook_events", "webhook_side_effects", "onceward.attempts", "onceward.audit_log"):
        rows = [dict(row) for row in await db.fetch(f"select * from {table}")]
        text = orjson.dumps(rows, default=str, option=orjson.OPT_INDENT_2)
        (target / f"{table.rpartition('.')[2]}.json").write_bytes(text)
    (target / "worker.log").write_text(log, encoding="utf-8")
    (target / "metrics.txt").write_bytes(render()[0])


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


PROVIDERS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    # type of the event, path of its id, path of the switch that makes the handler fail, options of the source
    "stripe": ("payment_intent.succeeded", "id", "data.object.fail", {}),
    "whatsapp": (
        "message.text",
        "entry.0.changes.0.value.messages.0.id",
        "entry.0.changes.0.value.messages.0.fail",
        {"options": {"verify_token": "token"}},
    ),
    "twilio": ("message.received", "MessageSid", "Fail", {"public_url": "https://clinic.example"}),
    "daily": ("participant.joined", "id", "payload.fail", {"secret": "c2VjcmV0IG9mIHRoZSB0ZXN0cywgMzIgYnl0ZXM="}),
}


@pytest.mark.acceptance("criterion-3", "criterion-4", "criterion-5", "box-3", "box-4", "box-5", "box-7")
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_ingest_resend_dead_letter_and_replay_over_http(
    office: Any, capfd: pytest.CaptureFixture[str], provider: str
) -> None:
    app = Onceward("contract")
    type, id_path, fail_path, options = PROVIDERS[provider]

    @app.on(provider, type)
    async def process(event: Event, tx: Tx) -> None:
        if "fail" in str(event.payload).lower() and await tx.fetchval("select broken from contract_switch"):
            raise RuntimeError("simulated failure")
        await tx.execute(
            "insert into http_side_effects (provider, event_id, payload) values ($1, $2, $3)",
            event.provider,
            event.event_id,
            event.payload,
        )

    here: Office = await office(app)
    db = here.db
    await db.execute(SWITCH)
    webhook_id = str(await here.source(provider, **options))
    await here.start_worker()

    async def send(id: str, fields: dict[str, Any] | None = None) -> Any:
        sample = get_provider(provider).sample(type, {id_path: id})
        body, path = get_provider(provider).encode(_set(sample, fields or {})), f"/webhooks/{provider}"
        return await call(here.inbox, path, body, here.signed(provider, body, path=path))

    async def effects(id: str) -> int:
        return await side_effects(db, await stored_id(db, id), table="http_side_effects")

    try:
        first = await send("evt-1")
        assert first.status in (200, 204)
        await until(lambda: effects("evt-1"), timeout_s=30)

        again = await send("evt-1")
        assert (again.status, again.headers.get("onceward-duplicate")) == (first.status, "true")
        assert await effects("evt-1") == 1

        assert (await send("evt-broken", {fail_path: "yes"})).status == first.status
        event_id = await stored_id(db, "evt-broken")
        await dead_after_backoff(db, event_id)
        assert await effects("evt-broken") == 0

        await db.execute("update contract_switch set broken = false")
        done = await replay(db, EventFilter(event_ids=[event_id]), actor="operator:test", reason="handler repaired")
        assert len(done.done) == 1
        here.engine.waker.wake("events")
        await until(lambda: effects("evt-broken"), timeout_s=30)
        assert (await standing(db, event_id))[0] == "success"

        audited = await db.fetchrow("select * from audit.audit_logs where operation = 'event.replayed'")
        assert (audited["actor"], audited["reason"]) == ("operator:test", "handler repaired")
        await here.inbox.upkeep.count()
        of = {"webhook_id": webhook_id, "provider": provider}
        assert metric("webhook_processing_total", **of, result="success") == 2
        assert metric("webhook_processing_total", **of, result="error") == 5
        assert metric("webhook_dead_letter_total", **of, reason="max_attempts_exceeded") == 1
        assert metric("webhook_replay_total", webhook_id=webhook_id, operator="operator:test") == 1
    finally:
        await keep(db, f"http-{provider}", capfd.readouterr().out)


def _set(payload: Any, fields: dict[str, Any]) -> Any:
    """Set values at dotted paths, also where the sample has none."""
    for path, value in fields.items():
        *parents, last = path.split(".")
        target = payload
        for name in parents:
            target = target[int(name)] if name.isdigit() else target[name]
        target[last] = value
    return payload


async def stored_id(db: Database, id: str) -> str:
    """The event id under which a provider's event is stored; Twilio's has the status, too."""
    return await db.fetchval("select event_id from webhook_events where event_id in ($1, $1 || ':received')", id)


@asynccontextmanager
async def least_privilege(db: Database) -> AsyncIterator[str]:
    """A login that may do what a worker in another language needs, and nothing else; yields the URL to log in with."""
    role, password = f"contract_{secrets.token_hex(6)}", secrets.token_hex(16)
    await db.execute(f"create role {role} login password '{password}' in role onceward_sql_worker")
    try:
        yield url_of(db, role, password)
    finally:
        await db.execute(f"drop role {role}")


@asynccontextmanager
async def login_of_organization(db: Database, organization: UUID) -> AsyncIterator[str]:
    """The login of an organization's worker; yields the URL to log in with."""
    login = f"contract_{secrets.token_hex(6)}"
    async with db.transaction(role="engine") as tx:
        password = await add_login(tx, login, organization=organization, actor="test")
    try:
        yield url_of(db, login, password)
    finally:
        async with db.transaction(role="engine") as tx:
            await remove_login(tx, login, actor="test")


def url_of(db: Database, login: str, password: str) -> str:
    parts = urlsplit(db.url)
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name not in ("user", "password")])
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(("postgresql", f"{login}:{password}@{host}", parts.path, query, ""))


@asynccontextmanager
async def node_worker(url: str, log: list[str], **settings: str) -> AsyncIterator[None]:
    """The worker with nothing but Node, the URL and its settings in the environment: no PATH, so no psql and no Python."""
    node = shutil.which("node")
    assert node is not None
    process = await asyncio.create_subprocess_exec(
        node,
        str(WORKER),
        env={"DATABASE_URL": url, "HANDLER": str(Path(__file__).with_name("handler.mjs")), **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdin is not None
    try:
        yield
    finally:
        try:
            output, _ = await asyncio.wait_for(process.communicate(b"stop\n"), timeout=30)
            log.extend(output.decode().splitlines())
        finally:
            await end_all([process])


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed: apt install nodejs")


@needs_node
@pytest.mark.acceptance("criterion-2", "criterion-3", "criterion-5", "box-2", "box-3", "box-4", "box-5", "box-7")
async def test_ingest_resend_dead_letter_and_replay_over_sql_in_another_language(db: Database, office: Any) -> None:
    await db.execute(SWITCH)
    here: Office = await office(Onceward("contract"))
    webhook_id = str(await here.source("lab", provider="stripe", mode="external"))
    log: list[str] = []
    try:
        async with least_privilege(db) as url:
            async with node_worker(url, log, WORKER_POLL_INTERVAL_MS="50", MAX_ATTEMPTS="5"):
                assert await db.fetchval(INSERT, webhook_id, "evt-1", {"foo": "bar"}) is not None
                await until(lambda: side_effects(db, "evt-1"), timeout_s=30)
                assert await db.fetchval(INSERT, webhook_id, "evt-1", {"foo": "bar"}) is None
                assert await side_effects(db, "evt-1") == 1
                assert await standing(db, "evt-1") == ("success", 1)

                await db.execute(INSERT, webhook_id, "evt-fail", {"fail": True})
                await dead_after_backoff(db, "evt-fail")
                error = await db.fetchval("select error from webhook_events where event_id = 'evt-fail'")
                assert error == "simulated failure"
                assert await side_effects(db, "evt-fail") == 0

                await db.execute("update contract_switch set broken = false")
                replayed = await db.fetch(REPLAY, "evt-fail")
                assert [row["event_id"] for row in replayed] == ["evt-fail"]
                await until(lambda: side_effects(db, "evt-fail"), timeout_s=30)
                assert await standing(db, "evt-fail") == ("success", 1)
                audited = "select count(*) from audit.audit_logs where operation = 'event.replayed'"
                assert await db.fetchval(audited) == 1
        lines = [orjson.loads(line) for line in log]
        assert lines[0] == {
            "event": "worker.started",
            "poll_interval_ms": 50,
            "max_attempts": 5,
            "webhook_id": None,
        }
        assert lines[-1] == {"event": "worker.stopped", "totals": {"success": 2, "error": 5, "dead_letter": 1}}
        assert [line["event_id"] for line in lines if line["event"] == "event.handled"] == ["evt-1", "evt-fail"]
        await here.inbox.upkeep.count()
        of = {"webhook_id": webhook_id, "provider": "stripe"}
        assert metric("webhook_processing_total", **of, result="success") == 2
        assert metric("webhook_processing_total", **of, result="error") == 5
        dead = [metric("webhook_dead_letter_total", **of, reason=reason) for reason in DEAD_REASONS]
        assert sum(dead) == 1
        replays = [
            sample.value
            for family in REGISTRY.collect()
            for sample in family.samples
            if sample.name == "webhook_replay_total" and sample.labels["webhook_id"] == webhook_id
        ]
        assert sum(replays) == 1
    finally:
        await keep(db, "sql", "\n".join(log))


@needs_node
async def test_the_node_worker_honours_fewer_attempts_and_reconnects(db: Database) -> None:
    await db.execute(SWITCH)
    log: list[str] = []
    # Of this database only: other tests use the same server at the same time.
    sessions = "from pg_stat_activity where datname = current_database() and application_name = 'webhook-worker'"
    end_session = f"select pg_terminate_backend(pid) {sessions}"
    waits = f"select exists (select {sessions} and wait_event_type = 'Lock')"
    async with least_privilege(db) as url, node_worker(url, log, WORKER_POLL_INTERVAL_MS="50", MAX_ATTEMPTS="1"):
        await db.execute(INSERT, SENDER, "evt-fail", {"fail": True})

        async def dead() -> bool:
            return (await standing(db, "evt-fail"))[0] == "dead_letter"

        await until(dead, timeout_s=30)
        # While it is idle, and while it handles an event.
        assert await db.fetchval(end_session)
        async with db.transaction(role="engine") as tx:
            await tx.execute("lock table webhook_side_effects")
            await db.execute(INSERT, SENDER, "evt-1", {"foo": "bar"})
            await until(lambda: db.fetchval(waits), timeout_s=30)
            assert await db.fetchval(end_session)
        await until(lambda: side_effects(db, "evt-1"), timeout_s=30)
        assert await standing(db, "evt-1") == ("success", 1), "the second connection has the lease of the first"
    assert await standing(db, "evt-fail") == ("dead_letter", 1)
    events = [orjson.loads(line)["event"] for line in log]
    assert events.count("database.connected") == events.count("database.lost") + 1 == 3
    assert events[-1] == "worker.stopped"


@needs_node
async def test_the_worker_of_an_organization_handles_its_own_events_only(db: Database) -> None:
    organizations: dict[str, UUID] = {}
    sources: dict[str, UUID] = {}
    for slug in ("a", "b"):
        add = "insert into onceward.organizations (slug, name) values ($1, $1) returning organization_id"
        organizations[slug] = await db.fetchval(add, slug)
        sources[slug] = await db.fetchval(
            "insert into onceward.sources (organization_id, name, provider, mode) values ($1, $2, 'generic', 'external')"
            " returning webhook_id",
            organizations[slug],
            f"lab-{slug}",
        )
    await db.execute(INSERT, str(sources["b"]), "evt-1", {})
    await db.execute(INSERT, str(sources["a"]), "evt-1", {"foo": "bar"})
    log: list[str] = []
    async with (
        login_of_organization(db, organizations["a"]) as url,
        node_worker(url, log, WORKER_POLL_INTERVAL_MS="50", HANDLER=""),
    ):
        await until(lambda: side_effects(db, "evt-1"), timeout_s=30)
    rows = await db.fetch("select webhook_id, status from webhook_events")
    assert {row["webhook_id"]: row["status"] for row in rows} == {sources["a"]: "success", sources["b"]: "pending"}
    async with login_of_organization(db, organizations["b"]) as url:
        conn = await asyncpg.connect(url)
        try:
            assert await conn.fetch("select * from webhook_side_effects") == []
            foreign = "insert into webhook_side_effects (provider, webhook_id, event_id) values ('node', $1, 'evt-1')"
            with pytest.raises(asyncpg.PostgresError, match="not a source of the organization"):
                await conn.execute(foreign, sources["a"])
            assert await conn.fetchval(SIDE_EFFECT, "node", "evt-1", "{}") is not None, "the id is free in this source"
            assert await conn.fetchval(SIDE_EFFECT, "node", "evt-1", "{}") is None
            assert await conn.fetchval(SIDE_EFFECT, "node", "evt-of-nobody", "{}") is not None
            assert await conn.execute("update webhook_side_effects set external_id = 'x'") == "UPDATE 2"
        finally:
            await conn.close()
    owners = await db.fetch("select * from onceward.webhook_side_effects where event_id = 'evt-1'")
    assert {row["webhook_id"]: (row["provider"], row["organization_id"]) for row in owners} == {
        sources[slug]: ("node", organizations[slug]) for slug in ("a", "b")
    }


@pytest.mark.acceptance("criterion-1", "box-1")
async def test_every_statement_of_the_seed_runs_as_the_least_privileged_role(db: Database) -> None:
    """The stub's, the replay script's and the contract test's statements, as a member of `onceward_sql_worker` only."""
    async with least_privilege(db) as url:
        conn = await asyncpg.connect(url)
        try:
            await conn.execute("select 1")
            id = await conn.fetchval(INSERT, SENDER, "evt-1", '{"foo": "bar"}')
            assert id is not None
            claimed = await conn.fetchrow("SELECT * FROM webhook.claim_next_event(NULL)")
            assert (claimed["id"], claimed["event_id"]) == (id, "evt-1")
            assert await conn.fetchval(SIDE_EFFECT, "mock-provider", "evt-1", "{}") is not None
            assert await conn.fetchval(SIDE_EFFECT, "mock-provider", "evt-1", "{}") is None
            assert await conn.fetchval("SELECT attempts FROM webhook_events WHERE id = $1", id) == 1
            await conn.execute("UPDATE webhook_events SET status = $1 WHERE id = $2", "pending", id)
            await conn.fetchrow("SELECT * FROM webhook.claim_next_event(NULL)")
            await conn.execute(
                "SELECT webhook.mark_event_result($1::uuid, $2::webhook_event_status, $3::text)", id, "dead_letter", "x"
            )
            listed = "SELECT id, webhook_id, event_id, status, attempts, error FROM webhook_events"
            dead = f"{listed} WHERE event_id = 'evt-1' AND status = 'dead_letter' LIMIT 100"
            assert len(await conn.fetch(dead)) == 1
            by_source = (
                f"{listed} WHERE webhook_id = '{SENDER}' AND status = 'dead_letter' ORDER BY received_at LIMIT 100"
            )
            await conn.fetch(by_source)
            assert [row["event_id"] for row in await conn.fetch(REPLAY, "evt-1")] == ["evt-1"]
            await conn.execute(AUDIT)
            assert (
                await conn.fetchval("SELECT count(*) AS cnt FROM webhook_side_effects WHERE event_id = $1", "evt-1")
                == 1
            )
            status: Any = await conn.fetchrow(
                "SELECT status, attempts, error FROM webhook_events WHERE event_id = $1", "evt-1"
            )
            assert status is not None
            assert tuple(status) == ("pending", 0, None)
            for forbidden in (
                "select * from onceward.recipients",
                "delete from webhook_side_effects",
                "select * from audit.audit_logs",
                "select * from onceward.sources",
            ):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await conn.execute(forbidden)
        finally:
            await conn.close()


async def test_a_side_effect_gets_the_organization_of_its_event(db: Database, office: Any) -> None:
    here: Office = await office(Onceward("contract"))
    clinic = await db.fetchval(
        "insert into onceward.organizations (slug, name) values ('c', 'c') returning organization_id"
    )
    webhook_id = await here.source("lab", provider="stripe", mode="external", organization=clinic)
    await db.execute(INSERT, str(webhook_id), "evt-1", {})
    async with least_privilege(db) as url:
        conn = await asyncpg.connect(url)
        try:
            await conn.execute(SIDE_EFFECT, "lab", "evt-1", "{}")
            await conn.execute(SIDE_EFFECT, "lab", "evt-of-nobody", "{}")
        finally:
            await conn.close()
    rows = await db.fetch("select event_id, organization_id from onceward.webhook_side_effects order by event_id")
    assert [tuple(row) for row in rows] == [("evt-1", clinic), ("evt-of-nobody", None)]


@needs_node
@pytest.mark.acceptance("001-H effects")
async def test_two_senders_with_the_same_event_id_cause_two_effects(db: Database) -> None:
    """One worker of the installation handles the events of two clinics, whose senders both count from 1."""
    sources: list[UUID] = []
    for slug in ("a", "b"):
        add = "insert into onceward.organizations (slug, name) values ($1, $1) returning organization_id"
        sources.append(
            await db.fetchval(
                "insert into onceward.sources (organization_id, name, provider, mode) values ($1, $2, 'generic', 'external')"
                " returning webhook_id",
                await db.fetchval(add, slug),
                f"lab-{slug}",
            )
        )
        await db.execute(INSERT, str(sources[-1]), "1001", {"of": slug})
    log: list[str] = []
    async with least_privilege(db) as url:
        async with node_worker(url, log, WORKER_POLL_INTERVAL_MS="50", HANDLER=""):
            done = "select count(*) = 2 from webhook_events where status = 'success'"
            await until(lambda: db.fetchval(done), timeout_s=30)
        conn = await asyncpg.connect(url)
        try:
            with pytest.raises(asyncpg.PostgresError, match="exists in several sources"):
                await conn.execute(SIDE_EFFECT, "node", "1001", "{}")
        finally:
            await conn.close()
    rows = await db.fetch("select webhook_id, payload from onceward.webhook_side_effects")
    assert {row["webhook_id"]: row["payload"]["of"] for row in rows} == dict(zip(sources, "ab", strict=True))
