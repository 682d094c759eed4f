"""One shipped server for all tests of the edge, with short time limits, and the table of what the attacks cost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from onceward.db import Database
from onceward.testing import TestDatabases
from onceward.trust import create_organization
from onceward.trust.identity import Scope
from onceward.trust.keys import create_key
from tests.edge.shipped import Shipped

LIMITS = {
    "http_head_timeout_s": 5,
    "http_body_timeout_s": 5,
    "http_idle_timeout_s": 5,
    "http_write_timeout_s": 3,
    "http_max_connections_per_address": 40,
}


@dataclass
class Cost:
    """What an attack costs the server: its highest memory, CPU time, and the descriptors that it still holds at the end."""

    server: Shipped
    attack: str
    memory_bytes: int = 0
    cpu_s: float = 0.0
    descriptors: int = 0
    attacker_gets: str = ""

    def __enter__(self) -> Cost:
        self.server.forget_peak()
        self._memory, self._cpu_s = self.server.peak_memory(), self.server.cpu_s()
        self.descriptors_before = self.server.descriptors()
        return self

    def __exit__(self, *_: object) -> None:
        self.memory_bytes = self.server.peak_memory() - self._memory
        self.cpu_s = self.server.cpu_s() - self._cpu_s
        self.descriptors = self.server.descriptors() - self.descriptors_before

    def __str__(self) -> str:
        size = f"{self.memory_bytes / 1e6:.1f} MB, {self.cpu_s:.2f} s of CPU, {self.descriptors:+d} descriptors"
        return f"{self.attack}: {size}; the attacker gets {self.attacker_gets}"


class Costs:
    """`with costs("name of the attack") as cost: ...`; every cost is printed at the end of the run."""

    def __init__(self, server: Shipped, node: Any) -> None:
        self._server = server
        self._node = node
        self._made: list[Cost] = []

    def __call__(self, attack: str) -> Cost:
        self._made.append(Cost(self._server, attack))
        return self._made[-1]

    def record(self) -> None:
        for cost in self._made:
            self._node.user_properties.append(("cost of an attack", str(cost)))


@pytest.fixture(scope="session")
def edge_url(databases: TestDatabases) -> Iterator[str]:
    url = databases.create()
    yield url
    databases.release(url)


@pytest.fixture(scope="session")
def _server(edge_url: str) -> Iterator[Shipped]:
    server = Shipped(edge_url, **LIMITS)
    yield server
    server.stop()


@pytest.fixture
def server(_server: Shipped) -> Iterator[Shipped]:
    """The server; no test may leave a traceback in its log, or keep it from serving others."""
    before = len(_server.tracebacks())
    yield _server
    assert _server.is_well()
    assert _server.tracebacks()[before:] == []


@pytest.fixture
def costs(server: Shipped, request: pytest.FixtureRequest) -> Iterator[Costs]:
    costs = Costs(server, request.node)
    yield costs
    costs.record()


@pytest.fixture(scope="session")
def owner_key(edge_url: str) -> str:
    """The header of an owner of an organization."""
    return asyncio.run(make_key(edge_url, "edge", "owner"))


@pytest.fixture(scope="session")
def admin_key(edge_url: str) -> str:
    """The header of an administrator who acts for no organization."""
    return asyncio.run(make_key(edge_url, None, "admin"))


async def make_key(url: str, slug: str | None, scope: Scope) -> str:
    db = await Database.open(url, min_size=1, max_size=2)
    async with db.transaction(role="engine") as tx:
        organization = None if slug is None else (await create_organization(tx, slug, actor="test")).organization_id
        made = await create_key(tx, name="edge", organization=organization, scopes=[scope], actor="test")
    await db.close()
    return f"authorization: Bearer {made.text}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    lines = [
        text
        for report in terminalreporter.stats.get("", [])
        for name, text in getattr(report, "user_properties", [])
        if name == "cost of an attack" and report.when == "teardown"
    ]
    if lines:
        terminalreporter.section("what the attacks cost")
        for line in lines:
            terminalreporter.line(line)
