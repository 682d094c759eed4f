"""Dead letters grouped by error. Replay or discard one, a group or all: dry run, then reason, then progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal, cast
from uuid import UUID

from onceward.db import DatabaseError, Transaction
from onceward.rehearsal import RehearsalError
from onceward.rehearsal.preview import Previews
from onceward.statements import read_statement
from onceward.trust import record
from onceward.trust.identity import Identity
from onceward.web.dashboard.action import Action, ActionRefused, Done, reason_of
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.site import Site, url
from onceward.web.exposure import ANYTHING, NOTHING
from onceward.work import dead_letters
from onceward.work.dead_letters import DeadLetter, DeadLetterFilter
from onceward.work.pages import replay_approval
from onceward.work.pages.replay_approval import Approval

AT_ONCE = 1_000
"""The most dead letters that one action changes. The operator repeats the action for more."""
SHOWN = 25

BATCH = read_statement("work", "page_replayed_batch")
MARK = "select coalesce(pg_sequence_last_value('onceward.ids'), 0)"
PAUSED = "select name from onceward.queues where paused_at is not null"


async def load(view: View) -> dict[str, Any]:
    conn = cast(Transaction, view.conn)
    groups = await dead_letters.groups(conn, organization=view.organization, most=dead_letters.GROUPED)
    counted = sum(group["count"] for group in groups)
    return {
        "title": "Dead letters",
        "groups": groups,
        "counted": counted,
        "more": counted >= dead_letters.GROUPED,
        "paths": view.site.contributed.paths,
    }


def filter_from(params: Mapping[str, str], organization: UUID | None) -> DeadLetterFilter:
    """Return the filter of a URL or form, limited to the organization."""
    ids = [int(part) for part in params.get("ids", "").split(",") if part.strip().isdigit() and len(part) < 19]

    def named(name: str) -> str | None:
        return params.get(name, "").strip() or None

    return DeadLetterFilter(
        ids=ids or None,
        kind=named("kind"),
        task=named("task"),
        reason=named("reason_is"),
        error=named("error"),
        organization=organization,
    )


def _described(filter: DeadLetterFilter) -> str:
    parts = [
        f"{len(filter.ids)} chosen by id"
        if filter.ids and len(filter.ids) > 1
        else f"#{filter.ids[0]}"
        if filter.ids
        else "",
        filter.kind or "",
        filter.task or "",
        f"ended with {filter.error}" if filter.error else "",
        f"because of {filter.reason}" if filter.reason else "",
    ]
    return ", ".join(part for part in parts if part) or "all dead letters"


async def _found(view: View) -> list[DeadLetter]:
    chosen = filter_from(view.params, view.organization)
    return await dead_letters.find(cast(Transaction, view.conn), chosen, limit=AT_ONCE + 1)


def _dry_run(view: View, verb: Literal["replay", "discard"], letters: list[DeadLetter]) -> dict[str, Any]:
    tasks: dict[str, int] = {}
    for letter in letters[:AT_ONCE]:
        tasks[letter.task] = tasks.get(letter.task, 0) + 1
    return {
        "title": f"{verb.capitalize()} dead letters",
        "verb": verb,
        "described": _described(filter_from(view.params, view.organization)),
        "found": letters[:SHOWN],
        "count": min(len(letters), AT_ONCE),
        "more": len(letters) > AT_ONCE,
        "tasks": tasks,
        "queues": sorted({letter.queue for letter in letters}),
        "paths": view.site.contributed.paths,
        "chosen_filter": {name: view.text(name, 4000) for name in ("ids", "kind", "task", "reason_is", "error")},
    }


async def load_replay(view: View) -> dict[str, Any]:
    """Load what would be replayed, and rehearse a sample of it: what the replay would do.

    The form names exactly these dead letters: what dies in the meantime was not shown.
    """
    found = await _found(view)
    loaded = _dry_run(view, "replay", found)
    shown = ",".join(str(letter.id) for letter in found[:AT_ONCE])
    loaded["chosen_filter"] = {"ids": shown}
    ids = [letter.id for letter in found[:AT_ONCE] if letter.kind in ("event", "job")]
    sends = len(found[:AT_ONCE]) - len(ids)
    if not ids:
        return {**loaded, "sends": sends}
    try:
        rehearsal = await view.site.context.part(Previews).of(ids, organization=view.organization)
    except (RehearsalError, DatabaseError) as error:
        return {**loaded, "sends": sends, "not_rehearsed": str(error)}
    rehearsal = replace(rehearsal, sends=sends)
    approval = replay_approval.seal(view.site.context.box, loaded["described"], rehearsal.text, shown)
    return {**loaded, "sends": sends, "rehearsal": rehearsal, "approval": approval}


async def load_discard(view: View) -> dict[str, Any]:
    return _dry_run(view, "discard", await _found(view))


async def load_progress(view: View) -> dict[str, Any]:
    """Load the states of a replayed batch: its entries in the audit log lie between two ids."""
    after, until = view.number("after") or 0, view.number("until") or 0
    rows = await view.conn.fetch(BATCH, after, until)
    states: dict[str, int] = {}
    for row in rows:
        states[row["state"]] = states.get(row["state"], 0) + 1
    queues = sorted({row["queue"] for row in rows if row["queue"] and row["state"] != "dead_letter"})
    paused: set[str] = set()
    if view.everything:
        paused = {row["name"] for row in await view.conn.fetch(PAUSED)}
    waiting = sum(states.get(state, 0) for state in ("pending", "retrying", "processing"))
    return {
        "title": "Replay in progress" if waiting else "Replay finished",
        "rows": rows[:200],
        "all": len(rows),
        "states": states,
        "waiting": waiting,
        "queues": queues,
        "paused": paused,
        "paths": view.site.contributed.paths,
        "reason": rows[0]["reason"] if rows else "",
    }


async def _replay(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    chosen, reason = _chosen(form, identity), reason_of(form)
    approval = form.get("approval", "").strip()
    if approval:
        await _note_approval(site, identity, replay_approval.opened(site.context.box, approval, form), reason)
    after = await site.database.fetchval(MARK)
    queues = {letter.queue for letter in await dead_letters.find(site.database, chosen, limit=AT_ONCE)}
    acted = await dead_letters.replay(site.database, chosen, actor=identity, reason=reason, limit=AT_ONCE)
    until = await site.database.fetchval(MARK)
    for queue in queues:
        site.engine.waker.wake(queue)
    return Done(url("/dashboard/dead-letters/progress", after=after, until=until), _message("replayed", acted))


async def _note_approval(site: Site, identity: Identity, approval: Approval, reason: str) -> None:
    """Record that the operator has seen a rehearsal and approves the replay."""
    async with site.database.transaction(role="engine") as tx:
        await record(
            tx,
            "dead_letter.replay_approved",
            entity_type="dead_letters",
            entity_id=approval.described[:200],
            metadata={"rehearsal": approval.rehearsal, "shown_at": approval.shown_at},
            actor=identity,
            reason=reason,
            organization=identity.organization,
        )


async def _discard(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    acted = await dead_letters.discard(
        site.database, _chosen(form, identity), actor=identity, reason=reason_of(form), limit=AT_ONCE
    )
    return Done("/dashboard/dead-letters", _message("discarded", acted))


def _chosen(form: Mapping[str, str], identity: Identity) -> DeadLetterFilter:
    chosen = filter_from(form, identity.organization)
    if not replace(chosen, organization=None).empty:
        return chosen
    if form.get("all") != "yes":
        raise ActionRefused("select dead letters, or choose all of them")
    # The engine requires a filter: `until` in the far future selects all. The organization stays set.
    return replace(chosen, until=datetime.max.replace(tzinfo=UTC))


def _message(verb: str, acted: dead_letters.Acted) -> str:
    message = f"{len(acted.done):,} {verb}."
    if acted.skipped:
        why = sorted(set(acted.skipped.values()))
        message += f" {len(acted.skipped):,} skipped: {', '.join(why)}."
    return message


PAGES = (
    Page(
        name="dead-letters",
        path="/dashboard/dead-letters",
        title="Dead letters",
        section="dead-letters",
        load=load,
        template="dead_letters.html",
        every_s=2.0,
    ),
    Page(
        name="replay",
        path="/dashboard/dead-letters/replay",
        title="Replay",
        section="dead-letters",
        load=load_replay,
        part="dry_run",
        template="dry_run.html",
        scope="operator",
        every_s=None,
    ),
    Page(
        name="discard",
        path="/dashboard/dead-letters/discard",
        title="Discard",
        section="dead-letters",
        load=load_discard,
        part="dry_run",
        template="dry_run.html",
        scope="operator",
        every_s=None,
    ),
    Page(
        name="progress",
        path="/dashboard/dead-letters/progress",
        title="Replay",
        section="dead-letters",
        load=load_progress,
        template="progress.html",
    ),
)
ACTIONS = (
    Action(path="/dashboard/dead-letters/replay", causes=ANYTHING, run=_replay),
    Action(path="/dashboard/dead-letters/discard", causes=NOTHING, run=_discard),
)
