"""The school of an organization: its name in mails, and its own domain for pages and links.

The look of pages is the engine's (`onceward.look`). The domain is set by an administrator of the instance (`onceward
learning domain`), because an organization could otherwise take a domain that belongs to another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.learning.app import app
from onceward_apps.learning.errors import InvalidRequest, LearningError
from onceward_apps.learning.store import schools as rows

DOMAIN = re.compile(r"(?=.{4,253}$)([a-z0-9](-?[a-z0-9])*\.)+[a-z]{2,63}")


@dataclass(frozen=True, slots=True)
class School:
    """The name of an organization, and the domain of its school if it has one."""

    organization: UUID
    slug: str
    name: str
    domain: str | None

    def rebased(self, url: str) -> str:
        """Return one of our addresses at the domain of the school."""
        ours = f"{app.services.settings.url}/learn"
        if self.domain is None or not url.startswith(ours):
            return url
        return f"https://{self.domain}/learn{url.removeprefix(ours)}"


async def school_of(tx: Tx) -> School:
    """Return the school of the organization that the transaction acts for."""
    row = await rows.find(tx)
    return School(row["organization_id"], row["slug"], row["name"], row["domain"])


async def set_domain(tx: Tx, domain: str | None, *, actor: str) -> None:
    """Give the school of the organization its own domain, or take it away. Only for administrators of the instance."""
    domain = None if domain is None else domain.strip().lower()
    if domain is not None and not DOMAIN.fullmatch(domain):
        raise InvalidRequest(f"domain is {domain[:80]!r}: write it as learn.example.org")
    if domain is not None and await rows.owner(tx, domain) not in (None, tx.organization):
        raise LearningError(f"another organization has the domain {domain}")
    await rows.set_domain(tx, domain)
    changes = {"domain": domain}
    await tx.audit("school_domain_set", entity_type="School", entity_id=tx.organization, changes=changes, actor=actor)


async def in_mail(tx: Tx, data: Mapping[str, Any], school: School | None = None) -> dict[str, Any]:
    """Return the data of a mail with the name of the school, and links to its domain."""
    school = school or await school_of(tx)
    links = {key: school.rebased(value) if isinstance(value, str) else value for key, value in data.items()}
    return {"_brand": school.name, **links}
