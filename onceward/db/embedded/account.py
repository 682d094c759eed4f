"""The account that runs the server: the current user, except root, because PostgreSQL refuses to run as root.

If the current user is root, the owner of the data runs the server, else the owner of the directory around them, else
the system account `postgres` or `nobody`. If that account may not enter the directory (a project below `/root`, a
`mktemp -d`), root runs the server in a user namespace, in which root has an ordinary id. If namespaces are not allowed,
programs and data are placed where the account can reach them. No directory is opened to other accounts.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from onceward.db.embedded.errors import NoPermission, NotStarted
from onceward.db.embedded.namespace import Namespace
from onceward.db.embedded.placement import reachable_programs

FALLBACKS = ("postgres", "nobody", "daemon")


class SystemIdentity(TypedDict, total=False):
    """Options of `subprocess.Popen`."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class ProcessFinished:
    """The exit code and output of a command."""

    code: int
    output: str


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """Runs the programs in `bin_dir` and owns the data. If `uid` is None, it is the user of this process."""

    bin_dir: Path
    uid: int | None = None
    gid: int | None = None
    name: str = ""
    namespace: Namespace | None = None
    may_enter_data: bool = True
    """False if the account cannot reach the data directory, so that new data must be placed elsewhere."""

    @classmethod
    def choose(cls, data_dir: Path, bin_dir: Path) -> SystemAccount:
        """Choose the account that runs the server of this data directory, and its copy of the programs."""
        if os.geteuid() != 0:
            return cls(bin_dir)
        cluster = data_dir / "pg"
        uid, gid = _owner(cluster)
        if uid != 0 and _may_reach(cluster, uid, gid):
            entry = _entry(uid)
            if entry is None:
                return _unnamed(cluster, bin_dir, uid, gid)
            return cls(_programs(bin_dir, entry), entry.pw_uid, entry.pw_gid, entry.pw_name)
        standby = _standby()
        may_enter = _may_reach(cluster, standby.pw_uid, standby.pw_gid)
        is_roots = cluster.exists() and cluster.stat().st_uid == 0
        if is_roots or not may_enter or not _may_reach(bin_dir / "postgres", standby.pw_uid, standby.pw_gid):
            namespace = Namespace(0, 0, standby.pw_uid, standby.pw_gid)
            if namespace.works(Path(sys.executable)):
                return cls(bin_dir, 0, 0, "root", namespace)
        if cluster.exists() and not may_enter:
            raise NoPermission(
                f"PostgreSQL cannot run as root, account {standby.pw_name!r} may not enter {data_dir}, and user "
                "namespaces are not allowed here: move the directory to where that account may enter it and set "
                "ONCEWARD_DATA_DIR"
            )
        return cls(
            _programs(bin_dir, standby), standby.pw_uid, standby.pw_gid, standby.pw_name, may_enter_data=may_enter
        )

    def reach(self, bin_dir: Path) -> Path:
        """Return `bin_dir`, or a copy of it that this account can execute."""
        if self.uid is None or self.uid == 0:
            return bin_dir
        entry = _entry(self.uid)
        return reachable_programs(bin_dir) if entry is None else _programs(bin_dir, entry)

    def program(self, name: str) -> Path:
        return self.bin_dir / name

    def own(self, path: Path) -> None:
        """Make the account the owner of a path that root created."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def own_tree(self, directory: Path) -> None:
        """Make the account the owner of a directory and its content. No server may run on it."""
        self.own(directory)
        for path in directory.rglob("*"):
            self.own(path)

    def wrap(self, command: list[str]) -> list[str]:
        """Return the command that runs `command` as this account; start it with `identity()`."""
        return command if self.namespace is None else self.namespace.wrap(command)

    def identity(self) -> SystemIdentity:
        """Return the options of `subprocess` that change the user. Empty for a namespace, which changes it itself."""
        if self.uid is None or self.namespace is not None:
            return {}
        return {"user": self.uid, "group": self.gid if self.gid is not None else self.uid, "extra_groups": []}

    def run(
        self,
        command: Sequence[str | Path],
        *,
        timeout_s: float,
        feed: str = "",
        working_dir: Path = Path("/"),
        inherit: Sequence[int] = (),
    ) -> ProcessFinished:
        """Run a command in its own session, so that Ctrl-C does not interrupt it, and wait for its end.

        The command and its child processes keep the descriptors in `inherit` open.
        """
        # Files, not pipes: the server inherits them, and a pipe would stay open while the server runs.
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as stdin:
            stdin.write(feed)
            stdin.seek(0)
            try:
                ended = subprocess.run(
                    self.wrap([str(part) for part in command]),
                    stdin=stdin,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=working_dir,
                    pass_fds=inherit,
                    start_new_session=True,
                    timeout=timeout_s,
                    **self.identity(),
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise NotStarted(f"{Path(command[0]).name} did not end within {timeout_s:.0f} s") from None
            except PermissionError as error:
                raise NoPermission(f"cannot execute {command[0]}: {error.strerror}") from error
            output.seek(0)
            return ProcessFinished(ended.returncode, output.read().strip())


def _owner(cluster: Path) -> tuple[int, int]:
    """Return the owner of the data. Without data: the first owner other than root of the directories around, else
    root."""
    if cluster.exists():
        status = cluster.stat()
        return status.st_uid, status.st_gid
    for path in cluster.parents[:2]:
        if path.exists() and (status := path.stat()).st_uid != 0:
            return status.st_uid, status.st_gid
    return 0, 0


def _entry(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def _standby() -> pwd.struct_passwd:
    for name in FALLBACKS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoPermission(
        f"PostgreSQL cannot run as root and there is no account {' or '.join(FALLBACKS)} to run it: run as another "
        f"user, or set ONCEWARD_DATABASE_URL"
    )


def _unnamed(cluster: Path, bin_dir: Path, uid: int, gid: int) -> SystemAccount:
    """Return an account for an owner that has no name here (a directory mounted into a container): use a namespace."""
    standby = _standby()
    namespace = Namespace(uid, gid, standby.pw_uid, standby.pw_gid)
    program = bin_dir if _all_may_enter(bin_dir) else None
    if program is None and namespace.works(Path("/bin/true")):
        program = reachable_programs(bin_dir)
    if program is None or not namespace.works(program / "pg_ctl"):
        raise NoPermission(
            f"{cluster.parent} belongs to user id {uid}, which has no account here: "
            "`chown -R` it to an existing user, or set ONCEWARD_DATA_DIR to another directory"
        )
    return SystemAccount(program, uid, gid, str(uid), namespace)


def _programs(bin_dir: Path, entry: pwd.struct_passwd) -> Path:
    return bin_dir if _may_reach(bin_dir / "postgres", entry.pw_uid, entry.pw_gid) else reachable_programs(bin_dir)


def _all_may_enter(directory: Path) -> bool:
    return all(path.stat().st_mode & stat.S_IXOTH for path in (directory, *directory.resolve().parents))


def _may_reach(path: Path, uid: int, gid: int) -> bool:
    """Return whether an account can reach a path, judged by the permission bits of the directories above it."""
    for directory in path.resolve().parents:
        if not directory.exists():
            continue
        status = directory.stat()
        if status.st_uid == uid:
            needed = stat.S_IXUSR
        elif status.st_gid == gid:
            needed = stat.S_IXGRP
        else:
            needed = stat.S_IXOTH
        if not status.st_mode & needed:
            return False
    return True
