"""Turn written rows into effects: a row of `jobs` is a job, a row of `messages` a message, and so on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from onceward import exact_json
from onceward.db import Connection
from onceward.errors import OncewardError
from onceward.messages import Templates, render
from onceward.messages.hours import zone_or_default
from onceward.rehearsal.effects import (
    AuditEffect,
    BroadcastEffect,
    CapacityEffect,
    Effects,
    EntryEffect,
    JobEffect,
    JournalEffect,
    LimitEffect,
    MessageEffect,
    PublishedEffect,
    RowChange,
)
from onceward.rehearsal.mask import masked
from onceward.rehearsal.row_changes import Written, WrittenRow

Row = Mapping[str, Any]

OF_EFFECTS = frozenset(
    f"onceward.{name}"
    for name in [
        "jobs",
        "work",
        "messages",
        "published",
        "deliveries",
        "topic_messages",
        "ledger_journals",
        "ledger_entries",
        "audit_log",
        "capacity_claims",
    ]
)
"""Tables whose new rows are shown as effects. Their changed rows are shown as rows."""
BOOKKEEPING = frozenset(
    f"onceward.{name}"
    for name in [
        "attempts",
        "audit_pending",
        "bundles",
        "capacity_pools",
        "capacity_totals",
        "capacity_units",
        "claims",
        "current_templates",
        "digest_entries",
        "feed",
        "feed_life",
        "feed_marks",
        "feed_state",
        "ledger_bounds",
        "ledger_checkpoints",
        "ledger_drawn",
        "ledger_horizon",
        "ledger_marks",
        "ledger_pending",
        "lanes",
        "prune_later",
        "prune_marks",
        "rates",
        "send_slots",
        "system_metrics",
        "templates",
        "unique_keys",
        "unserved",
        "usage",
        "webhook_counts",
        "workflow_rates",
    ]
)
"""Tables of the engine that follow from the effects and say nothing new."""

SLOTS = "onceward.limit_slots"
ACCOUNTS = "select id, code from onceward.ledger_accounts where id = any($1::bigint[])"
POOLS = "select id, key from onceward.capacity_pools where id = any($1::bigint[])"
NOW = "select onceward.now()"


async def effects_of(
    conn: Connection, written: Written, *, templates: Templates, existing: Sequence[Any], outside: Sequence[Any]
) -> Effects:
    """Return what the rows mean. The transaction is still open, so names of what it created are found too."""
    rows = written.rows
    new: dict[str, list[Row]] = {}
    for row in rows:
        if row.before is None and row.after is not None:
            new.setdefault(row.table, []).append(row.after)
    now: datetime = await conn.fetchval(NOW)
    work = {row["id"]: row for row in new.get("onceward.work", ())}
    jobs = [_job(row, work.get(row["id"], {}), now) for row in _sorted(new.get("onceward.jobs", ()))]
    messages = [_message(row, templates) for row in _sorted(new.get("onceward.messages", ()))]
    deliveries = [row["caused_by"] for row in new.get("onceward.deliveries", ())]
    published = [_published(row, deliveries.count(row["id"])) for row in _sorted(new.get("onceward.published", ()))]
    topics = [BroadcastEffect(row["topic"], row["payload"]) for row in _sorted(new.get("onceward.topic_messages", ()))]
    return Effects(
        rows=tuple(sorted(_changes(rows), key=_order)),
        jobs=(*jobs, *_of(existing, JobEffect)),
        messages=(*messages, *_of(existing, MessageEffect)),
        published=(*published, *_of(existing, PublishedEffect)),
        broadcasts=tuple(topics),
        journals=(*await _journals(conn, new), *_of(existing, JournalEffect)),
        audit=tuple(_audit(row) for row in _sorted(new.get("onceward.audit_log", ()))),
        capacity=await _capacity(conn, rows),
        limits=_limits(rows),
        outside=tuple(outside),
        unseen={name: count for name, count in written.unseen.items() if name not in BOOKKEEPING},
    )


def _of(effects: Iterable[Any], kind: type) -> list[Any]:
    return [each for each in effects if isinstance(each, kind)]


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["id"])


def _changes(rows: Iterable[WrittenRow]) -> list[RowChange]:
    changes: list[RowChange] = []
    for row in rows:
        if row.table in BOOKKEEPING or row.table in ("onceward.capacity_claims", SLOTS):
            continue
        if row.table in OF_EFFECTS and row.before is None:
            continue
        if (change := row.change()) is not None:
            changes.append(change)
    return changes


def _order(change: RowChange) -> tuple[str, str, str]:
    return (change.table, change.verb, str((dict(change.key), dict(change.before), dict(change.after))))


def _job(row: Row, work: Row, now: datetime) -> JobEffect:
    due = work.get("sort_at")
    delay_s = 0 if due is None else max(0, round((datetime.fromisoformat(due) - now).total_seconds()))
    key: str | None = work.get("unique_key")
    return JobEffect(row["task"], row["args"], work.get("queue"), key and key.removeprefix(f"{row['task']}:"), delay_s)


def _message(row: Row, templates: Templates) -> MessageEffect:
    subject, text = "", ""
    try:
        rendered = render(
            templates.get(row["template"]),
            row["data"] or {},
            locale=row["locale"],
            zone=zone_or_default(row["timezone"], "UTC"),
            channel=row["channel"],
        )
        subject, text = rendered.subject, rendered.text
    except OncewardError as error:
        text = f"(cannot be rendered: {error})"
    recipient = masked(row["recipient"])
    return MessageEffect(row["template"], row["channel"], recipient, row["key"], subject, text)


def _published(row: Row, endpoints: int) -> PublishedEffect:
    body = exact_json.loads(bytes.fromhex(row["body"][2:]).decode())
    return PublishedEffect(row["type"], data_of(body), row["key"], endpoints)


def data_of(body: Any) -> Any:
    """Return the data in the body of a published event."""
    return cast("dict[str, Any]", body).get("data", body) if isinstance(body, dict) else body


def _limits(rows: Iterable[WrittenRow]) -> tuple[LimitEffect, ...]:
    held = Counter(row.after["key"] for row in rows if row.table == SLOTS and row.after is not None)
    return tuple(LimitEffect(key, slots) for key, slots in sorted(held.items()))


def _audit(row: Row) -> AuditEffect:
    return AuditEffect(row["action"], row["entity_type"], row["entity_id"], row["changes"], row["reason"])


async def _journals(conn: Connection, new: Mapping[str, Sequence[Row]]) -> list[JournalEffect]:
    journals = new.get("onceward.ledger_journals", ())
    if not journals:
        return []
    entries = new.get("onceward.ledger_entries", ())
    ids = {entry[side] for entry in entries for side in ("debit_id", "credit_id")}
    codes = {row["id"]: row["code"] for row in await conn.fetch(ACCOUNTS, list(ids))}
    found: list[JournalEffect] = []
    for journal in _sorted(journals):
        own = [entry for entry in _sorted(entries) if entry["journal_id"] == journal["id"]]
        found.append(
            JournalEffect(
                journal["key"],
                journal["kind"],
                tuple(
                    EntryEffect(codes[e["debit_id"]], codes[e["credit_id"]], e["amount"], e["currency"]) for e in own
                ),
                journal["memo"],
            )
        )
    return found


async def _capacity(conn: Connection, rows: Iterable[WrittenRow]) -> tuple[CapacityEffect, ...]:
    claims = [row for row in rows if row.table == "onceward.capacity_claims" and row.after is not None]
    if not claims:
        return ()
    pools = {
        row["id"]: row["key"] for row in await conn.fetch(POOLS, [row.after["pool_id"] for row in claims if row.after])
    }
    effects: list[CapacityEffect] = []
    for claim in claims:
        after, before = claim.after or {}, claim.before
        was = None if before is None else before["state"]
        if was != after["state"] or before is None:
            effects.append(
                CapacityEffect(pools[after["pool_id"]], after["state"], after["quantity"], after["unit"], was)
            )
    order: Callable[[CapacityEffect], str] = repr
    return tuple(sorted(effects, key=order))
