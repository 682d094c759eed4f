"""Senders with ways of their own: certificates, published keys, fetched events, handshakes, vectors of their
libraries."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import hashlib
import hmac
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from onceward.inbox import answers
from onceward.webhooks.families.fetched_keys import APART_S, KEPT_S, FetchedKeys
from onceward.webhooks.provider import ConfigError, Rejected, Request, SourceConfig
from onceward.webhooks.registry import PROVIDERS
from tests.senders.recipes import BODIES, RECIPES
from tests.senders.signing import Delivery, mac, signed_by
from tests.senders.world import NOW, SENDERS, ours, secret_of, sender_named, source

VALIDATION = (
    b'[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","id":"1","data":{"validationCode":"512d38b6"}}]'
)


class Network:
    """The hosts of a test, by URL."""

    def __init__(self, pages: Mapping[str, bytes]) -> None:
        self.pages = pages
        self.asked: list[tuple[str, str, Mapping[str, str], bytes]] = []

    async def __call__(
        self, url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> bytes:
        self.asked.append((method, url, headers or {}, body or b""))
        if url not in self.pages:
            raise ConnectionError(url)
        return self.pages[url]


def unconfigured(name: str, **options: Any) -> SourceConfig:
    return replace(source(name), secrets=(), options={**source(name).options, **options})


def receive(config: SourceConfig, request: Request, network: Network) -> Request:
    provider = PROVIDERS[config.provider]
    prepared = asyncio.run(provider.prepare(config, request, network))
    provider.verify(config, prepared, NOW)
    return prepared


def post(body: bytes, **headers: str) -> Request:
    return Request("POST", "/webhooks/x", "", {"content-type": "application/json", **headers}, body)


# -- Amazon SNS


def certificate_of(pem: str) -> bytes:
    key = serialization.load_pem_private_key(pem.encode(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sns.amazonaws.com")])
    begin = dt.datetime(2025, 1, 1)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(begin).not_valid_after(begin + dt.timedelta(days=3650))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def sns_message(**changes: str) -> bytes:
    sent = json.loads(ours("aws_sns", "Notification").body) | changes
    delivery = Delivery(secret_of("aws_sns"), json.dumps(sent).encode(), NOW, "", "")
    return BODIES["aws_sns"](delivery)


def test_sns_fetches_the_certificate_once_and_only_from_aws() -> None:
    config = unconfigured("aws_sns")
    url = "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-1a2b3c.pem"
    network = Network({url: certificate_of(secret_of("aws_sns"))})
    receive(config, post(sns_message(SigningCertURL=url)), network)
    receive(config, post(sns_message(SigningCertURL=url, MessageId="another-id-1")), network)
    assert [each[1] for each in network.asked] == [url]
    for wrong in (
        "https://sns.eu-central-1.amazonaws.com.evil.example/x.pem",
        "http://sns.eu-central-1.amazonaws.com/x.pem",
        "https://sns.eu-central-1.amazonaws.com:8443/x.pem",
        "https://user@sns.eu-central-1.amazonaws.com/x.pem",
        "https://sns.eu-central-1.amazonaws.com/x.txt",
        "https://[",
    ):
        with pytest.raises(Rejected) as refused:
            receive(config, post(sns_message(SigningCertURL=wrong)), network)
        assert refused.value.reason == "untrusted_host"
    with pytest.raises(Rejected, match="topic"):
        receive(unconfigured("aws_sns", topic_arn="arn:aws:sns:x:1:other"), post(sns_message()), network)
    assert len(network.asked) == 1


def test_sns_confirms_a_subscription_only_if_aws_signed_it() -> None:
    config = source("aws_sns")
    confirm = "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&Token=t"
    names = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
    sent = json.loads(sns_message()) | {"Type": "SubscriptionConfirmation", "SubscribeURL": confirm, "Token": "t"}
    text = "".join(f"{name}\n{sent[name]}\n" for name in names)
    sent["Signature"] = signed_by(secret_of("aws_sns"), text.encode(), 256, "base64")
    network = Network({confirm: b"<ok/>"})
    request = receive(config, post(json.dumps(sent).encode()), network)
    assert [each[1] for each in network.asked] == [confirm]
    assert sender_named("aws_sns").challenge(config, request) is not None
    forged = sent | {"SubscribeURL": confirm + "2"}
    with pytest.raises(Rejected):
        receive(config, post(json.dumps(forged).encode()), network)
    assert len(network.asked) == 1


# -- published keys


def key_set(pem: str, kid: str) -> bytes:
    from jwt.algorithms import RSAAlgorithm

    key = serialization.load_pem_private_key(pem.encode(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return json.dumps({"keys": [json.loads(RSAAlgorithm.to_jwk(key.public_key())) | {"kid": kid}]}).encode()


def test_pubsub_checks_audience_and_account_with_googles_keys() -> None:
    import jwt

    network = Network({"https://www.googleapis.com/oauth2/v3/certs": key_set(secret_of("pubsub"), "k1")})
    body = ours("pubsub", "message").body
    right = {
        "iss": "https://accounts.google.com",
        "aud": "https://hooks.example.com",
        "email": "push@example.iam.gserviceaccount.com",
        "email_verified": True,
        "exp": int(NOW) + 60,
    }

    def request(claims: dict[str, Any], kid: str = "k1") -> Request:
        token = jwt.encode(claims, secret_of("pubsub"), algorithm="RS256", headers={"kid": kid})
        return post(body, authorization=f"Bearer {token}")

    config = unconfigured("pubsub")
    receive(config, request(right), network)
    for wrong in ({"aud": "x"}, {"email": "x@y"}, {"email_verified": False}, {"iss": "x"}, {"exp": int(NOW) - 90}):
        with pytest.raises(Rejected):
            receive(config, request(right | wrong), network)
    for n in range(5):
        with pytest.raises(Rejected, match="not published"):
            receive(config, request(right, f"unknown{n}"), network)
    assert len(network.asked) == 1, "unknown key ids must not become a flood of requests"


def test_keys_are_fetched_again_after_an_hour_and_survive_an_outage() -> None:
    clock, pages = [0.0], {"https://k": b"a"}
    network = Network(pages)
    keys = FetchedKeys(lambda text: {text.decode(): text}, clock=lambda: clock[0])

    async def need(key_id: str) -> None:
        await keys.need("https://k", key_id, network)

    asyncio.run(need("a"))
    asyncio.run(need("b"))
    assert len(network.asked) == 1
    clock[0] += APART_S
    pages["https://k"] = b"b"
    asyncio.run(need("b"))
    assert keys.get("https://k", "b") == (b"b",)
    clock[0] += KEPT_S + 1
    pages.clear()
    asyncio.run(need("b"))
    assert keys.get("https://k", "b") == (b"b",)
    with pytest.raises(Rejected) as refused:
        asyncio.run(need("c"))
    assert refused.value.reason == "certificate_unavailable"


def test_plaid_asks_for_a_key_with_the_account_of_the_source() -> None:
    import jwt
    from jwt.algorithms import ECAlgorithm

    key = serialization.load_pem_private_key(secret_of("plaid").encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    described = json.loads(ECAlgorithm.to_jwk(key.public_key())) | {"kid": "key-id-1", "expired_at": None}
    url = "https://production.plaid.com/webhook_verification_key/get"
    network = Network({url: json.dumps({"key": described}).encode()})
    body = ours("plaid", "ITEM.ERROR").body
    claims = {"iat": int(NOW), "request_body_sha256": hashlib.sha256(body).hexdigest()}

    def request(kid: str) -> Request:
        token = jwt.encode(claims, secret_of("plaid"), algorithm="ES256", headers={"kid": kid})
        return post(body, **{"plaid-verification": token})

    config = replace(source("plaid"), secrets=("api-secret",))
    receive(config, request("key-id-1"), network)
    receive(config, request("key-id-1"), network)
    [(method, _, _, sent)] = network.asked
    assert (method, json.loads(sent)["secret"], json.loads(sent)["key_id"]) == ("POST", "api-secret", "key-id-1")
    for n in range(20):
        with pytest.raises(Rejected):
            receive(config, request(f"unknown-{n:04}"), network)
    assert len(network.asked) <= 11, "unknown keys are asked for a few times a minute only"


def test_travis_publishes_its_key_in_a_document() -> None:
    key = serialization.load_pem_private_key(secret_of("travis_ci").encode(), None).public_key()
    pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    url = "https://api.travis-ci.com/config"
    network = Network({url: json.dumps({"config": {"notifications": {"webhook": {"public_key": pem}}}}).encode()})
    config, request = unconfigured("travis_ci"), ours("travis_ci", "passed")
    receive(config, request, network)
    for body in (request.body + b"&payload=%7B%7D", request.body + b"&x=1", b"x=1&" + request.body, b""):
        with pytest.raises(Rejected):
            receive(config, replace(request, body=body), network)
    assert len(network.asked) == 1


# -- fetch-back


def test_a_mollie_payment_is_fetched_and_its_change_is_the_event() -> None:
    sender = PROVIDERS["mollie_classic"]
    config = SourceConfig(provider="mollie_classic", secrets=(sender.sample_secret,))
    paid = json.dumps({"resource": "payment", "id": "tr_7UhSN1zuXS", "status": "paid"}).encode()
    network = Network({"https://api.mollie.com/v2/payments/tr_7UhSN1zuXS": paid})
    request = receive(config, post(b"id=tr_7UhSN1zuXS"), network)
    [item] = sender.parse(config, request)
    assert (item.type, item.ordering) == ("payment.paid", "tr_7UhSN1zuXS")
    assert network.asked[0][2]["Authorization"] == f"Bearer {sender.sample_secret}"
    for wrong in (b"id=../../v2/methods", b"id=tr_", b"", b"id=evil_12345678", b'{"id":"tr_7UhSN1zuXS"}'):
        with pytest.raises(Rejected):
            receive(config, post(wrong), network)
    with pytest.raises(Rejected, match="not been fetched"):
        sender.verify(config, post(paid), NOW)
    with pytest.raises(Rejected):
        receive(replace(config, secrets=()), post(b"id=tr_7UhSN1zuXS"), network)
    assert len(network.asked) == 1
    assert sender.encode(sender.sample("payment.paid")).startswith(b"id=tr_")


# -- handshakes


@pytest.mark.parametrize(
    ("name", "request_", "expected"),
    [
        ("asana", post(b"{}", **{"x-hook-secret": "s1"}), (b"", {"x-hook-secret": "s1"})),
        ("dropbox", Request("GET", "/", "challenge=abc", {}, b""), (b"abc", {})),
        ("websub", Request("GET", "/", "hub.mode=subscribe&hub.challenge=abc&hub.topic=t", {}, b""), (b"abc", {})),
        ("trello", Request("HEAD", "/", "", {}, b""), (b"", {})),
        (
            "okta",
            Request("GET", "/", "", {"x-okta-verification-challenge": "abc"}, b""),
            (b'{"verification":"abc"}', {}),
        ),
        ("msgraph", Request("POST", "/", "validationToken=a%20b", {}, b""), (b"a b", {})),
        ("woocommerce", post(b"webhook_id=12"), (b"", {})),
        ("discord", post(b'{"type": 1, "id": "1"}'), (b'{"type":1}', {})),
        (
            "cloudevents",
            Request("OPTIONS", "/", "", {"webhook-request-origin": "eventemitter.example.com"}, b""),
            (b"", {"webhook-allowed-origin": "eventemitter.example.com", "webhook-allowed-rate": "*"}),
        ),
        (
            "event_grid",
            post(VALIDATION),
            (b'{"validationResponse":"512d38b6"}', {}),
        ),
        (
            "twitch",
            post(b'{"challenge":"abc"}', **{"twitch-eventsub-message-type": "webhook_callback_verification"}),
            (b"abc", {}),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_handshake_is_answered(name: str, request_: Request, expected: tuple[bytes, dict[str, str]]) -> None:
    sender, config = sender_named(name), source(name)
    reply = sender.challenge(config, request_)
    assert reply is not None
    assert (reply.body, dict(reply.headers)) == expected
    assert sender.challenge(config, ours(name, next(iter(sender.samples)))) is None
    if reply.body:
        assert (b"x-content-type-options", b"nosniff") in answers.headers(answers.replied(reply))


def test_a_challenge_is_answered_with_its_hmac() -> None:
    config = replace(source("zoom"), secrets=("secret",))
    body = b'{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}'
    reply = sender_named("zoom").challenge(config, post(body))
    assert reply is not None
    expected = hmac.new(b"secret", b"qgg8vlvZRS6UYooatFL8Aw", hashlib.sha256).hexdigest()
    assert json.loads(reply.body) == {"plainToken": "qgg8vlvZRS6UYooatFL8Aw", "encryptedToken": expected}
    reply = sender_named("x").challenge(
        replace(source("x"), secrets=("secret",)), Request("GET", "/", "crc_token=challenge_string", {}, b"")
    )
    assert reply is not None
    raw = hmac.new(b"secret", b"challenge_string", hashlib.sha256).digest()
    assert json.loads(reply.body) == {"response_token": "sha256=" + base64.b64encode(raw).decode()}


def test_a_challenge_that_a_browser_could_run_or_without_the_token_is_refused() -> None:
    for name, query in (
        ("dropbox", "challenge=%00"),
        ("dropbox", "challenge=" + "a" * 600),
        ("meta", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=wrong"),
        ("meta", "hub.mode=x"),
    ):
        config = replace(source(name), options={"verify_token": "right"} if name == "meta" else {})
        with pytest.raises(Rejected):
            sender_named(name).challenge(config, Request("GET", "/", query, {}, b""))
    config = replace(source("meta"), options={"verify_token": "right"})
    query = "hub.mode=subscribe&hub.challenge=42&hub.verify_token=right"
    reply = sender_named("meta").challenge(config, Request("GET", "/", query, {}, b""))
    assert reply is not None
    assert reply.body == b"42"


def test_braintree_is_answered_as_its_library_answers() -> None:
    config = replace(source("braintree"), secrets=("integration_private_key",))
    challenge = "20f9f8ed05f77439fe955c977e4c8a53"
    reply = sender_named("braintree").challenge(config, Request("GET", "/", f"bt_challenge={challenge}", {}, b""))
    assert reply is not None
    assert reply.body == b"pk1|d9b899556c966b3f06945ec21311865d35df3ce4"
    with pytest.raises(Rejected):
        sender_named("braintree").challenge(config, Request("GET", "/", "bt_challenge=<script>", {}, b""))


def test_the_xml_of_braintree_keeps_its_types_and_declares_nothing() -> None:
    from onceward.integrations.braintree.sender import read_notification

    xml = '<notification><kind>check</kind><subject><a-b type="array"><i type="integer">4</i></a-b><n nil="true"/>'
    read = read_notification(
        base64.b64encode(f"{xml}<t type='boolean'>true</t></subject></notification>".encode()).decode()
    )
    assert read == {"kind": "check", "subject": {"a_b": [4], "n": None, "t": True}}
    bomb = '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
    for wrong in (bomb.encode(), bomb.encode("utf-16"), b"<a" * 9, b"<a>" * 60 + b"</a>" * 60, b"x", b"<a>text</a>"):
        with pytest.raises(Rejected):
            read_notification(base64.b64encode(wrong).decode())


def test_plivo_signs_the_query_sorted() -> None:
    config = replace(source("plivo_v2"), secrets=("my_auth_token",), public_url="https://answer.url")
    headers = {"x-plivo-signature-v2-nonce": "12345"}
    vector = headers | {"x-plivo-signature-v2": "ehV3IKhLysWBxC1sy8INm0qGoQYdYsHwuoKjsX7FsXc="}
    sender_named("plivo_v2").verify(config, Request("POST", "", "x=1", vector, b"Status=sent"), NOW)
    request = ours("plivo", "delivered")
    url = "https://hooks.example.com/webhooks/plivo?a=1&b=2."
    form = "".join(name + value for name, value in sorted(parse_qsl(request.body.decode())))
    nonce = request.headers["x-plivo-signature-v3-nonce"]
    made = mac(secret_of("plivo").encode(), f"{url}{form}.{nonce}".encode(), form="base64")
    for header in ("x-plivo-signature-v3", "x-plivo-signature-ma-v3"):
        headers = {"content-type": request.headers["content-type"], "x-plivo-signature-v3-nonce": nonce, header: made}
        sender_named("plivo").verify(source("plivo"), replace(request, query="b=2&a=1", headers=headers), NOW)


def test_a_notification_of_mercado_pago_names_the_signed_object() -> None:
    request = ours("mercado_pago", "payment.updated")
    other = request.body.replace(b"98765432101", b"98765432199")
    for wrong in (replace(request, body=other), replace(request, query="type=payment")):
        with pytest.raises(Rejected):
            sender_named("mercado_pago").verify(source("mercado_pago"), wrong, NOW)
    # A part that is absent is left out of the signed text; letters of an id are signed in lower case.
    made = mac(secret_of("mercado_pago").encode(), b"id:ord01;ts:1767268800;")
    signed = post(b'{"data":{"id":"ORD01"}}', **{"x-signature": f"ts=1767268800,v1={made}"})
    sender_named("mercado_pago").verify(source("mercado_pago"), replace(signed, query="data.id=ORD01"), NOW)


def test_contentful_signs_the_headers_that_it_lists() -> None:
    request, config = ours("contentful", "ContentManagement.Entry.publish"), source("contentful")
    names = ("x-contentful-signed-headers", "x-contentful-timestamp", "x-contentful-topic")
    headers = dict(request.headers) | {names[0]: ",".join(names)}
    lines = ";".join(f"{name}:{headers[name]}" for name in names)
    text = f"POST\n/webhooks/contentful?a%253D1%2526b%253D%25252F\n{lines}\n".encode() + request.body
    headers["x-contentful-signature"] = mac(secret_of("contentful").encode(), text)
    signed = replace(request, headers=headers, query="a=1&b=%2F")
    sender_named("contentful").verify(config, signed, NOW)
    with pytest.raises(Rejected):
        forged = headers | {"x-contentful-topic": "ContentManagement.Entry.delete"}
        sender_named("contentful").verify(config, replace(signed, headers=forged), NOW)


def test_cloudevents_in_headers_become_structured_events() -> None:
    sender, config = sender_named("cloudevents"), source("cloudevents")
    binary = post(b'{"seat":"A12"}', **{"ce-id": "1", "ce-source": "/s", "ce-type": "sold", "ce-specversion": "1.0"})
    [item] = sender.parse(config, binary)
    structured = {"id": "1", "source": "/s", "type": "sold", "specversion": "1.0", "data": {"seat": "A12"}}
    [same] = sender.parse(config, post(json.dumps(structured).encode()))
    assert (item.event_id, item.type, sender.data(item.payload)) == (same.event_id, "sold", {"seat": "A12"})
    batch = sender.parse(config, post(json.dumps([structured, structured | {"id": "2"}]).encode()))
    assert len({each.event_id for each in batch}) == 2


def test_every_item_of_a_batch_must_be_signed() -> None:
    for name, path in (("adyen", "notificationItems"), ("msgraph", "value")):
        sent = json.loads(ours(name, next(iter(sender_named(name).samples))).body)
        forged = json.loads(json.dumps(sent).replace(secret_of(name), "wrong").replace("1130", "9999"))
        both = sent | {path: [*sent[path], *forged[path]]}
        sender_named(name).verify(source(name), post(json.dumps(sent).encode()), NOW)
        with pytest.raises(Rejected):
            sender_named(name).verify(source(name), post(json.dumps(both).encode()), NOW)


# -- start-up


def test_a_process_imports_no_sender_before_a_source_uses_it() -> None:
    program = (
        "import sys, onceward, onceward.app, onceward.runtime\n"
        "from onceward.webhooks.registry import PROVIDERS\n"
        "from onceward.services.settings import integration_settings\n"
        "integration_settings()\n"
        "app = onceward.Onceward('a')\n"
        "@app.on('circleci', 'job-completed')\n"
        "async def handle(event: onceward.Event) -> None: ...\n"
        "assert len(PROVIDERS) > 100 and 'circleci' in PROVIDERS\n"
        "loaded = [each for each in sys.modules if each.startswith('onceward.integrations.') and "
        "each.endswith('.sender')]\n"
        "assert loaded == [], loaded\n"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr[-2000:]


def test_more_than_a_hundred_senders_are_known() -> None:
    assert len(PROVIDERS) > 150
    assert len(SENDERS) == len(RECIPES)


# -- addresses


def test_only_listed_addresses_are_accepted() -> None:
    config = replace(source("telegram"), options={"addresses": ["149.154.160.0/20", "2001:db8::7"]})
    assert config.addresses is not None
    accepted = ("149.154.160.1", "149.154.175.255", "2001:db8::7", "::ffff:149.154.161.9")
    refused = ("149.154.176.0", "2001:db8::8", "::ffff:10.0.0.1", "", "unix:", None)
    assert [each for each in (*accepted, *refused) if config.addresses.accepts(each)] == list(accepted)
    for wrong in ("149.154.160.1/20", "example.com", 7, [], ["10.0.0.1", None], ["10.0.0.1"] * 201):
        with pytest.raises(ConfigError, match="option addresses"):
            SourceConfig(provider="telegram", options={"addresses": wrong})
    assert source("telegram").addresses is None
