"""PayPal: tokens, orders approved on a page, captures and refunds made once, webhooks signed by certificate."""

import asyncio
import zlib
from base64 import b64decode

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from onceward.integrations.paypal import PayPal, PayPalSimulator, to_decimal, to_minor
from onceward.integrations.paypal.api import request_id
from onceward.services.outcome import Accepted, Refused
from onceward.testing.simulators import CustomerEndpoint
from tests.outcomes import reference_of


@pytest.fixture
async def sim():
    async with PayPalSimulator(retry_delays_s=(0.05,)) as sim:
        yield sim


@pytest.fixture
def paypal(client, sim) -> PayPal:
    return PayPal(client, client_id="id", client_secret="s3cret", base_url=sim.url)


async def new_order(paypal: PayPal, key: str = "job:1:order", amount_minor: int = 1234) -> Accepted:
    outcome = await paypal.create_order(
        key=key,
        amount_minor=amount_minor,
        currency="EUR",
        custom_id="checkout-7",
        return_url="http://127.0.0.1:9/done?a=1",
        cancel_url="http://127.0.0.1:9/back",
        description="Two seats",
    )
    assert isinstance(outcome, Accepted)
    return outcome


async def captured(paypal: PayPal, sim: PayPalSimulator) -> str:
    order = await new_order(paypal)
    sim.approve(reference_of(order))
    return reference_of(await paypal.capture_order(reference_of(order), key="job:1:capture"))


async def test_an_order_is_approved_on_its_page_and_captured_once(paypal, sim) -> None:
    order = await new_order(paypal)
    early = await paypal.capture_order(order.reference, key="early")
    assert isinstance(early, Refused)
    assert early.detail["issue"] == "ORDER_NOT_APPROVED"
    async with aiohttp.ClientSession() as browser:
        page = await (await browser.get(order.detail["approve_url"])).text()
        assert "12.34 EUR" in page
        answer = await browser.post(order.detail["approve_url"], data={"choice": "approve"}, allow_redirects=False)
        assert answer.headers["Location"].startswith(f"http://127.0.0.1:9/done?a=1&token={order.reference}")
    first = await paypal.capture_order(order.reference, key="k")
    again = await paypal.capture_order(order.reference, key="k")
    other = await paypal.capture_order(order.reference, key="another key, after the first one expired")
    assert first.reference == again.reference == other.reference
    assert len(sim.books.captures) == 1
    assert sim.books.captures[first.reference]["custom_id"] == "checkout-7"


async def test_refunds_are_made_once_per_key_and_bounded_by_the_capture(paypal, sim) -> None:
    capture = await captured(paypal, sim)
    first = await paypal.refund_capture(capture, key="r1", amount_minor=1000, currency="EUR")
    again = await paypal.refund_capture(capture, key="r1", amount_minor=1000, currency="EUR")
    over = await paypal.refund_capture(capture, key="r2", amount_minor=235, currency="EUR")
    rest = await paypal.refund_capture(capture, key="r3")
    none = await paypal.refund_capture(capture, key="r4")
    assert first.reference == again.reference
    assert isinstance(over, Refused)
    assert over.permanent
    assert rest.detail["amount"]["value"] == "2.34"
    assert isinstance(none, Refused)


async def test_one_token_serves_many_calls_and_a_revoked_token_is_renewed(paypal, sim) -> None:
    await new_order(paypal, key="a")
    await new_order(paypal, key="b")
    assert [request.path for request in sim.received].count("/v1/oauth2/token") == 1
    sim.revoke_tokens()
    await new_order(paypal, key="c")
    assert [request.path for request in sim.received].count("/v1/oauth2/token") == 2
    assert len(sim.books.orders) == 3


async def test_webhooks_are_signed_by_a_certificate_under_the_simulators_root(paypal, sim) -> None:
    async with CustomerEndpoint() as receiver:
        sim.send_webhooks_to(receiver.hook_url)
        capture = await captured(paypal, sim)
        await paypal.refund_capture(capture, key="r")
        await sim.webhooks.settle()
    options = sim.source_options
    root = x509.load_pem_x509_certificate(options["roots_pem"].encode())
    types = set()
    for request in receiver.received:
        pem = options["certificates"][request.headers["paypal-cert-url"]]
        leaf = x509.load_pem_x509_certificate(pem.encode())
        leaf.verify_directly_issued_by(root)
        names = ("paypal-transmission-id", "paypal-transmission-time")
        signed = "|".join([*(request.headers[n] for n in names), options["webhook_id"], str(zlib.crc32(request.body))])
        public_key = leaf.public_key()
        assert isinstance(public_key, rsa.RSAPublicKey)
        public_key.verify(
            b64decode(request.headers["paypal-transmission-sig"]), signed.encode(), padding.PKCS1v15(), hashes.SHA256()
        )
        types.add(request.json["event_type"])
    assert types == {"CHECKOUT.ORDER.APPROVED", "PAYMENT.CAPTURE.COMPLETED", "PAYMENT.CAPTURE.REFUNDED"}


def test_a_long_key_is_sent_as_its_hash() -> None:
    assert request_id("short") == "short"
    assert len(request_id("x" * 109)) == 64


@pytest.mark.parametrize(
    ("minor", "currency", "written"),
    [
        (1234, "EUR", "12.34"),
        (5, "usd", "0.05"),
        (0, "EUR", "0.00"),
        (1234, "JPY", "1234"),
        (12300, "HUF", "123"),
        (1234, "KWD", "1.234"),
        (123456789012, "EUR", "1234567890.12"),
    ],
)
def test_minor_units_are_written_as_paypal_wants_them(minor: int, currency: str, written: str) -> None:
    assert to_decimal(minor, currency) == written
    assert to_minor(written, currency) == minor


def test_an_amount_that_the_currency_cannot_hold_is_an_error() -> None:
    with pytest.raises(ValueError, match="whole HUF"):
        to_decimal(12345, "HUF")
    with pytest.raises(ValueError, match="more digits"):
        to_minor("1.234", "EUR")
    with pytest.raises(ValueError, match="not a number"):
        to_minor("ten", "EUR")


async def test_the_official_sdk_reads_captures_refunds_and_the_balance(paypal, sim, monkeypatch) -> None:
    from paypalserversdk.configuration import Configuration, Environment, Server
    from paypalserversdk.http.auth.o_auth_2 import ClientCredentialsAuthCredentials
    from paypalserversdk.paypal_serversdk_client import PaypalServersdkClient

    monkeypatch.setitem(Configuration.environments[Environment.SANDBOX], Server.DEFAULT, sim.url)
    login = ClientCredentialsAuthCredentials(o_auth_client_id="id", o_auth_client_secret="s3cret")
    official = PaypalServersdkClient(client_credentials_auth_credentials=login, environment=Environment.SANDBOX)
    capture = await captured(paypal, sim)
    refund = reference_of(await paypal.refund_capture(capture, key="r", amount_minor=234, currency="EUR"))
    read = (await asyncio.to_thread(official.payments.get_captured_payment, {"capture_id": capture})).body
    assert read.status == "PARTIALLY_REFUNDED"
    assert read.seller_receivable_breakdown.paypal_fee.value == "0.93"
    assert (await asyncio.to_thread(official.payments.get_refund, {"refund_id": refund})).body.custom_id == "r"
    sim.close_dispute(sim.open_dispute(capture, channel="EXTERNAL")["dispute_id"], won=False)
    period = {"start_date": "2020-01-01T00:00:00Z", "end_date": "2099-01-01T00:00:00Z"}
    search = official.transaction_search.search_transactions
    details = (await asyncio.to_thread(search, period)).body.transaction_details
    lines = [each.transaction_info for each in details]
    assert [(each.transaction_event_code, each.transaction_amount.value) for each in lines] == [
        ("T0006", "12.34"),
        ("T1107", "-2.34"),
        ("T1110", "-10.00"),
        ("T1111", "10.00"),
        ("T1201", "-10.00"),
        ("T0106", "-20.00"),
    ]
    assert lines[1].paypal_reference_id == capture


async def test_two_apps_do_not_see_each_others_orders(client, sim) -> None:
    async with CustomerEndpoint() as receiver:
        sim.send_webhooks_to(receiver.hook_url)
        sim.send_webhooks_to(receiver.hook_url, client_id="other", webhook_id="WH-OTHER")
        apps = [PayPal(client, client_id=each, client_secret="s", base_url=sim.url) for each in ("id", "other")]
        orders = [reference_of(await new_order(each)) for each in apps]
        for order in orders:
            sim.approve(order)
        await sim.webhooks.settle()
        assert len(receiver.received) == 2
    assert isinstance(await apps[0].get_order(orders[0]), Accepted)
    for app, order in ((apps[0], orders[1]), (apps[1], orders[0])):
        missing = await app.get_order(order)
        assert isinstance(missing, Refused)
        assert missing.detail["status"] == 404
