"""Run a program as root in its own user namespace, in which root has the id of an ordinary user.

PostgreSQL refuses to run as user id 0. In a user namespace the same user has another id: the program sees an ordinary
account, and the kernel still treats its files as files of root. So the server can use a directory that only root may
enter. It has no capability outside its namespace.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ENTER = """
import ctypes, os, sys
uid, gid, seen_uid, seen_gid = map(int, sys.argv[1:5])
libc = ctypes.CDLL(None, use_errno=True)
os.setgroups([])
os.setresgid(gid, gid, gid)
os.setresuid(uid, uid, uid)
libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: a process that changed its user may not write its own maps otherwise
if libc.unshare(0x10000000) != 0:  # CLONE_NEWUSER
    sys.exit("user namespaces are not allowed here: " + os.strerror(ctypes.get_errno()))
for name, line in (("setgroups", "deny"), ("uid_map", f"{seen_uid} {uid} 1"), ("gid_map", f"{seen_gid} {gid} 1")):
    with open(f"/proc/self/{name}", "w") as map:
        map.write(line)
os.execv(sys.argv[5], sys.argv[5:])
"""
"""Runs in a separate interpreter: only a process with a single thread can enter a namespace."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """`uid` and `gid` own the files; inside, the program sees itself as `seen_uid` and `seen_gid`."""

    uid: int
    gid: int
    seen_uid: int
    seen_gid: int

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command` inside the namespace."""
        ids = (self.uid, self.gid, self.seen_uid, self.seen_gid)
        return [sys.executable, "-I", "-S", "-c", ENTER, *map(str, ids), *command]

    def works(self, program: Path) -> bool:
        """Return whether this machine allows the namespace and can execute `program` in it."""
        return _works(self, program)


@functools.cache
def _works(namespace: Namespace, program: Path) -> bool:
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    tried = subprocess.run(
        namespace.wrap([str(program), "--version"]), capture_output=True, cwd="/", timeout=30, check=False
    )
    return tried.returncode == 0
