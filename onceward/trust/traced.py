"""Tables whose rows know what caused them, and how a row of each is shown in the tree of consequences.

A package adds a line for its table here. A table that does not exist (yet) is passed over; one that has `id` and
`caused_by` (both bigint) and no line is shown under its own name all the same, so nothing is left out of a tree.
"""

from __future__ import annotations

from dataclasses import dataclass

NOBODY = "'00000000-0000-0000-0000-000000000000'::uuid"
OWNERS = f"(array(select o.organization_id from onceward.organizations o) || onceward.organization() || {NOBODY})"
"""Whose keys are looked through: keys are unique per organization, so theirs come first in every index on one."""


@dataclass(frozen=True, slots=True)
class Name:
    """What else a row may be asked for by: `where` is SQL over `r` and the name `$1`, and an index answers it."""

    where: str
    uuid: bool = False
    """Only what looks like a UUID can be meant."""


def key(column: str = "key") -> Name:
    """A key that is unique per organization, under an index on (coalesce(organization_id, nobody), key)."""
    return Name(f"coalesce(r.organization_id, {NOBODY}) = any({OWNERS}) and r.{column} = $1")


@dataclass(frozen=True, slots=True)
class Traced:
    """`label`, `at` and `state` are SQL over the row `r`.

    `organization` is filled in from the catalogue.
    """

    table: str
    kind: str
    id: str = "id"
    caused_by: str = "caused_by"
    label: str = "''"
    at: str = "null"
    state: str = "null"
    names: tuple[Name, ...] = ()
    organization: str = "null"


TRACED: tuple[Traced, ...] = (
    Traced(
        "onceward.jobs",
        "job",
        label="r.task",
        at="r.created_at",
        names=(
            Name(
                f"r.id = any(array(select w.id from onceward.work w where w.unique_key = $1 and w.dead_reason is null"
                f" and coalesce(w.organization_id, {NOBODY}) = any({OWNERS})))"
            ),
        ),
    ),
    Traced(
        "onceward.webhook_events",
        "event",
        id="seq",
        label="r.provider || ' ' || r.type",
        at="r.received_at",
        state="r.status",
        names=(Name("r.id = $1::uuid", uuid=True), Name("r.seq = any(array(select onceward.events_named($1)))")),
    ),
    Traced(
        "onceward.messages",
        "message",
        label="r.template",
        at="r.created_at",
        names=(key(), Name("r.reference = $1")),
    ),
    Traced(
        "onceward.published",
        "publication",
        label="r.type",
        at="r.created_at",
        names=(Name("r.message_id = $1"), key()),
    ),
    Traced("onceward.deliveries", "delivery", label="r.type", at="r.created_at", state="r.status"),
    Traced("onceward.topic_messages", "broadcast", label="r.topic", at="r.created_at", state="'sent'"),
    Traced(
        "onceward.ledger_journals",
        "journal",
        label="r.kind || ' ' || r.key",
        at="r.created_at",
        state="'recorded'",
        names=(Name(f"r.organization_id = any({OWNERS}) and r.key = $1"),),
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
