"""How each table of the feature `trust` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.organizations": "kept: one row for each organization",
    "onceward.users": "kept: people, until they are erased",
    "onceward.memberships": "kept: one row for each user and organization",
    "onceward.configured": "kept: one row for each entry of the file of `onceward apply`",
    "onceward.sql_logins": "kept: configuration",
    "onceward.api_keys": "kept: created by operators",
    "onceward.key_addresses": "deleted by `expired logins`",
    "onceward.sessions": "deleted by `expired logins`",
    "onceward.login_links": "unused ones are deleted by `expired logins`; used ones stay, as evidence",
    "onceward.second_factors": "kept: a few rows for each user",
    "onceward.recovery_codes": "kept: a few rows for each user",
    "onceward.provider_accounts": "kept: a few rows for each user",
    "onceward.web_address": "one row",
    "onceward.auth_failures": "deleted by `expired logins`",
    "onceward.secrets": "kept: configuration",
    "onceward.unfinished_commands": "deleted when the command has ended",
    "onceward.audit_log": "kept for ever: evidence",
    "onceward.audit_pending": "deleted by the sealer",
    "onceward.audit_keys": "kept for ever: one row for each rotation",
    "onceward.audit_seals": "kept for ever: evidence",
    "onceward.proofs": "kept: one row for each check",
    "onceward.system_metrics": "deleted by `expired logins` after ONCEWARD_RETENTION_DAYS, 30 at least",
    "onceward.erasures": "kept for ever: hashes of those who were erased",
    "onceward.erasure_scans": "kept: one row for each erasure; the names are deleted when it has ended",
}
