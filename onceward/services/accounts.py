"""The account with which a service is called: an organization's own, or the installation's.

The fields of the installation's account are settings. An organization may have an account of its own: each field is
then a secret of the organization, named `SERVICE.FIELD` (`onceward secrets set ORG acme.api_key`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pydantic import SecretStr

from onceward.integration import AccountField, Integration, integrations
from onceward.settings import FeatureSettings, prefix_of

from .errors import NotSet


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The resolved account of one service. Equal accounts share one client.

    `url` is the address of a simulator, or None for the service itself. It is always the installation's: if an
    organization could set it, it could make this server call internal hosts.
    """

    service: str
    url: str | None
    values: tuple[tuple[str, str | None], ...] = field(repr=False)
    settings: Any = field(default=None, repr=False, hash=False)
    """The other settings of the integration, as its model has read them."""

    def get(self, name: str) -> str | None:
        return dict(self.values)[name]

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value


def callable_services() -> dict[str, Integration]:
    """Return the integrations with a client, by name."""
    return {each.name: each for each in integrations().having("client")}


def check_secret_name(name: str) -> None:
    """Raise `NotSet` unless the name is `SERVICE.FIELD` of a known service."""
    known = callable_services()
    declared = known.get(name.partition(".")[0])
    if declared is None:
        raise NotSet(f"{name!r} does not name a service: write SERVICE.FIELD with one of {', '.join(sorted(known))}")
    if name not in declared.secret_names:
        raise NotSet(f"{name!r} is not a field of {declared.title}: its fields are {', '.join(declared.secret_names)}")


def resolve_account(
    declared: Integration,
    given: FeatureSettings,
    *,
    simulator: str | None = None,
    organization: UUID | None = None,
    secrets: Mapping[str, str] | None = None,
) -> ServiceAccount:
    """Return the account of an organization, or the installation's if the organization has none.

    `given` are the settings of the integration, `simulator` is the address of what stands for the service.
    """
    service = declared.name
    own = {
        each.name: (secrets or {})[f"{service}.{each.name}"]
        for each in declared.account
        if f"{service}.{each.name}" in (secrets or {})
    }
    has_account = any(not each.shared and each.name in own for each in declared.account)
    values: list[tuple[str, str | None]] = []
    for each in declared.account:
        value = own.get(each.name)
        if value is None and (each.shared or not has_account):
            value = _plain(getattr(given, each.name))
        if value is None and each.required and simulator is not None and (each.shared or not has_account):
            value = each.simulated
        if value is None and each.required:
            raise NotSet(_explain(declared, each, organization if has_account else None))
        values.append((each.name, value))
    return ServiceAccount(service, None if simulator is None else simulator.rstrip("/"), tuple(values), given)


def _plain(value: str | SecretStr | None) -> str | None:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _explain(declared: Integration, missing: AccountField, owner: UUID | None) -> str:
    secret = f"{declared.name}.{missing.name}"
    if owner is not None:
        return (
            f"organization {owner} has an account of its own at {declared.title}, but its secret {secret} is missing: "
            f"run `onceward secrets set {owner} {secret}`"
        )
    return (
        f"{prefix_of(declared.name)}{missing.name.upper()} is not set: set it to use {declared.title} for every "
        f"organization, or run `onceward secrets set ORG {secret}` for one organization"
    )
