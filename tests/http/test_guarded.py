"""The guarded client against servers that lie, stall, redirect and flood, over real sockets."""

import asyncio
import gzip
import ssl
import time

import pytest

from onceward.http import AddressRefused, Ambiguous, GuardedClient, HostUnreachable, UrlRefused, check_url
from onceward.testing.simulators.authority import AuthoritySigner


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.split(b":")[1]))
    return head


def answering(raw: bytes, seen: list[bytes] | None = None):
    async def conversation(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        if seen is not None:
            seen.append(request)
        writer.write(raw)
        await writer.drain()

    return conversation


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\nX-A: 2\r\nConnection: close\r\n\r\nok"


async def test_a_call_is_answered_with_status_headers_and_body(listen) -> None:
    seen: list[bytes] = []
    port = await listen(answering(OK, seen))
    async with GuardedClient(allow_loopback_http=True) as client:
        response = await client.request(
            "POST", f"http://127.0.0.1:{port}/hook?a=1", headers={"X-Test": "yes"}, body=b'{"a":1}'
        )
    assert (response.status, response.body, response.truncated) == (200, b"ok", False)
    assert response.body_first_kb == b"ok"
    assert response.headers["x-a"] == "1, 2"
    assert response.elapsed_ms >= 0
    assert b"POST /hook?a=1 HTTP/1.1" in seen[0]
    assert b"X-Test: yes" in seen[0]
    assert b"Accept-Encoding: identity" in seen[0]
    assert seen[0].endswith(b'{"a":1}')


async def test_loopback_is_refused_at_the_moment_of_dialling(listen) -> None:
    seen: list[bytes] = []
    port = await listen(answering(OK, seen))
    async with GuardedClient() as client:
        with pytest.raises(AddressRefused, match="loopback"):
            await client.request("POST", f"https://127.0.0.1:{port}/", body=b"x")
        with pytest.raises(UrlRefused):
            await client.request("POST", f"http://127.0.0.1:{port}/", body=b"x")
    assert seen == []


async def test_a_name_that_moves_to_loopback_after_registration_is_not_dialled(listen, scripted) -> None:
    seen: list[bytes] = []
    port = await listen(answering(OK, seen))
    resolver = scripted(["93.184.216.34"], ["127.0.0.1"])
    url = f"https://rebind.example:{port}/"
    assert (await check_url(url, resolver=resolver)).addresses == ("93.184.216.34",)
    async with GuardedClient(resolver=resolver) as client:
        with pytest.raises(AddressRefused, match=r"rebind\.example: .*127\.0\.0\.1.*loopback"):
            await client.request("POST", url, body=b"x")
    assert seen == []
    assert resolver.asked == ["rebind.example", "rebind.example"]


@pytest.mark.parametrize(
    "inside", ["169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "0.0.0.0"]
)
async def test_a_name_that_leads_inside_is_not_dialled_even_beside_others(scripted, inside: str) -> None:
    async with GuardedClient(resolver=scripted([inside, "fec0::1"])) as client:
        with pytest.raises(AddressRefused):
            await client.request("GET", "https://inside.example/")


@pytest.mark.parametrize(
    "host", ["[::1]", "[::ffff:7f00:1]", "[fe80::1]", "169.254.169.254", "2130706433", "127.1", "0.0.0.0"]
)
async def test_an_ip_literal_is_vetted_though_no_resolver_is_asked(host: str) -> None:
    async with GuardedClient() as client:
        with pytest.raises((AddressRefused, UrlRefused)):
            await client.request("GET", f"https://{host}/")


async def test_plain_http_to_a_public_address_is_refused_in_development_too(scripted) -> None:
    async with GuardedClient(allow_loopback_http=True, resolver=scripted(["93.184.216.34"])) as client:
        with pytest.raises(AddressRefused, match="plain http"):
            await client.request("GET", "http://shop.example/")


async def test_redirects_are_answers_not_orders(listen) -> None:
    inside: list[bytes] = []
    other = await listen(answering(OK, inside))
    port = await listen(
        answering(f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{other}/\r\nContent-Length: 0\r\n\r\n".encode())
    )
    async with GuardedClient(allow_loopback_http=True) as client:
        response = await client.request("GET", f"http://127.0.0.1:{port}/")
    assert response.status == 302
    assert not response.ok
    assert inside == []


async def test_cookies_of_one_answer_are_not_sent_with_the_next(listen) -> None:
    seen: list[bytes] = []
    port = await listen(
        answering(
            b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            seen,
        )
    )
    async with GuardedClient(allow_loopback_http=True) as client:
        await client.request("GET", f"http://127.0.0.1:{port}/")
        await client.request("GET", f"http://127.0.0.1:{port}/")
    assert not any(b"cookie:" in request.lower() for request in seen)


async def test_proxies_of_the_environment_are_ignored(listen, monkeypatch, closed_port) -> None:
    port = await listen(answering(OK))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port}")
    async with GuardedClient(allow_loopback_http=True) as client:
        assert (await client.request("GET", f"http://127.0.0.1:{port}/")).status == 200


async def test_a_dripping_body_ends_with_the_time_and_keeps_the_status(listen) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.02)

    port = await listen(drip)
    async with GuardedClient(allow_loopback_http=True) as client:
        started = time.monotonic()
        response = await client.request("GET", f"http://127.0.0.1:{port}/", timeout_s=0.4)
    assert time.monotonic() - started < 2
    assert response.status == 200
    assert response.truncated
    assert set(response.body) == {ord(".")}


async def test_a_dripping_head_ends_ambiguous(listen) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(10_000):
            writer.write(b"X-%d: 1\r\n" % number if number < 30 else b"")
            await writer.drain()
            await asyncio.sleep(0.02)

    port = await listen(drip)
    async with GuardedClient(allow_loopback_http=True) as client:
        with pytest.raises(Ambiguous, match="no answer within"):
            await client.request("POST", f"http://127.0.0.1:{port}/", body=b"x", timeout_s=0.4)


async def test_a_gzip_bomb_stays_packed(listen) -> None:
    bomb = gzip.compress(b"\0" * 20_000_000)
    port = await listen(
        answering(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb)
    )
    async with GuardedClient(allow_loopback_http=True, max_response_bytes=1024) as client:
        response = await client.request("GET", f"http://127.0.0.1:{port}/")
    assert response.truncated
    assert response.body == bomb[:1024]


async def test_an_endless_body_is_cut_and_its_connection_not_used_again(listen) -> None:
    connections = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
            await writer.drain()

    port = await listen(flood)
    async with GuardedClient(allow_loopback_http=True, max_response_bytes=1000) as client:
        for _ in range(2):
            response = await client.request("GET", f"http://127.0.0.1:{port}/")
            assert (response.status, len(response.body), response.truncated) == (200, 1000, True)
    assert connections == 2


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(5000)) + b"\r\n",
        b"not http at all\r\n\r\n",
    ],
)
async def test_a_head_out_of_bounds_is_ambiguous_for_the_request_was_sent(listen, head: bytes) -> None:
    port = await listen(answering(head))
    async with GuardedClient(allow_loopback_http=True) as client:
        with pytest.raises(Ambiguous):
            await client.request("POST", f"http://127.0.0.1:{port}/", body=b"x")


async def test_nobody_listening_is_unreachable(closed_port) -> None:
    async with GuardedClient(allow_loopback_http=True) as client:
        with pytest.raises(HostUnreachable, match=f"127.0.0.1:{closed_port}"):
            await client.request("POST", f"http://127.0.0.1:{closed_port}/secret-path?token=t", body=b"x")


async def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    async with GuardedClient() as client:
        with pytest.raises(HostUnreachable, match="resolve"):
            await client.request("GET", "https://nothing.invalid/")


async def test_a_name_server_that_stalls_is_unreachable_within_the_time() -> None:
    class Stalling:
        async def addresses(self, host: str, port: int) -> list[str]:
            await asyncio.Event().wait()
            return []

        def close(self) -> None:
            return

    async with GuardedClient(resolver=Stalling()) as client:
        with pytest.raises(HostUnreachable, match="no connection within"):
            await client.request("GET", "https://slow.example/", timeout_s=0.2)


async def test_a_tls_handshake_that_fails_sent_nothing(listen) -> None:
    port = await listen(answering(OK))
    async with GuardedClient(allow_loopback_http=True) as client:
        with pytest.raises(HostUnreachable):
            await client.request("POST", f"https://127.0.0.1:{port}/", body=b"x", timeout_s=2)


@pytest.mark.parametrize(("host", "speaks"), [("hook.example", True), ("other.example", False)])
async def test_only_a_certificate_for_the_name_is_spoken_to(tmp_path, scripted, host: str, speaks: bool) -> None:
    signer = AuthoritySigner("hook.example")
    (tmp_path / "pem").write_text(signer.key_pem + signer.certificate_pem)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "pem")
    server = await asyncio.start_server(answering(OK), "127.0.0.1", 0, ssl=serving)
    url = f"https://{host}:{server.sockets[0].getsockname()[1]}/"
    trusting = ssl.create_default_context(cadata=signer.root_pem)
    async with GuardedClient(
        allow_loopback_http=True, resolver=scripted(["10.0.0.1", "127.0.0.1"]), ssl_context=trusting
    ) as client:
        if speaks:
            # The address that is refused comes first and does not stand in the way of the other.
            assert (await client.request("POST", url, body=b"x")).status == 200
        else:
            with pytest.raises(HostUnreachable, match="certificate"):
                await client.request("POST", url, body=b"x")
    server.close()


async def test_a_connection_cut_after_the_request_is_ambiguous(listen) -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    port = await listen(cut)
    async with GuardedClient(allow_loopback_http=True) as client:
        with pytest.raises(Ambiguous, match="broke"):
            await client.request("POST", f"http://127.0.0.1:{port}/", body=b"x")


async def test_silence_after_the_request_is_ambiguous(listen) -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    port = await listen(silence)
    async with GuardedClient(allow_loopback_http=True) as client:
        with pytest.raises(Ambiguous, match=r"no answer within 0\.2 s"):
            await client.request("POST", f"http://127.0.0.1:{port}/", body=b"x", timeout_s=0.2)


async def test_waiting_for_a_free_connection_counts_as_not_sent(listen) -> None:
    reached = asyncio.Event()

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await reader.read()

    port = await listen(silence)
    url = f"http://127.0.0.1:{port}/"
    async with GuardedClient(allow_loopback_http=True, concurrency=1) as client:
        first = asyncio.create_task(client.request("POST", url, body=b"1", timeout_s=1))
        await asyncio.wait_for(reached.wait(), 5)
        with pytest.raises(HostUnreachable):
            await client.request("POST", url, body=b"2", timeout_s=0.2)
        with pytest.raises(Ambiguous):
            await first


async def test_a_kept_connection_is_used_again_and_its_failures_are_ambiguous(listen) -> None:
    connections = 0

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        await read_request(reader)

    port = await listen(twice)
    async with GuardedClient(allow_loopback_http=True) as client:
        assert (await client.request("POST", f"http://127.0.0.1:{port}/", body=b"1")).status == 200
        with pytest.raises(Ambiguous):
            await client.request("POST", f"http://127.0.0.1:{port}/", body=b"2")
    assert connections == 1


async def test_a_second_answer_to_one_request_is_not_taken_for_that_to_the_next(listen) -> None:
    connections = 0

    async def talkative(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        right = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        writer.write(right + b"HTTP/1.1 299 Injected\r\nX-Injected: 1\r\nContent-Length: 9\r\n\r\nun")
        await writer.drain()
        await read_request(reader)

    port = await listen(talkative)
    async with GuardedClient(allow_loopback_http=True) as client:
        for _ in range(2):
            answer = await client.request("POST", f"http://127.0.0.1:{port}/", body=b"1", timeout_s=5)
            assert (answer.status, answer.body, "x-injected" in answer.headers) == (200, b"ok", False)
    assert connections == 2


async def test_every_request_has_its_own_deadline_whichever_began_first(listen) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    port = await listen(silent)
    async with GuardedClient(allow_loopback_http=True) as client:

        async def silence(timeout_s: float) -> float:
            began = time.monotonic()
            with pytest.raises(Ambiguous):
                await client.request("POST", f"http://127.0.0.1:{port}/", body=b"1", timeout_s=timeout_s)
            return time.monotonic() - began

        asked = (1.2, 0.3, 0.9, 0.3)
        took = await asyncio.gather(*(silence(timeout_s) for timeout_s in asked))
    for wanted, got in zip(asked, took, strict=True):
        assert wanted - 0.05 < got < wanted + 3
    assert took[1] < took[2] < took[0]


async def test_errors_and_responses_do_not_show_paths_queries_or_bodies(listen, closed_port) -> None:
    port = await listen(answering(OK.replace(b"ok", b"s3")))
    async with GuardedClient(allow_loopback_http=True) as client:
        with pytest.raises(HostUnreachable) as caught:
            await client.request("POST", f"http://127.0.0.1:{closed_port}/T0/B0/s3cret?token=t0ken", body=b"x")
        response = await client.request("POST", f"http://127.0.0.1:{port}/", body=b"x")
    assert "s3cret" not in str(caught.value)
    assert "t0ken" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "s3" not in repr(response)
