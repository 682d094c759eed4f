"""The CRM and the daily metrics: nothing is skipped, nothing divided by zero, a refusal holds up nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from onceward.http import ServiceClient
from onceward.integrations.ga4 import Ga4, Ga4Simulator
from onceward.integrations.hubspot import CrmRecord, HubSpot, HubSpotSimulator
from onceward.integrations.mixpanel import Mixpanel, MixpanelSimulator
from onceward.integrations.segment import Segment, SegmentSimulator
from onceward.services import Refused, ServiceAnswer, Unreachable
from onceward.testing import assert_sent, drain
from onceward_apps.learning import app as learning
from onceward_apps.learning import crm
from onceward_apps.learning.analytics import report_day
from onceward_apps.learning.kpis import DailyMetrics, kpis
from tests.learning.classroom import Classroom
from tests.learning.school import School


@pytest.fixture
async def http() -> AsyncIterator[ServiceClient]:
    client = ServiceClient()
    yield client
    await client.aclose()


@pytest.fixture
async def hubspot(http: ServiceClient, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HubSpotSimulator]:
    async with HubSpotSimulator() as simulator:

        async def client(organization: UUID | None) -> HubSpot:
            return HubSpot(http, "pat", base_url=simulator.url)

        monkeypatch.setattr(learning.services, "hubspot", client)
        yield simulator


async def sync(school: School) -> None:
    async with school.transaction() as tx:
        await crm.enqueue(tx)
    await drain(school.engine)


async def last_log(school: School) -> tuple[int, int, int, bool]:
    row = await school.db.fetchrow("select * from learning.crm_sync_log order by id desc limit 1")
    assert row is not None
    return row["contacts_processed"], row["deals_processed"], row["failed"], row["success"]


@pytest.mark.acceptance("crmSync")
async def test_contacts_and_deals_are_sent_in_units_and_only_when_they_change(
    school: School, hubspot: HubSpotSimulator
) -> None:
    enrollment = await school.enrol(await school.cohort(), await school.student("Ada"))
    await school.student("Lead")
    await sync(school)
    contact = hubspot.records["contacts"]["ada@example.org"]["properties"]
    assert (contact["firstname"], contact["lifecyclestage"], contact["total_enrollments"]) == ("Ada", "customer", 1)
    assert hubspot.records["contacts"]["lead@example.org"]["properties"]["lifecyclestage"] == "lead"
    deal = hubspot.records["deals"][str(enrollment)]["properties"]
    assert (deal["amount"], deal["deal_currency_code"], deal["dealstage"]) == ("499.00", "EUR", "closedwon")
    assert await last_log(school) == (2, 1, 0, True)

    await sync(school)
    assert await last_log(school) == (0, 0, 0, True)
    await school.db.execute("update learning.users set name = 'Ada L' where email = 'ada@example.org'")
    await sync(school)
    assert await last_log(school) == (1, 0, 0, True)
    assert hubspot.records["contacts"]["ada@example.org"]["properties"]["lastname"] == "L"


@pytest.mark.acceptance("crmSync")
async def test_a_transaction_that_was_open_during_a_run_is_sent_by_the_next(
    school: School, hubspot: HubSpotSimulator
) -> None:
    async with school.engine.transaction(organization=school.organization) as slow:
        await slow.execute("insert into learning.users (email, name) values ('slow@example.org', 'Slow')")
        await school.student("Quick")  # begins later and commits earlier
        await sync(school)
        assert set(hubspot.records["contacts"]) == {"quick@example.org"}
    await sync(school)
    assert set(hubspot.records["contacts"]) == {"quick@example.org", "slow@example.org"}
    assert await last_log(school) == (1, 0, 0, True)


async def add_people(school: School, number: int) -> None:
    await school.db.execute(
        "insert into learning.users (organization_id, email, name)"
        " select $1, 'student' || n || '@example.org', 'S' from generate_series(1, $2) n",
        school.organization,
        number,
    )


@pytest.mark.acceptance("crmSync", "boundedGrowth")
async def test_a_refused_contact_notifies_an_operator_and_holds_up_no_other(
    school: School, hubspot: HubSpotSimulator
) -> None:
    await add_people(school, 150)
    hubspot.invalid.add("student7@example.org")
    await sync(school)
    assert await last_log(school) == (149, 0, 1, False)
    assert await school.notices() == ["CRM_SYNC_FAILED"]
    await school.student("Later")
    await sync(school)
    assert await last_log(school) == (1, 0, 0, True), "what was accepted is not sent again"
    hubspot.invalid.clear()  # repaired in the CRM: nothing changes here
    await sync(school)
    assert "student7@example.org" not in hubspot.records["contacts"]
    await school.later(days=2)
    await sync(school)
    assert await last_log(school) == (1, 0, 0, True)
    assert (len(hubspot.records["contacts"]), await school.count("crm_refused")) == (151, 0)


@pytest.mark.acceptance("boundedGrowth")
async def test_a_batch_that_is_refused_as_a_whole_is_divided_until_the_guilty_record_is_alone(
    school: School, hubspot: HubSpotSimulator, http: ServiceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    upsert = HubSpot.upsert

    async def refuse_all(self: HubSpot, kind: str, records: Sequence[CrmRecord], **more: Any) -> ServiceAnswer:
        if any(record.id == "student7@example.org" for record in records):
            return Refused("HTTP 400", permanent=True)
        return await upsert(self, kind, records, **more)

    monkeypatch.setattr(HubSpot, "upsert", refuse_all)
    await add_people(school, 20)
    await sync(school)
    assert await last_log(school) == (19, 0, 1, False)


@pytest.mark.acceptance("boundedGrowth")
async def test_an_interrupted_sync_goes_on_where_it_was(
    school: School, hubspot: HubSpotSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crm, "BATCH", 10)
    monkeypatch.setattr(crm, "BATCHES_PER_RUN", 2)
    await add_people(school, 45)
    upsert, calls = HubSpot.upsert, 0

    async def count(self: HubSpot, kind: str, records: Sequence[CrmRecord], **more: Any) -> ServiceAnswer:
        nonlocal calls
        calls += 1
        return Unreachable("cut") if calls == 2 else await upsert(self, kind, records, **more)

    monkeypatch.setattr(HubSpot, "upsert", count)
    await sync(school)
    for _ in range(4):
        await school.db.execute("update onceward.work set sort_at = now() where lease is null and dead_at is null")
        await drain(school.engine)
    assert len(hubspot.records["contacts"]) == 45
    assert calls == 6, "five batches, and one of them twice"


async def test_without_an_account_the_sync_is_skipped(school: School) -> None:
    await school.student("Ada")
    await school.schedule("learning.crm_sync")
    assert await school.count("crm_sync_log") == 0


# -- daily metrics -------------------------------------------------------------------------------------------------------


@pytest.mark.acceptance("analyticsAggregation")
def test_a_zero_denominator_gives_no_rate() -> None:
    empty = kpis(DailyMetrics())
    assert empty == dict.fromkeys(("conversionRate", "avgRevenuePerUser", "churnRate", "completionRate", "npsScore"))
    day = DailyMetrics(
        new_enrollments=2, refunds=1, revenue={"EUR": 99800, "JPY": 500}, visitors=8, active_enrollments=4, nps_score=50
    )
    assert kpis(day) == {
        "conversionRate": 0.25,
        "avgRevenuePerUser": {"EUR": 499.0, "JPY": 250.0},
        "churnRate": 0.25,
        "completionRate": 0.0,
        "npsScore": 50,
    }
    assert day.named()["revenue"] == {"EUR": 998.0, "JPY": 500.0}


@pytest.mark.acceptance("analyticsAggregation")
async def test_a_day_is_counted_stored_sent_and_mailed_once(
    school: School, http: ServiceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = await Classroom.open(school)
    enrollment = await school.enrol(await school.cohort())
    await room.answer("exit-1", enrollment, overallSatisfaction=10)
    await school.db.execute(
        "insert into learning.page_views (organization_id, visitor, path) select $1, v, '/' from unnest($2::text[]) v",
        school.organization,
        ["a", "a", "b", "c", "d"],
    )
    today = datetime.now(UTC).date()
    async with Ga4Simulator() as ga4, MixpanelSimulator() as mixpanel, SegmentSimulator() as segment:
        clients = {
            "ga4": Ga4(http, "G-1", "secret", base_url=ga4.url),
            "mixpanel": Mixpanel(http, "token", base_url=mixpanel.url),
            "segment": Segment(http, "key", base_url=segment.url),
        }
        for name, client in clients.items():

            async def found(organization: UUID | None, client: object = client) -> object:
                return client

            monkeypatch.setattr(learning.services, name, found)
        for _ in range(2):
            await school.engine.enqueue(report_day.for_organization(school.organization), day=today)
            await drain(school.engine)
        assert (len(ga4.received), len(mixpanel.received), len(segment.received)) == (1, 1, 1)
    row = await school.row("daily_metrics", day=today)
    expected = {"newEnrollments": 1, "refunds": 0, "revenue": {"EUR": 499.0}, "visitors": 4, "npsScore": 100}
    assert {name: row["metrics"][name] for name in expected} == expected
    assert row["kpis"]["conversionRate"] == 0.25
    await assert_sent(school.engine, "daily-metrics-report", to="ops@example.org", count=1)


async def test_the_schedule_reports_yesterday_for_every_organization(school: School) -> None:
    await school.cohort()
    await school.schedule("learning.daily_metrics")
    days = await school.db.fetch("select day from learning.daily_metrics")
    assert [row["day"] for row in days] == [datetime.now(UTC).date() - timedelta(days=1)]
