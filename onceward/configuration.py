"""The contract of `onceward apply`: a feature declares sections of the file, each of which plans its changes.

A section reads its part of the file with a model, compares it with the database and returns changes. The command shows
them, and runs them if it may. What it created is in `onceward.configured`, so that `--prune` can delete what has gone
from the file, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict

from onceward.errors import OncewardError

if TYPE_CHECKING:
    from uuid import UUID

    from onceward.db import Database
    from onceward.settings import Settings

FOLDER: ContextVar[Path] = ContextVar("folder of the file")
HIDDEN = "(secret)"
MOST_SECRET_BYTES = 64 << 10


class ConfigurationRefused(OncewardError):
    """The file cannot be applied. The message names the section, the entry and the field."""


class Entry(BaseModel):
    """One entry of a section. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


def read_reference(value: Any) -> str:
    """Return the secret that a reference names. Raises ValueError."""
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    match given:
        case {"env": str(name)} if len(given) == 1:
            if not (text := os.environ.get(name, "")):
                raise ValueError(f"the environment variable {name} is not set")
            return text
        case {"file": str(name)} if len(given) == 1:
            path = FOLDER.get() / name
            try:
                text = path.read_bytes()[: MOST_SECRET_BYTES + 1].decode().strip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"{path} cannot be read: {type(error).__name__}") from None
            if not text or len(text) > MOST_SECRET_BYTES:
                raise ValueError(f"{path} must have 1 to {MOST_SECRET_BYTES} bytes")
            return text
        case _:
            raise ValueError("must be a reference: {env: NAME} or {file: PATH}; secrets do not belong in the file")


SecretText = Annotated[str, BeforeValidator(read_reference)]
"""A secret by reference: `{env: SHOP_SECRET}` or `{file: secrets/shop}`."""


@dataclass(frozen=True, slots=True)
class Changed:
    """One field of a change. Secrets are shown as `(secret)`."""

    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Change:
    """What has to be done to one entry. `run` does it and returns the id of what it created, if it did."""

    action: Literal["create", "change", "delete"]
    name: str
    fields: Mapping[str, Changed]
    run: Callable[[], Awaitable[str | None]] = field(repr=False)


@dataclass(slots=True)
class Applying:
    """What sections need: the database, the settings, who applies, and what the file says."""

    db: Database
    settings: Settings
    actor: str
    ids: Mapping[tuple[str, str], str]
    """The ids of what earlier runs created, by section and name."""
    new_organizations: frozenset[str]
    """Organizations that the file creates."""

    async def organization(self, slug: str | None, where: str) -> UUID | None:
        """Return the id of an organization. Raises `ConfigurationRefused` for one that does not exist."""
        if slug is None:
            return None
        found: UUID | None = await self.db.fetchval(
            "select organization_id from onceward.organizations where slug = $1", slug
        )
        if found is None and slug not in self.new_organizations:
            raise ConfigurationRefused(f"{where}.organization: there is no organization {slug!r}; add it to the file")
        return found

    def awaits(self, slug: str | None, found: UUID | None) -> bool:
        """Return whether the organization is created by this run, and does not exist yet."""
        return slug is not None and found is None


class Section(Protocol):
    """One key of the file. Sections are applied in the order of the features."""

    @property
    def name(self) -> str: ...

    @property
    def entry(self) -> type[Entry]: ...

    async def plan(self, applying: Applying, entries: Mapping[str, Any]) -> list[Change]:
        """Compare the entries with the database. Raises `ConfigurationRefused` for what cannot be done."""
        ...

    async def delete(self, applying: Applying, name: str, id: str) -> Change | None:
        """Return how to delete what an earlier run created, or None if it has gone."""
        ...


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Changed]:
    """Return the fields whose values differ."""
    return {name: Changed(before.get(name), value) for name, value in after.items() if before.get(name) != value}


def all_new(after: Mapping[str, Any]) -> dict[str, Changed]:
    """Return the fields of something that does not exist yet, without empty ones."""
    return {name: Changed(None, value) for name, value in after.items() if value not in (None, [], {}, "", False)}
