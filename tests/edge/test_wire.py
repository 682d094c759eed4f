"""Bytes that other servers have misread: each request is answered once or refused, and no body becomes a request."""

from __future__ import annotations

import time
from typing import Any

import asyncpg
import pytest

from tests.edge.conftest import Costs
from tests.edge.shipped import Shipped, event, request, signature

SECOND = request("GET", "/healthz")
"""A request that stands where a body should, or behind something wrong; if it is answered (200), it was run."""


def wait_for_read(server: Shipped) -> None:
    """Wait until the server has read what was sent before: it answers this later request."""
    assert server.is_well()


def in_pieces(server: Shipped, *pieces: bytes) -> list[Any]:
    with server.connect() as client:
        for piece in pieces:
            client.send(piece)
            wait_for_read(server)
        return [each.status for each in client.half_close().answers()]


# -- Upgrade -----------------------------------------------------------------------------------------------------------

OFFERS = {
    "h2c": ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQAAP__"),
    "other": ("connection: keep-alive, Upgrade", "upgrade: TLS/1.0"),
    "websocket": (
        "connection: Upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: YWFhYWFhYWFhYWFhYWFhYQ==",
    ),
    "several": ("connection: upgrade", "upgrade: websocket, h2c"),
}


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("cut", [False, True], ids=["in one piece", "body later"])
async def test_a_signed_webhook_with_an_upgrade_is_stored_once(
    server: Shipped, edge_url: str, offer: str, cut: bool
) -> None:
    name = f"evt_{offer}_{cut}_{time.time_ns()}"
    body = event(name)
    whole = request("POST", "/webhooks/stripe", signature(body), *OFFERS[offer], body=body)
    pieces = (whole[: -len(body)], body) if cut else (whole,)
    assert in_pieces(server, *pieces) == [200]
    conn = await asyncpg.connect(edge_url)
    stored = await conn.fetch("select raw from onceward.webhook_events where event_id = $1", name)
    await conn.close()
    assert [row["raw"] for row in stored] == [body]


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize(
    "path", ["/webhooks/stripe", "/webhooks/stripe?a=b", "/api/v1/publish", "/login", "/live/sse", "/nowhere"]
)
def test_a_body_after_an_upgrade_is_not_read_as_a_request(server: Shipped, offer: str, path: str) -> None:
    plain = in_pieces(server, request("POST", path, body=SECOND))
    upgrade = request("POST", path, *OFFERS[offer], body=SECOND)
    assert len(plain) == 1
    assert in_pieces(server, upgrade) == plain
    assert in_pieces(server, upgrade[: -len(SECOND)], SECOND) == plain
    assert in_pieces(server, upgrade[:40], upgrade[40 : -len(SECOND) + 5], upgrade[-len(SECOND) + 5 :]) == plain


@pytest.mark.parametrize("offer", OFFERS)
def test_a_chunked_body_after_an_upgrade_is_not_read_as_a_request(server: Shipped, offer: str) -> None:
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(SECOND), SECOND)
    head = request("POST", "/nowhere", *OFFERS[offer], "transfer-encoding: chunked")
    assert in_pieces(server, head + chunk) == [404]
    assert in_pieces(server, head, chunk) == [404]


def test_the_request_after_an_ignored_upgrade_is_answered(server: Shipped) -> None:
    first = request("POST", "/nowhere", *OFFERS["h2c"], body=b"abc")
    assert in_pieces(server, first + request("GET", "/healthz")) == [404, 200]
    assert in_pieces(server, first, request("GET", "/healthz")) == [404, 200]


def test_a_websocket_with_a_body_or_behind_an_open_answer_is_refused(server: Shipped) -> None:
    opening = OFFERS["websocket"]
    assert in_pieces(server, request("GET", "/live", *opening, body=SECOND)) == [400]
    assert in_pieces(server, request("GET", "/live", *opening, "transfer-encoding: chunked")) == [400]
    assert in_pieces(server, request("GET", "/api/v1/openapi.json") + request("GET", "/live", *opening)) == [200]


def test_a_websocket_is_not_opened_where_there_is_none(server: Shipped) -> None:
    assert in_pieces(server, request("GET", "/healthz", *OFFERS["websocket"])) == [403]
    assert in_pieces(server, b"CONNECT here:80 HTTP/1.1\r\nhost: here\r\n\r\n" + SECOND) == [501]


# -- framing -----------------------------------------------------------------------------------------------------------

POST = b"POST /nowhere HTTP/1.1\r\nhost: here\r\n"
HOSTILE = {
    "length and coding": POST + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding and length": POST + b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"content-length: 0\r\ncontent-length: 40\r\n\r\n",
    "two equal lengths": POST + b"content-length: 0\r\ncontent-length: 0\r\n\r\n",
    "a list of lengths": POST + b"content-length: 0, 0\r\n\r\n",
    "a signed length": POST + b"content-length: +0\r\n\r\n",
    "a negative length": POST + b"content-length: -1\r\n\r\n",
    "a hexadecimal length": POST + b"content-length: 0x0\r\n\r\n",
    "an overflowing length": POST + b"content-length: 99999999999999999999999\r\n\r\n",
    "an unknown coding": POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding before chunked": POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding after chunked": POST + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "two codings": POST + b"transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": b"POST /nowhere HTTP/1.0\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded header": POST + b"x-folded: a\r\n b\r\ncontent-length: 0\r\n\r\n",
    "a folded coding": POST + b"transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"content-length : 0\r\n\r\n",
    "a header without a name": POST + b": a\r\ncontent-length: 0\r\n\r\n",
    "a NUL in a header": POST + b"x-nul: a\0b\r\ncontent-length: 0\r\n\r\n",
    "a lone CR in a header": POST + b"x-cr: a\rcontent-length: 40\r\ncontent-length: 0\r\n\r\n",
    "lone LFs": b"POST /nowhere HTTP/1.1\nhost: here\ncontent-length: 0\n\n",
    "a negative chunk": POST + b"transfer-encoding: chunked\r\n\r\n-1\r\n\r\n0\r\n\r\n",
    "an overflowing chunk": POST + b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n\r\n0\r\n\r\n",
    "a chunk without its end": POST + b"transfer-encoding: chunked\r\n\r\n1\r\naa0\r\n\r\n",
    "a chunk extension with LF": POST + b"transfer-encoding: chunked\r\n\r\n0;a\n\r\n",
    "HTTP/2.0": b"GET /nowhere HTTP/2.0\r\nhost: here\r\n\r\n",
    "HTTP/0.9": b"GET /nowhere\r\n\r\n",
    "HTTP/9.9": b"GET /nowhere HTTP/9.9\r\nhost: here\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "a webhook without a host": b"POST /webhooks/stripe HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
    "a webhook with two hosts": b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\nhost: b\r\ncontent-length: 2\r\n\r\n{}",
    "two hosts": b"GET /nowhere HTTP/1.1\r\nhost: here\r\nhost: there\r\n\r\n",
    "a TLS greeting": bytes.fromhex("16030100c8010000c40303") + b"\0" * 200,
    "no URL": b"GET  HTTP/1.1\r\nhost: here\r\n\r\n",
    "a raw byte in the URL": b"GET /\xff HTTP/1.1\r\nhost: here\r\n\r\n",
    "nonsense": b"\x00\x01\x02nonsense\r\n\r\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_http_is_refused_and_what_follows_is_not_read(server: Shipped, name: str) -> None:
    hostile = HOSTILE[name]
    for pieces in ((hostile + SECOND,), (hostile, SECOND), (hostile[:-3], hostile[-3:] + SECOND)):
        with server.connect() as client:
            for piece in pieces:
                try:
                    client.send(piece)
                except ConnectionError:
                    break
                wait_for_read(server)
            statuses = [each.status for each in client.answers()]
        # A body may be wrong after the application has answered without reading it.
        assert len(statuses) == 1
        assert statuses[0] in (400, 501, 505, *((404,) if "chunk" in name else ()))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_good_request_followed_by_garbage_gets_its_answer(server: Shipped, name: str) -> None:
    good = request("GET", "/readyz")
    assert [each.status for each in server.ask(good + HOSTILE[name] + SECOND)][:1] == [200]
    body = event(f"evt_{name}")
    signed = request("POST", "/webhooks/stripe", signature(body), body=body)
    answers = server.ask(signed + HOSTILE[name] + SECOND)
    assert answers[0].status == 200
    assert all(each.status != 200 for each in answers[1:])


def test_nothing_is_read_after_a_request_that_says_close(server: Shipped) -> None:
    assert [each.status for each in server.ask(request("GET", "/healthz", "connection: close") + SECOND)] == [200]


def test_a_trailer_is_not_a_header(server: Shipped) -> None:
    body = event("evt_trailer")
    chunk = b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(body), body, signature(body).encode())
    head = request("POST", "/webhooks/stripe", "transfer-encoding: chunked")
    assert in_pieces(server, head + chunk) == [401]
    assert in_pieces(server, head, chunk) == [401]


# -- half-closed connections -------------------------------------------------------------------------------------------


def test_a_client_that_closes_its_sending_side_gets_its_answer(server: Shipped) -> None:
    body = event("evt_half_close")
    for whole, status in (
        (request("GET", "/healthz"), 200),
        (request("GET", "/readyz"), 200),
        (request("POST", "/webhooks/stripe", signature(body), body=body), 200),
        (request("POST", "/webhooks/stripe?a", signature(body), body=body), 200),
        (request("POST", "/api/v1/publish", body=b"{}"), 401),
    ):
        with server.connect() as client:
            assert [each.status for each in client.send(whole).half_close().answers()] == [status]


def test_a_request_that_ends_early_is_refused_and_one_before_it_answered(server: Shipped) -> None:
    half = request("POST", "/webhooks/stripe", body=b"abc")[:-1]
    with server.connect() as client:
        assert [each.status for each in client.send(half).half_close().answers()] == [400]
    with server.connect() as client:
        statuses = [each.status for each in client.send(request("GET", "/readyz") + half).half_close().answers()]
        assert statuses[0] == 200
        assert statuses[1:] in ([], [400])


def test_a_body_that_is_sent_on_after_its_answer_costs_no_memory(server: Shipped, costs: Costs) -> None:
    with costs("an endless body after 413") as cost, server.connect() as client:
        client.send(request("POST", "/api/v1/publish", f"content-length: {10**10}"))
        answer = client.answer()
        sent = 0
        try:
            while sent < 200 * 2**20:
                client.socket.sendall(b"a" * 2**20)
                sent += 2**20
        except ConnectionError:
            pass
    assert answer is not None
    cost.attacker_gets = f"{answer.status}, and {sent // 2**20} MB are read and dropped"
    assert answer.status == 413
    assert cost.memory_bytes < 16 * 2**20
