"""The platform over HTTP: sign-in by mail, pages, content, chat, presence, operators, live queries, foreign callers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.limits import Rate
from onceward.messages import public_forms
from onceward_apps.learning.store import curriculum, people
from onceward_apps.learning.student_mails import mail_many
from tests.learning.server import PUBLIC, STUDENT, Server, running
from tests.live.conftest import Client

HTML = '<img src=x onerror="alert(1)">'


@pytest.fixture
async def server(database_url: str, tmp_path: Path) -> AsyncIterator[Server]:
    async with running(database_url, tmp_path) as made:
        yield made


@pytest.mark.acceptance("sendChatMessage")
async def test_a_student_signs_in_studies_chats_and_gets_a_calendar(server: Server) -> None:
    cohort = await server.cohort(HTML)
    async with server.engine.transaction(organization=server.organization) as tx:
        item = await curriculum.add_item(tx, cohort, kind="lesson", title=HTML, body="secret text")
    enrollment = await server.enrol(cohort, "Ada")
    session = await server.sign_in("Ada")
    assert (await server.call("GET", "/learn/home"))[0] == 303, "strangers are led to the page that signs them in"
    status, page = await server.call("GET", "/learn/home", cookie=session)
    assert status == 200
    assert HTML not in page
    assert "&lt;img src=x" in page
    assert (await server.call("GET", f"/learn/home/{enrollment}", cookie=session))[0] == 200
    assert (await server.call("GET", f"/learn/home/{enrollment}/calendar.ics", cookie=session))[0] == 200

    # Locked before the start, open after it.
    path = f"{STUDENT}/enrollments/{enrollment}"
    _, content = await server.call("GET", f"{path}/content", cookie=session)
    assert (await server.call("GET", f"{path}/items/{item['id']}", cookie=session))[0] == 403
    assert (await server.call("PUT", f"{path}/items/{item['id']}", {"done": True}, cookie=session))[0] == 403
    chat = f"{STUDENT}/cohorts/{cohort}/chat"
    assert (await server.call("POST", chat, {"message": "early"}, cookie=session))[0] == 403
    await server.begin(cohort)
    _, content = await server.call("GET", f"{path}/content", cookie=session)
    assert (content["items"][0]["has_text"], "body" in content["items"][0]) == (True, False)
    _, read = await server.call("GET", f"{path}/items/{item['id']}", cookie=session)
    assert read["body"] == "secret text"
    status, done = await server.call("PUT", f"{path}/items/{item['id']}", {"done": True}, cookie=session)
    assert (status, done["completion_percentage"]) == (200, 100)
    assert (await server.call("PUT", f"{path}/items/{uuid4()}", {"done": True}, cookie=session))[0] == 404

    # The same key writes one message.
    posted: dict[str, Any] = {}
    for _ in range(2):
        status, posted = await server.call("POST", chat, {"message": HTML, "key": "k" * 10}, cookie=session)
        assert status == 201
    _, messages = await server.call("GET", chat, cookie=session)
    assert [each["message"] for each in messages] == [HTML]
    one = f"{chat}/{posted['messageId']}"
    assert (await server.call("PATCH", one, {"message": "better"}, cookie=session))[0] == 204
    assert (await server.call("POST", f"{one}/reactions", {"emoji": "👍"}, cookie=session))[0] == 204
    assert (await server.call("POST", f"{one}/reactions", {"emoji": "<b>"}, cookie=session))[0] == 400
    _, messages = await server.call("GET", chat, cookie=session)
    assert messages[0]["edited_at"] is not None
    assert messages[0]["reactions"] == {"👍": {"count": 1, "mine": True}}
    assert (await server.call("DELETE", one, cookie=session))[0] == 204

    # The token with which the page subscribes ends with the session: for open subscriptions, and for new ones.
    page = (await server.call("GET", f"/learn/home/{enrollment}", cookie=session))[1]
    access = page.partition('data-access="')[2].partition('"')[0]
    home = {"enrollment_id": str(enrollment), "access": access}
    live = await Client.open(f"{server.url.replace('http', 'ws', 1)}/live", None)
    watched = await live.subscribe("learning.student_home", **home)
    chatting = await live.subscribe("learning.chat", cohort_id=str(cohort), access=access)
    await live.until(lambda: watched in live.results and chatting in live.results)
    assert live.results[watched]["enrollmentId"] == str(enrollment)
    status, _ = await server.call("DELETE", f"{PUBLIC}/session", cookie=session)
    assert status == 204
    assert (await server.call("GET", "/learn/home", cookie=session))[0] == 303
    await live.until(lambda: live.results[watched] is None and live.results[chatting] == [])
    await live.close()
    assert (await server.live("learning.student_home", **home))["code"] == "refused"


async def test_forms_tell_strangers_nothing_and_mail_only_the_confirmation(server: Server) -> None:
    cohort = await server.cohort(max_capacity=2)
    await server.enrol(cohort, "Ada")
    path = f"{PUBLIC}/cohorts/{cohort}"
    ada = {"email": "ada@example.org", "name": "Ada http://evil.example/"}
    status, answer = await server.call("POST", f"{path}/checkout", ada)
    assert (status, answer["url"].endswith("/learn/check-mail")) == (201, True), "as for everybody"
    assert await server.call("POST", f"{path}/waitlist", ada) == (202, {"status": "WAITLISTED"})
    assert await server.call("POST", f"{path}/waitlist", {**ada, "email": "bob@example.org"}) == (
        202,
        {"status": "WAITLISTED"},
    )
    names = await server.db.fetch("select name from learning.users order by email")
    assert [row["name"] for row in names] == ["Ada", "Ada"], (
        "no form changes the name of a known person, or stores a URL"
    )

    async def mails(template: str) -> int:
        async with server.engine.transaction(organization=server.organization) as tx:
            user = await people.user(
                tx, await tx.fetchval("select id from learning.users where email = 'ada@example.org'")
            )
            data = {"cohortName": "x", "expiresAt": "2031-01-01T00:00:00Z", "extendAccessUrl": "https://x.example"}
            return await mail_many(tx, template, [(user, f"{template}:test:{uuid4()}", data)])

    assert await mails("access-expiring-today") == 0, "nobody has confirmed the address"
    assert await mails("enrollment-welcome") == 0
    await server.db.execute("update learning.sign_in_links set created_at = created_at - interval '2 minutes'")
    await server.sign_in("Ada")
    assert await mails("access-expiring-today") == 1

    statuses = [(await server.call("POST", f"{PUBLIC}/sign-in", {"email": "eve@example.org"}))[0] for _ in range(3)]
    assert statuses == [202] * 3
    await server.db.execute("delete from onceward.rates")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(public_forms, "PER_RECIPIENT", Rate(2, per_s=3600))
        asked = [await server.call("POST", f"{PUBLIC}/sign-in", {"email": "eve@example.org"}) for _ in range(3)]
        joined = await server.call("POST", f"{path}/waitlist", {**ada, "email": "EVE@example.org"})
    assert ([status for status, _ in asked], joined[0]) == ([202, 202, 429], 429), "all forms count together"


async def test_a_sign_in_link_works_once_and_unknown_addresses_look_the_same(server: Server) -> None:
    await server.enrol(await server.cohort(), "Ada")
    known = await server.call("POST", f"{PUBLIC}/sign-in", {"email": "ada@example.org"})
    unknown = await server.call("POST", f"{PUBLIC}/sign-in", {"email": "nobody@example.org"})
    assert known == unknown
    link = await server.db.fetchval("select data ->> 'link' from onceward.messages where template = 'student-sign-in'")
    token = link.rsplit("/", 1)[-1]
    assert (await server.call("POST", f"{PUBLIC}/session", {"token": token}))[0] == 201
    server.http.cookie_jar.clear()
    for wrong in (token, "x" * 43, "", "a" * 100):
        assert (await server.call("POST", f"{PUBLIC}/session", {"token": wrong}))[0] == 410
    assert (await server.call("GET", f"/learn/sign-in/{token}"))[0] == 410


@pytest.mark.acceptance("sendChatMessage")
async def test_another_student_and_another_organization_get_nothing(server: Server) -> None:
    cohort, other_cohort = await server.cohort(), await server.cohort("Other")
    enrollment = await server.enrol(cohort, "Ada")
    await server.enrol(other_cohort, "Eve")
    await server.begin(cohort)
    eve = await server.db.fetchval("select id from learning.users where email = 'eve@example.org'")
    token = server.jwt(eve)
    refused = [
        await server.call("GET", f"{STUDENT}/enrollments/{enrollment}/content", token=token),
        await server.call("POST", f"{STUDENT}/cohorts/{cohort}/chat", {"message": "hi"}, token=token),
        await server.call("GET", f"{STUDENT}/cohorts/{cohort}/chat", token=token),
        await server.call("POST", f"{STUDENT}/cohorts/{cohort}/presence", {}, token=token),
        await server.call("POST", f"{STUDENT}/cohorts/{cohort}/chat/read", {"message_id": 1}, token=token),
        await server.call("GET", f"/learn/home/{enrollment}", token=token),
    ]
    assert [status for status, _ in refused] == [404, 403, 403, 403, 403, 404]
    for query, arguments in (
        ("learning.chat", {"cohort_id": cohort}),
        ("learning.online_users", {"cohort_id": cohort}),
        ("learning.unread", {"cohort_id": cohort, "user_id": eve}),
        ("learning.student_home", {"enrollment_id": enrollment}),
        ("learning.admin_dashboard", {}),
        ("learning.chat", {"cohort_id": cohort, "access": f"{eve}.9999999999.forged"}),
    ):
        found = await server.live(query, token=token, **arguments)
        assert found["code"] == "refused", query
    # A token of the right user for another organization, and an operator's key, are not this student.
    foreign = server.jwt(eve, uuid4())
    assert (await server.call("GET", f"{STUDENT}/me", token=foreign))[0] == 404
    assert (await server.call("GET", f"{STUDENT}/me", token=server.key))[0] == 403
    assert (await server.call("GET", f"{STUDENT}/me"))[0] == 401


@pytest.mark.acceptance(
    "subscribeToEnrollmentCount",
    "subscribeToCohortStatus",
    "subscribeToAdminDashboard",
    "updateUserPresence",
    "subscribeToOnlineUsers",
)
async def test_live_results_equal_sql(server: Server) -> None:
    cohort = await server.cohort(max_capacity=4)
    enrollment = await server.enrol(cohort, "Ada")
    await server.begin(cohort)
    ada = await server.db.fetchval("select id from learning.users where email = 'ada@example.org'")
    token = server.jwt(ada)
    await server.call("POST", f"{STUDENT}/cohorts/{cohort}/presence", {"status": "online"}, token=token)
    await server.call("POST", f"{STUDENT}/cohorts/{cohort}/chat", {"message": "hello"}, token=token)

    count = await server.live("learning.enrollment_count", cohort_id=cohort)
    shown = ("activeEnrollmentCount", "maxCapacity", "spotsRemaining", "percentFull", "status")
    assert [count[name] for name in shown] == [1, 4, 3, 25.0, "IN_PROGRESS"]
    status = await server.live("learning.cohort_status", cohort_id=cohort)
    assert status["canTransitionTo"] == ["COMPLETED", "CANCELLED"]
    assert [each["to"] for each in status["statusHistory"]] == ["OPEN", "CONFIRMED", "IN_PROGRESS"]
    [message] = await server.live("learning.chat", token=token, cohort_id=cohort)
    assert (message["message"], message["name"], message["user_id"]) == ("hello", "Ada", str(ada))
    online = await server.live("learning.online_users", token=token, cohort_id=cohort)
    assert [(each["name"], each["status"]) for each in online["users"]] == [("Ada", "online")]
    assert await server.live("learning.unread", token=token, cohort_id=cohort, user_id=ada) == {"unread": 0}
    home = await server.live("learning.student_home", token=token, enrollment_id=enrollment)
    assert (home["status"], home["hasAccess"], home["completionPercentage"]) == ("ACTIVE", True, None)

    board = await server.live("learning.admin_dashboard", token=server.key)
    sql = await server.db.fetchrow(
        "select count(*) filter (where status = 'ACTIVE') as active, count(*) filter (where status = 'REFUND_PENDING') as refunds"
        " from learning.enrollments where organization_id = $1",
        server.organization,
    )
    assert sql is not None
    assert (board["activeEnrollments"], board["pendingRefunds"]) == (sql["active"], sql["refunds"])
    assert (board["todayEnrollments"], board["todayRevenue"], board["activeCohorts"]) == (1, {"EUR": 0}, 1)
    assert 0 < len(board["recentActivity"]) <= 10
    [row] = await server.live("learning.admin_cohorts", token=server.key)
    assert (row["id"], row["sold"], row["waiting"]) == (str(cohort), 1, 0)


async def test_operators_manage_and_viewers_of_pages_see_what_is_public(server: Server) -> None:
    new: dict[str, Any] = {
        "name": "New",
        "starts_at": "2031-01-01T09:00:00Z",
        "ends_at": "2031-02-01T09:00:00Z",
        "max_capacity": 3,
        "price": 1000,
        "currency": "EUR",
    }
    path = "/api/v1/learning/cohorts"
    assert (await server.call("POST", path, new))[0] == 401
    status, made = await server.call("POST", path, new, token=server.key)
    assert status == 201, made
    cohort = UUID(made["id"])
    # A draft is not public.
    assert (await server.call("GET", f"/learn/cohorts/{cohort}"))[0] == 404
    assert (await server.live("learning.enrollment_count", cohort_id=cohort))["code"] == "refused"
    body = {"email": "a@example.org"}
    assert (await server.call("POST", f"{PUBLIC}/cohorts/{cohort}/checkout", body))[0] == 404
    assert (await server.call("POST", f"{path}/{cohort}/status", {"status": "COMPLETED"}, token=server.key))[0] == 409
    assert (await server.call("POST", f"{path}/{cohort}/status", {"status": "OPEN"}, token=server.key))[0] == 200
    assert (await server.call("POST", f"{path}/{uuid4()}/status", {"status": "OPEN"}, token=server.key))[0] == 404
    for page in ("/learn", "/learn/o/riverside", f"/learn/cohorts/{cohort}", "/learn/sign-in"):
        assert (await server.call("GET", page))[0] in (200, 303), page
    for page, expected in (
        (f"/learn/cohorts/{uuid4()}", 404),
        ("/learn/o/nobody", 404),
        ("/learn/invites/guessed", 410),
        (f"/learn/extensions/{uuid4()}.x", 404),
        ("/learn/certificates/OW-0000", 404),
        ("/learn/static/../app.py", 404),
    ):
        assert (await server.call("GET", page))[0] == expected, page
    views = await server.db.fetchval("select count(*) from learning.page_views")
    assert views >= 2
    item = {"kind": "lesson", "title": "One"}
    assert (await server.call("POST", f"{path}/{cohort}/items", item, token=server.key))[0] == 201
    bad = {"title": "S", "starts_at": "2031-01-02T09:00:00Z", "ends_at": "2031-01-02T08:00:00Z"}
    assert (await server.call("POST", f"{path}/{cohort}/sessions", bad, token=server.key))[0] == 400
    survey = {"kind": "exit", "fields": {"q1": "overallSatisfaction"}}
    assert (await server.call("PUT", "/api/v1/learning/surveys/s1", survey, token=server.key))[0] == 204
    user = {"email": "new@example.org", "name": "New"}
    assert (await server.call("POST", "/api/v1/learning/users", user, token=server.key))[0] == 201
    assert (await server.call("GET", "/api/v1/learning/metrics/daily", token=server.key)) == (200, [])
