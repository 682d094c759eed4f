"""The pages of payments in the dashboard: lists that find by what people know, a timeline, and what operators do with money."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from pydantic import SecretStr

from onceward.desk import Desk, WrongDesk
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.trust import create_organization
from onceward.trust.keys import create_key
from onceward.trust.settings import TrustSettings
from tests.payments.conftest import Shop

PATH = "/dashboard/payments"
ADD = """
insert into onceward.payments (organization_id, account_id, subject_type, subject_id, status, amount, currency, title, email,
    expires_at, received, charge, decision, paid_at)
select $1, a.id, 'order', $2, 'paid', 5000, 'EUR', $2, $3, now(), 5000, 'ch_' || $2, 'accepted', now()
  from onceward.payment_account('acme', 'acmepay', 'shop-acme') a returning id
"""
DETAILS = """
with failed as (insert into onceward.payment_refunds (organization_id, payment_id, status, amount, currency, reason, requested_by,
        failure) values ($1, $2, 'failed', 1000, 'EUR', 'broken chair', 'test', 'account closed') returning id),
     disputed as (insert into onceward.payment_disputes (organization_id, payment_id, reference, status, amount, currency, reason)
        values ($1, $2, 'dp_1', 'won', 5000, 'EUR', 'fraudulent')),
     many as (insert into onceward.payment_refund_batches (organization_id, reason, per_minute, requested_by, total)
        values ($1, 'flood', 60, 'test', 1)),
     paid_out as (insert into onceward.payment_payouts (organization_id, account_id, reference, status, amount, currency)
        select $1, account_id, 'po_1', 'paid', 4000, 'EUR' from onceward.payments where id = $2),
     differs as (insert into onceward.payment_differences (organization_id, account_id, kind, reference, detail)
        select $1, account_id, 'refund', 're_9', 'only at the service' from onceward.payments where id = $2)
select id from failed
"""


class Office:
    """Operators of two organizations, each with a key."""

    def __init__(self, process: Process, http: aiohttp.ClientSession) -> None:
        self.process, self.db, self.http = process, process.database, http

    async def open(self, slug: str) -> tuple[UUID, str]:
        async with self.db.transaction(role="engine") as tx:
            made = await create_organization(tx, slug, name=slug, actor="test")
            key = await create_key(tx, name="k", organization=made.organization_id, scopes=["operator"], actor="test")
        return made.organization_id, key.text

    async def call(self, key: str, path: str, **form: str) -> tuple[int, str]:
        assert self.process.web is not None
        headers, url = {"Authorization": f"Bearer {key}"}, self.process.web.url + path
        method = "POST" if form else "GET"
        async with self.http.request(method, url, headers=headers, data=form or None, allow_redirects=False) as reply:
            return reply.status, await reply.text()


@pytest.fixture
async def office(database_url: str, tmp_path: Path) -> AsyncIterator[Office]:
    settings = Settings(
        database_url=SecretStr(database_url), data_dir=tmp_path, port=0, pool_max=6, shutdown_grace_s=1
    ).using(TrustSettings(secret_key=SecretStr("k" * 32)))
    process = Process(Shop().app, settings, FEATURES)
    await process.start({"web"})
    async with aiohttp.ClientSession() as http:
        try:
            yield Office(process, http)
        finally:
            await process.stop()


async def test_operators_find_refund_repeat_and_settle(office: Office) -> None:
    acme, key = await office.open("acme")
    _, stranger = await office.open("bolt")
    empty = await office.call(stranger, f"{PATH}/payments")
    assert "as soon as your app opens one" in empty[1]
    one: Any = await office.db.fetchval(ADD, acme, "o-1", "Ann@example.org")
    await office.db.fetchval(ADD, acme, "o-2", None)
    refund: Any = await office.db.fetchval(DETAILS, acme, one)

    for query in ("subject_id=o-1", "charge=ch_o-1", "payer=ann@example.org", "status=paid&subject_id=o-1"):
        status, page = await office.call(key, f"{PATH}/payments?{query}")
        assert (status, "o-1" in page, "ch_o-2" in page) == (200, True, False), query
        assert "o-1" not in (await office.call(stranger, f"{PATH}/payments"))[1]
    for listing, shown in (
        ("refunds", "account closed"),
        ("disputes", "dp_1"),
        ("batches", "flood"),
        ("payouts", "po_1"),
        ("differences", "re_9"),
    ):
        assert shown in (await office.call(key, f"{PATH}/{listing}"))[1]
        assert shown not in (await office.call(stranger, f"{PATH}/{listing}"))[1]
    row = f"{PATH}/payments/row/{one}"
    status, page = await office.call(key, row)
    assert status == 200
    for shown in ("broken chair", "Dispute opened: fraudulent", "Paid, and accepted", "€50.00", "dp_1"):
        assert shown in page, shown
    assert "broken chair" not in (await office.call(stranger, row))[1]

    for text in ("o-1", "ann@EXAMPLE.org", str(one), str(refund), "dp_1"):
        found = await office.call(key, f"/dashboard/search?q={text}")
        assert found[0] == 303, "one hit leads to its page"
        assert f"/row/{one}" not in (await office.call(stranger, f"/dashboard/search?q={text}"))[1]

    form = {"ids": str(one), "amount": "20.00", "amount.currency": "EUR", "reason": "late"}
    status, tried = await office.call(key, f"{PATH}/payments/do/refund", step="try", **form)
    assert "A refund of" in tried
    count = "select count(*) from onceward.payment_refunds where reason = 'late'"
    assert await office.db.fetchval(count) == 0, "a trial changes nothing"
    status, refused = await office.call(stranger, f"{PATH}/payments/do/refund", step="run", **form)
    assert "o-1" not in refused
    assert (status, await office.db.fetchval(count)) == (200, 0), "of another organization"
    status, _ = await office.call(key, f"{PATH}/payments/do/refund", step="run", **form)
    assert status == 303
    assert await office.db.fetchval(f"{count} and amount = 2000 and requested_by <> 'app'") == 1
    too_much = await office.call(key, f"{PATH}/payments/do/refund", step="run", **{**form, "amount": "31.00"})
    assert "is not between 1 and 3000" in too_much[1]

    assert (await office.call(key, f"{PATH}/refunds/do/repeat", ids=str(refund), step="run"))[0] == 303
    state = "select status || ' ' || attempt from onceward.payment_refunds where id = $1"
    assert await office.db.fetchval(state, refund) == "requested 2"
    settle = {"ids": str(refund), "note": "paid in cash", "step": "run"}
    assert (await office.call(key, f"{PATH}/refunds/do/settle", **settle))[0] == 303
    assert await office.db.fetchval(state, refund) == "settled 2"
    again = await office.call(key, f"{PATH}/refunds/do/settle", **settle)
    assert "not possible any more" in again[1]


def test_a_desk_without_an_app_has_no_actions_on_several_rows() -> None:
    from onceward.desk.desk import DESKS
    from onceward.payments.pages import PAYMENTS

    desk = Desk("nobodys", "Nobody's", None, table="onceward.payments")
    try:
        with pytest.raises(WrongDesk, match="without an app"):
            desk.action(PAYMENTS, "All", on="rows")(run_all)
    finally:
        del DESKS["nobodys"]


async def run_all(tx: Any, act: Any) -> str:
    raise AssertionError(tx, act)
