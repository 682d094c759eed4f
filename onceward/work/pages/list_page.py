"""The list page of every kind of work, newest first. The URL contains the filters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from onceward.desk.files import has_xlsx
from onceward.desk.saved_views import views_of
from onceward.web.dashboard import pagination
from onceward.web.dashboard.page import Loader, View
from onceward.web.dashboard.pagination import LONGER, LONGER_S, PAGE
from onceward.windows import MOST_EXAMINED, MOST_JOINED, Walked, walk
from onceward.work.pages.listing import UNFINISHED, Listing

SPANS = {"15m": timedelta(minutes=15), "1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7)}
OPEN_FOR = timedelta(minutes=10)
"""The assumed longest transaction: its rows have the time of its start, but ids that were assigned later."""

ESTIMATE = "select reltuples::float8 from pg_class where oid = $1::regclass"


def list_loader(kind: Listing) -> Loader:
    async def load(view: View) -> dict[str, Any]:
        longer = bool(view.text("longer"))
        walked = await read_list(
            kind,
            view,
            before=view.number("before"),
            times=LONGER if longer else 1,
            budget_s=LONGER_S if longer else pagination.BUDGET_S,
        )
        filtered = any(view.text(name) for name in ("state", "q", "since", "until", "span", *kind.facets))
        estimate = await view.conn.fetchval(ESTIMATE, kind.table) if view.everything else None
        return {
            "title": kind.slug.capitalize(),
            "kind": kind,
            "rows": walked.rows,
            "next": walked.next,
            "unfinished": walked.unfinished,
            "filtered": filtered,
            "estimate": estimate if estimate is not None and estimate > 10_000 else None,
            "tail": view.number("before") is None,
            "views": await views_of(view, kind.list_name),
            "has_xlsx": has_xlsx(),
        }

    return load


async def read_list(
    kind: Listing, view: View, *, before: int | None, want: int = PAGE, times: int = 1, budget_s: float | None = None
) -> Walked:
    """Return the rows that match the filters of an address. `times` as many rows are examined as for a page."""
    state = view.text("state") if view.text("state") in kind.states else ""
    where, args = _conditions(kind, view, is_unfinished=state in UNFINISHED)
    since, until = _range(view)
    oldest = 0
    if since is not None:
        oldest = await view.conn.fetchval("select onceward.id_at($1)", since - OPEN_FOR)
        args.append(since)
        where += f" and {kind.at} >= ${len(args) + 3}::timestamptz"
    if until is not None:
        latest = await view.conn.fetchval("select onceward.id_at($1)", until + OPEN_FOR)
        before = latest if before is None else min(before, latest)
        args.append(until)
        where += f" and {kind.at} < ${len(args) + 3}::timestamptz"
    is_joined = bool(state) or "w." in where or bool(kind.joins and view.text("q"))
    return await walk(
        view.conn,
        kind.listing(state=state, where=where),
        *args,
        windows=kind.windows(view.organization, state=state),
        want=want,
        before=before,
        oldest=oldest,
        most=times * (MOST_JOINED if is_joined else MOST_EXAMINED),
        budget_s=budget_s,
    )


def _conditions(kind: Listing, view: View, *, is_unfinished: bool) -> tuple[str, list[Any]]:
    """Return the filters as SQL with arguments. `walk` uses $1 to $3."""
    parts: list[str] = []
    args: list[Any] = []
    for name, sql in kind.facets.items():
        value = view.text(name)
        if not value or ("::uuid" in sql and not _is_uuid(value)):
            continue
        args.append(value)
        parts.append(sql.format(f"${len(args) + 3}::text"))
    if view.organization is not None:
        # Row-level security alone would read the rows of all organizations: it cannot use an index.
        args.append(view.organization)
        place = f"${len(args) + 3}::uuid"
        parts.append(f"r.organization_id = {place}" + (f" and w.organization_id = {place}" if is_unfinished else ""))
    q = view.text("q")
    if q:
        args.append(q)
        place = f"${len(args) + 3}::text"
        by_key = kind.by_key.format(place) if kind.by_key else f"({kind.key})::text = {place}"
        named = f"({kind.label}) like {place} || '%' or {by_key} or ({kind.about})::text = {place}"
        parts.append(f"({named} or r.{kind.id}::text = {place})")
    return "".join(f" and {part}" for part in parts), args


def _range(view: View) -> tuple[datetime | None, datetime | None]:
    span = SPANS.get(view.text("span"))
    if span is not None:
        return datetime.now(UTC) - span, None
    return _moment(view.text("since")), _moment(view.text("until"))


def _moment(text: str) -> datetime | None:
    """Return the UTC time from an `<input type=datetime-local>`, or None for other text."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
