"""Three PostgreSQL servers managed by Patroni, on this machine.

Patroni's own Raft is the store of the cluster, so nothing has to be installed. The three members have three Raft members: a
majority survives the loss of any one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from onceward.db.embedded.account import SystemAccount
from onceward.db.embedded.server import find_binaries
from tools.chaos.clocks import Clock
from tools.chaos.ports import free_ports

NAMES = ("alpha", "beta", "gamma")
DATABASE = "onceward"
USER = "postgres"
PASSWORD = "of-the-chaos-cluster"


@dataclass(slots=True)
class Member:
    """One server: a Patroni process and the PostgreSQL below it."""

    name: str
    folder: Path
    port: int
    api_port: int
    raft_port: int
    process: asyncio.subprocess.Process | None = None
    held: list[psutil.Process] = field(default_factory=list[psutil.Process])
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(self.folder / "clock")

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def processes(self) -> list[psutil.Process]:
        """Return Patroni and every process of PostgreSQL, Patroni first, so that it cannot restart what is killed."""
        found: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            if self.process is not None and self.process.returncode is None:
                patroni = psutil.Process(self.process.pid)
                found += [patroni, *patroni.children(recursive=True)]
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ValueError, IndexError):
            postmaster = psutil.Process(int((self.data / "postmaster.pid").read_text().splitlines()[0]))
            if postmaster.name().startswith("postgres"):
                found += [postmaster, *postmaster.children(recursive=True)]
        return list(dict.fromkeys(found))


class Cluster:
    """The members, and what an operator or an accident does to them."""

    def __init__(self, folder: Path, *, synchronous: bool = True) -> None:
        self.folder = folder
        self.synchronous = synchronous
        ports = iter(free_ports(3 * len(NAMES)))
        self.members = [Member(name, folder / name, next(ports), next(ports), next(ports)) for name in NAMES]
        self._account = SystemAccount.choose(folder, find_binaries())
        self._http: aiohttp.ClientSession | None = None

    @property
    def http(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5))
        return self._http

    async def start(self) -> None:
        """Start all members, and wait until there is a primary with a synchronous standby."""
        for member in self.members:
            self._write_configuration(member)
        await asyncio.gather(*(self.start_member(member) for member in self.members))
        await self.wait_until_healthy(timeout_s=180)

    async def stop(self) -> None:
        for member in self.members:
            await self.kill(member)
        if self._http is not None:
            await self._http.close()

    async def start_member(self, member: Member) -> None:
        log = (member.folder / "patroni.log").open("ab")
        self._account.own(member.folder / "patroni.log")
        member.process = await asyncio.create_subprocess_exec(
            *self._account.wrap([sys.executable, "-m", "patroni", str(member.folder / "patroni.json")]),
            stdout=log,
            stderr=log,
            cwd=member.folder,
            env={"PATH": f"{self._account.bin_dir}:/usr/bin:/bin", "HOME": str(member.folder), "LC_ALL": "C.UTF-8"},
            start_new_session=True,
            **self._account.identity(),
        )
        log.close()

    def _write_configuration(self, member: Member) -> None:
        (member.folder / "raft").mkdir(parents=True, exist_ok=True)
        (member.folder / "socket").mkdir(exist_ok=True)
        path = member.folder / "patroni.json"
        path.write_text(json.dumps(self._configuration(member), indent=1))
        (member.folder / "patroni.log").touch()
        self._write_postgres_command(member)
        for each in (member.folder, *member.folder.iterdir()):
            self._account.own(each)

    def _write_postgres_command(self, member: Member) -> None:
        """Write the command by which Patroni starts PostgreSQL. The clock of Patroni itself is not moved."""
        path = member.folder / "postgres"
        environ = " ".join(f"{name}={shlex.quote(value)}" for name, value in member.clock.environ.items())
        real = shlex.quote(str(self._account.bin_dir / "postgres"))
        path.write_text(f'#!/bin/sh\nexec env {environ} {real} "$@"\n')
        path.chmod(0o755)

    def _configuration(self, member: Member) -> dict[str, Any]:
        dcs = {
            "ttl": 20,
            "loop_wait": 2,
            "retry_timeout": 5,
            "maximum_lag_on_failover": 16 << 20,
            "primary_start_timeout": 0,
            "synchronous_mode": self.synchronous,
            "synchronous_mode_strict": self.synchronous,
            "synchronous_node_count": 1,
            "postgresql": {
                "use_pg_rewind": True,
                "use_slots": True,
                "parameters": {
                    "max_connections": 200,
                    "shared_buffers": "64MB",
                    "wal_log_hints": "on",
                    "wal_keep_size": "256MB",
                    "fsync": "off",  # processes are killed here, not machines
                    "hot_standby_feedback": "on",
                    "unix_socket_directories": str(member.folder / "socket"),
                    "log_min_error_statement": "panic",
                },
            },
        }
        others = [each for each in self.members if each is not member]
        return {
            "scope": "onceward",
            "name": member.name,
            "restapi": {
                "listen": f"127.0.0.1:{member.api_port}",
                "connect_address": f"127.0.0.1:{member.api_port}",
            },
            "raft": {
                "data_dir": str(member.folder / "raft"),
                "self_addr": f"127.0.0.1:{member.raft_port}",
                "partner_addrs": [f"127.0.0.1:{each.raft_port}" for each in others],
            },
            "bootstrap": {
                "dcs": dcs,
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums", "no-sync"],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{member.port}",
                "connect_address": f"127.0.0.1:{member.port}",
                "data_dir": str(member.data),
                "bin_dir": str(self._account.bin_dir),
                "bin_name": {"postgres": str(member.folder / "postgres")},
                "pgpass": str(member.folder / "pgpass"),
                "authentication": {
                    "superuser": {"username": USER, "password": PASSWORD},
                    "replication": {"username": "replicator", "password": PASSWORD},
                    "rewind": {"username": "rewinder", "password": PASSWORD},
                },
                "pg_hba": [
                    "local all all trust",
                    "host all all 127.0.0.1/32 md5",
                    "host replication replicator 127.0.0.1/32 md5",
                ],
                "parameters": {"unix_socket_directories": str(member.folder / "socket")},
            },
        }

    # -- its state -----------------------------------------------------------------------------------------

    async def view(self) -> list[dict[str, Any]]:
        """Return the members as Patroni sees them, from the first member that answers; empty if none does."""
        for member in self.members:
            try:
                async with self.http.get(f"http://127.0.0.1:{member.api_port}/cluster") as answer:
                    return (await answer.json())["members"]
            except (aiohttp.ClientError, TimeoutError, KeyError, ValueError):
                continue
        return []

    async def primary(self) -> Member | None:
        for seen in await self.view():
            if seen.get("role") == "leader" and seen.get("state") == "running":
                return next(member for member in self.members if member.name == seen["name"])
        return None

    async def wait_for_primary(self) -> Member:
        """Return the primary, once there is one."""
        async with asyncio.timeout(120):
            while (primary := await self.primary()) is None:
                await asyncio.sleep(0.5)
        return primary

    async def is_healthy(self) -> bool:
        """Return whether there is a primary, and all others stream from it, one of them synchronously."""
        seen = await self.view()
        roles = [each.get("role") for each in seen]
        streaming = sum(each.get("state") == "streaming" for each in seen)
        is_synchronous = "sync_standby" in roles or not self.synchronous
        return "leader" in roles and streaming == len(self.members) - 1 and is_synchronous

    async def wait_until_healthy(self, *, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while not await self.is_healthy():
                    await asyncio.sleep(0.5)
        except TimeoutError:
            raise RuntimeError(
                f"the cluster is not healthy after {timeout_s:.0f} s: {await self.view()}; logs are in {self.folder}"
            ) from None

    # -- what is done to it --------------------------------------------------------------------------------

    async def kill(self, member: Member) -> None:
        """Kill Patroni and PostgreSQL at once, as a loss of power does."""
        _signal(member.processes(), signal.SIGKILL)
        if member.process is not None:
            await member.process.wait()
        _signal(member.processes(), signal.SIGKILL)

    def kill_postgres(self, member: Member) -> None:
        """Kill PostgreSQL alone: Patroni notices it."""
        _signal([each for each in member.processes() if each.name().startswith("postgres")], signal.SIGKILL)

    def freeze(self, member: Member) -> None:
        member.held = member.processes()
        _signal(member.held, signal.SIGSTOP)

    def thaw(self, member: Member) -> None:
        _signal(reversed(member.held), signal.SIGCONT)
        member.held = []

    async def switch_over(self) -> bool:
        """Ask Patroni for a planned change of the primary. Returns whether it agreed."""
        primary = await self.wait_for_primary()
        url = f"http://127.0.0.1:{primary.api_port}/switchover"
        try:
            async with self.http.post(
                url, json={"leader": primary.name}, timeout=aiohttp.ClientTimeout(total=60)
            ) as answer:
                await answer.read()
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False


def _signal(processes: Iterator[psutil.Process] | list[psutil.Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            os.kill(process.pid, number)
