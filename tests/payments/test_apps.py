"""What an app and the machine say to each other besides money: results of webhooks, declines, refused accounts, two owners."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from onceward import Event, Onceward, Tx
from onceward.payments import Return
from onceward.payments.errors import NotFound, NotPayable, NotRefundable, PaymentPending
from onceward.payments.page_reports import Decided
from onceward.payments.routes import add_error_handlers
from onceward.payments.service import PaymentReport
from onceward.services.outcome import Refused
from tests.payments.conftest import Till


async def test_the_app_gives_the_result_of_the_webhook_that_brought_the_money(till: Till) -> None:
    page = await till.open()
    till.shop.answers.append(Return("sold already", result={"error": "sold"}))
    till.world.pay(await till.page(page))
    [result] = await till.deliver()
    assert result == "returned"
    assert isinstance(result, Decided)
    assert result.result == {"error": "sold"}


async def test_the_app_hears_of_a_decline_after_which_the_buyer_may_try_again(till: Till) -> None:
    heard: list[str | None] = []

    async def declined(payment: Any, tx: Tx) -> None:
        heard.append(payment.failure)

    till.shop.app.payments.on_declined("order")(declined)
    page = await till.open()
    name = await till.page(page)
    report = PaymentReport(
        state="declined", payment_id=page.payment_id, page=name, is_open=True, failure="card_declined"
    )
    assert await till.deliver(report) == ["declined"]
    assert heard == ["card_declined"]
    assert (await till.payment(page.payment_id)).status == "open"


async def test_accounting_hears_that_the_service_refuses_our_credentials(till: Till) -> None:
    payment_id, _ = await till.buy()
    till.world.failures.append(Refused("HTTP 401", permanent=False, account=True))
    async with till.tx() as tx:
        await tx.payments.refund(payment_id, reason="cancelled")
    await till.work()
    notices = await till.db.fetch("select type, audience from onceward.notices where type like 'PAYMENT_ACCOUNT%'")
    assert [tuple(row) for row in notices] == [("PAYMENT_ACCOUNT_REFUSED", "accounting")]


@pytest.mark.parametrize("first", ["handler", "account", "included app"])
def test_an_event_type_of_an_account_has_no_second_handler(first: str) -> None:
    app, included = Onceward("shop"), Onceward("till")

    async def mine(event: Event[Any], tx: Tx) -> None: ...

    def account(owner: Onceward) -> None:
        owner.payments.account("acme", service="acmepay", source="shop-acme")

    def handle() -> None:
        app.on("shop-acme", "changed")(mine)

    steps: dict[str, list[Any]] = {
        "handler": [handle, lambda: account(app)],
        "account": [lambda: account(app), handle],
        "included app": [handle, lambda: account(included), lambda: app.include(included)],
    }
    *before, last = steps[first]
    for step in before:
        step()
    with pytest.raises(ValueError, match=r"shop-acme/changed has two handlers.*as_job=True"):
        last()


def test_an_event_type_of_an_account_may_have_jobs() -> None:
    app = Onceward("shop")
    app.payments.account("acme", service="acmepay", source="shop-acme")

    @app.on("shop-acme", "changed", as_job=True)
    async def mine(event: Event[Any], tx: Tx) -> None: ...  # pyright: ignore[reportUnusedFunction]


@pytest.mark.parametrize(
    ("refused", "status"), [(NotFound, 404), (NotPayable, 400), (PaymentPending, 409), (NotRefundable, 409)]
)
def test_a_route_that_does_not_catch_a_refusal_answers_with_its_status(refused: type[Exception], status: int) -> None:
    api = FastAPI()
    add_error_handlers(api)

    @api.get("/")
    async def refuse() -> None:
        raise refused("amount 0 must be above zero")

    answer = TestClient(api).get("/")
    assert (answer.status_code, answer.json()["detail"]) == (status, "amount 0 must be above zero")
