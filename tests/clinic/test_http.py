"""The API and the pages of the dashboard, through a running process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from onceward import Onceward
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.trust import create_organization
from onceward.trust.keys import create_key
from onceward.trust.settings import TrustSettings

URL = "/api/v1/clinic"


class Site:
    def __init__(self, process: Process, http: aiohttp.ClientSession, key: str) -> None:
        self.process = process
        self.db = process.database
        self._http = http
        self._key = key

    async def call(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        assert self.process.web is not None
        headers = {"Authorization": f"Bearer {self._key}", **options.pop("headers", {})}
        async with self._http.request(method, self.process.web.url + path, headers=headers, **options) as reply:
            text = await reply.text()
            return reply.status, await reply.json(content_type=None) if text[:1] in ("{", "[") else text

    async def page(self, path: str) -> tuple[Any, str]:
        """Open a page as somebody without a key. Return the headers and the text."""
        assert self.process.web is not None
        async with self._http.get(self.process.web.url + path) as reply:
            assert reply.status == 200
            return reply.headers, await reply.text()

    async def ok(self, method: str, path: str, **options: Any) -> Any:
        status, answer = await self.call(method, path, **options)
        assert status < 300, answer
        return answer


@pytest.fixture
async def site(database_url: str, tmp_path: Path, app: Onceward) -> AsyncIterator[Site]:
    settings = Settings(
        database_url=SecretStr(database_url), data_dir=tmp_path, port=0, pool_max=6, shutdown_grace_s=1
    ).using(TrustSettings(secret_key=SecretStr("k" * 32)))
    process = Process(app, settings, FEATURES)
    await process.start({"web"})
    async with aiohttp.ClientSession() as http:
        try:
            async with process.database.transaction(role="engine") as tx:
                made = await create_organization(tx, "harbour", name="Harbour", actor="test")
                key = await create_key(tx, name="k", organization=made.organization_id, scopes=["owner"], actor="test")
            yield Site(process, http, key.text)
        finally:
            await process.stop()


async def test_an_appointments_way_through_the_api_and_the_pages(site: Site) -> None:
    clinic = {"name": "Harbour", "timezone": "Asia/Singapore", "country_code": "65"}
    await site.ok("PUT", URL, json=clinic)
    patient = await site.ok("POST", f"{URL}/patients", json={"name": "Ann Tan", "whatsapp": "9123 4567"})
    assert patient["whatsapp"] == "+6591234567"
    visit = {"patient_id": patient["id"], "starts_at": "2031-06-20T23:30:00Z", "price": 8000, "currency": "sgd"}
    appointment = await site.ok("POST", f"{URL}/appointments", json=visit)
    again = await site.ok("POST", f"{URL}/appointments", json={**visit, "id": appointment["id"]})
    assert again["id"] == appointment["id"]
    day = await site.ok("GET", f"{URL}/appointments?on=2031-06-21")  # half past seven in the morning, in Singapore
    assert [(each["local_time"], each["payment_status"]) for each in day["appointments"]] == [("07:30", "unpaid")]
    path = f"{URL}/appointments/{appointment['id']}"
    assert (await site.ok("POST", f"{path}/confirm"))["status"] == "confirmed"
    assert (await site.ok("POST", f"{path}/room"))["room_name"].startswith("clinic-")
    assert await site.ok("POST", f"{path}/payment-link") == {"number": 1}
    moved = await site.ok("POST", f"{path}/reschedule", json={"starts_at": "2031-06-21T01:00:00Z"})
    assert moved["status"] == "scheduled"
    desk = "/dashboard/clinic/appointments"  # nine o'clock in Singapore, one o'clock in Greenwich
    page = await site.ok("GET", f"{desk}?starts_at_from=2031-06-21&starts_at_to=2031-06-21")
    assert "Ann Tan" in page
    assert "2031-06-21T01:00:00Z" in page
    page = await site.ok("GET", f"{desk}/row/{appointment['id']}")
    assert "Send a payment link" in page
    assert "Moved to another time" in page
    assert "No message yet" in await site.ok("GET", "/dashboard/clinic/inbox")
    cancelled = await site.ok("POST", f"{path}/cancel", json={"reason": "ill"})
    assert (cancelled["status"], cancelled["cancelled_by"]) == ("cancelled", "clinic")
    shown = await site.ok("GET", path)
    assert [each["trigger"] for each in shown["history"]] == ["create", "confirm", "reschedule", "cancel"]


async def test_the_pages_after_a_payment_show_its_state_and_nothing_about_the_patient(site: Site) -> None:
    await site.ok("PUT", URL, json={"name": "Harbour <b>", "locale": "pt"})
    patient = await site.ok("POST", f"{URL}/patients", json={"name": "Ann Tan", "locale": "en"})
    visit = {"patient_id": patient["id"], "starts_at": "2031-06-20T23:30:00Z", "price": 8000, "currency": "sgd"}
    id = (await site.ok("POST", f"{URL}/appointments", json=visit))["id"]

    async def shown(page: str, **changes: Any) -> str:
        columns = ", ".join(f"{name} = '{value}'" for name, value in changes.items()) or "price = price"
        await site.db.execute(f"update clinic.appointments set {columns}")
        html = await site.ok("GET", f"/clinic/{page}?appointment={id}")
        assert "Harbour &lt;b&gt;" in html
        assert not any(private in html for private in ("Ann Tan", "2031", patient["id"]))
        return html

    assert "being confirmed" in await shown("paid", payment_status="pending")
    assert "SGD" in await shown("paid") or "S$" in await shown("paid")
    assert "Check again" in await shown("paid")
    unpaid = await shown("unpaid", payment_url="https://pay.example/cs_1")
    assert "Nothing was paid" in unpaid
    assert 'href="https://pay.example/cs_1"' in unpaid
    for page in ("paid", "unpaid"):
        assert "Your payment has arrived" in await shown(page, payment_status="paid")
    assert "goes back to you" in await shown("paid", payment_status="refunded")
    closed = await shown("unpaid", payment_status="unpaid", status="cancelled")
    assert "nothing to pay" in closed
    assert "pay.example" not in closed


async def test_the_page_looks_for_the_payment_for_a_minute_and_speaks_the_language_of_the_patient(site: Site) -> None:
    await site.ok("PUT", URL, json={"name": "Harbour", "locale": "pt"})
    patient = await site.ok("POST", f"{URL}/patients", json={"name": "Ann Tan"})
    visit = {"patient_id": patient["id"], "starts_at": "2031-06-20T23:30:00Z", "price": 8000, "currency": "brl"}
    id = (await site.ok("POST", f"{URL}/appointments", json=visit))["id"]
    headers, html = await site.page(f"/clinic/paid?appointment={id}")
    assert headers["Refresh"] == f"5; url=/clinic/paid?appointment={id}&check=1"
    assert 'lang="pt"' in html
    assert "está sendo confirmado" in html
    headers, _ = await site.page(f"/clinic/paid?appointment={id}&check=12")
    assert "Refresh" not in headers
    for unknown in ("", "x", "00000000-0000-4000-8000-000000000000"):
        headers, html = await site.page(f"/clinic/paid?appointment={unknown}")
        assert "confirms your payment" in html
        assert "Refresh" not in headers
    assert (await site.page("/clinic/static/clinic.css"))[0]["Content-Type"].startswith("text/css")


BAD: list[tuple[str, str, Any, int]] = [
    ("PUT", "", {"name": "x", "timezone": "Mars/Olympus"}, 422),
    ("POST", "/patients", {"name": "x", "phone": "call me"}, 422),
    ("POST", "/patients", {"name": "x", "email": "nobody"}, 422),
    ("POST", "/patients", {"name": ""}, 422),
    ("POST", "/appointments", {"patient_id": "0" * 32, "starts_at": "2031-06-21T09:00:00Z"}, 404),
    ("POST", "/appointments", {"patient_id": "0" * 32, "starts_at": "2031-06-21T09:00:00"}, 422),
    ("POST", f"/appointments/{'0' * 32}/cancel", {}, 404),
    ("POST", f"/appointments/{'0' * 32}/refund", {"reason": "x"}, 404),
    ("POST", "/messages/1/answer", {}, 404),
    ("GET", f"/appointments/{'0' * 32}", None, 404),
]


async def test_bad_requests_are_answered_with_a_reason(site: Site) -> None:
    for method, path, body, status in BAD:
        answered, problem = await site.call(method, URL + path, json=body)
        assert answered == status, (method, path, problem)
        assert problem["detail"] or problem["errors"]
