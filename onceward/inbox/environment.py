"""Read sources from environment variables.

`ONCEWARD_SOURCE_STRIPE_SECRET=whsec_...` is enough for `POST /webhooks/stripe`. The part before the last word is the
source's name. `_PROVIDER` is required if the name is not the name of a provider. docs/inbox.md lists the variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import orjson

from onceward.inbox.source import NAME, Secret
from onceward.webhooks.provider import ConfigError
from onceward.webhooks.registry import PROVIDERS, nearest_providers

PREFIX = "ONCEWARD_SOURCE_"
WORDS = (
    "REQUESTS_AT_ONCE",
    "REQUESTS_PER_S",
    "MAX_BODY_BYTES",
    "RETENTION_DAYS",
    "ORGANIZATION",
    "PUBLIC_URL",
    "RATE_PER_S",
    "TOLERANCE_S",
    "ORDERING",
    "PROVIDER",
    "OPTIONS",
    "SECRET",
    "MODE",
    "APP",
)
TRUE = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Declaration:
    """A source as the environment describes it. Its secrets stay in the environment."""

    name: str
    provider: str
    secrets: tuple[Secret, ...] = field(repr=False)
    values: Mapping[str, Any]
    hidden: Mapping[str, Any] = field(repr=False)
    organization: str | None = None

    @property
    def webhook_id(self) -> UUID:
        """Return an id that is the same on every node, so that all nodes detect each other's duplicates."""
        return uuid5(NAMESPACE_URL, f"onceward:source:{self.name}")


def read(environ: Mapping[str, str], *, public_url: str | None = None) -> list[Declaration]:
    """Return every source that the environment declares. Raise ConfigError for a variable that cannot be used."""
    by_name: dict[str, dict[str, str]] = {}
    for variable, value in environ.items():
        upper = variable.upper()
        if not upper.startswith(PREFIX) or not value:
            continue
        rest = upper.removeprefix(PREFIX)
        word = next((word for word in WORDS if rest.endswith("_" + word)), None)
        if word is None:
            raise ConfigError(f"{variable} is not a source setting: it must end in _{', _'.join(WORDS)}")
        name = rest.removesuffix("_" + word).lower().replace("_", "-")
        by_name.setdefault(name, {})[word] = value
    return [_declare(name, words, public_url) for name, words in sorted(by_name.items())]


def variable_of(source: str) -> str:
    """Return the beginning of the variables of a source."""
    return PREFIX + source.upper().replace("-", "_")


def _declare(name: str, words: Mapping[str, str], public_url: str | None) -> Declaration:
    variable = variable_of(name)
    provider = words.get("PROVIDER", name).lower()
    if provider not in PROVIDERS:
        raise ConfigError(f"{variable}_PROVIDER={provider!r} is not known: {nearest_providers(provider)}")
    if (app := words.get("APP")) is not None and not NAME.match(app):
        raise ConfigError(f"{variable}_APP={app!r} is not the name of an app: use 1-63 of a-z, 0-9, - and _")
    options = _options(variable, words.get("OPTIONS", "{}"))
    values: dict[str, Any] = {
        "mode": words.get("MODE", "ack"),
        "public_url": words.get("PUBLIC_URL", public_url),
        "tolerance_s": _number(variable, words, "TOLERANCE_S", PROVIDERS[provider].tolerance_s),
        "ordering": words.get("ORDERING", "").lower() in TRUE,
        "rate_per_s": float(words["RATE_PER_S"]) if "RATE_PER_S" in words else None,
        "requests_per_s": float(words["REQUESTS_PER_S"]) if "REQUESTS_PER_S" in words else None,
        "requests_at_once": _number(variable, words, "REQUESTS_AT_ONCE", None),
        "max_body_bytes": _number(variable, words, "MAX_BODY_BYTES", 1 << 20),
        "retention_days": _number(variable, words, "RETENTION_DAYS", None),
        "app": words.get("APP"),
    }
    secrets = tuple(Secret(text.strip()) for text in words.get("SECRET", "").split(",") if text.strip())
    return Declaration(name, provider, secrets, values, options, words.get("ORGANIZATION"))


def _options(variable: str, text: str) -> dict[str, Any]:
    try:
        options = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{variable}_OPTIONS is not JSON: {error}") from None
    if not isinstance(options, dict):
        raise ConfigError(f"{variable}_OPTIONS must be a JSON object")
    return options  # pyright: ignore[reportUnknownVariableType]


def _number(variable: str, words: Mapping[str, str], word: str, default: int | None) -> int | None:
    text = words.get(word)
    if text is None:
        return default
    if not text.isdigit():
        raise ConfigError(f"{variable}_{word}={text!r} must be a whole number")
    return int(text)
