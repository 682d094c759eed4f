"""The external services that an app calls, such as `app.services.stripe`, created from the settings at first use.

Importing an app opens no connection. The process passes the settings in and closes the connections; tests replace
single services with simulators through `use`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import obstore
from obstore.store import MemoryStore, S3Store
from pydantic import SecretStr

from onceward.errors import OncewardError
from onceward.http import ServiceClient
from onceward.private_files import PrivateFolder
from onceward.providers.outbound.calcom import Attendee, CalCom
from onceward.providers.outbound.ga4 import Ga4, Ga4Event
from onceward.providers.outbound.hubspot import CrmRecord, HubSpot
from onceward.providers.outbound.mixpanel import Mixpanel, MixpanelEvent
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
from onceward.providers.outbound.segment import Segment, SegmentCall
from onceward.providers.outbound.stripe import Stripe
from onceward.settings import Settings, load_settings

__all__ = [
    "SERVICES",
    "Accepted",
    "Attendee",
    "CalCom",
    "CrmRecord",
    "Files",
    "Ga4",
    "Ga4Event",
    "HubSpot",
    "Mixpanel",
    "MixpanelEvent",
    "NotSet",
    "Outcome",
    "PayPal",
    "Refused",
    "Segment",
    "SegmentCall",
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


class NotSet(OncewardError):
    """A service is used that is not configured. The message names the missing or invalid setting."""


class Files:
    """Files of the apps by path, in a folder or a bucket. `put` replaces an existing file."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def at(cls, url: str | None, data_dir: Path) -> Files:
        """Open the files at `s3://bucket/prefix` or `file:///folder`, or in the data directory if `url` is None."""
        if url is None:
            return cls(PrivateFolder(data_dir / "files"))
        parts = urlsplit(url)
        match parts.scheme:
            case "s3":
                # A store on this machine or in this network may have no certificate.
                return cls(
                    S3Store(parts.netloc, prefix=parts.path.strip("/") or None, client_options={"allow_http": True})
                )
            case "file":
                return cls(PrivateFolder(Path(parts.path)))
            case _:
                raise NotSet(f"ONCEWARD_FILES_URL={url!r} is not valid: write s3://bucket/prefix or file:///folder")

    async def put(self, path: str, content: bytes, *, content_type: str) -> None:
        if isinstance(self._store, PrivateFolder):
            await asyncio.to_thread(self._store.put, path, content)
            return
        attributes: Any = {"Content-Type": content_type} if isinstance(self._store, S3Store) else None
        await obstore.put_async(self._store, path, content, attributes=attributes)

    async def get(self, path: str) -> bytes | None:
        """Return the content of the file, or None if the file does not exist."""
        if isinstance(self._store, PrivateFolder):
            return await asyncio.to_thread(self._store.get, path)
        try:
            stored = await obstore.get_async(self._store, path)
        except FileNotFoundError:
            return None
        return bytes(await stored.bytes_async())

    async def delete(self, path: str) -> None:
        if isinstance(self._store, PrivateFolder):
            await asyncio.to_thread(self._store.delete, path)
            return
        await obstore.delete_async(self._store, path)


class Services:
    """The external services of an app. The app shares them with the apps it includes."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._created: dict[str, Any] = {}
        self._client: ServiceClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def settings(self) -> Settings:
        """Return the settings that the process passed in, or those of the environment."""
        if self._settings is None:
            self._settings = load_settings()
        return self._settings

    def configure(self, settings: Settings) -> None:
        """Use these settings from now on, and create every service again from them."""
        self._settings = settings
        self._created.clear()

    def use(self, name: Literal["stripe", "paypal", "files"], service: Any) -> None:
        """Replace one service, for example in tests."""
        self._created[name] = service

    @property
    def client(self) -> ServiceClient:
        """Return the HTTP client for the services that the operator configured."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:  # a session works only in the loop that opened it
            self._client, self._loop = ServiceClient(), loop
            self._created = {name: service for name, service in self._created.items() if name == "files"}
        return self._client

    @property
    def stripe(self) -> Stripe:
        client = self.client
        service = self._created.get("stripe")
        if service is None:
            key = _needed(self.settings.stripe_secret_key, "ONCEWARD_STRIPE_SECRET_KEY")
            service = self._created["stripe"] = Stripe(client, key, base_url=self.settings.stripe_url.rstrip("/"))
        return service

    @property
    def paypal(self) -> PayPal:
        client = self.client
        service = self._created.get("paypal")
        if service is None:
            service = self._created["paypal"] = PayPal(
                client,
                client_id=_needed(self.settings.paypal_client_id, "ONCEWARD_PAYPAL_CLIENT_ID"),
                client_secret=_needed(self.settings.paypal_client_secret, "ONCEWARD_PAYPAL_CLIENT_SECRET"),
                base_url=self.settings.paypal_url.rstrip("/"),
            )
        return service

    @property
    def files(self) -> Files:
        service = self._created.get("files")
        if service is None:
            service = self._created["files"] = Files.at(self.settings.files_url, self.settings.data_dir)
        return service

    async def aclose(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()
        self._created.clear()


def _needed(value: str | SecretStr | None, name: str) -> str:
    if value is None:
        raise NotSet(f"{name} is not set: set it to use this service")
    return value.get_secret_value() if isinstance(value, SecretStr) else value
