"""The services that apps can call, and the fields of an account at each of them.

The fields of the installation's account are settings. An organization may have an account of its own: each field is then
a secret of the organization, named `SERVICE.FIELD` (`onceward secrets set ORG twilio.auth_token`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from pydantic import SecretStr

from onceward.settings import PREFIX, Settings

from .errors import NotSet


@dataclass(frozen=True, slots=True)
class AccountField:
    """One field of an account.

    A `shared` field does not identify the account, so an organization may set it alone, or use the installation's value
    with its own account. All other fields of an organization's account come from the organization.
    """

    name: str
    setting: str
    required: bool = True
    shared: bool = False


@dataclass(frozen=True, slots=True)
class ServiceDeclaration:
    """A service: the fields of an account at it, and the setting with the URL of its API.

    The URL is always the installation's. If an organization could set it, it could make this server call internal hosts.
    """

    name: str
    title: str
    url_setting: str
    fields: tuple[AccountField, ...]

    @property
    def secret_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}.{each.name}" for each in self.fields)


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The resolved account of one service. Equal accounts share one client."""

    service: str
    url: str
    values: tuple[tuple[str, str | None], ...] = field(repr=False)

    def get(self, name: str) -> str | None:
        return dict(self.values)[name]

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value


def _service(name: str, title: str, *fields: str, optional: tuple[str, ...] = (), shared: tuple[str, ...] = ()):
    every = (
        *(AccountField(each, f"{name}_{each}") for each in fields),
        *(AccountField(each, f"{name}_{each}", required=False) for each in optional),
        *(AccountField(each, f"{name}_{each}", shared=True) for each in shared),
    )
    return ServiceDeclaration(name, title, f"{name}_url", every)


_DECLARED = (
    _service("stripe", "Stripe", "secret_key"),
    _service("paypal", "PayPal", "client_id", "client_secret"),
    _service("calcom", "Cal.com", "api_key"),
    _service("hubspot", "HubSpot", "token"),
    _service("ga4", "Google Analytics 4", "measurement_id", "api_secret"),
    _service("mixpanel", "Mixpanel", "secret", optional=("username", "project_id")),
    _service("segment", "Segment", "write_key"),
    _service("posthog", "PostHog", "project_token"),
    _service("daily", "Daily", "api_key"),
    _service("twilio", "Twilio", "account_sid", "auth_token", optional=("from",)),
    _service("whatsapp", "WhatsApp", "access_token", "phone_number_id"),
    _service("slack", "Slack", "bot_token", optional=("channel",)),
    ServiceDeclaration(
        "brevo",
        "Brevo",
        "brevo_url",
        (AccountField("api_key", "brevo_api_key"), AccountField("from", "mail_from", shared=True)),
    ),
    _service("openai", "OpenAI or a compatible API", "api_key", shared=("model",)),
)
CATALOG: Mapping[str, ServiceDeclaration] = {each.name: each for each in _DECLARED}


def check_secret_name(name: str) -> None:
    """Raise `NotSet` unless the name is `SERVICE.FIELD` of a known service."""
    service, _, _ = name.partition(".")
    declared = CATALOG.get(service)
    if declared is None:
        raise NotSet(f"{name!r} does not name a service: write SERVICE.FIELD with one of {', '.join(sorted(CATALOG))}")
    if name not in declared.secret_names:
        raise NotSet(f"{name!r} is not a field of {declared.title}: its fields are {', '.join(declared.secret_names)}")


def resolve_account(
    service: str, settings: Settings, *, organization: UUID | None = None, secrets: Mapping[str, str] | None = None
) -> ServiceAccount:
    """Return the account of an organization, or the installation's if the organization has none."""
    declared = CATALOG[service]
    own = {
        each.name: (secrets or {})[f"{service}.{each.name}"]
        for each in declared.fields
        if f"{service}.{each.name}" in (secrets or {})
    }
    has_account = any(not each.shared and each.name in own for each in declared.fields)
    values: list[tuple[str, str | None]] = []
    for each in declared.fields:
        value = own.get(each.name)
        if value is None and (each.shared or not has_account):
            value = _plain(getattr(settings, each.setting))
        if value is None and each.required:
            raise NotSet(_explain(declared, each, organization if has_account else None))
        values.append((each.name, value))
    return ServiceAccount(service, str(getattr(settings, declared.url_setting)).rstrip("/"), tuple(values))


def _plain(value: str | SecretStr | None) -> str | None:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _explain(declared: ServiceDeclaration, missing: AccountField, owner: UUID | None) -> str:
    secret = f"{declared.name}.{missing.name}"
    if owner is not None:
        return (
            f"organization {owner} has an account of its own at {declared.title}, but its secret {secret} is missing: "
            f"run `onceward secrets set {owner} {secret}`"
        )
    return (
        f"{PREFIX}{missing.setting.upper()} is not set: set it to use {declared.title} for every organization, or run "
        f"`onceward secrets set ORG {secret}` for one organization"
    )
