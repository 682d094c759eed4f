"""How each table of the feature `messages` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.notices": "deleted by `old notifications` after ONCEWARD_RETENTION_DAYS, when sent",
    "onceward.templates": "kept: one row for each version of a template",
    "onceward.current_templates": "kept: one row for each template",
    "onceward.recipients": "kept: people, until they are erased",
    "onceward.opt_outs": "kept for ever: the will of a person",
    "onceward.consents": "kept for ever: the proof of what a person decided; a repeated decision adds no row",
    "onceward.notifications": (
        "deleted by `old notifications` after ONCEWARD_RETENTION_DAYS; those with a key stay, against duplicates"
    ),
    "onceward.messages": (
        "stripped by `old messages` after ONCEWARD_RETENTION_DAYS; the key stays, so that no message is sent twice"
    ),
    "onceward.senders": "kept: configuration",
    "onceward.preference_links": "deleted by `old notifications` ONCEWARD_RETENTION_DAYS after they expired",
    "onceward.digest_choices": "kept: the will of a person, until it is erased",
    "onceward.digest_entries": "deleted by `old notifications` after ONCEWARD_RETENTION_DAYS, when ended",
    "onceward.suppressions": "kept: an address that bounced stays suppressed until an operator removes it",
    "onceward.mail_domains": "kept: configuration",
    "onceward.service_states": "kept: one row for each approved text, number and account",
    "onceward.dashboard_messages": "deleted by `old notifications` after ONCEWARD_RETENTION_DAYS",
    "onceward.account_troubles": "one row for each refused account or template, until it is repaired",
    "onceward.send_slots": "deleted by `old send slots` every hour",
}
