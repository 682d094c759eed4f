"""Nothing leaves a rehearsal, whatever thread, pool or process a handler uses; a simulator is all that answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.testing

from onceward import Engine
from onceward.cli.commands import build
from onceward.db import Database
from onceward.outside import OutsideCall, OutsideRefused
from onceward.rehearsal.outside_calls import RefusedCalls
from onceward.rehearsal.rehearser import Rehearser
from onceward.rehearsal.simulator_addresses import SimulatorAddresses
from onceward.runtime import FEATURES
from tests.rehearsal import leaks
from tests.rehearsal.test_rehearser import rehearse

ENQUEUE = "select onceward.enqueue($1, $2::jsonb)"


class Sentinel:
    """A server that answers every request and counts the connections that it got."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            with client:
                client.recv(65536)
                client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")


@pytest.fixture
def sentinel() -> Iterator[Sentinel]:
    server = Sentinel()
    yield server
    server.socket.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_no_thread_pool_or_process_of_a_handler_reaches_anybody(db: Database, sentinel: Sentinel) -> None:
    engine = Engine(db, leaks.app.registry)
    ids = [await db.fetchval(ENQUEUE, "leak", {"way": way, "port": sentinel.port}) for way in leaks.WAYS]

    shown = await rehearse(engine, *ids)

    verdicts = {
        way: (one.state, [call.verb for call in one.effects.outside])
        for way, one in zip(leaks.WAYS, shown, strict=True)
    }
    started = ("outside", ["RUN"])
    connected = ("outside", ["CONNECT"])
    assert verdicts == {
        **dict.fromkeys(("executor", "pool", "thread", "caught"), connected),
        **dict.fromkeys(("process", "processes", "command"), started),
        "name": ("outside", ["RESOLVE"]),
    }
    assert sentinel.connections == 0
    leaks.OLDER.submit(leaks.post, sentinel.port).result()  # the pool is not changed for what comes after
    assert sentinel.connections == 1


def test_a_thread_that_belongs_to_nobody_is_refused_in_the_process_of_the_command(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sentinel: Sentinel
) -> None:
    from tests.rehearsal.test_commands import on_database

    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    monkeypatch.setenv("ONCEWARD_DATA_DIR", str(tmp_path))
    given = {"way": "raw", "port": sentinel.port}
    id = on_database(database_url, lambda db: db.fetchval(ENQUEUE, "leak", given))

    arguments = ["rehearse", str(id), "--json", "--app", "tests.rehearsal.leaks:app"]
    shown = typer.testing.CliRunner().invoke(build(FEATURES), arguments)

    [one] = json.loads(shown.stdout)["work"]
    assert one["state"] == "outside"
    assert sorted(call["target"] for call in one["effects"]["outside"]) == [
        f"127.0.0.1:{sentinel.port}",
        "secret.example.com",
    ]
    assert sentinel.connections == 0


async def test_a_call_to_a_simulator_opens_the_way_to_nobody_else(db: Database, sentinel: Sentinel) -> None:
    engine = Engine(db, leaks.app.registry)
    other = Sentinel()
    id = await db.fetchval(ENQUEUE, "charge", {"first": sentinel.port, "then": other.port})
    from onceward.rehearsal.recorded_work import load

    simulators = {"pay": f"http://127.0.0.1:{sentinel.port}"}
    async with Rehearser(engine, simulators=simulators) as rehearser, db.acquire() as conn:
        [recorded] = await load(conn, engine.registry, [id])
        shown = await rehearser.rehearse(recorded)

    assert (shown.state, [call.target for call in shown.effects.outside]) == ("outside", [f"127.0.0.1:{other.port}"])
    assert (sentinel.connections, other.connections) == (1, 0)
    other.socket.close()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:84001/v1", "http://127.0.0.1:8400.evil.example/v1", "https://127.0.0.1:8400/v1", "file x"]
)
def test_a_simulator_answers_only_its_own_url(url: str) -> None:
    calls = RefusedCalls(SimulatorAddresses.of({"pay": "http://127.0.0.1:8400"}))
    calls.call(OutsideCall("POST", "http://127.0.0.1:8400/v1/refunds"))
    with pytest.raises(OutsideRefused):
        calls.call(OutsideCall("POST", url))
    with pytest.raises(OutsideRefused):
        calls.connect("CONNECT", "127.0.0.1:9", ("127.0.0.1", 9))
