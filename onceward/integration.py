"""The contract between a service and the rest of Onceward: an `Integration` lists everything that its folder
contributes.

Each folder of `onceward/integrations` declares one in its `integration.py`; another distribution declares one as an
entry point of the group `onceward.integrations`. This module names no service. Everything heavy is a reference
(`package.module:name`) that is imported when it is first needed, so that `onceward --help` imports no service.

A folder that only has a `sender.py` is a sender of webhooks and nothing else. It is known by the name of its
folder, and imported when a source uses it: a process starts as fast with two hundred senders as with ten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from onceward.errors import OncewardError
from onceward.feature import Reference, resolve

__all__ = ["AccountField", "Integration", "integrations"]

GROUP = "onceward.integrations"
"""The entry point group of integrations in other distributions, and the package of the built-in ones."""
BUILT_IN = Path(__file__).parent / "integrations"
HERE: Final = "onceward"
"""The distribution of the built-in integrations."""


class IntegrationError(OncewardError):
    """An integration cannot be used: its entry point cannot be loaded, or two have one name."""


@dataclass(frozen=True, slots=True)
class AccountField:
    """One field of an account at a service. The installation's value is the setting `ONCEWARD_<NAME>_<FIELD>`.

    An organization may set its own value as the secret `<name>.<field>`. A `shared` field does not identify the
    account, so an organization may set it alone, or use the installation's value with its own account. All other fields
    of an organization's account come from the organization.
    """

    name: str
    description: str
    secret: bool = False
    required: bool = True
    shared: bool = False
    simulated: str | None = "simulated"
    """The value that is used if nothing is set and a simulator stands for the service. None: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration:
    """Everything that one service contributes. Only `name` and `title` are required."""

    name: str
    """The name in `app.services.NAME`, `sources add --provider NAME`, `trigger NAME` and `ONCEWARD_NAME_...`."""
    title: str
    """How people write the name of the service."""

    # -- what the service sends to us
    webhooks: Reference | None = None
    """What verifies and reads its webhooks: a class or value (`onceward.webhooks.Provider`,
    `onceward.webhooks.sender.Sender`)."""
    kept_headers: tuple[str, ...] = ()
    """Further headers that are stored with an event. They must contain neither credentials nor personal data."""
    reports: Reference | None = None
    """Its delivery reports (`onceward.messages.reports.DeliveryReports`)."""
    account_events: Reference | None = None
    """Its events about our account (`onceward.messages.service_states.AccountEvents`)."""

    inbound_texts: Reference | None = None
    """The texts of people in its webhooks (`onceward.messages.inbound.InboundTexts`): the engine obeys STOP."""

    # -- what we call
    account: tuple[AccountField, ...] = ()
    """The fields of an account at the service."""
    settings: Reference | None = None
    """A `FeatureSettings` model with settings that are not part of an account; its fields become
    `ONCEWARD_<NAME>_<FIELD>`."""
    client: Reference | None = None
    """The class that calls the service: `connect(http, account)` makes one. If the service has a harmless call that
    needs valid credentials, `await check()` makes it (`onceward services check NAME`)."""

    payments: Reference | None = None
    """The class that takes payments through the service (`onceward.payments.service.PaymentService`)."""

    # -- what we send through it
    channel: Reference | None = None
    """The channel that sends messages through the service (`onceward.messages.Channel`)."""

    # -- what operators do with it
    commands: Reference | None = None
    """Adds commands to the command line: `register(cli: typer.Typer)`."""

    # -- what stands for it
    simulator: Reference | None = None
    """The class that behaves and signs like the service (`onceward.testing.simulators.Simulator`)."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name != self.name.lower():
            raise ValueError(f"an integration's name must be an identifier in lower case, not {self.name!r}")
        names = [each.name for each in self.account]
        if len(set(names)) != len(names):
            raise ValueError(f"integration {self.name!r} declares a field of its account twice: {', '.join(names)}")

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Return the names of the secrets with which an organization sets an account of its own."""
        return tuple(f"{self.name}.{each.name}" for each in self.account)

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Return what the integration can do, in words for people."""
        return tuple(name for name in CAPABILITIES if getattr(self, name) not in (None, ()))


CAPABILITIES = (
    "webhooks",
    "reports",
    "account_events",
    "inbound_texts",
    "client",
    "payments",
    "channel",
    "commands",
    "simulator",
)


@dataclass(frozen=True, slots=True)
class Installed:
    """An integration, the distribution that it comes from, and the folder that declares it, with `README.md` and
    `samples`."""

    integration: Integration
    distribution: str
    folder: Path


class Integrations(Mapping[str, Integration]):
    """Integrations by name, sorted. `senders` are the folders of those that are only senders of webhooks."""

    def __init__(self, given: Iterable[Installed], senders: Mapping[str, Path] | None = None) -> None:
        self._senders = dict(senders or {})
        self._by_name: dict[str, Installed] = {}
        for each in given:
            name = each.integration.name
            if (other := self._by_name.get(name)) is not None or name in self._senders:
                raise IntegrationError(
                    f"two integrations are named {name!r}, one of {other.distribution if other else HERE} and one of "
                    f"{each.distribution}: uninstall one distribution"
                )
            self._by_name[name] = each
        self._read: dict[str, Integration] = {}

    def __getitem__(self, name: str) -> Integration:
        if name in self._by_name:
            return self._by_name[name].integration
        if name not in self._read:
            self._read[name] = _read_sender(name, self._senders[name].name)
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name or name in self._senders

    def __iter__(self) -> Iterator[str]:
        return iter((*self._by_name, *self._senders))

    def __len__(self) -> int:
        return len(self._by_name) + len(self._senders)

    @property
    def senders(self) -> tuple[str, ...]:
        """Return the names of the integrations that are only senders of webhooks, without importing them."""
        return tuple(self._senders)

    def sends_webhooks(self, name: str) -> bool:
        """Return whether an integration of this name sends webhooks, without importing it."""
        return name in self._senders or (name in self._by_name and self._by_name[name].integration.webhooks is not None)

    def names_having(self, capability: str) -> list[str]:
        """Return the names of the integrations that declare this field, without importing any sender."""
        declaring = [name for name in self._by_name if getattr(self[name], capability) not in (None, ())]
        return sorted((*declaring, *self._senders)) if capability == "webhooks" else declaring

    def having(self, capability: str) -> list[Integration]:
        """Return the integrations that declare this field. For `webhooks`, this imports every sender."""
        return [self[name] for name in self.names_having(capability)]

    def distribution_of(self, name: str) -> str:
        """Return the name of the distribution that an integration comes from, with its version if it is not this
        one."""
        return HERE if name in self._senders else self._by_name[name].distribution

    def folder_of(self, name: str) -> Path:
        """Return the folder of an integration, with its `README.md` and `samples`."""
        return self._senders[name] if name in self._senders else self._by_name[name].folder

    def load(self, name: str, capability: str) -> Any:
        """Import and return what an integration declares in this field. Raises KeyError if it declares nothing."""
        declared = getattr(self[name], capability)
        if declared is None:
            raise KeyError(f"{name} has no {capability}")
        return resolve(declared)


@cache
def integrations() -> Integrations:
    """Return the installed integrations: the built-in ones, those of other distributions, and the senders of
    webhooks."""
    folders = sorted(path for path in BUILT_IN.iterdir() if not path.name.startswith(("_", ".")))
    rooms = [path for path in folders if (path / "integration.py").exists()]
    senders = {path.name: path for path in folders if path not in rooms and (path / "sender.py").exists()}
    return Integrations((*_built_in(rooms), *_of_other_distributions()), senders)


def _built_in(folders: Iterable[Path]) -> Iterator[Installed]:
    for folder in folders:
        declared = import_module(f"{GROUP}.{folder.name}.integration").INTEGRATION
        yield Installed(declared, HERE, folder)


def _read_sender(name: str, folder: str) -> Integration:
    """Return the integration that a `sender.py` makes: its value `SENDER` has everything."""
    module = f"{GROUP}.{folder}.sender"
    sender = import_module(module).SENDER
    return Integration(name=name, title=sender.title, webhooks=f"{module}:SENDER", kept_headers=sender.kept_headers)


def _of_other_distributions() -> Iterator[Installed]:
    from importlib.metadata import entry_points  # takes 25 ms to import

    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        try:
            loaded = entry.load()
        except Exception as error:
            raise IntegrationError(
                f"the integration {entry.name!r} ({entry.value}) cannot be loaded: {error}; repair or uninstall its "
                f"distribution"
            ) from error
        if not isinstance(loaded, Integration):
            raise IntegrationError(
                f"the entry point {entry.name!r} of the group {GROUP} is not an Integration: {entry.value}"
            )
        distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
        yield Installed(loaded, distribution, Path(str(import_module(entry.module).__file__)).parent)
