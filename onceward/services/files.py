"""The files of apps: a folder of this machine or a bucket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from onceward.extras import require
from onceward.lazy import lazy_module
from onceward.outside import is_withheld, leave
from onceward.private_files import PrivateFolder

from .errors import NotSet

if TYPE_CHECKING:
    import obstore
    from obstore import store as stores

    Store = PrivateFolder | stores.S3Store | dict[str, bytes]
else:
    obstore = lazy_module("obstore")
    stores = lazy_module("obstore.store")


class Files:
    """Files of the apps by path, in a folder or a bucket. `put` replaces an existing file."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def in_memory(cls) -> Files:
        """Return files that end with the process, for tests."""
        return cls({})

    @classmethod
    def at(cls, url: str | None, data_dir: Path) -> Files:
        """Open the files at `s3://bucket/prefix` or `file:///folder`, or in the data directory if `url` is None."""
        if url is None:
            return cls(PrivateFolder(data_dir / "files"))
        parts = urlsplit(url)
        match parts.scheme:
            case "s3":
                require("files", "obstore", f"ONCEWARD_FILES_URL={url}")
                # A store on this machine or in this network may have no certificate.
                return cls(
                    stores.S3Store(
                        parts.netloc, prefix=parts.path.strip("/") or None, client_options={"allow_http": True}
                    )
                )
            case "file":
                return cls(PrivateFolder(Path(parts.path)))
            case _:
                raise NotSet(f"ONCEWARD_FILES_URL={url!r} is not valid: write s3://bucket/prefix or file:///folder")

    async def put(self, path: str, content: bytes, *, content_type: str) -> None:
        if is_withheld("PUT", f"file {path} ({len(content)} bytes)"):
            return
        if isinstance(self._store, PrivateFolder):
            await asyncio.to_thread(self._store.put, path, content)
            return
        if isinstance(self._store, dict):
            self._store[path] = content
            return
        await obstore.put_async(self._store, path, content, attributes={"Content-Type": content_type})

    async def get(self, path: str) -> bytes | None:
        """Return the content of the file, or None if the file does not exist."""
        if isinstance(self._store, PrivateFolder):
            return await asyncio.to_thread(self._store.get, path)
        if isinstance(self._store, dict):
            return self._store.get(path)
        leave("GET", f"file {path}")
        try:
            stored = await obstore.get_async(self._store, path)
        except FileNotFoundError:
            return None
        return bytes(await stored.bytes_async())

    async def delete(self, path: str) -> None:
        if is_withheld("DELETE", f"file {path}"):
            return
        if isinstance(self._store, PrivateFolder):
            await asyncio.to_thread(self._store.delete, path)
            return
        if isinstance(self._store, dict):
            self._store.pop(path, None)
            return
        await obstore.delete_async(self._store, path)
