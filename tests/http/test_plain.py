"""The client for configured services: the same classes of failure, and answers only when they are whole."""

import asyncio

import pytest

from onceward.http import Ambiguous, HostUnreachable, ServiceClient, UrlRefused


def answering(raw: bytes):
    async def conversation(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        await writer.drain()

    return conversation


async def test_a_service_on_any_address_is_called(listen) -> None:
    port = await listen(answering(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"))
    async with ServiceClient() as client:
        response = await client.request("GET", f"http://127.0.0.1:{port}/v1")
    assert (response.status, response.body) == (201, b"{}")


async def test_an_answer_cut_short_is_ambiguous_and_keeps_its_status(listen) -> None:
    port = await listen(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n{"))
    async with ServiceClient() as client:
        with pytest.raises(Ambiguous, match="truncated") as caught:
            await client.request("GET", f"http://127.0.0.1:{port}/")
    assert caught.value.status == 200


async def test_an_answer_over_the_size_limit_is_ambiguous(listen) -> None:
    port = await listen(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + b"x" * 200))
    async with ServiceClient(max_response_bytes=100) as client:
        with pytest.raises(Ambiguous):
            await client.request("GET", f"http://127.0.0.1:{port}/")


async def test_nobody_listening_is_unreachable(closed_port) -> None:
    async with ServiceClient() as client:
        with pytest.raises(HostUnreachable):
            await client.request("GET", f"http://127.0.0.1:{closed_port}/")


async def test_a_base_url_without_scheme_is_refused() -> None:
    async with ServiceClient() as client:
        with pytest.raises(UrlRefused):
            await client.request("GET", "api.example.com/v1")
