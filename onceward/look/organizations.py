"""The look of an organization: how its public pages name it, its colour and its logo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from uuid import UUID

LOGO_TYPES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"RIFF": "image/webp"}
"""The beginnings of the files that a logo may be. SVG is not among them: it can contain scripts."""
MOST_LOGO_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class Brand:
    """Whose public page it is: `Brand(organization_id, "Riverside Hall", "/events")`."""

    id: UUID | str
    name: str
    home: str
    """The address behind the name in the bar."""


class Reader(Protocol):
    """A transaction, of the engine or of an app."""

    async def fetchrow(self, query: str, /, *args: Any) -> Any: ...


class Look(NamedTuple):
    """The colour and the logo of one organization."""

    accent: str = ""
    logo: bytes | None = None
    logo_type: str = ""


async def read_look(tx: Reader, organization: UUID) -> Look:
    """Return the look of an organization. One that chose nothing has the usual one."""
    row = await tx.fetchrow(
        "select accent, logo, logo_type from onceward.organization_looks where organization_id = $1", organization
    )
    return Look() if row is None else Look(*row)


async def brand_of(tx: Reader, organization: UUID | None, home: str) -> Brand | None:
    """Return whose page it is. `home` is the address behind the name: `/learn/o/{slug}`."""
    row = await tx.fetchrow("select slug, name from onceward.organizations where organization_id = $1", organization)
    return None if row is None else Brand(organization or "", row["name"], home.format(slug=row["slug"]))


def logo_type(content: bytes) -> str | None:
    """Return the media type of a logo by its first bytes, or None if it is not a picture that pages may show."""
    return next((kind for begins, kind in LOGO_TYPES.items() if content.startswith(begins)), None)
