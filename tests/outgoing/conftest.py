"""Clients, and simulators that are started when a test asks for them."""

import socket
from collections.abc import AsyncIterator

import pytest

from onceward.http import GuardedClient, ServiceClient
from onceward.testing.simulators import Simulators


@pytest.fixture
async def client() -> AsyncIterator[ServiceClient]:
    async with ServiceClient(timeout_s=5) as client:
        yield client


@pytest.fixture
async def guarded() -> AsyncIterator[GuardedClient]:
    async with GuardedClient(allow_loopback_http=True, timeout_s=5) as client:
        yield client


@pytest.fixture
async def sims() -> AsyncIterator[Simulators]:
    async with Simulators() as sims:
        yield sims


@pytest.fixture
def closed_url() -> str:
    """A base URL at which nothing listens."""

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"
