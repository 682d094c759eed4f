"""Under which account the server runs: ours, except that PostgreSQL refuses to run as root.

As root the server is given to whoever owns the data already, else to the owner of the directory around it,
else to the system's `postgres` or `nobody`. Directories that this account may not pass (a project below
`/root`) are not opened to the world: the server is given the one capability that lets it pass.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onceward.db.embedded.errors import NoPermission, NotStarted

FALLBACKS = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended."""

    code: int
    output: str


@dataclass(frozen=True, slots=True)
class Account:
    """Runs PostgreSQL's programs. `uid` None: as this process's own user."""

    uid: int | None = None
    gid: int | None = None
    elevated: bool = False

    @classmethod
    def choose(cls, data_dir: Path, bin_dir: Path) -> Account:
        """Who shall run the server for this data directory."""
        if os.geteuid() != 0:
            return cls()
        entry = _owner(data_dir)
        blocked = [path for path in (data_dir, bin_dir) if not _may_pass(path, entry)]
        if blocked and shutil.which("setpriv") is None:
            raise NoPermission(
                f"PostgreSQL cannot run as root, and account {entry.pw_name!r} may not enter {blocked[0]}: "
                "move the project out of a private directory, set ONCEWARD_DATA_DIR, or install `setpriv`"
            )
        return cls(entry.pw_uid, entry.pw_gid, elevated=bool(blocked))

    def own(self, path: Path) -> None:
        """Give a path that root made to the account that will write to it."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def run(self, command: Sequence[str | Path], *, timeout_s: float, feed: str = "") -> Finished:
        """Run to the end in a session of its own, so that a Ctrl-C meant for us does not interrupt it."""
        argv = [str(part) for part in command]
        if self.elevated:
            caps = ["--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"]
            argv = [
                "setpriv",
                f"--reuid={self.uid}",
                f"--regid={self.gid}",
                "--clear-groups",
                *caps,
                "--",
                *argv,
            ]
        drop = self.uid is not None and not self.elevated
        # Files, not pipes: the server inherits them, and a pipe would stay open for as long as it runs.
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as given:
            given.write(feed)
            given.seek(0)
            try:
                ended = subprocess.run(
                    argv,
                    stdin=given,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd="/",
                    start_new_session=True,
                    timeout=timeout_s,
                    user=self.uid if drop else None,
                    group=self.gid if drop else None,
                    extra_groups=[] if drop else None,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise NotStarted(f"{Path(command[0]).name} did not end within {timeout_s:.0f} s") from None
            except PermissionError as error:
                raise NoPermission(f"cannot execute {command[0]}: {error.strerror}") from error
            output.seek(0)
            return Finished(ended.returncode, output.read().strip())


def _owner(data_dir: Path) -> pwd.struct_passwd:
    cluster = data_dir / "pg"
    for path in (cluster, data_dir, data_dir.parent):
        if path.exists() and (uid := path.stat().st_uid) != 0:
            try:
                return pwd.getpwuid(uid)
            except KeyError as error:
                raise NoPermission(
                    f"{path} belongs to user id {uid}, which has no account here: "
                    f"`chown -R` it to an existing user, or set ONCEWARD_DATA_DIR to another directory"
                ) from error
    for name in FALLBACKS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoPermission("PostgreSQL cannot run as root and there is no account `postgres` or `nobody` to run it as")


def _may_pass(path: Path, entry: pwd.struct_passwd) -> bool:
    """Whether an account can reach a path, going by the permission bits of the directories above it."""
    for directory in path.resolve().parents:
        if not directory.exists():
            continue
        found = directory.stat()
        if found.st_uid == entry.pw_uid:
            needed = stat.S_IXUSR
        elif found.st_gid == entry.pw_gid:
            needed = stat.S_IXGRP
        else:
            needed = stat.S_IXOTH
        if not found.st_mode & needed:
            return False
    return True
