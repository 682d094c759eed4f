"""The webhook providers of the installed integrations, by the name that a source uses."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from onceward.integration import IntegrationError, integrations
from onceward.webhooks.provider import ConfigError, Provider
from onceward.webhooks.samples import Samples

if TYPE_CHECKING:
    from onceward.webhooks.events import Events


class Providers(Mapping[str, Provider]):
    """The providers by name. One is imported and created when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Provider] = {}

    def __getitem__(self, name: str) -> Provider:
        made = self._made.get(name)
        if made is None:
            if name not in self:
                raise KeyError(name)
            declared = integrations().load(name, "webhooks")
            made = declared if isinstance(declared, Provider) else declared()
            if not made.name:
                object.__setattr__(made, "name", name)  # a sender is named by its folder
            if made.name != name:
                raise IntegrationError(
                    f"the integration {name!r} has a provider that is named {made.name!r}: rename one"
                )
            if not made.samples:
                events: Events | None = getattr(made, "events", None)
                folder = integrations().folder_of(name) / "samples"
                # A declared sender is frozen: this is the last change to it.
                samples = Samples.of_folder(folder, id_path=events and events.sample_id_path)
                object.__setattr__(made, "samples", samples)
            self._made[name] = made
        return made

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and integrations().sends_webhooks(name)

    def __iter__(self) -> Iterator[str]:
        return iter(integrations().names_having("webhooks"))

    def __len__(self) -> int:
        return len(integrations().names_having("webhooks"))


PROVIDERS: Final = Providers()
"""The senders of webhooks by name."""


def nearest_providers(name: str) -> str:
    """Return a hint about the providers with similar names. There are too many to list all."""
    near = difflib.get_close_matches(name.lower(), PROVIDERS, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{hint}`onceward integrations ls` lists the {len(PROVIDERS)} that are; for another sender use generic"


def get_provider(name: str) -> Provider:
    """Return the provider with this name. Raise ConfigError, with similar names, if there is none."""
    provider = PROVIDERS.get(name)
    if provider is None:
        raise ConfigError(f"provider {name!r} is not known: {nearest_providers(name)}", field="provider")
    return provider
