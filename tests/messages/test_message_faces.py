"""Faces: HTTP, the command line, the whole process."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import aiohttp
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from onceward import Onceward
from onceward.cli.commands import build
from onceward.messages import Recipient, Sending, opt_out, preference_link, revoke_preference_links, save_recipient
from onceward.messages.operations import list_messages, show_message
from onceward.messages.settings import MessagesSettings
from onceward.messages.unknown_outcomes import UnknownFilter, resolve, resolve_all
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.trust.keys import create_key
from onceward.work.settings import WorkSettings


@pytest.fixture
async def running(database_url: str, tmp_path):
    from pathlib import Path

    app = Onceward("t")
    app.templates(Path(__file__).parent / "templates")
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path, port=0).using(
        WorkSettings(poll_interval_ms=50), MessagesSettings(admin_emails=("ops@example.org",), release="1.5, eve")
    )
    runtime = Process(app, settings, FEATURES)
    await runtime.start()
    yield runtime
    await runtime.stop()


async def api(runtime: Process) -> aiohttp.ClientSession:
    async with runtime.database.transaction(role="engine") as tx:
        made = await create_key(tx, name="t", scopes=["admin"], organization=None, actor="t")
    assert runtime.web is not None
    return aiohttp.ClientSession(runtime.web.url, headers={"Authorization": f"Bearer {made.text}"})


async def test_a_notification_goes_in_by_http_and_its_results_come_out(running: Process) -> None:
    import asyncio

    async with await api(running) as client:
        body = {
            "type": "cohort.started",
            "severity": "critical",
            "recipients": ["ada@example.org"],
            "channels": ["email", "dashboard"],
            "message": {"title": "It begins", "body": "Come in."},
        }
        first = await client.post("/api/v1/notifications", json=body, headers={"Idempotency-Key": "one"})
        again = await client.post("/api/v1/notifications", json=body, headers={"Idempotency-Key": "one"})
        assert first.status == 202, await first.text()
        made = await first.json()
        assert await again.json() == {"id": made["id"], "duplicate": True}
        async with asyncio.timeout(15):
            while True:
                found = await (await client.get(f"/api/v1/notifications/{made['id']}")).json()
                if found["success"] is not None:
                    break
                await asyncio.sleep(0.05)
        assert (found["success"], found["sent"], found["severity"]) == (True, 2, "fatal")
        bad = await client.post("/api/v1/notifications", json={"type": "x", "recipients": [], "channels": ["email"]})
        assert bad.status == 422
        assert (await client.get("/api/v1/notifications/999999")).status == 404
    assert len(list((running.settings.data_dir / "mail").glob("*.eml"))) == 1


async def test_following_the_link_asks_and_only_posting_unsubscribes(running: Process) -> None:
    async with running.engine.transaction() as tx:
        sent = await tx.send("news", to="ada@example.org", key="n", data={"name": "Ada"})
    token = await running.database.fetchval("select token from onceward.messages where id = $1", sent.id)
    count = "select count(*) from onceward.opt_outs"
    assert running.web is not None
    async with aiohttp.ClientSession(running.web.url) as client:
        page = await client.get(f"/unsubscribe/{token}")
        assert page.status == 200
        assert await running.database.fetchval(count) == 0
        done = await client.post(f"/unsubscribe/{token}", data={"List-Unsubscribe": "One-Click"})
        assert done.status == 200
        assert (await client.post(f"/unsubscribe/{token}")).status == 200
        unknown = await client.post("/unsubscribe/00000000-0000-0000-0000-000000000000")
        assert unknown.status == 404
    row = await running.database.fetchrow("select recipient, category, source from onceward.opt_outs")
    assert tuple(row or ()) == ("ada@example.org", "newsletter", "one-click")
    assert await running.database.fetchval(count) == 1


async def test_a_link_without_login_changes_topics_and_channels_until_it_ends(running: Process) -> None:
    db = running.database
    async with running.engine.transaction() as tx:
        await save_recipient(tx, Recipient(ref="u1", email="ada@example.org", phone="+4915112345678", locale="pt-BR"))
        await opt_out(tx, "u1")  # STOP: everything on every channel
        url = await preference_link(tx, "u1", public_url="https://shop.example.org")
        short = await preference_link(tx, "u1", public_url="", valid_for=timedelta(seconds=-1))
    path = url.removeprefix("https://shop.example.org")
    refused = "select channel, category from onceward.opt_outs where recipient = 'u1' order by 1, 2"

    async def rows() -> list[tuple[str, str]]:
        return [(row["channel"], row["category"]) for row in await db.fetch(refused)]

    assert running.web is not None
    async with aiohttp.ClientSession(running.web.url) as client:
        page = await (await client.get(path)).text()
        assert "As suas mensagens" in page
        assert 'lang="pt-BR"' in page
        assert "checked" not in page
        assert (await client.post(path, data={})).status == 200
        assert await rows() == [("*", "*")]  # nothing is wanted: the opt-out of everything stays
        saved = await (await client.post(path, data={"newsletter|email": "on"})).text()
        assert ("Salvo." in saved, saved.count("checked")) == (True, 1)
        assert await rows() == [("sms", "newsletter"), ("whatsapp", "newsletter")]
        await client.post(path, data={"newsletter|email": "on"})
        await client.post(path, data={"newsletter|sms": "on", "other|email": "on"})
        assert await rows() == [("email", "newsletter"), ("whatsapp", "newsletter")]
        habits = {"newsletter|sms": "on", "digest|newsletter": "weekly", "quiet_from": "21:00", "quiet_to": "07:30"}
        page = await (await client.post(path, data=habits)).text()
        assert ('value="weekly" selected' in page, 'value="21:00"' in page) == (True, True)
        assert await db.fetchval("select period from onceward.digest_choices where recipient = 'u1'") == "weekly"
        habits |= {"digest|newsletter": "single", "quiet_from": "late"}
        page = await (await client.post(path, data=habits)).text()
        assert ('value="single" selected' in page, 'value="21:00"' in page) == (True, True), "nobody can read `late`"
        assert 'value="21:00"' not in await (await client.post(path, data={"quiet_from": "", "quiet_to": ""})).text()
        assert await db.fetchval("select count(*) from onceward.digest_choices") == 0
        await client.post(path, data={"newsletter|sms": "on"})
        assert (await client.get(short)).status == 404
        assert (await client.post(short, data={})).status == 404
        async with running.engine.transaction() as tx:
            await revoke_preference_links(tx, "u1")
        gone = await client.get(path, headers={"Accept-Language": "de-DE,en;q=0.5"})
        assert (gone.status, "nicht mehr" in await gone.text()) == (404, True)


async def test_the_pages_of_templates_and_of_the_report(running: Process) -> None:
    since = await running.database.fetch("select name, release from onceward.templates where organization_id is null")
    assert {each.name for each in running.engine.templates} == {row["name"] for row in since}, "before any message"
    assert {row["release"] for row in since} == {"1.5, eve"}
    for number in range(2):
        async with running.engine.transaction() as tx:
            await tx.send("news", to="ada@example.org", key=f"n{number}", data={"name": "Ada"})
    await running.database.execute(
        "insert into onceward.templates (name, version, content, release, created_at)"
        " select name, 'older', jsonb_set(content, '{locales,en,subject}', '\"Old news\"'), '1.4, ada', created_at - interval '1 day'"
        " from onceward.templates where name = 'news'"
    )
    async with await api(running) as client:
        page = await (await client.get("/dashboard/templates/news", params={"width": "phone", "locale": "pt"})).text()
        assert 'class="mail phone"' in page
        assert "-Old news" in page
        assert "+News" in page
        assert ", release 1.4, ada" in page
        report = await (await client.get("/dashboard/message-report")).text()
        assert "Download CSV" in report
        wrong = await (await client.get("/dashboard/message-report?from=2020-01-01")).text()
        assert "at most 92 days" in wrong
        csv = await client.get("/dashboard/message-report.csv")
        assert csv.headers["content-type"].startswith("text/csv")
        assert (await csv.text()).splitlines()[1].startswith(",email,news,,2,")
        assert (await client.get("/dashboard/message-report.csv?to=x")).status == 422
        assert (await client.post("/dashboard/templates/test", data={"template": "news|en"})).status in (
            400,
            403,
            409,
            422,
        )


async def test_a_template_can_be_looked_at_as_its_mail(running: Process) -> None:
    async with await api(running) as client:
        page = await client.get("/templates/hello", params={"locale": "pt-BR"})
        assert "Prezada Ada" in await page.text()
        assert page.headers["content-type"].startswith("text/html")
        assert (await client.get("/templates/nothing")).status == 404


async def test_an_unknown_message_is_settled_by_an_operator(office) -> None:
    here = await office()
    here.sims.smtp.drop_after_send(2)
    await here.start_worker()
    ids = [await here.send(key=f"k{n}") for n in range(2)]
    for id in ids:
        assert (await here.until(id))["status"] == "unknown"
    async with here.db.transaction(role="engine") as tx:
        assert await resolve(tx, ids[0], "sent", by="t", reason="it is in the relay's log")
        assert await resolve(tx, ids[1], "resend", by="t", reason="it is not")
        assert not await resolve(tx, ids[0], "resend", by="t", reason="again")
    here.engine.waker.wake("message.email")
    assert (await here.until(ids[1], "success"))["attempts"] >= 1
    assert len(here.sims.smtp.mails) == 3
    shown = await show_message(here.db, ids[1])
    assert shown is not None
    assert [each["outcome"] for each in shown["history"]] == ["unknown", "success"]
    assert "address" not in shown
    assert [row["status"] for row in (await list_messages(here.db)).rows] == ["sent", "sent"]


async def test_messages_of_unknown_outcome_are_resolved_together_by_a_filter(office) -> None:
    here = await office()
    here.sims.smtp.drop_after_send(3)
    ids = [await here.send(key=f"k{n}") for n in range(3)]
    await here.start_worker()
    for id in ids:
        await here.until(id, "unknown")
    database = str(here.db.url)
    call = lambda *args: CliRunner().invoke(  # noqa: E731
        build(FEATURES), ["messages", "resolve", *args], env={"ONCEWARD_DATABASE_URL": database}
    )
    shown = await asyncio.to_thread(call, "sent", "--channel", "email", "--dry-run", "--json")
    assert [row["id"] for row in json.loads(shown.output)] == ids
    assert "needs the ids" in str((await asyncio.to_thread(call, "sent", "--reason", "x")).exception)
    assert "needs --reason" in str((await asyncio.to_thread(call, "sent", "--channel", "email")).exception)
    assert (await here.message(ids[0]))["status"] == "unknown"
    filter = UnknownFilter(template="hello")
    done = await resolve_all(here.db, filter, "sent", by="t", reason="the relay's log", limit=2)
    assert done.done == ids[:2]
    states = [(await here.message(id))["status"] for id in ids]
    assert states == ["success", "success", "unknown"]
    reasons = await here.db.fetch("select reason from onceward.audit_log where action = 'message.sent'")
    assert [row["reason"] for row in reasons] == ["the relay's log"] * 2
    done = await resolve_all(here.db, UnknownFilter(ids=ids), "resend", by="t", reason="not in the log", limit=9)
    assert done.done == ids[2:]
    await here.until(ids[2], "success")


def test_a_template_is_previewed_on_the_command_line(tmp_path, monkeypatch) -> None:
    from pathlib import Path

    folder = Path(__file__).parent / "templates"
    (tmp_path / "previewed.py").write_text(
        f"from pathlib import Path\nfrom onceward import Onceward\napp = Onceward('p')\napp.templates(Path({str(folder)!r}))\n"
    )
    monkeypatch.chdir(tmp_path)
    call = lambda *args: CliRunner().invoke(build(FEATURES), ["templates", *args, "--app", "previewed:app"])  # noqa: E731
    assert "Olá Ada" in call("preview", "hello", "--locale", "pt-BR").output
    assert call("preview", "hello", "--html", "out.html").exit_code == 0
    assert "<h1>Hello Ada</h1>" in (tmp_path / "out.html").read_text()
    rows = {row["name"]: row for row in json.loads(call("ls", "--json").output)}
    assert rows["hello"]["locales"] == "en, pt"


async def test_a_hundred_thousand_could_be_queued_in_one_transaction(office) -> None:
    here = await office()
    async with here.engine.transaction() as tx:
        done = await tx.send_many("hello", [Sending(to="a@b.c", key=f"{n}", data={"name": "x"}) for n in range(12_000)])
    assert len({each.id for each in done}) == 12_000
    # Bodies are chunked, so the statements grow with the thousands, not with the messages.
    assert await here.db.fetchval("select count(*) from onceward.work where queue = 'message.email'") == 12_000
