"""Which events a request holds, what each is known by, and which requests hold none."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from onceward.webhooks.provider import ProviderReply, ReceivedItem, Rejected, Request, SourceConfig
from onceward.webhooks.registry import get_provider
from onceward.webhooks.samples import apply_fields, parse_field

FORM = {"content-type": "application/x-www-form-urlencoded"}
KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def source(provider: str, **changes: Any) -> SourceConfig:
    secrets = (KEY,)
    if provider == "twilio":
        changes.setdefault("public_url", "https://hooks.example.com")
    return SourceConfig(provider=provider, secrets=changes.pop("secrets", secrets), **changes)


def read(
    provider: str, body: Any, headers: dict[str, str] | None = None, *, method: str = "POST", query: str = ""
) -> list[ReceivedItem]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    config = source(provider, options={"header": "x-sig"}) if provider == "generic" else source(provider)
    return get_provider(provider).parse(config, Request(method, "/", query, headers or {}, raw))


def only(items: list[ReceivedItem]) -> ReceivedItem:
    (item,) = items
    return item


def refusal(*arguments: Any, **named: Any) -> Rejected:
    with pytest.raises(Rejected) as refused:
        read(*arguments, **named)
    return refused.value


# --- Stripe -----------------------------------------------------------------------------------------------


def test_stripe_events_of_one_payment_share_their_ordering() -> None:
    charge = {"id": "ch_1", "payment_intent": "pi_1"}
    refunded = {"id": "evt_2", "type": "charge.refunded", "created": 1700000000, "data": {"object": charge}}
    intent = {"id": "evt_1", "type": "payment_intent.succeeded", "data": {"object": {"id": "pi_1"}}}
    item = only(read("stripe", refunded))
    assert (item.event_id, item.type, item.ordering) == ("evt_2", "charge.refunded", "pi_1")
    assert only(read("stripe", intent)).ordering == "pi_1"
    assert get_provider("stripe").data(item.payload) == charge


def test_a_thin_stripe_event_is_ordered_by_what_it_refers_to() -> None:
    thin = {
        "id": "evt_3",
        "object": "v2.core.event",
        "type": "v1.billing.meter.error_report_triggered",
        "created": "2024-09-17T06:20:52.246Z",
        "related_object": {"id": "mtr_1", "type": "billing.meter"},
    }
    item = only(read("stripe", thin))
    assert (item.event_id, item.ordering) == ("evt_3", "mtr_1")
    assert get_provider("stripe").data(item.payload) == thin


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'"x"', b"{}", b'{"id":"evt_1"}', b'{"id":{},"type":"a"}', b"\xff"]
)
def test_a_body_that_is_not_an_event_of_the_provider_is_refused(body: bytes) -> None:
    for provider in ("stripe", "daily", "paypal"):
        config = source(provider, options={"webhook_id": "1"}) if provider == "paypal" else source(provider)
        with pytest.raises(Rejected) as refused:
            get_provider(provider).parse(config, Request("POST", "/", "", {}, body))
        assert (refused.value.reason, refused.value.status) == ("bad_body", 400)


# --- Cal.com ----------------------------------------------------------------------------------------------


def booking(trigger: str, created: str = "2024-01-15T10:00:00.000Z", **payload: Any) -> dict[str, Any]:
    defaults = {"uid": "u1", "startTime": "2024-02-01T10:00:00Z", "endTime": "2024-02-01T10:30:00Z"}
    return {"triggerEvent": trigger, "createdAt": created, "payload": defaults | payload}


def test_a_booking_moved_twice_is_two_events_and_a_repeat_is_none() -> None:
    first = booking("BOOKING_RESCHEDULED", startTime="2024-02-02T10:00:00Z")
    second = booking("BOOKING_RESCHEDULED", startTime="2024-02-03T10:00:00Z")
    later = booking("BOOKING_RESCHEDULED", "2024-01-15T11:00:00.000Z", startTime="2024-02-02T10:00:00Z")
    ids = {only(read("calcom", one)).event_id for one in (first, second, later)}
    assert len(ids) == 3
    assert only(read("calcom", dict(reversed(first.items())))).event_id in ids


def test_calcom_meetings_come_flat_or_nested_and_are_the_same_event() -> None:
    nested = booking("MEETING_ENDED")
    flat = {
        "triggerEvent": "MEETING_ENDED",
        **nested["payload"],
        "createdAt": "2024-01-10T08:00:00.000Z",
        "id": 5,
    }
    one, other = only(read("calcom", nested)), only(read("calcom", flat))
    assert one.event_id == other.event_id
    assert one.type == other.type == "MEETING_ENDED"
    data = get_provider("calcom").data
    assert data(one.payload)["uid"] == data(other.payload)["uid"] == "u1"


def test_calcom_no_shows_are_known_by_their_booking() -> None:
    body = {"triggerEvent": "BOOKING_NO_SHOW_UPDATED", "createdAt": "x", "payload": {"bookingUid": "u1"}}
    again = body | {"payload": {"bookingUid": "u2"}}
    assert only(read("calcom", body)).event_id != only(read("calcom", again)).event_id
    assert only(read("calcom", body)).ordering == "u1"


def test_a_calcom_event_about_no_booking_is_known_by_its_bytes() -> None:
    body = {"triggerEvent": "OOO_CREATED", "createdAt": "x", "payload": {"oooEntry": {"id": 1}}}
    assert only(read("calcom", body)).event_id.startswith("sha256:")
    assert refusal("calcom", {"custom": "template"}).reason == "bad_body"


# --- Formbricks -------------------------------------------------------------------------------------------


def test_formbricks_events_are_known_by_webhook_id() -> None:
    body = {"event": "responseFinished", "data": {"id": "r1", "updatedAt": "2025-07-24T07:47:29.507Z"}}
    item = only(read("formbricks", body, {"webhook-id": "0f" * 32}))
    assert (item.event_id, item.type, item.ordering) == ("0f" * 32, "responseFinished", "r1")


def test_unsigned_formbricks_needs_consent_and_falls_back_to_the_response() -> None:
    provider = get_provider("formbricks")
    body = b'{"event":"responseUpdated","data":{"id":"r1","updatedAt":"2025-07-24T07:47:29.507Z"}}'
    request = Request("POST", "/", "", {}, body)
    with pytest.raises(Rejected) as refused:
        provider.verify(source("formbricks"), request, 0)
    assert refused.value.reason == "unsigned"
    consenting = source("formbricks", secrets=(), options={"allow_unsigned": True})
    provider.verify(consenting, request, 0)
    assert only(provider.parse(consenting, request)).event_id.startswith("sha256:")


# --- Twilio -----------------------------------------------------------------------------------------------


def twilio(fields: dict[str, Any], **headers: str) -> ReceivedItem:
    return only(read("twilio", urlencode(fields, doseq=True).encode(), FORM | headers))


def test_each_status_of_a_message_is_an_event_of_its_own() -> None:
    sent = twilio({"MessageSid": "SM1", "MessageStatus": "sent", "SmsStatus": "sent"})
    delivered = twilio({"MessageSid": "SM1", "MessageStatus": "delivered"})
    inbound = twilio({"MessageSid": "SM2", "SmsStatus": "received", "Body": "YES", "ToCity": ""})
    assert (sent.event_id, sent.type, sent.ordering) == ("SM1:sent", "message.sent", "SM1")
    assert (delivered.event_id, delivered.type) == ("SM1:delivered", "message.delivered")
    assert (inbound.event_id, inbound.type) == ("SM2:received", "message.received")
    assert inbound.payload["ToCity"] == ""


def test_a_captured_twilio_request_cannot_come_again_under_another_id() -> None:
    """The signature covers the sorted fields without separators, and no header."""
    token = {"i-twilio-idempotency-token": "another"}
    fields = {"MessageSid": "SM1", "MessageStatus": "sent"}
    assert twilio(fields, **token).event_id == "SM1:sent"
    changed = {"EventType": "onMessageUpdated", "MessageSid": "IM1", "Body": "b"}
    reordered = dict(reversed(changed.items()))
    assert twilio(changed).event_id == twilio(reordered, **token).event_id
    assert twilio(changed).event_id != twilio({**changed, "Body": "c"}).event_id, "each change of a message is an event"
    sid = "SM" + "0" * 32
    joined = [{"MessageSid": f"{sid}NumMedia0"}, {"MessageSid": f"{sid}NumMedia", "0": ""}]
    assert {twilio(each).event_id.startswith("sha256:") for each in joined} == {True}
    event = {"type": "x", "id": "EZ1"}
    assert only(read("twilio", event, {"content-type": "application/json"} | token)).event_id == "EZ1"


def test_twilio_calls_streams_and_repeated_fields() -> None:
    call = twilio({"CallSid": "CA1", "CallStatus": "completed", "SequenceNumber": "3", "Tag": ["a", "b"]})
    assert (call.event_id, call.type) == ("CA1:completed:3", "call.completed")
    assert call.payload["Tag"] == ["a", "b"]
    batch = [
        {"id": "EZ1", "type": "com.twilio.messaging.message.sent", "time": "2024-01-01T00:00:00Z"},
        {"id": "EZ2", "type": "com.twilio.messaging.message.delivered"},
    ]
    items = read("twilio", batch, {"content-type": "application/json"})
    assert [item.event_id for item in items] == ["EZ1", "EZ2"]
    assert read("twilio", [], {"content-type": "application/json"}) == []


def test_a_twilio_callback_by_get_is_read_from_the_query() -> None:
    item = only(read("twilio", b"", {}, method="GET", query="MessageSid=SM1&MessageStatus=sent"))
    assert item.event_id == "SM1:sent"


def test_a_form_with_nul_is_an_event_without_payload() -> None:
    item = twilio({"MessageSid": "SM1", "MessageStatus": "sent", "Body": "a\0b"})
    assert item.unstorable
    assert item.payload is None
    assert item.event_id == "SM1:sent"


# --- WhatsApp ---------------------------------------------------------------------------------------------


def message(wamid: str, sender: str = "491", text: str = "hi") -> dict[str, Any]:
    return {"from": sender, "id": wamid, "timestamp": "1697043223", "type": "text", "text": {"body": text}}


def status(wamid: str, state: str, stamp: str = "1698266945") -> dict[str, Any]:
    return {"id": wamid, "status": state, "timestamp": stamp, "recipient_id": "491"}


def meta(*changes: dict[str, Any], field: str = "messages", **entry: Any) -> dict[str, Any]:
    wrapped = [{"field": field, "value": {"metadata": {"phone_number_id": "1"}} | one} for one in changes]
    return {"object": "whatsapp_business_account", "entry": [{"id": "waba", "changes": wrapped} | entry]}


def test_a_whatsapp_batch_becomes_one_event_per_item() -> None:
    contacts = [{"wa_id": "491", "profile": {"name": "Ada"}}, {"wa_id": "492", "profile": {"name": "Grace"}}]
    body = meta(
        {"contacts": contacts, "messages": [message("wamid.1"), message("wamid.2", "492")]},
        {"statuses": [status("wamid.9", "sent"), status("wamid.9", "delivered")]},
    )
    items = read("whatsapp", body)
    assert [item.event_id for item in items] == [
        "wamid.1",
        "wamid.2",
        "wamid.9:sent:1698266945",
        "wamid.9:delivered:1698266945",
    ]
    assert [item.type for item in items] == [
        "message.text",
        "message.text",
        "status.sent",
        "status.delivered",
    ]
    assert items[1].payload["contact"]["profile"]["name"] == "Grace"
    assert items[1].payload["message"]["text"]["body"] == "hi"
    assert items[0].payload["waba_id"] == "waba"
    assert items[2].payload["metadata"] == {"phone_number_id": "1"}


def test_other_whatsapp_changes_are_known_by_field_value_and_time() -> None:
    approved = meta({"event": "APPROVED"}, field="message_template_status_update", time=1751247548)
    again = meta({"event": "APPROVED"}, field="message_template_status_update", time=1751247549)
    first, second = only(read("whatsapp", approved)), only(read("whatsapp", again))
    assert first.type == "message_template_status_update"
    assert first.event_id != second.event_id
    assert first.event_id == only(read("whatsapp", approved)).event_id


def test_one_unstorable_message_does_not_spoil_its_neighbours() -> None:
    body = meta({"messages": [message("wamid.1", text="a\0b"), message("wamid.2")]})
    spoiled, fine = read("whatsapp", body)
    assert (spoiled.unstorable, spoiled.payload) == (True, None)
    assert not fine.unstorable
    assert fine.payload["message"]["id"] == "wamid.2"


def test_errors_of_a_whatsapp_account_are_events_beside_its_messages() -> None:
    body = meta({"messages": [message("wamid.1")], "errors": [{"code": 130429, "title": "Rate limit hit"}]})
    assert [item.type for item in read("whatsapp", body)] == ["message.text", "error"]


def test_a_whatsapp_body_without_entries_holds_no_events() -> None:
    assert read("whatsapp", {"object": "page"}) == []


def subscribe(query: str, **options: Any) -> ProviderReply | None:
    config = source("whatsapp", options={"verify_token": "agreed"} | options)
    return get_provider("whatsapp").challenge(config, Request("GET", "/", query, {}, b""))


def test_meta_gets_its_challenge_back_for_the_agreed_token_only() -> None:
    query = "hub.mode=subscribe&hub.verify_token={}&hub.challenge=1158201444"
    assert subscribe(query.format("agreed")) == ProviderReply(b"1158201444")
    for bad, reason in (
        (query.format("guessed"), "bad_token"),
        (query.format("%C3%A9"), "bad_token"),
        ("hub.mode=unsubscribe", "bad_body"),
        ("hub.mode=subscribe&hub.verify_token=agreed", "bad_body"),
        ("hub.mode=subscribe&hub.verify_token=agreed&hub.challenge=%C3%A9", "bad_body"),
    ):
        with pytest.raises(Rejected) as refused:
            subscribe(bad)
        assert refused.value.reason == reason
    with pytest.raises(Rejected) as refused:
        subscribe(query.format(""), verify_token=None)
    assert refused.value.reason == "no_secret"


# --- Daily, GitHub, Slack, Standard Webhooks --------------------------------------------------------------


@pytest.mark.parametrize("body", [b'{"test":"test"}', b'{"test": "test"}', b'{\n  "test": "test"\n}\n'])
def test_the_probe_of_daily_is_answered_before_a_secret_is_known(body: bytes) -> None:
    provider, config = get_provider("daily"), source("daily", secrets=())
    request = Request("POST", "/", "", {}, body)
    provider.verify(config, request, 0)
    assert provider.challenge(config, request) == ProviderReply()
    assert provider.parse(config, request) == []


def test_daily_events_are_ordered_by_room_under_either_name() -> None:
    body = {"id": "e1", "type": "participant.joined", "event_ts": 1708972279.961, "payload": {"room": "r"}}
    item = only(read("daily", body))
    assert (item.event_id, item.type, item.ordering) == ("e1", "participant.joined", "r")
    assert only(read("daily", body | {"payload": {"room_name": "r2"}})).ordering == "r2"


def test_github_type_is_event_and_action_and_a_form_is_read_like_json() -> None:
    headers = {"x-github-event": "issues", "x-github-delivery": "d-1"}
    body = {"action": "opened", "repository": {"full_name": "a/b"}}
    item = only(read("github", body, headers))
    assert (item.event_id, item.type, item.ordering) == ("d-1", "issues.opened", "a/b")
    form = urlencode({"payload": json.dumps(body)}).encode()
    assert only(read("github", form, headers | FORM)) == item
    assert refusal("github", b"other=1", headers | FORM).reason == "bad_body"
    assert refusal("github", body, {"x-github-event": "issues"}).reason == "missing_header"
    assert only(read("github", {}, {"x-github-event": "ping", "x-github-delivery": "d-2"})).type == "ping"


def test_slack_echoes_its_challenge_and_nothing_else() -> None:
    provider, config = get_provider("slack"), source("slack")

    def challenge(body: bytes) -> ProviderReply | None:
        return provider.challenge(config, Request("POST", "/", "", {}, body))

    assert challenge(b'{"type":"url_verification","challenge":"abc"}') == ProviderReply(b"abc")
    assert challenge(b'{"type":"event_callback","event":{"text":"url_verification"}}') is None
    with pytest.raises(Rejected):
        challenge(b'{"type":"url_verification"}')


def test_slack_events_commands_and_interactions_have_their_own_keys() -> None:
    event = {"type": "event_callback", "event_id": "Ev1", "event": {"type": "app_mention", "channel": "C1"}}
    item = only(read("slack", event))
    assert (item.event_id, item.type, item.ordering) == ("Ev1", "app_mention", "C1")
    pressed = {"type": "block_actions", "trigger_id": "t-1", "channel": {"id": "C1"}}
    item = only(read("slack", urlencode({"payload": json.dumps(pressed)}).encode(), FORM))
    assert (item.event_id, item.type, item.payload) == ("t-1", "interaction.block_actions", pressed)
    assert refusal("slack", b"payload=%7B", FORM).reason == "bad_body"


def test_pings_of_calcom_and_formbricks_are_answered_and_not_stored() -> None:
    for provider, body in (
        ("calcom", b'{"triggerEvent":"PING"}'),
        ("formbricks", b'{"event":"testEndpoint"}'),
    ):
        request = Request("POST", "/", "", {}, body)
        assert get_provider(provider).challenge(source(provider), request) == ProviderReply()
        other = Request("POST", "/", "", {}, body.replace(b":", b':"x","y":'))
        assert get_provider(provider).challenge(source(provider), other) is None


def test_standard_webhooks_need_no_envelope() -> None:
    assert only(read("standard", [1], {"webhook-id": "m1"})).type == "unknown"
    item = only(read("standard", {"type": "a.b", "data": {"x": 1}}, {"svix-id": "m2", "svix-signature": "v1,"}))
    assert (item.event_id, item.type) == ("m2", "a.b")
    assert get_provider("standard").data(item.payload) == {"x": 1}


# --- anyone else ------------------------------------------------------------------------------------------


def test_a_generic_event_is_known_by_header_field_or_bytes_in_that_order() -> None:
    options = {
        "header": "x-sig",
        "id_header": "X-Id",
        "id_field": "event.id",
        "type_field": "event.kind",
        "ordering_field": "items.0.order",
    }
    config, provider = source("generic", options=options), get_provider("generic")

    def parse(body: Any, **headers: str) -> ReceivedItem:
        request = Request("POST", "/", "", {k.replace("_", "-"): v for k, v in headers.items()}, body)
        return only(provider.parse(config, request))

    full = b'{"event":{"id":7,"kind":"paid","at":1700000000},"items":[{"order":"o1"}]}'
    item = parse(full, x_id="h1")
    assert (item.event_id, item.type, item.ordering) == ("h1", "paid", "o1")
    assert parse(full).event_id == "7"
    assert parse(b"[1]").event_id.startswith("sha256:")
    assert parse(b"[1]").type == "webhook"
    assert parse(b"event=1", content_type=FORM["content-type"]).payload == {"event": "1"}


def test_fields_of_a_sample_are_overwritten_by_path() -> None:
    sample = get_provider("stripe").sample("charge.succeeded", dict([parse_field("data.object.amount=500")]))
    assert sample["data"]["object"]["amount"] == 500
    assert apply_fields({"a": [{"b": 1}]}, {"a.0.b": 2, "c.d": "x"}) == {"a": [{"b": 2}], "c": {"d": "x"}}
    assert parse_field("a.b=text with = inside") == ("a.b", "text with = inside")
    with pytest.raises(ValueError, match="numbered from 0"):
        apply_fields({"a": []}, {"a.0": 1})
    with pytest.raises(ValueError, match="PATH=VALUE"):
        parse_field("nothing")
