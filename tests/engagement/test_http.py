"""The API and the pages of the dashboard, through a running process."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from onceward.trust.keys import create_key
from onceward_apps.engagement import eligibility
from tests.engagement.house import values
from tests.engagement.site import URL, Site, add_user, ago
from tests.live.conftest import Client


async def test_a_users_way_through_the_api_and_the_pages(site: Site) -> None:
    gone, here = await add_user(site, days=20), await add_user(site, days=1)
    status, seen = await site.call("GET", f"{URL}/preview")
    assert (status, seen["counts"]) == (200, {"goodbye": 1})
    assert seen["users"] == [
        {"user_id": gone, "check_type": "inactivity_14d", "action": "goodbye", "why": "no activity for 20 days"}
    ]
    _, weekly = await site.call("GET", f"{URL}/preview?job=weekly")
    assert weekly["users"] == [
        {"user_id": here, "check_type": "weekly_review", "action": "weekly_review", "why": "activity in 7 days"}
    ]
    assert await site.db.fetchval("select count(*) from onceward.messages") == 0  # a dry run changes nothing
    page = (await site.call("GET", "/dashboard/engagement/preview"))[1]
    assert gone in page
    assert "no activity for 20 days" in page
    await site.run("engagement-daily")
    _, user = await site.call("GET", f"{URL}/users/{gone}")
    assert user["user"]["state"] == "goodbye_sent"
    assert [event["what"] for event in user["history"]] == ["message", "state changed"]
    assert "dormant at" in user["explanation"][0]
    assert "whatsapp_jid" not in user["user"]
    page = (await site.call("GET", f"/dashboard/engagement/user?id={gone}"))[1]
    assert "no activity for 14 days" in page
    assert "5511987654321" not in page
    _, runs = await site.call("GET", f"{URL}/runs")
    [run] = runs["runs"]
    assert (run["job"], run["processed"], run["succeeded"]) == ("engagement-daily", 1, 1)
    assert [each["job"] for each in runs["next"]] == ["engagement-daily", "engagement-weekly"]
    page = (await site.call("GET", "/dashboard/engagement"))[1]
    assert "Next runs" in page
    assert "Got the goodbye" in page
    _, done = await site.call("POST", f"{URL}/activity", json={"activity": [{"user_id": gone, "at": ago(seconds=0)}]})
    assert (done["recorded"], done["became_active"]) == (1, [gone])
    _, funnel = await site.call("GET", f"{URL}/funnel")
    assert {each["state"]: each["users"] for each in funnel["funnel"]}["active"] == 2
    assert (await site.call("GET", f"{URL}/returns")) == (200, [])


async def test_transactions_are_counted_once_and_opt_outs_are_kept(site: Site) -> None:
    user = await add_user(site, days=20)
    body = {"transactions": [{"id": str(uuid4()), "user_id": user, "created_at": ago(hours=1)}]}
    assert (await site.call("POST", f"{URL}/transactions", json=body))[1]["recorded"] == 1
    assert (await site.call("POST", f"{URL}/transactions", json=body))[1]["recorded"] == 0
    _, answer = await site.call("POST", f"{URL}/users/{user}/opt-out", json={})
    assert (answer["opted_out"], answer["changed"]) == (True, True)
    assert (await site.call("GET", f"{URL}/preview?job=weekly"))[1]["counts"] == {"nothing": 1}
    _, answer = await site.call("POST", f"{URL}/users/{user}/opt-out", json={"opted_out": False})
    assert answer["changed"]


async def test_a_test_message_goes_to_the_caller_and_changes_no_user(site: Site) -> None:
    body = {"number": "+5511911112222", "message": "weekly_review", "locale": "pt-BR"}
    status, answer = await site.call("POST", f"{URL}/test-messages", json=body)
    assert status == 202
    row = await site.db.fetchrow(
        "select template, address, data from onceward.messages where id = $1", answer["message_id"]
    )
    assert values(row) == ("engagement.weekly_review", "+5511911112222", {"transaction_count": 3})
    assert await site.db.fetchval("select count(*) from engagement.user_profiles") == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/users/{new}", {"whatsapp_jid": "120363@g.us"}, 422),
        ("PUT", "/users/{new}", {"locale": "<script>"}, 422),
        ("PUT", "/users/not-a-uuid", {}, 422),
        ("GET", "/users/{new}", None, 404),
        ("POST", "/users/{new}/opt-out", {}, 404),
        ("POST", "/activity", {"activity": []}, 422),
        ("POST", "/activity", {"activity": [{"user_id": "x", "at": "now"}]}, 422),
        ("POST", "/test-messages", {"number": "me"}, 422),
        ("POST", "/runs", {}, 405),
    ],
)
async def test_wrong_requests_are_refused(site: Site, method: str, path: str, body: Any, status: int) -> None:
    answered, _ = await site.call(method, URL + path.replace("{new}", str(uuid4())), json=body)
    assert answered == status


async def test_there_is_no_route_that_starts_a_run(site: Site) -> None:
    from onceward_apps.engagement.routes import router

    writes = {route.path for route in router.routes if {"POST", "PUT"} & getattr(route, "methods", set())}  # type: ignore[attr-defined]
    assert writes == {
        f"{URL}/users/{{user_id}}",
        f"{URL}/users/{{user_id}}/opt-out",
        f"{URL}/activity",
        f"{URL}/transactions",
        f"{URL}/test-messages",
    }
    assert (await site.call("GET", "/dashboard/engagement/user?id=nobody"))[0] == 404


async def test_buttons_of_the_pages_opt_out_and_send_a_test_to_oneself(site: Site) -> None:
    user = await add_user(site, days=1)
    page = "/dashboard/engagement"
    for form, opted_out in (({"user": user}, True), ({"user": user, "opted_out": "no"}, False)):
        status, shown = await site.call("POST", f"{page}/opt-out", data=form)
        assert (status, user in shown) == (200, True)
        row = await site.db.fetchval("select reengagement_opt_out from engagement.user_profiles")
        assert row is opted_out
    await site.call("POST", f"{page}/test", data={"number": "+5511911112222", "message": "goodbye", "locale": "pt"})
    row = await site.db.fetchrow("select template, locale from onceward.messages")
    assert values(row) == ("engagement.goodbye.self_select", "pt")
    for path, form in (("opt-out", {"user": str(uuid4())}), ("test", {"number": "me"})):
        assert (await site.call("POST", f"{page}/{path}", data=form))[0] >= 400
    assert (await site.call("POST", f"{page}/opt-out", data={"user": "x"}))[0] >= 400


async def test_an_administrator_of_all_sees_a_user_and_chooses_an_organization_for_the_rest(site: Site) -> None:
    user = await add_user(site, days=20)
    async with site.db.transaction(role="engine") as tx:
        admin = (await create_key(tx, name="a", organization=None, scopes=["admin"], actor="test")).text
    assert (await site.call("GET", f"{URL}/funnel", key=admin))[0] in (400, 403)
    assert "Choose one at the top" in (await site.call("GET", "/dashboard/engagement/preview", key=admin))[1]
    assert (await site.call("GET", f"/dashboard/engagement/user?id={user}", key=admin))[0] == 200, "it has one owner"
    assert (await site.call("GET", f"/dashboard/engagement/user?id={uuid4()}", key=admin))[0] == 404
    assert (await site.call("GET", "/dashboard/engagement", key=admin))[0] == 200


async def test_a_dry_run_says_when_it_did_not_read_everybody(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        await add_user(site, days=20)
    path = "/dashboard/engagement/preview"
    assert "this page reads at most" not in (await site.call("GET", path))[1]
    monkeypatch.setattr(eligibility, "MOST_READ", 2)
    assert "this page reads at most 2 users of each check" in (await site.call("GET", path))[1]


async def test_the_live_query_counts_the_users(site: Site) -> None:
    await add_user(site, days=1)
    assert site.runtime.web is not None
    client = await Client.open(f"{site.runtime.web.url.replace('http', 'ws', 1)}/live", site.key)
    id = await client.subscribe("engagement.funnel")
    await client.until(lambda: id in client.results)
    assert client.results[id]["total"] == 1
    await client.close()
