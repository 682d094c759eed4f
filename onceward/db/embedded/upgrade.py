"""Upgrade the data of an older PostgreSQL to the embedded version with PostgreSQL's own `pg_upgrade`.

The old data are copied, not changed. They stay next to the new data until you remove them.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from onceward.db.embedded.account import SystemAccount
from onceward.db.embedded.configuration import MIB
from onceward.db.embedded.data_switch import Switch
from onceward.db.embedded.errors import EmbeddedError, NoDiskSpace, OtherVersion
from onceward.db.embedded.server import INCLUDE, MAJOR, USER, EmbeddedPostgres, HeldData, find_binaries

SYSTEM_PROGRAMS = "/usr/lib/postgresql/{major}/bin"
TIMEOUT_S = 24 * 3600.0
LOGS = "pg_upgrade_output.d"


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The versions before and after the upgrade. `before` is None if there was nothing to do."""

    before: str | None
    after: str
    old_data: Path | None


def upgrade(data_dir: Path, *, old_programs: Path | None = None, fsync: bool = True) -> Upgraded:
    """Upgrade the cluster of a data directory. No process may use it."""
    server = EmbeddedPostgres(data_dir, fsync=fsync)
    with server.exclusive() as held:
        account = held.account
        before = server.version()
        if before == MAJOR:
            return Upgraded(None, MAJOR, None)
        if not before.isdigit() or int(before) > int(MAJOR):
            raise OtherVersion(
                f"{server.cluster} was written by PostgreSQL {before}, this version has only {MAJOR}: use the version "
                f"of Onceward that wrote it"
            )
        old = account.reach(old_programs or _find_programs(before))
        cluster = server.cluster.resolve()
        _require_room(cluster)
        fresh, kept = cluster.with_name("pg.new"), _free_name(cluster.with_name(f"pg.{before}"))
        switch = Switch(server.data_dir, cluster, fresh, kept)
        switch.begin()
        try:
            _stop_cleanly(held, old, cluster)
            options = [] if _has_checksums(account, old, cluster) else ["--no-data-checksums"]
            server.init_cluster(fresh, *options, with_database=False)
            _run_pg_upgrade(held, old, cluster, fresh, fsync=fsync)
            _keep_own_lines(cluster, fresh)
        except BaseException:
            switch.abandon()
            raise
        switch.switch()
        return Upgraded(before, MAJOR, kept)


def _find_programs(major: str) -> Path:
    """Return the directory of the old version's programs: in the wheel, else where Debian installs them."""
    beside = [path / "bin" for path in find_binaries().parents[1].glob("pginstall*")]
    for programs in (*beside, Path(SYSTEM_PROGRAMS.format(major=major))):
        server = programs / "postgres"
        if not server.exists():
            continue
        version = subprocess.run([str(server), "--version"], capture_output=True, text=True, timeout=30, check=False)
        if f"(PostgreSQL) {major}." in version.stdout:
            return programs
    raise EmbeddedError(
        f"the programs of PostgreSQL {major}, which wrote the data, are not installed: `apt install "
        f"postgresql-{major}`, "
        "or pass their directory: onceward db upgrade --old-programs <directory>"
    )


def _require_room(cluster: Path) -> None:
    used = sum(path.lstat().st_size for path in cluster.rglob("*") if path.is_file())
    free = shutil.disk_usage(cluster).free
    needed = used + 256 * MIB
    if free < needed:
        raise NoDiskSpace(
            f"the upgrade copies the data and needs {needed // MIB} MiB at {cluster.parent}, which has {free // MIB} "
            f"MiB left: free some space"
        )


def _stop_cleanly(held: HeldData, old: Path, cluster: Path) -> None:
    """Start and stop the old server, so that it recovers: pg_upgrade accepts only data that were shut down cleanly."""
    account = held.account
    work = _private_directory(account, cluster)
    try:
        options = f"-c listen_addresses= -c unix_socket_directories={work} -c logging_collector=off"
        control = [old / "pg_ctl", "-w", "-s", "-D", cluster]
        for action in (["-l", work / "log", "-o", options, "start"], ["-m", "fast", "stop"]):
            ended = account.run([*control, *action], timeout_s=600, inherit=(held.lock,))
            if ended.code != 0:
                log = (work / "log").read_text(errors="replace") if (work / "log").exists() else ""
                raise EmbeddedError(f"the old server did not {action[-1]}: {ended.output} {log[-500:]}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _has_checksums(account: SystemAccount, old: Path, cluster: Path) -> bool:
    shown = account.run([old / "pg_controldata", "-D", cluster], timeout_s=60)
    lines = [line.split(":", 1) for line in shown.output.splitlines() if line.startswith("Data page checksum version")]
    return bool(lines) and lines[0][1].strip() != "0"


def _run_pg_upgrade(held: HeldData, old: Path, cluster: Path, fresh: Path, *, fsync: bool) -> None:
    account = held.account
    work = _private_directory(account, cluster)
    try:
        command = [account.program("pg_upgrade"), "-b", old, "-B", account.bin_dir, "-d", cluster, "-D", fresh]
        command += ["-U", USER, "-s", work, *([] if fsync else ["--no-sync"])]
        # The programs keep the lock of the data: if this process is killed, the next start waits until they have ended.
        ended = account.run(command, timeout_s=TIMEOUT_S, working_dir=work, inherit=(held.lock,))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if ended.code != 0:
        logs = _keep_logs(cluster, fresh, ended.output)
        lines = ended.output.replace(str(fresh / LOGS), str(logs / LOGS)).splitlines()[-8:]
        last = " | ".join(line.strip() for line in lines if line.strip())
        raise EmbeddedError(f"pg_upgrade failed, and the old data are unchanged: {last} (whole log: {logs})")


def _keep_logs(cluster: Path, fresh: Path, output: str) -> Path:
    """Keep what a failed pg_upgrade printed, and its logs from the copy, which is removed. Return the directory."""
    kept = cluster.with_name("pg.upgrade-logs")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(mode=0o700)
    (kept / "output.txt").write_text(output, encoding="utf-8")
    if (fresh / LOGS).exists():
        (fresh / LOGS).rename(kept / LOGS)
    return kept


def _private_directory(account: SystemAccount, cluster: Path) -> Path:
    """Create a directory with a short name for sockets and temporary files."""
    path = cluster.with_name("pg.up")
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700)
    account.own(path)
    return path


def _keep_own_lines(cluster: Path, fresh: Path) -> None:
    """Copy the lines that the user added below our include."""
    before = (cluster / "postgresql.conf").read_text(encoding="utf-8", errors="replace")
    if INCLUDE in before:
        with (fresh / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write(before.split(INCLUDE, 1)[1])


def _free_name(path: Path) -> Path:
    names = (path if n == 0 else path.with_name(f"{path.name}-{n}") for n in range(1000))
    return next(each for each in names if not each.exists())
