"""Other servers than the embedded one, where they are installed; tests that need one that is not are skipped by name."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from onceward.db.embedded import BIN
from onceward.db.embedded.account import SystemAccount


@pytest.fixture(scope="session")
def postgres15() -> Iterator[str]:
    """The address of a PostgreSQL 15 (Debian's package, or the programs in ONCEWARD_TEST_PG15)."""
    programs = Path(os.environ.get("ONCEWARD_TEST_PG15", "/usr/lib/postgresql/15/bin"))
    if not (programs / "initdb").exists():
        pytest.skip("PostgreSQL 15 is not installed: apt install postgresql-15, or set ONCEWARD_TEST_PG15")
    with run_server(programs) as url:
        yield url


@pytest.fixture(scope="session")
def postgres16() -> Iterator[str]:
    """The address of a PostgreSQL 16, which comes in the same wheel as the embedded 18."""
    programs = BIN.path("initdb").parents[2] / "pginstall" / "bin"
    if not (programs / "initdb").exists():
        pytest.skip("the wheel of the embedded server has no PostgreSQL 16 on this platform")
    with run_server(programs) as url:
        yield url


@contextmanager
def run_server(programs: Path) -> Generator[str]:
    """A server of another version, thrown away at the end."""
    directory = Path(tempfile.mkdtemp(prefix="onceward-other-"))
    directory.chmod(0o755)
    with started_server(programs, directory / "pg") as url:
        yield url
    shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def started_server(programs: Path, cluster: Path) -> Generator[str]:
    """A new cluster and its server; the data stay."""
    account = SystemAccount.choose(cluster.parent, programs)
    programs = account.bin_dir
    cluster.mkdir(mode=0o700)
    account.own(cluster)
    initdb = [
        programs / "initdb",
        "--auth=trust",
        "--encoding=UTF8",
        "--no-locale",
        "-U",
        "postgres",
        "-N",
        "-D",
        cluster,
    ]
    made = account.run(initdb, timeout_s=60)
    assert made.code == 0, made.output
    options = f"-c listen_addresses= -c unix_socket_directories={cluster} -c fsync=off"
    control = [programs / "pg_ctl", "-w", "-s", "-D", cluster]
    started = account.run([*control, "-l", cluster / "log", "-o", options, "start"], timeout_s=60)
    assert started.code == 0, started.output
    try:
        yield f"postgresql://postgres@/postgres?host={cluster}&port=5432"
    finally:
        account.run([*control, "-m", "immediate", "stop"], timeout_s=60)


@pytest.fixture
def pgbouncer(database_url: str) -> Iterator[str]:
    """The address of a PgBouncer in transaction mode, with two server connections, before the test's own database."""
    program = os.environ.get("ONCEWARD_TEST_PGBOUNCER") or shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    if not Path(program).exists():
        pytest.skip("PgBouncer is not installed: apt install pgbouncer, or set ONCEWARD_TEST_PGBOUNCER")
    parts = urlsplit(database_url)
    query = parse_qs(parts.query)
    host = query["host"][0] if "host" in query else parts.hostname
    port = query["port"][0] if "port" in query else parts.port or 5432
    with socket.create_server(("127.0.0.1", 0)) as free:
        own_port = free.getsockname()[1]
    # Not tmp_path, which is private to root: PgBouncer runs as the account of the server, whose socket it opens.
    directory = Path(tempfile.mkdtemp(prefix="onceward-pgbouncer-"))
    directory.chmod(0o755)
    config = directory / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host={host} port={port} user={parts.username}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own_port}\nunix_socket_dir =\nauth_type = any\n"
        f"pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 50\nlogfile =\n"
    )
    account = SystemAccount.choose(
        Path(str(host)).parent if str(host).startswith("/") else directory, Path(program).parent
    )
    command = account.wrap([str(account.bin_dir / Path(program).name), str(config)])
    output = (directory / "output").open("w+")
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd="/", **account.identity())
    try:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", own_port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, f"PgBouncer ended at its start: {(directory / 'output').read_text()}"
                time.sleep(0.02)
        yield f"postgresql://{parts.username}@127.0.0.1:{own_port}{parts.path}"
    finally:
        process.kill()
        process.wait()
        output.close()
        shutil.rmtree(directory)
