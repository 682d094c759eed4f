"""Other servers than the embedded one, where they are installed; tests that need one that is not are skipped by name."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from onceward.db.embedded.account import Account


@pytest.fixture(scope="session")
def postgres15() -> Iterator[str]:
    """The address of a PostgreSQL 15 (Debian's package, or the programs in ONCEWARD_TEST_PG15)."""
    programs = Path(os.environ.get("ONCEWARD_TEST_PG15", "/usr/lib/postgresql/15/bin"))
    if not (programs / "initdb").exists():
        pytest.skip("PostgreSQL 15 is not installed: apt install postgresql-15, or set ONCEWARD_TEST_PG15")
    # Not pytest's own: that is private to this user, and as root the server is another one.
    directory = Path(tempfile.mkdtemp(prefix="onceward-15-"))
    directory.chmod(0o755)
    cluster = directory / "pg"
    cluster.mkdir(mode=0o700)
    account = Account.choose(directory, programs)
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
    yield f"postgresql://postgres@/postgres?host={cluster}&port=5432"
    account.run([*control, "-m", "immediate", "stop"], timeout_s=60)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def pgbouncer(database_url: str, tmp_path: Path) -> Iterator[str]:
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
    config = tmp_path / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host={host} port={port} user={parts.username}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own_port}\nunix_socket_dir =\nauth_type = any\n"
        f"pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 50\nlogfile =\n"
    )
    owner = os.stat(str(host)).st_uid if str(host).startswith("/") else os.geteuid()
    for path in (config, *tmp_path.parents[:2], tmp_path):
        path.chmod(0o755)
    drop = {"user": owner, "extra_groups": []} if os.geteuid() == 0 else {}
    process = subprocess.Popen([program, str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **drop)
    try:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", own_port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, "PgBouncer ended at its start"
                time.sleep(0.02)
        yield f"postgresql://{parts.username}@127.0.0.1:{own_port}{parts.path}"
    finally:
        process.kill()
        process.wait()
