"""Pages over HTTP: who may see them, what they may never contain, and that no button works without its token."""

from __future__ import annotations

import asyncio
import csv
import hmac
import html
import io
import json
import re
from typing import Any

import openpyxl
import pytest

from onceward.runtime import FEATURES
from onceward.web.dashboard.contribution import Pages
from tests.dashboard.conftest import LogIn
from tests.dashboard.season import busy
from tests.dashboard.shop import World, settled

CONTRIBUTED = sum(FEATURES.load("pages"), Pages())
PAGES, ACTIONS = CONTRIBUTED.pages, CONTRIBUTED.actions


MONEY = {
    "payment": "insert into onceward.payments (organization_id, account_id, subject_type, subject_id, amount, currency, title,"
    " expires_at) select o.organization_id, a.id, 'order', '1', 100, 'EUR', 'Chair', now()"
    " from onceward.payment_account('shop', 'stripe', 'shop') a, onceward.organizations o where o.slug = 'acme' returning id",
    "refund": "insert into onceward.payment_refunds (organization_id, payment_id, amount, currency, reason, requested_by)"
    " select organization_id, id, 100, 'EUR', 'broken', 'test' from onceward.payments returning id",
}


async def test_every_page_answers_and_carries_nothing_that_the_policy_forbids(world: World, log_in: LogIn) -> None:
    ids = await busy(world)
    root = await log_in("root@example.org")
    noun = {"event": ids["event"], "job": ids["job"]}
    for name, table in (("message", "messages"), ("delivery", "deliveries"), ("workflow", "workflows")):
        noun[name] = await world.runtime.database.fetchval(f"select max(id) from onceward.{table}")
    for name in ("payment", "refund"):
        noun[f"desk-payments-{name}s-row"] = await world.runtime.database.fetchval(MONEY[name])
    one = "select organization_id from onceward.organizations limit 1"
    noun["desk-look-organizations-row"] = await world.runtime.database.fetchval(one)
    for page in PAGES:
        path = page.path.replace("{code:path}", "cash")
        path = path.format(id=noun.get(page.name, ids["event"]), name="expire_holds", currency="EUR")
        if page.name == "account":
            continue  # of one organization, below
        if page.name == "template":
            path = "/dashboard/templates/notification"
        status, text, headers = await root.get(path)
        if page.name == "desk-look":  # its only list is where it starts
            assert (status, headers["Location"]) == (303, "/dashboard/look/organizations")
            continue
        assert status == 200, path
        assert "script-src 'self'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert not re.search(r"<script(?![^>]*\ssrc=)", text), path
        assert not re.search(r"\sstyle=|<style|\son\w+=|javascript:", text), path
    owner = await log_in("olga@acme.example")
    for path in ("/dashboard/ledger", "/dashboard/ledger/EUR/cash", "/dashboard/keys"):
        assert (await owner.get(path))[0] == 200, path


async def test_a_visitor_without_a_session_is_sent_to_the_login_page(world: World, log_in: LogIn) -> None:
    person = await log_in("vera@acme.example")
    person.http.cookie_jar.clear()
    for page in PAGES:
        status, _, headers = await person.get(
            page.path.replace("{code:path}", "x").format(id=1, name="x", currency="EUR")
        )
        assert (status, headers["Location"]) == (303, "/login"), page.path
    for action in ACTIONS:
        status, _, headers = await person.post(action.path.format(slug="jobs", id=1), csrf=False)
        assert (status, headers["Location"]) == (303, "/login"), action.path


RANK = ["user", "viewer", "operator", "owner", "admin"]
PEOPLE = {"viewer": "vera@acme.example", "operator": "otto@acme.example", "owner": "olga@acme.example"}


@pytest.mark.parametrize("role", PEOPLE)
async def test_every_page_and_button_asks_for_its_role(world: World, log_in: LogIn, role: str) -> None:
    person = await log_in(PEOPLE[role])
    for page in PAGES:
        path = page.path.replace("{code:path}", "x").format(id=999999, name="x", currency="EUR")
        status, _, _ = await person.get(path)
        assert (status == 403) == (RANK.index(role) < RANK.index(page.scope)), (page.name, status)
    for action in ACTIONS:
        status, _, _ = await person.post(action.path.format(slug="jobs", id=999999))
        assert (status == 403) == (RANK.index(role) < RANK.index(action.scope)), (action.path, status)


async def test_no_button_works_without_its_token_or_from_another_site(world: World, log_in: LogIn) -> None:
    root = await log_in("root@example.org")
    for action in ACTIONS:
        status, _, _ = await root.post(
            action.path.format(slug="jobs", id=1), csrf=False, queue="default", all="yes", reason="x"
        )
        assert status == 403, action.path
    form = {"csrf_token": await root.csrf(), "queue": "default"}
    there = {"Origin": "https://evil.example"}
    async with root.http.post(f"{world.url}/dashboard/queues/pause", data=form, headers=there) as reply:
        assert reply.status == 403
    assert (
        await world.runtime.database.fetchval("select count(*) from onceward.queues where paused_at is not null") == 0
    )


async def test_nothing_of_another_organization_is_shown_or_touched(world: World, log_in: LogIn) -> None:
    world.weather.crm_works = False
    event = await world.pay("SECRET-ORDER")
    await settled(world.runtime.database, event)
    job = await world.runtime.database.fetchval("select id from onceward.jobs where task = 'update_crm'")
    assert await settled(world.runtime.database, job) == "dead_letter"
    bert = await log_in("bert@bolt.example")
    for path in (
        "/",
        "/dashboard/events",
        "/dashboard/jobs",
        "/dashboard/dead-letters",
        "/dashboard/dead-letters/replay",
        f"/dashboard/dead-letters/replay?ids={job}",
        "/dashboard/ledger",
        "/dashboard/audit",
        "/dashboard/sources",
        "/dashboard/search?q=evt_SECRET-ORDER",
        f"/dashboard/search?q={job}",
    ):
        status, text, _ = await bert.get(path)
        assert status == 200, path
        assert "SECRET-ORDER" not in text.replace("q=evt_SECRET-ORDER", "").replace("“evt_SECRET-ORDER”", "").replace(
            'value="evt_SECRET-ORDER"', ""
        ), path
        assert f"#{job}" not in text
        assert "update_crm" not in text
    for path in (f"/dashboard/jobs/{job}", f"/dashboard/consequences/{event}", "/dashboard/ledger/EUR/cash"):
        assert (await bert.get(path))[0] == 404, path
    assert (await bert.get("/dashboard/jobs?organization=acme"))[0] == 403
    await bert.post("/dashboard/dead-letters/replay", ids=str(job), reason="mine now")
    await bert.post("/dashboard/dead-letters/replay", all="yes", reason="mine now")
    await bert.post("/dashboard/dead-letters/discard", ids=str(job), reason="mine now")
    assert (await bert.post(f"/dashboard/jobs/{job}/cancel", reason="mine now"))[0] == 404
    assert (await bert.post("/dashboard/sources/pause", source="acme"))[0] == 404
    assert await settled(world.runtime.database, job) == "dead_letter"


async def test_an_administrator_chooses_an_organization_and_sees_only_it(world: World, log_in: LogIn) -> None:
    await settled(world.runtime.database, await world.pay("A-9"))
    await world.runtime.database.execute(
        "insert into onceward.account_troubles (organization_id, channel, template, language, reason, advice, probe_at)"
        " select organization_id, 'whatsapp', template, case when template is not null then 'en' end, '190', 'Create a new token.', now() + interval '1 hour'"
        "   from onceward.organizations, unnest(array[null, 'news']) as template where slug = 'acme'"
    )
    account = "whatsapp: the service refuses the account of acme, and its messages wait. Create a new token."
    root = await log_in("root@example.org")
    overview = (await root.get("/"))[1]
    assert account in overview
    assert "whatsapp: the service refuses the template news (en) of acme" in overview
    assert "/dashboard/messages?state=pending&amp;about=whatsapp&amp;label=news" in overview
    assert (await root.get("/dashboard/messages?state=pending&about=whatsapp&label=news"))[0] == 200
    assert "evt_A-9" in (await root.get("/dashboard/events"))[1]
    status, text, _ = await root.get("/dashboard/members")
    assert (status, 'value="bolt"' in text, "olga@" in text) == (200, True, False)  # organizations, not their people
    await root.choose("acme")
    assert "olga@acme.example" in (await root.get("/dashboard/members"))[1]
    assert account in (await root.get("/"))[1]
    await root.choose("bolt")
    assert "the service refuses" not in (await root.get("/"))[1]
    assert "evt_A-9" not in (await root.get("/dashboard/events"))[1]
    assert (await root.get("/dashboard/queues"))[0] == 403, "queues belong to no organization"
    await root.choose("")
    assert (await root.get("/dashboard/queues"))[0] == 200


async def test_the_page_of_queues_counts_a_large_queue_only_up_to_a_limit(world: World, log_in: LogIn) -> None:
    await world.runtime.database.execute(
        """
        insert into onceward.work (id, kind, task, queue, sort_at)
        select nextval('onceward.ids'), 'job', 'nobody', case when n > 10001 then 'small' else 'large' end, now() - interval '1 hour'
          from generate_series(1, 10011) n
        """
    )
    await world.runtime.database.execute(
        "insert into onceward.usage (hour, handled, work_s, connections_s) values (date_trunc('hour', onceward.now()), 1234, 6, 4)"
        " on conflict do nothing"
    )
    root = await log_in("root@example.org")
    page = (await root.get("/dashboard/queues"))[1]
    assert "Who waits" in page
    assert "Who uses how much" in page
    assert "no organization" in page
    shown = dict(re.findall(r"queue=(\w+)&amp;state=pending\">([^<]+)<", page))
    assert (shown["large"], shown["small"], shown["default"]) == ("10,000+", "10", "0")


async def test_secrets_in_payloads_and_addresses_are_covered(world: World, log_in: LogIn) -> None:
    event = await world.pay("A-10")
    await settled(world.runtime.database, event)
    await busy(world)
    root = await log_in("root@example.org")
    _, text, _ = await root.get(f"/dashboard/events/{event}")
    assert "api_key" in text
    assert "sk_live_hidden" not in text
    message = await world.runtime.database.fetchval("select max(id) from onceward.messages")
    _, text, _ = await root.get(f"/dashboard/messages/{message}")
    assert "@example.org" in text
    assert "person1@example.org" not in text


async def test_a_key_is_shown_once_and_never_again(world: World, log_in: LogIn) -> None:
    owner = await log_in("olga@acme.example")
    status, text, _ = await owner.post("/dashboard/keys", name="ci", scope="viewer", days="30")
    found = re.search(r"ow_[a-z2-7]{10}_[A-Za-z0-9_-]{43}", text)
    assert status == 200
    assert found is not None
    assert found[0] not in (await owner.get("/dashboard/keys"))[1]
    assert (await owner.post("/dashboard/keys", name="root", scope="admin", days=""))[0] == 400
    key = await world.runtime.database.fetchval("select key_id::text from onceward.api_keys where name = 'ci'")
    assert (await owner.post("/dashboard/keys/revoke", key=key))[0] == 303
    assert await world.runtime.database.fetchval(
        "select revoked_at is not null from onceward.api_keys where name = 'ci'"
    )


async def test_a_source_is_added_its_secret_changed_and_deleted(world: World, log_in: LogIn) -> None:
    owner = await log_in("olga@acme.example")
    new: dict[str, Any] = {"name": "acme-github", "provider": "github", "secret": "hush-hush-hush-hush", "mode": "ack"}
    assert (await owner.post("/dashboard/sources", **new))[0] == 303
    text = (await owner.get("/dashboard/sources"))[1]
    assert "/webhooks/acme-github at the sender" in text
    assert "hush" not in text
    faults: tuple[tuple[dict[str, Any], str], ...] = (
        (new, "already a source"),
        (new | {"name": "No!"}, "must be 1-63 of a-z"),
        (new | {"name": "x", "provider": "nobody"}, "is not known"),
        (new | {"name": "x", "secret": ""}, "no secret"),
        (new | {"name": "x", "mode": "fast"}, "is not a mode"),
    )
    for wrong, why in faults:
        status, text, _ = await owner.post("/dashboard/sources", **wrong)
        assert (status, why in text, "hush" in text) == (400, True, False), (wrong["name"], text[-600:])
    changed: dict[str, Any] = {"source": "acme-github", "secret": "another-hush-hush", "overlap": "a day"}
    assert (await owner.post("/dashboard/sources/secret", **changed))[0] == 303
    assert "accepts 2 secrets" in (await owner.get("/dashboard/sources"))[1]
    changed["overlap"] = "for ever"
    assert (await owner.post("/dashboard/sources/secret", **changed))[0] == 400
    await owner.post("/dashboard/sources/pause", source="acme-github")
    status, text, _ = await owner.post("/dashboard/sources/delete", source="acme-github")
    assert (status, "resume it first" in text) == (400, True)
    await owner.post("/dashboard/sources/resume", source="acme-github")
    assert (await owner.post("/dashboard/sources/delete", source="acme-github"))[0] == 303
    assert (await owner.post("/dashboard/sources/delete", source="acme-github"))[0] == 404


async def test_a_rejected_request_is_listed_with_its_reason_and_its_sender_is_found(
    world: World, log_in: LogIn
) -> None:
    root, secret = await log_in("root@example.org"), "the-token-of-circleci"
    async with root.http.post(f"{world.url}/webhooks/acme", json={"id": "1"}) as reply:
        assert reply.status == 401
    async with asyncio.timeout(20):  # a loop of the node writes rejected requests, once a second
        while "missing header" not in (text := (await root.get("/dashboard/sources"))[1]):
            await asyncio.sleep(0.05)
    assert re.search(r'<td class="name">missing header</td><td>acme</td><td class="n">401</td>', text)
    assert 'href="#detect"' in text
    assert 'id="detect"' in text
    body = b'{"type":"job-completed","id":"3888f21b-eaa7-38e3-8f3d-75a63bba8895"}'
    signature = hmac.new(secret.encode(), body, "sha256").hexdigest()
    capture = f"Content-Type: application/json\r\nCircleci-Signature: v1={signature}\r\n\r\n{body.decode()}"
    status, _, _ = await root.post("/dashboard/sources/detect", capture=capture, secret=secret)
    assert status == 303
    text = (await root.get("/dashboard/sources"))[1]
    assert "circleci verifies this request" in text
    assert secret not in text
    for wrong, why in (
        ("no header", "is not `Name: value`"),
        ("", "paste the headers"),
        ("A: b\n\n{}", "no known sender"),
    ):
        status, text, _ = await root.post("/dashboard/sources/detect", capture=wrong, secret=secret)
        if status == 303:
            text = (await root.get("/dashboard/sources"))[1]
        assert (why in html.unescape(text), secret in text) == (True, False), wrong


async def test_replaying_all_needs_the_word_and_a_reason(world: World, log_in: LogIn) -> None:
    world.weather.crm_works = False
    event = await world.pay("A-11")
    await settled(world.runtime.database, event)
    job = await world.runtime.database.fetchval("select id from onceward.jobs where task = 'update_crm'")
    assert await settled(world.runtime.database, job) == "dead_letter"
    root = await log_in("root@example.org")
    assert (await root.post("/dashboard/dead-letters/replay", reason="no filter"))[0] == 400
    assert (await root.post("/dashboard/dead-letters/replay", all="yes", reason=" "))[0] == 400
    world.weather.crm_works = True
    status, _, headers = await root.post("/dashboard/dead-letters/replay", all="yes", reason="it works again")
    assert status == 303
    assert await settled(world.runtime.database, job) == "success"
    _, text, _ = await root.get(headers["Location"])
    assert "It has ended." in text
    assert "it works again" in text


async def test_waiting_work_is_cancelled_with_a_reason(world: World, log_in: LogIn) -> None:
    async with world.runtime.database.transaction(role="engine", organization=world.acme) as tx:
        job = await tx.fetchval(
            "select onceward.enqueue('slow_report', '{}', run_at => onceward.now() + interval '1 hour')"
        )
    otto = await log_in("otto@acme.example")
    assert "scheduled" in (await otto.get(f"/dashboard/jobs/{job}"))[1]
    assert (await otto.post(f"/dashboard/jobs/{job}/cancel", reason="not needed"))[0] == 303
    assert await settled(world.runtime.database, job) == "cancelled"


async def test_filters_live_in_the_address_of_a_list_its_files_and_its_saved_views(world: World, log_in: LogIn) -> None:
    ids = await busy(world)
    otto = await log_in("otto@acme.example")

    async def rows(query: str) -> list[int]:
        _, text, _ = await otto.get(f"/dashboard/jobs?{query}")
        return [int(found) for found in re.findall(r'data-row="(\d+)"', text)]

    assert ids["job"] in await rows("state=dead_letter")
    assert ids["job"] in await rows(f"q={ids['job']}")
    assert ids["job"] in await rows("q=update_c&state=dead_letter&span=1h")
    assert await rows("q=update_crm_") == []
    assert await rows("state=dead_letter&until=2001-01-01T00:00") == []
    assert ids["job"] not in await rows("state=success&label=update_crm")
    newest = await rows("")
    assert newest == sorted(newest, reverse=True)
    older = await rows(f"before={newest[-1]}")
    assert len(newest) == len(older) == 50
    assert max(older) < newest[-1]
    assert await rows("state=nonsense&before=-1&since=then&queue=%00") is not None

    name: Any = {"listing": "onceward.jobs", "name": "Broken"}
    query = "state=dead_letter&label=update_crm"
    assert (await otto.post("/dashboard/desk/views", **name, query=f"{query}&before=1&longer=yes"))[0] == 303
    link = f'href="/dashboard/jobs?{html.escape(query)}" translate="no">Broken</a>'
    assert link in (await otto.get("/dashboard/jobs"))[1]
    assert link not in (await otto.get("/dashboard/events"))[1]
    bert = await log_in("bert@bolt.example")
    assert link not in (await bert.get("/dashboard/jobs"))[1]
    assert (await otto.post("/dashboard/desk/views/remove", **name))[0] == 303
    assert link not in (await otto.get("/dashboard/jobs"))[1]
    _, text, _ = await otto.get(f"/dashboard/jobs.csv?{query}")
    head, *lines = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    assert head[:4] == ["Id", "State", "Task", "Tags"]
    dead = [(job, "Dead letter", "update_crm") for job in await rows(query)]
    assert [(int(line[0]), line[1], line[2]) for line in lines] == dead != []
    everything = csv.reader(io.StringIO((await otto.get("/dashboard/jobs.csv"))[1]))
    own = (
        "select count(*) from onceward.jobs j join onceward.organizations o using (organization_id) where slug = 'acme'"
    )
    assert len(list(everything)) - 1 == await world.runtime.database.fetchval(own) > 100, "beyond the first page"
    assert (await bert.get(f"/dashboard/jobs.csv?q={ids['job']}"))[1].count("\n") == 1, "the headings only"
    async with otto.http.get(f"{world.url}/dashboard/jobs.xlsx?{query}") as reply:
        sheet = openpyxl.load_workbook(io.BytesIO(await reply.read())).active
    assert sheet is not None
    assert [row[:3] for row in sheet.iter_rows(min_row=2, values_only=True)] == dead


async def test_the_live_query_renders_what_the_page_renders(world: World, log_in: LogIn) -> None:
    await settled(world.runtime.database, await world.pay("A-12"))
    otto = await log_in("otto@acme.example")
    async with otto.http.ws_connect(f"{world.url}/live", origin=world.url) as socket:
        await socket.send_json({"type": "hello"})
        for id, page in ((1, "events"), (2, "queues"), (3, "nonsense")):
            arguments = {"page": page, "params": {}}
            await socket.send_json({"type": "subscribe", "id": id, "query": "dashboard.part", "arguments": arguments})
        answers: dict[int, str] = {}
        while len(answers) < 3:
            for message in flat(json.loads(await socket.receive_str(timeout=15))):
                if message["type"] == "error":
                    answers[message["id"]] = message["code"]
                for result in message.get("results", ()):
                    answers[result["id"]] = result["data"]["html"] if "data" in result else result["error"]["code"]
    assert "evt_A-12" in answers[1]
    assert answers[2] == "refused", "an operator of an organization does not see the machine"
    assert answers[3] == "refused"


def flat(message: dict[str, Any]) -> list[dict[str, Any]]:
    return message["messages"] if message["type"] == "batch" else [message]
