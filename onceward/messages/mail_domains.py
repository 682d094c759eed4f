"""The domains that mail is sent from: the sender of an organization, and the DKIM key of its domain, encrypted in the
database.

A key signs after `onceward mail check` has found its public half in DNS, because a signature that cannot be verified is
worse than none. That is also the proof that an organization owns the domain: without it, its mail is sent from the
installation's address.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parseaddr
from functools import lru_cache
from typing import Any
from uuid import UUID, uuid4

from onceward.db import Connection, Database, Transaction
from onceward.errors import OncewardError
from onceward.messages.dkim import DkimKey, new_key, read_key, signed
from onceward.settings import Settings
from onceward.statements import read_statement
from onceward.trust import record
from onceward.trust.secrets import SecretBox, secret_box

TABLE, ROW, COLUMN = "onceward.mail_domains", "id", "private_key"
FIND = """
select id, domain, selector, sender, private_key from onceward.mail_domains
 where organization_id is not distinct from $1 and verified_at is not null order by created_at
"""
LIST = """
select d.id, d.organization_id, d.domain, d.selector, d.sender, d.created_at, d.verified_at from onceward.mail_domains d
 order by d.created_at
"""
ADD = read_statement("messages", "add_mail_domain")
VERIFIED = "update onceward.mail_domains set verified_at = case when $2 then onceward.now() end where id = $1"
REMOVE = """
delete from onceward.mail_domains where organization_id is not distinct from $1 and domain = $2 returning id
"""
KEPT_S = 60.0
MOST_KEPT = 1000


def bounce_secrets(settings: Settings) -> tuple[bytes, ...]:
    """Return the keys of the codes in envelope senders, the newest first."""
    return secret_box(settings).derived(b"bounce addresses")


class DomainExists(OncewardError):
    """The domain has a key already. Remove it first: the new key needs a new DNS record."""


@lru_cache(maxsize=1024)
def _address_of(sender: str) -> str:
    return parseaddr(sender)[1]


@dataclass(frozen=True, slots=True)
class MailIdentity:
    """Who a mail is from: the sender as `Name <address>`, and the key that signs, if there is one."""

    sender: str
    key: DkimKey | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return _address_of(self.sender)

    def sign(self, content: bytes) -> bytes:
        """Return the mail, signed if there is a key for the domain of the sender."""
        return content if self.key is None else signed(content, self.key)


class MailIdentities:
    """The identity of each organization, read from the database at most once a minute."""

    def __init__(self, db: Database, box: Callable[[], SecretBox], default_sender: str) -> None:
        self._db = db
        self._box = box
        self._default = default_sender
        self._kept: dict[UUID | None, tuple[float, MailIdentity]] = {}

    async def find(self, organization: UUID | None) -> MailIdentity:
        """Return the identity of an organization, or that of the installation if it has none."""
        now = time.monotonic()
        kept = self._kept.get(organization)
        if kept is not None and kept[0] > now:
            return kept[1]
        identity = await self._read(organization)
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[organization] = (now + KEPT_S, identity)
        return identity

    async def _read(self, organization: UUID | None) -> MailIdentity:
        rows = await self._db.fetch(FIND, organization)
        if organization is not None:
            own = next((row for row in rows if row["sender"]), None)
            if own is None:
                return await self.find(None)
            return MailIdentity(own["sender"], _opened(self._box(), own))
        domain = parseaddr(self._default)[1].rpartition("@")[2].lower()
        row = next((row for row in rows if row["domain"] == domain), None)
        return MailIdentity(self._default, None if row is None else _opened(self._box(), row))


def _opened(box: SecretBox, row: Any) -> DkimKey:
    pem = box.open(row["private_key"], table=TABLE, row=row["id"], column=COLUMN)
    return read_key(row["domain"], row["selector"], pem)


async def add_domain(
    tx: Transaction,
    box: SecretBox,
    domain: str,
    *,
    organization: UUID | None,
    sender: str | None,
    selector: str,
    by: str,
) -> DkimKey:
    """Create a key for a domain. It signs nothing before its DNS record is found. Raises `DomainExists`, ValueError."""
    domain = domain.strip().lower().rstrip(".")
    if "." not in domain or any(each.isspace() for each in domain) or "@" in domain:
        raise ValueError(f"{domain!r} is not a domain, such as mail.example.org")
    if sender is not None and parseaddr(sender)[1].rpartition("@")[2].lower() != domain:
        raise ValueError(f"the sender must be an address of {domain}, such as `Example <hello@{domain}>`")
    id, key = uuid4(), new_key(domain, selector)
    sealed = box.seal(key.as_pem(), table=TABLE, row=id, column=COLUMN)
    if not await tx.fetchval(ADD, id, organization, domain, selector, sender, sealed):
        raise DomainExists(f"{domain} has a key already: remove it with `onceward mail domains rm {domain}` first")
    await record(
        tx, "mail.domain_add", entity_type="mail_domain", entity_id=domain, actor=by, organization=organization
    )
    return key


async def remove_domain(tx: Transaction, domain: str, *, organization: UUID | None, by: str) -> bool:
    """Remove a domain and its key. Mail is then sent unsigned, and from the installation's address."""
    if await tx.fetchval(REMOVE, organization, domain.lower()) is None:
        return False
    await record(
        tx, "mail.domain_remove", entity_type="mail_domain", entity_id=domain, actor=by, organization=organization
    )
    return True


async def list_domains(db: Database | Connection | Transaction) -> list[dict[str, Any]]:
    """Return all domains, without their keys."""
    return [dict(row) for row in await db.fetch(LIST)]


async def load_keys(db: Database, box: SecretBox) -> list[tuple[UUID, DkimKey]]:
    """Return the key of every domain with the id of its row."""
    rows = await db.fetch("select id, domain, selector, private_key from onceward.mail_domains order by created_at")
    return [(row["id"], _opened(box, row)) for row in rows]


async def mark_verified(tx: Transaction, id: UUID, *, is_verified: bool) -> None:
    """Store whether DNS has the record of a key. Only then the key signs."""
    await tx.execute(VERIFIED, id, is_verified)
