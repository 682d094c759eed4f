"""Filters, transformations, OAuth, client certificates, the event of a failed delivery, and routes of inbound sources."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from onceward.outbox import Invalid, resends
from onceward.testing import until
from onceward.testing.simulators import CustomerEndpoint

from .conftest import ACTOR, OutboxBench

Make = Callable[..., Awaitable[OutboxBench]]


async def test_a_filtered_event_is_skipped_and_counts_neither_as_success_nor_as_attempt(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    made = await bench.register(customer.hook_url, filter="data.amount > `1000`")
    await bench.start_worker()
    small, large = await bench.publish(data={"amount": 5}), await bench.publish(data={"amount": 5000})
    skipped, sent = await bench.settled(small.id), await bench.settled(large.id)
    assert (skipped["status"], skipped["attempts"], sent["status"]) == ("skipped", 0, "success")
    assert [one.json["data"]["amount"] for one in customer.accepted] == [5000]
    await bench.db.execute("update onceward.endpoint_statistics_mark set counted_until = '2020-01-01'")
    await bench.outbox.count_attempts()
    shown = await bench.outbox.endpoints.get(None, made.endpoint.endpoint_id)
    assert (shown.succeeded, shown.failed) == (1, 0)


async def test_the_result_of_a_transformation_is_signed_and_a_resend_uses_the_one_of_today(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    made = await bench.register(customer.hook_url, transform="{text: data.name}")
    customer.secret = made.secret
    await bench.start_worker()
    published = await bench.publish(data={"name": "Ann"})
    row = await bench.settled(published.id)
    assert [one.json for one in customer.accepted] == [{"text": "Ann"}]
    await bench.outbox.endpoints.change(
        None, made.endpoint.endpoint_id, {"transform": "{hello: data.name}"}, actor=ACTOR
    )
    await bench.outbox.endpoints.rotate_secret(None, made.endpoint.endpoint_id, actor=ACTOR, overlap=timedelta(0))
    assert customer.rejected == []
    customer.secret = None
    await resends.resend_one(bench.db, None, row["id"], actor=ACTOR)
    await until(lambda: _holds(len(customer.accepted) == 2))
    assert customer.accepted[1].json == {"hello": "Ann"}
    assert customer.accepted[1].id == customer.accepted[0].id, "a resend is the same event"


async def test_an_expression_that_does_not_fit_is_a_failed_attempt_that_names_it(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    await bench.register(customer.hook_url, transform="data.nothing", retry_waits_s=[])
    await bench.start_worker()
    row = await bench.settled((await bench.publish()).id)
    assert row["status"] == "failed"
    assert "the transformation gives null for this event" in row["error"]
    assert customer.accepted == []


async def test_wrong_options_name_their_field(bench: OutboxBench, customer: CustomerEndpoint) -> None:
    oauth = {"kind": "oauth", "token_url": customer.url, "client_id": "a", "client_secret": "b"}
    wrong: dict[str, dict[str, Any]] = {
        "filter": {"filter": "a["},
        "transform": {"transform": ""},
        "auth.kind": {"auth": {"kind": "basic"}},
        "auth.client_secret": {"auth": {**oauth, "client_secret": ""}},
        "auth.colour": {"auth": {**oauth, "colour": "red"}},
        "auth.token_url": {"auth": {**oauth, "token_url": "https://10.0.0.1/token"}},
        "auth.certificate": {"auth": {"kind": "mutual_tls", "certificate": "x", "private_key": "y"}},
        "headers": {"auth": oauth, "headers": {"authorization": "Basic x"}},
        "source": {"source": "nobody"},
    }
    for field, options in wrong.items():
        with pytest.raises(Invalid) as refused:
            await bench.register(customer.hook_url, **options)
        assert refused.value.field == field


async def test_an_oauth_token_is_fetched_once_and_again_when_it_is_refused(bench: OutboxBench) -> None:
    seen: list[str] = []
    fetched: list[str] = []
    valid = "token-1"

    async def token(request: web.Request) -> web.Response:
        form = await request.post()
        assert request.headers["Authorization"] == "Basic Y2xpZW50OnMlM0FjcmV0"  # client:s%3Acret
        assert (form["grant_type"], form["scope"]) == ("client_credentials", "hooks")
        fetched.append(valid)
        return web.json_response({"access_token": valid, "expires_in": 3600})

    async def hook(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response(status=200 if seen[-1] == f"Bearer {valid}" else 401)

    app = web.Application()
    app.add_routes([web.post("/token", token), web.post("/hook", hook)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    auth = {
        "kind": "oauth",
        "token_url": f"{url}/token",
        "client_id": "client",
        "client_secret": "s:cret",
        "scope": "hooks",
    }
    try:
        made = await bench.register(f"{url}/hook", auth=auth)
        assert made.endpoint.auth_kind == "oauth"
        await bench.start_worker()
        sent = [await bench.publish() for _ in range(4)]
        assert [(await bench.settled(each.id))["status"] for each in sent] == ["success"] * 4
        assert fetched == ["token-1"], "deliveries share the token"
        valid = "token-2"
        again = await bench.publish()
        await until(lambda: _holds("Bearer token-1" in seen[4:]))
        await asyncio.sleep(0.05)
        await bench.make_due()
        assert (await bench.settled(again.id))["status"] == "success"
        assert fetched == ["token-1", "token-2"]
        stored = await bench.db.fetchval("select auth from onceward.endpoints")
        audit = await bench.db.fetchval("select string_agg(a::text, ' ') from audit.audit_logs a")
        assert b"cret" not in stored
        assert "s:cret" not in audit
    finally:
        await runner.cleanup()


async def test_a_client_certificate_is_presented_and_no_connection_is_shared_with_others(
    make_bench: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca_key, ca = _certificate("ca")
    server_key, server = _certificate("127.0.0.1", ca, ca_key)
    client_key, client = _certificate("onceward", ca, ca_key)
    (tmp_path / "ca.pem").write_text(_pem(ca))
    (tmp_path / "server.pem").write_text(_pem(server) + _key_pem(server_key))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.pem"))
    context.load_cert_chain(tmp_path / "server.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    subjects: list[str | None] = []

    async def hook(request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert") or {}
        names = [value for each in peer.get("subject", ()) for name, value in each if name == "commonName"]
        subjects.append(names[0] if names else None)
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", hook)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}/hook"
    bench = await make_bench()
    try:
        await bench.register(url)
        auth = {"kind": "mutual_tls", "certificate": _pem(client), "private_key": _key_pem(client_key)}
        other = {**auth, "private_key": _key_pem(server_key)}
        with pytest.raises(Invalid, match="does not belong to the certificate"):
            await bench.register(url, auth=other)
        await bench.register(url, auth=auth)
        await bench.start_worker()
        for _ in range(2):
            published = await bench.publish()
            await until(lambda id=published.id: _delivered(bench, id, 2))
        assert sorted(map(str, subjects)) == ["None", "None", "onceward", "onceward"]
    finally:
        await runner.cleanup()


async def test_a_delivery_that_has_failed_for_good_is_reported_once_to_endpoints_that_ask_for_it(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    broken = await bench.register("http://127.0.0.1:65001/hook", events=["order.*"], retry_waits_s=[])
    await bench.register(f"{customer.hook_url}/all", events=["*"])
    await bench.register(customer.hook_url, events=["message.attempt.exhausted"])
    also_broken = await bench.register(
        "http://127.0.0.1:65001/operations", events=["message.attempt.exhausted"], retry_waits_s=[]
    )
    await bench.start_worker()
    published = await bench.publish()

    async def reported() -> bool:
        rows = await bench.db.fetch("select status from onceward.deliveries where type = 'message.attempt.exhausted'")
        return sorted(row["status"] for row in rows) == ["failed", "success"]

    await until(reported)
    [event] = [one.json for one in customer.accepted if one.json["type"] == "message.attempt.exhausted"]
    assert event["data"]["endpointId"] == str(broken.endpoint.endpoint_id)
    assert (event["data"]["messageId"], event["data"]["type"], event["data"]["attempts"]) == (
        published.message_id,
        "order.paid",
        1,
    )
    assert also_broken.endpoint.active
    count = "select count(*) from onceward.published where type = 'message.attempt.exhausted'"
    assert await bench.db.fetchval(count) == 1, "an event about a delivery is not reported itself"


def _certificate(name: str, issuer: Any = None, issuer_key: Any = None) -> tuple[Any, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if name[0].isdigit():
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(name))])
        builder = builder.add_extension(names, critical=False)
    return key, builder.sign(issuer_key or key, hashes.SHA256())


def _pem(certificate: Any) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: Any) -> str:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


async def _delivered(bench: OutboxBench, published: int, number: int) -> bool:
    count = "select count(*) from onceward.deliveries where caused_by = $1 and status = 'success'"
    return await bench.db.fetchval(count, published) == number


async def _holds(value: bool) -> bool:
    return value
