"""Place the programs, and the data if necessary, where an account other than root can reach them.

Only root needs this, if user namespaces are not allowed (most containers) and the account may not enter the directory.
All data directories of the machine share the copies of the programs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

import structlog

from onceward.db.embedded.errors import NoPermission

log = structlog.get_logger(__name__)

ROOMS = (Path("/var/lib"), Path("/opt"), Path("/var/tmp"), Path(tempfile.gettempdir()))
NAME = "onceward"


def reachable_programs(bin_dir: Path) -> Path:
    """Return a directory with the same programs that every account may enter. Copy the programs if necessary."""
    install = bin_dir.parent
    target = _room() / f"postgresql-{_fingerprint(install)}"
    place = target / install.parent.name / install.name / bin_dir.name
    if not target.exists():
        building = Path(tempfile.mkdtemp(prefix="building-", dir=target.parent))
        try:
            shutil.copytree(install, building / install.parent.name / install.name, symlinks=True)
            libraries = install.parent.with_name(install.parent.name + ".libs")  # the programs load them from there
            if libraries.is_dir():
                shutil.copytree(libraries, building / libraries.name, symlinks=True)
            _open_to_all(building)
            try:
                building.rename(target)
            except OSError:
                if not target.exists():  # otherwise another process was faster
                    raise
        finally:
            shutil.rmtree(building, ignore_errors=True)
        log.info("embedded.programs_copied", to=str(place), reason=f"the server's account may not enter {bin_dir}")
    return place


def new_data_room(data_dir: Path, account: str) -> Path:
    """Return a new directory for the data of `data_dir`, outside of it, that the server's account can reach."""
    room = Path(tempfile.mkdtemp(prefix="data-", dir=_room()))
    room.chmod(0o711)
    (room / "belongs-to").write_text(f"{data_dir}\n")
    log.info(
        "embedded.data_placed_elsewhere",
        at=str(room),
        reason=f"PostgreSQL cannot run as root, and account {account!r} may not enter {data_dir}",
    )
    return room


def _room() -> Path:
    """Return the first directory that root owns, only root can write to, and every account may enter."""
    for parent in ROOMS:
        room = parent / NAME
        try:
            room.mkdir(mode=0o755, exist_ok=True)
            status = room.lstat()
        except OSError:
            continue
        is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and status.st_mode & 0o022 == 0
        if is_ours and all(path.stat().st_mode & stat.S_IXOTH for path in (room, *room.resolve().parents)):
            return room
    raise NoPermission(
        f"PostgreSQL cannot run as root, and none of {', '.join(str(path) for path in ROOMS)} can hold its files: "
        "run as another user, or set ONCEWARD_DATABASE_URL"
    )


def _fingerprint(install: Path) -> str:
    """Return a digest that is the same for every copy of one release of the programs."""
    with (install / "bin" / "postgres").open("rb") as server:
        digest = hashlib.file_digest(server, "sha256")
    for path in sorted((install / "bin").iterdir()):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
    return digest.hexdigest()[:16]


def _open_to_all(directory: Path) -> None:
    directory.chmod(0o755)
    for path in directory.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o055 if path.is_dir() or path.stat().st_mode & 0o100 else 0o044))
