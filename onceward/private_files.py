"""Files that only the user of this process may read: mode 0600 in folders of mode 0700, regardless of the umask."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def private_folder(folder: Path) -> None:
    """Create the folder, or remove other users' access to it. Existing parent folders are not changed."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=FOLDER_MODE, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(FOLDER_MODE)


def write_private(path: Path, content: bytes) -> None:
    """Write the file atomically: write a temporary file, then rename it. The folder must exist."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


class PrivateFolder:
    """Files by relative path below one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def put(self, path: str, content: bytes) -> None:
        target = self._path(path)
        private_folder(self._root)
        private_folder(target.parent)
        write_private(target, content)

    def get(self, path: str) -> bytes | None:
        try:
            return self._path(path).read_bytes()
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> None:
        self._path(path).unlink(missing_ok=True)

    def _path(self, path: str) -> Path:
        target = Path(os.path.normpath(self._root / path))
        if self._root not in target.parents:
            raise ValueError(f"path {path!r} is outside the folder {self._root}")
        return target
