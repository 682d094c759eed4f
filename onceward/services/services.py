"""The external services that an app calls: `await app.services.NAME(organization)` for each integration with a client.

Each accessor takes the organization that the call is made for, and returns a client with that organization's account if
the organization has one, else with the installation's. Importing an app opens no connection. The process passes the
settings and the store of secrets in and closes the connections; tests replace single services through `use`.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from onceward.integration import Integration, integrations
from onceward.settings import load_settings

from .accounts import ServiceAccount, callable_services, resolve_account
from .errors import NotSet
from .files import Files
from .settings import load_integration_settings

if TYPE_CHECKING:
    from onceward.http import ServiceClient
    from onceward.settings import FeatureSettings, Settings

SECRETS_TTL_S = 10.0
"""How long a process uses the secrets of an organization before it reads them again."""
_MAX_CACHED = 1000


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
        self._given: dict[str, FeatureSettings] = {}
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
        self._given.clear()
        self._replaced.clear()
        self._clients.clear()
        self._files = None

    def simulate(self, name: str, url: str) -> None:
        """Call a simulator instead of a service from now on. Everything else stays as it is."""
        simulators = {**self.settings.simulators, integrations()[name].name: url}
        self._settings = self.settings.model_copy(update={"simulators": simulators})
        self._clients.clear()

    def use_secrets(self, store: SecretStore | None) -> None:
        """Read the secrets of organizations from this store; None means that no organization has an account of its
        own."""
        self._store = store
        self.forget_secrets()

    def use(self, name: str, service: Any) -> None:
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

    # -- the services: `organization` is the one that the call is made for, None is the installation itself
    # --------------

    def __getattr__(self, name: str) -> Callable[[UUID | None], Awaitable[Any]]:
        """Return the accessor of a service: `await services.NAME(organization)` returns its client."""
        if name.startswith("_") or name not in callable_services():
            raise AttributeError(f"there is no service {name!r}: the services are {', '.join(callable_services())}")
        return partial(self.get, name)

    async def get(self, name: str, organization: UUID | None, /) -> Any:
        """Return the client of a service by its name."""
        if (replaced := self._replaced.get(name)) is not None:
            return replaced
        http = self._opened()
        account = await self._account(name, organization)
        client = self._clients.get(account)
        if client is None:
            client = self._clients[account] = integrations().load(name, "client").connect(http, account)
            _shrink(self._clients)
        else:
            self._clients.move_to_end(account)
        return client

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

    # -- accounts
    # --------------------------------------------------------------------------------------------------------

    async def is_configured(self, name: str, organization: UUID | None, /) -> bool:
        """Whether the organization can use the service: through its own account or the installation's."""
        if name in self._replaced:
            return True
        try:
            await self._account(name, organization)
        except NotSet:
            return False
        return True

    def is_set(self, name: str) -> bool:
        """Whether the installation has an account at the service."""
        return name in self._replaced or self.installation_account(name) is not None

    def installation_account(self, name: str) -> ServiceAccount | None:
        """Return the installation's account at the service; None if the settings have none."""
        try:
            return self._resolved(name, None, None)
        except NotSet:
            return None

    async def has_own_account(self, name: str, organization: UUID, /) -> bool:
        """Whether the organization has an account of its own at the service, complete or not."""
        secrets = await self._secrets_of(organization)
        return any(f"{name}.{each.name}" in secrets for each in integrations()[name].account if not each.shared)

    async def _account(self, name: str, organization: UUID | None) -> ServiceAccount:
        secrets = None if organization is None else await self._secrets_of(organization)
        return self._resolved(name, organization, secrets)

    def _resolved(self, name: str, organization: UUID | None, secrets: Mapping[str, str] | None) -> ServiceAccount:
        declared = integrations()[name]
        return resolve_account(
            declared,
            self._settings_of(declared),
            simulator=self.settings.simulators.get(name),
            organization=organization,
            secrets=secrets,
        )

    def _settings_of(self, declared: Integration) -> FeatureSettings:
        if declared.name not in self._given:
            self._given[declared.name] = load_integration_settings(declared.name, self.settings)
        return self._given[declared.name]

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
            secrets = await self._store.read(organization, _secret_names())
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


@cache
def _secret_names() -> tuple[str, ...]:
    return tuple(name for declared in callable_services().values() for name in declared.secret_names)


def _shrink(cache: OrderedDict[Any, Any]) -> None:
    while len(cache) > _MAX_CACHED:
        cache.popitem(last=False)
