"""How the school of an organization looks: its name, colour and domain, on pages and in mails.

Without anything set, the name of the organization and the colours of the platform are used. The domain is set by an
administrator of the instance (`onceward learning domain`), because an organization could otherwise take a domain that
belongs to another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.learning import users
from onceward_apps.learning.app import app
from onceward_apps.learning.errors import InvalidRequest, LearningError
from onceward_apps.learning.store import schools as rows

COLOUR = "#1d5fd0"
"""The colour of links and buttons of a school that has chosen none."""
MIN_CONTRAST = 4.5
"""The least contrast of text that everybody can read (WCAG AA)."""
HEX = re.compile(r"#[0-9a-f]{6}")
DOMAIN = re.compile(r"(?=.{4,253}$)([a-z0-9](-?[a-z0-9])*\.)+[a-z]{2,63}")


@dataclass(frozen=True, slots=True)
class Brand:
    """What students see of a school. `colour` is None if it has chosen none."""

    organization: UUID
    slug: str
    name: str
    colour: str | None
    website: str | None
    support_email: str | None
    domain: str | None

    def rebased(self, url: str) -> str:
        """Return one of our addresses at the domain of the school."""
        ours = f"{app.services.settings.url}/learn"
        if self.domain is None or not url.startswith(ours):
            return url
        return f"https://{self.domain}/learn{url.removeprefix(ours)}"


async def brand_of(tx: Tx) -> Brand:
    """Return the look of the organization that the transaction acts for."""
    row = await rows.find(tx)
    return Brand(
        row["organization_id"],
        row["slug"],
        row["name"],
        row["colour"],
        row["website"],
        row["support_email"],
        row["domain"],
    )


async def set_look(
    tx: Tx, *, name: str, colour: str, website: str | None = None, support_email: str | None = None, actor: str
) -> Brand:
    """Set the name, colour and addresses of a school."""
    name, colour = " ".join(name.split()), colour.strip().lower()
    if not 1 <= len(name) <= 200:
        raise InvalidRequest(f"name has {len(name)} characters: 1 to 200 are allowed")
    if not HEX.fullmatch(colour):
        raise InvalidRequest(f"colour is {colour[:20]!r}: write it as #1d5fd0")
    if contrast(colour, "#ffffff") < MIN_CONTRAST:
        raise InvalidRequest(f"colour {colour} cannot be read on white: choose a darker one")
    if website and not re.fullmatch(r"https?://[^\s\"'<>]{3,490}", website):
        raise InvalidRequest(f"website is {website[:80]!r}: write it as https://example.org")
    email = users.checked_email(support_email) if support_email else None
    known = await brand_of(tx)
    if (known.name, known.colour, known.website, known.support_email) == (name, colour, website or None, email):
        return known
    await rows.set_look(tx, name, colour, website or None, email)
    changes = {"name": name, "colour": colour}
    await tx.audit("school_changed", entity_type="School", entity_id=tx.organization, changes=changes, actor=actor)
    return await brand_of(tx)


async def set_domain(tx: Tx, domain: str | None, *, actor: str) -> None:
    """Give the school of the organization its own domain, or take it away. Only for administrators of the instance."""
    domain = None if domain is None else domain.strip().lower()
    if domain is not None and not DOMAIN.fullmatch(domain):
        raise InvalidRequest(f"domain is {domain[:80]!r}: write it as learn.example.org")
    if domain is not None and await rows.owner(tx, domain) not in (None, tx.organization):
        raise LearningError(f"another organization has the domain {domain}")
    await rows.set_domain(tx, domain, COLOUR)
    changes = {"domain": domain}
    await tx.audit("school_domain_set", entity_type="School", entity_id=tx.organization, changes=changes, actor=actor)


async def in_mail(tx: Tx, data: Mapping[str, Any], brand: Brand | None = None) -> dict[str, Any]:
    """Return the data of a mail with the look of the school: its name, its colour, and links to its domain."""
    brand = brand or await brand_of(tx)
    look: dict[str, Any] = {"_brand": brand.name}
    if brand.colour is not None:
        look["_colour"] = brand.colour
    return look | {key: brand.rebased(value) if isinstance(value, str) else value for key, value in data.items()}


# -- colours -----------------------------------------------------------------------------------------------------------


def style(colour: str) -> str:
    """Return the style sheet of a colour, for light and for dark screens."""
    on_dark = lighter(colour)
    return (
        f":root {{ --accent: {colour}; --on-accent: #ffffff; }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ --accent: {on_dark}; --on-accent: #0b1320; }} }}\n"
    )


def lighter(colour: str) -> str:
    """Return the colour, mixed with as much white as it needs to be read on a dark page."""
    for part in range(11):
        mixed = "#" + "".join(f"{round(each + (255 - each) * part / 10):02x}" for each in _channels(colour))
        if contrast(mixed, "#18212b") >= MIN_CONTRAST:
            return mixed
    return "#ffffff"


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG defines it: 1 to 21."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    parts = [each / 255 for each in _channels(colour)]
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
