"""Tables whose rows know what caused them, and how a row of each is shown in the tree of consequences.

A package adds a line for its table here. A table that does not exist (yet) is passed over; one that has `id` and
`caused_by` (both bigint) and no line is shown under its own name all the same, so nothing is left out of a tree.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Traced:
    """`label`, `at` and `state` are SQL over the row `r`; `names` are columns a row may also be asked for by.

    `organization` is filled in from the catalogue.
    """

    table: str
    kind: str
    id: str = "id"
    caused_by: str = "caused_by"
    label: str = "''"
    at: str = "null"
    state: str = "null"
    names: tuple[str, ...] = ()
    organization: str = "null"


TRACED: tuple[Traced, ...] = (
    Traced("onceward.jobs", "job", label="r.task", at="r.created_at"),
    Traced(
        "onceward.webhook_events",
        "event",
        id="seq",
        label="r.provider || ' ' || r.type",
        at="r.received_at",
        state="r.status",
        names=("id", "event_id"),
    ),
    Traced("onceward.messages", "message", label="r.template", at="r.created_at"),
    Traced("onceward.published", "publication", label="r.type", at="r.created_at", names=("message_id",)),
    Traced("onceward.deliveries", "delivery", label="r.type", at="r.created_at", state="r.status"),
    Traced("onceward.topic_messages", "broadcast", label="r.topic", at="r.created_at", state="'sent'"),
    Traced(
        "onceward.ledger_journals", "journal", label="r.kind || ' ' || r.key", at="r.created_at", state="'recorded'"
    ),
    Traced("onceward.capacity_claims", "claim", label="r.holder", at="r.claimed_at", state="r.state"),
    Traced("onceward.notices", "notice", label="r.type", at="r.created_at"),
    Traced("onceward.workflows", "workflow", label="r.name", at="r.created_at", state="r.state"),
    Traced("onceward.audit_log", "audit", label="r.action", at="r.at", state="'recorded'"),
)

LABELS = ("label", "name", "task", "type", "template", "action", "key", "kind")
TIMES = ("created_at", "at", "received_at", "posted_at", "started_at")
STATES = ("state", "status")
"""What a table without a line is shown by: the first of these columns that it has."""
