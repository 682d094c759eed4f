"""The outside services an app calls, made from the settings when they are first needed: `app.services.stripe`.

Nothing is opened by importing an app. The runtime hands the settings in and closes what was opened; tests point
single services at simulators with `use`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import obstore
from obstore.store import MemoryStore, S3Store
from pydantic import SecretStr

from onceward.http import ServiceClient
from onceward.private_files import PrivateFolder
from onceward.providers.outbound.money import (
    SERVICES,
    exponent,
    format_amount,
    format_number,
    from_stripe,
    is_taken_by,
    step,
    to_decimal,
    to_minor,
    to_stripe,
)
from onceward.providers.outbound.outcome import Accepted, Outcome, Refused, Throttled, Unknown, Unreachable
from onceward.providers.outbound.paypal import PayPal
from onceward.providers.outbound.stripe import Stripe
from onceward.settings import Settings, load_settings

__all__ = [
    "SERVICES",
    "Accepted",
    "Files",
    "NotSet",
    "Outcome",
    "PayPal",
    "Refused",
    "Services",
    "Stripe",
    "Throttled",
    "Unknown",
    "Unreachable",
    "exponent",
    "format_amount",
    "format_number",
    "from_stripe",
    "is_taken_by",
    "step",
    "to_decimal",
    "to_minor",
    "to_stripe",
]

Store = PrivateFolder | S3Store | MemoryStore


class NotSet(Exception):
    """A service is asked for that the settings say nothing about; the message names the setting."""


class Files:
    """Files of the apps by path, in a folder or a bucket. Putting one again replaces it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def at(cls, url: str | None, data_dir: Path) -> Files:
        """`s3://bucket/prefix`, `file:///folder`, or below the data directory."""
        if url is None:
            return cls(PrivateFolder(data_dir / "files"))
        parts = urlsplit(url)
        match parts.scheme:
            case "s3":
                # A store on this machine or network has no certificate.
                return cls(
                    S3Store(parts.netloc, prefix=parts.path.strip("/") or None, client_options={"allow_http": True})
                )
            case "file":
                return cls(PrivateFolder(Path(parts.path)))
            case _:
                raise NotSet(f"ONCEWARD_FILES_URL={url!r}: write s3://bucket/prefix or file:///folder")

    async def put(self, path: str, content: bytes, *, content_type: str) -> None:
        if isinstance(self._store, PrivateFolder):
            await asyncio.to_thread(self._store.put, path, content)
            return
        attributes: Any = {"Content-Type": content_type} if isinstance(self._store, S3Store) else None
        await obstore.put_async(self._store, path, content, attributes=attributes)

    async def get(self, path: str) -> bytes | None:
        """The content, or None when there is no such file."""
        if isinstance(self._store, PrivateFolder):
            return await asyncio.to_thread(self._store.get, path)
        try:
            found = await obstore.get_async(self._store, path)
        except FileNotFoundError:
            return None
        return bytes(await found.bytes_async())

    async def delete(self, path: str) -> None:
        if isinstance(self._store, PrivateFolder):
            await asyncio.to_thread(self._store.delete, path)
            return
        await obstore.delete_async(self._store, path)


class Services:
    """Shared by an app and everything it includes."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._made: dict[str, Any] = {}
        self._client: ServiceClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def settings(self) -> Settings:
        """As the runtime gave them, or from the environment."""
        if self._settings is None:
            self._settings = load_settings()
        return self._settings

    def configure(self, settings: Settings) -> None:
        """Use these settings from here on; what was made from others is made anew."""
        self._settings = settings
        self._made.clear()

    def use(self, name: Literal["stripe", "paypal", "files"], service: Any) -> None:
        """Put another in the place of one service, as tests do."""
        self._made[name] = service

    @property
    def client(self) -> ServiceClient:
        """For the APIs of services that the operator configured."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:  # a session belongs to the loop it was opened in
            self._client, self._loop = ServiceClient(), loop
            self._made = {name: made for name, made in self._made.items() if name == "files"}
        return self._client

    @property
    def stripe(self) -> Stripe:
        client = self.client
        found = self._made.get("stripe")
        if found is None:
            key = _needed(self.settings.stripe_secret_key, "ONCEWARD_STRIPE_SECRET_KEY")
            found = self._made["stripe"] = Stripe(client, key, base_url=self.settings.stripe_url.rstrip("/"))
        return found

    @property
    def paypal(self) -> PayPal:
        client = self.client
        found = self._made.get("paypal")
        if found is None:
            found = self._made["paypal"] = PayPal(
                client,
                client_id=_needed(self.settings.paypal_client_id, "ONCEWARD_PAYPAL_CLIENT_ID"),
                client_secret=_needed(self.settings.paypal_client_secret, "ONCEWARD_PAYPAL_CLIENT_SECRET"),
                base_url=self.settings.paypal_url.rstrip("/"),
            )
        return found

    @property
    def files(self) -> Files:
        found = self._made.get("files")
        if found is None:
            found = self._made["files"] = Files.at(self.settings.files_url, self.settings.data_dir)
        return found

    async def aclose(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()
        self._made.clear()


def _needed(value: str | SecretStr | None, name: str) -> str:
    if value is None:
        raise NotSet(f"{name} is not set, and this needs it")
    return value.get_secret_value() if isinstance(value, SecretStr) else value
