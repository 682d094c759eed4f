"""Clients without a credential that send too much, too slowly, or too often. Each test says what the attack costs."""

from __future__ import annotations

import base64
import os
import socket
import struct

import pytest

from tests.edge.conftest import Costs
from tests.edge.shipped import Client, Shipped, request

MB = 1024 * 1024


def flood(client: Client, piece: bytes, most: int) -> int:
    """Send until the server ends the connection; returns how many bytes went out."""
    sent = 0
    try:
        while sent < most:
            client.socket.sendall(piece)
            sent += len(piece)
    except (ConnectionError, TimeoutError):
        pass
    return sent


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET /healthz HTTP/1.1\r\nhost: here\r\n", b"x-padding: " + b"a" * 1000 + b"\r\n"),
        (b"GET /healthz HTTP/1.1\r\nhost: here\r\nx-padding: ", b"a" * 1000),
        (b"", b"\r\n" * 500),
        (
            b"POST /healthz HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
            b"x-trailer: a\r\n" * 90,
        ),
        (b"POST /healthz HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n1;", b"a" * 1000),
    ],
    ids=["header lines", "one header line", "empty lines", "trailers", "a chunk extension"],
)
def test_what_never_ends_is_cut_off(server: Shipped, costs: Costs, start: bytes, piece: bytes) -> None:
    with costs(f"64 MB of {piece[:12]!r} without end") as cost, server.connect() as client:
        client.send(start)
        sent = flood(client, piece * 64, 64 * MB)
        answers = client.answers()
    cost.attacker_gets = f"{[each.status for each in answers]} after {sent / MB:.1f} MB"
    assert sent < 64 * MB
    assert cost.memory_bytes < 16 * MB


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.200"], ids=["a client", "a proxy"])
def test_a_large_head_is_answered_431_and_a_long_url_414(server: Shipped, source: str) -> None:
    large = request("GET", "/healthz", *(f"x-{number}: {'a' * 900}" for number in range(40)))
    many = request("GET", "/healthz", *(f"x-{number}: a" for number in range(101)))
    long = request("GET", "/healthz?" + "a" * 9000)
    for wrong, status in ((large, 431), (many, 431), (long, 414)):
        assert [each.status for each in server.ask(wrong, source)] == [status]


def test_a_head_below_the_limits_is_served(server: Shipped) -> None:
    headers = [f"x-{number}: {'a' * 300}" for number in range(90)]
    assert server.get("/healthz?" + "a" * 4000, *headers).status == 200


def test_the_head_of_a_second_request_is_counted_by_itself(server: Shipped) -> None:
    whole = request("GET", "/healthz", *(f"x-{number}: {'a' * 900}" for number in range(30)))
    with server.connect() as client:
        for _ in range(3):
            client.send(whole[:20_000])
            client.send(whole[20_000:])
            answer = client.answer()
            assert answer is not None
            assert answer.status == 200


JSON = b"content-type: application/json\r\n"
FORM = b"content-type: application/x-www-form-urlencoded\r\ncookie: onceward_session=x\r\n"
LENGTH = b"host: here\r\ncontent-length: 100\r\n\r\n"
STOPPED: list[tuple[bytes, int | None]] = [
    (b"", None),
    (b"GET /hea", 408),
    (b"GET /healthz HTTP/1.1\r\nhost: he", 408),
    (b"POST /api/v1/publish HTTP/1.1\r\n" + JSON + LENGTH + b"{", 408),
    (b"POST /api/v1/ticketing/public/checkouts HTTP/1.1\r\n" + JSON + LENGTH, 408),
    (b"POST /login HTTP/1.1\r\n" + FORM + LENGTH + b"a=", 408),
    (b"POST /live/sse HTTP/1.1\r\n" + LENGTH + b"{", 408),
    (b"POST /healthz HTTP/1.1\r\n" + LENGTH, 405),
    (b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n", 200),
]
"""What a client sends before it falls silent, and what it is answered before the connection is closed."""


def test_a_connection_that_waits_for_its_client_is_closed(server: Shipped, costs: Costs) -> None:
    with costs(f"{len(STOPPED)} clients that stop in the middle") as cost:
        clients = [server.connect("127.0.0.2").send(sent) for sent, _ in STOPPED]
        statuses = [[each.status for each in client.answers()] for client in clients]
        server.until(lambda: server.descriptors() <= cost.descriptors_before, "the descriptors were not given back")
    cost.attacker_gets = f"{statuses}, and the end"
    assert statuses == [[] if status is None else [status] for _, status in STOPPED]
    for client in clients:
        client.close()


def test_a_body_that_dribbles_in_is_cut_off(server: Shipped) -> None:
    with server.connect() as client:
        client.send(b"POST /api/v1/publish HTTP/1.1\r\nhost: here\r\ncontent-length: 1000000\r\n\r\n")
        client.socket.settimeout(0.1)
        sent = 0
        while True:
            try:
                client.send(b" ")
                sent += 1
                if not client.read_more():
                    break
            except TimeoutError:
                assert sent < 600
            except ConnectionError:
                break
            else:
                break
        client.socket.settimeout(60)
        answer = client.answer()
    assert answer is not None
    assert answer.status == 408


def test_a_client_that_does_not_read_its_answers_is_cut_off(server: Shipped, costs: Costs) -> None:
    asking = request("GET", "/api/v1/openapi.json")
    with costs("a client that asks and does not read") as cost, server.connect() as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sent = flood(client, asking * 8, 8 * MB)
        server.until(lambda: server.descriptors() <= cost.descriptors_before, "the descriptor was not given back")
    cost.attacker_gets = f"a reset after {sent / 1024:.0f} KiB of requests"
    assert cost.memory_bytes < 32 * MB


def test_pipelined_requests_are_few(server: Shipped, costs: Costs) -> None:
    with costs("10,000 requests in one segment") as cost:
        answers = server.ask(request("GET", "/healthz") * 10_000)
    cost.attacker_gets = f"{len(answers)} answers"
    assert 1 <= len(answers) <= 66
    assert cost.memory_bytes < 16 * MB


# -- connections -------------------------------------------------------------------------------------------------------


def test_one_address_has_a_limit_of_connections_and_others_are_served(server: Shipped, costs: Costs) -> None:
    clients: list[Client] = []
    with costs("60 connections from one address") as cost:
        clients = [server.connect("127.0.0.3") for _ in range(60)]
        answers = [client.answer() for client in clients if not client.is_open() or client in clients[40:]]
        assert server.is_well()
    statuses = [each.status for each in answers if each is not None]
    cost.attacker_gets = f"40 connections, and {len(statuses)} times 429"
    assert set(statuses) == {429}
    for client in clients:
        client.close()


def test_a_trusted_proxy_has_as_many_connections_as_it_needs(server: Shipped) -> None:
    clients = [server.connect("127.0.0.200").send(request("GET", "/healthz")) for _ in range(60)]
    answers = [client.answer() for client in clients]
    assert [each and each.status for each in answers] == [200] * 60
    for client in clients:
        client.close()


def test_descriptors_are_kept_in_reserve_and_a_warning_is_logged(edge_url: str) -> None:
    server = Shipped(edge_url, descriptors=400, http_head_timeout_s=30, http_max_connections_per_address=1000)
    clients: list[Client] = []
    try:
        for number in range(355):
            clients.append(server.connect(f"127.0.1.{number % 20 + 1}"))
        server.until(lambda: server.logged("web.connections_nearly_exhausted"), "no warning before the limit")
        server.until(lambda: sum(not client.is_open() for client in clients) >= 140, "the reserve was used up")
        answers = [client.answer() for client in clients if not client.is_open()]
        assert {answer.status for answer in answers if answer is not None} == {503}
        server.until(lambda: server.logged("web.clients_refused"), "the log does not say that clients were refused")
        # Silent connections are closed early once it is crowded, so that others are served again.
        server.until(server.is_well, "nobody is served any more")
        assert server.tracebacks() == []
    finally:
        for client in clients:
            client.close()
        server.stop()


# -- WebSockets --------------------------------------------------------------------------------------------------------


def handshake(*headers: str) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return request(
        "GET",
        "/live",
        "connection: Upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        f"sec-websocket-key: {key}",
        *headers,
    )


def frame(opcode: int, payload: bytes = b"") -> bytes:
    mask = b"\1\2\3\4"
    masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
    return struct.pack("!BB", 0x80 | opcode, 0x80 | len(payload)) + mask + masked


def closed_with(client: Client) -> int | None:
    """The code that the server closes with; pongs before it are skipped."""
    while True:
        while len(client.unread) >= 2:
            opcode, size = client.unread[0] & 0x0F, client.unread[1] & 0x7F
            if len(client.unread) < 2 + size:
                break
            payload, client.unread = client.unread[2 : 2 + size], client.unread[2 + size :]
            if opcode == 8:
                return struct.unpack("!H", payload[:2])[0]
        if not client.read_more():
            return None


@pytest.mark.parametrize(
    "piece", [frame(9, b"a"), frame(10), frame(1, b"{"), frame(0)], ids=["pings", "pongs", "texts", "continuations"]
)
def test_frames_before_hello_are_few(server: Shipped, costs: Costs, piece: bytes) -> None:
    with costs(f"1,000,000 frames of opcode {piece[0] & 15}") as cost, server.connect("127.0.0.4") as client:
        opened = client.send(handshake()).answer()
        assert opened is not None
        assert opened.status == 101
        sent = flood(client, piece * 1000, len(piece) * 1_000_000)
        code = closed_with(client)
    cost.attacker_gets = f"code {code} after at most {sent // len(piece)} frames were sent"
    assert sent < len(piece) * 1_000_000
    assert code in (4429, 4400, 1002, None)
    assert cost.memory_bytes < 8 * MB


def test_pings_above_the_budget_are_closed_with_a_code(server: Shipped) -> None:
    with server.connect("127.0.0.5") as client:
        client.send(handshake()).answer()
        client.send(frame(9, b"a") * 600)
        assert closed_with(client) == 4429


def test_an_address_that_has_used_up_its_frames_opens_no_websocket(server: Shipped) -> None:
    statuses: list[int] = []
    for _ in range(40):
        with server.connect("127.0.0.6") as client:
            answer = client.send(handshake()).answer()
            assert answer is not None
            statuses.append(answer.status)
            if answer.status != 101:
                break
            flood(client, frame(9, b"a") * 600, 600 * 7)
            closed_with(client)
    assert statuses[-1] == 429
    with server.connect("127.0.0.7") as client:
        answer = client.send(handshake()).answer()
        assert answer is not None
        assert answer.status == 101


def test_behind_a_proxy_the_forwarded_address_has_the_budget(server: Shipped) -> None:
    statuses: list[int] = []
    for _ in range(40):
        with server.connect("127.0.0.200") as client:
            answer = client.send(handshake("x-forwarded-for: 203.0.113.5")).answer()
            assert answer is not None
            statuses.append(answer.status)
            if answer.status != 101:
                break
            flood(client, frame(9, b"a") * 600, 600 * 7)
            closed_with(client)
    assert statuses[-1] == 429
    with server.connect("127.0.0.200") as client:
        answer = client.send(handshake("x-forwarded-for: 203.0.113.6")).answer()
        assert answer is not None
        assert answer.status == 101
