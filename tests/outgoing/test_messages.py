"""Slack, Twilio, WhatsApp, Brevo and Web Push: their own rules, beside those that hold for every service."""

import asyncio
import time
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from slack_sdk.web import WebClient
from twilio.request_validator import RequestValidator
from twilio.rest import Client as TwilioSdk

from onceward.http import GuardedClient, Response
from onceward.integrations.brevo import Brevo, Mailbox
from onceward.integrations.slack import Slack, SlackWebhook
from onceward.integrations.slack.client import judge as judge_slack
from onceward.integrations.slack.client import judge_webhook
from onceward.integrations.twilio import Twilio
from onceward.integrations.twilio.simulator import INVALID_NUMBER
from onceward.integrations.webpush.client import MAX_PLAIN_BYTES, Subscription, VapidKey, WebPush
from onceward.integrations.whatsapp import WhatsApp
from onceward.integrations.whatsapp.client import judge as judge_whatsapp
from onceward.services.outcome import Absent, Accepted, Refused, Throttled, Unknown
from onceward.testing.simulators import CustomerEndpoint

VAPID_PRIVATE = (
    ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
)


# Slack


async def test_slack_is_judged_by_ok_and_not_by_its_status(client, sims) -> None:
    slack = Slack(client, "xoxb-1", sims.slack.url)
    sims.slack.archived.add("C9")
    outcome = await slack.post_message(key="m:1", channel="C9", text="hello")
    assert isinstance(outcome, Refused)
    assert (outcome.reason, outcome.permanent, outcome.recipient) == ("Slack: is_archived", True, True)


@pytest.mark.parametrize(
    ("error", "kind"),
    [("ratelimited", Throttled), ("internal_error", Unknown), ("fatal_error", Unknown), ("not_in_channel", Refused)],
)
def test_slack_errors_have_their_outcomes(error: str, kind: type) -> None:
    assert isinstance(judge_slack(Response(200, {}, b'{"ok":false,"error":"%s"}' % error.encode(), 1)), kind)


def test_a_slack_answer_that_cannot_be_read_is_unknown() -> None:
    assert isinstance(judge_slack(Response(200, {}, b"<html>", 1)), Unknown)


async def test_an_unclear_slack_message_is_found_by_its_key(client, sims) -> None:
    slack, started = Slack(client, "xoxb-1", sims.slack.url), time.time() - 1
    sims.slack.drop_after_send()
    assert isinstance(await slack.post_message(key="m:1", channel="C1", text="hello"), Unknown)
    found = await slack.find_message(key="m:1", channel="C1", oldest_epoch_s=started)
    assert isinstance(found, Accepted)
    assert found.reference == sims.slack.messages[0]["ts"]
    assert await slack.find_message(key="m:2", channel="C1", oldest_epoch_s=started) == Absent()


async def test_an_incoming_webhook_is_judged_by_its_word_and_its_url_never_shows(guarded, sims) -> None:
    webhook = SlackWebhook(guarded, sims.slack.webhook_url)
    assert isinstance(await webhook.post_message(text="hello"), Accepted)
    sims.slack.archived.add("webhook")
    refused = await webhook.post_message(text="hello")
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.account) == ("HTTP 410: channel_is_archived", True)
    assert "s1mulated" not in repr(webhook)
    assert isinstance(judge_webhook(Response(200, {}, b"<html>", 1)), Unknown)


async def test_a_slack_webhook_that_points_inside_is_not_called(sims) -> None:
    async with GuardedClient() as strict:
        outcome = await SlackWebhook(strict, "https://169.254.169.254/services/T/B/X").post_message(text="x")
    assert isinstance(outcome, Refused)
    assert outcome.permanent


async def test_a_message_over_slacks_limits_is_not_sent(client, sims) -> None:
    slack = Slack(client, "xoxb-1", sims.slack.url)
    assert isinstance(await slack.post_message(key="m", channel="C1", text="x" * 40_001), Refused)
    assert isinstance(await slack.post_message(key="m", channel="C1", text="x", blocks=[{}] * 51), Refused)
    assert sims.slack.received == []


async def test_slacks_own_sdk_works_with_the_simulator(sims) -> None:
    sdk = WebClient(token="xoxb-1", base_url=f"{sims.slack.url}/api/")
    answer = await asyncio.to_thread(sdk.chat_postMessage, channel="C1", text="hello")
    assert answer["ok"]


# Twilio


@pytest.fixture
def twilio(client, sims) -> Twilio:
    return Twilio(client, sims.twilio.account_sid, sims.twilio.auth_token, base_url=sims.twilio.url)


async def test_an_unclear_text_message_is_read_back_before_it_is_sent_again(twilio, sims) -> None:
    started = datetime.now(UTC)
    sims.twilio.drop_after_send()
    assert isinstance(await twilio.send_message(to="+15550001111", from_="+1555", body="Seat A12"), Unknown)
    found = await twilio.find_message(to="+15550001111", body="Seat A12", sent_after=started)
    assert isinstance(found, Accepted)
    assert found.reference == sims.twilio.messages[0]["sid"]


async def test_a_read_back_takes_neither_other_texts_nor_older_ones(twilio, sims) -> None:
    await twilio.send_message(to="+15550001111", from_="+1555", body="Seat A12")
    later = datetime.now(UTC) + timedelta(hours=1)
    assert await twilio.find_message(to="+15550001111", body="Seat A13", sent_after=datetime.now(UTC)) == Absent()
    assert await twilio.find_message(to="+15550002222", body="Seat A12", sent_after=datetime.now(UTC)) == Absent()
    assert await twilio.find_message(to="+15550001111", body="Seat A12", sent_after=later) == Absent()


async def test_a_number_that_cannot_exist_is_refused_by_code_without_being_repeated(twilio, sims) -> None:
    outcome = await twilio.send_message(to=INVALID_NUMBER, from_="+1555", body="x")
    assert outcome == Refused("HTTP 400: Twilio error 21211", permanent=True, detail={"code": 21211}, recipient=True)
    assert INVALID_NUMBER not in repr(outcome)


@pytest.mark.parametrize("code", [21606, 21659])
async def test_a_short_code_that_cannot_reach_a_country_does_not_stop_the_account(twilio, sims, code: int) -> None:
    """Twilio has one code for a wrong sender and for a recipient in another country than the short code."""
    sims.twilio.refuse_all(code)
    abroad = await twilio.send_message(to="+4915112345678", from_="55512", body="x")
    assert abroad == Refused(f"HTTP 400: Twilio error {code}", permanent=True, detail={"code": code}, recipient=True)
    wrong = await twilio.send_message(to="+4915112345678", from_="+15550001111", body="x")
    assert isinstance(wrong, Refused)
    assert wrong.account
    assert "messaging service" in wrong.advice


async def test_a_text_over_twilios_limit_is_not_sent(twilio, sims) -> None:
    assert isinstance(await twilio.send_message(to="+1", from_="+2", body="x" * 1601), Refused)
    assert sims.twilio.received == []


async def test_status_callbacks_are_signed_as_twilios_validator_wants(twilio, sims) -> None:
    async with CustomerEndpoint() as receiver:
        sent = await twilio.send_message(to="+15550001111", from_="+1555", body="x", status_callback=receiver.hook_url)
        await sims.twilio.webhooks.settle()
    validator = RequestValidator(sims.twilio.auth_token)
    assert len(receiver.received) == 2
    for request in receiver.received:
        assert validator.validate(receiver.hook_url, request.form, request.headers["x-twilio-signature"])
    assert {request.form["MessageStatus"] for request in receiver.received} == {"sent", "delivered"}
    fetched = await twilio.fetch_message(sent.reference)
    assert fetched.detail["status"] == "delivered"


async def test_twilios_own_sdk_works_with_the_simulator(sims) -> None:
    sdk = TwilioSdk(sims.twilio.account_sid, sims.twilio.auth_token)
    sdk.api.base_url = sims.twilio.url
    message = await asyncio.to_thread(sdk.messages.create, to="+15550001111", from_="+1555", body="hello")
    assert message.sid == sims.twilio.messages[0]["sid"]


# WhatsApp


@pytest.fixture
def whatsapp(client, sims) -> WhatsApp:
    return WhatsApp(client, sims.whatsapp.phone_number_id, "token", sims.whatsapp.url)


async def test_free_text_needs_an_open_window_and_a_template_does_not(whatsapp, sims) -> None:
    sims.whatsapp.enforce_window = True
    closed = await whatsapp.send_text(key="m:1", to="15550001111", text="hello")
    assert isinstance(closed, Refused)
    assert closed.permanent
    assert closed.detail["code"] == 131047
    template = await whatsapp.send_template(
        key="m:2", to="15550001111", name="goodbye", language="en", parameters=["Ada\n Lovelace"]
    )
    assert isinstance(template, Accepted)
    sent = sims.whatsapp.messages[0]["template"]
    assert sent["components"][0]["parameters"] == [{"type": "text", "text": "Ada Lovelace"}]
    sims.whatsapp.receive_text("15550001111", "hi")
    assert isinstance(await whatsapp.send_text(key="m:3", to="15550001111", text="hello"), Accepted)


async def test_the_key_comes_back_in_the_status_webhooks(whatsapp, sims) -> None:
    async with CustomerEndpoint() as receiver:
        sims.whatsapp.send_webhooks_to(receiver.hook_url)
        sims.whatsapp.drop_after_send()
        assert isinstance(await whatsapp.send_text(key="m:1", to="15550001111", text="hello"), Unknown)
        await sims.whatsapp.webhooks.settle()
    statuses = [request.json["entry"][0]["changes"][0]["value"]["statuses"][0] for request in receiver.received]
    assert {status["status"] for status in statuses} == {"sent", "delivered"}
    assert {status["biz_opaque_callback_data"] for status in statuses} == {"m:1"}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (130429, Throttled(1.0)),
        (131056, Throttled(6.0)),
        (131000, Unknown("HTTP 400: WhatsApp error 131000")),
        (131016, Refused("HTTP 400: WhatsApp error 131016", permanent=False, detail={"code": 131016})),
        (131026, Refused("HTTP 400: WhatsApp error 131026", permanent=True, detail={"code": 131026}, recipient=True)),
    ],
)
def test_metas_codes_decide_and_not_the_status(code: int, expected: object) -> None:
    assert judge_whatsapp(Response(400, {}, b'{"error":{"code":%d}}' % code, 1)) == expected


def test_a_success_without_a_message_id_is_unknown() -> None:
    assert isinstance(judge_whatsapp(Response(200, {}, b"{}", 1)), Unknown)


# Brevo


async def test_brevo_waits_by_its_own_header_and_repeats_no_address(client, sims) -> None:
    brevo = Brevo(client, "key", sims.brevo.url)
    sims.brevo.rate_limit(retry_after_s=None)
    mail = {"sender": Mailbox("a@example.com"), "to": [Mailbox("b@example.com", "B")], "subject": "s", "html": "h"}
    assert await brevo.send_email(key="m:1", **mail) == Throttled(7.0)
    sims.brevo.blocked.add("b@example.com")
    outcome = await brevo.send_email(key="m:1", **mail)
    assert outcome == Refused("HTTP 400: invalid_parameter", permanent=True)


async def test_a_mail_without_content_or_beyond_brevos_limits_is_not_sent(client, sims) -> None:
    brevo = Brevo(client, "key", sims.brevo.url)
    with pytest.raises(ValueError, match="subject"):
        await brevo.send_email(key="m", sender=Mailbox("a@x"), to=[Mailbox("b@x")])
    many = await brevo.send_email(key="m", sender=Mailbox("a@x"), to=[Mailbox("b@x")] * 100, template_id=1)
    large = await brevo.send_email(
        key="m", sender=Mailbox("a@x"), to=[Mailbox("b@x")], template_id=1, params={"a": "x" * 100_001}
    )
    assert isinstance(many, Refused)
    assert isinstance(large, Refused)
    assert sims.brevo.received == []


# Web Push


@pytest.fixture
def push(guarded) -> WebPush:
    return WebPush(guarded, vapid=VapidKey(VAPID_PRIVATE), subject="mailto:ops@example.com")


async def test_a_push_is_decrypted_by_the_browser_and_names_its_sender(push, sims) -> None:
    browser = sims.webpush.subscribe()
    subscription = Subscription(browser.endpoint, browser.p256dh, browser.auth)
    outcome = await push.push(subscription, b'{"title":"Seat A12"}', key="m:1")
    assert isinstance(outcome, Accepted)
    assert browser.pushes == [b'{"title":"Seat A12"}']
    await push.push(subscription, b"again", key="m:1")
    assert browser.topics[0] == browser.topics[1]
    assert len(browser.topics[0]) == 32
    assert browser.endpoint not in repr(subscription)


async def test_the_largest_payload_fits_and_a_larger_one_is_not_sent(push, sims) -> None:
    browser = sims.webpush.subscribe()
    subscription = Subscription(browser.endpoint, browser.p256dh, browser.auth)
    assert isinstance(await push.push(subscription, b"x" * MAX_PLAIN_BYTES), Accepted)
    assert isinstance(await push.push(subscription, b"x" * (MAX_PLAIN_BYTES + 1)), Refused)
    assert len(sims.webpush.received) == 1


async def test_a_subscription_that_is_gone_is_to_be_deleted(push, sims) -> None:
    browser = sims.webpush.subscribe()
    sims.webpush.unsubscribe(browser)
    outcome = await push.push(Subscription(browser.endpoint, browser.p256dh, browser.auth), b"x")
    assert isinstance(outcome, Refused)
    assert outcome.permanent
    assert outcome.detail["gone"]


async def test_406_and_429_of_a_push_service_are_both_a_pause(push, sims) -> None:
    browser = sims.webpush.subscribe()
    subscription = Subscription(browser.endpoint, browser.p256dh, browser.auth)
    sims.webpush.fail_next(status=406)
    assert await push.push(subscription, b"x") == Throttled(None)
    sims.webpush.rate_limit(retry_after_s=30)
    assert await push.push(subscription, b"x") == Throttled(30.0)


async def test_a_subscription_made_of_nonsense_is_refused_for_good(push) -> None:
    outcome = await push.push(Subscription("https://push.example/x", "AAAA", "BBBB"), b"x")
    assert isinstance(outcome, Refused)
    assert outcome.permanent


async def test_a_push_address_inside_our_network_is_not_called(sims) -> None:
    browser = sims.webpush.subscribe()
    async with GuardedClient() as strict:
        push = WebPush(strict, vapid=VapidKey(VAPID_PRIVATE), subject="mailto:ops@example.com")
        outcome = await push.push(Subscription("https://10.0.0.1/x", browser.p256dh, browser.auth), b"x")
    assert isinstance(outcome, Refused)


def test_a_vapid_key_is_read_as_pem_and_as_base64url_of_its_number() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    number = key.private_numbers().private_value.to_bytes(32)
    assert VapidKey(pem).public == VapidKey(urlsafe_b64encode(number).decode().rstrip("=")).public


def test_a_vapid_key_that_is_not_a_p256_key_is_refused_without_being_shown() -> None:
    with pytest.raises(ValueError, match="VAPID") as caught:
        VapidKey("bm90IGEga2V5")
    assert "bm90" not in str(caught.value)
