"""The external services that an app calls, such as `await app.services.stripe(organization)`.

Each accessor takes the organization that the call is made for, and returns a client with that organization's account if
the organization has one, else with the installation's. Importing an app opens no connection. The process passes the
settings and the store of secrets in and closes the connections; tests replace single services through `use`.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol
from uuid import UUID

from onceward.settings import load_settings

from .catalog import CATALOG, ServiceAccount, resolve_account
from .errors import NotSet
from .files import Files

if TYPE_CHECKING:
    from onceward.http import ServiceClient
    from onceward.providers.outbound.brevo import Brevo
    from onceward.providers.outbound.calcom import CalCom
    from onceward.providers.outbound.daily import Daily
    from onceward.providers.outbound.ga4 import Ga4
    from onceward.providers.outbound.hubspot import HubSpot
    from onceward.providers.outbound.mixpanel import Mixpanel
    from onceward.providers.outbound.openai import OpenAI
    from onceward.providers.outbound.paypal import PayPal
    from onceward.providers.outbound.posthog import PostHog
    from onceward.providers.outbound.segment import Segment
    from onceward.providers.outbound.slack import Slack
    from onceward.providers.outbound.stripe import Stripe
    from onceward.providers.outbound.twilio import Twilio
    from onceward.providers.outbound.whatsapp import WhatsApp
    from onceward.settings import Settings

ServiceName = Literal[
    "stripe",
    "paypal",
    "calcom",
    "hubspot",
    "ga4",
    "mixpanel",
    "segment",
    "posthog",
    "daily",
    "twilio",
    "whatsapp",
    "slack",
    "brevo",
    "openai",
    "files",
]

SECRETS_TTL_S = 10.0
"""How long a process uses the secrets of an organization before it reads them again."""
_MAX_CACHED = 1000
_SECRET_NAMES = tuple(name for declared in CATALOG.values() for name in declared.secret_names)


class SecretStore(Protocol):
    """Where the secrets of organizations come from."""

    async def read(self, organization: UUID, names: Sequence[str]) -> Mapping[str, str]:
        """Return those of the named secrets that the organization has."""
        ...


class Services:
    """The external services of an app. The app shares them with the apps it includes."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._store: SecretStore | None = None
        self._replaced: dict[str, Any] = {}
        self._files: Files | None = None
        self._clients: OrderedDict[ServiceAccount, Any] = OrderedDict()
        self._secrets: OrderedDict[UUID, tuple[float, Mapping[str, str]]] = OrderedDict()
        self._reading = asyncio.Lock()
        self._http: ServiceClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def settings(self) -> Settings:
        """Return the settings that the process passed in, or those of the environment."""
        if self._settings is None:
            self._settings = load_settings()
        return self._settings

    def configure(self, settings: Settings) -> None:
        """Use these settings from now on, create every service again from them, and undo `use`."""
        self._settings = settings
        self._replaced.clear()
        self._clients.clear()
        self._files = None

    def use_secrets(self, store: SecretStore | None) -> None:
        """Read the secrets of organizations from this store; None means that no organization has an account of its own."""
        self._store = store
        self.forget_secrets()

    def use(self, name: ServiceName, service: Any) -> None:
        """Replace one service for every organization, for example in tests."""
        self._replaced[name] = service

    def forget_secrets(self, organization: UUID | None = None) -> None:
        """Read the secrets of an organization again at the next call; None means of all organizations.

        Other processes notice a changed secret within `SECRETS_TTL_S`.
        """
        if organization is None:
            self._secrets.clear()
        else:
            self._secrets.pop(organization, None)

    # -- the services: `organization` is the one that the call is made for, None is the installation itself --------------

    async def stripe(self, organization: UUID | None, /) -> Stripe:
        return await self._get("stripe", organization)

    async def paypal(self, organization: UUID | None, /) -> PayPal:
        return await self._get("paypal", organization)

    async def calcom(self, organization: UUID | None, /) -> CalCom:
        return await self._get("calcom", organization)

    async def hubspot(self, organization: UUID | None, /) -> HubSpot:
        return await self._get("hubspot", organization)

    async def ga4(self, organization: UUID | None, /) -> Ga4:
        return await self._get("ga4", organization)

    async def mixpanel(self, organization: UUID | None, /) -> Mixpanel:
        return await self._get("mixpanel", organization)

    async def segment(self, organization: UUID | None, /) -> Segment:
        return await self._get("segment", organization)

    async def posthog(self, organization: UUID | None, /) -> PostHog:
        return await self._get("posthog", organization)

    async def daily(self, organization: UUID | None, /) -> Daily:
        return await self._get("daily", organization)

    async def twilio(self, organization: UUID | None, /) -> Twilio:
        return await self._get("twilio", organization)

    async def whatsapp(self, organization: UUID | None, /) -> WhatsApp:
        return await self._get("whatsapp", organization)

    async def slack(self, organization: UUID | None, /) -> Slack:
        return await self._get("slack", organization)

    async def brevo(self, organization: UUID | None, /) -> Brevo:
        return await self._get("brevo", organization)

    async def openai(self, organization: UUID | None, /) -> OpenAI:
        """Return the chat client of OpenAI, or of a service with the same API at `ONCEWARD_OPENAI_URL`."""
        return await self._get("openai", organization)

    @property
    def files(self) -> Files:
        if "files" in self._replaced:
            return self._replaced["files"]
        if self._files is None:
            self._files = Files.at(self.settings.files_url, self.settings.data_dir)
        return self._files

    async def aclose(self) -> None:
        if self._http is not None:
            http, self._http = self._http, None
            await http.aclose()
        self._replaced.clear()
        self._clients.clear()
        self._secrets.clear()
        self._store = None
        self._files = None

    # -- accounts --------------------------------------------------------------------------------------------------------

    async def is_configured(self, name: ServiceName, organization: UUID | None, /) -> bool:
        """Whether the organization can use the service: through its own account or the installation's."""
        if name in self._replaced:
            return True
        try:
            await self._account(name, organization)
        except NotSet:
            return False
        return True

    async def has_own_account(self, name: ServiceName, organization: UUID, /) -> bool:
        """Whether the organization has an account of its own at the service, complete or not."""
        secrets = await self._secrets_of(organization)
        return any(f"{name}.{each.name}" in secrets for each in CATALOG[name].fields if not each.shared)

    async def _get(self, name: str, organization: UUID | None) -> Any:
        if (replaced := self._replaced.get(name)) is not None:
            return replaced
        http = self._opened()
        account = await self._account(name, organization)
        service = self._clients.get(account)
        if service is None:
            from .clients import BUILD  # imports the clients of all services

            service = self._clients[account] = BUILD[name](http, account, self.settings)
            _shrink(self._clients)
        else:
            self._clients.move_to_end(account)
        return service

    async def _account(self, name: str, organization: UUID | None) -> ServiceAccount:
        secrets = None if organization is None else await self._secrets_of(organization)
        return resolve_account(name, self.settings, organization=organization, secrets=secrets)

    async def _secrets_of(self, organization: UUID) -> Mapping[str, str]:
        if self._store is None:
            return {}
        self._opened()
        if (fresh := self._fresh(organization)) is not None:
            return fresh
        async with self._reading:
            if (fresh := self._fresh(organization)) is not None:
                return fresh
            # The time before the read: a secret that changes during it is read again soon enough.
            started = time.monotonic()
            secrets = await self._store.read(organization, _SECRET_NAMES)
            self._secrets[organization] = (started, secrets)
            _shrink(self._secrets)
            return secrets

    def _fresh(self, organization: UUID) -> Mapping[str, str] | None:
        kept = self._secrets.get(organization)
        return kept[1] if kept is not None and time.monotonic() - kept[0] < SECRETS_TTL_S else None

    def _opened(self) -> ServiceClient:
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:  # a session works only in the loop that opened it
            from onceward.http import ServiceClient

            self._http, self._loop = ServiceClient(), loop
            self._clients.clear()
            self._reading = asyncio.Lock()
        return self._http


def _shrink(cache: OrderedDict[Any, Any]) -> None:
    while len(cache) > _MAX_CACHED:
        cache.popitem(last=False)
