"""The erasers of trust: accounts, sessions, API keys, system metrics and audit entries."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from onceward.db import Transaction
from onceward.statements import read_statement
from onceward.trust import audit
from onceward.trust.erase import INSTANCE, Eraser, Found, Person

IDS_PER_ENTRY = 1000
WHO = frozenset({"actor", "user_id", "entity_id"})

BLANK_WHO = read_statement("trust", "blank_audit_actor")
BLANK_CONTENT = read_statement("trust", "blank_audit_content")
CLOSE = read_statement("trust", "close_users")


async def close_accounts(tx: Transaction, _person: Person, found: Sequence[Found], organization: UUID | None) -> None:
    """Remove the person from the organization, and close the account if it then belongs to no organization.

    The account of an administrator or of a member of another organization is closed only with `--instance`. The id of a
    closed account is kept, because other rows refer to it.
    """
    ids = [each.key for each in found]
    await tx.execute(
        "delete from onceward.memberships where user_id = any($1) and ($2::uuid is null or organization_id = $2)",
        ids,
        organization,
    )
    closed = [row["user_id"] for row in await tx.fetch(CLOSE, ids, organization)]
    for table in ("sessions", "login_links", "second_factors", "recovery_codes", "provider_accounts"):
        await tx.execute(f"delete from onceward.{table} where user_id = any($1)", closed)


async def blank_entries(tx: Transaction, person: Person, found: Sequence[Found], organization: UUID | None) -> None:
    """Blank the parts of audit entries that name the person, and record the ids of these entries in a new entry."""
    await tx.execute(BLANK_WHO, [each.key for each in found if WHO.intersection(each.columns)])
    await tx.execute(BLANK_CONTENT, [each.key for each in found if set(each.columns) - WHO])
    ids = sorted(each.key for each in found)
    for start in range(0, len(ids), IDS_PER_ENTRY):
        await audit.record(
            tx,
            "audit.erased",
            entity_type="person",
            entity_id=person.hash,
            metadata={"ids": ids[start : start + IDS_PER_ENTRY]},
            actor="system:erase",
            organization=organization,
        )


ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="accounts",
        table="onceward.users",
        columns={"email": "whole", "user_id": "whole", "name": "text"},
        erase=close_accounts,
        # Members of the organization; for the instance, all accounts that are not erased yet.
        scope="(exists (select from onceward.memberships o where o.user_id = t.user_id and o.organization_id = "
        "$1::uuid)"
        " or $1::uuid is null and t.email <> 'erased-' || t.user_id || '@invalid')",
        key="t.user_id",
        names=("email", "user_id"),
        linked="lower(t.email) = any($2) or t.user_id = any($5)",
    ),
    Eraser(
        name="api keys",
        table="onceward.api_keys",
        columns={"name": "text", "created_by": "text"},
        blank={"name": "'erased'", "created_by": "'erased'"},
    ),
    Eraser(
        name="system metrics",
        table="onceward.system_metrics",
        columns={"user_id": "whole", "metadata": "json"},
        blank={"user_id": "null", "metadata": """'{"erased": true}'"""},
        scope=INSTANCE,
    ),
    Eraser(
        name="audit entries",
        table="onceward.audit_log",
        columns={
            "actor": "text",
            "user_id": "whole",
            "entity_id": "text",
            "reason": "text",
            "changes": "json",
            "metadata": "json",
        },
        erase=blank_entries,
        key="t.id",
    ),
)

UNSEARCHED: dict[str, str] = {
    "onceward.configured.*": "names and ids of sources, endpoints and keys in a configuration file",
    "onceward.erasures.*": "hashes of those who were erased",
    "onceward.erasure_scans.*": "a person who is being erased; the names are deleted when that has ended",
    "onceward.unfinished_commands.*": "names of commands and hosts",
    "onceward.memberships.*": "only ids; deleted with the account",
    "onceward.sessions.*": "hashes, and where the person signed in; deleted with the account and when the session ends",
    "onceward.second_factors.*": "encrypted secrets, public keys and names of devices; deleted with the account",
    "onceward.recovery_codes.*": "only hashes and ids; deleted with the account",
    "onceward.provider_accounts.*": "the id at the provider of single sign-on; deleted with the account",
    "onceward.login_links.*": "only hashes and ids; deleted with the account",
    "onceward.api_keys.prefix": "random",
    "onceward.api_keys.hash": "a hash",
    "onceward.api_keys.scopes": "a fixed set of values",
    "onceward.api_keys.apps": "names of apps",
    "onceward.api_keys.sources": "names of sources",
    "onceward.api_keys.addresses": "networks of the organization's servers, which its owner entered",
    "onceward.key_addresses.*": "the hash of an address, deleted after 90 days",
    "onceward.proofs.*": "names of checks, ids and hashes",
    "onceward.audit_log.action": "a name given by code",
    "onceward.audit_log.entity_type": "a name given by code",
    "onceward.audit_log.who_salt": "random; deleted with the salted fields",
    "onceward.audit_log.who_hash": "a salted hash; reveals nothing without the salt",
    "onceward.audit_log.content_salt": "random; deleted with the salted fields",
    "onceward.audit_log.content_hash": "a salted hash; reveals nothing without the salt",
    "onceward.audit_keys.*": "keys, encrypted",
    "onceward.audit_seals.*": "hashes",
    "onceward.auth_failures.*": "the hash of an address, deleted after an hour",
    "onceward.processes.*": "names of services, hosts and versions of our own processes",
    "onceward.privileges.*": "names of our own roles, tables and functions",
    "onceward.migrations.*": "names of files and their checksums",
    "onceward.functions.*": "names of files and their checksums",
    "onceward.organizations.*": "the tenant itself, which is renamed or deleted as a whole",
    "onceward.secrets.name": "a name given by code or an operator",
    "onceward.secrets.value": "encrypted; cannot be searched",
    "onceward.web_address.url": "the address of the server itself",
    "onceward.system_metrics.job_id": "an id of the engine",
    "onceward.system_metrics.subject": "the id of a thing of the app, such as a course, and never of a person",
}
