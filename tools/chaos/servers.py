"""One PostgreSQL instead of a cluster, for the short run: it can only crash and recover."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg

from onceward.db.embedded import EmbeddedPostgres
from tools.chaos.cluster import DATABASE, PASSWORD, USER, Cluster
from tools.chaos.proxy import Target


class Single:
    """The embedded server of a folder."""

    def __init__(self, folder: Path) -> None:
        self._postgres = EmbeddedPostgres(folder / "single", fsync=False)
        self._url = ""

    async def start(self) -> None:
        self._url = await asyncio.to_thread(self._postgres.start)
        conn = await asyncpg.connect(self._url)
        await conn.execute("alter system set synchronous_commit = 'on'")  # else a crash may lose commits
        await conn.execute("select pg_reload_conf()")
        await conn.close()

    async def stop(self) -> None:
        await asyncio.to_thread(self._postgres.stop)

    @property
    def targets(self) -> dict[str, Target]:
        directory = parse_qs(urlsplit(self._url).query)["host"][0]
        return {"single": Target(path=Path(directory) / ".s.PGSQL.5432")}

    def url(self, ports: list[int]) -> str:
        return f"postgresql://{USER}@127.0.0.1:{ports[0]}/{DATABASE}?sslmode=disable"

    def crash(self) -> None:
        """Kill one server process. The postmaster then ends all sessions and recovers from the log, as after a power loss."""
        postmaster = int((self._postgres.cluster / "postmaster.pid").read_text().splitlines()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)

    async def wait_until_healthy(self, *, timeout_s: float) -> None:
        """The postmaster restarts by itself; the nodes wait for it."""


class Existing:
    """A database on a server that others use too: the test server of `make test`. Nothing is done to the server itself."""

    def __init__(self, database_url: str) -> None:
        self._parts = urlsplit(database_url)

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    @property
    def targets(self) -> dict[str, Target]:
        query = parse_qs(self._parts.query)
        if "host" in query:
            return {"existing": Target(path=Path(query["host"][0]) / f".s.PGSQL.{query.get('port', ['5432'])[0]}")}
        return {"existing": Target(port=self._parts.port or 5432)}

    def url(self, ports: list[int]) -> str:
        account = self._parts.netloc.rpartition("@")[0]
        return f"postgresql://{account}@127.0.0.1:{ports[0]}{self._parts.path}?sslmode=disable"

    async def wait_until_healthy(self, *, timeout_s: float) -> None: ...


class Replicated:
    """The Patroni cluster, seen as something that has an address."""

    def __init__(self, folder: Path, *, synchronous: bool) -> None:
        self.cluster = Cluster(folder, synchronous=synchronous)

    async def start(self) -> None:
        await self.cluster.start()

    async def stop(self) -> None:
        await self.cluster.stop()

    @property
    def targets(self) -> dict[str, Target]:
        return {member.name: Target(port=member.port) for member in self.cluster.members}

    def url(self, ports: list[int]) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        query = "sslmode=disable&target_session_attrs=read-write"
        return f"postgresql://{USER}:{PASSWORD}@{hosts}/{DATABASE}?{query}"

    async def wait_until_healthy(self, *, timeout_s: float) -> None:
        await self.cluster.wait_until_healthy(timeout_s=timeout_s)
