"""The libraries of PayPal, HubSpot, Brevo and the analytics services work against our simulators, and send what our clients send."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from onceward.integrations.brevo import Brevo, Mailbox
from onceward.integrations.hubspot import CrmRecord, HubSpot
from onceward.integrations.mixpanel import Mixpanel
from onceward.integrations.paypal import PayPal
from onceward.integrations.posthog import PostHog
from onceward.integrations.segment import Segment, SegmentCall
from onceward.services.analytics import AnalyticsEvent
from onceward.services.outcome import Accepted
from tests.outcomes import detail_of, reference_of

AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


async def test_hubspot(client, sims) -> None:
    from hubspot import Client
    from hubspot.crm.contacts import (
        ApiException,
        BatchInputSimplePublicObjectBatchInputUpsert,
        SimplePublicObjectBatchInputUpsert,
    )

    official = Client.create(access_token="pat-1").crm.contacts.batch_api
    official.api_client.configuration.host = sims.hubspot.url
    record = SimplePublicObjectBatchInputUpsert(
        id="ada@example.com", id_property="email", properties={"firstname": "Ada"}, object_write_trace_id="0"
    )
    wanted = BatchInputSimplePublicObjectBatchInputUpsert(inputs=[record])
    made: Any = await asyncio.to_thread(official.upsert, wanted)
    ours = HubSpot(client, "pat-1", sims.hubspot.url)
    outcome = await ours.upsert("contacts", [CrmRecord("ada@example.com", {"firstname": "Ada"})])
    assert isinstance(outcome, Accepted)
    first, second = sims.hubspot.received
    assert (first.path, first.json) == (second.path, second.json)
    assert first.headers["authorization"] == second.headers["authorization"]
    assert made.status == "COMPLETE"
    assert [each.id for each in made.results] == outcome.detail["upserted"]
    sims.hubspot.fail_next(status=429)
    with pytest.raises(ApiException) as refused:
        await asyncio.to_thread(official.upsert, wanted)
    assert refused.value.status == 429


async def test_brevo(client, sims) -> None:
    from brevo import Brevo as Official
    from brevo.core.api_error import ApiError

    official = Official(api_key="xkeysib-1", base_url=f"{sims.brevo.url}/v3", max_retries=0).transactional_emails
    mail: Any = {
        "sender": {"email": "shop@example.com", "name": "Shop"},
        "to": [{"email": "ada@example.com"}],
        "subject": "Receipt",
        "html_content": "<p>Thanks</p>",
        "headers": {"idempotencyKey": "k1"},
        "tags": ["receipt"],
    }
    made = await asyncio.to_thread(lambda: official.send_transac_email(**mail))
    ours = await Brevo(client, "xkeysib-1", sims.brevo.url).send_email(
        key="k1",
        sender=Mailbox("shop@example.com", "Shop"),
        to=[Mailbox("ada@example.com")],
        subject="Receipt",
        html="<p>Thanks</p>",
        tags=["receipt"],
    )
    first, second = sims.brevo.received
    assert (first.path, first.json, first.headers["api-key"]) == (second.path, second.json, second.headers["api-key"])
    assert made.message_id == reference_of(ours), "the same idempotency key: one mail"
    sims.brevo.blocked.add("ada@example.com")
    with pytest.raises(ApiError) as refused:
        await asyncio.to_thread(lambda: official.send_transac_email(**mail))
    assert refused.value.status_code == 400


async def test_segment(client, sims) -> None:
    from segment.analytics.client import Client

    official = Client("write-1", host=sims.segment.url, sync_mode=True, max_retries=0)
    given: Any = {"timestamp": AT, "message_id": "m1"}
    await asyncio.to_thread(lambda: official.track("user-1", "Enrolled", {"cohort": "c1"}, **given))
    call = SegmentCall("m1", "track", AT, user_id="user-1", event="Enrolled", values={"cohort": "c1"})
    assert isinstance(await Segment(client, "write-1", sims.segment.url).send([call]), Accepted)
    first, second = sims.segment.received
    assert (first.path, first.headers["authorization"]) == (second.path, second.headers["authorization"])
    [theirs], [mine] = first.json["batch"], second.json["batch"]
    for name in ("type", "messageId", "userId", "event", "properties"):
        assert theirs[name] == mine[name], name
    assert datetime.fromisoformat(theirs["timestamp"]) == datetime.fromisoformat(mine["timestamp"])
    assert len(sims.segment.calls) == 1, "the same messageId counts once"


async def test_posthog(client, sims) -> None:
    from posthog import Posthog

    official = Posthog("phc_1", host=sims.posthog.url, sync_mode=True, max_retries=0, disable_geoip=False)
    event = AnalyticsEvent("k1", "enrolled", "user-1", AT, {"cohort": "c1"})
    assert isinstance(await PostHog(client, "phc_1", sims.posthog.url).capture([event]), Accepted)
    [mine] = sims.posthog.received[0].json["batch"]
    given: Any = {"distinct_id": "user-1", "properties": {"cohort": "c1"}, "timestamp": AT, "uuid": mine["uuid"]}
    await asyncio.to_thread(lambda: official.capture("enrolled", **given))
    first, second = sims.posthog.received
    assert first.path == second.path
    assert first.json["api_key"] == second.json["api_key"]
    [theirs] = second.json["batch"]
    assert (theirs["event"], theirs["uuid"]) == (mine["event"], mine["uuid"])
    assert datetime.fromisoformat(theirs["timestamp"]) == datetime.fromisoformat(mine["timestamp"])
    assert theirs["properties"]["cohort"] == mine["properties"]["cohort"]
    assert len(sims.posthog.events) == 1, "the same uuid counts once"


async def test_mixpanel(client, sims) -> None:
    from mixpanel import Consumer, MixpanelException
    from mixpanel import Mixpanel as Official

    official = Official("token-1", consumer=Consumer(import_url=f"{sims.mixpanel.url}/import", retry_limit=0))
    event = AnalyticsEvent("k1", "enrolled", "user-1", AT, {"cohort": "c1"})
    assert isinstance(await Mixpanel(client, "secret-1", base_url=sims.mixpanel.url).import_events([event]), Accepted)
    [mine] = orjson.loads(sims.mixpanel.received[0].body)
    properties = {"cohort": "c1", "$insert_id": mine["properties"]["$insert_id"]}
    await asyncio.to_thread(
        official.import_data, "", "user-1", "enrolled", AT.timestamp(), properties, api_secret="secret-1"
    )
    first, second = sims.mixpanel.received
    assert (first.path, first.headers["authorization"]) == (second.path, second.headers["authorization"])
    theirs = orjson.loads(second.form["data"])
    assert theirs["event"] == mine["event"]
    for name in ("distinct_id", "$insert_id", "cohort"):
        assert theirs["properties"][name] == mine["properties"][name], name
    # The library writes seconds, our client milliseconds: the service takes both.
    assert theirs["properties"]["time"] * 1000 == mine["properties"]["time"]
    assert len(sims.mixpanel.events) == 1, "the same insert id counts once"
    with pytest.raises(MixpanelException):
        await asyncio.to_thread(
            official.import_data, "", "user-1", "enrolled", AT.timestamp(), {"$insert_id": ""}, api_secret="secret-1"
        )


async def test_paypal(client, sims, monkeypatch) -> None:
    from paypalserversdk.configuration import Configuration, Environment, Server
    from paypalserversdk.exceptions.error_exception import ErrorException
    from paypalserversdk.http.auth.o_auth_2 import ClientCredentialsAuthCredentials
    from paypalserversdk.paypal_serversdk_client import PaypalServersdkClient

    monkeypatch.setitem(Configuration.environments[Environment.SANDBOX], Server.DEFAULT, sims.paypal.url)
    credentials = ClientCredentialsAuthCredentials(o_auth_client_id="id-1", o_auth_client_secret="secret-1")
    official = PaypalServersdkClient(client_credentials_auth_credentials=credentials, environment=Environment.SANDBOX)
    ours = PayPal(client, client_id="id-1", client_secret="secret-1", base_url=sims.paypal.url)
    mine = await ours.create_order(
        key="k1",
        amount_minor=1200,
        currency="EUR",
        custom_id="order-1",
        return_url="http://127.0.0.1:9/ok",
        cancel_url="http://127.0.0.1:9/no",
    )
    request: Any = {"body": sims.paypal.received[1].json, "paypal_request_id": "k2"}
    made = await asyncio.to_thread(official.orders.create_order, request)
    token, created, other_token, also_created = sims.paypal.received
    assert token.headers["authorization"] == other_token.headers["authorization"]
    assert (created.path, created.json) == (also_created.path, also_created.json)
    assert (created.headers["paypal-request-id"], also_created.headers["paypal-request-id"]) == ("k1", "k2")
    assert made.body.status == detail_of(mine)["status"] == "PAYER_ACTION_REQUIRED"
    assert {link.rel for link in made.body.links} == {link["rel"] for link in detail_of(mine)["links"]}
    for order in (reference_of(mine), made.body.id):
        sims.paypal.approve(order)
    taken = await asyncio.to_thread(official.orders.capture_order, {"id": made.body.id, "paypal_request_id": "c2"})
    captured = detail_of(await ours.capture_order(reference_of(mine), key="c1"))
    assert taken.body.status == captured["status"] == "COMPLETED"
    capture = taken.body.purchase_units[0].payments.captures[0]
    assert (
        capture.amount.value == captured["purchase_units"][0]["payments"]["captures"][0]["amount"]["value"] == "12.00"
    )
    with pytest.raises(ErrorException) as refused:
        await asyncio.to_thread(official.orders.get_order, {"id": "UNKNOWN"})
    assert refused.value.response_code == 404
    without_source: Any = {"body": {"intent": "CAPTURE", "purchase_units": created.json["purchase_units"]}}
    plain = await asyncio.to_thread(official.orders.create_order, without_source)
    assert plain.body.status == "CREATED"
