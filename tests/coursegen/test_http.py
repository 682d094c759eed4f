"""The endpoint, the callbacks and the pages, over HTTP on a running process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import orjson
import pytest
from standardwebhooks.webhooks import Webhook
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from onceward.db import Database
from onceward.limits import AdaptiveLimit, set_global, want
from onceward.outbox.signing import show_secret
from onceward.trust.secrets import secret_box
from tests.coursegen.server import Server, running, until_free


@pytest.fixture
async def server(database_url: str, tmp_path: Path) -> AsyncIterator[Server]:
    async with running(database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
async def without_workers(database_url: str, tmp_path: Path) -> AsyncIterator[Server]:
    """Only the web role: an accepted course stays queued."""
    async with running(database_url, tmp_path, roles={"web"}) as opened:
        yield opened


@pytest.mark.acceptance("004-D3 frontend")
async def test_a_course_from_the_request_to_the_signed_callback(server: Server) -> None:
    course_id = await server.add_course(language="ru")
    accepted = await server.generate(course_id, webhookUrl=f"{server.hooks.url}/done")
    assert accepted.status == 200, accepted
    assert accepted.body == {"success": True, "jobId": accepted.body["jobId"]}
    shown = await server.until(course_id, "completed")
    assert (shown["percentage"], shown["job_id"]) == (100, accepted.body["jobId"])
    assert [step["status"] for step in shown["steps"]] == ["completed"] * 5
    await server.hooks.until(1)
    [(headers, body)] = server.hooks.received
    event = orjson.loads(body)
    assert event["type"] == "course.completed"
    data = event["data"]
    assert (data["courseId"], data["jobId"], data["status"], data["error"]) == (
        course_id,
        accepted.body["jobId"],
        "completed",
        None,
    )
    assert data["progress"]["percentage"] == 100
    Webhook(await signing_secret(server)).verify(body, headers)


async def signing_secret(server: Server) -> str:
    """Return the secret of the endpoint that was created for the `webhookUrl`."""
    box = secret_box(server.process.settings)
    row = await server.db.fetchrow(
        "select e.endpoint_id, s.* from onceward.endpoint_secrets s join onceward.endpoints e using (endpoint_id) where e.direct"
    )
    assert row is not None
    sealed = bytes(row["secret"])
    return show_secret(box.open(sealed, table="onceward.endpoint_secrets", row=row["secret_id"], column="secret"))


@pytest.mark.acceptance("004-D3 frontend")
async def test_the_statuses_of_the_endpoint(without_workers: Server) -> None:
    server = without_workers
    course_id = await server.add_course()
    path = "/api/coursegen/generate"
    assert (await server.call("POST", path, {"courseId": course_id}, token="")).status == 401
    assert (await server.call("POST", path, {"courseId": course_id}, token="not.a.token")).status == 401
    for bad in (
        {},
        {"courseId": "x"},
        {"courseId": course_id, "extra": 1},
        [],
        {"courseId": course_id, "webhookUrl": 5},
    ):
        answer = await server.call("POST", path, bad)
        assert answer.status == 400, (bad, answer)
        assert answer.body["error"]
    broken = await server.call("POST", path, data=b"{", headers={"Content-Type": "application/json"})
    assert broken.status == 400
    assert (await server.generate(str(uuid4()))).status == 404
    stranger = await server.call("POST", path, {"courseId": course_id}, token=server.token(uuid4()))
    assert stranger.status == 404
    for unsafe in (
        "http://169.254.169.254/latest",
        "ftp://example.org/x",
        "http://10.0.0.7/",
        "nonsense",
        "https://[fd00::1]/",
    ):
        refused = await server.generate(course_id, webhookUrl=unsafe)
        assert refused.status == 400, (unsafe, refused)
    assert await server.db.fetchval("select count(*) from onceward.work where task = 'coursegen.generate'") == 0
    first = await server.generate(course_id)
    again = await server.generate(course_id)
    assert (first.status, again.status) == (200, 200)
    assert first.body == again.body
    for place in range(1, 6):
        waits = await server.generate(await server.add_course())
        assert (waits.status, waits.body["queue"]["place"], waits.body["queue"]["waiting"]) == (200, place, place)
        assert waits.body["queue"]["estimated_s"] > 0
    other = await server.add_course()
    refused = await server.generate(other)
    assert refused.status == 429
    assert int(refused.headers["Retry-After"]) > 0
    assert refused.body["limit"] == "user"
    assert (refused.body["tier"], refused.body["user_limit"], refused.body["current_jobs"]) == ("FREE", 1, 1)
    assert (refused.body["global_limit"], refused.body["rejected_course_id"]) == (3, other)


async def test_the_tier_of_the_token_is_ignored_and_an_operator_sets_it(without_workers: Server) -> None:
    server = without_workers
    path = "/api/coursegen/generate"
    token = server.token(tier="PREMIUM")
    await server.generate(await server.add_course())
    second = {"courseId": await server.add_course()}
    assert "queue" in (await server.call("POST", path, second, token=token)).body
    tier = {"tier": "basic"}
    users = f"/api/v1/coursegen/users/{server.user}"
    assert (await server.call("PUT", users, tier)).status == 403
    assert (await server.call("PUT", users, {"tier": "GOLD"}, token=server.key)).status == 422
    assert (await server.call("PUT", users, tier, token=server.key)).body["limit"] == 2
    waiting = await server.db.fetchrow(
        "select tier, user_limit from coursegen.courses where admitted_at is null and tier <> ''"
    )
    assert waiting is not None
    assert tuple(waiting) == ("BASIC", 2), "a course that waits gets the new tier"


async def test_texts_follow_the_language_of_the_request(without_workers: Server, db: Database) -> None:
    server = without_workers
    missing = str(uuid4())
    path = "/api/coursegen/generate"
    russian = await server.call("POST", path, {"courseId": missing}, language="ru-RU,ru;q=0.9,en;q=0.8")
    english = await server.call("POST", path, {"courseId": missing}, language="de,en;q=0.5")
    assert (russian.body["error"], english.body["error"]) == ("Курс не найден.", "The course was not found.")
    course_id = await server.add_course(language="ru")
    await db.execute("drop function public.update_course_progress")  # as the owner, which the process is not
    refused = await server.call("POST", path, {"courseId": course_id}, language="ru")
    assert refused.status == 500
    assert refused.body["error"] == "Не удалось инициализировать генерацию курса. Попробуйте позже."


@pytest.mark.acceptance("004-1 logs")
async def test_log_lines_name_request_user_tier_course_and_job(server: Server) -> None:
    course_id = await server.add_course()
    with capture_logs(processors=[merge_contextvars]) as lines:
        accepted = await server.generate(course_id)
        await server.until(course_id, "completed")
    assert accepted.status == 200
    by_event = {line["event"]: line for line in lines}
    names = {"requestId", "userId", "tier", "courseId", "jobId"}
    for event, more in (("accepted", {"priority"}), ("started", {"priority"}), ("completed", set[str]())):
        event = f"coursegen.{event}"
        assert names | more <= by_event[event].keys(), by_event[event]
        assert by_event[event]["jobId"] == accepted.body["jobId"]
        assert by_event[event]["requestId"] == accepted.headers["X-Request-Id"]


async def test_cancel_resume_retry_read_and_export(server: Server) -> None:
    server.openai.piece_s, server.openai.piece_characters = 0.02, 10
    course_id = await server.add_course(lessons=2, title="Knots <b>and</b> ropes")
    await server.generate(course_id, webhookUrl=f"{server.hooks.url}/done")
    await server.until(course_id, "generating")
    cancelled = await server.call("POST", f"/api/coursegen/courses/{course_id}/cancel")
    assert cancelled.status == 200, cancelled
    assert (await server.call("POST", f"/api/coursegen/courses/{course_id}/cancel")).status == 409
    await server.hooks.until(1)
    event = orjson.loads(server.hooks.received[0][1])
    assert (event["type"], event["data"]["status"], event["data"]["error"]) == (
        "course.failed",
        "cancelled",
        "cancelled",
    )
    server.openai.piece_s, server.openai.piece_characters = 0.0, 500
    await until_free(server)
    resumed = await server.call("POST", f"/api/coursegen/courses/{course_id}/resume")
    assert resumed.status == 200, resumed
    shown = await server.until(course_id, "completed")
    assert shown["cost_micros"] > 0
    retried = await server.call("POST", f"/api/coursegen/courses/{course_id}/lessons/2/retry")
    assert retried.status == 200, retried
    await server.until(course_id, "completed")
    assert (await server.call("POST", f"/api/coursegen/courses/{course_id}/lessons/9/retry")).status == 404
    content = await server.call("GET", f"/api/coursegen/courses/{course_id}/content")
    assert len(content.body["lessons"]) == 2
    as_json = await server.call("GET", f"/api/coursegen/courses/{course_id}/export?format=json")
    assert as_json.body == content.body
    markdown = await server.call("GET", f"/api/coursegen/courses/{course_id}/export")
    assert markdown.headers["Content-Type"].startswith("text/markdown")
    assert "attachment" in markdown.headers["Content-Disposition"]
    assert b"## 1. First steps" in markdown.body
    await server.hooks.until(3)
    assert [orjson.loads(body)["type"] for _, body in server.hooks.received] == [
        "course.failed",
        "course.completed",
        "course.completed",
    ]
    assert (await server.call("DELETE", f"/api/coursegen/courses/{course_id}")).status == 204
    assert (await server.call("GET", f"/api/coursegen/courses/{course_id}")).status == 404


@pytest.mark.acceptance("004-4 limits")
async def test_a_higher_tier_has_more_slots_at_once(database_url: str, tmp_path: Path) -> None:
    async with running(database_url, tmp_path / "data", roles={"web"}) as server:
        assert "queue" not in (await server.generate(await server.add_course())).body
        assert "queue" in (await server.generate(await server.add_course())).body
        await server.call("PUT", f"/api/v1/coursegen/users/{server.user}", {"tier": "BASIC"}, token=server.key)
        third = await server.generate(await server.add_course())
        assert third.body["queue"]["place"] == 2, "the one that waits is next"


@pytest.mark.acceptance("004-E edit")
async def test_a_course_is_edited_before_it_continues_and_not_while_it_runs(without_workers: Server) -> None:
    server = without_workers
    course_id = await server.add_course(title="Knots")
    path = f"/api/coursegen/courses/{course_id}"
    edited = await server.call("PATCH", path, {"brief": "For climbers", "lessons": 3})
    assert (edited.status, edited.body["title"], edited.body["brief"], edited.body["lesson_count"]) == (
        200,
        "Knots",
        "For climbers",
        3,
    )
    assert (await server.call("PATCH", path, {"lessons": 0})).status == 400
    assert (await server.call("PATCH", path, {"title": "x"}, token=server.token(uuid4()))).status == 404
    await server.generate(course_id)
    assert (await server.call("PATCH", path, {"brief": "late"})).status == 409


@pytest.mark.acceptance("004-5 global")
async def test_a_process_that_starts_later_shows_why_the_global_limit_moved(
    db: Database, database_url: str, tmp_path: Path
) -> None:
    await want(db)
    assert await AdaptiveLimit(db, measure=lambda: (10.0, 20.0)).step() == 5
    await set_global(db, 9, actor="test")
    async with running(database_url, tmp_path, roles={"web"}) as server:
        page = (await server.call("GET", "/dashboard/coursegen", token=server.key)).body.decode()
    changes = page[page.index("Changes of the global limit") :]
    assert changes.index("set by an operator") < changes.index("cpu 10 %, memory 20 %, more slots wanted")


@pytest.mark.acceptance("004-2 metrics")
async def test_system_metrics_are_for_administrators_only(without_workers: Server) -> None:
    server = without_workers
    await server.generate(await server.add_course())
    await server.generate(await server.add_course())
    for token in (server.key, server.token()):
        assert (await server.call("GET", "/api/v1/system-metrics", token=token)).status == 403


async def test_tenants_do_not_see_each_other(without_workers: Server) -> None:
    server = without_workers
    course_id = await server.add_course()
    other = await server.db.fetchval(
        "insert into onceward.organizations (slug, name) values ('other', 'Other') returning organization_id"
    )
    same_user = server.token(server.user, other)
    for method, path in (
        ("GET", f"/api/coursegen/courses/{course_id}"),
        ("GET", f"/api/coursegen/courses/{course_id}/content"),
        ("POST", f"/api/coursegen/courses/{course_id}/cancel"),
        ("DELETE", f"/api/coursegen/courses/{course_id}"),
    ):
        assert (await server.call(method, path, token=same_user)).status == 404
    assert (await server.call("GET", "/api/coursegen/courses", token=same_user)).body == []


async def test_tokens_without_a_uuid_or_an_organization_are_refused_clearly(without_workers: Server) -> None:
    server = without_workers
    named = await server.call("GET", "/api/coursegen/courses", token=server.token("ann"))
    assert (named.status, "UUID" in named.body["detail"]) == (403, True)
    keyed = await server.call("GET", "/api/coursegen/courses", token=server.key)
    assert keyed.status == 403


async def test_pages_hold_no_data_and_allow_no_foreign_script(without_workers: Server) -> None:
    server = without_workers
    course_id = await server.add_course(title="Secret title")
    for path in ("/coursegen", f"/coursegen/courses/{course_id}"):
        page = await server.call("GET", path, token="", language="ru")
        assert page.status == 200
        assert b"Secret" not in page.body
        assert b'lang="ru"' in page.body
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert (await server.call("GET", "/coursegen/static/course.js", token="")).status == 200
    assert (await server.call("GET", "/coursegen/static/..%2fapp.py", token="")).status == 404
